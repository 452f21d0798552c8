"""Stateful NAT46: IPv4 clients on the left, IPv6 servers with mapped addresses (RFC 7757) on the right."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import Nat66Config, SiitConfig
from v6t.packets.arrays import U8
from v6t.packets.direction import Direction
from v6t.plugins import base
from v6t.plugins.base import DeviceIntent, EmbeddedIpv4, Links, Part
from v6t.plugins.frame_sizes import IPV6_SIZES, LOWEST_IPV6_MTU, check_unfragmented
from v6t.plugins.params import address, describe_link, device_address, tester_address
from v6t.plugins.stateful import Endpoints, Pool6Params, StatefulTechnology, translate_version
from v6t.plugins.translation import Mapping, Mappings, MappingsArray, embed_network, parse_prefix96
from v6t.profiles.model import FramePair

_TRANSLATOR, _NAT = "2001:2:0:f002::1", "2001:2:0:f002::2"  # on the link between both parts


class Nat46Params(Pool6Params):
    """Parameters of ``nat46``."""

    display_name: ClassVar[str] = "NAT46"

    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")
    responder_ipv4: IPv4Address = address("198.19.0.2", "the Responder's address for clients")
    clients_prefix: str = Field("2001:db8:46::/96", description="/96 of the clients in the device")
    dut_left_ipv4: IPv4Interface = device_address("192.168.18.1/30", "left")
    tester_left_ipv4: IPv4Address = tester_address("192.168.18.2", "left")

    @property
    def responder(self) -> IPv6Address:
        return self.responder_ipv6

    @property
    def server(self) -> IPv4Address:
        return self.responder_ipv4

    @property
    def prefix(self) -> IPv6Network:
        return parse_prefix96(self.clients_prefix, "clients_prefix")

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        last = self.initiator_ipv4 + (self.initiator_count - 1)
        return {"clients_prefix": (self.prefix, (self.initiator_ipv4, last))}

    @property
    def mapping(self) -> Mapping:
        (six,) = self.servers
        return Mapping(IPv4Network((self.responder_ipv4, six.prefixlen - 96), strict=False), six)

    @model_validator(mode="after")
    def _check_mapping(self) -> Nat46Params:
        _, mapping = self.prefix, self.mapping  # raise errors
        if mapping.to_ipv6(self.responder_ipv4) != self.responder_ipv6:
            bits, v4, v6 = 32 - mapping.ipv4.prefixlen, self.responder_ipv4, self.responder_ipv6
            problem = f"responder_ipv4 {v4} and responder_ipv6 {v6} differ in the last {bits} bits"
            raise UsageError(problem, "choose equal last bits", code="not-enough-addresses")
        return self


class Nat46(StatefulTechnology):
    """A NAT46: IPv4 clients are translated to public IPv6 addresses and ports."""

    name = "nat46"
    title = "NAT46: IPv4 clients of IPv6 servers behind public IPv6 addresses, stateful"
    rfcs = ("RFC 9693", "RFC 8219 section 4.2", "RFC 7915", "RFC 7757")
    params_model = Nat46Params
    overhead = 20
    ip_versions = (4, 6)
    default_driver = base.CHAIN_DRIVER
    mapping = "no RFC; for IPv4, RFC 4787 requires endpoint-independent mapping"
    rfc_frame_sizes = IPV6_SIZES
    params: Nat46Params

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        if direction == "forward":
            check_unfragmented(self.params.df, sizes.ipv6, self.links.right, LOWEST_IPV6_MTU)

    def rewrite(self, packets: U8, endpoint: Endpoints, *, source: bool) -> U8:
        servers = MappingsArray(Mappings((self.params.mapping,)))
        return translate_version(packets, servers, endpoint, source=source)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        p, links = self.params, self.links
        near, far = base.describe_inner_link(*base.INNER_MACS, links.right.mtu)
        clients = [embed_network(p.prefix, net) for net in p.clients]
        eam: Any = {"eam": ((p.mapping.ipv4, p.mapping.ipv6),), "lowest_ipv6_mtu": LOWEST_IPV6_MTU}
        siit = SiitConfig(prefix=p.prefix, ipv6_side="right", **eam)
        nat = Nat66Config(inside6=tuple(clients), pool6=p.pool, ports=p.public_pool.port_bounds)
        left = describe_link(p, links, "left", p.clients)
        right = describe_link(p, links, "right", p.servers)
        to_nat, to_clients = {p.mapping.ipv6: _NAT}, dict.fromkeys(clients, _TRANSLATOR)
        before = LinkIntent.describe(near, [f"{_TRANSLATOR}/64"], [_NAT], to_nat)
        behind = LinkIntent.describe(far, [f"{_NAT}/64"], [_TRANSLATOR], to_clients)
        first = DeviceIntent("siit", siit, Links(links.left, near), left, before)
        second = DeviceIntent("nat66", nat, Links(far, links.right), behind, right)
        translator = Part("siit", self.name, first, "tayga", base.TAYGA_OPTIONS, to_ipv4="reverse")
        return translator, Part("nat66", self.name, second, "nftables66", stateful=True)

    def make_dut_intent(self) -> DeviceIntent:
        return base.build_chain_intent(self.name, self.parts, self.links)
