"""Arithmetic of MAP, RFC 6052, EAM and frame rates: from texts to JSON-like values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import max_frame_rate_fps, parse_line_rate
from v6t.packets.address_layouts import EA, IidFormat, end_user_prefix_layout
from v6t.plugins import translation
from v6t.plugins.map_rules import MapRule, parse_rule
from v6t.plugins.prefixes import parse_address, parse_ipv6_network
from v6t.plugins.translation import parse_mappings


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
        address, number = (
            parse_address(IPv4Address, ipv4, "IPv4 address"),
            _find_psid(rule, psid, port),
        )
    elif psid is not None and rule.suffix_len == 0:
        address, number = rule.ipv4_prefix.network_address, psid
    else:
        raise UsageError(
            "which CE is meant?",
            "give --ipv6, or --ipv4 with --psid or --port",
            code="missing-setting",
        )
    ports = rule.make_port_set(number)
    owned: IPv4Address | IPv4Network = address
    if rule.host_bits:
        owned = IPv4Network((int(address), 32 - rule.host_bits), strict=False)
    return {
        "end_user_prefix": str(rule.compute_end_user_prefix(address, number)),
        "map_address": str(rule.map_address(address, number)),
        "ipv4": str(owned),
        "psid": number if rule.is_shared else None,
        "psid_len": rule.psid_len,
        "port_ranges": [list(r) for r in ports.ranges],
        "ports_per_ce": ports.count,
        "sharing_ratio": rule.sharing_ratio,
    }


def iter_map_warnings(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning if the interface identifier of ``ipv6`` belongs to another CE.

    Only an identifier in the form of RFC 7597, section 6, or of the drafts before it names a CE.

    Args:
        arguments: arguments of :func:`calc_map`.
    """
    if arguments["ipv6"] is None:
        return
    address = parse_address(IPv6Address, arguments["ipv6"], "IPv6 address")
    identifier = address.packed[8:]
    named = []
    if identifier[:2] == bytes(2) and identifier[2]:
        named.append(IPv4Address(identifier[2:6]))
    if identifier[0] == identifier[7] == 0 and identifier[1]:
        named.append(IPv4Address(identifier[1:5]))
    ce = calc_map(**arguments)
    prefix = IPv4Network(ce["ipv4"])
    is_own_host = prefix.num_addresses > 1 and any(a in prefix for a in named)
    if not named or is_own_host or str(address) == ce["map_address"]:
        return
    for name in ("rfc7597", "draft"):
        alike: dict[str, Any] = {**arguments, "iid_format": name}
        if calc_map(**alike)["map_address"] == str(address):
            yield f"the interface identifier has the format {name}: use --iid-format {name}"
            return
    psid = "" if ce["psid"] is None else f" and PSID {ce['psid']}"
    yield (
        f"the interface identifier of {address} names {' or '.join(map(str, named))}, but the prefix "
        f"names {ce['ipv4']}{psid}: this CE's MAP address is {ce['map_address']}"
    )


def _find_psid(rule: MapRule, psid: int | None, port: int | None) -> int:
    """Return the given PSID or that of the port; without address sharing, it is always 0."""
    owner = None
    if port is not None:
        if not 0 <= port <= 65535:
            raise UsageError(f"port {port} is outside 0..65535", code="out-of-range")
        owner = rule.find_psid(port)
        if owner is None:
            raise UsageError(
                f"port {port} does not belong to a CE: PSID offset {rule.psid_offset} excludes ports "
                f"below {1 << 16 - rule.psid_offset}",
                code="outside-port-set",
            )
        if psid not in (None, owner):
            message = f"port {port} belongs to PSID {owner}, not {psid}"
            raise UsageError(message, code="outside-port-set")
    number = owner if psid is None else psid
    if number is None and rule.is_shared:
        raise UsageError(
            f"{rule.sharing_ratio} CEs share an IPv4 address in this rule",
            "add --psid or --port",
            code="missing-setting",
        )
    return number or 0


