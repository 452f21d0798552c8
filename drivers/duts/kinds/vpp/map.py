"""VPP's MAP domains: relays of MAP-E, MAP-T and lw4o6 (RFC 7596, 7597, 7599)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import softwires
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.softwires import BindingTableRow, iter_softwires
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction
from v6t.drivers.duts.kinds.vpp.outputs import VppMapDomain
from v6t.drivers.duts.plan import DeviceChange, Expectation, IfExists, Step, expect_lines
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.families import MapERelayConfig, MapRuleConfig, MapTRelayConfig
from v6t.packets.address_layouts import map_address

FIRST_OCTETWISE_VERSION = (24, 6)  # first in which MAP-T looks up domains by whole octets only
LIVE_DOMAIN_TAG = "v6tbeside"  # tag of the domain that is added and removed under traffic
# header profile of tunnel relays, whose packets VPP routes after encapsulation
TUNNEL_PROFILE = HeaderProfile(
    tunnel_hop_limit=63, why="it routes what it has encapsulated with hop limit 64"
)


class MapDomainFunction(VppFunction):
    """Base of relays that VPP configures as a table of MAP domains."""

    plugin = "map"
    notes = ("packets with ports outside the CE's PSID are dropped",)
    feature = "ip4-map"  # name that VPP shows for an interface with MAP
    command_suffix = ""  # last word of the command that enables the feature

    @abstractmethod
    def make_domain_steps(self) -> list[Step]:
        """Return the steps that add the domains of the intent."""

    def make_steps(self, version: str) -> list[Step]:
        return [*self.make_domain_steps(), *map(self._make_enable_step, self.ports.values())]

    def _make_enable_step(self, port: str) -> Step:
        features = self.cli(f"show interface features {port}")
        return make_object_step(
            self.cli(f"map interface {port}{self.command_suffix}"),
            self.cli(f"map interface {port} del{self.command_suffix}"),
            f"MAP on {port}",
            read=f"{features} | grep -w -e ip4-map -e ip4-map-t || true",
            expected=expect_lines(self.feature),
            silent=True,
        )

    def make_domain_change(
        self,
        description: str,
        domain: VppMapDomain,
        replacement: VppMapDomain,
        distinguishing_words: tuple[str, str],
        rule_command: str = "true",
    ) -> DeviceChange:
        """Return a change that adds a domain and then replaces it with another.

        Args:
            description: description of the domain.
            domain: domain that is added.
            replacement: domain that replaces it.
            distinguishing_words: words that are listed only for ``domain``, and only for ``replacement``.
            rule_command: shell line that adds a rule to the new domain.
        """
        add, change = (self.cli(f"map add domain {d.command_words}") for d in (domain, replacement))
        remove = make_delete_command(self.cli, LIVE_DOMAIN_TAG)
        return DeviceChange(
            description,
            add_command=f"{add} && {rule_command}",
            change_command=f"{remove}; {change} && {rule_command}",
            remove_command=remove,
            show_command=f"{self.cli('show map domain')} | grep -F '{{{LIVE_DOMAIN_TAG}}}' || true",
            added_words=distinguishing_words[0],
            changed_words=distinguishing_words[1],
            note="changed: removed and added anew, VPP has no other way",
        )


def make_list_domains_command(cli: Vppctl) -> str:
    """Return the command that lists all domains, including domains that v6t did not add."""
    return f"{cli('show map domain')} | grep -F ']' || true"


def expect_domains(expected_domains: list[VppMapDomain], description: str) -> Expectation:
    """Expect these domains, and possibly others, in ``show map domain``."""

    def find_domain_problem(output: str) -> str | None:
        domains_by_tag = {domain.tag: domain for domain in outputs.parse_domains(output)}
        for domain in expected_domains:
            if domain.tag not in domains_by_tag:
                return f"VPP has made no domain {domain.tag} (it does not say why)"
            if domains_by_tag[domain.tag] != domain:
                return f"the domain {domain.tag} is {domains_by_tag[domain.tag]}, not {domain}"
        return None

    return Expectation(description, find_domain_problem)


def make_indices_command(cli: Vppctl, tag: str) -> str:
    """Return the shell line that prints the indices of the domains with a tag."""
    return f"{cli('show map domain')} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p'"


def make_delete_command(cli: Vppctl, tag: str) -> str:
    """Return the shell line that deletes the domains with a tag."""
    return f"{make_indices_command(cli, tag)} | while read i; do {cli('map del domain index $i')}; done"


class Lw4o6(MapDomainFunction):
    """VPP as an lwAFTR (RFC 7596)."""

    profile = TUNNEL_PROFILE

    def check_supported(self, version: str) -> None:
        _check_softwires(list(iter_softwires(self.intent)))

    def make_domain_steps(self) -> list[Step]:
        rows = list(iter_softwires(self.intent))
        return _make_softwire_steps(rows, self.cli, self.options.state_dir)

    def make_live_change(self) -> DeviceChange:
        row = next(iter_softwires(self.intent))
        b4 = find_spare_network(self.intent, 6).network_address + 1
        host = IPv4Address(int(find_spare_network(self.intent, 4).network_address) + 7)
        first, second = (
            _make_shared_domain(LIVE_DOMAIN_TAG, replace(row, ipv4=h)) for h in (host, host + 1)
        )
        add = self.cli(f"map add rule index $i psid 0 ip6-dst {b4}")
        rule = f"i=$({make_indices_command(self.cli, LIVE_DOMAIN_TAG)}); {add}"
        words = (first.ipv4, second.ipv4)
        return self.make_domain_change("a lwB4 with its address", first, second, words, rule)


def _check_softwires(rows: list[BindingTableRow]) -> None:
    """Raise UsageError if softwires with one IPv4 address differ in lwAFTR address or PSID layout."""
    names = {
        "br_address": "lwAFTR address",
        "psid_len": "PSID length",
        "psid_offset": "PSID offset",
    }
    first: dict[IPv4Address, BindingTableRow] = {}
    for row in rows:
        first_row = first.setdefault(row.ipv4, row)
        for name, value in names.items():
            if getattr(first_row, name) != getattr(row, name):
                raise make_unsupported_error(
                    f"a VPP domain has one {value}, and {row.ipv4} has {getattr(first_row, name)} "
                    f"(PSID {first_row.psid}) and {getattr(row, name)} (PSID {row.psid})",
                    "the driver snabb-lwaftr has one for each softwire of lw4o6",
                )


def _make_shared_domain(tag: str, softwire: BindingTableRow) -> VppMapDomain:
    """Return the domain of all softwires with the IPv4 address of the given one."""
    prefixes = (f"{softwire.ipv4}/32", "::/0", f"{softwire.br_address}/128")
    return VppMapDomain(tag, *prefixes, 0, softwire.psid_offset, softwire.psid_len)


def _make_softwire_steps(
    rows: list[BindingTableRow], cli: Vppctl, directory: str, first_tag: int = 0
) -> list[Step]:
    """Return the steps that add a domain for each IPv4 address, and a rule for each softwire."""
    files = f"{directory}/vpp-domains.cli", f"{directory}/vpp-rules.cli"
    first: dict[IPv4Address, BindingTableRow] = {}
    for row in rows:
        first.setdefault(row.ipv4, row)
    tags = {ipv4: f"v6t{number}" for number, ipv4 in enumerate(first, first_tag)}
    domains = [_make_shared_domain(tags[ipv4], row) for ipv4, row in first.items()]
    rules = "".join(f"{tags[row.ipv4]} {row.psid} {row.b4_address}\n" for row in rows)
    show = cli("show map domain")
    number = (
        f"{show} | sed 's/^\\[\\([0-9]*\\)\\] tag {{\\([^}}]*\\)}} .*/\\1 \\2/' >{directory}/indices; "
        "awk 'NR == FNR {index_of[$2] = $1; next} "
        '{print "map add rule index " index_of[$1] " psid " $2 " ip6-dst " $3}\' '
        f"{directory}/indices - >{files[1]} && rm {directory}/indices"
    )

    def find_softwire_problem(output: str) -> str | None:
        rules = outputs.parse_domain_rules(output)
        for row in rows:
            b4 = rules.get((tags[row.ipv4], row.psid))
            if b4 != row.b4_address:
                return f"PSID {row.psid} of {row.ipv4} is {b4}, not {row.b4_address}"
        return None

    return [
        make_object_step(
            f"umask 077; cat >{files[0]} && {cli('exec ' + files[0])}",
            f"{make_delete_command(cli, 'v6t[0-9]*')}; rm -f {files[0]}",
            f"{len(tags)} addresses shared by lwB4s",
            text="".join(f"map add domain {domain.command_words}\n" for domain in domains),
            read=make_list_domains_command(cli),
            expected=expect_domains(domains, f"{len(tags)} domains with these values"),
            silent=True,
        ),
        Step(
            f"umask 077; {number} && {cli('exec ' + files[1])}",
            f"{len(rows)} softwires",
            text=rules,
            read=show,
            expected=Expectation(f"{len(rows)} rules with these addresses", find_softwire_problem),
            undo=f"rm -f {files[1]}",
            existing=IfExists.NONE,
            silent=True,
        ),
    ]


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
        domain = VppMapDomain(f"v6t{number}", *prefixes, *lengths)
        return make_object_step(
            self.cli(f"map add domain {domain.command_words}"),
            make_delete_command(self.cli, domain.tag),
            f"the rule {rule.ipv6_prefix}",
            read=make_list_domains_command(self.cli),
            expected=expect_domains([domain], f"domain {domain.tag} with these values"),
        )

    def make_live_change(self) -> DeviceChange:
        four, six = (str(find_spare_network(self.intent, version)) for version in (4, 6))
        nets = (four, six, str(self.source))
        first, second = (
            VppMapDomain(LIVE_DOMAIN_TAG, *nets, length, 6, length - 8) for length in (16, 14)
        )
        words = ("ea-bits-len 16", "ea-bits-len 14")
        return self.make_domain_change("a MAP domain", first, second, words)

    def _loses_packets(self, net: IPv6Network, version: str) -> bool:
        """Return whether this version of VPP drops packets of a rule with this IPv6 prefix."""
        return False

    def _find_nearest_prefix(self, rule: MapRuleConfig, version: str) -> IPv6Network:
        """Return the longest prefix that VPP supports and that contains a rule's IPv6 prefix."""
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

    def check_rules(self, rules: Sequence[MapRuleConfig], version: str) -> None:
        """Raise UsageError if VPP does not support a rule or loses its packets."""
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
    """VPP as a MAP-T border relay."""

    feature = "ip4-map-t"
    command_suffix = " map-t"
    parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {
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
        return bool(net.prefixlen % 8) and parse_version(version) >= FIRST_OCTETWISE_VERSION

    def suggest_params(self, rules: Sequence[MapRuleConfig], version: str) -> dict[str, object]:
        dmr = self.relay.dmr
        if dmr.prefixlen == 64:
            return super().suggest_params(rules, version)
        net = dmr.supernet(new_prefix=64) if dmr.prefixlen > 64 else f"{dmr.network_address}/64"
        return {"dmr": str(net), **super().suggest_params(rules, version)}

    def check_supported(self, version: str) -> None:
        relay, params = self.relay, self.suggest_params(self.rules, version)
        softwires.check_iid_format(relay.rules, "VPP")
        softwires.check_no_psid(relay.rules, "VPP's MAP-T")
        softwires.check_lowest_mtu(
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
        if len(relay.rules) > 1 and parse_version(version) < FIRST_OCTETWISE_VERSION:
            problem = f"VPP {version} finds the rule of a MAP-T packet by its DMR: one for each DMR"
            hint = "use one rule, or VPP 24.06 or newer"
            raise UsageError(problem, hint, code="unsupported-by-version")
        self.check_rules(relay.rules, version)


class MapE(MapRulesFunction):
    """VPP as a MAP-E border relay; CEs without EA bits are configured as softwires."""

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
        _check_softwires(self._list_softwires())
        softwires.check_iid_format(self.rules, "VPP")
        self.check_rules(self.relay.rules, version)

    def make_domain_steps(self) -> list[Step]:
        rows = self._list_softwires()
        directory, first = self.options.state_dir, len(self.rules)
        extra_steps = _make_softwire_steps(rows, self.cli, directory, first) if rows else []
        return [*extra_steps, *super().make_domain_steps()]

    def _list_softwires(self) -> list[BindingTableRow]:
        """Return the rules without EA bits as softwires."""
        rows = []
        for rule in self.relay.rules:
            if rule.psid is not None:
                ipv4, layout = rule.ipv4_prefix[0], (rule.psid, rule.psid_len, rule.psid_offset)
                b4 = map_address(rule, ipv4, rule.psid)
                rows.append(BindingTableRow(ipv4, *layout, b4, self.relay.br_address))
        return rows
