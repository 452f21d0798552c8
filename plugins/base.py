"""The contract of a technology plugin, which is registered under the entry point group ``v6t.plugins``.

A plugin computes frames and never sends any. It defines the abstract methods of :class:`Technology`, and the
class variables that have no value there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import field_validator
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.intent.device import DeviceIntent, Link, Links, PartIntent
from v6t.intent.families import ChainConfig, DeviceConfig
from v6t.packets.direction import Direction
from v6t.packets.reference import DropReason, Expected, ReferenceTranslation
from v6t.plugins import frame_sizes
from v6t.plugins.prefixes import refuse_unforwardable
from v6t.profiles.mixes import FrameMix, Sizes
from v6t.profiles.model import Exchange, FramePair, Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.plugins.reference_device import Outcome, ReferenceDevice
    from v6t.profiles.dns.zone import Zone

__all__ = ["DeviceIntent", "Expected", "Link", "Links", "ReferenceTranslation", "Technology"]

_Params = TypeVar("_Params", bound="PluginParams")

# RFC 6052 prefixes by parameter name, each with IPv4 addresses that test frames embed in it.
EmbeddedIpv4 = Mapping[str, tuple[IPv6Network, Sequence[IPv4Address]]]
TAGGED_SIZE, JUMBO_SIZES = 1522, (2048, 4096, 8192, 9216)
"""Further frame sizes of RFC 8219, section 5.1.1: for links with a VLAN, and for links with a larger MTU."""

# Options of TAYGA in front of a stateful part, which would drop packets with a wrong checksum.
TAYGA_OPTIONS = {"queue_length": 5000, "mend_checksums": True}
CHAIN_DRIVER = "chain"  # the driver that combines the drivers of the parts
CHAIN_CONFIG = ChainConfig()  # of a setup that only its parts configure
INNER_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")  # of the link between two parts
INNER_LEFT, INNER_RIGHT = IPv4Interface("192.168.20.1/30"), IPv4Interface("192.168.20.2/30")


class PluginParams(StrictModel):
    """Base class of a technology's parameters: immutable, and unknown names are errors."""

    display_name: ClassVar[str] = "the technology"  # in messages

    @field_validator("*")
    @classmethod
    def _refuse_unforwardable(cls, value: Any) -> Any:
        refuse_unforwardable(value)
        return value

    def refuse_addresses_within(self, network: Any, label: str, *names: str, **params: str) -> None:
        """Refuse parameters with an address within a network, and suggest ``params`` in their place."""
        for name in names:
            if getattr(self, name) in network:
                problem = f"{name} {getattr(self, name)} lies within {label} {network}"
                hint, code = "choose one outside", "address-conflict"
                raise UsageError(problem, hint, code=code, params=params)

    @classmethod
    def derive_params(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters whose values are computed from other parameters."""
        return {}

    @property
    def subscriber_connections(self) -> int:
        """Total number of connections of all subscribers; 0 without subscribers."""
        return 0

    @property
    def is_background_only(self) -> bool:
        return self.mixture is not None and self.mixture[1] == 0

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        """IPv4 addresses that test frames embed in RFC 6052 prefixes."""
        return {}

    @property
    def mixture(self) -> tuple[int, int] | None:
        """Numbers n and m: m of n frames are foreground; None if the technology has no background."""
        return None

    @property
    def combinations(self) -> int:
        """Number of four-tuples of connections; 0 for a stateless technology."""
        return 0

    @property
    def max_sessions(self) -> int | None:
        """Configured session limit of the device; None without a limit."""
        return None

    def check_client_limits(self) -> None:
        """Refuse a port block that is too small for the connections of one client."""


@dataclass(frozen=True)
class DeviceRole:
    """One device of a test setup; ``variant`` qualifies the technology's name."""

    name: str
    stateful: bool
    variant: str = ""


@dataclass(frozen=True)
class Part(PartIntent):
    """Part of a device chain; if ``mirrored``, its reference translation has left and right exchanged."""

    reference: ReferenceTranslation | None = None
    mirrored: bool = False

    @property
    def part_intent(self) -> PartIntent:
        """Intent that drivers read, without the reference translation."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(PartIntent)}
        return PartIntent(**(values | {"has_reference": self.reference is not None}))


class Technology(ReferenceTranslation):
    """One IPv6 transition technology: its test traffic, device intent and reference translation."""

    name: ClassVar[str]  # on the command line, for example ``mape-br``
    title: ClassVar[str]  # one-line description for ``v6t plugins``
    rfcs: ClassVar[tuple[str, ...]]
    params_model: ClassVar[type[PluginParams]]
    # Octets by which an IPv6 frame is longer than its IPv4 frame; 0 if both links carry one version.
    overhead: ClassVar[int]
    sides: ClassVar[tuple[str, str]] = "left", "right"  # names of the hosts, as "CEs" and "server"
    native: ClassVar[bool] = False  # whether frames are routed unchanged, as in a baseline
    middle_version: ClassVar[int] = 6  # IP version between CE and PE
    hops: ClassVar[int] = 1  # number by which the devices decrement the TTL or hop limit
    stateful: ClassVar[bool] = False  # see :class:`v6t.plugins.stateful.StatefulTechnology`
    exchange: ClassVar[Exchange] = "frames"  # or DNS queries for names of a :attr:`zone`
    modes: ClassVar[tuple[str, ...]] = ("bidirectional", "forward", "reverse")
    default_benchmarks: ClassVar[tuple[str, ...]] = ("throughput",)
    default_driver: ClassVar[str | None] = None  # None for the reference device
    drops: ClassVar[type[DropReason]] = DropReason  # in addition to the common drop reasons
    # IPv6 frame sizes of the quick preset; by default the smallest of ``rfc_frame_sizes``.
    default_frame_sizes: ClassVar[tuple[int, ...]] = ()
    # Parameters that make the addresses of the traffic vary, if they do not by default.
    varying_params: ClassVar[Mapping[str, Any]] = {}
    # IPv6 frame sizes of RFC 8219, section 5.1.1 that exist for this technology.
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "default_frame_sizes" not in cls.__dict__:
            cls.default_frame_sizes = cls.rfc_frame_sizes[:1] or cls.default_frame_sizes

    def __init__(self, params: PluginParams | None = None, links: Links | None = None) -> None:
        self.params = self.params_model() if params is None else params
        self.links = links or Links()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.params, self.links)

    @property
    @abstractmethod
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """IP versions of the foreground on the left and on the right link; the outer ones of tunnels."""

    @property
    def roles(self) -> tuple[DeviceRole, ...]:
        """Devices of the test setup: one, or a CE and a PE."""
        return (DeviceRole(self.name, self.stateful),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the device chain from left to right; empty if one driver configures the whole device."""
        return ()

    @property
    def zone(self) -> Zone | None:
        """DNS zone that the tester queries and serves; None for technologies that forward frames."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for reports about results with these parameters."""
        return ()

    @property
    def combinations(self) -> int:
        return self.params.combinations

    @property
    def responder_version(self) -> int:
        """IP version on the Responder's side of the device."""
        return self.ip_versions[1]

    def make_frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Return the frame sizes on both links for an IPv6 frame size, FCS included."""
        left, right = self.links.left, self.links.right
        left_version, right_version = self.ip_versions
        if left_version == right_version:
            return frame_sizes.make_routed_pair(ipv6_frame_size, left, right, left_version)
        links = (left, right) if left_version == 6 else (right, left)
        name = self.params.display_name
        return frame_sizes.make_translated_pair(ipv6_frame_size, self.overhead, *links, name)

    def list_rfc_sizes(self) -> tuple[int, ...]:
        """Return the frame sizes that RFC 8219 lists for the technology on its links."""
        more = (TAGGED_SIZE, *JUMBO_SIZES) if self.links.left.vlan is not None else JUMBO_SIZES
        return *self.enlarge_tagged_sizes(self.rfc_frame_sizes), *filter(self._can_send_size, more)

    def enlarge_tagged_sizes(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Return frame sizes, with a VLAN tag added to those that are too small for a tagged link."""
        octets = frame_sizes.count_tag_octets(self.links.left)
        return tuple(size if self._can_send_size(size) else size + octets for size in sizes)

    def _can_send_size(self, size: int) -> bool:
        with suppress(UsageError):
            return bool(self.make_frame_pair(size))
        return False

    def make_sizes(self, frame_size: int | str) -> Sizes:
        """Return the sizes on both links for a frame size, or for a mix (RFC 6985) in its notation."""
        if isinstance(frame_size, str):
            return frame_sizes.make_frame_mix(frame_size, self.make_frame_pair)
        return self.make_frame_pair(frame_size)

    def list_link_sizes(self, sizes: FramePair) -> tuple[int, int]:
        """Return the size of foreground frames on the left and on the right link."""
        sides = sizes.ipv6, sizes.ipv4
        return sides[::-1] if self.ip_versions == (4, 6) else sides

    def list_audit_views(self) -> Sequence[Any]:
        """Return the :mod:`~v6t.plugins.audit_views` of the device, the most specific first."""
        return ()

    def suggest_audit_params(self) -> Mapping[str, Any]:
        """Return parameters that audits use by default, so that more clauses apply."""
        return {}

    def list_audit_variants(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters of each supported variant of :mod:`v6t.plugins.audit_views`."""
        return {}

    @abstractmethod
    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Return the foreground, background and negative traffic of one direction."""

    def build_sized_traffic(self, direction: Direction, sizes: Sizes, seed: int = 1) -> Traffic:
        """Return the traffic of one direction for one frame size or a mix."""
        if isinstance(sizes, FrameMix):
            build = partial(self.build_traffic, direction, seed=seed)
            return frame_sizes.merge_traffic(sizes, build, same_connections=self.stateful)
        return self.build_traffic(direction, sizes, seed)

    @abstractmethod
    def make_dut_intent(self) -> DeviceIntent:
        """Describe how the device must be configured for this traffic."""


class StatelessTechnology(Technology):
    """A technology without connections: its reference device answers each frame independently."""

    def translate_forward(self, packets: U8) -> Outcome:
        """Translate packets that arrive on the left link, ``(n, length)`` from the IP header on."""
        raise NotImplementedError(f"{type(self).__name__} has no method translate_forward")

    def translate_reverse(self, packets: U8) -> Outcome:
        """Translate packets that arrive on the right link, ``(n, length)`` from the IP header on."""
        raise NotImplementedError(f"{type(self).__name__} has no method translate_reverse")

    def build_reference_device(self) -> ReferenceDevice:
        """Build the reference device: both translations, and routing of other IPv6 packets."""
        from v6t.plugins.reference_device import ReferenceDevice, route_all

        left, right = self.ip_versions
        forward = {6: route_all(6), left: self.translate_forward}
        reverse = {6: route_all(6), right: self.translate_reverse}
        return ReferenceDevice(self.links, forward, reverse)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        return self._device.expect(direction, frames)

    @cached_property
    def _device(self) -> ReferenceDevice:
        return self.build_reference_device()


def build_chain_intent(
    technology: str,
    parts: Sequence[Part],
    links: Links,
    alternatives: Sequence[Part] = (),
    configuration: DeviceConfig = CHAIN_CONFIG,
) -> DeviceIntent:
    """Build the intent of a chain; ``configuration`` is that of a single device in place of the chain."""
    left, right = parts[0].intent.left, parts[-1].intent.right
    chain, others = (tuple(p.part_intent for p in group) for group in (parts, alternatives))
    return DeviceIntent(technology, configuration, links, left, right, chain, others)


def pick_params(model: type[_Params], chain: PluginParams, **fields: Any) -> _Params:
    """Make the parameters of a part from those of the chain with the same names, and ``fields``."""
    shared = type(chain).model_fields.keys() & model.model_fields.keys()
    return model(**{**{name: getattr(chain, name) for name in shared}, **fields})


def describe_inner_link(left_mac: str, right_mac: str, mtu: int) -> tuple[Link, Link]:
    """Describe the link between two parts, first as seen from the left part, then from the right part."""
    near = Link(tester_mac=right_mac, dut_mac=left_mac, mtu=mtu)
    return near, Link(tester_mac=left_mac, dut_mac=right_mac, mtu=mtu)
