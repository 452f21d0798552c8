"""A 6rd border relay (RFC 5969): customers' IPv6 in IPv4 on the left, native IPv6 on the right."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction
from v6t.packets.reference import (
    EXHAUSTED,
    FORWARDED,
    NOT_FORWARDED,
    DropReason,
    list_drop_reasons,
)
from v6t.plugins.audit_views import TunnelEnd
from v6t.plugins.base import DeviceIntent, Expected, Links, Technology
from v6t.plugins.frame_sizes import translated_pair
from v6t.plugins.params import LinkParams, negative_share
from v6t.plugins.reference_device import Handled, Leaving, ReferenceDevice, route
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.plugins.tunnels import carries_ipv6, decapsulate_ipv6, encapsulate_ipv6, unmarkable
from v6t.profiles.model import Binding, FramePair, Role, Traffic, TrafficClass, Variable


class SixrdDrop(DropReason):
    """Why a 6rd border relay drops a frame."""

    SPOOFED = "the IPv6 source is not of the CE that sent it"
    NO_CUSTOMER = "no customer has the IPv6 destination"
    UNMARKABLE = "congestion mark on a packet that is not ECN-capable"


class SixrdParams(LinkParams):
    """Everything ``sixrd-br`` can be told."""

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


class SixrdBorderRelay(Technology):
    """Takes IPv6 out of IPv4 towards the IPv6 internet, and puts it into IPv4 on the way back."""

    name = "sixrd-br"
    title = "6rd border relay: IPv6 in IPv4 from customers, native IPv6 beyond"
    rfcs = ("RFC 5969", "RFC 4213")
    params_model = SixrdParams
    overhead = -20
    ip_versions: tuple[Literal[4], Literal[6]] = (4, 6)
    sides = ("CEs", "server")
    drop_reasons = list_drop_reasons(SixrdDrop)
    default_frame_sizes = (84,)
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280)
    params: SixrdParams

    def __init__(self, params: SixrdParams | None = None, links: Links | None = None) -> None:
        super().__init__(params or SixrdParams(), links)

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        return translated_pair(
            ipv6_frame_size, self.overhead, self.links.right, self.links.left, self.name
        )

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        forward = direction == "forward"
        ce = IPv4Address(int(p.customers.network_address) | 1)
        udp, variables, bindings = p.udp(direction)
        variables.append(Variable("ce", p.ces))
        first = p.delegated - p.ces
        inner = "IPv6.src" if forward else "IPv6.dst"
        bindings.append(Binding("ce", inner, first, p.delegated - 1))
        layers = ethernet(self.links, direction)
        if forward:
            bindings.append(Binding("ce", "IP.src", 32 - p.ces, 31))
            layers += [ipv4(p, ce, p.br_ipv4), ipv6(p, p.host(ce), p.server)]
        else:
            layers += [ipv6(p, p.server, p.host(ce))]
        made = TrafficClass(
            "fg",
            Role.FOREGROUND,
            (*layers, udp),
            sizes.ipv4 if forward else sizes.ipv6,
            tuple(variables),
            tuple(bindings),
        )
        negative = []
        if forward:
            # whichever bits of the CE vary, outside the 6rd prefix it is no customer's
            other = str(IPv6Address(int(p.host(ce)) ^ 1 << 128 - p.prefix.prefixlen))
            negative = [negative_like(made, "spoof", layers=replaced(made, "IPv6", src=other))]
        ends = (p.tester_left_ipv6, p.tester_right_ipv6)
        behind = background_of(p, self.links, direction, sizes, ends, self.links.right)
        return mixed(p, direction, [(made, 1)], behind, negative, p.negative_percent, seed)

    def expect(self, direction: Direction, frames: Any) -> Expected:
        return self._device.expect(direction, frames)

    def dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        ends = (p.dut_left_ipv4, p.tester_left_ipv4)
        to_customers = {p.customers: p.tester_left_ipv4}
        return DeviceIntent(
            technology=self.name,
            configuration=SixrdRelayConfig(
                prefix=p.prefix, customers=p.customers, br_ipv4=p.br_ipv4
            ),
            links=links,
            left=p.link_intent("left", links.left, ends, to_customers),
            right=p.link_intent("right", links.right, None),
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

    @cached_property
    def _device(self) -> ReferenceDevice:
        return ReferenceDevice(
            self.links, {4: self._from_customers, 6: _native}, {6: self._from_internet}
        )

    def _from_customers(self, packets: Any) -> Handled:
        """Section 12: the embedded IPv4 address must be the outer source."""
        p = self.params
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        good = carries_ipv6(packets)
        good &= (packets[:, 16:20] == _octets(p.br_ipv4.packed)).all(axis=1)
        if not good.any():
            return Handled(reason, ())
        reason[good] = FORWARDED
        own, outer = self._customer(packets[:, 28:44]), packets[:, 12:16]
        rightful = (own == outer).all(axis=1) & self._delegated(packets[:, 28:44])
        reason[good & ~rightful] = SixrdDrop.SPOOFED
        reason[good & unmarkable(packets, 4)] = SixrdDrop.UNMARKABLE
        reason[good & (packets[:, 27] <= 1)] = EXHAUSTED
        rows = reason == FORWARDED
        if not rows.any():
            return Handled(reason, ())
        return Handled(reason, (Leaving(rows, decapsulate_ipv6(packets[rows]), 6),))

    def _from_internet(self, packets: Any) -> Handled:
        p = self.params
        ours = self._delegated(packets[:, 24:40])
        if packets.shape[1] + 20 > self.links.left.mtu:
            return route(
                packets, 6, np.where(ours, NOT_FORWARDED, SixrdDrop.NO_CUSTOMER).astype(np.uint8)
            )
        native = (packets[:, 24:40] == _octets(p.tester_left_ipv6.packed)).all(axis=1)
        routed = route(
            packets, 6, np.where(native, FORWARDED, SixrdDrop.NO_CUSTOMER).astype(np.uint8)
        )
        reason = np.where(ours, FORWARDED, routed.reason).astype(np.uint8)
        reason[ours & (packets[:, 7] <= 1)] = EXHAUSTED
        rows = ours & (reason == FORWARDED)
        parts = [*routed.leaving]
        if rows.any():
            to = self._customer(packets[rows, 24:40])
            made = encapsulate_ipv6(packets[rows], _octets(p.br_ipv4.packed), to)
            parts.append(Leaving(rows, made, 4))
        return Handled(reason, tuple(parts))

    def _delegated(self, addresses: Any) -> Any:
        """Rows within the 6rd prefix."""
        mask = _octets(self.params.prefix.netmask.packed)
        return (addresses & mask == _octets(self.params.prefix.network_address.packed)).all(axis=1)

    def _customer(self, addresses: Any) -> Any:
        """IPv4 addresses ``(n, 4)`` of the CEs that IPv6 addresses are delegated to (section 4)."""
        p = self.params
        high = np.ascontiguousarray(addresses[:, :8]).view(">u8")[:, 0].astype(np.uint64)
        number = high >> np.uint64(64 - p.delegated) & np.uint64((1 << p.embedded) - 1)
        whole = number | np.uint64(int(p.customers.network_address))
        return whole.astype(">u4").view(np.uint8).reshape(-1, 4)


def _octets(packed: bytes) -> Any:
    return np.frombuffer(packed, dtype=np.uint8)


def _native(packets: Any) -> Handled:
    """IPv6 that is in no tunnel is forwarded as it is."""
    return route(packets, 6, np.zeros(len(packets), dtype=np.uint8))
