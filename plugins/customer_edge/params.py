"""One customer's device: its public IPv4 address or prefix, its ports, its IPv6 addresses.

The device is measured without NAPT: the hosts behind it use the public address and ports
themselves. That is the stateless part of a CE; NAPT in front of it is a stateful gateway's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.plugins.base import Links
from v6t.plugins.common.addresses import address, device, tester
from v6t.plugins.common.mixture import Mixture, negative_share
from v6t.plugins.common.ports import (
    DestinationPorts,
    Policy,
    SourcePorts,
    destination_range,
    source_range,
)
from v6t.plugins.map.rules import MapRule, PortSet
from v6t.plugins.translation import rfc6052
from v6t.plugins.tunnel.ipip import UNMARKABLE
from v6t.profiles.errors import UsageError
from v6t.profiles.intent import link_side

DROP_REASONS = (
    "forwarded",
    "not addressed to this device",
    "no packet that this device forwards",
    "TTL or hop limit exhausted",
    "an address is not the customer's",
    "port outside the customer's port set",
    "does not come from the relay",
    "too big, or to be fragmented",
    UNMARKABLE,
)


@dataclass(frozen=True)
class Tunnel:
    """IPv4 in IPv6 between two addresses.

    Attributes:
        local, remote: its ends.
        uniform: DSCPs are carried over both ways (RFC 2983 section 3).
    """

    local: IPv6Address
    remote: IPv6Address
    uniform: bool = False


@dataclass(frozen=True)
class Translation:
    """MAP-T: the customer's hosts by a rule, everybody else by the DMR.

    Attributes:
        rule, dmr, psid: of the customer.
        lowest_ipv6_mtu: longest IPv6 packet made of IPv4 without DF [octets].
    """

    rule: MapRule
    dmr: IPv6Network
    psid: int
    lowest_ipv6_mtu: int

    def ipv6(self, host: IPv4Address) -> IPv6Address:
        """IPv6 address of a host of the customer."""
        return self.rule.map_address(host, self.psid, host)

    def peer(self, ipv4: IPv4Address) -> IPv6Address:
        """IPv6 address of everybody else."""
        return rfc6052.embed(self.dmr, ipv4)


@dataclass(frozen=True)
class Customer:
    """What the device gives its customer, and how packets cross the IPv6 network."""

    ipv4: IPv4Network
    ports: PortSet
    way: Tunnel | Translation

    @property
    def host_bits(self) -> int:
        """Bits of the IPv4 address left to the customer's hosts."""
        return 32 - self.ipv4.prefixlen


class CustomerParams(Mixture):
    """What all customers' devices can be told; left is the IPv6 link, right the IPv4 one."""

    former_names: ClassVar[Mapping[str, str]] = {"stray_percent": "negative_percent"}

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::9/64"), description="the device's address on the IPv6 link"
    )
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::1", "left")
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.19.1/30"), description="the device's address on the IPv4 link"
    )
    tester_right_ipv4: IPv4Address = Field(
        IPv4Address("192.168.19.2"),
        description="tester's IPv4 address on the right link; the customer's hosts are behind it",
    )
    dut_right_ipv6: IPv6Interface = device("2001:db8:7::1/64", "right")
    tester_right_ipv6: IPv6Address = tester("2001:db8:7::2", "right")
    fw_sport: SourcePorts = Field(default_factory=source_range, description="forward source ports")
    fw_dport: Policy = Field(
        "random", description="forward destination ports, within the customer's port set (MAP-15)"
    )
    rv_sport: Policy = Field(
        "random", description="reverse source ports, within the customer's port set"
    )
    rv_dport: DestinationPorts = Field(
        default_factory=destination_range, description="reverse destination ports"
    )
    negative_percent: int = negative_share(
        "share of frames the device must drop: they are none of the customer's [%]"
    )

    @property
    def customer(self) -> Customer:
        """The customer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _server(self) -> CustomerParams:
        if self.server_ipv4 in self.customer.ipv4:
            raise UsageError(
                "server_ipv4 is the customer's own address", "choose one beyond the relay"
            )
        return self


def checked_ports(psid_offset: int, psid_len: int, psid: int) -> PortSet:
    """A port set with at least one port a test frame may use.

    Raises:
        UsageError: there is none, or no such PSID.
    """
    if psid_len and psid_offset + psid_len > 16:
        raise UsageError(
            f"psid_offset {psid_offset} plus PSID length {psid_len} is more than the 16 bits of a "
            "port",
            f"set psid_offset to at most {16 - psid_len}",
        )
    if not 0 <= psid < 1 << psid_len:
        raise UsageError(f"PSID {psid} does not fit {psid_len} bits")
    if psid_len == 16 and not psid:
        raise UsageError("PSID 0 of 16 bits has no port but 0", "choose another PSID")
    return PortSet(psid_offset, psid_len, psid)


def customer_sides(
    params: CustomerParams, links: Links, remote: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Left and right link of a customer's device, for a DUT intent.

    Args:
        params: of the device.
        links: both cables.
        remote: IPv6 prefix or address of the relay's side.
    """
    p = params
    left = link_side(
        links.left, [p.dut_left_ipv6], [p.tester_left_ipv6], {remote: p.tester_left_ipv6}
    )
    right = link_side(
        links.right,
        [p.dut_right_ipv4, p.dut_right_ipv6],
        [p.tester_right_ipv4, p.tester_right_ipv6],
        {p.customer.ipv4: p.tester_right_ipv4},
    )
    return left, right
