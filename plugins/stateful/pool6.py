"""Parameters of devices with public IPv6 addresses: NAT66 and NAT46."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Interface, IPv6Network
from typing import ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent, Links
from v6t.plugins.params import address, device, tester
from v6t.plugins.stateful.four_tuples import last_address
from v6t.plugins.stateful.params import LOWEST_PORT, ConnectionParams, Ports, PublicPool


class Pool6Params(ConnectionParams):
    """Public IPv6 addresses on the right, and the Responder there."""

    ranges: ClassVar[Mapping[str, str]] = {
        "pool_first": "pool_count",
        "responder_ipv6": "responder_count",
    }

    pool_first: IPv6Address = address("2001:2:0:2::1", "first public address of the device")
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=65535), description="public ports of each address"
    )
    responder_ipv6: IPv6Address = address("2001:2:0:1::2", "first address of the Responder")
    dut_right_ipv6: IPv6Interface = device("2001:2:0:f001::1/64", "right")
    tester_right_ipv6: IPv6Address = tester("2001:2:0:f001::2", "right")

    @model_validator(mode="after")
    def _pool(self) -> Pool6Params:
        if self.n != self.m:
            raise UsageError(
                "background cannot be distinguished from the foreground if the right side is IPv6",
                "set n = m",
                code="no-background",
            )
        self.check_room("pool_first", "responder_ipv6", "pool_count")
        return self

    @property
    def public(self) -> PublicPool:
        return PublicPool(self.pool_first, self.pool_count, self.pool_ports)

    @property
    def pool(self) -> tuple[IPv6Address, ...]:
        """All public addresses."""
        return tuple(self.pool_first + i for i in range(self.pool_count))

    @property
    def responder(self) -> IPv6Address:
        return self.responder_ipv6

    def right_side(self, links: Links) -> LinkIntent:
        """The right link of an intent: addresses, neighbours, the way to the Responder."""
        servers = span(self.responder_ipv6, self.responder_count, "responder_ipv6")
        testers = [self.tester_right_ipv6]
        return LinkIntent.describe(
            links.right, [self.dut_right_ipv6], testers, dict.fromkeys([servers], testers[0])
        )


def span(first: IPv6Address, count: int, name: str) -> IPv6Network:
    """The smallest network that holds so many addresses from the first on.

    Raises:
        UsageError: they differ in more than their last 32 bits.
    """
    bits = (int(first) ^ int(last_address(name, first, count))).bit_length()
    return IPv6Network((int(first) >> bits << bits, 128 - bits))
