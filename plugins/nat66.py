"""Stateful NAT66: IPv6 clients left, public IPv6 addresses and ports right."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface

from v6t.intent.families import Nat66Config
from v6t.plugins.frame_sizes import IPV6_SIZES
from v6t.plugins.params import address, device, tester
from v6t.plugins.stateful import Napt, Pool6Params


class Nat66Params(Pool6Params):
    """Parameters of ``nat66``."""

    initiator_ipv6: IPv6Address = address("2001:2::2", "first address of the Initiator")
    dut_left_ipv6: IPv6Interface = device("2001:2:0:f000::1/64", "left")
    tester_left_ipv6: IPv6Address = tester("2001:2:0:f000::2", "left")


class Nat66(Napt):
    """A translator of IPv6 source addresses and ports to public ones."""

    name = "nat66"
    title = "NAT66: IPv6 clients behind public IPv6 addresses and ports, stateful"
    rfcs = ("RFC 9693", "RFC 4787")
    params_model = Nat66Params
    overhead = 0
    ip_versions = (6, 6)
    default_driver = "nftables66"
    mapping = "no RFC; RFC 4787 asks NATs for endpoint-independent mapping, Linux maps by both ends"
    rfc_frame_sizes = IPV6_SIZES
    params: Nat66Params

    def configuration(self) -> Nat66Config:
        p = self.params
        return Nat66Config(inside6=tuple(p.clients), pool6=p.pool, ports=p.public_pool.span)
