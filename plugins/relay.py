"""Relays between IPv6 customers on the left and an IPv4 server on the right: MAP-E, MAP-T, lw4o6."""

from __future__ import annotations

from abc import abstractmethod
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from pydantic import Field
from v6t.intent.device import LinkIntent
from v6t.intent.families import DeviceConfig
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import Mixture, address, negative_share, tester
from v6t.plugins.ports import DestinationPorts, Policy, SourcePorts, destination_range, source_range


class RelayParams(Mixture):
    """Parameters of a relay: addresses of both links, ports, and the share of spoofed frames."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::2", "left")
    tester_right_ipv6: IPv6Address = tester("2001:db8:7::2", "right")
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("203.0.113.1/24"), description="the relay's IPv4 address on the right link"
    )
    dut_right_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:7::1/64"), description="the relay's IPv6 address on the right link"
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


LINK = IPv6Interface("2001:db8:6::1/64")
"""The relay's address on the left link, where neither it nor the tunnels' end is given."""


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
        """The relay's addresses with their prefix lengths: the link's, then the ends of tunnels."""
        link = self.link_address
        ends = [f"{end}/128" for end in self.br_addresses if end != str(link.ip)]
        return [str(link), *ends]


class Relay(StatelessTechnology):
    """A stateless relay whose customers are IPv6 hosts on the left link."""

    ip_versions = (6, 4)
    params: RelayParams

    @abstractmethod
    def configuration(self) -> DeviceConfig:
        """Return the rules or the table of the relay."""

    @abstractmethod
    def left_addresses(self) -> list[str]:
        """Return the relay's addresses with prefix lengths on the left link."""

    def dut_intent(self) -> DeviceIntent:
        """Describe the configuration, and both links with the routes to the customers."""
        p, links = self.params, self.links
        return DeviceIntent(
            technology=self.name,
            configuration=self.configuration(),
            links=links,
            left=LinkIntent.describe(
                links.left,
                self.left_addresses(),
                [p.tester_left_ipv6],
                dict.fromkeys(p.customers, p.tester_left_ipv6),
            ),
            right=LinkIntent.describe(
                links.right,
                [p.dut_right_ipv4, p.dut_right_ipv6],
                [p.server_ipv4, p.tester_right_ipv6],
            ),
        )
