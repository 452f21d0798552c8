"""Bit layouts of addresses and ports that hold an IPv4 address, EA bits or a PSID.

RFC 7597 (MAP), RFC 7596 (lightweight 4over6), RFC 6052 and RFC 7757.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, NamedTuple, Protocol

from v6t.packets.bit_layout import BitCopy, BitLayout

IPV4 = "ipv4"  # variable: an IPv4 address
PSID = "psid"  # variable: a port set identifier
EA = "ea"  # variable: an IPv4 suffix and then a PSID
HOST = "host"  # variable: the rest of the address of a host whose CE has an IPv4 prefix
INDEX = "index"  # variable: the bits of a port around the PSID
SOFTWIRE = "softwire"  # variable: a row's number

IidFormat = Literal["rfc7597", "draft"]
"""Interface identifier of RFC 7597, section 6, or of the drafts before it (u octet first)."""

_U_OCTET = 64  # first bit of the octet that an embedded address skips


class MappingRule(Protocol):
    """A mapping rule of MAP; prefix lengths ``n`` and ``r``, EA length ``o``, PSID length ``k``."""

    @property
    def ipv6_prefix(self) -> IPv6Network: ...
    @property
    def ipv4_prefix(self) -> IPv4Network: ...
    @property
    def ea_len(self) -> int: ...
    @property
    def psid_len(self) -> int: ...
    @property
    def iid_format(self) -> IidFormat: ...


class CeLayouts(NamedTuple):
    """Layouts of a CE's IPv4 address and PSID, computed from EA bits, and of the EA bits."""

    ipv4: BitLayout
    psid: BitLayout
    ea: BitLayout


def make_ce_layouts(rule: MappingRule) -> CeLayouts:
    """Return the layouts of EA bits, IPv4 address and PSID of a CE (RFC 7597, section 5.2)."""
    r, k, embedded = rule.ipv4_prefix.prefixlen, rule.psid_len, _count_suffix_bits(rule)
    hosts = 32 - r - embedded
    base = int(rule.ipv4_prefix.network_address)
    ea_psid = k if rule.ea_len else 0
    address = (BitCopy(EA, r, embedded), BitCopy(HOST, r + embedded, hosts))
    ea = BitCopy(IPV4, 0, embedded, r), BitCopy(PSID, embedded, ea_psid)
    return CeLayouts(
        BitLayout(32, {EA: rule.ea_len, HOST: hosts}, address, base),
        BitLayout(k, {EA: rule.ea_len}, (BitCopy(EA, k - ea_psid, ea_psid, embedded),)),
        BitLayout(rule.ea_len, {IPV4: 32, PSID: k}, ea),
    )


def make_end_user_prefix_layout(rule: MappingRule) -> BitLayout:
    """Return the layout of an end-user prefix: rule IPv6 prefix and ``ea`` (RFC 7597, section 5.2)."""
    copy = BitCopy(EA, rule.ipv6_prefix.prefixlen, rule.ea_len)
    return BitLayout(128, {EA: rule.ea_len}, (copy,), int(rule.ipv6_prefix.network_address))


def make_map_address_layout(rule: MappingRule, *, embeds_host: bool = False) -> BitLayout:
    """Return the layout of a MAP address with ``ipv4`` and ``psid`` (RFC 7597, section 6).

    With ``embeds_host`` the identifier of a CE with a prefix holds the host's complete address: MAP-T
    (erratum 5225 of RFC 7599), not MAP-E.
    """
    prefix = make_end_user_prefix_layout(rule).compose(ea=make_ce_layouts(rule).ea)
    ipv4_bits = 32 if embeds_host else rule.ipv4_prefix.prefixlen + _count_suffix_bits(rule)
    end, k = 120 if rule.iid_format == "draft" else 128, rule.psid_len
    identifier = (BitCopy(IPV4, end - 48, ipv4_bits), BitCopy(PSID, end - k, k))
    return BitLayout(128, {IPV4: 32, PSID: k}, (*prefix.copies, *identifier), prefix.constant)


