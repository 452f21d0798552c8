"""A way to run commands on a device: SSH, or a namespace of this machine."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Protocol

from v6t.base.errors import DutError

DEADLINE_S = 30.0  # Default for a command
ON_DEVICE = "on the device"
_NOT_RUN = "v6t: this was not run"
_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL; "


class ConnectionLost(DutError):
    """The connection broke; what the last command did is unknown."""


class DeviceTakenOver(ConnectionLost):
    """Another process may be at work on the device; the command was not run."""


class Unreachable(DutError):
    """Error of a connection that cannot be made now; the next attempt may succeed."""


class DeadlinePassed(DutError):
    """A command did not end in time; it may still be running."""


_CONTROL_CHARACTERS = {
    c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if chr(c) not in "\t\n\r"
}


def decode_output(octets: bytes) -> tuple[str, bool]:
    """Decode output; return the text, and whether it was plain (see :class:`Output`)."""
    text = octets.decode(errors="backslashreplace")
    shown = text.translate(_CONTROL_CHARACTERS)
    try:
        return shown, shown == octets.decode()
    except UnicodeDecodeError:
        return shown, False


@dataclass(frozen=True)
class Output:
    r"""Result of a command.

    Attributes:
        out, err: what it printed; octets that are not UTF-8, and characters that steer a
            terminal, appear as ``\xNN``.
    """

    status: int  # Exit status
    out: str
    err: str
    clean: bool = True  # Whether ``out`` is plain text

    @staticmethod
    def decode(name: str, status: int, out: bytes, err: bytes) -> Output:
        """Decode the output of a command of a device, or raise DeviceTakenOver if it was not run."""
        # sudo and login shells may print lines, too
        if status == 1 and _NOT_RUN.encode() in err.splitlines():
            raise DeviceTakenOver(
                f"{name}: the lock on the device is no longer this v6t's: its timer has undone "
                "everything, or another process uses it",
                code="device-busy",
            )
        text, clean = decode_output(out)
        return Output(status, text, decode_output(err)[0], clean)

    @property
    def words(self) -> str:
        """Last line of standard error, else of standard output."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1].strip()[:300] if lines else f"status {self.status}"


class HeldCommand(Protocol):
    """A command that runs until it is released."""

    def line(self, deadline_s: float) -> str:
        """Return the next line of output; raise ConnectionLost or DeadlinePassed."""

    def send(self, text: str) -> None:
        """Write to its standard input without waiting; raise ConnectionLost if it has ended."""

    @property
    def ended(self) -> bool:
        """Whether it, or the connection, is known to have ended."""

    def read_error(self) -> str:
        """Wait briefly for the end of the command, and return its standard error."""

    def release(self) -> None:
        """Close the command's standard input and wait briefly for its end. May be called twice."""


class Transport(Protocol):
    """Connection to a device for commands; opened once, closed always."""

    name: str  # Name of the device in messages
    condition: str
    """A shell line: while it fails no command is run; empty: all are. See :func:`for_shell`."""
    where: str  # Place of its shell in messages

    def open(self) -> None:
        """Connect, or raise DutError with what to do about it."""

    def run(self, command: str, text: str = "", deadline_s: float = DEADLINE_S) -> Output:
        """Run a shell line with ``text`` as its standard input, and wait for its end.

        Raises:
            ConnectionLost: the connection broke; there is no status.
            DeadlinePassed: it took too long.
            DeviceTakenOver: the condition does not hold; nothing was run.
        """

    def hold(self, command: str) -> HeldCommand:
        """Start a command whose standard input stays open."""

    def close(self) -> None:
        """Release everything. May be called twice."""


def for_shell(command: str, become: str = "", condition: str = "", netns: str = "") -> str:
    """Return a line for any login shell: ``sh`` runs the command and finds system programs.

    Args:
        command: a shell line.
        become: ``sudo -n`` or ``doas -n``, where the login is not root's.
        condition: for ``sh``, too; where it fails the command is not run, and :meth:`Output.decode` says so.
        netns: a network namespace in which it is run; files and processes are the machine's.
    """
    first = f"{condition} || {{ echo '{_NOT_RUN}' >&2; exit 1; }}; " if condition else ""
    line = f"sh -c {shlex.quote(_PATH + first + command)}"
    if netns:  # it takes root, and ip is a system program, too
        line = f"sh -c {shlex.quote(f'{_PATH}exec ip netns exec {netns} {line}')}"
    # sudo and doas forget which connection this is, by which the management interface is found
    return f'{become} env SSH_CONNECTION="$SSH_CONNECTION" {line}' if become else line
