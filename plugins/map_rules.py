"""Mapping rules of MAP (RFC 7597, RFC 7599): addresses and ports of their CEs.

Notation of RFC 7597: rule prefixes IPv6 ``/n`` and IPv4 ``/r``, EA length ``o``, IPv4 suffix of
``p = 32 - r`` bits, PSID length ``k``, PSID offset ``a``, and ``m = 16 - a - k`` low port bits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, NamedTuple

import numpy as np
from v6t.base.errors import UsageError
from v6t.packets import address_layouts
from v6t.packets.address_layouts import IPV4, PSID, CeLayouts, IidFormat
from v6t.packets.arrays import U8, U64, Mask
from v6t.packets.bit_layout import BitLayout
from v6t.packets.headers import to_octets
from v6t.plugins.ports import PortSet, PortSharing
from v6t.plugins.prefixes import parse_ipv4_network, parse_ipv6_network
from v6t.plugins.translation import select_within

MAX_EA_LEN = 48
DEFAULT_PSID_OFFSET = 6  # RFC 7597, section 5.1


@dataclass(frozen=True)
class MapRule:
    """A mapping rule, which is validated when it is created."""

    ipv6_prefix: IPv6Network
    ipv4_prefix: IPv4Network
    ea_len: int
    psid_offset: int = DEFAULT_PSID_OFFSET
    psid_len: int = -1  # -1: the EA bits determine it (RFC 7597, example 5, has none)
    iid_format: IidFormat = "rfc7597"
    psid: int | None = None  # of the only CE of a rule without EA bits (RFC 7597, section 5.2)

    def __post_init__(self) -> None:
        n, r, o, p = self.ipv6_prefix.prefixlen, 32 - self.suffix_len, self.ea_len, self.suffix_len
        derived = max(0, o - p)
        given, k = self.psid_len, derived if self.psid_len == -1 else self.psid_len
        object.__setattr__(self, "psid_len", k)
        problem = hint = ""
        code = "out-of-range"
        if not 0 <= o <= MAX_EA_LEN:
            problem = f"ea_len {o} is outside 0..{MAX_EA_LEN}"
        elif n + o > 64:
            problem = f"end-user prefixes cannot be /{n + o}: rule IPv6 prefix /{n}, {o} EA bits"
            hint = f"shorten the rule prefix to /{64 - o} or the EA bits to {max(0, 64 - n)}"
        elif o and k != derived:
            problem = f"psid_len {given} contradicts {o} EA bits, of which {p} are IPv4 suffix"
            hint, code = f"leave psid_len out or set it to {derived}", "conflict"
        elif not o and k and r != 32:
            problem = f"psid_len {given} without EA bits needs one IPv4 address, not /{r}"
            hint, code = "use an IPv4 prefix of /32 or set ea_len", "conflict"
        elif not 0 <= k <= 16:
            problem = f"{o} EA bits leave a PSID of {k} bits, at most 16 fit a port"
            hint = f"shorten ea_len to {p + 16} or lengthen the IPv4 prefix"
        elif o and self.psid is not None:
            problem = f"psid {self.psid} is set for a rule with {o} EA bits, which hold the PSID"
            code = "setting-without-effect"
        if problem:
            raise UsageError(problem, hint, code=code)
        # raises errors
        _ = self.port_sharing if self.psid is None else self.make_port_set(self.psid)

    @property
    def suffix_len(self) -> int:
        """Length of the IPv4 suffix (``p``)."""
        return 32 - self.ipv4_prefix.prefixlen

    @property
    def host_bits(self) -> int:
        """Number of host bits if each CE has an IPv4 prefix, else 0."""
        return max(0, self.suffix_len - self.ea_len)

    @property
    def is_shared(self) -> bool:
        return self.psid_len > 0

    @property
    def sharing_ratio(self) -> int:
        return 1 << self.psid_len

    @property
    def ce_count(self) -> int:
        return 1 << self.ea_len

    @cached_property
    def port_sharing(self) -> PortSharing:
        return PortSharing(self.psid_offset, self.psid_len)

    @cached_property
    def ce_layouts(self) -> CeLayouts:
        return address_layouts.make_ce_layouts(self)

    @cached_property
    def address_layout(self) -> BitLayout:
        return address_layouts.make_map_address_layout(self)

    @cached_property
    def host_address_layout(self) -> BitLayout:
        """Layout of MAP-T addresses, which hold a host's complete IPv4 address."""
        return address_layouts.make_map_address_layout(self, embeds_host=True)

    def make_port_set(self, psid: int) -> PortSet:
        return PortSet(self.psid_offset, self.psid_len, psid)

    def find_psid(self, port: int) -> int | None:
        psid, owned = self.find_psids(port)
        return psid if owned else None

    def find_psids(self, ports: Any) -> tuple[Any, Any]:
        """Return the PSID of each port, and whether a CE of this rule has the port."""
        psids, owned = self.port_sharing.find_psids(ports)
        return psids, owned if self.psid is None else owned & (psids == self.psid)

    def encode_ea(self, ipv4: IPv4Address, psid: int) -> int:
        self._check_ipv4(ipv4)
        return self.ce_layouts.ea.encode(ipv4=int(ipv4), psid=psid)

    def decode_ea(self, ea: int) -> tuple[IPv4Address, int]:
        """Return the CE's IPv4 address (the first of its prefix) and PSID."""
        if not 0 <= ea < self.ce_count:
            problem = f"EA value {ea:#x} does not fit {self.ea_len} bits"
            raise UsageError(problem, code="out-of-range")
        psid = self.ce_layouts.psid.encode(ea=ea) if self.ea_len else self.psid or 0
        return IPv4Address(self.ce_layouts.ipv4.encode(ea=ea, host=0)), psid

    def compute_end_user_prefix(self, ipv4: IPv4Address, psid: int) -> IPv6Network:
        """Compute the prefix delegated to the CE, with length ``n + o``."""
        layout, ea = address_layouts.make_end_user_prefix_layout(self), self.encode_ea(ipv4, psid)
        return IPv6Network((layout.encode(ea=ea), self.ipv6_prefix.prefixlen + self.ea_len))

    def map_address(self, ipv4: IPv4Address, psid: int, embeds_host: bool = False) -> IPv6Address:
        """Compute a CE's MAP address (RFC 7597, section 6), or a host's (MAP-T, erratum 5225 of RFC 7599)."""
        self._check_ipv4(ipv4)
        layout = self.host_address_layout if embeds_host else self.address_layout
        return IPv6Address(layout.encode(ipv4=int(ipv4), psid=psid))

    def decode_address(self, address: IPv6Address) -> tuple[IPv4Address, int] | None:
        """Return the IPv4 address and PSID in a MAP address, or None if it is inconsistent."""
        values = self.host_address_layout.decode(int(address))
        ipv4, psid = IPv4Address(values[IPV4]), values[PSID]
        if ipv4 not in self.ipv4_prefix or self.psid not in (None, psid):
            return None
        return (ipv4, psid) if self.host_address_layout.encode(**values) == int(address) else None

    def _check_ipv4(self, ipv4: IPv4Address) -> None:
        if ipv4 not in self.ipv4_prefix:
            problem = f"{ipv4} is outside the rule's IPv4 prefix {self.ipv4_prefix}"
            raise UsageError(problem, code="outside-prefix")


