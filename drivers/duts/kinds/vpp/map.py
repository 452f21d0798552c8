"""VPP's MAP domains: relays of MAP-E, MAP-T and lw4o6 (RFC 7596, 7597, 7599)."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import softwires
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import VppFunction
from v6t.drivers.duts.kinds.vpp.outputs import VppMapDomain
from v6t.drivers.duts.plan import DeviceChange, Expectation, IfExists, Step, expect_lines
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.binding_table import SoftwireRow
from v6t.intent.families import MapERelayConfig, MapRuleConfig, MapTRelayConfig
from v6t.packets.address_layouts import map_address

FIRST_OCTETWISE_VERSION = (24, 6)  # first in which MAP-T looks up domains by whole octets only
LIVE_DOMAIN_TAG = "v6tbeside"  # tag of the domain that is added and removed under traffic
# header profile of tunnel relays, whose packets VPP routes after encapsulation
TUNNEL_PROFILE = HeaderProfile(tunnel_hop_limit=63, why="it routes packets after encapsulation")


class MapDomainFunction(VppFunction):
    """Base of relays: VPP has a MAP domain for each rule, and one for each shared address."""

    plugin = "map"
    notes = ("packets with ports outside the CE's PSID are dropped",)
    feature = "ip4-map"  # name that VPP shows for an interface with MAP
    command_suffix = ""  # last word of the command that enables the feature

    rules: Sequence[MapRuleConfig] = ()  # MAP rules of the relay
    source: IPv6Address | IPv6Network  # IPv6 source of packets to CEs with a rule

    def list_softwires(self) -> list[SoftwireRow]:
        """Return the softwires that share IPv4 addresses."""
        return []

    @property
    def domain_rules(self) -> list[MapRuleConfig]:
        """The rules with EA bits; the others are softwires."""
        return [rule for rule in self.rules if rule.psid is None]

    def check_supported(self, version: str) -> None:
        _check_softwires(self.list_softwires())
        softwires.check_iid_format(self.domain_rules, "VPP")
        self._check_rules(version)

    def make_steps(self, version: str) -> list[Step]:
        return [
            *self._make_softwire_steps(),
            *(self._make_domain_step(*each) for each in enumerate(self.domain_rules)),
            *map(self._make_enable_step, self.ports.values()),
        ]

    def _make_enable_step(self, port: str) -> Step:
        enable = self.cli(f"map interface {port}{self.command_suffix}")
        disable = self.cli(f"map interface {port} del{self.command_suffix}")
        features = self.cli(f"show interface features {port}")
        read = f"{features} | grep -w -e ip4-map -e ip4-map-t || true"
        why, expected = f"MAP on {port}", expect_lines(self.feature)
        return make_object_step(enable, disable, why, read=read, expected=expected, silent=True)

    def _make_domain_step(self, number: int, rule: MapRuleConfig) -> Step:
        prefixes = (str(rule.ipv4_prefix), str(rule.ipv6_prefix), str(self.source))
        lengths = (rule.ea_len, rule.psid_offset, rule.psid_len)
        domain = VppMapDomain(f"v6t{number}", *prefixes, *lengths)
        add = self.cli(f"map add domain {domain.command_words}")
        delete, read = self._make_delete_command(domain.tag), self._list_domains_command
        why = f"the rule {rule.ipv6_prefix}"
        expected = outputs.expect_domains([domain], f"domain {domain.tag} with these values")
        return make_object_step(add, delete, why, read=read, expected=expected)

    def _make_softwire_steps(self) -> list[Step]:
        rows, cli, directory = self.list_softwires(), self.cli, self.options.state_dir
        if not rows:
            return []
        files = f"{directory}/vpp-domains.cli", f"{directory}/vpp-rules.cli"
        # domains have equal values for all softwires of an address
        rows_by_ipv4 = {row.ipv4: row for row in reversed(rows)}
        shared = dict.fromkeys(row.ipv4 for row in rows)
        tags = {ipv4: f"v6t{number}" for number, ipv4 in enumerate(shared, len(self.domain_rules))}
        domains = [_make_shared_domain(tag, ipv4, rows_by_ipv4[ipv4]) for ipv4, tag in tags.items()]
        show = cli("show map domain")
        number_rules = (
            f"{show} | sed 's/^\\[\\([0-9]*\\)\\] tag {{\\([^}}]*\\)}} .*/\\1 \\2/' >{directory}/indices; "
            "awk 'NR == FNR {index_of[$2] = $1; next} "
            '{print "map add rule index " index_of[$1] " psid " $2 " ip6-dst " $3}\' '
            f"{directory}/indices - >{files[1]} && rm {directory}/indices"
        )

        def find_problem(output: str) -> str | None:
            b4s = outputs.parse_domain_rules(output)
            for row in rows:
                if (b4 := b4s.get((tags[row.ipv4], row.psid))) != row.b4:
                    return f"PSID {row.psid} of {row.ipv4} is {b4}, not {row.b4}"
            return None

        return [
            make_object_step(
                f"umask 077; cat >{files[0]} && {cli('exec ' + files[0])}",
                f"{self._make_delete_command('v6t[0-9]*')}; rm -f {files[0]}",
                f"{len(tags)} addresses shared by lwB4s",
                text="".join(f"map add domain {domain.command_words}\n" for domain in domains),
                read=self._list_domains_command,
                expected=outputs.expect_domains(domains, f"{len(tags)} domains with these values"),
                silent=True,
            ),
            Step(
                f"umask 077; {number_rules} && {cli('exec ' + files[1])}",
                f"{len(rows)} softwires",
                text="".join(f"{tags[row.ipv4]} {row.psid} {row.b4}\n" for row in rows),
                read=show,
                expected=Expectation(f"{len(rows)} rules with these addresses", find_problem),
                undo=f"rm -f {files[1]}",
                existing=IfExists.NONE,
                silent=True,
            ),
        ]

    @property
    def _list_domains_command(self) -> str:
        return f"{self.cli('show map domain')} | grep -F ']' || true"

    def _make_indices_command(self, tag: str) -> str:
        show = self.cli("show map domain")
        return f"{show} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p'"

    def _make_delete_command(self, tag: str) -> str:
        delete = self.cli("map del domain index $i")
        return f"{self._make_indices_command(tag)} | while read i; do {delete}; done"

    def make_live_change(self) -> DeviceChange:
        four, six = (str(find_spare_network(self.intent, version)) for version in (4, 6))
        prefixes = four, six, str(self.source)
        domains = [VppMapDomain(LIVE_DOMAIN_TAG, *prefixes, n, 6, n - 8) for n in (16, 14)]
        return self.make_domain_change("a MAP domain", domains, "ea-bits-len {0.ea_len}")

    def make_domain_change(
        self,
        description: str,
        domains: Sequence[VppMapDomain],
        distinguishing_words: str,
        rule_command: str = "true",
    ) -> DeviceChange:
        """Return a change that adds the first domain and then replaces it with the second.

        Args:
            distinguishing_words: words that are listed only for the domain in place of ``{0}``.
            rule_command: shell line that adds a rule to the new domain.
        """
        add, change = (self.cli(f"map add domain {d.command_words}") for d in domains)
        remove = self._make_delete_command(LIVE_DOMAIN_TAG)
        return DeviceChange(
            description,
            add_command=f"{add} && {rule_command}",
            change_command=f"{remove}; {change} && {rule_command}",
            remove_command=remove,
            show_command=f"{self.cli('show map domain')} | grep -F '{{{LIVE_DOMAIN_TAG}}}' || true",
            added_words=distinguishing_words.format(domains[0]),
            changed_words=distinguishing_words.format(domains[1]),
            note="changed by removing and adding it again: VPP has no other command",
        )

    def _requires_whole_octets(self, version: str) -> bool:
        """Return whether this version of VPP drops packets of other IPv6 prefixes."""
        return False

    def _find_nearest_prefix(self, rule: MapRuleConfig, version: str) -> IPv6Network:
        """Return the longest prefix that VPP supports and that contains a rule's IPv6 prefix."""
        length = min(rule.ipv6_prefix.prefixlen, max(64 - rule.ea_len, 0))
        length -= length % 8 if self._requires_whole_octets(version) else 0
        return rule.ipv6_prefix.supernet(new_prefix=length)

    def suggest_params(self, version: str) -> dict[str, object]:
        """Return parameters of the nearest configuration that VPP supports."""
        if len(self.rules) != 1:
            return {}
        near = self._find_nearest_prefix(self.rules[0], version)
        return {} if near == self.rules[0].ipv6_prefix else {"rule_ipv6": str(near)}

    def _check_rules(self, version: str) -> None:
        """Raise UsageError if VPP does not support a rule or loses its packets."""
        params = self.suggest_params(version)
        for rule in self.rules:
            net, end = rule.ipv6_prefix, rule.ipv6_prefix.prefixlen + rule.ea_len
            near = self._find_nearest_prefix(rule, version)
            hint = f"the nearest rule that works has rule_ipv6={near}"
            if end > 64:
                problem = f"VPP does not support EA bits beyond bit 64; {net}'s end at bit {end}"
                hint = hint if rule.ea_len < 64 else ""
                raise make_unsupported_error(problem, hint, params=params)
            loses = net.prefixlen % 8 and self._requires_whole_octets(version)
            if loses and not self.options.known_losses:
                problem = f"VPP {version} drops MAP-T packets from {net}: its length is not a multiple of 8"
                hint = f"{hint}; or use VPP 24.02"
                raise UsageError(problem, hint, params=params, code="unsupported-by-version")


