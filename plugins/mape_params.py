"""Parameters of the MAP-E border relay, and where Mapperf's configuration went."""

from __future__ import annotations

import math
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator
from v6t.plugins.base import PluginParams
from v6t.plugins.map import IidFormat, MapRule, rule_from_text
from v6t.plugins.ports import Policy, PortRange, destination_range, source_range
from v6t.profiles.errors import UsageError

DROP_REASONS = (
    "forwarded",
    "not addressed to this device",
    "neither IPv4 in IPv6 for the BR nor native IPv6",
    "outer source outside every rule",
    "interface identifier contradicts the EA bits",
    "inner source address contradicts the outer one",
    "inner source port outside the CE's port set",
    "no rule for the IPv4 destination",
    "destination port belongs to no CE",
    "TTL or hop limit exhausted",
)
"""Why a frame was not forwarded; the reference relay answers with an index into this."""

ALL_CES = 0
"""``ces`` value for "drawn uniformly from the whole rule"."""


def _ces(value: Any) -> Any:
    return ALL_CES if value == "all" else value


class Domain(PluginParams):
    """One MAP domain: a rule, how many of its CEs are simulated, and its share of the traffic."""

    rule_ipv6: str = Field("2001:db8:ce::/51", description="rule IPv6 prefix (BMR and FMR)")
    rule_ipv4: str = Field("192.0.2.0/24", description="rule IPv4 prefix")
    ea_len: int = Field(13, description="length of the EA bits, 0..48")
    psid_offset: int = Field(6, description="PSID offset a; 6 in RFC 7597, 0 in the Mapperf paper")
    psid_len: int | None = Field(None, description="PSID length, only for rules without EA bits")
    psid: int = Field(0, ge=0, description="PSID of the one CE of a rule without EA bits")
    iid_format: IidFormat = Field(
        "rfc7597", description="interface identifier: rfc7597, or draft (before the RFC)"
    )
    ces: Annotated[int, BeforeValidator(_ces)] = Field(
        1000, ge=0, description="simulated CEs, drawn without repetition; 'all': the whole rule"
    )
    exclude_network_broadcast: bool = Field(
        False, description="leave out CEs whose IPv4 suffix is all zeros or all ones"
    )
    share: int = Field(1, ge=1, description="share of the foreground traffic among the domains")

    @cached_property
    def rule(self) -> MapRule:
        """The checked rule."""
        return rule_from_text(
            self.rule_ipv6,
            self.rule_ipv4,
            self.ea_len,
            self.psid_offset,
            psid_len=self.psid_len,
            iid_format=self.iid_format,
        )

    @property
    def ea_bounds(self) -> tuple[int, int]:
        """Smallest and largest EA value that is simulated."""
        rule = self.rule
        edge = 1 << rule.psid_len if self.exclude_network_broadcast and rule.ea_len else 0
        return edge, rule.ce_count - 1 - edge

    @model_validator(mode="after")
    def _possible(self) -> Domain:
        rule = self.rule  # raises UsageError with what to change
        low, high = self.ea_bounds
        room = high - low + 1
        if room < 1:
            raise UsageError("without its network and broadcast address the rule has no CE left")
        if self.ces > room:
            raise UsageError(
                f"{self.ces} CEs do not fit a rule with {rule.ea_len} EA bits",
                f"set ces to at most {room}, or to all",
            )
        rule.port_set(self.psid)
        return self


