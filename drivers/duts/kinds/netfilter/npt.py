"""ip6tables' SNPT and DNPT: the kernel's stateless NPTv6 (RFC 6296)."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.plan import Change, Intent, Plan, Step, has_lines
from v6t.drivers.duts.steps import owned
from v6t.intent.families import NptConfig

COMMENT = "-m comment --comment v6t"


class Ip6tablesNpt(LinuxDriver):
    """NPTv6 by a rule for each direction with a comment of v6t's."""

    name = "ip6tables-npt"
    title = "Linux kernel NPTv6 with ip6tables (SNPT, DNPT)"
    accepts = (NptConfig,)
    executed = "configured, verified, measured and restored with real frames (ip6tables 1.8.9)"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"ip6tables": "iptables"}
    has_filters = True
    version_command = "ip6tables --version"

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        npt = intent.configuration_as(NptConfig)
        inside, outside = str(npt.internal), str(npt.external)
        port = self.port(intent, "right")
        rules = [
            _rule("POSTROUTING", f"-s {inside} -o {port}", "SNPT", inside, outside),
            _rule("PREROUTING", f"-d {outside} -i {port}", "DNPT", outside, inside),
        ]
        notes = ("packets whose source is not of the inside are forwarded as they are",)
        return self.finish(facts, [*self.base(intent, facts), *rules], notes=notes)

    def find_live_change(self, intent: Intent, facts: Facts) -> Change | None:
        return self.moved_route(intent)


def _rule(chain: str, match: str, target: str, old: str, new: str) -> Step:
    rule = f"{chain} {match} {COMMENT} -j {target} --src-pfx {old} --dst-pfx {new}"
    return owned(
        f"ip6tables -w -t mangle -A {rule}",
        f"ip6tables -w -t mangle -D {rule}",
        f"translate {old} to {new}",
        read=f"ip6tables -t mangle -S {chain} | grep -e '--comment v6t .*{target}' || true",
        want=has_lines(f"-A {rule}"),
    )
