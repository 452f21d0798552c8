"""A 6rd border relay (RFC 5969): customers' IPv6 in IPv4 on the left, native IPv6 on the right."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV4, IPV6, to_octets, view
from v6t.packets.reference import (
    EXHAUSTED,
    NOT_FORWARDED,
    DropReason,
)
from v6t.plugins.audit_views import TunnelEnd
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import LinkParams, describe_link, negative_share
from v6t.plugins.reference_device import DROP_ALL, Answer
from v6t.plugins.traffic import change_header, combine, foreground, ipv4, ipv6
from v6t.plugins.tunnels import carries_ipv6, decapsulate, encapsulate, select_unmarkable
from v6t.profiles.model import FramePair, Traffic, Variable


class SixrdDrop(DropReason):
    """Why a 6rd border relay drops a frame."""

    SPOOFED = "the IPv6 source is not of the CE that sent it"
    NO_CUSTOMER = "no customer has the IPv6 destination"
    UNMARKABLE = "congestion mark on a packet that is not ECN-capable"


class SixrdParams(LinkParams):
    """Parameters of ``sixrd-br``."""

    prefix: IPv6Network = Field(IPv6Network("2001:db8::/32"), description="the 6rd prefix")
    customers: IPv4Network = Field(
        IPv4Network("10.0.0.0/8"),
        description="the CEs' IPv4 addresses; bits of its prefix are not in delegated prefixes",
    )
    ces: int = Field(
        16, ge=1, le=32, description="CEs vary in so many low bits of their IPv4 address"
    )
    br_ipv4: IPv4Address = Field(
        IPv4Address("192.88.99.129"), description="the relay's IPv4 address for 6rd"
    )
    dut_left_ipv4: IPv4Interface = Field(
        IPv4Interface("198.51.100.1/24"), description="the device's IPv4 address on the left"
    )
    tester_left_ipv4: IPv4Address = Field(
        IPv4Address("198.51.100.2"), description="tester's IPv4 address on the left link"
    )
    server: IPv6Address = Field(
        IPv6Address("2001:2:0:f001::9"), description="the IPv6 host beyond the relay"
    )
    negative_percent: int = negative_share(
        "share of forward frames whose IPv6 source is not the CE's (RFC 5969 section 12) [%]"
    )

    @model_validator(mode="after")
    def _fits(self) -> SixrdParams:
        if self.delegated > 64:
            raise UsageError(
                f"a delegated prefix of {self.delegated} bits leaves a customer no subnet",
                "choose a shorter 6rd prefix, or a longer prefix of the customers' IPv4 addresses",
                code="conflict",
            )
        if self.ces > self.embedded:
            raise UsageError(
                f"{self.ces} varying bits are more than the {self.embedded} embedded ones",
                f"set ces to {self.embedded} or less",
                code="conflict",
            )
        return self

    @property
    def embedded(self) -> int:
        """Bits of the CE's IPv4 address in its delegated prefix (section 4)."""
        return 32 - self.customers.prefixlen

    @property
    def delegated(self) -> int:
        """Length of a delegated prefix."""
        return self.prefix.prefixlen + self.embedded

    def host(self, ce: IPv4Address) -> IPv6Address:
        """Host 1 of the first subnet behind a CE."""
        number = int(ce) & (1 << self.embedded) - 1
        return IPv6Address(int(self.prefix.network_address) | number << 128 - self.delegated | 1)

    def customer_of(self, address: IPv4Address | IPv6Address) -> IPv4Address | None:
        """Return the CE to which an IPv6 address is delegated (section 4)."""
        if not isinstance(address, IPv6Address) or address not in self.prefix:
            return None
        number = int(address) >> 128 - self.delegated & (1 << self.embedded) - 1
        return IPv4Address(int(self.customers.network_address) | number)


class SixrdRelayConfig(DeviceConfig):
    """A border relay of 6rd."""

    family = "6rd-relay"

    prefix: IPv6Network
    """The 6rd prefix."""
    customers: IPv4Network
    """IPv4 addresses of the CEs."""
    br_ipv4: IPv4Address
    """Tunnel address of the relay."""


