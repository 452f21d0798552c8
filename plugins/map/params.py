"""MAP domains and the CEs simulated in them: what MAP-E and MAP-T relays have in common."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Network
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import UsageError
from v6t.packets.address_layouts import IidFormat
from v6t.plugins.base import PluginParams
from v6t.plugins.common.relay_params import RelayParams
from v6t.plugins.common.text import hosts4
from v6t.plugins.map_rules import MapRule, find_served_ea, rule_from_text

ALL_CES = 0
"""``ces`` value for "drawn uniformly from the whole rule"."""

LISTED_CES = 65535
"""So many CEs fit a TRex value list; more are a stretch of EA values in pseudorandom order."""


def _ces(value: Any) -> Any:
    return ALL_CES if value == "all" else value


class RuleParams(PluginParams):
    """One mapping rule."""

    rule_ipv6: str = Field("2001:db8:ce::/51", description="rule IPv6 prefix (BMR and FMR)")
    rule_ipv4: str = Field("192.0.2.0/24", description="rule IPv4 prefix")
    ea_len: int = Field(13, description="length of the EA bits, 0..48")
    psid_offset: int = Field(6, description="PSID offset a; 6 in RFC 7597, 0 in the Mapperf paper")
    psid_len: int | None = Field(None, description="PSID length, only for rules without EA bits")
    iid_format: IidFormat = Field(
        "rfc7597", description="interface identifier: rfc7597, or draft (before the RFC)"
    )

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
            psid=self.only_psid,
        )

    @property
    def only_psid(self) -> int:
        """Return the PSID of the one CE that a rule without EA bits has."""
        return 0


class Domain(RuleParams):
    """One MAP domain: a rule, how many of its CEs are simulated, and its share of the traffic."""

    psid: int = Field(0, ge=0, description="PSID of the one CE of a rule without EA bits")
    ces: Annotated[int, BeforeValidator(_ces)] = Field(
        1000, ge=0, description="simulated CEs, drawn without repetition; 'all': the whole rule"
    )
    exclude_network_broadcast: bool = Field(
        False, description="leave out CEs whose IPv4 suffix is all zeros or all ones"
    )
    share: int = Field(1, ge=1, description="share of the foreground traffic among the domains")

    @property
    def only_psid(self) -> int:
        """Return the domain's own PSID."""
        return self.psid

    @property
    def ea_bounds(self) -> tuple[int, int]:
        """Smallest and largest EA value that is simulated."""
        rule = self.rule
        edge = 1 << rule.psid_len if self.exclude_network_broadcast and rule.ea_len else 0
        return edge, rule.ce_count - 1 - edge

    @model_validator(mode="after")
    def _possible(self) -> Domain:
        rule = self.rule  # raises UsageError with what to change
        hosts4(self.rule_ipv4, "rule IPv4 prefix", "rule_ipv4")  # CEs are drawn from all of it
        low, high = self.ea_bounds
        room = high - low + 1
        if room < 1:
            raise UsageError(
                "the rule contains no CEs except the network and broadcast address",
                code="not-enough-addresses",
            )
        if self.ces > room and "ces" not in self.model_fields_set:
            object.__setattr__(self, "ces", room)  # the default is for rules with many CEs
        if self.ces > room:
            raise UsageError(
                f"{self.ces} CEs do not fit a rule with {rule.ea_len} EA bits",
                f"set ces to at most {room}, or to all",
                code="not-enough-addresses",
            )
        if self.psid and rule.ea_len:
            raise UsageError(
                f"psid {self.psid} has no effect: the rule's {rule.ea_len} EA bits hold the PSIDs of its CEs",
                "leave psid out, or set ea_len to 0 and psid_len",
                code="setting-without-effect",
            )
        rule.port_set(self.psid)
        one_port_each = rule.psid_len == 16 and not rule.psid_offset
        if one_port_each and (rule.suffix_len if rule.ea_len else not self.psid):
            raise UsageError(
                "with psid_offset 0 and a PSID of 16 bits a CE of PSID 0 has only port 0",
                "shorten the PSID, or leave no IPv4 suffix open so that just this CE is left out",
                code="not-enough-addresses",
            )
        return self


class MapParams(RelayParams, Domain):
    """What all relays can be told; further domains beside the first go to ``domains``."""

    domains: tuple[Domain, ...] = Field((), description="further MAP domains")

    @model_validator(mode="after")
    def _domains(self) -> MapParams:
        nets = [d.rule.ipv6_prefix for d in self.all_domains]
        if len(set(nets)) != len(nets):
            raise UsageError("two domains have the same rule IPv6 prefix", code="duplicate")
        self._check_addresses()
        if any(self.server_ipv4 in d.rule.ipv4_prefix for d in self.all_domains):
            raise UsageError(
                "server_ipv4 lies within a rule IPv4 prefix",
                "choose one outside",
                code="address-conflict",
            )
        for domain in self.all_domains:
            self._check_overlap(domain)
        return self

    def _check_addresses(self) -> None:
        """Refuse domains of one IPv4 prefix, except CEs that share an address (RFC 7597 section 5.2)."""
        taken: dict[IPv4Network, set[int]] = {}
        for domain in self.all_domains:
            rule, prefix = domain.rule, domain.rule.ipv4_prefix
            ports = rule.port_set(domain.psid)
            own = {port for low, high in ports.ranges for port in range(low, high + 1)}
            if rule.ea_len and prefix in taken:
                raise UsageError(
                    "two domains have the same rule IPv4 prefix, so the BR cannot "
                    "distinguish their CEs",
                    "give each domain an IPv4 prefix of its own; one may lie within another",
                    code="duplicate",
                )
            # all ports of a rule with EA bits belong to its own CEs
            common = own & taken.setdefault(prefix, set())
            if common:
                raise UsageError(
                    f"two domains have port {max(common)} of the rule IPv4 prefix {prefix}, so the BR could "
                    "not tell their CEs apart",
                    "give each domain a PSID of its own",
                    code="conflict",
                )
            taken[prefix] |= set(range(1 << 16)) if rule.ea_len else own

    def _check_overlap(self, domain: Domain) -> None:
        low, high = domain.ea_bounds
        room = sum(map(len, self.find_served_ea(domain, low)))
        if room == high - low + 1:
            return
        most = min(room, LISTED_CES)
        if not 0 < domain.ces <= most:
            raise UsageError(
                f"other rules lie within {domain.rule_ipv6} or {domain.rule_ipv4} and take over "
                f"{high - low + 1 - room} of its CEs",
                f"set the domain's ces to at most {most}, or choose disjoint prefixes"
                if room
                else "choose disjoint prefixes",
                code="not-enough-addresses",
            )

    def find_served_ea(self, domain: Domain, low: int) -> list[range]:
        """Find the EA values from ``low`` on whose CEs no rule of another domain takes over."""
        rules = [d.rule for d in self.all_domains if d is not domain]
        return find_served_ea(domain.rule, low, domain.ea_bounds[1], rules)

    @property
    def all_domains(self) -> tuple[Domain, ...]:
        """The first domain and the further ones."""
        return (self, *self.domains)

    @property
    def customers(self) -> list[str]:
        """IPv6 prefixes that hold the CEs."""
        return [str(d.rule.ipv6_prefix) for d in self.all_domains]
