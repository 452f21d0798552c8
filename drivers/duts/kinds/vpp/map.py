"""MAP-E and MAP-T relays of VPP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds import softwires
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.softwires import Softwire
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.domains import (
    LIVE_DOMAIN_TAG,
    TUNNEL_PROFILE,
    MapDomainFunction,
    expect_domains,
    make_delete_command,
    make_list_domains_command,
)
from v6t.drivers.duts.kinds.vpp.lw4o6 import make_softwire_steps, refuse_mixed_softwires
from v6t.drivers.duts.kinds.vpp.outputs import MapDomain
from v6t.drivers.duts.plan import Change, Step
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.drivers.duts.steps import create_object
from v6t.intent.families import MapERelayConfig, MapRuleConfig, MapTRelayConfig
from v6t.packets.address_layouts import map_address

FIRST_OCTETWISE_VERSION = (24, 6)  # MAP-T finds the domain of an IPv6 source by whole octets only


class MapRulesFunction(MapDomainFunction):
    """Base of relays with MAP rules."""

    rules: Sequence[MapRuleConfig]  # rules that need a domain
    source: IPv6Address | IPv6Network  # IPv6 source of packets to CEs

    def make_domain_steps(self) -> list[Step]:
        return [self._make_domain_step(number, rule) for number, rule in enumerate(self.rules)]

    def _make_domain_step(self, number: int, rule: MapRuleConfig) -> Step:
        source = str(ip_network(self.source))
        prefixes = (str(rule.ipv4_prefix), str(rule.ipv6_prefix), source)
        lengths = (rule.ea_len, rule.psid_offset, rule.psid_len)
        domain = MapDomain(f"v6t{number}", *prefixes, *lengths)
        create = self.cli(f"map add domain {domain.command_words}")
        delete = make_delete_command(self.cli, domain.tag)
        why = f"the rule {rule.ipv6_prefix}"
        expected = expect_domains([domain], f"domain {domain.tag} with these values")
        return create_object(
            create, delete, why, read=make_list_domains_command(self.cli), expected=expected
        )

    def make_live_change(self) -> Change:
        four, six = (str(find_spare_network(self.intent, version)) for version in (4, 6))
        nets = (four, six, str(self.source))
        first, second = (
            MapDomain(LIVE_DOMAIN_TAG, *nets, length, 6, length - 8) for length in (16, 14)
        )
        words = ("ea-bits-len 16", "ea-bits-len 14")
        return self.make_domain_change("a MAP domain", first, second, words)

    def _loses_packets(self, net: IPv6Network, version: str) -> bool:
        """Return whether this version of VPP drops packets of a rule with this IPv6 prefix."""
        del net, version
        return False

    def _find_nearest_prefix(self, rule: MapRuleConfig, version: str) -> IPv6Network:
        length = min(rule.ipv6_prefix.prefixlen, max(64 - rule.ea_len, 0))
        near = rule.ipv6_prefix.supernet(new_prefix=length)
        loses = self._loses_packets(near, version)
        return near.supernet(new_prefix=length // 8 * 8) if loses else near

    def suggest_params(self, rules: Sequence[MapRuleConfig], version: str) -> dict[str, object]:
        """Return parameters of the nearest configuration that VPP supports."""
        if len(rules) != 1:
            return {}
        near = self._find_nearest_prefix(rules[0], version)
        return {} if near == rules[0].ipv6_prefix else {"rule_ipv6": str(near)}

    def refuse_rules(self, rules: Sequence[MapRuleConfig], version: str) -> None:
        """Refuse rules that VPP does not support or for which it loses packets."""
        params = self.suggest_params(rules, version)
        for rule in rules:
            net, end = rule.ipv6_prefix, rule.ipv6_prefix.prefixlen + rule.ea_len
            near = self._find_nearest_prefix(rule, version)
            hint = f"the nearest rule that works has rule_ipv6={near}"
            if end > 64:
                problem = f"VPP does not support EA bits beyond bit 64; {net}'s end at bit {end}"
                hint = hint if rule.ea_len < 64 else ""
                raise make_unsupported_error(problem, hint, params=params)
            if self._loses_packets(net, version) and not self.options.known_losses:
                problem = (
                    f"VPP {version} drops all MAP-T packets from IPv6 unless the rule's prefix length "
                    f"is a multiple of 8; {net} is not"
                )
                hint = f"{hint}; or use VPP 24.02"
                raise UsageError(problem, hint, params=params, code="unsupported-by-version")


class MapT(MapRulesFunction):
    """VPP as a border relay of MAP-T."""

    feature = "ip4-map-t"
    mode = " map-t"
    get_parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {
        "rule_ipv6": ParameterOverride(
            "2001:db8:ce::/48",
            "VPP 24.06 and newer find a MAP-T rule by whole octets of its prefix",
        ),
        "dmr": ParameterOverride(
            "64:ff9b::/64", "VPP loses one direction of MAP-T behind a DMR other than /64"
        ),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.relay = self.intent.configuration_as(MapTRelayConfig)
        self.rules, self.source = self.relay.rules, self.relay.dmr

    def _loses_packets(self, net: IPv6Network, version: str) -> bool:
        return bool(net.prefixlen % 8) and outputs.parse_version(version) >= FIRST_OCTETWISE_VERSION

    def suggest_params(self, rules: Sequence[MapRuleConfig], version: str) -> dict[str, object]:
        dmr = self.relay.dmr
        if dmr.prefixlen == 64:
            return super().suggest_params(rules, version)
        net = dmr.supernet(new_prefix=64) if dmr.prefixlen > 64 else f"{dmr.network_address}/64"
        return {"dmr": str(net), **super().suggest_params(rules, version)}

    def check_supported(self, version: str) -> None:
        relay, params = self.relay, self.suggest_params(self.rules, version)
        softwires.refuse_draft_format(relay.rules, "VPP")
        softwires.refuse_psid(relay.rules, "VPP's MAP-T")
        softwires.refuse_lowest_mtu(
            relay.lowest_ipv6_mtu,
            "VPP fragments no packet that fits the IPv6 link",
            self.intent.links.left.mtu,
        )
        if "dmr" in params and not self.options.known_losses:
            raise make_unsupported_error(
                f"VPP's MAP-T writes addresses of another form behind a DMR other than /64; {relay.dmr} "
                "loses one direction",
                f"the nearest DMR that works is {params['dmr']}",
                params=params,
            )
        if len(relay.rules) > 1 and outputs.parse_version(version) < FIRST_OCTETWISE_VERSION:
            problem = f"VPP {version} finds the rule of a MAP-T packet by its DMR: one for each DMR"
            hint = "use one rule, or VPP 24.06 or newer"
            raise UsageError(problem, hint, code="unsupported-by-version")
        self.refuse_rules(relay.rules, version)


class MapE(MapRulesFunction):
    """VPP as a border relay of MAP-E; CEs without EA bits are configured as softwires."""

    profile = TUNNEL_PROFILE
    notes = (
        *MapDomainFunction.notes,
        "IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: background needs VLANs of its own "
        "(links.*.background)",
    )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.relay = self.intent.configuration_as(MapERelayConfig)
        self.rules = [rule for rule in self.relay.rules if rule.psid is None]
        self.source = self.relay.br_address

    def check_supported(self, version: str) -> None:
        refuse_mixed_softwires(self._list_softwires())
        softwires.refuse_draft_format(self.rules, "VPP")
        self.refuse_rules(self.relay.rules, version)

    def make_domain_steps(self) -> list[Step]:
        rows = self._list_softwires()
        directory, first = self.options.state_dir, len(self.rules)
        extra_steps = make_softwire_steps(rows, self.cli, directory, first) if rows else []
        return [*extra_steps, *super().make_domain_steps()]

    def _list_softwires(self) -> list[Softwire]:
        return [
            Softwire(ipv4, rule.psid, rule.psid_len, rule.psid_offset, b4, self.relay.br_address)
            for rule in self.relay.rules
            if rule.psid is not None
            for ipv4 in [rule.ipv4_prefix[0]]
            for b4 in [map_address(rule, ipv4, rule.psid)]
        ]
