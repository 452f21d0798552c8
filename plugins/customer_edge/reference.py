"""What a correct CE or lwB4 emits, its NAPT left out.

Forward, packets of the relay for the customer's address and ports come out as IPv4; reverse, the
hosts' packets go to the relay. Other IPv6 is routed. Only UDP is carried: the tester sends nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.base import Links
from v6t.plugins.common.octets import octets4, octets8, u16, u32, u64
from v6t.plugins.common.reference_device import (
    COMMON_REASONS,
    EXHAUSTED,
    NOT_FORWARDED,
    Handled,
    Leaving,
    ReferenceDevice,
    route,
    route_all,
)
from v6t.plugins.customer_edge.customer import Customer, Translation, Tunnel
from v6t.plugins.map_rules import RuleArray
from v6t.plugins.translation.address_arrays import Rfc6052Array
from v6t.plugins.translation.vectorised import four_to_six, plain_ipv4, plain_ipv6, six_to_four
from v6t.plugins.tunnel.ipip import carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask, Reasons

NOT_THE_CUSTOMERS, BAD_PORT, NOT_THE_RELAY, TOO_BIG, UNMARKED = range(
    len(COMMON_REASONS), len(COMMON_REASONS) + 5
)
_DF = 0x40


def customer_device(customer: Customer, links: Links) -> ReferenceDevice:
    """The device of a customer.

    Args:
        customer: addresses and ports.
        links: both cables.
    """
    way = customer.way
    device: _Tunnelled | _Translated = (
        _Translated(customer, way, links)
        if isinstance(way, Translation)
        else _Tunnelled(customer, way, links)
    )
    return ReferenceDevice(links, {6: device.from_ipv6}, {4: device.from_ipv4, 6: route_all(6)})


class _Own:
    """Which addresses and ports are the customer's."""

    def __init__(self, customer: Customer) -> None:
        self._ports = customer.ports
        self._mask = np.uint64(int(customer.ipv4.netmask))
        self._net = np.uint64(int(customer.ipv4.network_address))

    def verdict(self, ipv4: U64, port: U64) -> Reasons:
        """Return 0 for the customer's, else the reason to drop."""
        reason = np.zeros(len(ipv4), dtype=np.uint8)
        psid, owned = self._ports.find_psids(port)
        reason[~owned | (psid != self._ports.psid)] = BAD_PORT
        reason[(ipv4 & self._mask) != self._net] = NOT_THE_CUSTOMERS
        return reason


class _Tunnelled:
    """MAP-E CE and lwB4."""

    def __init__(self, customer: Customer, way: Tunnel, links: Links) -> None:
        self._own = _Own(customer)
        self._local = np.frombuffer(way.local.packed, dtype=np.uint8)
        self._remote = np.frombuffer(way.remote.packed, dtype=np.uint8)
        self._uniform = way.uniform
        self._mtu = links.left.mtu

    def from_ipv6(self, packets: U8) -> Handled:
        """For the customer if addressed to the tunnel's end."""
        ours: Mask = (packets[:, 24:40] == self._local).all(axis=1)
        good = ours & carries_udp(packets)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if good.any():
            inner = packets[good, 40:]
            verdict = self._own.verdict(u32(inner[:, 16:20]), u16(inner[:, 22:24]))
            verdict[(verdict == 0) & (inner[:, 8] <= 1)] = EXHAUSTED
            verdict[(verdict == 0) & unmarkable(packets[good])] = UNMARKED
            verdict[(packets[good, 8:24] != self._remote).any(axis=1)] = NOT_THE_RELAY
            reason[good] = verdict

        def taken_out(rows: U8) -> U8:
            return decapsulate(rows, uniform=self._uniform)

        return _answer(packets, ours, reason, taken_out)

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        if packets.shape[1] < 28:
            return Handled(np.full(len(packets), NOT_FORWARDED, dtype=np.uint8), ())
        reason = self._own.verdict(u32(packets[:, 12:16]), u16(packets[:, 20:22]))
        reason[(reason == 0) & (packets[:, 8] <= 1)] = EXHAUSTED
        if packets.shape[1] + 40 > self._mtu:
            reason[reason == 0] = TOO_BIG
        reason[~is_udp(packets)] = NOT_FORWARDED
        good = reason == 0
        outgoing = encapsulate(packets[good], self._local, self._remote)
        return Handled(reason, (Leaving(good, outgoing, 6),) if good.any() else ())