def _check_softwires(rows: list[SoftwireRow]) -> None:
    """Raise UsageError if softwires with one IPv4 address differ in lwAFTR address or PSID layout."""
    names = {"br": "lwAFTR address", "psid_len": "PSID length", "psid_offset": "PSID offset"}
    first: dict[IPv4Address, SoftwireRow] = {}
    for row in rows:
        first_row = first.setdefault(row.ipv4, row)
        for name, value in names.items():
            if getattr(first_row, name) != getattr(row, name):
                raise make_unsupported_error(
                    f"a VPP domain has one {value}, and {row.ipv4} has {getattr(first_row, name)} "
                    f"(PSID {first_row.psid}) and {getattr(row, name)} (PSID {row.psid})",
                    "the driver snabb-lwaftr has one for each softwire of lw4o6",
                )


def _make_shared_domain(tag: str, ipv4: IPv4Address, softwire: SoftwireRow) -> VppMapDomain:
    prefixes = (f"{ipv4}/32", "::/0", str(softwire.br))
    return VppMapDomain(tag, *prefixes, 0, softwire.psid_offset, softwire.psid_len)


class Lw4o6(MapDomainFunction):
    """VPP as an lwAFTR (RFC 7596)."""

    profile = TUNNEL_PROFILE

    def list_softwires(self) -> list[SoftwireRow]:
        return list(softwires.iter_softwires(self.intent))

    def make_live_change(self) -> DeviceChange:
        row = next(softwires.iter_softwires(self.intent))
        b4 = find_spare_network(self.intent, 6).network_address + 1
        host = IPv4Address(int(find_spare_network(self.intent, 4).network_address) + 7)
        domains = [_make_shared_domain(LIVE_DOMAIN_TAG, h, row) for h in (host, host + 1)]
        add = self.cli(f"map add rule index $i psid 0 ip6-dst {b4}")
        rule = f"i=$({self._make_indices_command(LIVE_DOMAIN_TAG)}); {add}"
        return self.make_domain_change("a lwB4 with its address", domains, "{0.ipv4}", rule)


