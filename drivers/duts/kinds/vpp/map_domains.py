"""MAP and lw4o6 domains of VPP, and what it would do silently wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Network, ip_network
from typing import Any

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds import map_rules
from v6t.drivers.duts.kinds.softwires import Softwire, softwires
from v6t.drivers.duts.kinds.spare import spare4, spare6
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.plan import Change, Intent, Step, Was, checked
from v6t.intent.families import LwAftrConfig, MapERelayConfig, MapRuleConfig, MapTRelayConfig
from v6t.packets.address_layouts import map_address

Cli = Callable[[str], str]
"""A VPP command as a shell line."""
Relay = MapERelayConfig | MapTRelayConfig
BITWISE_SINCE = (24, 6)
"""Since then the domain of an IPv6 source is looked up with whole octets only (MAP-T)."""


def refuse(intent: Intent, version: str, *, losses: bool = False) -> None:
    """What VPP takes without a word and does not do.

    Args:
        intent: of the relay.
        version: of VPP.
        losses: what it is known to lose is wanted: an audit shows it.

    Raises:
        UsageError: with the nearest rule that works.
    """
    relay = intent.configuration
    if isinstance(relay, LwAftrConfig):
        _refuse_mixed(list(softwires(intent)))
    if isinstance(relay, MapERelayConfig):
        _refuse_mixed(_softwires_of(relay))
        map_rules.refuse_draft([rule for rule in relay.rules if rule.psid is None], "VPP")
    elif isinstance(relay, MapTRelayConfig):
        map_rules.refuse_draft(relay.rules, "VPP")
        map_rules.refuse_psid(relay.rules, "VPP's MAP-T")
        map_rules.refuse_lowest_mtu(
            relay.lowest_ipv6_mtu,
            "VPP fragments no packet that fits the IPv6 link",
            intent.links.left.mtu,
        )
    else:
        return
    instead = nearest(relay, version)
    translates = isinstance(relay, MapTRelayConfig)
    if isinstance(relay, MapTRelayConfig) and "dmr" in instead and not losses:
        raise UsageError(
            f"VPP's MAP-T writes addresses of another form behind a DMR other than /64; {relay.dmr} "
            "loses one direction",
            f"the nearest DMR that works is {instead['dmr']}",
            params=instead,
            code="unsupported-by-device",
        )
    if translates and len(relay.rules) > 1 and syntax.key(version) < BITWISE_SINCE:
        raise UsageError(
            f"VPP {version} finds the rule of a MAP-T packet by its DMR: one rule to a DMR",
            "use one rule, or VPP 24.06 or newer",
            code="unsupported-by-version",
        )
    for rule in relay.rules:
        net, ea_len = rule.ipv6_prefix, rule.ea_len
        near = f"the nearest rule that works has rule_ipv6={_nearest_rule(rule, relay, version)}"
        if net.prefixlen + ea_len > 64:
            raise UsageError(
                f"VPP does not support EA bits beyond bit 64, but those of {net} end at bit "
                f"{net.prefixlen + ea_len}: it would reject the domain silently",
                near if ea_len < 64 else "",
                params=instead,
                code="unsupported-by-device",
            )
        if not losses and _loses(net, relay, version):
            raise UsageError(
                f"VPP {version} drops all MAP-T packets from IPv6 unless the rule's prefix length "
                f"is a multiple of 8; {net} is not",
                f"{near}; or use VPP 24.02",
                params=instead,
                code="unsupported-by-version",
            )


def nearest(relay: Relay, version: str) -> dict[str, object]:
    """Parameters by which a relay of one rule becomes one that VPP is; none: it can be this one.

    Args:
        relay: asked for.
        version: of VPP.
    """
    found: dict[str, object] = {}
    if isinstance(relay, MapTRelayConfig) and (dmr := relay.dmr).prefixlen != 64:
        net = dmr.supernet(new_prefix=64) if dmr.prefixlen > 64 else f"{dmr.network_address}/64"
        found["dmr"] = str(net)
    if len(relay.rules) == 1:
        (rule,) = relay.rules
        near = _nearest_rule(rule, relay, version)
        if near != rule.ipv6_prefix:
            found["rule_ipv6"] = str(near)
    return found


def _nearest_rule(rule: MapRuleConfig, relay: Relay, version: str) -> IPv6Network:
    length = min(rule.ipv6_prefix.prefixlen, max(64 - rule.ea_len, 0))
    near = rule.ipv6_prefix.supernet(new_prefix=length)
    if not _loses(near, relay, version):
        return near
    return near.supernet(new_prefix=length // 8 * 8)


def _loses(net: IPv6Network, relay: Relay, version: str) -> bool:
    """VPP looks domains up by whole octets of their prefix since 24.06 (ip6_map_t.c)."""
    translates = isinstance(relay, MapTRelayConfig)
    return bool(translates and net.prefixlen % 8 and syntax.key(version) >= BITWISE_SINCE)


def steps(intent: Intent, cli: Cli, ports: Mapping[str, str], place: str) -> list[Step]:
    """Domains, then MAP on both interfaces."""
    kind = ""
    relay = intent.configuration
    if isinstance(relay, LwAftrConfig):
        own = _softwires(list(softwires(intent)), cli, place)
    else:
        relay = _relay_of(intent)
        kind = " map-t" if isinstance(relay, MapTRelayConfig) else ""
        source = _source(relay)
        rules = [rule for rule in relay.rules if rule.psid is None]
        own = [
            _domain(cli, f"v6t{n}", _words(rule, source), _wanted(rule, source))
            for n, rule in enumerate(rules)
        ]
        if isinstance(relay, MapERelayConfig) and len(rules) < len(relay.rules):
            own = _softwires(_softwires_of(relay), cli, place, len(rules)) + own
    return [*own, *(_interface(cli, port, kind) for port in ports.values())]


def beside(intent: Intent, cli: Cli) -> Change:
    """A domain of a rule, or of an address with one softwire, that no test packet belongs to."""
    net, prefix, tag = spare4(intent), spare6(intent), "v6tbeside"
    add = cli(f"map add domain tag {tag} WORDS")
    if isinstance(intent.configuration, LwAftrConfig):
        row = next(softwires(intent))
        host = net.network_address + 7
        index = cli("show map domain") + f" | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p'"
        words = (
            f"ip4-pfx {host}/32 ip6-pfx ::/0 ip6-src {row.br} ea-bits-len 0 "
            f"psid-offset {row.psid_offset} psid-len {row.psid_len}"
        )
        rule = cli(f"map add rule index INDEX psid 0 ip6-dst {prefix.network_address + 1}")
        more = f"i=$({index}); {rule.replace('INDEX', '$i')}"
        what, first, other = (
            "a lwB4 with its address",
            words,
            words.replace(str(host), str(host + 1)),
        )
        added, changed = f"{host}/32", f"{host + 1}/32"
    else:
        source, more, what = _source(_relay_of(intent)), "true", "a MAP domain"

        def of(ea_len: int) -> str:
            return (
                f"ip4-pfx {net} ip6-pfx {prefix} ip6-src {source} ea-bits-len {ea_len} "
                f"psid-offset 6 psid-len {ea_len - 8}"
            )

        first, other = of(16), of(14)
        added, changed = "ea-bits-len 16", "ea-bits-len 14"
    gone = _delete(cli, tag)
    return Change(
        what,
        add=f"{add.replace('WORDS', first)} && {more}",
        change=f"{gone}; {add.replace('WORDS', other)} && {more}",
        remove=gone,
        look=f"{cli('show map domain')} | grep -F '{{{tag}}}' || true",
        added=added,
        changed=changed,
        how="changed: removed and added anew, VPP has no other way",
    )


def _relay_of(intent: Intent) -> Relay:
    relay = intent.configuration
    return relay if isinstance(relay, MapTRelayConfig) else intent.configuration_as(MapERelayConfig)


def _source(relay: Relay) -> str:
    """Return the IPv6 source of what a relay sends to its CEs."""
    return str(relay.dmr if isinstance(relay, MapTRelayConfig) else relay.br_address)


def _words(rule: MapRuleConfig, source: str) -> str:
    return (
        f"ip4-pfx {rule.ipv4_prefix} ip6-pfx {rule.ipv6_prefix} ip6-src {source} "
        f"ea-bits-len {rule.ea_len} psid-offset {rule.psid_offset} psid-len {rule.psid_len}"
    )


def _wanted(rule: MapRuleConfig, source: str) -> tuple[Any, ...]:
    prefixes = (str(rule.ipv4_prefix), str(rule.ipv6_prefix), str(ip_network(source)))
    return (*prefixes, rule.ea_len, rule.psid_offset, rule.psid_len)


def _domain(cli: Cli, tag: str, words: str, wanted: tuple[Any, ...]) -> Step:
    show = cli("show map domain")

    def checker(output: str) -> str | None:
        for d in syntax.domains(output):
            found = (d.ipv4, d.ipv6, d.source, d.ea_len, d.psid_offset, d.psid_len)
            if d.tag == tag:
                return None if found == wanted else f"the domain {tag} is {found}, not {wanted}"
        return f"VPP has made no domain {tag} (it does not say why)"

    return Step(
        cli(f"map add domain tag {tag} {words}"),
        f"the rule {words.split()[3]}",
        undo=_delete(cli, tag),
        before=f"{show} | grep -F ']' || true",
        was=Was.FOREIGN,
        check=checked(show, checker, f"domain {tag} with these values"),
    )


def _delete(cli: Cli, tag: str) -> str:
    """By tag: indices are VPP's, and others' domains must stay."""
    delete = cli("map del domain index INDEX").replace("INDEX", "$i")
    return (
        f"{cli('show map domain')} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p' | "
        f"while read i; do {delete}; done"
    )


def _softwires_of(relay: MapERelayConfig) -> list[Softwire]:
    """Return the CEs of rules without EA bits as softwires: each has an address of its own in VPP."""
    return [
        Softwire(
            rule.ipv4_prefix[0],
            rule.psid,
            rule.psid_len,
            rule.psid_offset,
            map_address(rule, rule.ipv4_prefix[0], rule.psid),
            relay.br_address,
        )
        for rule in relay.rules
        if rule.psid is not None
    ]


def _refuse_mixed(rows: list[Softwire]) -> None:
    """Refuse softwires of one IPv4 address that differ in what a VPP domain has once.

    Raises:
        UsageError: naming both values.
    """
    first: dict[IPv4Address, Softwire] = {}
    for row in rows:
        known = first.setdefault(row.ipv4, row)
        for name, value in {
            "br": "lwAFTR address",
            "psid_len": "PSID length",
            "psid_offset": "PSID offset",
        }.items():
            one, other = getattr(known, name), getattr(row, name)
            if one != other:
                raise UsageError(
                    f"a VPP domain has one {value}, and {row.ipv4} has {one} (PSID {known.psid}) and "
                    f"{other} (PSID {row.psid})",
                    "the driver snabb-lwaftr has one for each softwire of lw4o6",
                    code="unsupported-by-device",
                )


def _softwires(rows: list[Softwire], cli: Cli, place: str, first_tag: int = 0) -> list[Step]:
    """One domain per IPv4 address, one rule per softwire; thousands go through a file."""
    files = f"{place}/vpp-domains.cli", f"{place}/vpp-rules.cli"
    tags = {
        ipv4: f"v6t{n}" for n, ipv4 in enumerate(dict.fromkeys(r.ipv4 for r in rows), first_tag)
    }
    first = {row.ipv4: row for row in reversed(rows)}
    lines = [
        f"map add domain tag {tag} ip4-pfx {ipv4}/32 ip6-pfx ::/0 ip6-src {first[ipv4].br} "
        f"ea-bits-len 0 psid-offset {first[ipv4].psid_offset} psid-len {first[ipv4].psid_len}"
        for ipv4, tag in tags.items()
    ]
    rules = "".join(f"{tags[row.ipv4]} {row.psid} {row.b4}\n" for row in rows)
    show = cli("show map domain")
    number = (
        f"{show} | sed 's/^\\[\\([0-9]*\\)\\] tag {{\\([^}}]*\\)}} .*/\\1 \\2/' >{place}/indices; "
        "awk 'NR == FNR {index_of[$2] = $1; next} "
        '{print "map add rule index " index_of[$1] " psid " $2 " ip6-dst " $3}\' '
        f"{place}/indices - >{files[1]} && rm {place}/indices"
    )

    def check_domains(output: str) -> str | None:
        found = {d.tag: replace(d, index=0) for d in syntax.domains(output)}
        for ipv4, tag in tags.items():
            row = first[ipv4]
            wanted = syntax.Domain(
                0, tag, f"{ipv4}/32", "::/0", f"{row.br}/128", 0, row.psid_offset, row.psid_len
            )
            if found.get(tag) != wanted:
                return f"the domain {tag} is {found.get(tag)}, not {wanted}"
        return None

    def check_rules(output: str) -> str | None:
        found = syntax.domain_rules(output)
        for row in rows:
            b4 = found.get((tags[row.ipv4], row.psid))
            if b4 != row.b4:
                return f"PSID {row.psid} of {row.ipv4} is {b4}, not {row.b4}"
        return None

    delete = cli("map del domain index INDEX").replace("INDEX", "$i")
    return [
        Step(
            f"umask 077; cat >{files[0]} && {cli('exec ' + files[0])}",
            f"{len(tags)} addresses shared by lwB4s",
            text="\n".join(lines) + "\n",
            undo=f"{show} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{v6t[0-9]*}} .*/\\1/p' | "
            f"while read i; do {delete}; done; rm -f {files[0]}",
            before=f"{show} | grep -F ']' || true",
            was=Was.FOREIGN,
            check=checked(show, check_domains, f"{len(tags)} domains with these values"),
            silent=True,
        ),
        Step(
            f"umask 077; {number} && {cli('exec ' + files[1])}",
            f"{len(rows)} softwires",
            text=rules,
            undo=f"rm -f {files[1]}",
            check=checked(show, check_rules, f"{len(rows)} rules with these addresses"),
            silent=True,
        ),
    ]


def _interface(cli: Cli, port: str, kind: str) -> Step:
    node = "ip4-map-t" if kind else "ip4-map"
    show = cli(f"show interface features {port}")

    def checker(output: str) -> str | None:
        return None if node in output.split() else f"{port} has no feature {node}"

    return Step(
        cli(f"map interface {port}{kind}"),
        f"MAP on {port}",
        undo=cli(f"map interface {port} del{kind}"),
        before=f"{show} | grep -w -e ip4-map -e ip4-map-t || true",
        was=Was.FOREIGN,
        check=checked(show, checker, node),
        silent=True,
    )
