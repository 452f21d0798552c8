"""The campaign of every device of the lab, made and published: ``python -m v6t.tests.zoo DIRECTORY``.

What was interrupted is continued. What came to its end is kept beside the new one as ``DIRECTORY.before``;
with ``--resume`` only what failed is made again, and what the campaign has got since. Programs are those in
PATH, or of the variables that tests know (V6T_VPP, V6T_SNABB ...). With ``--machines`` devices that are
modules of the kernel, and OpenBSD, stand in virtual machines, as ``make test-jool`` and ``make test-openbsd``
have them.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from v6t.core.cli import main as command_line
from v6t.tests.drivers.matrix import MULTIQUEUE, NAMED
from v6t.tools.publish.__main__ import main as publish

CAMPAIGN, SUMMARY = "campaign.json", "summary.json"
PAGE = "docs/results"


def main(
    arguments: Sequence[str], call: Callable[[Sequence[str]], int] | None = None, page: str = PAGE
) -> int:
    """Make the campaign and its page.

    Args:
        arguments: of the command line.
        call: carries out one command of v6t, and says its exit status; None: in this process.
        page: where it is published.

    Returns:
        0 where the campaign came to its end, though runs of it failed: the page says which. Else the exit
        status of what did not.
    """
    parser = argparse.ArgumentParser(prog="python -m v6t.tests.zoo")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--machines", action="store_true")
    given = parser.parse_args(arguments)
    call = call or _command
    directory: Path = given.directory
    with named_programs(os.environ), _machines(given.machines):
        if (directory / SUMMARY).exists() and not given.resume:
            _keep(directory)
        (directory / SUMMARY).unlink(missing_ok=True)
        how = "--resume" if (directory / CAMPAIGN).exists() else "-o"
        status = call(["campaign", "--no-report", "zoo", how, str(directory)])
        if not (directory / SUMMARY).exists():
            return status or 1
    return call(["publish", str(directory), page])


def _keep(directory: Path) -> None:
    """Rename the directory as the previous one, and delete the one before."""
    before = directory.with_name(directory.name + ".before")
    shutil.rmtree(before, ignore_errors=True)
    directory.rename(before)


@contextlib.contextmanager
def named_programs(environment: Mapping[str, str]) -> Iterator[None]:
    """Put programs that variables name in PATH, by the names that drivers use."""
    path = os.environ.get("PATH", "")
    own = []
    with tempfile.TemporaryDirectory(prefix="v6t-programs-") as place:
        for device, (name, variable) in NAMED.items():
            # the other TAYGA stands in PATH under that name
            if device == MULTIQUEUE or not environment.get(variable):
                continue
            program = Path(environment[variable]).absolute()
            if (
                program.name == name
            ):  # VPP looks for its plugins beside itself, and not beside a link
                own.append(str(program.parent))
            else:
                with contextlib.suppress(FileExistsError):  # of two drivers
                    (Path(place) / name).symlink_to(program)
        os.environ["PATH"] = ":".join(dict.fromkeys([place, *own, path]))
        try:
            yield
        finally:
            os.environ["PATH"] = path


def _command(words: Sequence[str]) -> int:
    if words[0] == "publish":
        return publish(words[1:])
    try:
        command_line.main(list(words))
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else 1
    return 0


@contextlib.contextmanager
def _machines(asked: bool) -> Iterator[None]:
    """Replace the lab's Jool, nat46, ip6_tunnel and OpenBSD by virtual machines."""
    if not asked:
        yield
        return
    from v6t.core.runs import bench
    from v6t.tests.jool.vm import SharedMachine
    from v6t.tests.standins import find_shared_machine

    machines: dict[str, SharedMachine[Any]] = {}

    def end() -> None:
        while machines:
            machines.popitem()[1].stop()

    def make_device(run: Any, record_dir: Any = None) -> Any:
        """Run one machine at a time, since an idle one also uses a part of a core."""
        entry = find_shared_machine(run.driver.name, run.intent.technology)
        if entry is None:
            end()
            return namespaces(run, record_dir)
        name, make = entry
        if name not in machines:
            end()
            machines[name] = make()
        return machines[name].make_device(run.driver, run.intent, record_dir=record_dir)

    namespaces = bench.build_lab_device
    bench.build_lab_device = make_device
    atexit.register(end)
    try:
        yield
    finally:
        bench.build_lab_device = namespaces
        end()
        atexit.unregister(end)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