def parse_rule(
    ipv6_prefix: str,
    ipv4_prefix: str,
    ea_len: int,
    psid_offset: int = DEFAULT_PSID_OFFSET,
    *,
    psid_len: int | None = None,
    iid_format: IidFormat = "rfc7597",
    psid: int | None = None,
) -> MapRule:
    """Parse and validate a rule; ``psid`` is ignored if the rule has EA bits."""
    if psid_len is not None and not 0 <= psid_len <= 16:
        raise UsageError(f"psid_len {psid_len} is outside 0..16", code="out-of-range")
    ipv6 = parse_ipv6_network(ipv6_prefix, "rule IPv6 prefix", "rule_ipv6")
    ipv4 = parse_ipv4_network(ipv4_prefix, "rule IPv4 prefix", "rule_ipv4")
    length, only = -1 if psid_len is None else psid_len, psid if psid_len and not ea_len else None
    return MapRule(ipv6, ipv4, ea_len, psid_offset, length, iid_format, only)


def find_served_eas(rule: MapRule, low: int, high: int, rules: Iterable[MapRule]) -> list[range]:
    """Return ascending ranges of the EA values in ``low..high`` that no more specific rule covers."""
    free = [range(low, high + 1)] if low <= high else []
    for narrow in rules:
        for name in ("ipv6_prefix", "ipv4_prefix"):
            outer, inner = getattr(rule, name), getattr(narrow, name)
            more = inner.prefixlen - outer.prefixlen
            if more <= 0 or inner.network_address not in outer:
                continue
            beyond = int(inner.network_address) << rule.ea_len
            first = beyond >> outer.max_prefixlen - outer.prefixlen & rule.ce_count - 1
            end = first + (1 << max(0, rule.ea_len - more))
            below = [range(r.start, min(r.stop, first)) for r in free]
            above = [range(max(r.start, end), r.stop) for r in free]
            free = [part for parts in zip(below, above, strict=True) for part in parts if part]
    return free


