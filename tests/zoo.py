"""Run the campaign ``zoo``, which has every device of the lab, and publish its results page."""

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


def run_command(words: Sequence[str]) -> int:
    """Run a command of v6t, or ``publish``, in this process and return its exit status."""
    if words[0] == "publish":
        return publish(words[1:])
    try:
        command_line.main(list(words))
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else 1
    return 0


def main(
    arguments: Sequence[str], run: Callable[[Sequence[str]], int] = run_command, page: str = PAGE
) -> int:
    """Start or resume the campaign and publish its page.

    Args:
        arguments: arguments of the command line.
        run: runs a command and returns its exit status.
        page: directory of the results page.

    Returns:
        The exit status of an unfinished campaign, or else that of ``publish``. A campaign with failed runs
        is finished; the page lists the failures.
    """
    parser = argparse.ArgumentParser(
        prog="python -m v6t.tests.zoo",
        description="Run every device of the lab with every technology, and publish the results page. "
        "An unfinished campaign is resumed. Programs come from PATH or from variables such as V6T_VPP.",
    )
    parser.add_argument(
        "directory",
        type=Path,
        help="directory of the campaign; a finished one is first renamed to DIRECTORY.before",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep a finished campaign, and repeat failed runs and add new ones",
    )
    parser.add_argument(
        "--machines",
        action="store_true",
        help="run kernel modules and OpenBSD in virtual machines",
    )
    options = parser.parse_args(arguments)
    directory: Path = options.directory
    machines = use_virtual_machines() if options.machines else contextlib.nullcontext()
    with add_programs_to_path(os.environ), machines:
        if (directory / SUMMARY).exists() and not options.resume:
            rename_to_previous(directory)
        (directory / SUMMARY).unlink(missing_ok=True)
        output = "--resume" if (directory / CAMPAIGN).exists() else "-o"
        status = run(["campaign", "--no-report", "zoo", output, str(directory)])
        if not (directory / SUMMARY).exists():
            return status or 1
    return run(["publish", str(directory), page])


def rename_to_previous(directory: Path) -> None:
    """Add ``.before`` to the name of a directory, and delete the directory that had that name."""
    previous = directory.with_name(directory.name + ".before")
    shutil.rmtree(previous, ignore_errors=True)
    directory.rename(previous)


@contextlib.contextmanager
def add_programs_to_path(environment: Mapping[str, str]) -> Iterator[None]:
    """Add the programs named by variables to PATH, under the names that drivers use."""
    path = os.environ.get("PATH", "")
    folders = []
    with tempfile.TemporaryDirectory(prefix="v6t-programs-") as links:
        for device, (name, variable) in NAMED.items():
            # PATH must keep the TAYGA without workers
            if device == MULTIQUEUE or not environment.get(variable):
                continue
            program = Path(environment[variable]).absolute()
            if program.name == name:  # VPP finds its plugins relative to its path, not to a link
                folders.append(str(program.parent))
            else:
                with contextlib.suppress(FileExistsError):  # two drivers may share a program
                    (Path(links) / name).symlink_to(program)
        os.environ["PATH"] = ":".join(dict.fromkeys([links, *folders, path]))
        try:
            yield
        finally:
            os.environ["PATH"] = path


@contextlib.contextmanager
def use_virtual_machines() -> Iterator[None]:
    """Run kernel modules and OpenBSD in virtual machines, and other devices in namespaces."""
    from v6t.core.config import run_setup
    from v6t.tests.jool.vm import SharedMachine
    from v6t.tests.standins import find_shared_machine

    machines: dict[str, SharedMachine[Any]] = {}

    def stop_machine() -> None:
        while machines:
            machines.popitem()[1].stop()

    def make_device(run: Any, record_dir: Any = None) -> Any:
        """Run one machine at a time, since an idle one also uses CPU time."""
        entry = find_shared_machine(run.driver.name, run.intent.technology)
        if entry is None:
            stop_machine()
            return make_namespace_device(run, record_dir)
        name, make = entry
        if name not in machines:
            stop_machine()
            machines[name] = make()
        return machines[name].make_device(run.driver, run.intent, record_dir=record_dir)

    make_namespace_device = run_setup.build_lab_device
    run_setup.build_lab_device = make_device
    atexit.register(stop_machine)
    try:
        yield
    finally:
        run_setup.build_lab_device = make_namespace_device
        stop_machine()
        atexit.unregister(stop_machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
