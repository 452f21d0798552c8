"""MAP-E, MAP-T and lw4o6 relays of VPP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.kinds import softwires
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.softwires import Softwire, generate_softwires
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction
from v6t.drivers.duts.kinds.vpp.outputs import Domain
from v6t.drivers.duts.plan import Change, Existing, Step, Want, has_lines
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.drivers.duts.steps import create_object
from v6t.intent.families import MapERelayConfig, MapRuleConfig, MapTRelayConfig
from v6t.packets.address_layouts import map_address

BITWISE_SINCE = (24, 6)
"""Since then the domain of an IPv6 source is looked up with whole octets only (MAP-T)."""
LIVE = "v6tbeside"
"""The tag of the domain that is added and removed under traffic."""


class MapRelay(VppFunction):
    """The base of relays, whose tunnel or translation is a table of domains."""

    plugin = "map"
    notes = ("packets whose ports are not of the CE's PSID are dropped",)
    feature = "ip4-map"
    """VPP's name of MAP on an interface."""
    mode = ""
    """Follows the command that enables it."""

    @abstractmethod
    def domains(self) -> list[Step]: ...

    def steps(self, version: str) -> list[Step]:
        return [*self.domains(), *map(self._enable, self.ports.values())]

    def _enable(self, port: str) -> Step:
        features = self.cli(f"show interface features {port}")
        create = self.cli(f"map interface {port}{self.mode}")
        delete = self.cli(f"map interface {port} del{self.mode}")
        why = f"MAP on {port}"
        read = f"{features} | grep -w -e ip4-map -e ip4-map-t || true"
        return create_object(
            create, delete, why, read=read, want=has_lines(self.feature), silent=True
        )

    def change_domain(
        self, what: str, first: Domain, other: Domain, shown: tuple[str, str], rule: str = "true"
    ) -> Change:
        add, change = (self.cli(f"map add domain {each.words}") for each in (first, other))
        remove = delete_domain(self.cli, LIVE)
        return Change(
            what,
            add=f"{add} && {rule}",
            change=f"{remove}; {change} && {rule}",
            remove=remove,
            look=f"{self.cli('show map domain')} | grep -F '{{{LIVE}}}' || true",
            added=shown[0],
            changed=shown[1],
            how="changed: removed and added anew, VPP has no other way",
        )


