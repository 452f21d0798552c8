"""MAP domains: parameters, simulated CEs, and the common part of MAP-E and MAP-T relays."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from functools import cached_property, lru_cache
from ipaddress import IPv4Network, IPv6Address
from itertools import accumulate
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import MapRuleConfig
from v6t.packets.address_layouts import EA, HOST, IidFormat
from v6t.packets.direction import Direction
from v6t.plugins import audit_views
from v6t.plugins.audit_views import Customer, SharedAddressRelay
from v6t.plugins.base import PluginParams
from v6t.plugins.customers import ALL_CUSTOMERS, CustomerCount, CustomerFlow, Relay, RelayParams
from v6t.plugins.map_rules import MapRule, RuleTable, find_served_eas, parse_rule
from v6t.plugins.prefixes import parse_ipv4_host_network
from v6t.profiles.model import Expression, Kind, Layer, TrafficClass, Variable

MAX_LISTED_CES = 65535  # in a TRex value list; if there are more, their EA values are consecutive
_NESTED_SUFFIX_BITS, _CE_PREFIX_BITS = 4, 2  # of the nested rule, and of a CE's prefix, in audits


class RuleParams(PluginParams):
    """Parameters of one mapping rule."""

    psid_parameter: ClassVar[str] = "psid"  # name of the parameter with the CE's PSID

    rule_ipv6: str = Field("2001:db8:ce::/51", description="rule IPv6 prefix (BMR and FMR)")
    rule_ipv4: str = Field("192.0.2.0/24", description="rule IPv4 prefix")
    ea_len: int = Field(13, description="length of the EA bits, 0..48")
    psid_offset: int = Field(6, description="PSID offset a; 6 in RFC 7597, 0 in the Mapperf paper")
    psid_len: int | None = Field(None, description="PSID length, only for rules without EA bits")
    iid_format: IidFormat = Field("rfc7597", description="interface identifier: rfc7597, or draft")

    @cached_property
    def rule(self) -> MapRule:
        return self.make_rule(getattr(self, self.psid_parameter))

    def make_rule(self, psid: int | None) -> MapRule:
        """Return the validated rule; ``psid`` is the PSID of the only CE of a rule without EA bits."""
        given = self.rule_ipv6, self.rule_ipv4, self.ea_len, self.psid_offset
        more: Any = {"psid_len": self.psid_len, "iid_format": self.iid_format, "psid": psid}
        return parse_rule(*given, **more)


class Domain(RuleParams):
    """One MAP domain: a rule, the number of simulated CEs, and their share of the traffic."""

    psid: int = Field(0, ge=0, description="PSID of the one CE of a rule without EA bits")
    ces: CustomerCount = Field(1000, ge=0, description="simulated CEs; 'all': the whole rule")
    exclude_network_broadcast: bool = Field(
        False, description="leave out CEs whose IPv4 suffix is all zeros or all ones"
    )
    share: int = Field(1, ge=1, description="share of the foreground traffic among the domains")

    @property
    def ea_bounds(self) -> tuple[int, int]:
        """Lowest and highest EA value of the simulated CEs."""
        rule = self.rule
        edge = 1 << rule.psid_len if self.exclude_network_broadcast and rule.ea_len else 0
        return edge, rule.ce_count - 1 - edge

    @model_validator(mode="after")
    def _check_ces(self) -> Domain:
        rule = self.rule  # raises UsageError with what to change
        parse_ipv4_host_network(self.rule_ipv4, "rule IPv4 prefix", "rule_ipv4")  # of all CEs
        low, high = self.ea_bounds
        room, problem, hint, code = high - low + 1, "", "", "not-enough-addresses"
        if self.ces > room > 0 and "ces" not in self.model_fields_set:
            object.__setattr__(self, "ces", room)  # the default is for rules with many CEs
        if room < 1:
            problem = "the rule contains no CEs except the network and broadcast address"
        elif self.ces > room:
            problem = f"{self.ces} CEs do not fit a rule with {rule.ea_len} EA bits"
            hint = f"set ces to at most {room}, or to all"
        elif self.psid and rule.ea_len:
            problem = f"psid {self.psid} has no effect: {rule.ea_len} EA bits hold the PSIDs"
            hint, code = "leave psid out, or set ea_len to 0 and psid_len", "setting-without-effect"
        elif rule.make_port_set(self.psid).ranges[0] == (self.psid, self.psid) and (
            rule.suffix_len if rule.ea_len else not self.psid
        ):  # a port each
            problem = "with psid_offset 0 and a PSID of 16 bits a CE of PSID 0 has only port 0"
            hint = "shorten the PSID, or leave no IPv4 suffix open"
        if problem:
            raise UsageError(problem, hint, code=code)
        return self


class MapParams(RelayParams, Domain):
    """Parameters of a MAP relay, including those of the first domain."""

    domains: tuple[Domain, ...] = Field((), description="further MAP domains")

    @model_validator(mode="after")
    def _check_domains(self) -> MapParams:
        if len({rule.ipv6_prefix for rule in self.rules}) < len(self.rules):
            raise UsageError("two domains have the same rule IPv6 prefix", code="duplicate")
        self._check_addresses()
        for rule in self.rules:
            self.refuse_addresses_within(rule.ipv4_prefix, "the rule IPv4 prefix", "server_ipv4")
        for domain in self.all_domains:
            low, high = domain.ea_bounds
            room = sum(map(len, self.find_served_eas(domain, low)))
            most, lost = min(room, MAX_LISTED_CES), high - low + 1 - room
            if lost and not 0 < domain.ces <= most:
                fewer = f"set the domain's ces to at most {most}, or " if room else ""
                problem = f"other rules take over {lost} CEs of {domain.rule_ipv6}"
                hint = f"{fewer}choose disjoint prefixes"
                raise UsageError(problem, hint, code="not-enough-addresses")
        return self

    def _check_addresses(self) -> None:
        """Refuse domains with the same IPv4 prefix, unless their ports differ (RFC 7597, section 5.2)."""
        taken: dict[IPv4Network, set[int]] = {}
        number = Counter(rule.ipv4_prefix for rule in self.rules)
        for domain in self.all_domains:
            rule, prefix = domain.rule, domain.rule.ipv4_prefix
            if number[prefix] == 1:
                continue  # its ports would take milliseconds to list
            if rule.ea_len and prefix in taken:
                problem = f"two domains have the same rule IPv4 prefix {prefix}"
                hint = "give each domain its own IPv4 prefix; one may lie within another"
                raise UsageError(problem, hint, code="duplicate")
            ranges = rule.make_port_set(domain.psid).ranges
            own = {port for low, high in ranges for port in range(low, high + 1)}
            # all ports of a rule with EA bits belong to its own CEs
            if common := own & taken.setdefault(prefix, set()):
                problem = f"two domains have port {max(common)} of the rule IPv4 prefix {prefix}"
                raise UsageError(problem, "give each domain its own PSID", code="conflict")
            taken[prefix] |= set(range(1 << 16)) if rule.ea_len else own

    def find_served_eas(self, domain: Domain, low: int) -> list[range]:
        """Return the EA values from ``low`` on that no other domain takes over."""
        rules = [d.rule for d in self.all_domains if d is not domain]
        return find_served_eas(domain.rule, low, domain.ea_bounds[1], rules)

    @property
    def all_domains(self) -> tuple[Domain, ...]:
        return (self, *self.domains)

    @property
    def rules(self) -> tuple[MapRule, ...]:
        return tuple(domain.rule for domain in self.all_domains)

    @property
    def customer_prefixes(self) -> list[str]:
        return [str(rule.ipv6_prefix) for rule in self.rules]


class MapRelay(Relay):
    """A border relay with mapping rules."""

    sides = ("CEs", "server")
    params: MapParams
    embeds_host: ClassVar[bool] = False  # in the interface identifier, as in MAP-T

    @cached_property
    def rules(self) -> RuleTable:
        return RuleTable(self.params.rules)

    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        return [self._simulate_domain(each, direction, seed) for each in self.params.all_domains]

    def _simulate_domain(self, domain: Domain, direction: Direction, seed: int) -> CustomerFlow:
        rule = domain.rule
        address, psid = rule.decode_ea(domain.ea_bounds[0])
        ea = self._make_ea_variable(domain, direction, seed)
        host = Variable(HOST, rule.host_bits) if rule.host_bits else None
        ipv4 = Expression.from_layout(rule.ce_layouts.ipv4, str(address), ea=ea, host=host)
        psids = Expression.from_layout(rule.ce_layouts.psid, psid, ea=ea)
        layout = rule.host_address_layout if self.embeds_host else rule.address_layout
        ce, relay = str(rule.map_address(address, psid)), self.params.relay_address
        ipv6 = Expression.from_layout(layout, ce, ipv4=ipv4, psid=psids)
        ports, varying = rule.make_port_set(psid), psids if ea else None
        return CustomerFlow(ipv6, ipv4, relay, ports, varying, (EA, HOST), domain.share)

    def _make_ea_variable(self, domain: Domain, direction: Direction, seed: int) -> Variable | None:
        rule = domain.rule
        if not rule.ea_len:
            return None
        low, high = domain.ea_bounds
        if rule.psid_len == 16 and not rule.psid_offset and not rule.suffix_len:
            low = max(low, 1)  # the CE with EA value 0 has port 0 and no other
        if domain.ces == ALL_CUSTOMERS:
            return Variable(EA, rule.ea_len, Kind.UNIFORM, low=low, high=high)
        served = tuple(self.params.find_served_eas(domain, low))
        if (count := min(domain.ces, sum(map(len, served)))) > MAX_LISTED_CES:
            return Variable(EA, rule.ea_len, Kind.PERMUTATION, low=low, high=low + count - 1)
        seeds = f"{seed}/ces/{domain.rule_ipv6}", f"{seed}/{direction}/{domain.rule_ipv6}"
        values = _draw_ea_values(served, count, *seeds)
        return Variable(EA, rule.ea_len, Kind.LIST, values=values)

    def make_negative_layers(
        self, flow: CustomerFlow, valid: TrafficClass, direction: Direction
    ) -> dict[str, tuple[Layer, ...]]:
        """Return layers of forward frames with one field that a relay must reject (RFC 7597, section 8.1)."""
        if direction == "reverse":
            return {}
        p, rule = self.params, self.params.rule
        outside = replace(flow.ipv6, base=str(_spoof_prefix(p, IPv6Address(str(flow.ipv6.base)))))
        changed = {"spoof-prefix": valid.replace_fields("IPv6", src=outside)}
        if rule.ea_len and rule.suffix_len:
            # the IPv4 suffix is the first EA bits, and only the one in the identifier changes
            end = 112 if rule.iid_format == "rfc7597" else 104
            other = flow.ipv6.add_constant(1 << rule.psid_len, EA, range(64, end))
            changed["spoof-address"] = valid.replace_fields("IPv6", src=other)
        if rule.ea_len and rule.psid_len:
            port: Any = valid.find_layer("UDP").fields["sport"]
            changed["spoof-port"] = valid.replace_fields("UDP", sport=port.add_constant(1, EA))
        return changed

    def make_rule_configs(self) -> tuple[MapRuleConfig, ...]:
        return tuple(map(make_rule_config, self.params.rules))

    def make_relay_view(self, **translation: Any) -> SharedAddressRelay:
        """Return the audit view; a MAP-T relay adds ``dmr`` and ``lowest_ipv6_mtu``."""
        p, relay = self.params, self.params.relay_address
        tunnels, owner = frozenset(() if translation else (relay,)), RuleTable(p.rules).find_ce
        ends = relay, tunnels, p.server_ipv4
        customers = _choose_customers(p)
        return SharedAddressRelay(p.display_name, *ends, *customers, owner, p.rules, **translation)

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        rule, suffix = self.params.rule, self.params.rule.suffix_len
        n, variants = rule.ipv6_prefix.prefixlen, {}
        if self.params.domains or not suffix:
            return {}
        room = 64 - n - suffix
        for offset, name in enumerate(audit_views.PSID_OFFSETS if room > 0 else ()):
            length = max(1, min(rule.psid_len or 1, 16 - offset, 5, room))
            variants[name] = {"psid_offset": offset, "ea_len": suffix + length, "ces": 2}
        if rule.is_shared and suffix > _NESTED_SUFFIX_BITS and n:
            variants[audit_views.NESTED_RULE] = {"ces": 2, "domains": [_make_nested_rule(rule)]}
        if _CE_PREFIX_BITS < suffix <= 64 + _CE_PREFIX_BITS - n:
            variants[audit_views.CE_PREFIXES] = {"ea_len": suffix - _CE_PREFIX_BITS, "ces": 2}
        return variants


@lru_cache(maxsize=32)  # every frame size has the same
def _draw_ea_values(
    served: tuple[range, ...], count: int, sample_seed: str, order_seed: str
) -> tuple[int, ...]:
    starts = list(accumulate(map(len, served), initial=0))
    places = random.Random(sample_seed).sample(range(starts[-1]), count)  # noqa: S311
    chosen = ((place, bisect_right(starts, place) - 1) for place in places)
    values = [served[number][place - starts[number]] for place, number in chosen]
    random.Random(order_seed).shuffle(values)  # noqa: S311
    return tuple(values)


def _spoof_prefix(params: MapParams, address: IPv6Address) -> IPv6Address:
    """Return the address with one bit flipped, so that it is outside all rules."""
    for bit in range(params.rule.ipv6_prefix.prefixlen - 1, -1, -1):
        flipped = IPv6Address(int(address) ^ 1 << 127 - bit)
        if not any(flipped in rule.ipv6_prefix for rule in params.rules):
            return flipped
    problem = "no address lies outside all rules, so none can be spoofed"
    raise UsageError(problem, "set negative_percent to 0", code="not-enough-addresses")


def make_rule_config(rule: MapRule) -> MapRuleConfig:
    """Convert a rule to its form in device intents."""
    values = {name: getattr(rule, name) for name in MapRuleConfig.model_fields}
    return MapRuleConfig(**{name: value for name, value in values.items() if value is not None})


def _make_nested_rule(rule: MapRule) -> dict[str, Any]:
    """Return parameters of a more specific rule, with the last IPv4 addresses of ``rule``."""
    *_, pool = rule.ipv4_prefix.subnets(new_prefix=32 - _NESTED_SUFFIX_BITS)
    adjacent = rule.ipv6_prefix.network_address + rule.ipv6_prefix.num_addresses
    prefixes = {"rule_ipv6": f"{adjacent}/{rule.ipv6_prefix.prefixlen}", "rule_ipv4": str(pool)}
    lengths = {"ea_len": _NESTED_SUFFIX_BITS + rule.psid_len, "ces": 2}
    return {**prefixes, **lengths, "psid_offset": 4 if rule.psid_offset != 4 else 6}


def _choose_customers(params: MapParams) -> tuple[Customer, Customer | None, Customer | None]:
    """Choose a customer, optionally one that shares its address, and one with another address."""
    rule = params.rule
    ratio = rule.sharing_ratio if rule.ea_len else 1
    served = params.find_served_eas(params, 0)

    def make_customer(ea: int) -> Customer:
        ipv4, psid = rule.decode_ea(ea)
        return Customer(rule.map_address(ipv4, psid), ipv4, rule.make_port_set(psid))

    def select_served_ces(*eas: int) -> list[int]:
        return [ea for ea in eas if any(ea in some for some in served)]

    preferred = min(1, rule.ce_count // ratio - 1) * ratio + min(1, ratio - 1)
    candidates = [preferred, *(ea for some in served for ea in (*some[1:3], *some[:1]))]
    chosen = (*select_served_ces(*candidates), preferred)[0]
    number, psid = divmod(chosen, ratio)
    shared = [number * ratio + p for p in (psid + 1, psid - 1) if 0 <= p < ratio]
    sibling = next(map(make_customer, select_served_ces(*shared)), None)
    other = next(map(make_customer, select_served_ces(chosen + ratio, chosen - ratio)), None)
    return make_customer(chosen), sibling, other
