"""The connection to a device: login, lock, and commands in batches.

The lock admits one v6t at a time. It is a symbolic link, created atomically, whose target names its holder.
The process on the device that created it waits for the end of its standard input, so that a lost
connection frees the lock. The owner sends a beat every few seconds; silence frees the lock, too, since a
device may never notice that the other end has lost its power.
"""

import contextlib
import getpass
import os
import platform
import re
import secrets
import shlex
import threading
import time
from collections.abc import Collection, Iterable

from v6t.base.errors import DutError
from v6t.drivers.duts.plan import shorten_output
from v6t.drivers.duts.session import shell
from v6t.drivers.transport.contract import ON_DEVICE, ConnectionLost, HeldCommand, Output, Transport
from v6t.drivers.transport.redaction import shorten_command

PART_SEPARATOR = ", part "  # separates the run from the name of a chain's part in a lock's owner
# Holder of the lock while the rollback timer acts.
TIMER_LOCK_HOLDER = "the device's rollback timer, which undoes an interrupted run"
LOCK_DEADLINE_S = 15.0  # time limit for taking the lock
LOCK_SILENCE_S = 30  # time without a beat after which the lock is freed
BEAT_PERIOD_S = 5.0  # time between two beats of the lock's owner
# Distinguishes this process from one of the same number, user and host name, as in containers.
_RUN_ID = secrets.token_hex(4)
# Messages of the shells of Linux, BusyBox and OpenBSD about a line that they cannot parse.
_SYNTAX_ERROR_PATTERN = re.compile(
    "syntax error|unexpected (eof|end of file)|no closing quote", re.IGNORECASE
)
_PERMISSION_PATTERN = re.compile("permission denied|not permitted|password", re.IGNORECASE)


class DeviceBusyError(DutError):
    """Another v6t, or the rollback timer, holds the lock of the device."""


def build_lock_script(directory: str, owner: str) -> str:
    """Return shell lines that hold the lock; they print ``locked``, ``busy PID OWNER`` or ``foreign WHY``."""
    variables = shell.format_assignments(directory=directory, owner=owner, silence_s=LOCK_SILENCE_S)
    programs = shell.read_program("process") + shell.read_program("lock")
    return f"{variables}\n{programs}hold_lock"


def build_lock_condition(directory: str, owner: str) -> str:
    """Return a shell line that succeeds while the owner holds the lock."""
    return f'case "$(readlink {shlex.quote(directory)}/lock)" in *" "{shlex.quote(owner)}) ;; *) false;; esac'


class Heartbeat:
    """A thread that regularly sends the time to the lock's process, which answers with the same line."""

    def __init__(self, process: HeldCommand, period_s: float) -> None:
        self._process = process
        self._period_s = period_s
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._answered = threading.Condition()
        self._last_answer_s = _read_boot_clock_s()
        self._longest_silence_s = 0.0
        self._thread = threading.Thread(target=self._send_beats, name="v6t-beat", daemon=True)
        self._thread.start()

    @property
    def silence_s(self) -> float:
        """Longest time without an answer [s], including suspension; infinite if the process has ended."""
        if self._process.ended:
            return float("inf")
        return max(self._longest_silence_s, _read_boot_clock_s() - self._last_answer_s)

    def await_answer(self, limit_s: float) -> bool:
        """Send a line now; return whether it was answered within the limit [s]."""
        began = _read_boot_clock_s()
        self._wake.set()
        with self._answered:
            self._answered.wait_for(
                lambda: self._last_answer_s >= began or self._process.ended, limit_s
            )
        return self._last_answer_s >= began

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _send_beats(self) -> None:
        while True:
            self._wake.wait(self._period_s)
            self._wake.clear()
            if self._stopping.is_set():
                return
            sent_s = _read_boot_clock_s()
            with contextlib.suppress(DutError, ValueError):  # silence_s shows the failure
                self._process.send(f"{sent_s}\n")
                while self._last_answer_s < sent_s and not self._stopping.is_set():
                    answered_s = float(self._process.read_line(self._period_s))
                    silence_s = _read_boot_clock_s() - self._last_answer_s
                    self._longest_silence_s = max(self._longest_silence_s, silence_s)
                    self._last_answer_s = answered_s
            with self._answered:
                self._answered.notify_all()


class Lock(Heartbeat):
    """The lock of a device. Creating it takes the lock, or raises DutError if that is impossible."""

    def __init__(
        self, transport: Transport, directory: str, owner: str, beat_period_s: float = BEAT_PERIOD_S
    ) -> None:
        process = transport.hold(build_lock_script(directory, owner))
        try:
            if (answer := process.read_line(LOCK_DEADLINE_S)) != "locked":
                raise _make_lock_error(transport, directory, answer, owner)
        except ConnectionLost as exc:
            reason = process.read_error().strip()
            process.release()
            raise _make_directory_error(transport, directory, reason) from exc
        except BaseException:  # Ctrl-C, too
            process.release()
            raise
        super().__init__(process, beat_period_s)

    def release(self) -> None:
        """Free the lock; this method may be called twice."""
        self.stop()
        self._process.release()