_WHOLE_OCTETS_REASON = "VPP 24.06 and newer find a MAP-T rule by whole octets of its prefix"
_DMR_LENGTH_REASON = "VPP loses one direction of MAP-T behind a DMR other than /64"


class MapT(MapDomainFunction):
    """VPP as a MAP-T border relay."""

    feature = "ip4-map-t"
    command_suffix = " map-t"
    parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {
        "rule_ipv6": ParameterOverride("2001:db8:ce::/48", _WHOLE_OCTETS_REASON),
        "dmr": ParameterOverride("64:ff9b::/64", _DMR_LENGTH_REASON),
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.relay = self.intent.get_configuration(MapTRelayConfig)
        self.rules, self.source = self.relay.rules, self.relay.dmr

    def _requires_whole_octets(self, version: str) -> bool:
        return parse_version(version) >= FIRST_OCTETWISE_VERSION

    def suggest_params(self, version: str) -> dict[str, object]:
        dmr = self.relay.dmr
        if dmr.prefixlen == 64:
            return super().suggest_params(version)
        net = dmr.supernet(new_prefix=64) if dmr.prefixlen > 64 else f"{dmr.network_address}/64"
        return {"dmr": str(net), **super().suggest_params(version)}

    def check_supported(self, version: str) -> None:
        relay, params = self.relay, self.suggest_params(version)
        softwires.check_no_psid(relay.rules, "VPP's MAP-T")
        reason = "VPP does not fragment packets that fit the IPv6 link"
        softwires.check_lowest_mtu(relay.lowest_ipv6_mtu, reason, self.intent.links.left.mtu)
        if "dmr" in params and not self.options.known_losses:
            problem = f"VPP's MAP-T loses one direction behind {relay.dmr}: the DMR must be a /64"
            hint = f"the nearest DMR that works is {params['dmr']}"
            raise make_unsupported_error(problem, hint, params=params)
        if len(relay.rules) > 1 and not self._requires_whole_octets(version):
            problem = f"VPP {version} finds the rule of a MAP-T packet by its DMR: one for each DMR"
            hint = "use one rule, or VPP 24.06 or newer"
            raise UsageError(problem, hint, code="unsupported-by-version")
        super().check_supported(version)


class MapE(MapDomainFunction):
    """VPP as a MAP-E border relay; CEs without EA bits are configured as softwires."""

    profile = TUNNEL_PROFILE
    notes = (
        *MapDomainFunction.notes,
        "IPv6 other than IPv4-in-IPv6 is dropped: background needs VLANs (links.*.background)",
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.relay = self.intent.get_configuration(MapERelayConfig)
        self.rules, self.source = self.relay.rules, self.relay.br_address

    def list_softwires(self) -> list[SoftwireRow]:
        rows = []
        for rule in self.rules:
            if rule.psid is not None:
                ipv4, layout = rule.ipv4_prefix[0], (rule.psid, rule.psid_len, rule.psid_offset)
                b4 = map_address(rule, ipv4, rule.psid)
                rows.append(SoftwireRow(ipv4, *layout, b4, self.relay.br_address))
        return rows
