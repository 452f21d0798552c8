"""What a correct MAP-E border relay emits: a vectorised one.

Forward it decapsulates after the consistency check of RFC 7597 section 8.1 (MAP-09); reverse it
encapsulates towards the MAP address that IPv4 destination and port tell (MAP-10). The inner TTL
is decremented once either way; the outer header is fresh (hop limit 64, traffic class and flow
label 0). Other IPv6 is routed: hop limit minus one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Expected, Links
from v6t.plugins.common.octets import ETHERTYPE, Side, decrement_ttl, side_of, u16, u32, u64
from v6t.plugins.map.mape_params import MapEParams
from v6t.plugins.map.rule_arrays import RuleArray

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.plugins.common.octets import U8, U64, Mask
    from v6t.profiles.model import Direction

NOT_OURS, NO_TUNNEL, NO_RULE, BAD_IID, BAD_SOURCE, BAD_PORT, NO_DESTINATION, NO_PORT, TTL = range(
    1, 10
)
OUTER_HOP_LIMIT = 64
_IPV4, _IPV6 = ETHERTYPE[4], ETHERTYPE[6]


class BorderRelay:
    """The reference BR for one set of rules and links."""

    def __init__(self, params: MapEParams, links: Links) -> None:
        """Precompute what every batch needs.

        Args:
            params: rules and addresses.
            links: MAC addresses and VLANs.
        """
        self._left, self._right = side_of(links.left), side_of(links.right)
        self._br = np.frombuffer(params.br_address.packed, dtype=np.uint8)
        # longest prefixes last: later matches replace earlier ones
        by_length = sorted(params.all_domains, key=lambda d: d.rule.ipv6_prefix.prefixlen)
        self._by_ipv6 = [RuleArray(d.rule) for d in by_length]
        by_length = sorted(params.all_domains, key=lambda d: d.rule.ipv4_prefix.prefixlen)
        self._by_ipv4 = [RuleArray(d.rule) for d in by_length]

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
        here: Side,
        there: Side,
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
        high, low = u64(body[:, 8:16]), u64(body[:, 16:24])
        source, port = u32(inner[:, 12:16]), u16(inner[:, 20:22])
        verdict = np.full(len(body), NO_RULE, dtype=np.uint8)
        for rule in self._by_ipv6:
            inside = (high & rule.mask6) == rule.net6
            if inside.any():
                verdict = np.where(inside, _check(rule, high, low, source, port), verdict)
        verdict[(verdict == 0) & (inner[:, 8] <= 1)] = TTL
        verdict[(verdict == 0) & (inner[:, 9] != 17)] = NO_TUNNEL
        np.copyto(reason, verdict, where=tunnel)
        decrement_ttl(inner)
        return inner, _IPV4

    def _encapsulate(self, body: U8, ipv4: Mask, reason: NDArray[np.uint8]) -> tuple[U8, bytes]:
        count, length = body.shape
        out = np.empty((count, 40 + length), dtype=np.uint8)
        out[:, :8] = (0x60, 0, 0, 0, length >> 8, length & 255, 4, OUTER_HOP_LIMIT)
        out[:, 8:24] = self._br
        out[:, 40:] = body
        decrement_ttl(out[:, 40:])
        destination, port = u32(body[:, 16:20]), u16(body[:, 22:24])
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


def _check(rule: RuleArray, high: U64, low: U64, source: U64, port: U64) -> NDArray[np.uint8]:
    """0 for consistent frames, else the reason to drop."""
    right_high, right_low, owned = rule.map_address(source, port)
    _, _, consistent = rule.claimed(high, low)
    verdict = np.zeros(len(high), dtype=np.uint8)
    verdict[~owned | (right_high != high) | (right_low != low)] = BAD_PORT
    verdict[(right_low & ~rule.psid_field) != (low & ~rule.psid_field)] = BAD_SOURCE
    verdict[~consistent] = BAD_IID
    return verdict


def _cut(frames: U8, l3: int) -> U8:
    return frames[:, l3:]


def _zeros(frames: U8) -> NDArray[np.int32]:
    return np.zeros(len(frames), dtype=np.int32)