class _Translated:
    """MAP-T CE."""

    def __init__(self, customer: Customer, way: Translation, links: Links) -> None:
        self._own = _Own(customer)
        self._rule = RuleArray(way.rule, whole_host=True)
        self._port = np.uint64(customer.ports.ranges[0][0])
        self._dmr = Rfc6052Array(way.dmr)
        prefix = way.rule.end_user_prefix(customer.ipv4.network_address, way.psid)
        self._mask = np.uint64(int(prefix.netmask) >> 64)
        self._net = np.uint64(int(prefix.network_address) >> 64)
        self._ipv6_mtu, self._ipv4_mtu = links.left.mtu, links.right.mtu
        self._lowest = way.lowest_ipv6_mtu

    def from_ipv6(self, packets: U8) -> Handled:
        """For the customer if addressed to his end-user prefix and from behind the DMR."""
        high, low = u64(packets[:, 24:32]), u64(packets[:, 32:40])
        ours = (high & self._mask) == self._net
        server, from_relay = self._dmr.to_ipv4(packets[:, 8:24])
        ours &= from_relay
        host, _, consistent = self._rule.decode_address(high, low)
        good = ours & plain_ipv6(packets)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if good.any():
            verdict = self._own.verdict(host[good], u16(packets[good, 42:44]))
            verdict[~consistent[good]] = NOT_THE_CUSTOMERS
            verdict[(verdict == 0) & (packets[good, 7] <= 1)] = EXHAUSTED
            if packets.shape[1] - 20 > self._ipv4_mtu:
                verdict[verdict == 0] = TOO_BIG
            reason[good] = verdict
        chosen = ours & (reason == 0)

        def build(rows: U8) -> U8:
            return six_to_four(rows, server[chosen], octets4(host[chosen]))

        return _answer(packets, ours, reason, build)

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        plain = plain_ipv4(packets)
        if not plain.any():
            return Handled(np.full(len(packets), NOT_FORWARDED, dtype=np.uint8), ())
        ipv4 = u32(packets[:, 12:16])
        reason = self._own.verdict(ipv4, u16(packets[:, 20:22]))
        reason[(reason == 0) & (packets[:, 8] <= 1)] = EXHAUSTED
        octets = packets.shape[1] + 20
        limit = np.where(packets[:, 6] & _DF != 0, self._ipv6_mtu, self._lowest)
        reason[(reason == 0) & (octets > limit)] = TOO_BIG
        reason[~plain] = NOT_FORWARDED
        good = reason == 0
        high, low, _ = self._rule.map_address(ipv4[good], np.full(int(good.sum()), self._port))
        source = np.concatenate([octets8(high), octets8(low)], axis=1)
        server, _ = self._dmr.to_ipv6(packets[good, 16:20])
        outgoing = four_to_six(packets[good], source, server)
        return Handled(reason, (Leaving(good, outgoing, 6),) if good.any() else ())


def _answer(packets: U8, ours: Mask, reason: Reasons, make: Callable[[U8], U8]) -> Handled:
    """The customer's packets as IPv4, the rest routed as IPv6."""
    good = ours & (reason == 0)
    leaving = (Leaving(good, make(packets[good]), 4),) if good.any() else ()
    if ours.all():
        return Handled(reason, leaving)
    native = route(packets, 6, np.where(ours, NOT_FORWARDED, 0).astype(np.uint8))
    return Handled(np.where(ours, reason, native.reason), leaving + native.leaving)