def _make_directory_error(transport: Transport, directory: str, reason: str) -> DutError:
    problem = f"{transport.name}: {directory} cannot be made or locked {transport.where}"
    if reason:
        problem += f": {' '.join(reason.split())[:200]}"
    if reason and not _PERMISSION_PATTERN.search(reason):
        hint = "correct this on the device, or name another directory with dut.options.state_dir"
        return DutError(problem, hint, code="file-unwritable")
    hint = "log in as root, or set ssh.become to 'sudo -n' or 'doas -n'"
    if transport.where != ON_DEVICE:
        hint = "name a directory of your own with dut.options.state_dir"
    return DutError(problem, hint, code="missing-permission")


def _make_lock_error(transport: Transport, directory: str, answer: str, owner: str) -> DutError:
    """Return the error for an answer other than ``locked`` from the lock's process."""
    kind, _, text = answer.partition(" ")
    pid, _, holder = text.partition(" ")
    run, _, part = holder.partition(PART_SEPARATOR)
    if kind == "foreign":
        problem = f"{directory} is accessible to others: {text}"
        hint = "v6t would run its content as root; name another one with dut.options.state_dir"
    elif part and run == owner.partition(PART_SEPARATOR)[0]:
        problem = f"the part {part} of the same run is on this machine already, by another name"
        hint = "name it identically in both, or set state_dir of one part to another directory"
    else:
        frees = f"its end; if it hangs, `kill {pid}` {transport.where} frees the lock"
        problem = f"{transport.name} is in use by {holder or 'another v6t'}"
        hint = f"wait for {'seconds' if holder == TIMER_LOCK_HOLDER else frees}"
        return DeviceBusyError(problem, hint, code="device-busy")
    return DutError(f"{transport.name}: {problem}", hint, code="device-busy")


def _find_user() -> str:
    """Return the name of this user, or the number if the system has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _read_boot_clock_s() -> float:
    """Return the time of a monotonic clock that also runs while this machine is suspended [s]."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Connection:
    """A connection that runs commands only while it holds the lock of the device."""

    def __init__(
        self,
        transport: Transport,
        directory: str,
        limit_s: int,
        part: str = "",
        state_transport: Transport | None = None,
    ) -> None:
        self.transport = transport
        self.state_transport = state_transport or transport
        self.directory = directory
        self.limit_s = limit_s
        self.part = part
        suffix = f"{PART_SEPARATOR}{part}" if part else ""
        self.owner = f"{_find_user()}@{platform.node()} process {os.getpid()} {_RUN_ID}{suffix}"
        self._lock: Lock | None = None

    @property
    def name(self) -> str:
        return self.transport.name

    def open(self, *, lock: bool = True) -> None:
        self.state_transport.condition = ""
        self.transport.open()
        if not lock:
            return
        try:
            beat_period_s = min(BEAT_PERIOD_S, self.limit_s / 4 or BEAT_PERIOD_S)
            self._lock = Lock(self.state_transport, self.directory, self.owner, beat_period_s)
            self.state_transport.condition = build_lock_condition(self.directory, self.owner)
        except BaseException:
            self.transport.close()
            raise

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self.state_transport.condition = ""
        self.transport.close()

    @property
    def is_lost(self) -> bool:
        """Whether the connection, and with it the lock, has ended."""
        return self._lock is None or self._lock.silence_s == float("inf")

    def find_interruption(self) -> str | None:
        """Return why the rollback timer may have acted; None if the device was never silent."""
        if self._lock is not None:
            answers = self._lock.await_answer(self.limit_s or LOCK_SILENCE_S)
            silence_s = self._lock.silence_s
            if answers and silence_s < (self.limit_s or float("inf")):
                return None
            if silence_s < float("inf"):
                return f"{silence_s:.0f} s of silence"
        return "the connection was lost"

    def run_tracked(self, command: str, text: str, deadline_s: float) -> Output:
        """Run a command in a process that ``undo.sh`` waits for."""
        script = shell.build_tracked_command(self.directory, command)
        return self.transport.run(*shell.fit_argument(script, text), deadline_s)

    def read_batch(
        self, commands: Iterable[str], binary: Collection[str] = ()
    ) -> dict[str, shell.Section]:
        """Run read-only commands at once; outputs of those in ``binary`` need not be text."""
        commands = list(dict.fromkeys(commands))
        if not commands:
            return {}
        script = shell.build_batch_script(commands)
        is_long = len(script) > shell.MAX_ARGUMENT_OCTETS
        done = self.transport.run("sh", script) if is_long else self.transport.run(script)
        sections = shell.parse_sections(done.out, commands)
        for command in commands:
            words = shorten_command(command)
            if command not in sections or sections[command].status is None:
                if _SYNTAX_ERROR_PATTERN.search(done.err):
                    problem = f"{self.name}: the shell cannot parse '{words}': {done.cause}"
                    raise DutError(problem, "correct this command", code="command-failed")
                problem = f"{self.name}: an answer is incomplete: {words}: {done.cause}"
                raise ConnectionLost(problem, code="connection-lost")
            text = sections[command].text
            if command not in binary and not done.clean and "\\x" in text:
                problem = f"{self.name}: the answer to '{words}' is not plain text"
                raise DutError(f"{problem}: {shorten_output(text)}", code="unexpected-answer")
        return sections
