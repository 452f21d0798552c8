"""Parameters of devices with public IPv6 addresses: NAT66 and NAT46."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface, IPv6Network

from pydantic import Field, model_validator
from v6t.plugins.stateful.params import LOWEST_PORT, ConnectionParams, Ports
from v6t.profiles.errors import UsageError

LOW_BITS = 32
"""Addresses differ within so many bits: an enumerated field is no wider."""


class Pool6Params(ConnectionParams):
    """Public IPv6 addresses on the right, and the Responder there."""

    pool_first: IPv6Address = Field(
        IPv6Address("2001:2:0:2::1"), description="first public address of the device"
    )
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=65535), description="public ports of each address"
    )
    responder_ipv6: IPv6Address = Field(
        IPv6Address("2001:2:0:1::2"), description="first address of the Responder"
    )
    dut_right_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:2:0:f001::1/64"), description="the device's IPv6 address on the right"
    )
    tester_right_ipv6: IPv6Address = Field(
        IPv6Address("2001:2:0:f001::2"), description="tester's IPv6 address on the right link"
    )

    @model_validator(mode="after")
    def _pool(self) -> Pool6Params:
        if self.n != self.m:
            raise UsageError(
                "there is no background beside a device whose right side is IPv6: it could not be "
                "told from the foreground (MIX-03)",
                "set n = m",
            )
        span(self.responder_ipv6, self.responder_count, "responder_ipv6")
        first, last = self.responder_ipv6, self.responder_ipv6 + (self.responder_count - 1)
        if self.pool_first <= last and first <= self.pool_first + (self.pool_count - 1):
            raise UsageError(
                "the Responder's addresses are public addresses of the device",
                "choose a pool_first or a responder_ipv6 beside them",
            )
        room = self.pool_count * self.pool_ports.count * self.responder_count
        room *= self.responder_ports.count
        if self.combinations > room and self.enumerate_ports:
            raise UsageError(
                f"{self.combinations} connections do not fit {self.pool_count} public addresses "
                f"with {self.pool_ports.count} ports towards {self.responder_ports.count} ports of "
                f"{self.responder_count} addresses",
                "raise pool_count, or shorten initiator_ports or initiator_count",
            )
        return self

    @property
    def pool(self) -> list[IPv6Address]:
        """All public addresses."""
        return [self.pool_first + i for i in range(self.pool_count)]


def span(first: IPv6Address, count: int, name: str) -> IPv6Network:
    """The smallest network that holds so many addresses from the first on.

    Raises:
        UsageError: they differ in more than their last 32 bits.
    """
    bits = (int(first) ^ (int(first) + count - 1)).bit_length()
    if bits > LOW_BITS:
        raise UsageError(
            f"{count} addresses from {name} {first} on do not lie within a /{128 - LOW_BITS}",
            "choose a first address with a smaller end",
        )
    return IPv6Network((int(first) >> bits << bits, 128 - bits))
