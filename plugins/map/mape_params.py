"""Parameters of the MAP-E border relay, and where Mapperf's configuration went."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import ClassVar

from pydantic import Field, model_validator
from v6t.plugins.map.params import ALL_CES, LISTED_CES, Domain, MapParams
from v6t.plugins.tunnel.ipip import UNMARKABLE
from v6t.profiles.errors import UsageError

__all__ = ["ALL_CES", "DROP_REASONS", "LISTED_CES", "MAPTPERF_PARAMETERS", "Domain", "MapEParams"]

DROP_REASONS = (
    "forwarded",
    "not addressed to this device",
    "neither IPv4 in IPv6 for the BR nor native IPv6",
    "TTL or hop limit exhausted",
    "outer source outside every rule",
    "interface identifier contradicts the EA bits",
    "inner source address contradicts the outer one",
    "inner source port outside the CE's port set",
    "no rule for the IPv4 destination",
    "destination port belongs to no CE",
    "too big for the IPv6 link",
    UNMARKABLE,
)
"""Why a frame was not forwarded; the reference relay answers with an index into this."""


class MapEParams(MapParams):
    """Everything ``mape-br`` can be told."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = Field(IPv6Address("2001:db8:6::1"), description="the BR's address")

    @model_validator(mode="after")
    def _br(self) -> MapEParams:
        if any(self.br_address in d.rule.ipv6_prefix for d in self.all_domains):
            raise UsageError("br_address lies within a rule IPv6 prefix", "choose one outside")
        return self


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
