"""Relays between IPv6 customers on the left and an IPv4 server on the right: MAP-E, MAP-T, lw4o6."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from pydantic import Field
from v6t.intent.device import LinkIntent
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction
from v6t.plugins.audit_views import SharedAddressRelay, TunnelEnd
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import Mixture, address, negative_share, tester
from v6t.plugins.ports import (
    DestinationPorts,
    Policy,
    PortSet,
    SourcePorts,
    customer_port,
    destination_range,
    source_range,
)
from v6t.plugins.traffic import background_of, customer_class, ethernet, ipv4, ipv6, mixed
from v6t.profiles.model import Expression, FramePair, Layer, Traffic, TrafficClass


class RelayParams(Mixture):
    """Parameters of a relay: addresses of both links, ports, and the share of spoofed frames."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::2", "left")
    tester_right_ipv6: IPv6Address = tester("2001:db8:7::2", "right")
    dut_right_ipv4: IPv4Interface = address(
        "203.0.113.1/24", "the relay's IPv4 address on the right link"
    )
    dut_right_ipv6: IPv6Interface = address(
        "2001:db8:7::1/64", "the relay's IPv6 address on the right link"
    )
    fw_sport: Policy = Field(
        "random", description="forward source ports, within the customer's port set"
    )
    fw_dport: DestinationPorts = Field(
        default_factory=destination_range, description="forward destination ports"
    )
    rv_sport: SourcePorts = Field(default_factory=source_range, description="reverse source ports")
    rv_dport: Policy = Field(
        "random", description="reverse destination ports, within the customer's port set"
    )
    negative_percent: int = negative_share(
        "share of forward frames the relay must drop: spoofed ones [%]"
    )

    @property
    def customers(self) -> list[str]:
        """IPv6 prefixes behind the left link."""
        raise NotImplementedError

    @property
    def left_addresses(self) -> list[str]:
        """The relay's addresses with their prefix lengths on the left link."""
        raise NotImplementedError


LINK = IPv6Interface("2001:db8:6::1/64")
"""Default address of the relay on the left link."""


class TunnelRelayParams(RelayParams):
    """Parameters of a relay whose tunnels end at an address of its link or at a loopback address."""

    br_address: IPv6Address = address("2001:db8:6::1", "where the tunnels end")
    dut_left_ipv6: IPv6Interface | None = Field(
        None,
        description="the relay's IPv6 address on the left link; none: br_address/64 if tester_left_ipv6 is "
        "within, else 2001:db8:6::1/64",
    )

    @property
    def link_address(self) -> IPv6Interface:
        """The relay's address on the left link."""
        if self.dut_left_ipv6 is not None:
            return self.dut_left_ipv6
        tunnel = IPv6Interface((self.br_address, 64))
        return tunnel if self.tester_left_ipv6 in tunnel.network else LINK

    @property
    def br_addresses(self) -> list[str]:
        """Addresses at which tunnels end, the parameter's first."""
        return [str(self.br_address)]

    @property
    def left_addresses(self) -> list[str]:
        link = self.link_address
        ends = [f"{end}/128" for end in self.br_addresses if end != str(link.ip)]
        return [str(link), *ends]


@dataclass(frozen=True)
class CustomerFlow:
    """Simulated customers with one port sharing.

    Attributes:
        ipv6: their addresses as sources of forward frames.
        ipv4: their IPv4 addresses.
        relay: where their frames go.
        ports: port set of the template's customer.
        psid: their PSIDs; None if they have none, or the same.
        variables: names of what varies from customer to customer, in the order in which it is drawn.
        share: of the foreground.
    """

    ipv6: Expression
    ipv4: Expression
    relay: IPv6Address
    ports: PortSet
    psid: Expression | None
    variables: Sequence[str]
    share: int = 1


class Relay(StatelessTechnology):
    """A stateless relay whose customers are IPv6 hosts on the left link."""

    ip_versions = (6, 4)
    params: RelayParams

    @abstractmethod
    def customer_flows(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        """Return the simulated customers; both directions have the same ones."""

    @abstractmethod
    def spoofed_classes(self, flow: CustomerFlow, good: TrafficClass) -> list[TrafficClass]:
        """Return classes like one of the foreground, with a source that the relay must notice."""

    @abstractmethod
    def configuration(self) -> DeviceConfig:
        """Return the rules or the table of the relay."""

    def customer_headers(self, flow: CustomerFlow) -> tuple[Layer, ...]:
        """Return the IP headers of what customers send."""
        p = self.params
        return ipv6(p, flow.ipv6, flow.relay), ipv4(p, flow.ipv4, p.server_ipv4)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p, links, forward = self.params, self.links, direction == "forward"
        flows = self.customer_flows(direction, seed)
        policy, peer = (p.fw_sport, p.fw_dport) if forward else (p.rv_dport, p.rv_sport)
        foreground = [
            customer_class(
                "fg" if len(flows) == 1 else f"fg-{number}",
                ethernet(links, direction),
                self.customer_headers(flow) if forward else (ipv4(p, p.server_ipv4, flow.ipv4),),
                (customer_port(flow.ports, policy, source=forward, psid=flow.psid), peer),
                sizes.ipv6 if forward else sizes.ipv4,
                flow.variables,
                from_customer=forward,
            )
            for number, flow in enumerate(flows)
        ]
        ends = (p.tester_left_ipv6, p.tester_right_ipv6)
        spoofed = []
        if forward and p.negative_percent:
            spoofed = self.spoofed_classes(flows[0], foreground[0])
        return mixed(
            p,
            direction,
            [(each, flow.share) for each, flow in zip(foreground, flows, strict=True)],
            background_of(p, links, direction, sizes, ends, links.left),
            spoofed,
            p.negative_percent,
            seed,
        )

    def dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        return DeviceIntent(
            technology=self.name,
            configuration=self.configuration(),
            links=links,
            left=LinkIntent.describe(
                links.left,
                p.left_addresses,
                [p.tester_left_ipv6],
                dict.fromkeys(p.customers, p.tester_left_ipv6),
            ),
            right=LinkIntent.describe(
                links.right,
                [p.dut_right_ipv4, p.dut_right_ipv6],
                [p.server_ipv4, p.tester_right_ipv6],
            ),
        )


def customer_tunnel(relay: SharedAddressRelay) -> TunnelEnd:
    """Return the audit view of the tunnel of a relay's first customer."""
    customer = relay.customer
    place = customer.ipv4, customer.port
    return TunnelEnd(
        side="left",
        local=relay.relay,
        remote=customer.ipv6,
        inner=place,
        outer=place,
        host=(relay.server, 5),
        shared=customer.ports.psid_len > 0,
    )
