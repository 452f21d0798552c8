"""What a correct CE or lwB4 emits, its NAPT left out.

Forward, packets of the relay for the customer's address and ports come out as IPv4; reverse, the
hosts' packets go to the relay. Other IPv6 is routed. Only UDP is carried: the tester sends nothing
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED
from v6t.plugins.base import Links
from v6t.plugins.common.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.customer_edge.customer import Customer, CustomerDrop, Translation, Tunnel
from v6t.plugins.map_rules import RuleArray
from v6t.plugins.translation import Rfc6052Array, four_to_six, plain_ipv4, plain_ipv6, six_to_four
from v6t.plugins.tunnel.ipip import carries_udp, decapsulate, encapsulate, is_udp, unmarkable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask, Reasons


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
        psid, owned = self._ports.find_psids(port)
        return choose_reasons(
            len(ipv4),
            (CustomerDrop.WRONG_ADDRESS, (ipv4 & self._mask) != self._net),
            (CustomerDrop.BAD_PORT, ~owned | (psid != self._ports.psid)),
        )


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
        outer = view(packets, IPV6)
        ours: Mask = (outer["dst_octets"] == self._local).all(axis=1)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 68:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            foreign = self._own.verdict(
                inner["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
            )
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (CustomerDrop.WRONG_RELAY, (outer["src_octets"] != self._remote).any(axis=1)),
                (foreign, foreign != 0),
                (EXHAUSTED, inner["ttl"] <= 1),
                (CustomerDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(
            packets, ours, reason, lambda rows: decapsulate(packets[rows], uniform=self._uniform)
        )

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        if packets.shape[1] < 28:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        foreign = self._own.verdict(header["src"].astype(np.uint64), udp["sport"].astype(np.uint64))
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (foreign, foreign != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (CustomerDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )
        return answer(reason, lambda rows: encapsulate(packets[rows], self._local, self._remote), 6)


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
        header = view(packets, IPV6)
        high, low = header["dst_high"].astype(np.uint64), header["dst_low"].astype(np.uint64)
        server, from_relay = self._dmr.to_ipv4(header["src_octets"])
        ours = ((high & self._mask) == self._net) & from_relay
        host, _, consistent = self._rule.decode_address(high, low)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 48:
            foreign = self._own.verdict(host, view(packets, UDP, 40)["dport"].astype(np.uint64))
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (CustomerDrop.WRONG_ADDRESS, ~consistent),
                (foreign, foreign != 0),
                (EXHAUSTED, header["hlim"] <= 1),
                (CustomerDrop.TOO_BIG, packets.shape[1] - 20 > self._ipv4_mtu),
            )

        def build(rows: Mask) -> U8:
            return six_to_four(packets[rows], server[rows], to_octets(host[rows], 4))

        return answer_or_route(packets, ours, reason, build)

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        plain = plain_ipv4(packets)
        if not plain.any():
            return dropped(len(packets), NOT_FORWARDED)
        header = view(packets, IPV4)
        ipv4 = header["src"].astype(np.uint64)
        foreign = self._own.verdict(ipv4, view(packets, UDP, 20)["sport"].astype(np.uint64))
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        limit = np.where(df, self._ipv6_mtu, self._lowest)
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~plain),
            (foreign, foreign != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (CustomerDrop.TOO_BIG, packets.shape[1] + 20 > limit),
        )

        def build(rows: Mask) -> U8:
            high, low, _ = self._rule.map_address(ipv4[rows], np.full(int(rows.sum()), self._port))
            source = np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1)
            server, _ = self._dmr.to_ipv6(packets[rows, 16:20])
            return four_to_six(packets[rows], source, server)

        return answer(reason, build, 6)