class SixrdBorderRelay(StatelessTechnology):
    """Takes IPv6 out of IPv4 towards the IPv6 internet, and puts it into IPv4 on the way back."""

    name = "sixrd-br"
    title = "6rd border relay: IPv6 in IPv4 from customers, native IPv6 beyond"
    rfcs = ("RFC 5969", "RFC 4213")
    params_model = SixrdParams
    overhead = -20
    ip_versions: tuple[Literal[4], Literal[6]] = (4, 6)
    sides = ("CEs", "server")
    drops = SixrdDrop
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280)
    params: SixrdParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        ce = IPv4Address(int(p.customers.network_address) | 1)
        number = Variable("ce", p.ces)
        host = number.at(p.delegated - p.ces, str(p.host(ce)))
        order = ("sport", "dport")
        if direction == "reverse":
            header = ipv6(p, p.server, host)
            made = foreground(self, direction, sizes, header, draw_order=order)
            return combine(self, made, [], direction, sizes, seed)
        headers = (
            ipv4(p, number.at(32 - p.ces, str(ce)), p.br_ipv4),
            ipv6(p, host, p.server),
        )
        made = foreground(self, direction, sizes, *headers, draw_order=order)
        # whichever bits of the CE vary, outside the 6rd prefix it is no customer's
        other = IPv6Address(int(p.host(ce)) ^ 1 << 128 - p.prefix.prefixlen)
        spoofed = change_header(made, "spoof", "IPv6", src=str(other))
        return combine(self, made, [spoofed], direction, sizes, seed)

    def dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        return DeviceIntent(
            technology=self.name,
            configuration=SixrdRelayConfig(
                prefix=p.prefix, customers=p.customers, br_ipv4=p.br_ipv4
            ),
            links=links,
            left=describe_link(p, links, "left", [p.customers]),
            right=describe_link(p, links, "right"),
        )

    def audit_views(self) -> tuple[TunnelEnd]:
        p = self.params
        ce = IPv4Address(int(p.customers.network_address) | 1)
        host = p.host(ce), 40123
        return (
            TunnelEnd(
                side="left",
                local=p.br_ipv4,
                remote=ce,
                inner=host,
                outer=host,
                host=(p.server, 443),
                endpoint=p.customer_of,
            ),
        )

    def forward(self, packets: Any) -> Answer:
        """Decapsulate: the embedded IPv4 address must be the outer source (section 12)."""
        if packets.shape[1] < 60:
            return DROP_ALL
        outer, inner = view(packets, IPV4), view(packets, IPV6, 20)
        ours = (outer["dst"] == int(self.params.br_ipv4)) & carries_ipv6(packets)
        rightful = self._customer(inner["src_high"]) == outer["src"]
        drops = [
            (NOT_FORWARDED, ~ours),
            (EXHAUSTED, inner["hlim"] <= 1),
            (SixrdDrop.UNMARKABLE, select_unmarkable(packets, outer_version=4)),
            (SixrdDrop.SPOOFED, ~rightful | ~self._is_delegated(inner["src_octets"])),
        ]
        return Answer(drops, lambda rows: decapsulate(packets[rows], 4), version=6)

    def reverse(self, packets: Any) -> Answer:
        """Encapsulate packets for customers, and route packets for the tester's own address."""
        p, header = self.params, view(packets, IPV6)
        native = (header["dst_octets"] == _octets(p.tester_left_ipv6.packed)).all(axis=1)

        def build(rows: Any) -> Any:
            ces = self._customer(header["dst_high"][rows])
            return encapsulate(packets[rows], _octets(p.br_ipv4.packed), to_octets(ces, 4), 4)

        drops = [
            (SixrdDrop.NO_CUSTOMER, ~self._is_delegated(header["dst_octets"])),
            (NOT_FORWARDED, packets.shape[1] + 20 > self.links.left.mtu),
            (EXHAUSTED, header["hlim"] <= 1),
        ]
        return Answer(drops, build, version=4, native=native)

    def _is_delegated(self, addresses: Any) -> Any:
        """Select rows within the 6rd prefix."""
        mask = _octets(self.params.prefix.netmask.packed)
        return (addresses & mask == _octets(self.params.prefix.network_address.packed)).all(axis=1)

    def _customer(self, high: Any) -> Any:
        """Return the IPv4 addresses of the CEs that have IPv6 addresses (section 4)."""
        p = self.params
        number = high.astype(np.uint64) >> np.uint64(64 - p.delegated)
        number &= np.uint64((1 << p.embedded) - 1)
        return number | np.uint64(int(p.customers.network_address))


def _octets(packed: bytes) -> Any:
    return np.frombuffer(packed, dtype=np.uint8)
