"""Stateless translators between an IPv6 and an IPv4 link: what SIIT and CLAT have in common."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from v6t.intent.device import LinkIntent
from v6t.intent.families import SiitConfig
from v6t.packets.direction import Direction
from v6t.packets.reference import list_drop_reasons
from v6t.plugins.audit_views import AddressTable, AuditView, Translator
from v6t.plugins.base import DeviceIntent, Link, StatelessTechnology
from v6t.plugins.siit.hosts import Host, host, ipv6_networks, outside
from v6t.plugins.siit.params import TranslatorDrop, TranslatorParams
from v6t.plugins.sizes import IPV6_SIZES, check_whole
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.profiles.model import FramePair, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.reference_device import ReferenceDevice


class StatelessTranslator(StatelessTechnology):
    """Translates headers by RFC 7915; addresses by mappings that the parameters give."""

    overhead = 20
    drop_reasons: ClassVar[tuple[str, ...]] = list_drop_reasons(TranslatorDrop)
    rfc_frame_sizes = IPV6_SIZES
    prefix_side: ClassVar[Literal["six", "four"]] = "four"
    """The link whose hosts are behind the RFC 6052 prefix."""
    family: ClassVar[type[SiitConfig]] = SiitConfig
    params: TranslatorParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """One foreground class, background, and frames with unmapped addresses."""
        p = self.params
        ends = (p.bg_ipv6_side, p.bg_ipv4_side)
        behind = background_of(
            p,
            self.links,
            direction,
            sizes,
            ends if self.ipv6_is_left else ends[::-1],
            self._ipv6_link,
        )
        foreground = self._foreground(direction, sizes, seed)
        negative = self._unmapped(foreground) if p.negative_percent else []
        return mixed(p, direction, [(foreground, 1)], behind, negative, p.negative_percent, seed)

    def dut_intent(self) -> DeviceIntent:
        """The address table, both links, static neighbours and routes to all test hosts."""
        p = self.params
        prefix = p.mappings.prefix
        sides: dict[str, LinkIntent] = {}
        for side, is_ipv6 in (("left", self.ipv6_is_left), ("right", not self.ipv6_is_left)):
            addresses = None if is_ipv6 else (p.dut_ipv4, p.tester_ipv4)
            via6 = getattr(p, f"tester_{side}_ipv6")
            if is_ipv6:
                networks = ipv6_networks(p.ipv6_hosts, p.mappings, p.ipv4_hosts)
                hosts = {**dict.fromkeys(networks, via6), p.bg_ipv6_side: via6}
            else:
                to_ipv4 = dict.fromkeys(p.ipv4_hosts.networks(), p.tester_ipv4)
                hosts = {**to_ipv4, p.bg_ipv4_side: via6}
            sides[side] = p.link_intent(side, getattr(self.links, side), addresses, hosts)
        return DeviceIntent(
            technology=self.name,
            configuration=self.family(
                eam=tuple((e.ipv4, e.ipv6) for e in p.mappings.eams),
                prefix=None if prefix is None else prefix.ipv6,
                ipv6_side="left" if self.ipv6_is_left else "right",
                lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            ),
            links=self.links,
            left=sides["left"],
            right=sides["right"],
        )

    @property
    def ipv6_is_left(self) -> bool:
        """Whether the left link carries IPv6."""
        return self.ip_versions[0] == 6

    @property
    def _ipv6_link(self) -> Link:
        return self.links.left if self.ipv6_is_left else self.links.right

    def audit_views(self) -> tuple[AuditView, ...]:
        p, mappings = self.params, self.params.mappings
        six = host("ipv6_host", p.ipv6_hosts, mappings, 1)
        four = host("ipv4_host", p.ipv4_hosts, mappings, 1)
        prefix = None if mappings.prefix is None else mappings.prefix.ipv6
        return (
            Translator(
                six_side="left" if self.ipv6_is_left else "right",
                six=six.ipv6,
                six4=(six.ipv4,),
                port=40123,
                four=four.ipv4,
                four6=four.ipv6,
                server_port=443,
                lowest_ipv6_mtu=p.lowest_ipv6_mtu,
                table=AddressTable(tuple((e.ipv4, e.ipv6) for e in mappings.eams), prefix),
                prefix_side=self.prefix_side,
            ),
        )

    def _version(self, direction: Direction) -> int:
        """IP version of what is sent in a direction."""
        return 6 if (direction == "forward") == self.ipv6_is_left else 4

    def _ends(self, seed: int) -> tuple[Host, Host]:
        p = self.params
        return (
            host("ipv6_host", p.ipv6_hosts, p.mappings, seed),
            host("ipv4_host", p.ipv4_hosts, p.mappings, seed),
        )

    def _foreground(self, direction: Direction, sizes: FramePair, seed: int) -> TrafficClass:
        p = self.params
        six, four = self._ends(seed)
        version = self._version(direction)
        if version == 6:
            name, header, size = "IPv6", ipv6(p, six.ipv6, four.ipv6), sizes.ipv6
            source, destination = six, four
        else:
            check_whole(p.df, sizes.ipv6, self._ipv6_link, p.lowest_ipv6_mtu)
            name, header, size = "IP", ipv4(p, four.ipv4, six.ipv4), sizes.ipv4
            source, destination = four, six
        sources, at_source = source.vary(version, f"{name}.src")
        destinations, at_destination = destination.vary(version, f"{name}.dst")
        udp, ports, at_ports = p.udp(direction)
        return TrafficClass(
            "fg",
            Role.FOREGROUND,
            (*ethernet(self.links, direction), header, udp),
            size,
            (*sources, *destinations, *ports),
            (*at_source, *at_destination, *at_ports),
        )

    def _unmapped(self, traffic_class: TrafficClass) -> list[TrafficClass]:
        """Frames like the foreground's whose source no mapping holds."""
        mappings = self.params.mappings
        name = next(layer.name for layer in traffic_class.layers if layer.name in {"IP", "IPv6"})
        source: Any
        if name == "IPv6":
            nets = [e.ipv6 for e in mappings.eams]
            nets += [mappings.prefix.ipv6] if mappings.prefix else []
            source = outside(nets, _template_source(nets, traffic_class))
        else:
            source = _unmapped_ipv4(self.params)
        if source is None:
            return []
        bindings = tuple(b for b in traffic_class.bindings if b.field != f"{name}.src")
        layers = replaced(traffic_class, name, src=str(source))
        return [negative_like(traffic_class, "unmapped", layers=layers, bindings=bindings)]

    def reference_device(self) -> ReferenceDevice:
        from v6t.plugins.siit.reference import translator_device

        p = self.params
        return translator_device(
            p.mappings,
            self.links,
            ipv6_is_left=self.ipv6_is_left,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            native=_native(p),
        )


def _template_source(nets: Sequence[IPv6Network], traffic_class: TrafficClass) -> Any:
    from ipaddress import IPv6Address

    layer = next(each for each in traffic_class.layers if each.name == "IPv6")
    return IPv6Address(str(layer.fields["src"]))


def _unmapped_ipv4(params: TranslatorParams) -> IPv4Address | None:
    """An IPv4 address near the hosts' without a mapping."""
    for bit in range(31, -1, -1):
        near = IPv4Address(int(params.ipv4_hosts.first) ^ 1 << bit)
        if params.mappings.to_ipv6(near) is None:
            return near
    return None


def _native(params: TranslatorParams) -> dict[str, tuple[IPv6Network, ...]]:
    """Networks of IPv6 that is not translated, by the kind of link they are behind."""
    return {
        "ipv6": (IPv6Network(params.bg_ipv6_side),),
        "ipv4": (IPv6Network(params.bg_ipv4_side),),
    }
