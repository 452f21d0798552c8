"""NAT44 (NAPT, RFC 3022, RFC 4787) and NAT66: private clients left, public addresses right; stateful."""

from ipaddress import IPv4Address, IPv6Address, IPv6Interface

from v6t.intent.families import Nat44Config, Nat66Config
from v6t.plugins.frame_sizes import IPV4_SIZES, IPV6_SIZES
from v6t.plugins.params import Ipv4Links, Ipv6Links, address, device_address, tester_address
from v6t.plugins.stateful import Napt, Pool4Params, Pool6Params


class Nat44Params(Ipv6Links, Ipv4Links, Pool4Params):
    """Parameters of ``nat44``."""

    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")


class Nat44(Napt):
    """A NAT44: private source addresses and ports are translated to public ones."""

    name = "nat44"
    title = "NAT44: private IPv4 clients behind public IPv4 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 3022", "RFC 4787")
    params_model = Nat44Params
    overhead = 0
    ip_versions = (4, 4)
    default_driver = "nftables"
    mapping = "RFC 4787 requires endpoint-independent mapping"
    rfc_frame_sizes = IPV4_SIZES
    params: Nat44Params

    def make_configuration(self) -> Nat44Config:
        p = self.params
        inside, ports = tuple(p.clients), p.public_pool.port_bounds
        return Nat44Config(inside4=inside, pool4=p.pool, ports=ports, **p.limits)


class Nat66Params(Pool6Params):
    """Parameters of ``nat66``."""

    initiator_ipv6: IPv6Address = address("2001:2::2", "first address of the Initiator")
    dut_left_ipv6: IPv6Interface = device_address("2001:2:0:f000::1/64", "left")
    tester_left_ipv6: IPv6Address = tester_address("2001:2:0:f000::2", "left")


class Nat66(Napt):
    """A NAT66: IPv6 source addresses and ports are translated to public ones."""

    name = "nat66"
    title = "NAT66: IPv6 clients behind public IPv6 addresses and ports, stateful"
    rfcs = ("RFC 9693", "RFC 4787")
    params_model = Nat66Params
    overhead = 0
    ip_versions = (6, 6)
    default_driver = "nftables66"
    mapping = "no RFC; for IPv4, RFC 4787 requires endpoint-independent mapping"
    rfc_frame_sizes = IPV6_SIZES
    params: Nat66Params

    def make_configuration(self) -> Nat66Config:
        p = self.params
        return Nat66Config(inside6=tuple(p.clients), pool6=p.pool, ports=p.public_pool.port_bounds)
