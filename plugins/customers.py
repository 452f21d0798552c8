"""Customers with shared IPv4 addresses: common part of relays and customer devices (MAP-E, MAP-T, lw4o6)."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from v6t.intent.device import LinkIntent
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction
from v6t.plugins import ports
from v6t.plugins.audit_views import SharedAddressRelay, TunnelEnd
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import Mixture, address, device_address, negative_share, tester_address
from v6t.plugins.ports import DestinationPorts, Policy, PortSet, SourcePorts, customer_policy
from v6t.plugins.traffic import combine, derive_negative, make_ethernet, make_ipv4, make_ipv6
from v6t.profiles.model import Expression, FramePair, Layer, Role, Traffic, TrafficClass

ALL_CUSTOMERS = 0  # number of simulated customers that stands for all of them; "all" in settings
CustomerCount = Annotated[int, BeforeValidator(lambda v: ALL_CUSTOMERS if v == "all" else v)]


class RelayParams(Mixture):
    """Parameters of a relay; subclasses add ``customer_prefixes`` and ``left_addresses``."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    tester_left_ipv6: IPv6Address = tester_address("2001:db8:6::2", "left")
    tester_right_ipv6: IPv6Address = tester_address("2001:db8:7::2", "right")
    dut_right_ipv4: IPv4Interface = device_address("203.0.113.1/24", "right")
    dut_right_ipv6: IPv6Interface = device_address("2001:db8:7::1/64", "right")
    fw_sport: Policy = customer_policy("forward source")
    fw_dport: DestinationPorts = Field(DestinationPorts(), description="forward destination ports")
    rv_sport: SourcePorts = Field(SourcePorts(), description="reverse source ports")
    rv_dport: Policy = customer_policy("reverse destination")
    negative_percent: int = negative_share("share of forward frames that are spoofed [%]")

    @property
    def relay_address(self) -> IPv6Address:
        raise NotImplementedError


class TunnelRelayParams(RelayParams):
    """Parameters of a relay whose tunnels end at an address of its link or at a loopback address."""

    br_address: IPv6Address = address("2001:db8:6::1", "where the tunnels end")
    dut_left_ipv6: IPv6Interface | None = Field(
        None, description="address on the left; none: br_address/64 or 2001:db8:6::1/64"
    )

    @property
    def relay_address(self) -> IPv6Address:
        return self.br_address

    @property
    def br_addresses(self) -> list[str]:
        return [str(self.br_address)]

    @property
    def left_addresses(self) -> list[str]:
        link = self.dut_left_ipv6
        if link is None:
            link = IPv6Interface((self.br_address, 64))
            if self.tester_left_ipv6 not in link.network:
                link = IPv6Interface("2001:db8:6::1/64")
        return [str(link), *(f"{end}/128" for end in self.br_addresses if end != str(link.ip))]


@dataclass(frozen=True)
class CustomerFlow:
    """Simulated customers with the same PSID length and offset, and the relay address that they use."""

    ipv6: Any
    ipv4: Expression
    relay: IPv6Address
    ports: PortSet  # of the customer in the template frame
    psid: Expression | None
    variables: Sequence[str]  # names in draw order
    share: int = 1  # of the foreground traffic


class CustomerTechnology(StatelessTechnology):
    """A stateless device between customers and an IPv4 server; IPv6 is on the left."""

    ip_versions = (6, 4)
    customer_direction: ClassVar[Direction]  # of frames from customers to the server
    params: Any

    @abstractmethod
    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        """Return the simulated customers, which are the same in both directions."""

    @abstractmethod
    def make_negative_layers(
        self, flow: CustomerFlow, valid: TrafficClass, direction: Direction
    ) -> dict[str, tuple[Layer, ...]]:
        """Return the layers of each negative class by name: those of ``valid`` with one invalid field."""

    @abstractmethod
    def make_configuration(self) -> DeviceConfig:
        """Return the configuration for the device intent."""

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        flows = self.simulate_customers(direction, seed)
        names = ["fg"] if len(flows) == 1 else [f"fg-{number}" for number in range(len(flows))]
        ends = zip(names, flows, strict=True)
        shares = [(self._make_foreground(*end, direction, sizes), end[1].share) for end in ends]
        valid, negative = shares[0][0], []
        if self.params.negative_percent:
            changed = self.make_negative_layers(flows[0], valid, direction)
            negative = [derive_negative(valid, name, layers=changed[name]) for name in changed]
        return combine(self, shares, negative, direction, sizes, seed)

    def _make_foreground(
        self, name: str, flow: CustomerFlow, direction: Direction, sizes: FramePair
    ) -> TrafficClass:
        p, forward = self.params, direction == "forward"
        ends = (flow.ipv6, flow.ipv4), (flow.relay, p.server_ipv4)
        source, destination = ends if direction == self.customer_direction else ends[::-1]
        headers = [make_ipv6(p, source[0], destination[0]), make_ipv4(p, source[1], destination[1])]
        if not forward:
            headers = headers[1:]
        elif self.overhead == 20:  # translated, not tunnelled
            headers = headers[:1]
        fields: dict[str, Any] = {}
        for end in ("sport", "dport"):
            value = getattr(p, f"fw_{end}" if forward else f"rv_{end}")
            if isinstance(value, ports.HeaderPorts):
                fields[end] = value.build_field(ports.PEER_PORT)
            else:
                fields[end] = ports.build_port(flow.ports, value, end == "sport", flow.psid)
        layers = (*make_ethernet(self.links, direction), *headers, Layer("UDP", fields))
        size, order = sizes.ipv6 if forward else sizes.ipv4, (*flow.variables, ports.CE_PORT)
        return TrafficClass(name, Role.FOREGROUND, layers, size, draw_order=order)


class Relay(CustomerTechnology):
    """A relay whose customers are IPv6 hosts on the left link."""

    customer_direction = "forward"

    def make_dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        routes = dict.fromkeys(p.customer_prefixes, p.tester_left_ipv6)
        right = [p.dut_right_ipv4, p.dut_right_ipv6], [p.server_ipv4, p.tester_right_ipv6]
        near = LinkIntent.describe(links.left, p.left_addresses, [p.tester_left_ipv6], routes)
        far = LinkIntent.describe(links.right, *right)
        return DeviceIntent(self.name, self.make_configuration(), links, near, far)


def make_tunnel_view(relay: SharedAddressRelay, *, copies_dscp: bool) -> TunnelEnd:
    """Return the audit view of the tunnel of a relay's first customer."""
    customer, host = relay.customer, (relay.server, 5)
    place, shared = (customer.ipv4, customer.port), customer.ports.psid_len > 0
    return TunnelEnd("left", relay.relay, customer.ipv6, place, place, host, copies_dscp, shared)
