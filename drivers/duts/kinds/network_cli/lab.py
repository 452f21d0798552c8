"""A device with a command line that stands in the lab: somebody has put it there, and it stays."""

from __future__ import annotations

from v6t.base.errors import UsageError
from v6t.drivers.duts.standing.device import LabDut
from v6t.drivers.duts.standing.ssh import LabSsh


class LabBox(LabDut):
    """See :class:`v6t.drivers.duts.standing.device.LabDut`."""

    def look(self) -> list[str]:
        """Find nothing missing: the device does not consist of this machine's programs."""
        login = self.driver.options.ssh
        if not LabSsh(login.lab).running():
            raise UsageError(
                f"no device {login.lab} with a command line stands in the lab",
                "the lab makes none: give dut.options.ssh.host, and a tester wired to it",
                code="missing-device",
            )
        return [self.driver.name]

    def namespace(self) -> int:
        """Return the namespace of the device."""
        self.look()
        return super().namespace()

    def close(self) -> None:
        """Restore it, and leave it."""
        self._server = None
        super().close()
