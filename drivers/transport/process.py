"""Commands run by a local program, here or elsewhere, and transports to this machine and its namespaces."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.transport import contract
from v6t.drivers.transport.command_log import log_start, run_logged
from v6t.drivers.transport.redaction import ENABLE_PASSWORD, LOGIN_PASSWORD, shorten_command

Process = subprocess.Popen[bytes]
NO_VARIABLES: Mapping[str, str] = {}


def build_clean_environment() -> dict[str, str]:
    """Return the environment of this process without passwords."""
    return {k: v for k, v in os.environ.items() if k not in (LOGIN_PASSWORD, ENABLE_PASSWORD)}


def start_process(program: Sequence[str], variables: Mapping[str, str] = NO_VARIABLES) -> Process:
    """Start a program with piped standard streams, in a new session so that Ctrl-C does not reach it."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**build_clean_environment(), **variables}
    return subprocess.Popen(list(program), start_new_session=True, env=environment, **pipes)


def run_program(
    program: Sequence[str],
    text: str,
    limit_s: float,
    name: str,
    command: str,
    hint: str = "",
    variables: Mapping[str, str] = NO_VARIABLES,
) -> tuple[int, bytes, bytes]:
    """Run a program with a text as its standard input; return its status, output and error.

    ``variables`` are added to its environment.

    Raises:
        DeadlinePassed: the program was killed after ``limit_s`` seconds; the message has the device's
            ``name`` and the ``command``.
        DutError: the program printed too much.
    """
    process, end = start_process(program, variables), time.monotonic() + limit_s
    try:
        out, err = _communicate(process, text.encode(), end)
        return process.wait(max(0.0, end - time.monotonic())), out, err
    except BaseException as exc:
        kill(process)
        if not isinstance(exc, subprocess.TimeoutExpired):
            raise
        problem = f"{name}: a command did not end within {limit_s:g} s: {shorten_command(command)}"
        raise contract.DeadlinePassed(problem, hint, code="timeout") from exc


def _communicate(process: Process, text: bytes, end: float) -> tuple[bytes, bytes]:
    """Communicate like :meth:`subprocess.Popen.communicate`, with a limit of the output."""
    stdin, out, err = process.stdin, process.stdout, process.stderr
    if stdin is None or out is None or err is None:
        raise ValueError("a process without its three pipes")
    outputs = {pipe.fileno(): bytearray() for pipe in (out, err)}
    output, errors = outputs.values()
    with selectors.DefaultSelector() as ready:
        ready.register(out, selectors.EVENT_READ, out)
        ready.register(err, selectors.EVENT_READ, err)
        os.set_blocking(stdin.fileno(), False)
        ready.register(stdin, selectors.EVENT_WRITE, stdin)
        while ready.get_map():
            if (left := end - time.monotonic()) <= 0:
                raise subprocess.TimeoutExpired(process.args, 0)
            for key, _ in ready.select(left):
                if key.fd in outputs:
                    more = os.read(key.fd, 65536)
                    outputs[key.fd] += more
                else:
                    more = text = _feed(key.fd, text)
                if len(output) + len(errors) > contract.MAX_OUTPUT_OCTETS:
                    begin = contract.decode_output(bytes(output[:80]))[0]
                    problem = f"a command printed more than {contract.MAX_OUTPUT_OCTETS >> 20} MiB: {begin}"
                    raise DutError(problem, "its output was not used", code="too-much-output")
                if not more:
                    ready.unregister(key.fd)
                    with contextlib.suppress(OSError):
                        key.data.close()
    return bytes(output), bytes(errors)


def _feed(handle: int, text: bytes) -> bytes:
    """Write as much as the pipe takes; return the rest, which is empty if the pipe is closed."""
    try:
        return text[os.write(handle, text) :] if text else b""
    except BlockingIOError:
        return text
    except BrokenPipeError:
        return b""


def kill(process: Process) -> None:
    """Kill a process and its process group.

    The pipes are closed without draining them: while the remote command runs, ssh's master process
    may hold them open.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


class LocalTransport:
    """Transport that runs commands as this user on this machine.

    Args:
        name: of the device, for messages.
        before: words before each command.
        passwords: returns the environment variables of passwords that the commands may use.
    """

    where = "on this machine"

    def __init__(
        self,
        name: str,
        before: Sequence[str] = (),
        passwords: Callable[[], Mapping[str, str]] = lambda: NO_VARIABLES,
    ) -> None:
        self.name = name
        self.condition = ""
        self._before = list(before)
        self._passwords = passwords

    def open(self) -> None:
        """Do nothing, since commands need no connection."""

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> contract.Output:
        limit = deadline_s or contract.DEADLINE_S
        return run_logged(self.name, command, text, lambda: self._run(command, text, limit))

    def _run(self, command: str, text: str, limit: float) -> contract.Output:
        program, passwords = self._make_command(command, self.condition), self._passwords()
        status, out, err = run_program(program, text, limit, self.name, command, "", passwords)
        if status == -signal.SIGKILL:
            problem = f"{self.name}: it vanished during: {shorten_command(command)}"
            raise contract.ConnectionLost(problem, code="connection-lost")
        return contract.Output.decode(self.name, status, out, err)

    def hold(self, command: str) -> contract.HeldCommand:
        log_start(self.name, command)
        return contract.HeldCommand(self.name, start_process(self._make_command(command)))

    def close(self) -> None:
        """Do nothing, since commands need no connection."""

    def _make_command(self, command: str, condition: str = "") -> list[str]:
        return [*self._before, "sh", "-c", contract.make_shell_line(command, condition=condition)]


class NamespaceTransport(LocalTransport):
    """Transport into the network, process and mount namespaces of a process."""

    where = contract.ON_DEVICE

    def __init__(self, pid: int, name: str = "lab device") -> None:
        super().__init__(name, enter(pid))
        self.pid = pid

    def open(self) -> None:
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered", code="lab-failed")


def enter(pid: int) -> list[str]:
    """Return the command prefix that enters the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]
