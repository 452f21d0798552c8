"""MAP arithmetic (RFC 7597, RFC 7599): rules, port sets, addresses. Exact, scalar, pure.

Notation of RFC 7597: rule prefixes IPv6 ``/n`` and IPv4 ``/r``, EA length ``o``, IPv4 suffix of
``p = 32 - r`` bits, PSID length ``k``, PSID offset ``a``, and ``m = 16 - a - k`` low port bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

from v6t.base.errors import UsageError
from v6t.plugins.common.text import network4, network6

IidFormat = Literal["rfc7597", "draft"]
"""Interface identifier of RFC 7597 section 6, or of the earlier drafts (u-octet first, MAP-08)."""

MAX_EA_LEN = 48
DEFAULT_PSID_OFFSET = 6


@dataclass(frozen=True)
class PortSet:
    """Ports of one PSID: ``port = A (a bits) | PSID (k bits) | j (m bits)`` (MAP-04).

    With ``a > 0`` the value ``A = 0`` belongs to nobody; without a PSID (``k = 0``) all ports
    belong to the one CE, whatever ``a`` is (MAP-06).
    """

    psid_offset: int
    psid_len: int
    psid: int

    @property
    def low_bits(self) -> int:
        """``m``: bits below the PSID."""
        return 16 - self.psid_offset - self.psid_len

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Inclusive port ranges in ascending order."""
        if self.psid_len == 0:
            return ((0, 65535),)
        size = 1 << self.low_bits
        tops = range(1, 1 << self.psid_offset) if self.psid_offset else range(1)
        starts = ((top << 16 - self.psid_offset) + (self.psid << self.low_bits) for top in tops)
        return tuple((start, start + size - 1) for start in starts)

    @property
    def count(self) -> int:
        """Ports in the set."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and any(first <= port <= last for first, last in self.ranges)


@dataclass(frozen=True)
class MapRule:
    """A mapping rule, checked when made (MAP-01 to MAP-04).

    Attributes:
        ipv6_prefix, ipv4_prefix: the rule prefixes.
        ea_len: ``o``, bits embedded in the end-user prefix.
        psid_offset: ``a``.
        psid_len: ``k``; given explicitly only where ``ea_len`` does not tell it (RFC 7597
            example 5: PSID provisioned by DHCPv6), otherwise derived.
        iid_format: see :data:`IidFormat`.
        psid: of the one CE of a shared address without EA bits (RFC 7597 section 5.2); None where
            EA bits hold it, or where it is not known.
    """

    ipv6_prefix: IPv6Network
    ipv4_prefix: IPv4Network
    ea_len: int
    psid_offset: int = DEFAULT_PSID_OFFSET
    psid_len: int = -1
    iid_format: IidFormat = "rfc7597"
    psid: int | None = None

    def __post_init__(self) -> None:
        n, r, o = self.ipv6_prefix.prefixlen, self.ipv4_prefix.prefixlen, self.ea_len
        if not 0 <= o <= MAX_EA_LEN:
            raise UsageError(f"ea_len {o} is outside 0..{MAX_EA_LEN}", code="out-of-range")
        if n + o > 64:
            raise UsageError(
                f"the end-user prefix would be /{n + o}: rule IPv6 prefix /{n} plus {o} EA bits",
                f"shorten the rule prefix to /{64 - o} or the EA bits to {max(0, 64 - n)}",
                code="out-of-range",
            )
        if not 0 <= self.psid_offset <= 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} is outside 0..16", code="out-of-range"
            )
        derived = max(0, o - self.suffix_len)
        if self.psid_len == -1:
            object.__setattr__(self, "psid_len", derived)
        elif o and self.psid_len != derived:
            raise UsageError(
                f"psid_len {self.psid_len} contradicts {o} EA bits, of which {self.suffix_len} are "
                f"IPv4 suffix",
                f"leave psid_len out or set it to {derived}",
                code="conflict",
            )
        elif not o and self.psid_len and r != 32:
            raise UsageError(
                f"psid_len {self.psid_len} with no EA bits needs a rule for one IPv4 address, "
                f"not /{r}",
                "use an IPv4 prefix of /32 or set ea_len",
                code="conflict",
            )
        if not 0 <= self.psid_len <= 16:
            raise UsageError(
                f"{o} EA bits leave a PSID of {self.psid_len} bits, at most 16 fit a port",
                f"shorten ea_len to {self.suffix_len + 16} or lengthen the IPv4 prefix",
                code="out-of-range",
            )
        if self.psid_len and self.psid_offset + self.psid_len > 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} plus PSID length {self.psid_len} is more than "
                f"the 16 bits of a port",
                f"set psid_offset to at most {16 - self.psid_len}",
                code="out-of-range",
            )
        if self.psid is not None and o:
            raise UsageError(
                f"psid {self.psid} is set for a rule with {o} EA bits, which hold the PSID",
                code="setting-without-effect",
            )
        if self.psid is not None:
            self.port_set(self.psid)

    @property
    def suffix_len(self) -> int:
        """``p``: bits of the IPv4 address the rule leaves open."""
        return 32 - self.ipv4_prefix.prefixlen

    @property
    def embedded_suffix_len(self) -> int:
        """IPv4 suffix bits among the EA bits: fewer than ``p`` for CEs with an IPv4 prefix."""
        return min(self.ea_len, self.suffix_len)

    @property
    def shared(self) -> bool:
        """Whether CEs share IPv4 addresses."""
        return self.psid_len > 0

    @property
    def prefix_ce(self) -> bool:
        """Whether each CE gets an IPv4 prefix instead of (a share of) one address."""
        return self.ea_len < self.suffix_len

    @property
    def sharing_ratio(self) -> int:
        """CEs per IPv4 address."""
        return 1 << self.psid_len

    @property
    def ce_count(self) -> int:
        """CEs the rule has room for: ``2 ** o`` (MAP-14)."""
        return 1 << self.ea_len

    @property
    def low_bits(self) -> int:
        """``m``; 16 without PSID."""
        return 16 - self.psid_offset - self.psid_len if self.psid_len else 16

    def port_set(self, psid: int) -> PortSet:
        """Ports of a PSID.

        Raises:
            UsageError: no such PSID.
        """
        if not 0 <= psid < self.sharing_ratio:
            raise UsageError(
                f"PSID {psid} does not fit the {self.psid_len} bits of this rule",
                code="out-of-range",
            )
        return PortSet(self.psid_offset, self.psid_len, psid)

    def psid_of(self, port: int) -> int | None:
        """PSID that owns a port, or None for a port that no CE of the rule has (MAP-05)."""
        if not self.psid_len:
            return 0
        if self.psid_offset and port >> 16 - self.psid_offset == 0:
            return None
        psid = port >> self.low_bits & (self.sharing_ratio - 1)
        return psid if self.psid in (None, psid) else None

    def ea_bits(self, ipv4: IPv4Address, psid: int) -> int:
        """EA bits of a CE: IPv4 suffix, then PSID (MAP-02).

        Raises:
            UsageError: the address is outside the rule.
        """
        self._check_ipv4(ipv4)
        suffix = int(ipv4) & ((1 << self.suffix_len) - 1)
        if not self.ea_len:
            return 0
        if self.prefix_ce:
            return suffix >> self.suffix_len - self.ea_len
        return suffix << self.psid_len | psid

    def ce_of(self, ea: int) -> tuple[IPv4Address, int]:
        """IPv4 address (first of its prefix) and PSID of the CE with these EA bits."""
        if not 0 <= ea < self.ce_count:
            raise UsageError(
                f"EA value {ea:#x} does not fit {self.ea_len} bits", code="out-of-range"
            )
        if not self.ea_len:
            return self.ipv4_prefix.network_address, self.psid or 0
        psid = 0 if self.prefix_ce else ea & (self.sharing_ratio - 1)
        suffix = ea >> self.psid_len if not self.prefix_ce else ea << self.suffix_len - self.ea_len
        base = int(self.ipv4_prefix.network_address)
        return IPv4Address(base | suffix), psid

    def end_user_prefix(self, ipv4: IPv4Address, psid: int) -> IPv6Network:
        """The prefix delegated to the CE, length ``n + o``."""
        length = self.ipv6_prefix.prefixlen + self.ea_len
        value = int(self.ipv6_prefix.network_address)
        value |= self.ea_bits(ipv4, psid) << 128 - length
        return IPv6Network((value, length))

    def map_address(
        self, ipv4: IPv4Address, psid: int, host: IPv4Address | None = None
    ) -> IPv6Address:
        """The CE's MAP IPv6 address (MAP-07, MAP-08), subnet-id 0.

        Args:
            ipv4: the CE's IPv4 address or the first address of its prefix.
            psid: 0 where addresses are not shared.
            host: MAP-T writes the complete address of the host behind a prefix CE into the
                interface identifier (RFC 7599 erratum 5225); MAP-E the prefix.
        """
        embedded = host or (self.ce_of(self.ea_bits(ipv4, psid))[0] if self.prefix_ce else ipv4)
        prefix = int(self.end_user_prefix(ipv4, psid).network_address)
        return IPv6Address(prefix | self.interface_id(embedded, psid))

    def interface_id(self, ipv4: IPv4Address, psid: int) -> int:
        """Low 64 bits of a MAP address."""
        if self.iid_format == "draft":
            return int(ipv4) << 24 | psid << 8
        return int(ipv4) << 16 | psid

    def decode(self, address: IPv6Address) -> tuple[IPv4Address, int] | None:
        """IPv4 address and PSID in a MAP address; None if it is not a consistent one (MAP-09)."""
        if address not in self.ipv6_prefix:
            return None
        if self.iid_format == "draft":
            ipv4, psid = IPv4Address(int(address) >> 24 & 0xFFFFFFFF), int(address) >> 8 & 0xFFFF
        else:
            ipv4, psid = IPv4Address(int(address) >> 16 & 0xFFFFFFFF), int(address) & 0xFFFF
        if ipv4 not in self.ipv4_prefix or psid >= self.sharing_ratio:
            return None
        if self.psid not in (None, psid):
            return None
        prefix = int(self.end_user_prefix(ipv4, psid).network_address)
        if prefix | self.interface_id(ipv4, psid) != int(address):
            return None
        return ipv4, psid

    def _check_ipv4(self, ipv4: IPv4Address) -> None:
        if ipv4 not in self.ipv4_prefix:
            raise UsageError(
                f"{ipv4} is outside the rule's IPv4 prefix {self.ipv4_prefix}",
                code="outside-prefix",
            )


def rule_from_text(
    ipv6_prefix: str,
    ipv4_prefix: str,
    ea_len: int,
    psid_offset: int = DEFAULT_PSID_OFFSET,
    *,
    psid_len: int | None = None,
    iid_format: IidFormat = "rfc7597",
    psid: int | None = None,
) -> MapRule:
    """A rule from what a user writes.

    Args:
        psid: of the one CE of a shared address, where there are no EA bits.

    Raises:
        UsageError: a prefix is no prefix or has host bits, or the rule is impossible.
    """
    if psid_len is not None and not 0 <= psid_len <= 16:
        raise UsageError(f"psid_len {psid_len} is outside 0..16", code="out-of-range")
    return MapRule(
        network6(ipv6_prefix, "rule IPv6 prefix", "rule_ipv6"),
        network4(ipv4_prefix, "rule IPv4 prefix", "rule_ipv4"),
        ea_len,
        psid_offset,
        -1 if psid_len is None else psid_len,
        iid_format,
        psid if psid_len and not ea_len else None,
    )