class MapSources(NamedTuple):
    """Results of a look-up of CEs by IPv6 source and port, ``(n,)`` each."""

    known: Mask  # a rule contains the source
    consistent: Mask  # the parts of the address agree
    owned: Mask  # the port belongs to the CE
    ipv4: U64  # IPv4 address in the source
    mask: U64  # netmask of the CE's IPv4 prefix


class MapDestinations(NamedTuple):
    """Results of a look-up of CEs by IPv4 destination and port."""

    ipv6: U8  # (n, 16), addresses of the CEs
    known: Mask  # (n,), a rule contains the destination
    owned: Mask  # (n,), the port belongs to a CE of that rule


class RuleTable:
    """Mapping rules of a border relay or CE, looked up by longest prefix."""

    def __init__(self, rules: Iterable[MapRule], *, embeds_host: bool = False) -> None:
        pairs = [(r, r.host_address_layout if embeds_host else r.address_layout) for r in rules]
        # later matches replace those of shorter prefixes
        self._by_ipv6 = sorted(pairs, key=lambda e: e[0].ipv6_prefix.prefixlen)
        self._by_ipv4 = sorted(pairs, key=lambda e: (e[0].ipv4_prefix.prefixlen, e[0].ipv4_prefix))

    def find_sources(self, high: U64, low: U64, port: U64) -> MapSources:
        """Look up CEs by the halves of their IPv6 addresses and by port, ``(n,)`` each."""
        high, low, port = (column.astype(np.uint64) for column in (high, low, port))
        flags, numbers = np.zeros((3, len(high)), dtype=bool), np.zeros((2, len(high)), np.uint64)
        sources = MapSources(*flags, *numbers)
        for rule, layout in self._by_ipv6:
            inside = select_within(high, rule.ipv6_prefix, 64)
            if not inside.any():
                continue
            claimed = layout.decode_words((high, low))
            right_high, right_low = layout.encode_words(**claimed)
            agrees = select_within(claimed[IPV4], rule.ipv4_prefix) & (right_high == high)
            agrees &= right_low == low
            if rule.psid is not None:
                agrees &= claimed[PSID] == rule.psid
            psids, in_port_set = rule.find_psids(port)
            in_port_set &= psids == claimed[PSID]
            netmask = np.uint64((1 << 32) - (1 << rule.host_bits))
            results = inside, agrees, in_port_set, claimed[IPV4], netmask
            rows = inside.all() or inside
            for column, values in zip(sources, results, strict=True):
                np.copyto(column, values, where=rows)
        return sources

    def find_destinations(self, ipv4: U64, port: U64) -> MapDestinations:
        """Look up CEs by IPv4 address and port, ``(n,)`` each."""
        ipv4, port = ipv4.astype(np.uint64), port.astype(np.uint64)
        halves = np.zeros((2, len(ipv4)), dtype=np.uint64)
        known, owned = np.zeros((2, len(ipv4)), dtype=bool)
        shorter = None
        for rule, layout in self._by_ipv4:
            inside = select_within(ipv4, rule.ipv4_prefix)
            if not inside.any():
                continue
            if rule.ipv4_prefix != shorter:
                owned &= ~inside
            shorter = rule.ipv4_prefix
            psid, in_port_set = rule.find_psids(port)
            in_port_set &= inside
            for column, half in zip(halves, layout.encode_words(ipv4=ipv4, psid=psid), strict=True):
                np.copyto(column, half, where=in_port_set)
            owned |= in_port_set
            known |= inside
        ipv6 = np.concatenate([to_octets(half, 8) for half in halves], axis=1)
        return MapDestinations(ipv6, known, owned)

    def find_ce(self, ipv4: IPv4Address, port: int) -> IPv6Address | None:
        ce = self.find_destinations(np.array([int(ipv4)]), np.array([port]))
        return IPv6Address(ce.ipv6.tobytes()) if ce.owned[0] else None
