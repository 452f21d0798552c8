"""A Linux router behind an nftables filter: what does a packet filter of n rules cost?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field
from v6t.base.errors import DutError
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Intent, Plan, parsed
from v6t.drivers.duts.steps import owned
from v6t.intent.families import RouterConfig

TABLE = "inet v6t_filter"


class FilterOptions(LinuxOptions):
    """Options of this device."""

    rules: int = Field(default=100, ge=1, le=100_000)
    """Rules that every packet is compared with and none matches."""


class NftFilter(LinuxDriver):
    """The kernel forwards; a table of our own looks at every packet first."""

    name = "nft-filter"
    title = "Linux router behind an nftables filter of many rules"
    accepts = (RouterConfig,)
    executed = "configured, verified with real frames and restored by the tests"
    versions = ("1.0",)
    programs: Mapping[str, str] = {"nft": "nftables"}
    version_command = "nft --version"
    options_model = FilterOptions

    def read_version(self, text: str) -> str:
        """``nftables v1.0.6 (Lester Gooch #5)``."""
        found = re.search(r"v(\d+(?:\.\d+)*)", text)
        return found[1] if found else "unknown"

    def survey(self) -> Mapping[str, str]:
        """Commands that change nothing; ``facts.sections`` holds what they print."""
        return {**super().survey(), "ruleset": "nft list ruleset"}

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """What this implementation cannot do, or would do silently wrong."""
        super().refuse(intent, facts)
        if "policy drop" in facts.sections.get("ruleset", ""):
            raise DutError(
                "another program's filter on the device drops what no rule of its own accepts",
                "use a device without a firewall",
                code="firewall-blocks",
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """Addresses, neighbours, routes and forwarding as every Linux device; then the filter."""
        rules, port = self.options.rules, self.port(intent, "left")
        lines = [f"  iifname {port} udp sport {n % 65536} udp dport 0 drop" for n in range(rules)]
        text = "\n".join([f"table {TABLE} {{", " counter passed {}", " chain forward {",
                          "  type filter hook forward priority 0; policy accept;", *lines,
                          "  counter name passed", " }", "}"])  # fmt: skip
        filter_step = owned(
            "nft -f -",
            f"nft delete table {TABLE} 2>/dev/null; true",
            f"{rules} rules that no test frame matches",
            text=text + "\n",
            read=f"nft list table {TABLE} 2>/dev/null || true",
            want=parsed(self._rules_missing, f"{rules} rules"),
            silent=True,
        )
        return self.finish(facts, [*self.base(intent, facts), filter_step])

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """What every Linux device tells, and the packets that passed the filter."""
        counter = Reading(f"nft list counter {TABLE} passed", _passed)
        return {**super().telemetry(intent), "filter": counter}

    def _rules_missing(self, output: str) -> str | None:
        rule = r"^\s*iifname \S+ udp sport \d+ udp dport 0 drop$"
        there, wanted = len(re.findall(rule, output, re.MULTILINE)), self.options.rules
        return None if there == wanted else f"{there} of {wanted} rules are there"


def _passed(output: str) -> Mapping[str, float]:
    found = re.search(r"packets (\d+)", output)
    return {"packets": float(found[1])} if found else {}
