"""Programs and files on the host of a TRex installation elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import TesterError
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions

_FETCH_S = 600.0


class Remote:
    """A host, by the same options as a device's. Keys only: no password is asked for.

    Raises:
        EnvironmentLacking: ssh is not installed.
        UsageError: a file that the options name does not exist.
    """

    def __init__(self, options: SshOptions) -> None:
        self._client = SshClient(options)
        self.options = options

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the command that runs a program there; it ends with its standard input."""
        return self._client.command(program)

    def fetch(self, source: str, target: Path) -> None:
        """Copy a file of that host over SFTP.

        Raises:
            TesterError: it could not be copied.
        """
        words = self._client.copy(source, target)
        reason = ""
        try:
            done = subprocess.run(words, capture_output=True, timeout=_FETCH_S, check=False)
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip()
                reason = reason or f"status {done.returncode}"
        except (OSError, subprocess.TimeoutExpired) as exc:
            reason = str(exc)
        if reason:
            raise TesterError(
                f"{source} could not be fetched from {self._client.host}: {reason}",
                code="download-failed",
            )
