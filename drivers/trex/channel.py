"""TRex's client: its installation, a Python that can import it, and the worker process that runs it."""

import base64
import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter
from v6t.base.errors import EnvironmentLacking, TesterError, UsageError
from v6t.drivers.lab.netns import enter_command
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.trex.interfaces import list_driver_files

CLIENT_DIRECTORY = Path("automation/trex_control_plane/interactive")  # TRex's Python client
DEFAULT_LOCATION = Path("/opt/trex")  # Has a folder for each version
DEADLINE_S = 20.0  # Longest time until the worker answers
_WATCH_S = 0.25  # Interval of calls of ``watch`` during a request
_BOOT = """\
import base64, json, sys, types
for name, text in json.loads(base64.b64decode(sys.stdin.readline())):
    module = types.ModuleType(name)
    module.__path__ = []
    if name != "__main__":
        sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
"""
"""The worker's modules arrive on the first line: nothing is installed on the remote host."""
_COMMON_MODULES = (
    "packets/checksum.py",
    "drivers/neighbours.py",
    "drivers/trex/port_driver.py",
    "drivers/trex/client/service.py",
    "drivers/trex/client/host.py",
    "drivers/trex/client/stats.py",
    "drivers/trex/client/rpc.py",
    *list_driver_files(),
    "drivers/trex/client/worker.py",
)
STL_MODULES = (*_COMMON_MODULES, "drivers/trex/client/stl.py")
"""The worker for streams: modules in the order in which they are imported, the program last."""
ASTF_MODULES = (*_COMMON_MODULES, "drivers/trex/client/astf.py")  # The worker for TCP connections
_ANSWER_START = b'{"id": '
_HINTS = {  # By kind of the worker's error
    "taken": "wait for its owner, or take it with force: true",
    "server": "check that t-rex-64 still runs on its host and start it again",
}
_Parsed = TypeVar("_Parsed")


def parse_answer(kind: type[_Parsed], answer: Any) -> _Parsed:
    """Make a dataclass of :mod:`v6t.drivers.trex.client.stats` from a worker's answer."""
    return TypeAdapter(kind).validate_python(answer)


class WorkerError(TesterError):
    """Error of a worker's request; ``kind`` is the kind of the worker's exception."""

    def __init__(self, message: str, kind: str, *, code: str) -> None:
        super().__init__(message, _HINTS.get(kind, ""), code=code)
        self.kind = kind


class ClientWorker:
    """A process with TRex's client, on this host or on another one over SSH.

    Args:
        python: interpreter to use (3.8 to 3.13).
        remote: host to run on; None: this one.
        namespace_pid: run inside the network namespace of this process.
        modules: :data:`STL_MODULES` or :data:`ASTF_MODULES`.

    Attributes:
        process: process of the worker, or of the SSH client that runs it.

    Raises:
        TesterError: the interpreter cannot be started.
    """

    def __init__(
        self,
        python: str,
        *,
        remote: SshClient | None = None,
        namespace_pid: int | None = None,
        modules: Sequence[str] = STL_MODULES,
    ) -> None:
        program: Sequence[str] = [python, "-u", "-c", _BOOT]
        self._hint = ""
        if remote is not None:
            program = remote.make_command(program)
            self._hint = f"check the SSH server on {remote.host} and tester.options.ssh"
        packed = _pack_modules(modules)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        try:
            self.process = subprocess.Popen(
                [*enter_command(namespace_pid), *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,  # Ctrl-C is for v6t, which then ends the worker in order
            )
        except OSError as exc:
            self._stderr.close()
            raise TesterError(f"{python}: {exc.strerror or exc}", code="worker-failed") from exc
        self._input: Any = self.process.stdin
        self._output: Any = self.process.stdout
        self._number = 0
        self._pending = b""
        self._write(packed + b"\n")

    def ask(
        self,
        op: str,
        /,
        deadline_s: float = DEADLINE_S,
        watch: Callable[[], None] | None = None,
        **arguments: Any,
    ) -> Any:
        """Send a request and wait for its answer.

        Args:
            op: the worker's method.
            deadline_s: longest wait [s].
            watch: called several times a second during the wait; may raise.
            arguments: arguments of the method, as JSON values.

        Raises:
            WorkerError: the request failed.
            TesterError: the worker died, or did not answer in time.
        """
        self._number += 1
        self._write(json.dumps({"id": self._number, "op": op, **arguments}).encode("ascii") + b"\n")
        until = time.monotonic() + deadline_s
        answer, noise = {"id": 0}, b""
        while answer["id"] < self._number:  # an older one is to a request that was given up
            if (line := self._read_line(until, watch)) is None:
                text = f"TRex did not answer '{op}' within {deadline_s:g} s"
                if noise:
                    text += f"; the login shell printed {noise.decode(errors='replace')!r}"
                raise TesterError(text, code="timeout")
            if line.startswith(_ANSWER_START):
                answer = json.loads(line)
            else:  # a login shell or a wrapper printed it
                noise = line
        if "error" in answer:
            raise WorkerError(f"TRex: {answer['error']}", str(answer["kind"]), code="tester-fault")
        return answer["ok"]

    def close(self, deadline_s: float = 5.0) -> None:
        """Release the ports within ``deadline_s`` and end the process. May be called twice."""
        if not self._input.closed:
            with contextlib.suppress(TesterError):  # it is dead or hangs
                self.ask("close", deadline_s)
            with contextlib.suppress(OSError):
                self._input.close()
        for end in (self.process.terminate, self.process.kill, lambda: None):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=2)
                break
            end()
        self._stderr.close()

    def _write(self, line: bytes) -> None:
        if self._input.closed:
            raise TesterError("the TRex worker is closed", code="worker-failed")
        try:
            self._input.write(line)
            self._input.flush()
        except OSError as exc:
            raise self._make_death_error() from exc

    def _read_line(self, until: float, watch: Callable[[], None] | None) -> bytes | None:
        """Read the next line of the worker's output; return None if none comes in time."""
        while b"\n" not in self._pending:
            if (left := until - time.monotonic()) <= 0:
                return None
            if not select.select([self._output], [], [], min(left, _WATCH_S))[0]:
                if watch is not None:
                    watch()
            elif block := self._output.read1(1 << 20):
                self._pending += block
            else:
                raise self._make_death_error()
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _make_death_error(self) -> TesterError:
        words = "it closed its output"
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(timeout=5)
            self._stderr.seek(0)
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            words = lines[-1] if lines else f"status {status}"
        return TesterError(f"the TRex worker died: {words}", self._hint, code="worker-failed")


