"""The kernel's own forwarding: the baseline."""

from __future__ import annotations

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.plan import DeviceChange, Intent, Plan
from v6t.intent.families import RouterConfig


class LinuxRouter(LinuxDriver):
    """Driver for plain forwarding by the Linux kernel."""

    name = "linux-router"
    title = "Linux kernel forwarding, IPv4 and IPv6"
    supported_configurations = (RouterConfig,)
    has_filters = True
    test_status = "configured, verified, measured and restored with real frames (kernel 6.18)"

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        notes = ("connection tracking stays off as long as nobody's rule asks for it",)
        return self.assemble_plan(intent, facts, (), notes=notes)

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        return self.make_route_change(intent)
