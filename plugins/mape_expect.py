"""What a correct MAP-E border relay emits: a vectorised one.

Forward it decapsulates after the consistency check of RFC 7597 section 8.1 (MAP-09); reverse it
encapsulates towards the MAP address that IPv4 destination and port tell (MAP-10). The inner TTL
is decremented once either way; the outer header is fresh (hop limit 64, traffic class and flow
label 0). Other IPv6 is routed: hop limit minus one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Expected, Link, Links
from v6t.plugins.map import MapRule
from v6t.plugins.mape_params import MapEParams

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.profiles.model import Direction

    U8 = NDArray[np.uint8]
    U64 = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

NOT_OURS, NO_TUNNEL, NO_RULE, BAD_IID, BAD_SOURCE, BAD_PORT, NO_DESTINATION, NO_PORT, TTL = range(
    1, 10
)
OUTER_HOP_LIMIT = 64
_IPV6 = b"\x86\xdd"
_IPV4 = b"\x08\x00"


@dataclass(frozen=True)
class _Side:
    """Ethernet headers of one link, as bytes."""

    arriving: bytes
    leaving: bytes

    @property
    def l3(self) -> int:
        return len(self.arriving) + 2


def _side(link: Link) -> _Side:
    dut, tester = (bytes.fromhex(m.replace(":", "")) for m in (link.dut_mac, link.tester_mac))
    tag = b"" if link.vlan is None else b"\x81\x00" + link.vlan.to_bytes(2, "big")
    return _Side(dut + tester + tag, tester + dut + tag)


class BorderRelay:
    """The reference BR for one set of rules and links."""

    def __init__(self, params: MapEParams, links: Links) -> None:
        """Precompute what every batch needs.

        Args:
            params: rules and addresses.
            links: MAC addresses and VLANs.
        """
        self._left, self._right = _side(links.left), _side(links.right)
        self._br = np.frombuffer(params.br_address.packed, dtype=np.uint8)
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(params.all_domains, key=lambda d: d.rule.ipv6_prefix.prefixlen)
        self._by_ipv6 = [_Rule(d.rule) for d in by_length]
        by_length = sorted(params.all_domains, key=lambda d: d.rule.ipv4_prefix.prefixlen)
        self._by_ipv4 = [_Rule(d.rule) for d in by_length]

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        here, there = (
            (self._left, self._right) if direction == "forward" else (self._right, self._left)
        )
        reason = np.zeros(len(frames), dtype=np.uint8)
        if frames.shape[1] < here.l3 + 40 if len(frames) else True:
            reason[:] = NO_TUNNEL
            return Expected(np.zeros((len(frames), 0), np.uint8), _zeros(frames), reason)
        head = np.frombuffer(here.arriving, dtype=np.uint8)
        # the tester's own address is not checked: a router does not look at it
        ours = (frames[:, :6] == head[:6]).all(axis=1)
        ours &= (frames[:, 12 : len(head)] == head[12:]).all(axis=1)
        reason[~ours] = NOT_OURS
        kind = frames[:, len(head)].astype(np.uint16) << 8 | frames[:, len(head) + 1]
        ipv6 = ours & (kind == int.from_bytes(_IPV6, "big"))
        if direction == "forward":
            return self._forward(frames, ours, ipv6, reason)
        ipv4 = ours & (kind == int.from_bytes(_IPV4, "big"))
        reason[ours & ~ipv6 & ~ipv4] = NO_TUNNEL
        body = _cut(frames, here.l3)
        tunnelled = self._encapsulate(body, ipv4, reason)
        return self._merge(frames, here, there, reason, tunnelled, ipv4, ipv6)

    def _forward(self, frames: U8, ours: Mask, ipv6: Mask, reason: NDArray[np.uint8]) -> Expected:
        body = _cut(frames, self._left.l3)
        for_br = ipv6 & (body[:, 24:40] == self._br).all(axis=1)
        tunnel = for_br & (body[:, 6] == 4)
        reason[ours & ~ipv6 | for_br & ~tunnel] = NO_TUNNEL
        inner = self._decapsulate(body, tunnel, reason)
        return self._merge(frames, self._left, self._right, reason, inner, tunnel, ipv6 & ~for_br)

    def _merge(
        self,
        frames: U8,
        here: _Side,
        there: _Side,
        reason: NDArray[np.uint8],
        changed: tuple[U8, bytes],
        translated: Mask,
        native: Mask,
    ) -> Expected:
        """Rows of both kinds in one array, behind the Ethernet header of the leaving link."""
        payload, ethertype = changed
        exhausted = native & (frames[:, here.l3 + 7] <= 1)
        reason[exhausted] = TTL
        native = native & ~exhausted
        header = len(there.leaving) + 2
        bulk = header + payload.shape[1]
        routed = header + frames.shape[1] - here.l3
        any_native = bool(native.any())
        out = np.zeros((len(frames), max(bulk, routed) if any_native else bulk), dtype=np.uint8)
        out[:, : header - 2] = np.frombuffer(there.leaving, dtype=np.uint8)
        out[:, header - 2 : header] = np.frombuffer(ethertype, dtype=np.uint8)
        out[:, header:bulk] = payload
        length = np.where(reason == 0, np.int32(bulk), np.int32(0)).astype(np.int32)
        if any_native:
            out[native, header - 2 : header] = np.frombuffer(_IPV6, dtype=np.uint8)
            rows = frames[native, here.l3 :]
            rows[:, 7] -= 1
            out[native, header:routed] = rows
            length[native] = routed
        length[~(translated | native)] = 0
        return Expected(out, length, reason)

    def _decapsulate(self, body: U8, tunnel: Mask, reason: NDArray[np.uint8]) -> tuple[U8, bytes]:
        inner = body[:, 40:].copy()
        if inner.shape[1] < 28:
            reason[tunnel] = NO_TUNNEL
            return inner, _IPV4
        high, low = _u64(body[:, 8:16]), _u64(body[:, 16:24])
        source, port = _u32(inner[:, 12:16]), _u16(inner[:, 20:22])
        verdict = np.full(len(body), NO_RULE, dtype=np.uint8)
        for rule in self._by_ipv6:
            inside = (high & rule.mask6) == rule.net6
            if inside.any():
                verdict = np.where(inside, rule.check(high, low, source, port), verdict)
        verdict[(verdict == 0) & (inner[:, 8] <= 1)] = TTL
        verdict[(verdict == 0) & (inner[:, 9] != 17)] = NO_TUNNEL
        np.copyto(reason, verdict, where=tunnel)
        _decrement_ttl(inner)
        return inner, _IPV4

    def _encapsulate(self, body: U8, ipv4: Mask, reason: NDArray[np.uint8]) -> tuple[U8, bytes]:
        count, length = body.shape
        out = np.empty((count, 40 + length), dtype=np.uint8)
        out[:, :8] = (0x60, 0, 0, 0, length >> 8, length & 255, 4, OUTER_HOP_LIMIT)
        out[:, 8:24] = self._br
        out[:, 40:] = body
        _decrement_ttl(out[:, 40:])
        destination, port = _u32(body[:, 16:20]), _u16(body[:, 22:24])
        verdict = np.full(count, NO_DESTINATION, dtype=np.uint8)
        high = np.zeros(count, dtype=np.uint64)
        low = np.zeros(count, dtype=np.uint64)
        for rule in self._by_ipv4:
            inside = (destination & rule.mask4) == rule.net4
            if not inside.any():
                continue
            rule_high, rule_low, owned = rule.map_address(destination, port)
            np.copyto(high, rule_high, where=inside)
            np.copyto(low, rule_low, where=inside)
            verdict = np.where(inside, np.where(owned, 0, NO_PORT), verdict).astype(np.uint8)
        verdict[(verdict == 0) & (body[:, 8] <= 1)] = TTL
        verdict[(verdict == 0) & (body[:, 9] != 17)] = NO_TUNNEL
        np.copyto(reason, verdict, where=ipv4)
        out[:, 24:32] = high.astype(">u8").view(np.uint8).reshape(count, 8)
        out[:, 32:40] = low.astype(">u8").view(np.uint8).reshape(count, 8)
        return out, _IPV6


class _Rule:
    """A rule as masks and shifts on 64-bit words."""

    def __init__(self, rule: MapRule) -> None:
        n, o = rule.ipv6_prefix.prefixlen, rule.ea_len
        self.mask6 = np.uint64(((1 << n) - 1) << 64 - n)
        self.net6 = np.uint64(int(rule.ipv6_prefix.network_address) >> 64)
        self.mask4 = np.uint64(int(rule.ipv4_prefix.netmask))
        self.net4 = np.uint64(int(rule.ipv4_prefix.network_address))
        self._suffix = np.uint64((1 << rule.suffix_len) - 1)
        self._prefix_bits = np.uint64(rule.suffix_len - o if rule.prefix_ce else 0)
        self._ea_shift = np.uint64(64 - n - o)
        self._k = np.uint64(rule.psid_len)
        self._psid = np.uint64((1 << rule.psid_len) - 1)
        self._m = np.uint64(rule.low_bits if rule.psid_len else 0)
        self._floor = np.uint64(
            1 << 16 - rule.psid_offset if rule.psid_len and rule.psid_offset else 0
        )
        draft = rule.iid_format == "draft"
        self._ipv4_at, self._psid_at = np.uint64(24 if draft else 16), np.uint64(8 if draft else 0)
        self._embeds = bool(o)

    def map_address(self, ipv4: U64, port: U64) -> tuple[U64, U64, Mask]:
        """High and low half of the MAP address, and whether the port belongs to any CE."""
        psid = (port >> self._m) & self._psid
        kept = (ipv4 >> self._prefix_bits) << self._prefix_bits
        high = np.full(len(ipv4), self.net6, dtype=np.uint64)
        if self._embeds:
            suffix = (ipv4 & self._suffix) >> self._prefix_bits
            high |= (suffix << self._k | psid) << self._ea_shift
        return high, kept << self._ipv4_at | psid << self._psid_at, port >= self._floor

    def check(self, high: U64, low: U64, source: U64, port: U64) -> NDArray[np.uint8]:
        """0 for consistent frames, else the reason to drop."""
        right_high, right_low, owned = self.map_address(source, port)
        psid_field = self._psid << self._psid_at
        claimed_ipv4 = (low >> self._ipv4_at) & np.uint64(0xFFFFFFFF)
        claimed_psid = (low >> self._psid_at) & np.uint64(0xFFFF)
        claimed_high, _, _ = self.map_address(claimed_ipv4, claimed_psid << self._m)
        in_rule = (claimed_ipv4 & self.mask4) == self.net4
        consistent = in_rule & (claimed_high == high) & (claimed_psid <= self._psid)
        verdict = np.zeros(len(high), dtype=np.uint8)
        verdict[~owned | (right_high != high) | (right_low != low)] = BAD_PORT
        verdict[(right_low & ~psid_field) != (low & ~psid_field)] = BAD_SOURCE
        verdict[~consistent] = BAD_IID
        return verdict


def _cut(frames: U8, l3: int) -> U8:
    return frames[:, l3:]


def _zeros(frames: U8) -> NDArray[np.int32]:
    return np.zeros(len(frames), dtype=np.int32)


def _u64(octets: U8) -> U64:
    return np.ascontiguousarray(octets).view(">u8")[:, 0].astype(np.uint64)


def _u32(octets: U8) -> U64:
    return np.ascontiguousarray(octets).view(">u4")[:, 0].astype(np.uint64)


def _u16(octets: U8) -> U64:
    return np.ascontiguousarray(octets).view(">u2")[:, 0].astype(np.uint64)


def _decrement_ttl(packets: U8) -> None:
    """TTL minus one, header checksum updated incrementally (RFC 1624), in place."""
    packets[:, 8] -= 1
    checksum = (packets[:, 10].astype(np.uint32) << 8 | packets[:, 11]) + np.uint32(0x0100)
    checksum += checksum >= 0xFFFF
    packets[:, 10] = checksum >> 8 & 0xFF
    packets[:, 11] = checksum & 0xFF
