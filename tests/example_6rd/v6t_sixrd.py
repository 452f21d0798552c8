"""A 6rd border relay (RFC 5969): customers' IPv6 in IPv4 on the left, native IPv6 on the right."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Literal

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV4, IPV6, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins.audit_views import TunnelEnd
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import (
    LinkParams,
    address,
    describe_link,
    device_address,
    negative_share,
    tester_address,
)
from v6t.plugins.reference_device import DROP_ALL, Outcome
from v6t.plugins.traffic import change_header, combine, make_foreground, make_ipv4, make_ipv6
from v6t.plugins.translation import select_within
from v6t.plugins.tunnels import (
    decapsulate,
    encapsulate,
    match_address,
    pack_address,
    select_ecn_drops,
    select_tunnelled_ipv6,
)
from v6t.profiles.model import FramePair, Traffic, Variable


class SixrdDrop(DropReason):
    """Reasons for which a 6rd border relay drops a frame."""

    SPOOFED = "the IPv6 source is not of the CE that sent it"
    NO_CUSTOMER = "no customer has the IPv6 destination"
    ECN_DROP = "congestion mark on a packet that is not ECN-capable"


class SixrdParams(LinkParams):
    """Parameters of ``sixrd-br``."""

    prefix: IPv6Network = Field(IPv6Network("2001:db8::/32"), description="the 6rd prefix")
    customers: IPv4Network = Field(
        IPv4Network("10.0.0.0/8"),
        description="the CEs' IPv4 addresses; bits of its prefix are not in delegated prefixes",
    )
    ces: int = Field(
        16, ge=1, le=32, description="low bits in which the IPv4 addresses of the CEs vary"
    )
    br_ipv4: IPv4Address = address("192.88.99.129", "the relay's IPv4 address for 6rd")
    dut_left_ipv4: IPv4Interface = device_address("198.51.100.1/24", "left")
    tester_left_ipv4: IPv4Address = tester_address("198.51.100.2", "left")
    server: IPv6Address = address("2001:2:0:f001::9", "the IPv6 host beyond the relay")
    negative_percent: int = negative_share(
        "share of forward frames whose IPv6 source is not the CE's (RFC 5969 section 12) [%]"
    )

    @model_validator(mode="after")
    def _check_lengths(self) -> SixrdParams:
        if self.delegated > 64:
            problem = f"a delegated prefix of {self.delegated} bits leaves a customer no subnet"
            hint = (
                "choose a shorter 6rd prefix, or a longer prefix of the customers' IPv4 addresses"
            )
            raise UsageError(problem, hint, code="conflict")
        if self.ces > self.embedded:
            problem = f"{self.ces} varying bits are more than the {self.embedded} embedded ones"
            raise UsageError(problem, f"set ces to {self.embedded} or less", code="conflict")
        return self

    @property
    def embedded(self) -> int:
        """Bits of the CE's IPv4 address in its delegated prefix (section 4)."""
        return 32 - self.customers.prefixlen

    @property
    def delegated(self) -> int:
        """Length of a delegated prefix."""
        return self.prefix.prefixlen + self.embedded

    @property
    def first_ce(self) -> IPv4Address:
        """The CE whose IPv4 address ends in 1."""
        return IPv4Address(int(self.customers.network_address) | 1)

    def host(self, ce: IPv4Address) -> IPv6Address:
        """Return host 1 of the first subnet behind a CE."""
        number = int(ce) & (1 << self.embedded) - 1
        return IPv6Address(int(self.prefix.network_address) | number << 128 - self.delegated | 1)

    def find_ces(self, high: Any) -> Any:
        """Compute the CEs to which addresses with these high 64 bits are delegated (section 4)."""
        number = high >> 64 - self.delegated & (1 << self.embedded) - 1
        return number | int(self.customers.network_address)

    def find_endpoint(self, host: IPv4Address | IPv6Address) -> IPv4Address | None:
        """Return the CE to which an address is delegated, or None."""
        inside = isinstance(host, IPv6Address) and host in self.prefix
        return IPv4Address(self.find_ces(int(host) >> 64)) if inside else None


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
    """Decapsulates IPv6 towards the IPv6 internet, and encapsulates it in IPv4 in reverse."""

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

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p, order = self.params, ("sport", "dport")
        number = Variable("ce", p.ces)
        host = number.place(p.delegated - p.ces, str(p.host(p.first_ce)))
        if direction == "reverse":
            made = make_foreground(
                self, direction, sizes, make_ipv6(p, p.server, host), draw_order=order
            )
            return combine(self, made, [], direction, sizes, seed)
        outer = make_ipv4(p, number.place(32 - p.ces, str(p.first_ce)), p.br_ipv4)
        made = make_foreground(
            self, direction, sizes, outer, make_ipv6(p, host, p.server), draw_order=order
        )
        # an address outside the 6rd prefix belongs to no customer, regardless of the CE bits
        other = IPv6Address(int(p.host(p.first_ce)) ^ 1 << 128 - p.prefix.prefixlen)
        spoofed = change_header(made, "spoof", "IPv6", src=str(other))
        return combine(self, made, [spoofed], direction, sizes, seed)

    def make_dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        left, right = (
            describe_link(p, links, "left", [p.customers]),
            describe_link(p, links, "right"),
        )
        config = SixrdRelayConfig(prefix=p.prefix, customers=p.customers, br_ipv4=p.br_ipv4)
        return DeviceIntent(self.name, config, links, left, right)

    def list_audit_views(self) -> tuple[TunnelEnd]:
        p, host = self.params, (self.params.host(self.params.first_ce), 40123)
        ends, server, find = (p.br_ipv4, p.first_ce), (p.server, 443), p.find_endpoint
        return (TunnelEnd("left", *ends, host, host, server, find_outer_address=find),)

    def translate_forward(self, packets: Any) -> Outcome:
        """Decapsulate: the embedded IPv4 address must be the outer source (section 12)."""
        if packets.shape[1] < 60:
            return DROP_ALL
        p, outer, inner = self.params, view(packets, IPV4), view(packets, IPV6, 20)
        ours = (outer["dst"] == int(p.br_ipv4)) & select_tunnelled_ipv6(packets)
        rightful = p.find_ces(inner["src_high"]) == outer["src"]
        drops = [
            (NOT_FORWARDED, ~ours),
            (EXHAUSTED, inner["hlim"] <= 1),
            (SixrdDrop.ECN_DROP, select_ecn_drops(packets, outer_version=4)),
            (SixrdDrop.SPOOFED, ~rightful | ~select_within(inner["src_high"], p.prefix, 64)),
        ]
        return Outcome(drops, lambda rows: decapsulate(packets[rows], 4), version=6)

    def translate_reverse(self, packets: Any) -> Outcome:
        """Encapsulate packets for customers, and route packets for the tester's own address."""
        p, header = self.params, view(packets, IPV6)
        relay, ces = pack_address(p.br_ipv4), to_octets(p.find_ces(header["dst_high"]), 4)
        drops = [
            (SixrdDrop.NO_CUSTOMER, ~select_within(header["dst_high"], p.prefix, 64)),
            (NOT_FORWARDED, packets.shape[1] + 20 > self.links.left.mtu),
            (EXHAUSTED, header["hlim"] <= 1),
        ]
        native = match_address(header["dst_octets"], p.tester_left_ipv6)

        def build(rows: Any) -> Any:
            return encapsulate(packets[rows], relay, ces[rows], 4)

        return Outcome(drops, build, version=4, native=native)
