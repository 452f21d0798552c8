"""Programs and files on the host of a TRex installation elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import TesterError
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions

FETCH_S = 600.0


class Remote:
    """A host, by the same options as a device's. Keys only: nobody is asked for a password."""

    def __init__(self, options: SshOptions) -> None:
        """Prepare; nothing is started.

        Raises:
            EnvironmentLacking: there is no ssh.
            UsageError: a file that the options name is not there.
        """
        self._client = SshClient(options)
        self.options = options

    @property
    def host(self) -> str:
        """Its name, for messages."""
        return self._client.host

    def command(self, program: Sequence[str]) -> list[str]:
        """``program`` over there. It ends when its standard input does, or ignores that."""
        return self._client.command(program)

    def fetch(self, there: str, here: Path) -> None:
        """Copy a file over SFTP.

        Raises:
            TesterError: it could not be copied.
        """
        words = self._client.copy(there, here)
        try:
            done = subprocess.run(words, capture_output=True, timeout=FETCH_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise TesterError(f"{there} could not be fetched from {self.host}: {exc}") from exc
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise TesterError(f"{there} could not be fetched from {self.host}: {reason}")
