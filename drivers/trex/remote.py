"""Programs and files on the host of a TRex installation elsewhere, through OpenSSH's client.

Keys, agent, known hosts and jumps are as the user's OpenSSH configuration says; nothing is asked.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from v6t.profiles.errors import EnvironmentLacking, TesterError

FETCH_S = 600.0
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")


@dataclass(frozen=True)
class Remote:
    """A host.

    Attributes:
        host: ``user@host`` or a name of the configuration.
        config: configuration file; empty: the user's own.
    """

    host: str
    config: str = ""

    def __post_init__(self) -> None:
        """Refuse what ssh would take for an option.

        Raises:
            EnvironmentLacking: the host's name looks like one.
        """
        if self.host.startswith("-") or not self.host.strip():
            raise EnvironmentLacking(f"'{self.host}' is no host for ssh")

    def command(self, program: Sequence[str]) -> list[str]:
        """``program`` over there. It ends when its standard input does, or ignores that."""
        return ["ssh", *self._options, "-T", self.host, "exec " + shlex.join(program)]

    def fetch(self, there: str, here: Path) -> None:
        """Copy a file over SFTP.

        Raises:
            TesterError: it could not be copied.
        """
        place = self.host if ":" not in self.host else f"[{self.host}]"
        words = ["scp", "-q", *self._options, f"{place}:{there}", str(here)]
        try:
            done = subprocess.run(words, capture_output=True, timeout=FETCH_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise TesterError(f"{there} could not be fetched from {self.host}: {exc}") from exc
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise TesterError(f"{there} could not be fetched from {self.host}: {said}")

    @property
    def _options(self) -> list[str]:
        return [*(("-F", self.config) if self.config else ()), *_OPTIONS]


def until_input_ends(prepare: str, program: str, clean: str) -> list[str]:
    """A shell that runs a program and ends it, and all it started, with its own standard input.

    A broken connection thus leaves nothing behind.

    Args:
        prepare: commands before it.
        program: the command, as shell text.
        clean: commands after it.
    """
    return [
        "sh",
        "-c",
        f"{prepare} || exit 1\n"
        "exec 3<&0\n"
        f"setsid {program} </dev/null 3<&- &\n"
        "pid=$!\n"
        "(exec >/dev/null 2>&1; cat <&3; kill -- -$pid; sleep 3; kill -9 -- -$pid) &\n"
        "watcher=$!\n"
        "wait $pid; status=$?\n"
        "exec 3<&-\n"
        "kill $watcher 2>/dev/null\n"
        f"{clean}\n"
        "exit $status",
    ]