def _find_ce(rule: MapRule, ipv6: IPv6Address) -> tuple[IPv4Address, int]:
    """Return the IPv4 address and the PSID of the CE whose end-user prefix contains an address."""
    if ipv6 not in rule.ipv6_prefix:
        message = f"{ipv6} is outside the rule's IPv6 prefix {rule.ipv6_prefix}"
        raise UsageError(message, code="outside-prefix")
    if rule.ea_len:
        return rule.decode_ea(end_user_prefix_layout(rule).decode(int(ipv6))[EA])
    ce = rule.decode_address(ipv6)
    if ce is None:
        raise UsageError(f"{ipv6} is not a MAP address of this rule", code="outside-prefix")
    return ce


def calc_rfc6052(prefix: str, ipv4: str | None = None, ipv6: str | None = None) -> dict[str, str]:
    """Embed or extract an IPv4 address; return ``prefix``, ``ipv4`` and ``ipv6`` as text.

    Raises:
        UsageError: neither or both addresses are given, or RFC 6052 has no such prefix length.
    """
    network = translation.check_rfc6052_prefix(parse_ipv6_network(prefix, "prefix"))
    _check_one_address(ipv4, ipv6)
    if ipv4 is not None:
        four = parse_address(IPv4Address, ipv4, "IPv4 address")
        six = translation.embed_ipv4(network, four)
    else:
        six = parse_address(IPv6Address, str(ipv6), "IPv6 address")
        four = translation.extract_ipv4(network, six)
    return {"prefix": str(network), "ipv4": str(four), "ipv6": str(six)}


def list_rfc6052_warnings(prefix: str, ipv4: str, ipv6: str) -> Iterator[str]:
    """Yield warnings about values of :func:`calc_rfc6052` that violate RFC 6052."""
    embedded = translation.embed_ipv4(IPv6Network(prefix), IPv4Address(ipv4))
    if str(embedded) != ipv6:
        yield (
            f"{ipv6} has bits set outside the embedded address, which must be 0 (RFC 6052, section "
            f"2.2): {ipv4} behind {prefix} is {embedded}; is the prefix length right?"
        )


def calc_eam(
    pairs: Sequence[Sequence[str]],
    prefix: str | None = None,
    ipv4: str | None = None,
    ipv6: str | None = None,
) -> dict[str, str | None]:
    """Translate an address with explicit mappings; return ``ipv4``, ``ipv6`` and ``mapping``.

    Args:
        pairs: explicit mappings, an IPv4 and an IPv6 prefix each.
        prefix: RFC 6052 prefix for addresses without a mapping.
        ipv4, ipv6: the address, of either version; None in the result if it has no mapping.

    Raises:
        UsageError: neither or both addresses are given, or the table is impossible.
    """
    mappings = parse_mappings(pairs, prefix)
    _check_one_address(ipv4, ipv6)
    four: IPv4Address | None = None
    six: IPv6Address | None = None
    if ipv4 is not None:
        four = parse_address(IPv4Address, ipv4, "IPv4 address")
        mapping = mappings.find_by_ipv4(four)
        six = mapping.to_ipv6(four) if mapping else None
    else:
        six = parse_address(IPv6Address, str(ipv6), "IPv6 address")
        mapping = mappings.find_by_ipv6(six)
        four = mapping.to_ipv4(six) if mapping else None
    return {
        "ipv4": None if four is None else str(four),
        "ipv6": None if six is None else str(six),
        "mapping": None if mapping is None else f"{mapping.ipv4} = {mapping.ipv6}",
    }


def _check_one_address(ipv4: str | None, ipv6: str | None) -> None:
    """Reject a command line with neither or both addresses."""
    if (ipv4 is None) == (ipv6 is None):
        raise UsageError("give either --ipv4 or --ipv6", code="missing-setting")


def calc_rate(line_rate: str, frame_size: int, overhead: int = 0) -> dict[str, Any]:
    """Compute the maximum frame rate of a link per direction (RFC 8219 appendix A)."""
    rate = parse_line_rate(line_rate)
    return {
        "line_rate_bps": round(rate),
        "frame_size": frame_size,
        "overhead": overhead,
        "max_fps": max_frame_rate_fps(rate, frame_size, overhead),
        "convention": "per_direction",
    }
