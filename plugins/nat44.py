"""NAT44 (NAPT, RFC 3022, RFC 4787): private IPv4 clients left, public IPv4 right; stateful."""

from __future__ import annotations

from ipaddress import IPv4Address

from v6t.intent.families import Nat44Config
from v6t.plugins.frame_sizes import IPV4_SIZES
from v6t.plugins.params import Ipv4Links, Ipv6Links, address
from v6t.plugins.stateful import Napt, Pool4Params


class Nat44Params(Ipv6Links, Ipv4Links, Pool4Params):
    """Parameters of ``nat44``."""

    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")


class Nat44(Napt):
    """A translator of private source addresses and ports to public ones."""

    name = "nat44"
    title = "NAT44: private IPv4 clients behind public IPv4 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 3022", "RFC 4787")
    params_model = Nat44Params
    overhead = 0
    ip_versions = (4, 4)
    default_driver = "nftables"
    mapping = "RFC 4787 asks for endpoint-independent mapping; Linux maps by destination, too"
    rfc_frame_sizes = IPV4_SIZES
    params: Nat44Params

    def configuration(self) -> Nat44Config:
        p = self.params
        inside, ports = tuple(p.clients), p.public_pool.span
        return Nat44Config(inside4=inside, pool4=p.pool, ports=ports, **p.limits)
