"""Every second the device is asked by SNMP, and the answer is checked (RFC 2544 section 11.2)."""

from __future__ import annotations

from v6t.core.modifiers.management import Management
from v6t.drivers.duts.plan import Plan
from v6t.intent.device import DeviceRequirements


class Snmp(Management):
    """An agent that the driver starts on the device is asked whether the device forwards."""

    name = "snmp"
    requirements = DeviceRequirements(snmp_agent=True)

    @property
    def words(self) -> str:
        return (
            "each second begins with an SNMP query for ipForwarding, asked on the device itself and not "
            "among the test frames, of an agent that the driver has started; its answer must be 1"
        )

    def suits(self, plan: Plan) -> None:
        """Tell whether a plan has an agent that can be asked."""
