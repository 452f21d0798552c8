"""Router technologies whose test traffic is not UDP in IPv4, in IPv6 or in IPv4 in IPv6."""

from dataclasses import replace
from typing import ClassVar

from v6t.intent.families import RouterConfig
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import LinkParams
from v6t.plugins.reference_device import ReferenceDevice, route_all
from v6t.plugins.traffic import change_header, make_ethernet, make_ipv4, make_ipv6
from v6t.profiles.model import Layer, Role, Traffic, TrafficClass, Variable

IPV4 = ("198.51.100.1", "203.0.113.1")
IPV6 = ("2001:db8:1::1", "2001:db8:2::1")


class ProtocolRouter(StatelessTechnology):
    params_model = LinkParams
    rfcs = ("RFC 1812",)
    overhead = 0
    rfc_frame_sizes = (128, 512, 1518)
    above: ClassVar[tuple[Layer, ...]]
    varying: ClassVar[tuple[tuple[str, int], ...]]
    """Fields with random values, and their widths in bits."""

    def build_traffic(self, direction, sizes, seed=1):
        p = self.params
        hosts = IPV4 if self.ip_versions[0] == 4 else IPV6
        src, dst = hosts if direction == "forward" else hosts[::-1]
        outer = make_ipv4(p, src, dst) if self.ip_versions[0] == 4 else make_ipv6(p, src, dst)
        layers = (*make_ethernet(self.links, direction), outer, *self.above)
        size = sizes.ipv6 if direction == "forward" else sizes.ipv4
        foreground = TrafficClass("fg", Role.FOREGROUND, layers, size)
        for number, (path, width) in enumerate(self.varying):
            name, _, field = path.partition(".")
            constant = foreground.find_layer(name).fields[field]
            value = Variable(f"v{number}", width).place(0, constant)
            layers = foreground.replace_fields(name, **{field: value})
            foreground = replace(foreground, layers=layers)
        field = "ttl" if self.ip_versions[0] == 4 else "hlim"
        expired = change_header(foreground, "expired", outer.name, **{field: 1})
        classes = replace(foreground, weight=80 * p.m), replace(expired, weight=20 * p.n)
        return Traffic(direction, classes, seed)

    def make_dut_intent(self):
        return DeviceIntent(self.name, RouterConfig(), self.links)

    def build_reference_device(self):
        handlers = {self.ip_versions[0]: route_all(self.ip_versions[0])}
        return ReferenceDevice(self.links, handlers, handlers)


class OverTcp(ProtocolRouter):
    name, title, ip_versions = "over-tcp", "TCP segments", (4, 4)
    above = (Layer("TCP", {"sport": 1024, "dport": 443, "flags": "A", "seq": 1}),)
    varying = (("TCP.sport", 16), ("TCP.dport", 16))


class OverTcp6(OverTcp):
    name, ip_versions = "over-tcp6", (6, 6)


class Gre(ProtocolRouter):
    name, title, ip_versions = "gre", "GRE packets", (4, 4)
    above = (Layer("GRE", {"proto": 0x88B5, "key_present": 1, "key": 5}),)
    varying = (("GRE.key", 32),)


IPV6_UDP = (
    Layer("IPv6", {"src": IPV6[0], "dst": IPV6[1]}),
    Layer("UDP", {"sport": 1024, "dport": 1025}),
)


class GreTunnel(ProtocolRouter):
    name, title, ip_versions = "gre-tunnel", "IPv6 through GRE", (4, 4)
    above = (Layer("GRE"), *IPV6_UDP)
    varying = (("IPv6.src", 8), ("UDP.dport", 16), ("IP.id", 16))


class Sixin4(ProtocolRouter):
    name, title, ip_versions = "six-in-four", "IPv6 through IPv4", (4, 4)
    above = IPV6_UDP
    varying = (("UDP.sport", 16), ("IP.id", 16))


class Echo(ProtocolRouter):
    # no varying field: a NIC cannot compute the checksum of ICMP for TRex
    name, title, ip_versions = "echo", "ICMP echo requests", (4, 4)
    above = (Layer("ICMP", {"type": 8, "id": 1, "seq": 1}),)
    varying = ()


ALL = (OverTcp, OverTcp6, Gre, GreTunnel, Sixin4, Echo)
