"""The kernel's own forwarding: the baseline."""

from __future__ import annotations

from ipaddress import ip_address

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.spare import spare4, spare6
from v6t.drivers.duts.plan import Change, Intent, Plan


class LinuxRouter(LinuxDriver):
    """Routes; nothing else."""

    name = "linux-router"
    title = "Linux kernel forwarding, IPv4 and IPv6"
    technologies = ("ipv4-router", "ipv6-router")
    executed = "configured, verified, measured and restored with real frames (kernel 6.18)"

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        notes = ("connection tracking stays off as long as nobody's rule asks for it",)
        return self.finish(facts, self.base(intent, facts), notes=notes)

    def beside(self, intent: Intent, facts: Facts) -> Change:
        """A route to a network without hosts, moved from one side to the other."""
        six = intent.technology == "ipv6-router"
        net, version = (spare6(intent), 6) if six else (spare4(intent), 4)
        ways = [
            f"via {host} dev {self.port(intent, side)}"
            for side, known in (("right", intent.right), ("left", intent.left))
            for host in known["neighbours"]
            if ip_address(host).version == version
        ]
        there, back = ways[0], ways[-1]
        route = f"ip -{version} route"
        return Change(
            "a route",
            add=f"{route} add {net} {there} proto 86",
            change=f"{route} replace {net} {back} proto 86",
            remove=f"{route} del {net} proto 86 2>/dev/null; true",
            look=f"{route} show exact {net} proto 86",
            added=there,
            changed=back,
        )
