"""A device with a command line that stands in the lab: somebody has put it there."""

from __future__ import annotations

from v6t.drivers.duts.standing.device import LabDut


class LabBox(LabDut):
    """See :class:`v6t.drivers.duts.standing.device.LabDut`."""

    def look(self) -> list[str]:
        """It is not made of this machine's programs: there is nothing to be looked at before it stands."""
        return [self.driver.name]