def map_address(rule: MappingRule, ipv4: IPv4Address, psid: int) -> IPv6Address:
    """Compute the MAP address of a CE (RFC 7597, section 6)."""
    return IPv6Address(make_map_address_layout(rule).encode(ipv4=int(ipv4), psid=psid))


@lru_cache(maxsize=64)
def make_port_layout(psid_offset: int, psid_len: int) -> BitLayout:
    """Return the layout of a port with ``psid`` (RFC 7597, section 5.1); ``index`` is ``A`` and ``j``."""
    a, k = psid_offset, psid_len
    m = 16 - a - k
    copies = (BitCopy(INDEX, 0, a), BitCopy(PSID, a, k), BitCopy(INDEX, a + k, m, a))
    return BitLayout(16, {INDEX: a + m, PSID: k}, copies)


@dataclass(frozen=True)
class GeneratedSoftwires:
    """Softwires computed from their numbers: PSIDs and addresses ascend together.

    Softwire ``i`` has the ``/64`` number ``i``; the low bits of its ``index_bits`` are the PSID.
    """

    ipv4_pool: IPv4Network
    b4_prefix: IPv6Network
    psid_len: int
    index_bits: int

    @cached_property
    def ipv4_layout(self) -> BitLayout:
        """Layout of the IPv4 address of softwire number ``softwire``."""
        bits = max(0, self.index_bits - self.psid_len)
        copy, base = BitCopy(SOFTWIRE, 32 - bits, bits), int(self.ipv4_pool.network_address)
        return BitLayout(32, {SOFTWIRE: self.index_bits}, (copy,), base)

    @cached_property
    def psid_layout(self) -> BitLayout:
        """Layout of the PSID of softwire number ``softwire``."""
        bits = min(self.psid_len, self.index_bits)
        copy = BitCopy(SOFTWIRE, self.psid_len - bits, bits, self.index_bits - bits)
        return BitLayout(self.psid_len, {SOFTWIRE: self.index_bits}, (copy,))

    @cached_property
    def b4_layout(self) -> BitLayout:
        """Layout of the lwB4's address of softwire number ``softwire`` (RFC 7596, section 5.1)."""
        k, number = self.psid_len, self.index_bits
        variables = {SOFTWIRE: number, IPV4: 32, PSID: k}
        subnet = BitCopy(SOFTWIRE, 64 - number, number)
        copies = subnet, BitCopy(IPV4, 80, 32), BitCopy(PSID, 128 - k, k)
        layout = BitLayout(128, variables, copies, int(self.b4_prefix.network_address))
        return layout.compose(ipv4=self.ipv4_layout, psid=self.psid_layout)


@lru_cache(maxsize=64)
def make_embedded_address_layout(prefix: IPv6Network) -> BitLayout:
    """Return the layout of an address with ``ipv4`` behind a prefix (RFC 6052, section 2.2)."""
    length = prefix.prefixlen
    before = min(32, max(0, _U_OCTET - length))
    after = 96 if length == 96 else max(length, _U_OCTET) + 8
    copies = (BitCopy(IPV4, length, before), BitCopy(IPV4, after, 32 - before, before))
    return BitLayout(128, {IPV4: 32}, copies, int(prefix.network_address))


def make_eam_layout(ipv4_prefix: IPv4Network, ipv6_prefix: IPv6Network) -> BitLayout:
    """Return the layout of an explicitly mapped address with ``ipv4`` (RFC 7757, section 3.3)."""
    suffix = 32 - ipv4_prefix.prefixlen
    copy = BitCopy(IPV4, ipv6_prefix.prefixlen, suffix, ipv4_prefix.prefixlen)
    return BitLayout(128, {IPV4: 32}, (copy,), int(ipv6_prefix.network_address))


def _count_suffix_bits(rule: MappingRule) -> int:
    return min(rule.ea_len, 32 - rule.ipv4_prefix.prefixlen)
