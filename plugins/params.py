"""Parameters that several technologies have: link addresses, ports, traffic shares."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Any, ClassVar

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.packets.direction import Direction
from v6t.plugins.audit_views import SideName
from v6t.plugins.base import Links, PluginParams
from v6t.plugins.ports import DestinationPorts, SourcePorts, make_udp_header
from v6t.profiles.model import Layer


def address(default: str, description: str) -> Any:
    """Declare an address parameter, or an interface address if the default has a prefix length."""
    interface = ip_interface(default)
    return Field(interface if "/" in default else interface.ip, description=description)


def device_address(default: str, side: SideName) -> Any:
    """Declare the device's address on a link."""
    version = ip_interface(default).version
    return address(default, f"the device's IPv{version} address on the {side}")


def tester_address(default: str, side: SideName) -> Any:
    """Declare the tester's address on a link, which is the next hop to the test hosts behind it."""
    version = ip_address(default).version
    return address(default, f"tester's IPv{version} address on the {side} link")


def negative_share(description: str) -> Any:
    """Declare ``negative_percent``; the description defines the technology's negative traffic."""
    return Field(0, ge=0, le=50, description=description)


class Mixture(PluginParams):
    """Shares of foreground and background traffic, and header fields of all test frames."""

    allows_background_only: ClassVar[bool] = True  # m = 0: native IPv6 through the device

    bg_sport: SourcePorts = Field(SourcePorts(), description="background source ports")
    bg_dport: DestinationPorts = Field(
        DestinationPorts(), description="background destination ports"
    )
    n: int = Field(2, ge=1, description="foreground is m of n frames")
    m: int = Field(2, ge=0, description="n = m: no background, m = 0: background only")
    ttl: int = Field(64, ge=2, le=255, description="TTL and hop limit of test frames")
    df: bool = Field(True, description="Don't Fragment bit of IPv4 test frames")

    @property
    def mixture(self) -> tuple[int, int]:
        return self.n, self.m

    @model_validator(mode="after")
    def _check_shares(self) -> Mixture:
        share, problem, hint = Fraction(self.m, self.n), "", ""
        if share > 1:
            problem = f"m = {self.m} of n = {self.n} frames cannot be foreground"
        elif 0 < share < 1 and share.denominator != self.n:
            problem = f"n = {self.n} and m = {self.m} have a common divisor"
            hint = f"write n = {share.denominator}, m = {share.numerator}"
        elif not share and not self.allows_background_only:
            problem = f"without foreground (m = 0) nothing of {self.display_name} would be measured"
        if problem:
            raise UsageError(problem, hint, code="out-of-range")
        return self

    def refuse_background(self, reason: str) -> None:
        """Refuse background traffic and its parameters, for technologies that cannot have it."""
        if self.n != self.m:
            raise UsageError(reason, "set n = m", code="no-background")
        for name in ("bg_sport", "bg_dport"):
            if getattr(self, name) != Mixture.model_fields[name].get_default():
                problem, code = f"{name} has no effect: {reason}", "setting-without-effect"
                raise UsageError(problem, f"leave {name} out", path=(name,), code=code)


class RightIpv4Link(PluginParams):
    """IPv4 addresses of the right link."""

    dut_right_ipv4: IPv4Interface = device_address("192.168.19.1/30", "right")
    tester_right_ipv4: IPv4Address = tester_address("192.168.19.2", "right")


class Ipv4Links(RightIpv4Link):
    """IPv4 addresses of both links."""

    dut_left_ipv4: IPv4Interface = device_address("192.168.18.1/30", "left")
    tester_left_ipv4: IPv4Address = tester_address("192.168.18.2", "left")


class Ipv6Links(PluginParams):
    """IPv6 addresses of both links."""

    dut_left_ipv6: IPv6Interface = device_address("2001:2:0:f000::1/64", "left")
    dut_right_ipv6: IPv6Interface = device_address("2001:2:0:f001::1/64", "right")
    tester_left_ipv6: IPv6Address = tester_address("2001:2:0:f000::2", "left")
    tester_right_ipv6: IPv6Address = tester_address("2001:2:0:f001::2", "right")


class LinkParams(Ipv6Links, Mixture):
    """Ports of both directions (RFC 4814), and IPv6 addresses of both links."""

    fw_sport: SourcePorts = Field(SourcePorts(), description="forward source ports")
    fw_dport: DestinationPorts = Field(DestinationPorts(), description="forward destination ports")
    rv_sport: SourcePorts = Field(SourcePorts(), description="reverse source ports")
    rv_dport: DestinationPorts = Field(DestinationPorts(), description="reverse destination ports")

    def make_udp_header(self, direction: Direction) -> Layer:
        forward = self.fw_sport, self.fw_dport
        reverse = self.rv_sport, self.rv_dport
        return make_udp_header(*(forward if direction == "forward" else reverse))


def describe_link(
    params: PluginParams, links: Links, side: SideName, networks: Iterable[object] = ()
) -> LinkIntent:
    """Describe a link by its parameters; the tester is the device's next hop to ``networks``."""
    names = [[f"{who}_{side}_ipv{version}" for version in (4, 6)] for who in ("dut", "tester")]
    known = type(params).model_fields
    device, tester = ([getattr(params, name) for name in both if name in known] for both in names)
    routes = dict.fromkeys(networks, tester[0])
    return LinkIntent.describe(getattr(links, side), device, tester, routes)
