"""Commands run by a local program, here or elsewhere, and transports to this machine and its namespaces."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.transport.command_log import log_start, run_logged
from v6t.drivers.transport.contract import (
    DEADLINE_S,
    MAX_OUTPUT_OCTETS,
    ON_DEVICE,
    ConnectionLost,
    DeadlinePassed,
    HeldCommand,
    Output,
    decode_output,
    make_shell_line,
)
from v6t.drivers.transport.redaction import ENABLE_PASSWORD, LOGIN_PASSWORD

Process = subprocess.Popen[bytes]


def build_clean_environment() -> dict[str, str]:
    """Return the environment of this process without passwords."""
    return {k: v for k, v in os.environ.items() if k not in (LOGIN_PASSWORD, ENABLE_PASSWORD)}


def start_process(program: Sequence[str]) -> Process:
    """Start a program with piped standard streams, in a new session so that Ctrl-C does not reach it."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = build_clean_environment()
    return subprocess.Popen(list(program), start_new_session=True, env=environment, **pipes)


def finish(process: Process, text: str, limit_s: float) -> tuple[bytes, bytes] | None:
    """Write a program's standard input, wait for its end and return both outputs.

    Returns:
        Standard output and error, or None if the program was killed after ``limit_s`` seconds.
    """
    try:
        return _communicate(process, text.encode(), time.monotonic() + limit_s)
    except BaseException:
        kill(process)
        raise


def _communicate(process: Process, text: bytes, end: float) -> tuple[bytes, bytes] | None:
    """Communicate like :meth:`subprocess.Popen.communicate`, with limits of output and time."""
    stdin, out, err = process.stdin, process.stdout, process.stderr
    if stdin is None or out is None or err is None:
        raise ValueError("a process without its three pipes")
    chunks: dict[int, list[bytes]] = {out.fileno(): [], err.fileno(): []}
    amount = 0
    with selectors.DefaultSelector() as ready:
        ready.register(out, selectors.EVENT_READ)
        ready.register(err, selectors.EVENT_READ)
        os.set_blocking(stdin.fileno(), False)
        ready.register(stdin, selectors.EVENT_WRITE)
        while ready.get_map():
            left = end - time.monotonic()
            if left <= 0:
                kill(process)
                return None
            for key, _ in ready.select(left):
                if key.fileobj is stdin:
                    text = _feed(stdin.fileno(), text)
                    if not text:
                        ready.unregister(stdin)
                        with contextlib.suppress(OSError):
                            stdin.close()
                    continue
                more = os.read(key.fd, 65536)
                amount += len(more)
                if amount > MAX_OUTPUT_OCTETS:
                    raise DutError(
                        f"a command printed more than {MAX_OUTPUT_OCTETS >> 20} MiB: "
                        f"{decode_output(chunks[out.fileno()][0][:80])[0] if chunks[out.fileno()] else ''}",
                        "nothing of it was used",
                        code="too-much-output",
                    )
                chunks[key.fd].append(more)
                if not more:
                    ready.unregister(key.fileobj)
    outputs = b"".join(chunks[out.fileno()]), b"".join(chunks[err.fileno()])
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        kill(process)
        return None
    out.close()
    err.close()
    return outputs


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
    """Transport that runs commands as this user on this machine."""

    where = "on this machine"
    log_level = logging.INFO  # Level of the log records of its commands

    def __init__(self, name: str, before: Sequence[str] = ()) -> None:
        self.name = name
        self.condition = ""
        self._before = list(before)

    def open(self) -> None:
        """Do nothing, since commands need no connection."""

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        limit = deadline_s or DEADLINE_S
        return run_logged(
            self.name, command, text, self.log_level, lambda: self._run(command, text, limit)
        )

    def _run(self, command: str, text: str, limit: float) -> Output:
        process = start_process(self._make_command(command, self.condition))
        outputs = finish(process, text, limit)
        if outputs is None:
            problem = f"{self.name}: a command did not end within {limit:g} s: {command[:120]}"
            raise DeadlinePassed(problem, code="timeout")
        if process.returncode == -signal.SIGKILL:
            problem = f"{self.name}: it vanished during: {command[:120]}"
            raise ConnectionLost(problem, code="connection-lost")
        return Output.decode(self.name, process.returncode, *outputs)

    def hold(self, command: str) -> HeldCommand:
        log_start(self.name, command, self.log_level)
        return HeldCommand(self.name, start_process(self._make_command(command)))

    def close(self) -> None:
        """Do nothing, since commands need no connection."""

    def _make_command(self, command: str, condition: str = "") -> list[str]:
        """Return the command line that runs a shell line."""
        return [*self._before, "sh", "-c", make_shell_line(command, condition=condition)]


class NamespaceTransport(LocalTransport):
    """Transport into the network, process and mount namespaces of a process."""

    where = ON_DEVICE

    def __init__(self, pid: int, name: str = "lab device") -> None:
        super().__init__(name, enter(pid))
        self.pid = pid

    def open(self) -> None:
        if self.run("true").status:
            raise DutError(f"{self.name}: its namespaces cannot be entered", code="lab-failed")


def enter(pid: int) -> list[str]:
    """Return the words before a command that run it in the namespaces of a process."""
    return ["nsenter", "-t", str(pid), "-n", "-m", "-p", "--"]