class MapEParams(Domain):
    """Everything ``mape-br`` can be told; further domains beside the first go to ``domains``."""

    domains: tuple[Domain, ...] = Field((), description="further MAP domains (MAP-13)")
    br_address: IPv6Address = Field(IPv6Address("2001:db8:6::1"), description="the BR's address")
    server_ipv4: IPv4Address = Field(
        IPv4Address("203.0.113.56"), description="the IPv4 host beyond the BR"
    )
    tester_left_ipv6: IPv6Address = Field(
        IPv6Address("2001:db8:6::2"), description="tester's IPv6 address on the left link"
    )
    tester_right_ipv6: IPv6Address = Field(
        IPv6Address("2001:db8:7::2"), description="tester's IPv6 address on the right link"
    )
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("203.0.113.1/24"), description="the BR's IPv4 address on the right link"
    )
    dut_right_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:7::1/64"), description="the BR's IPv6 address on the right link"
    )
    fw_sport: Policy = Field(
        "random", description="forward source ports, within the CE's port set (MAP-15)"
    )
    fw_dport: PortRange = Field(
        default_factory=destination_range, description="forward destination ports"
    )
    rv_sport: PortRange = Field(default_factory=source_range, description="reverse source ports")
    rv_dport: Policy = Field(
        "random", description="reverse destination ports, within the CE's port set"
    )
    bg_sport: PortRange = Field(default_factory=source_range, description="background source ports")
    bg_dport: PortRange = Field(
        default_factory=destination_range, description="background destination ports"
    )
    n: int = Field(2, ge=1, description="foreground is m of n frames (GEN-14)")
    m: int = Field(2, ge=0, description="foreground is m of n frames; n = m: no background")
    spoof_percent: int = Field(
        0, ge=0, le=50, description="share of forward frames a BR must drop (MAP-09) [%]"
    )
    ttl: int = Field(64, ge=2, le=255, description="TTL and hop limit of test frames (GEN-26)")
    df: bool = Field(True, description="Don't Fragment bit of IPv4 test frames (GEN-07)")

    @model_validator(mode="after")
    def _mixture(self) -> MapEParams:
        if self.m > self.n:
            raise UsageError(f"m = {self.m} of n = {self.n} frames cannot be foreground")
        if 0 < self.m < self.n and math.gcd(self.m, self.n) != 1:
            raise UsageError(
                f"n = {self.n} and m = {self.m} have a common divisor",
                f"write n = {self.n // math.gcd(self.m, self.n)}, "
                f"m = {self.m // math.gcd(self.m, self.n)}",
            )
        if self.m == 0:
            raise UsageError("without foreground (m = 0) nothing of MAP-E would be measured")
        nets = [d.rule.ipv6_prefix for d in self.all_domains]
        if len(set(nets)) != len(nets):
            raise UsageError("two domains have the same rule IPv6 prefix")
        if any(self.br_address in net for net in nets):
            raise UsageError("br_address lies within a rule IPv6 prefix", "choose one outside")
        return self

    @property
    def all_domains(self) -> tuple[Domain, ...]:
        """The first domain and the further ones."""
        return (self, *self.domains)


MAPTPERF_PARAMETERS = {
    "Tester-L-IPv6": "tester_left_ipv6",
    "Tester-R-IPv6": "tester_right_ipv6",
    "Tester-R-IPv4": "server_ipv4",
    "DUT-L-IPv6": "br_address",
    "Tester-L-MAC": "testbed: links.left.tester_mac",
    "Tester-R-MAC": "testbed: links.right.tester_mac",
    "DUT-L-MAC": "testbed: links.left.dut_mac",
    "DUT-R-MAC": "testbed: links.right.dut_mac",
    "FW-dport-min": "fw_dport.min",
    "FW-dport-max": "fw_dport.max",
    "RV-sport-min": "rv_sport.min",
    "RV-sport-max": "rv_sport.max",
    "bg-dport-min": "bg_dport.min",
    "bg-dport-max": "bg_dport.max",
    "bg-sport-min": "bg_sport.min",
    "bg-sport-max": "bg_sport.max",
    "FW-var-sport": "fw_sport",
    "FW-var-dport": "fw_dport.policy",
    "RV-var-sport": "rv_sport.policy",
    "RV-var-dport": "rv_dport",
    "NUM-OF-CEs": "ces",
    "BMR-IPv6-Prefix": "rule_ipv6",
    "BMR-IPv6-prefix-length": "rule_ipv6",
    "BMR-IPv4-Prefix": "rule_ipv4",
    "BMR-IPv4-prefix-length": "rule_ipv4",
    "BMR-EA-length": "ea_len",
    "BMR-EA-Len": "ea_len",
    "DMR-IPv6-Prefix": "none: MAP-T only",
    "DMR-IPv6-prefix-length": "none: MAP-T only",
    "CPU-FW-Send": "none: TRex places its threads itself",
    "CPU-FW-Receive": "none: TRex places its threads itself",
    "CPU-RV-Send": "none: TRex places its threads itself",
    "CPU-RV-Receive": "none: TRex places its threads itself",
    "Mem-Channels": "none: TRex configuration file",
    "FW": "run: modes",
    "RV": "run: modes",
    "Promisc": "none: always promiscuous",
}
"""Every parameter of mapperf.conf and maptperf.conf, and what stands for it here."""