def _pack_modules(paths: Sequence[str]) -> bytes:
    """Encode the worker's modules for the first line of its input."""
    top = Path(__file__).parents[2]
    texts = {f"v6t.{p[:-3]}".replace("/", "."): (top / p).read_text("utf-8") for p in paths}
    packages = {name[:at] for name in texts for at in range(len(name)) if name[at] == "."}
    modules = [[package, ""] for package in sorted(packages)] + [[*item] for item in texts.items()]
    modules[-1][0] = "__main__"
    return base64.b64encode(json.dumps(modules).encode("ascii"))


def read_version(installation: Path) -> str:
    """Read the version from the directory's name or the VERSION file.

    In a source tree TRex runs from ``scripts``, and VERSION is one folder up.
    """
    if match := re.search(r"v\d+\.\d+", installation.resolve().name):
        return match.group()
    for folder in (installation, installation.resolve().parent):
        with contextlib.suppress(OSError):
            if version := (folder / "VERSION").read_text(encoding="utf-8").strip():
                return version
    return "unknown"


def find_installation(trex_dir: str = "") -> Path:
    """Return the directory of ``t-rex-64``: ``trex_dir``, ``$TREX_DIR`` or the newest /opt/trex/v*.

    Raises:
        UsageError: ``trex_dir`` or ``$TREX_DIR`` does not contain TRex.
        EnvironmentLacking: none of the three is there.
    """
    if location := trex_dir or os.environ.get("TREX_DIR", ""):
        path = Path(location).expanduser()
        for part in ("t-rex-64", CLIENT_DIRECTORY / "trex" / "stl"):
            if not (path / part).exists():
                source = "trex_dir" if trex_dir else "TREX_DIR"
                problem = f"{path}, from {source}, does not contain {part}"
                hint = "name the directory that holds it"
                raise UsageError(problem, hint, code="missing-installation")
        return path
    if not (folders := [p.parent for p in DEFAULT_LOCATION.glob("v*/t-rex-64")]):
        problem = "no TRex found: neither trex_dir, TREX_DIR nor /opt/trex/v* names an installation"
        hint = "set TREX_DIR to the directory with t-rex-64, or use --tester embedded or sim"
        raise EnvironmentLacking(problem, hint, code="missing-program")
    return max(folders, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])


def list_interpreters(python: str = "") -> list[str]:
    """List Python interpreters that may import TRex's client, in the order in which they are tried."""
    if python:
        return [python]
    minors = [f"python3.{minor}" for minor in (11, 10, 12, 9, 8, 13)]
    known = [sys.executable, *(shutil.which(n) or "" for n in ("python3", *minors))]
    return list(dict.fromkeys(p for p in known if p))


_imported: dict[tuple[Path, str], str] = {}  # Interpreters by installation and option


def start_client(
    installation: Path, python: str, start: Callable[[str], ClientWorker], deadline_s: float
) -> tuple[ClientWorker, dict[str, Any]]:
    """Start a worker in the first interpreter that can import TRex's client; return its facts, too.

    Raises:
        EnvironmentLacking: no interpreter can; the message holds the last reason.
    """
    known = _imported.get((installation, python))
    reason = "no Python found"
    directory = str(installation.resolve())
    for candidate in list_interpreters(python) if known is None else [known]:
        with contextlib.ExitStack() as stack:
            try:
                worker = stack.enter_context(contextlib.closing(start(candidate)))
                facts = worker.ask("import_client", trex_dir=directory, deadline_s=deadline_s)
            except TesterError as exc:
                reason = f"{candidate}: {exc.message}"
            else:
                stack.pop_all()
                _imported[installation, python] = candidate
                return worker, facts
    problem = f"no Python could import TRex's client from {installation}: {reason}"
    hint = "name one of version 3.8 to 3.13 with the option python"
    raise EnvironmentLacking(problem, hint, code="missing-program")
