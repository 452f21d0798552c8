"""Parameters of a relay with IPv6 customers on the left and an IPv4 server on the right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, ClassVar

from pydantic import Field
from v6t.plugins.base import Links
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

    former_names: ClassVar[Mapping[str, str]] = {"spoof_percent": "negative_percent"}

    server_ipv4: IPv4Address = Field(
        IPv4Address("203.0.113.56"), description="the IPv4 host beyond the relay"
    )
    tester_left_ipv6: IPv6Address = Field(
        IPv6Address("2001:db8:6::2"), description="tester's IPv6 address on the left link"
    )
    tester_right_ipv6: IPv6Address = Field(
        IPv6Address("2001:db8:7::2"), description="tester's IPv6 address on the right link"
    )
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


def relay_sides(
    params: RelayParams, links: Links, left_address: str, customers: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Left and right link of a relay: addresses, static neighbours, routes to the customers.

    Args:
        params: of the relay.
        links: both cables.
        left_address: the relay's address with prefix length on the left link.
        customers: IPv6 prefixes behind the left link.
    """
    left_ipv6 = str(params.tester_left_ipv6)
    left = {
        "addresses": [left_address],
        "neighbours": {left_ipv6: links.left.tester_mac},
        "routes": dict.fromkeys(customers, left_ipv6),
    }
    right = {
        "addresses": [str(params.dut_right_ipv4), str(params.dut_right_ipv6)],
        "neighbours": {
            str(params.server_ipv4): links.right.tester_mac,
            str(params.tester_right_ipv6): links.right.tester_mac,
        },
        "routes": {},
    }
    return left, right