class MapRules(MapRelay):
    """The base of relays with MAP rules."""

    rules: Sequence[MapRuleConfig]
    """The rules with a domain."""
    source: IPv6Address | IPv6Network
    """The source of what the relay sends to its CEs."""

    def domains(self) -> list[Step]:
        return [self._add_domain(number, rule) for number, rule in enumerate(self.rules)]

    def _add_domain(self, number: int, rule: MapRuleConfig) -> Step:
        source = str(ip_network(self.source))
        prefixes = (str(rule.ipv4_prefix), str(rule.ipv6_prefix), source)
        lengths = (rule.ea_len, rule.psid_offset, rule.psid_len)
        domain = Domain(f"v6t{number}", *prefixes, *lengths)
        create = self.cli(f"map add domain {domain.words}")
        delete = delete_domain(self.cli, domain.tag)
        why = f"the rule {rule.ipv6_prefix}"
        want = has_domains([domain], f"domain {domain.tag} with these values")
        return create_object(create, delete, why, read=list_domains(self.cli), want=want)

    def live_change(self) -> Change:
        nets = (
            str(find_spare_network(self.intent, 4)),
            str(find_spare_network(self.intent, 6)),
            str(self.source),
        )
        first, other = (Domain(LIVE, *nets, length, 6, length - 8) for length in (16, 14))
        shown = ("ea-bits-len 16", "ea-bits-len 14")
        return self.change_domain("a MAP domain", first, other, shown)

    def _loses_packets(self, net: IPv6Network, version: str) -> bool:
        del net, version
        return False

    def _find_nearest_prefix(self, rule: MapRuleConfig, version: str) -> IPv6Network:
        length = min(rule.ipv6_prefix.prefixlen, max(64 - rule.ea_len, 0))
        near = rule.ipv6_prefix.supernet(new_prefix=length)
        return (
            near.supernet(new_prefix=length // 8 * 8)
            if self._loses_packets(near, version)
            else near
        )

    def suggest_params(self, rules: Sequence[MapRuleConfig], version: str) -> dict[str, object]:
        if len(rules) != 1:
            return {}
        near = self._find_nearest_prefix(rules[0], version)
        return {} if near == rules[0].ipv6_prefix else {"rule_ipv6": str(near)}

    def refuse_rules(self, rules: Sequence[MapRuleConfig], version: str) -> None:
        params = self.suggest_params(rules, version)
        for rule in rules:
            net, end = rule.ipv6_prefix, rule.ipv6_prefix.prefixlen + rule.ea_len
            near = self._find_nearest_prefix(rule, version)
            hint = f"the nearest rule that works has rule_ipv6={near}"
            if end > 64:
                problem = (
                    f"VPP does not support EA bits beyond bit 64, but those of {net} end at bit {end}: it "
                    "would reject the domain silently"
                )
                raise make_unsupported_error(
                    problem, hint if rule.ea_len < 64 else "", params=params
                )
            if self._loses_packets(net, version) and not self.options.known_losses:
                problem = (
                    f"VPP {version} drops all MAP-T packets from IPv6 unless the rule's prefix length "
                    f"is a multiple of 8; {net} is not"
                )
                hint = f"{hint}; or use VPP 24.02"
                raise UsageError(problem, hint, params=params, code="unsupported-by-version")


class MapT(MapRules):
    """A border relay of MAP-T."""

    feature = "ip4-map-t"
    mode = " map-t"
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
        return bool(net.prefixlen % 8) and outputs.parse_version(version) >= BITWISE_SINCE

    def suggest_params(self, rules: Sequence[MapRuleConfig], version: str) -> dict[str, object]:
        dmr = self.relay.dmr
        if dmr.prefixlen == 64:
            return super().suggest_params(rules, version)
        net = dmr.supernet(new_prefix=64) if dmr.prefixlen > 64 else f"{dmr.network_address}/64"
        return {"dmr": str(net), **super().suggest_params(rules, version)}

    def refuse(self, version: str) -> None:
        relay, params = self.relay, self.suggest_params(self.rules, version)
        softwires.refuse_draft(relay.rules, "VPP")
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
        if len(relay.rules) > 1 and outputs.parse_version(version) < BITWISE_SINCE:
            problem = (
                f"VPP {version} finds the rule of a MAP-T packet by its DMR: one rule to a DMR"
            )
            hint = "use one rule, or VPP 24.06 or newer"
            raise UsageError(problem, hint, code="unsupported-by-version")
        self.refuse_rules(relay.rules, version)


def list_domains(cli: Vppctl) -> str:
    """Return the read of all domains; anybody's is in the way."""
    return f"{cli('show map domain')} | grep -F ']' || true"


def has_domains(wanted: list[Domain], says: str) -> Want:
    """Require these domains; others are allowed."""

    def checker(output: str) -> str | None:
        found = {domain.tag: domain for domain in outputs.parse_domains(output)}
        for domain in wanted:
            if domain.tag not in found:
                return f"VPP has made no domain {domain.tag} (it does not say why)"
            if found[domain.tag] != domain:
                return f"the domain {domain.tag} is {found[domain.tag]}, not {domain}"
        return None

    return Want(says, checker)


def list_indices(cli: Vppctl, tag: str) -> str:
    """Return the shell line that prints the indices of domains, which are VPP's; others' must stay."""
    return f"{cli('show map domain')} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p'"


def delete_domain(cli: Vppctl, tag: str) -> str:
    """Return the shell line that deletes the domains with a tag."""
    return f"{list_indices(cli, tag)} | while read i; do {cli('map del domain index $i')}; done"


TUNNEL_PROFILE = ExpectProfile(
    tunnel_hop_limit=63, why="it routes what it has encapsulated with hop limit 64"
)


class MapE(MapRules):
    """A border relay of MAP-E; in VPP, a CE without EA bits is a softwire with an address of its own."""

    profile = TUNNEL_PROFILE
    notes = (
        *MapRelay.notes,
        "IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: background needs VLANs of its own "
        "(links.*.background)",
    )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.relay = self.intent.configuration_as(MapERelayConfig)
        self.rules = [rule for rule in self.relay.rules if rule.psid is None]
        self.source = self.relay.br_address

    def refuse(self, version: str) -> None:
        _refuse_mixed(self._softwires())
        softwires.refuse_draft(self.rules, "VPP")
        self.refuse_rules(self.relay.rules, version)

    def domains(self) -> list[Step]:
        rows = self._softwires()
        more = (
            _add_softwires(rows, self.cli, self.options.state_dir, len(self.rules)) if rows else []
        )
        return [*more, *super().domains()]

    def _softwires(self) -> list[Softwire]:
        return [
            Softwire(ipv4, rule.psid, rule.psid_len, rule.psid_offset, b4, self.relay.br_address)
            for rule in self.relay.rules
            if rule.psid is not None
            for ipv4 in [rule.ipv4_prefix[0]]
            for b4 in [map_address(rule, ipv4, rule.psid)]
        ]


class Lw4o6(MapRelay):
    """An lwAFTR (RFC 7596)."""

    profile = TUNNEL_PROFILE

    def refuse(self, version: str) -> None:
        _refuse_mixed(list(generate_softwires(self.intent)))

    def domains(self) -> list[Step]:
        rows = list(generate_softwires(self.intent))
        return _add_softwires(rows, self.cli, self.options.state_dir)

    def live_change(self) -> Change:
        row, b4 = (
            next(generate_softwires(self.intent)),
            find_spare_network(self.intent, 6).network_address + 1,
        )
        host = IPv4Address(int(find_spare_network(self.intent, 4).network_address) + 7)
        first, other = (_make_shared_domain(LIVE, replace(row, ipv4=h)) for h in (host, host + 1))
        add = self.cli(f"map add rule index $i psid 0 ip6-dst {b4}")
        rule = f"i=$({list_indices(self.cli, LIVE)}); {add}"
        shown = (first.ipv4, other.ipv4)
        return self.change_domain("a lwB4 with its address", first, other, shown, rule)


def _refuse_mixed(rows: list[Softwire]) -> None:
    """Refuse softwires of one IPv4 address that differ in what a VPP domain has once."""
    first: dict[IPv4Address, Softwire] = {}
    for row in rows:
        known = first.setdefault(row.ipv4, row)
        names = {"br": "lwAFTR address", "psid_len": "PSID length", "psid_offset": "PSID offset"}
        for name, value in names.items():
            if getattr(known, name) != getattr(row, name):
                raise make_unsupported_error(
                    f"a VPP domain has one {value}, and {row.ipv4} has {getattr(known, name)} "
                    f"(PSID {known.psid}) and {getattr(row, name)} (PSID {row.psid})",
                    "the driver snabb-lwaftr has one for each softwire of lw4o6",
                )


def _make_shared_domain(tag: str, row: Softwire) -> Domain:
    prefixes = (f"{row.ipv4}/32", "::/0", f"{row.br}/128")
    return Domain(tag, *prefixes, 0, row.psid_offset, row.psid_len)


def _add_softwires(rows: list[Softwire], cli: Vppctl, place: str, first_tag: int = 0) -> list[Step]:
    files = f"{place}/vpp-domains.cli", f"{place}/vpp-rules.cli"
    first: dict[IPv4Address, Softwire] = {}
    for row in rows:
        first.setdefault(row.ipv4, row)
    tags = {ipv4: f"v6t{number}" for number, ipv4 in enumerate(first, first_tag)}
    wanted = [_make_shared_domain(tags[ipv4], row) for ipv4, row in first.items()]
    rules = "".join(f"{tags[row.ipv4]} {row.psid} {row.b4}\n" for row in rows)
    show = cli("show map domain")
    number = (
        f"{show} | sed 's/^\\[\\([0-9]*\\)\\] tag {{\\([^}}]*\\)}} .*/\\1 \\2/' >{place}/indices; "
        "awk 'NR == FNR {index_of[$2] = $1; next} "
        '{print "map add rule index " index_of[$1] " psid " $2 " ip6-dst " $3}\' '
        f"{place}/indices - >{files[1]} && rm {place}/indices"
    )

    def check_rules(output: str) -> str | None:
        found = outputs.parse_domain_rules(output)
        for row in rows:
            b4 = found.get((tags[row.ipv4], row.psid))
            if b4 != row.b4:
                return f"PSID {row.psid} of {row.ipv4} is {b4}, not {row.b4}"
        return None

    return [
        create_object(
            f"umask 077; cat >{files[0]} && {cli('exec ' + files[0])}",
            f"{delete_domain(cli, 'v6t[0-9]*')}; rm -f {files[0]}",
            f"{len(tags)} addresses shared by lwB4s",
            text="".join(f"map add domain {domain.words}\n" for domain in wanted),
            read=list_domains(cli),
            want=has_domains(wanted, f"{len(tags)} domains with these values"),
            silent=True,
        ),
        Step(
            f"umask 077; {number} && {cli('exec ' + files[1])}",
            f"{len(rows)} softwires",
            text=rules,
            read=show,
            want=Want(f"{len(rows)} rules with these addresses", check_rules),
            undo=f"rm -f {files[1]}",
            existing=Existing.NONE,
            silent=True,
        ),
    ]
