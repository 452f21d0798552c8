"""``v6t calc``: arithmetic of MAP, RFC 6052, EAM and frame rates."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

import click
from v6t.base.errors import UsageError
from v6t.base.ethernet import compute_max_frame_rate_fps, parse_line_rate
from v6t.core.cli.options import CommandGroup, json_option
from v6t.core.cli.terminal import CommandResult, make_result
from v6t.core.log import print_notice
from v6t.packets.address_layouts import EA, IidFormat, make_end_user_prefix_layout
from v6t.plugins import translation
from v6t.plugins.map_rules import MapRule, parse_rule
from v6t.plugins.prefixes import parse_address, parse_ipv6_network

MAX_SHOWN_RANGES = 8  # port ranges of a CE


ipv4_option = click.option(
    "--ipv4", metavar="ADDRESS", help="IPv4 address: that of the CE, or one to translate."
)
ipv6_option = click.option(
    "--ipv6", metavar="ADDRESS", help="IPv6 address: any of the CE, or one to translate."
)


@click.group(cls=CommandGroup, no_args_is_help=False)
def calc_command() -> None:
    """Calculate addresses, ports and frame rates."""


@calc_command.command("map")
@click.option("--rule-ipv6", required=True, metavar="PREFIX", help="Rule IPv6 prefix.")
@click.option("--rule-ipv4", required=True, metavar="PREFIX", help="Rule IPv4 prefix.")
@click.option("--ea-len", required=True, type=int, help="Length of the EA bits.")
@click.option("--psid-offset", default=6, show_default=True, type=int, help="PSID offset a.")
@click.option("--psid-len", type=int, help="PSID length, for rules without EA bits.")
@click.option("--psid", type=int, help="PSID of the CE.")
@ipv4_option
@ipv6_option
@click.option("--port", type=int, help="A port of the CE.")
@click.option("--iid-format", type=click.Choice(["rfc7597", "draft"]),
              default="rfc7597", show_default=True, help="Format of interface identifiers.")  # fmt: skip
@json_option
def map_command(**arguments: Any) -> CommandResult:
    """Print addresses and ports of a CE (RFC 7597)."""
    ce = calc_map(**arguments)
    if warning := _check_interface_identifier(arguments, ce):
        print_notice(f"v6t: note: {warning}")
    return _make_values_result(ce)


def calc_map(
    rule_ipv6: str,
    rule_ipv4: str,
    ea_len: int,
    psid_offset: int,
    *,
    psid_len: int | None = None,
    psid: int | None = None,
    ipv4: str | None = None,
    ipv6: str | None = None,
    port: int | None = None,
    iid_format: IidFormat = "rfc7597",
) -> dict[str, Any]:
    """Return the addresses and ports of one CE of a MAP rule.

    The CE is named by IPv4 address and PSID, by IPv4 address and port, or by any of its IPv6 addresses.

    Returns:
        Keys ``end_user_prefix, map_address, ipv4, psid, psid_len, port_ranges, ports_per_ce,
        sharing_ratio``; ``psid`` is None if addresses are not shared.

    Raises:
        UsageError: the rule or the CE is impossible.
    """
    rule = parse_rule(
        rule_ipv6, rule_ipv4, ea_len, psid_offset, psid_len=psid_len, iid_format=iid_format
    )
    if ipv6 is not None:
        if (ipv4, psid, port) != (None, None, None):
            message = "give either --ipv6, or --ipv4 with --psid or --port"
            raise UsageError(message, code="missing-setting")
        address, number = _find_ce(rule, parse_address(IPv6Address, ipv6, "IPv6 address"))
    elif ipv4 is not None:
        address = parse_address(IPv4Address, ipv4, "IPv4 address")
        number = _find_psid(rule, psid, port)
    elif psid is not None and rule.suffix_len == 0:
        address, number = rule.ipv4_prefix.network_address, psid
    else:
        problem = "the CE is not specified"
        hint = "give --ipv6, or --ipv4 with --psid or --port"
        raise UsageError(problem, hint, code="missing-setting")
    ports = rule.make_port_set(number)
    ce_ipv4: IPv4Address | IPv4Network = address
    if rule.host_bits:
        ce_ipv4 = IPv4Network((int(address), 32 - rule.host_bits), strict=False)
    return {
        "end_user_prefix": str(rule.compute_end_user_prefix(address, number)),
        "map_address": str(rule.map_address(address, number)),
        "ipv4": str(ce_ipv4),
        "psid": number if rule.is_shared else None,
        "psid_len": rule.psid_len,
        "port_ranges": [list(r) for r in ports.ranges],
        "ports_per_ce": ports.count,
        "sharing_ratio": rule.sharing_ratio,
    }


def _check_interface_identifier(arguments: Mapping[str, Any], ce: Mapping[str, Any]) -> str:
    """Return a warning if the interface identifier of ``ipv6`` belongs to another CE, else ``""``.

    Only an identifier in the form of RFC 7597, section 6, or of the drafts before it contains the
    IPv4 address of a CE. ``ce`` is the result of :func:`calc_map` for the arguments.
    """
    if arguments["ipv6"] is None:
        return ""
    address = parse_address(IPv6Address, arguments["ipv6"], "IPv6 address")
    identifier = address.packed[8:]
    embedded = []
    if identifier[:2] == bytes(2) and identifier[2]:
        embedded.append(IPv4Address(identifier[2:6]))
    if identifier[0] == identifier[7] == 0 and identifier[1]:
        embedded.append(IPv4Address(identifier[1:5]))
    prefix = IPv4Network(ce["ipv4"])
    is_own_host = prefix.num_addresses > 1 and any(a in prefix for a in embedded)
    if not embedded or is_own_host or str(address) == ce["map_address"]:
        return ""
    for name in ("rfc7597", "draft"):
        changed: dict[str, Any] = {**arguments, "iid_format": name}
        if calc_map(**changed)["map_address"] == str(address):
            return f"the interface identifier has the format {name}: use --iid-format {name}"
    addresses = " or ".join(map(str, embedded))
    psid = "" if ce["psid"] is None else f" and PSID {ce['psid']}"
    names = f"names {addresses}, but the prefix names {ce['ipv4']}{psid}"
    return f"the interface identifier of {address} {names}: MAP address {ce['map_address']}"


def _find_psid(rule: MapRule, psid: int | None, port: int | None) -> int:
    """Return the given PSID or that of the port; without address sharing, it is always 0."""
    if port is not None:
        if not 0 <= port <= 65535:
            raise UsageError(f"port {port} is outside 0..65535", code="out-of-range")
        if (owner := rule.find_psid(port)) is None:
            reason = f"offset {rule.psid_offset} excludes those below {1 << 16 - rule.psid_offset}"
            raise UsageError(f"port {port} is not in a port set: {reason}", code="outside-port-set")
        if psid not in (None, owner):
            message = f"port {port} belongs to PSID {owner}, not {psid}"
            raise UsageError(message, code="outside-port-set")
        return owner
    if psid is None and rule.is_shared:
        problem = f"{rule.sharing_ratio} CEs share an IPv4 address in this rule"
        raise UsageError(problem, "add --psid or --port", code="missing-setting")
    return psid or 0


def _find_ce(rule: MapRule, ipv6: IPv6Address) -> tuple[IPv4Address, int]:
    """Return the IPv4 address and the PSID of the CE whose end-user prefix contains an address."""
    if ipv6 not in rule.ipv6_prefix:
        message = f"{ipv6} is outside the rule's IPv6 prefix {rule.ipv6_prefix}"
        raise UsageError(message, code="outside-prefix")
    if rule.ea_len:
        return rule.decode_ea(make_end_user_prefix_layout(rule).decode(int(ipv6))[EA])
    if (ce := rule.decode_address(ipv6)) is None:
        raise UsageError(f"{ipv6} is not a MAP address of this rule", code="outside-prefix")
    return ce


@calc_command.command("rfc6052")
@click.option("--prefix", required=True, metavar="PREFIX", help="Translation prefix (RFC 6052).")
@ipv4_option
@ipv6_option
@json_option
def rfc6052_command(**arguments: Any) -> CommandResult:
    """Embed or extract an IPv4 address (RFC 6052)."""
    values = calc_rfc6052(**arguments)
    prefix, ipv4, ipv6 = values.values()
    if (embedded := calc_rfc6052(prefix, ipv4)["ipv6"]) != ipv6:
        rule = f"bits of {ipv6} outside the embedded address must be 0 (RFC 6052, section 2.2)"
        print_notice(f"v6t: note: {rule}: {ipv4} behind {prefix} is {embedded}; check the prefix")
    return _make_values_result(values)


def calc_rfc6052(prefix: str, ipv4: str | None = None, ipv6: str | None = None) -> dict[str, str]:
    """Embed or extract an IPv4 address; return ``prefix``, ``ipv4`` and ``ipv6`` as text.

    Raises:
        UsageError: neither or both addresses are given, or RFC 6052 has no such prefix length.
    """
    network = translation.check_rfc6052_prefix(parse_ipv6_network(prefix, "prefix"))
    address = _parse_one_address(ipv4, ipv6)
    if isinstance(address, IPv4Address):
        four, six = address, translation.embed_ipv4(network, address)
    else:
        four, six = translation.extract_ipv4(network, address), address
    return {"prefix": str(network), "ipv4": str(four), "ipv6": str(six)}


@calc_command.command("eam")
@click.option("--map", "pairs", multiple=True, metavar="IPV4=IPV6", help="An explicit mapping.")
@click.option("--prefix", metavar="PREFIX", help="Translation prefix (RFC 6052).")
@ipv4_option
@ipv6_option
@json_option
def eam_command(pairs: tuple[str, ...], **arguments: Any) -> CommandResult:
    """Translate by explicit address mappings (RFC 7757).

    Addresses without a mapping are translated with --prefix.
    """
    if any(pair.count("=") != 1 for pair in pairs):
        problem = "a mapping is an IPv4 and an IPv6 prefix"
        hint = "write --map 198.18.0.0/24=2001:2::/120"
        raise UsageError(problem, hint, code="not-name-and-value")
    mappings = [[part.strip() for part in pair.split("=")] for pair in pairs]
    return _make_values_result(calc_eam(mappings, **arguments))


def calc_eam(
    pairs: Sequence[Sequence[str]],
    prefix: str | None = None,
    ipv4: str | None = None,
    ipv6: str | None = None,
) -> dict[str, Any]:
    """Translate an address with explicit mappings; return ``ipv4``, ``ipv6`` and ``mapping``.

    Args:
        pairs: explicit mappings, an IPv4 and an IPv6 prefix each.
        prefix: RFC 6052 prefix for addresses without a mapping.
        ipv4, ipv6: the address, of either version; None in the result if it has no mapping.

    Raises:
        UsageError: neither or both addresses are given, or the table is impossible.
    """
    mappings = translation.parse_mappings(pairs, prefix)
    address = _parse_one_address(ipv4, ipv6)
    values: dict[str, Any] = {"ipv4": None, "ipv6": None, f"ipv{address.version}": str(address)}
    if isinstance(address, IPv4Address):
        if mapping := mappings.find_by_ipv4(address):
            values["ipv6"] = str(mapping.to_ipv6(address))
    elif mapping := mappings.find_by_ipv6(address):
        values["ipv4"] = str(mapping.to_ipv4(address))
    return {**values, "mapping": mapping and f"{mapping.ipv4} = {mapping.ipv6}"}


def _parse_one_address(ipv4: str | None, ipv6: str | None) -> IPv4Address | IPv6Address:
    if ipv4 is not None and ipv6 is None:
        return parse_address(IPv4Address, ipv4, "IPv4 address")
    if ipv6 is not None and ipv4 is None:
        return parse_address(IPv6Address, ipv6, "IPv6 address")
    raise UsageError("give either --ipv4 or --ipv6", code="missing-setting")


@calc_command.command("rate")
@click.option("--line-rate", required=True, metavar="RATE", help="For example 10G.")
@click.option("--frame-size", required=True, type=int, help="Octets with FCS.")
@click.option("--overhead", default=0, show_default=True, type=int, help="Octets added on the way.")
@json_option
def rate_command(line_rate: str, frame_size: int, overhead: int) -> CommandResult:
    """Print a link's maximum frame rate (RFC 8219)."""
    rate_bps = parse_line_rate(line_rate)
    values: dict[str, Any] = {"line_rate_bps": round(rate_bps), "frame_size": frame_size}
    max_fps = compute_max_frame_rate_fps(rate_bps, frame_size, overhead)
    if not max_fps:
        problem = (
            f"a line of {rate_bps:g} bit/s carries no frame of {frame_size} octets in a second"
        )
        raise UsageError(problem, "write for example 10G, 2.5Gbps or 100M", code="out-of-range")
    values |= {"overhead": overhead, "max_fps": max_fps, "convention": "per_direction"}
    return _make_values_result(values)


def _make_values_result(values: Mapping[str, Any]) -> CommandResult:
    width = max(map(len, values))
    lines = (
        f"{name.replace('_', ' '):<{width}}  {_format_value(name, value)}"
        for name, value in values.items()
    )
    return make_result(values, lines, indent=width + 2)


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return "none (not shared)" if name == "psid" else "none"
    if name != "port_ranges":
        return str(value)
    ranges = [f"{first}-{last}" for first, last in value]
    text = ", ".join(ranges[:MAX_SHOWN_RANGES])
    if len(ranges) > MAX_SHOWN_RANGES:
        text += f", ... {ranges[-1]} ({len(ranges)} ranges)"
    return text
