"""The contract of a technology plugin, which is registered under the entry point group ``v6t.plugins``.

A plugin is pure: it computes frames and never sends one. Abstract members and those without a value must
be given. Technologies share ``frame_sizes``, ``params``, ``traffic``, ``reference_device`` and ``tunnels``.
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
from v6t.plugins.prefixes import refuse_unforwarded
from v6t.profiles.mixes import FrameMix, Sizes
from v6t.profiles.model import Exchange, FramePair, Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.plugins.reference_device import Answer, ReferenceDevice
    from v6t.profiles.dns.zone import Zone

__all__ = ["DeviceIntent", "Expected", "Link", "Links", "ReferenceTranslation", "Technology"]

_Params = TypeVar("_Params", bound="PluginParams")

Embedded = Mapping[str, tuple[IPv6Network, Sequence[IPv4Address]]]
"""Prefixes of RFC 6052 by parameter, with IPv4 addresses behind them."""

TAGGED_SIZE, JUMBO_SIZES = 1522, (2048, 4096, 8192, 9216)
"""Frame sizes of RFC 8219, section 5.1.1 for links with a VLAN, and for links that carry them."""


TAYGA = {"queue_length": 5000, "mend_checksums": True}
"""Options of a TAYGA that is followed by a stateful part, which drops packets with a wrong checksum."""

CHAIN = "chain"  # the driver that combines the drivers of the parts
CONFIGURATION = ChainConfig()
INNER_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
INNER_LEFT, INNER_RIGHT = IPv4Interface("192.168.20.1/30"), IPv4Interface("192.168.20.2/30")
"""The cable between two parts of one device."""


class PluginParams(StrictModel):
    """Base of the parameters of technologies: unknown names are errors, and values never change."""

    measured: ClassVar[str] = "the technology"
    """Name of the technology in messages."""

    @field_validator("*")
    @classmethod
    def _refuse_unforwarded(cls, value: Any) -> Any:
        refuse_unforwarded(value)
        return value

    def refuse_inside(
        self, network: Any, noun: str, *names: str, params: Mapping[str, str] | None = None
    ) -> None:
        """Raise an error if an address, given by its parameter's name, lies within a network.

        Args:
            network: the network.
            noun: what it is.
            names: parameters of the addresses.
            params: values outside the network that the hint proposes.
        """
        for name in names:
            if getattr(self, name) in network:
                problem = f"{name} {getattr(self, name)} lies within {noun} {network}"
                hint = "choose one outside"
                raise UsageError(problem, hint, code="address-conflict", params=params)

    @classmethod
    def derive(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters that follow from others among these values."""
        return {}

    @property
    def subscriber_connections(self) -> int:
        """Connections of all subscribers; 0: none were given."""
        return 0

    @property
    def is_background_only(self) -> bool:
        return self.mixture is not None and self.mixture[1] == 0

    @property
    def embedded_addresses(self) -> Embedded:
        """IPv4 addresses that test frames have behind prefixes of RFC 6052."""
        return {}

    @property
    def mixture(self) -> tuple[int, int] | None:
        """N and m: m of n frames are foreground; None if the technology has no background."""
        return None

    @property
    def combinations(self) -> int:
        """Number of four-tuples of connections; 0 for a stateless technology."""
        return 0

    @property
    def most_sessions(self) -> int | None:
        """Sessions that the device is configured to hold; None: no limit is configured."""
        return None

    def check_limits(self) -> None:
        """Refuse a limit per client below the connections that a client opens; name one that suffices."""


@dataclass(frozen=True)
class DeviceRole:
    """One of the devices of a setup; ``what`` adds a word or two that the technology's name does not say."""

    name: str
    stateful: bool
    what: str = ""


@dataclass(frozen=True)
class Part(PartIntent):
    """A part of a chain; if ``mirrored``, the left of its reference translation is its right."""

    reference: ReferenceTranslation | None = None
    mirrored: bool = False

    @property
    def part_intent(self) -> PartIntent:
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(PartIntent)}
        return PartIntent(**(values | {"has_reference": self.reference is not None}))


