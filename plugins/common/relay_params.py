"""Parameters of a relay with IPv6 customers on the left and an IPv4 server on the right."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from pydantic import Field
from v6t.plugins.common.addresses import address, tester
from v6t.plugins.common.mixture import Mixture, negative_share
from v6t.plugins.common.ports import (
    DestinationPorts,
    Policy,
    SourcePorts,
    destination_range,
    source_range,
)


class RelayParams(Mixture):
    """Addresses of both links, ports on both sides, spoofed frames."""

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
        "random", description="forward source ports, within the customer's port set (MAP-15)"
    )
    fw_dport: DestinationPorts = Field(
        default_factory=destination_range, description="forward destination ports"
    )
    rv_sport: SourcePorts = Field(default_factory=source_range, description="reverse source ports")
    rv_dport: Policy = Field(
        "random", description="reverse destination ports, within the customer's port set"
    )
    negative_percent: int = negative_share(
        "share of forward frames the relay must drop: spoofed ones (MAP-09) [%]"
    )

    @property
    def customers(self) -> list[str]:
        """IPv6 prefixes behind the left link."""
        raise NotImplementedError
