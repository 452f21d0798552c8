"""Traffic of a customer's device: a server beyond the relay on the left, hosts on the right."""

from __future__ import annotations

from ipaddress import IPv4Address

from v6t.packets.address_layouts import HOST, IPV4
from v6t.packets.bit_layout import BitCopy, BitLayout, variable_layout
from v6t.packets.direction import Direction
from v6t.plugins.base import Links
from v6t.plugins.common.mixture import (
    background_of,
    ethernet,
    ipv4,
    ipv6,
    mixed,
    negative_like,
    replaced,
)
from v6t.plugins.common.ports import (
    Policy,
    Varying,
    choose_ce_port,
    vary_ce_port,
    vary_peer_port,
)
from v6t.plugins.customer_edge.customer import Customer, Translation
from v6t.plugins.customer_edge.params import CustomerParams
from v6t.profiles.model import (
    FramePair,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
    bind_layout,
)

_ADDRESS = variable_layout(IPV4, 32)


def customer_traffic(
    params: CustomerParams, links: Links, direction: Direction, sizes: FramePair, seed: int
) -> Traffic:
    """All classes of one direction, with those that are none of the customer's."""
    make = _forward if direction == "forward" else _reverse
    foreground = make(params, links, sizes)
    ends = (params.tester_left_ipv6, params.tester_right_ipv6)
    behind = background_of(params, links, direction, sizes, ends, links.left)
    strays = _strays(params.customer, foreground, direction) if params.negative_percent else []
    return mixed(
        params, direction, [(foreground, 1)], behind, strays, params.negative_percent, seed
    )


def _forward(params: CustomerParams, links: Links, sizes: FramePair) -> TrafficClass:
    customer = params.customer
    host = customer.ipv4.network_address
    headers: tuple[Layer, ...]
    if isinstance(customer.way, Translation):
        way = customer.way
        headers = (ipv6(params, way.peer(params.server_ipv4), way.ipv6(host)),)
        variables, bindings = _vary_host(customer, "IPv6.dst", way.rule.host_address_layout)
    else:
        headers = (
            ipv6(params, customer.way.remote, customer.way.local),
            ipv4(params, params.server_ipv4, host),
        )
        variables, bindings = _vary_host(customer, "IP.dst")
    own, more = _own_port(customer, params.fw_dport, "UDP.dport")
    peer, peers = vary_peer_port(params.fw_sport, "UDP.sport")
    ports = {"sport": params.fw_sport.min, "dport": choose_ce_port(customer.ports, source=False)}
    return TrafficClass(
        "fg",
        Role.FOREGROUND,
        (*ethernet(links, "forward"), *headers, Layer("UDP", ports)),
        sizes.ipv6,
        (*variables, *own, *peer),
        (*bindings, *more, *peers),
    )


def _reverse(params: CustomerParams, links: Links, sizes: FramePair) -> TrafficClass:
    customer = params.customer
    variables, bindings = _vary_host(customer, "IP.src")
    own, more = _own_port(customer, params.rv_sport, "UDP.sport")
    peer, peers = vary_peer_port(params.rv_dport, "UDP.dport")
    ports = {"sport": choose_ce_port(customer.ports, source=True), "dport": params.rv_dport.min}
    header = ipv4(params, customer.ipv4.network_address, params.server_ipv4)
    return TrafficClass(
        "fg",
        Role.FOREGROUND,
        (*ethernet(links, "reverse"), header, Layer("UDP", ports)),
        sizes.ipv4,
        (*variables, *own, *peer),
        (*bindings, *more, *peers),
    )


def _own_port(customer: Customer, policy: Policy, field: str) -> Varying:
    return vary_ce_port(customer.ports, policy, field, psid=customer.ports.psid)


def _vary_host(customer: Customer, field: str, address: BitLayout = _ADDRESS) -> Varying:
    """Vary the hosts of a customer with an IPv4 prefix.

    Args:
        customer: the customer.
        field: of the address.
        address: how the field holds the host's IPv4 address.
    """
    bits = customer.host_bits
    if not bits:
        return [], []
    host = BitLayout(32, {HOST: bits}, (BitCopy(HOST, 32 - bits, bits),))
    return [Variable(HOST, bits)], bind_layout(address.compose(ipv4=host), field)


def _strays(customer: Customer, good: TrafficClass, direction: Direction) -> list[TrafficClass]:
    """Frames like the foreground's for a neighbour: of another port set, of another address."""
    forward = direction == "forward"
    strays = []
    if customer.ports.psid_len:
        name = "dport" if forward else "sport"
        udp = next(layer for layer in good.layers if layer.name == "UDP")
        port = int(str(udp.fields[name])) ^ 1 << customer.ports.low_bits
        strays.append(
            negative_like(good, "stray-port", layers=replaced(good, "UDP", **{name: port}))
        )
    if any(layer.name == "IP" for layer in good.layers):
        other = IPv4Address(int(customer.ipv4.network_address) ^ 1 << customer.host_bits)
        fields = {"dst" if forward else "src": str(other)}
        strays.append(negative_like(good, "stray-address", layers=replaced(good, "IP", **fields)))
    return strays