class Technology(ReferenceTranslation):
    """One IPv6 transition technology, as seen by a tester around it."""

    name: ClassVar[str]
    """Name on the command line, for example ``mape-br``."""
    title: ClassVar[str]
    """One line for ``v6t plugins``."""
    rfcs: ClassVar[tuple[str, ...]]
    params_model: ClassVar[type[PluginParams]]
    overhead: ClassVar[int]
    """Octets that the IPv6 frame is longer than the IPv4 frame; 0 if both links carry one version."""
    sides: ClassVar[tuple[str, str]] = ("left", "right")
    """Who is on the left and on the right link, for example ``CEs`` and ``server``."""
    native: ClassVar[bool] = False
    """Whether nothing is translated or encapsulated: the baseline of comparisons."""
    middle_version: ClassVar[int] = 6
    hops: ClassVar[int] = 1
    """By how much the devices decrement a TTL."""
    stateful: ClassVar[bool] = False
    """Whether it keeps connections: a :class:`v6t.plugins.stateful.StatefulTechnology`."""
    exchange: ClassVar[Exchange] = "frames"
    """What the tester exchanges: frames, or queries for names of a :attr:`zone`."""
    modes: ClassVar[tuple[str, ...]] = ("bidirectional", "forward", "reverse")
    default_benchmarks: ClassVar[tuple[str, ...]] = ("throughput",)
    default_driver: ClassVar[str | None] = None
    """The lab's default device; None: the reference device, if it can be one."""
    drops: ClassVar[type[DropReason]] = DropReason
    """The technology's own drop reasons; the common ones are shared."""
    default_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of the quick preset; by default the smallest of ``rfc_frame_sizes``."""
    spread: ClassVar[Mapping[str, Any]] = {}
    """Parameters with which the traffic's addresses vary, if they do not by default."""
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of RFC 8219, section 5.1.1 that exist for this technology."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "rfc_frame_sizes" in cls.__dict__ and "default_frame_sizes" not in cls.__dict__:
            cls.default_frame_sizes = cls.rfc_frame_sizes[:1]

    def __init__(self, params: PluginParams | None = None, links: Links | None = None) -> None:
        self.params = self.params_model() if params is None else params
        self.links = links or Links()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.params, self.links)

    @property
    @abstractmethod
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """IP version of the foreground on the left and on the right link; a tunnel's is the outer."""

    @property
    def roles(self) -> tuple[DeviceRole, ...]:
        return (DeviceRole(self.name, self.stateful),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the devices from left to right; empty if one driver configures the whole device."""
        return ()

    @property
    def zone(self) -> Zone | None:
        """Names that the tester queries and answers; None for frames."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    @property
    def combinations(self) -> int:
        return self.params.combinations

    @property
    def responder_version(self) -> int:
        """IP version between device and Responder, as in the device's session table."""
        return self.ip_versions[1]

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        left, right = self.links.left, self.links.right
        left_version, right_version = self.ip_versions
        if left_version == right_version:
            return frame_sizes.routed_pair(ipv6_frame_size, left, right, left_version)
        links, name = (left, right) if left_version == 6 else (right, left), self.params.measured
        return frame_sizes.translated_pair(ipv6_frame_size, self.overhead, *links, name)

    def list_rfc_sizes(self) -> tuple[int, ...]:
        """Return the frame sizes that RFC 8219 lists for the technology on its links."""
        larger = (TAGGED_SIZE, *JUMBO_SIZES) if self.links.left.vlan is not None else JUMBO_SIZES
        return *self.tag_sizes(self.rfc_frame_sizes), *filter(self._has_size, larger)

    def tag_sizes(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Return sizes, plus a VLAN tag for those that are too small on a link with a VLAN."""
        octets = frame_sizes.tag_octets(self.links.left)
        return tuple(size if self._has_size(size) else size + octets for size in sizes)

    def _has_size(self, size: int) -> bool:
        with suppress(UsageError):
            return bool(self.frame_pair(size))
        return False

    def sizes_of(self, listed: int | str) -> Sizes:
        """Return the sizes on both sides for a run's listed frame size or mix (RFC 6985)."""
        if isinstance(listed, str):
            return frame_sizes.frame_mix(listed, self.frame_pair)
        return self.frame_pair(listed)

    def side_sizes(self, sizes: FramePair) -> tuple[int, int]:
        """Return the octets of the foreground frames on the left and on the right link."""
        sides = sizes.ipv6, sizes.ipv4
        return sides[::-1] if self.ip_versions == (4, 6) else sides

    def audit_views(self) -> Sequence[Any]:
        """Return views of the device's roles, the most specific first; see :mod:`v6t.plugins.audit_views`."""
        return ()

    def audit_params(self) -> Mapping[str, Any]:
        """Return parameters with which an audit covers more; those that the user sets take precedence."""
        return {}

    def audit_variants(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters of further configurations, by names of :mod:`v6t.plugins.audit_views`."""
        return {}

    @abstractmethod
    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Return foreground, background and negative classes of one direction."""

    def sized_traffic(self, direction: Direction, sizes: Sizes, seed: int = 1) -> Traffic:
        if isinstance(sizes, FrameMix):
            make = partial(self.traffic, direction, seed=seed)
            return frame_sizes.mixed_traffic(sizes, make, connections=self.stateful)
        return self.traffic(direction, sizes, seed)

    @abstractmethod
    def dut_intent(self) -> DeviceIntent:
        """Describe how a device must be configured for this traffic."""


class StatelessTechnology(Technology):
    """A technology that keeps no connections: its reference device answers each frame alone."""

    def forward(self, packets: U8) -> Answer:
        """Answer packets of the left link's IP version."""
        raise NotImplementedError

    def reverse(self, packets: U8) -> Answer:
        """Answer packets of the right link's IP version."""
        raise NotImplementedError

    def reference_device(self) -> ReferenceDevice:
        """Build the device with these parameters: both translations, and routing of other IPv6."""
        from v6t.plugins.reference_device import ReferenceDevice, route_all

        left, right = self.ip_versions
        routed = {6: route_all(6)}
        forward, reverse = {**routed, left: self.forward}, {**routed, right: self.reverse}
        return ReferenceDevice(self.links, forward, reverse)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        return self._device.expect(direction, frames)

    @cached_property
    def _device(self) -> ReferenceDevice:
        return self.reference_device()


def build_chain_intent(
    technology: str,
    parts: Sequence[Part],
    links: Links,
    alternatives: Sequence[Part] = (),
    configuration: DeviceConfig = CONFIGURATION,
) -> DeviceIntent:
    """Build the intent of a chain, or of a single device in its place that has a ``configuration``."""
    left, right = parts[0].intent.left, parts[-1].intent.right
    whole, others = (tuple(p.part_intent for p in some) for some in (parts, alternatives))
    return DeviceIntent(technology, configuration, links, left, right, whole, others)


def pick_params(model: type[_Params], whole: PluginParams, **own: Any) -> _Params:
    """Make the parameters of a part: all that the whole has by the same name, and its ``own``."""
    shared = type(whole).model_fields.keys() & model.model_fields.keys()
    return model(**{**{name: getattr(whole, name) for name in shared}, **own})


def describe_cable(left_mac: str, right_mac: str, mtu: int) -> tuple[Link, Link]:
    """Describe one cable between two parts, as the left one and as the right one sees it."""
    seen = Link(tester_mac=right_mac, dut_mac=left_mac, mtu=mtu)
    return seen, Link(tester_mac=left_mac, dut_mac=right_mac, mtu=mtu)
