"""The arithmetic behind ``v6t calc``: from text to JSON-like values, no output of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import max_frame_rate_fps, parse_line_rate
from v6t.packets.address_layouts import EA, IidFormat, end_user_prefix_layout
from v6t.plugins import translation
from v6t.plugins.map_rules import MapRule, rule_from_text
from v6t.plugins.prefixes import address4, address6, network6
from v6t.plugins.translation import Mapping, mappings_from_text


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
    """Compute the addresses and ports of one CE of a MAP rule.

    The CE is named by IPv4 address and PSID, by IPv4 address and port, or by any of its IPv6 addresses.

    Returns:
        Keys ``end_user_prefix, map_address, ipv4, psid, psid_len, port_ranges, ports_per_ce,
        sharing_ratio``; ``psid`` is None where addresses are not shared.

    Raises:
        UsageError: the rule or the CE is impossible.
    """
    rule = rule_from_text(
        rule_ipv6, rule_ipv4, ea_len, psid_offset, psid_len=psid_len, iid_format=iid_format
    )
    if ipv6 is not None:
        if ipv4 is not None or psid is not None or port is not None:
            raise UsageError(
                "give either --ipv6, or --ipv4 with --psid or --port", code="missing-setting"
            )
        address, number = _from_ipv6(rule, address6(ipv6, "IPv6 address"))
    elif ipv4 is not None:
        address = address4(ipv4, "IPv4 address")
        number = _psid(rule, psid, port)
    elif psid is not None and rule.suffix_len == 0:
        address, number = rule.ipv4_prefix.network_address, psid
    else:
        raise UsageError(
            "which CE is meant?",
            "give --ipv6, or --ipv4 with --psid or --port",
            code="missing-setting",
        )
    ports = rule.port_set(number)
    return {
        "end_user_prefix": str(rule.end_user_prefix(address, number)),
        "map_address": str(rule.map_address(address, number)),
        "ipv4": _ipv4_text(rule, address),
        "psid": number if rule.shared else None,
        "psid_len": rule.psid_len,
        "port_ranges": [list(r) for r in ports.ranges],
        "ports_per_ce": ports.count,
        "sharing_ratio": rule.sharing_ratio,
    }


def map_warnings(
    rule_ipv6: str, rule_ipv4: str, ea_len: int, psid_offset: int, **given: Any
) -> Iterator[str]:
    """Compare the interface identifier of ``ipv6`` with the CE that its prefix names.

    Only an identifier that has the form of RFC 7597, section 6, or of the drafts before it says
    something about a CE.
    """
    if given.get("ipv6") is None:
        return
    address = address6(given["ipv6"], "IPv6 address")
    identifier = (int(address) & (1 << 64) - 1).to_bytes(8, "big")
    formats: dict[IidFormat, tuple[bool, bytes]] = {
        "rfc7597": (identifier[:2] == bytes(2), identifier[2:6]),
        "draft": (identifier[0] == identifier[7] == 0, identifier[1:5]),
    }
    found = calc_map(rule_ipv6, rule_ipv4, ea_len, psid_offset, **given)
    expected = found["map_address"]
    named = [IPv4Address(four) for fits, four in formats.values() if fits and four[0]]
    of_ce = IPv4Network(found["ipv4"])
    own_host = of_ce.num_addresses > 1 and any(four in of_ce for four in named)
    if not named or own_host or str(address) == expected:
        return
    for other in formats:
        alike: dict[str, Any] = {**given, "iid_format": other}
        if calc_map(rule_ipv6, rule_ipv4, ea_len, psid_offset, **alike)["map_address"] == str(
            address
        ):
            yield f"the interface identifier has the format {other}: use --iid-format {other}"
            return
    yield (
        f"the interface identifier of {address} names {' or '.join(map(str, named))}, but the prefix "
        f"names {found['ipv4']}"
        + (f" and PSID {found['psid']}" if found["psid"] is not None else "")
        + f": this CE's MAP address is {expected}"
    )


def rfc6052_warnings(prefix: str, ipv4: str, ipv6: str) -> Iterator[str]:
    """Find what RFC 6052 forbids in an address and its two forms, as :func:`calc_rfc6052` has them."""
    network, four = IPv6Network(prefix), IPv4Address(ipv4)
    embedded = translation.embed(network, four)
    if str(embedded) != ipv6:
        yield (
            f"{ipv6} has bits set beside the embedded address, which must be 0 (RFC 6052, section "
            f"2.2): {four} behind {network} is {embedded}; is the prefix length right?"
        )


def calc_rfc6052(prefix: str, ipv4: str | None = None, ipv6: str | None = None) -> dict[str, str]:
    """IPv4 to IPv6 or back; keys ``prefix, ipv4, ipv6``.

    Raises:
        UsageError: neither or both addresses given, or the prefix has none of RFC 6052's lengths.
    """
    network = translation.check_prefix(network6(prefix, "prefix"))
    if (ipv4 is None) == (ipv6 is None):
        raise UsageError("give either --ipv4 or --ipv6", code="missing-setting")
    if ipv4 is not None:
        four = address4(ipv4, "IPv4 address")
        six = translation.embed(network, four)
    else:
        six = address6(str(ipv6), "IPv6 address")
        four = translation.extract(network, six)
    return {"prefix": str(network), "ipv4": str(four), "ipv6": str(six)}


def calc_eam(
    pairs: Sequence[Sequence[str]],
    prefix: str | None = None,
    ipv4: str | None = None,
    ipv6: str | None = None,
) -> dict[str, str | None]:
    """Translate an address by a translator's table (RFC 7757); keys ``ipv4, ipv6, mapping``.

    Args:
        pairs: explicit mappings, IPv4 and IPv6 prefix each.
        prefix: RFC 6052 prefix for addresses no explicit mapping holds.
        ipv4: the address, or
        ipv6: the address.

    Raises:
        UsageError: neither or both addresses given, or the table is impossible. An address
            without mapping is no error: its other form is None.
    """
    mappings = mappings_from_text(pairs, prefix)
    if (ipv4 is None) == (ipv6 is None):
        raise UsageError("give either --ipv4 or --ipv6", code="missing-setting")
    if ipv4 is not None:
        four = address4(ipv4, "IPv4 address")
        mapping = mappings.find_ipv4(four)
        six = mapping.to_ipv6(four) if mapping else None
        return {
            "ipv4": str(four),
            "ipv6": None if six is None else str(six),
            "mapping": _shown(mapping),
        }
    address = address6(str(ipv6), "IPv6 address")
    mapping = mappings.find_ipv6(address)
    found = mapping.to_ipv4(address) if mapping else None
    return {
        "ipv4": None if found is None else str(found),
        "ipv6": str(address),
        "mapping": _shown(mapping),
    }


def _shown(mapping: Mapping | None) -> str | None:
    return None if mapping is None else f"{mapping.ipv4} = {mapping.ipv6}"


def calc_rate(line_rate: str, frame_size: int, overhead: int = 0) -> dict[str, Any]:
    """Maximum frame rate of a link (RFC 8219 appendix A), per direction."""
    rate = parse_line_rate(line_rate)
    return {
        "line_rate_bps": rate,
        "frame_size": frame_size,
        "overhead": overhead,
        "max_fps": max_frame_rate_fps(rate, frame_size, overhead),
        "convention": "per_direction",
    }


def _psid(rule: MapRule, psid: int | None, port: int | None) -> int:
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"port {port} is outside 0..65535", code="out-of-range")
    owner = rule.find_psid(port) if port is not None else None
    if port is not None and owner is None:
        raise UsageError(
            f"port {port} does not belong to a CE: PSID offset {rule.psid_offset} excludes ports below "
            f"{1 << 16 - rule.psid_offset}",
            code="outside-port-set",
        )
    if psid is not None and owner is not None and psid != owner:
        raise UsageError(
            f"port {port} belongs to PSID {owner}, not {psid}", code="outside-port-set"
        )
    if psid is not None:
        return psid
    if owner is not None:
        return owner
    if rule.shared:
        raise UsageError(
            f"{rule.sharing_ratio} CEs share an IPv4 address in this rule",
            "add --psid or --port",
            code="missing-setting",
        )
    return 0


def _from_ipv6(rule: MapRule, ipv6: IPv6Address) -> tuple[IPv4Address, int]:
    """Find the CE that has an address, by its end-user prefix."""
    if ipv6 not in rule.ipv6_prefix:
        raise UsageError(
            f"{ipv6} is outside the rule's IPv6 prefix {rule.ipv6_prefix}", code="outside-prefix"
        )
    if not rule.ea_len:
        decoded = rule.decode_address(ipv6)
        if decoded is None:
            raise UsageError(f"{ipv6} is not a MAP address of this rule", code="outside-prefix")
        return decoded
    return rule.decode_ea(end_user_prefix_layout(rule).decode(int(ipv6))[EA])


def _ipv4_text(rule: MapRule, ipv4: IPv4Address) -> str:
    if not rule.host_bits:
        return str(ipv4)
    return str(IPv4Network((int(ipv4), 32 - rule.host_bits), strict=False))
