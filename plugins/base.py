"""The contract of a technology plugin.

A plugin is pure: it computes frames and never sends one. Registered under the entry point group
``v6t.plugins``, it gives the whole machine (compiler, testers, procedures, report) its
technology through the members below. What is abstract or has no value here must be given;
everything else has a default. Instances are pickled into the reference device and the receivers
with their parameters only; what they prepare for themselves stays behind.

What technologies have in common is at hand: ``sizes`` beside this module, in ``common`` ``mixture``
(foreground, background and negative shares, headers), ``reference_device`` (one handler
per direction and IP version) and ``prefixes``; and in ``translation`` and ``tunnel``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from ipaddress import IPv4Address, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator
from v6t.base.strict_model import StrictModel
from v6t.intent.device import DeviceIntent, Link, Links, PartIntent
from v6t.packets.direction import Direction
from v6t.packets.reference import Expected, ReferenceTranslation
from v6t.plugins.addresses import refuse_unforwarded
from v6t.plugins.frame_sizes import frame_mix, mixed_traffic, routed_pair, translated_pair
from v6t.profiles.exchange import Exchange
from v6t.profiles.mixes import FrameMix, Sizes
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.audit_views import AuditView
    from v6t.profiles.dns.zone import Zone

__all__ = [
    "DeviceIntent",
    "DeviceRole",
    "Expected",
    "Link",
    "Links",
    "Part",
    "PluginParams",
    "ReferenceTranslation",
    "Technology",
]

Embedded = Mapping[str, tuple[IPv6Network, Sequence[IPv4Address]]]
"""Prefixes of RFC 6052 by parameter, with IPv4 addresses behind them."""


class PluginParams(StrictModel):
    """Base of every plugin's parameters: unknown names are errors, values never change."""

    measured: ClassVar[str] = "the technology"
    """What the foreground measures, in errors."""

    @field_validator("*")
    @classmethod
    def _of_hosts(cls, value: Any) -> Any:
        """Refuse addresses that no device forwards (RFC 1812 sections 5.2.2, 5.3.7; RFC 4291)."""
        refuse_unforwarded(value)
        return value

    @property
    def only_background(self) -> bool:
        """Whether nothing of the technology itself is measured (MIX-01)."""
        return False

    @property
    def embedded_addresses(self) -> Embedded:
        """IPv4 addresses that test frames have behind prefixes of RFC 6052."""
        return {}

    @property
    def mixture(self) -> tuple[int, int] | None:
        """N and m: so many of n frames are foreground (GEN-14); None: there is no such choice."""
        return None


@dataclass(frozen=True)
class DeviceRole:
    """One of the devices of a setup (DD-04).

    Attributes:
        name: for example ``CE``.
        stateful: whether it keeps connections.
        what: it is, in a word or two; empty: nothing beside the technology.
    """

    name: str
    stateful: bool
    what: str = ""


@dataclass(frozen=True)
class Part(PartIntent):
    """A part of a chain with its reference translation.

    Attributes:
        reference: translation of a part that keeps no connections.
        mirrored: whether the reference's left is the part's right.
    """

    reference: ReferenceTranslation | None = None
    mirrored: bool = False

    @property
    def part_intent(self) -> PartIntent:
        """What a device driver needs of it."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(PartIntent)}
        values["has_reference"] = self.reference is not None
        return PartIntent(**values)


class Technology(ReferenceTranslation):
    """One IPv6 transition technology, as seen by a tester around it."""

    name: ClassVar[str]
    """Name on the command line, for example ``mape-br``."""
    title: ClassVar[str]
    """One line for ``v6t plugins``."""
    rfcs: ClassVar[tuple[str, ...]]
    params_model: ClassVar[type[PluginParams]]
    overhead: ClassVar[int]
    """Octets the IPv6 frame is longer than the IPv4 frame: 20 translation, 40 encapsulation of
    IPv4, 0 where nothing grows, -20 encapsulation of IPv6 in IPv4."""
    sides: ClassVar[tuple[str, str]] = ("left", "right")
    """Who is on the left and who on the right link, for example ``CEs`` and ``server``."""
    native: ClassVar[bool] = False
    """Whether nothing is translated nor encapsulated: what others are set beside."""
    middle_version: ClassVar[int] = 6
    """IP version on the link between two devices, where there are two."""
    stateful: ClassVar[bool] = False
    """Whether it keeps connections; then it is a :class:`v6t.plugins.stateful.
    StatefulTechnology`."""
    exchange: ClassVar[Exchange] = "frames"
    """What a tester does with it: has frames forwarded, or names resolved. A technology of queries
    has a :attr:`zone` in place of traffic: see :class:`v6t.plugins.dns64.Resolving`."""
    modes: ClassVar[tuple[str, ...]] = ("bidirectional", "forward", "reverse")
    """Directions that are measured where none are named."""
    default_benchmarks: ClassVar[tuple[str, ...]] = ("throughput",)
    """What is measured where nothing is named."""
    default_driver: ClassVar[str | None] = None
    """The lab's device where none is named; None: the reference device, if it can be one."""
    drop_reasons: ClassVar[tuple[str, ...]] = ("forwarded",)
    default_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of the quick preset's demonstration; where none are given: the smallest of
    ``rfc_frame_sizes``."""
    spread: ClassVar[Mapping[str, Any]] = {}
    """Parameters with which the traffic's addresses vary, where they do not by default (GEN-12)."""
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of RFC 8219 section 5.1.1 that exist for this technology (GEN-04)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "rfc_frame_sizes" in cls.__dict__ and "default_frame_sizes" not in cls.__dict__:
            cls.default_frame_sizes = cls.rfc_frame_sizes[:1]

    def __init__(self, params: PluginParams | None = None, links: Links | None = None) -> None:
        self.params = self.params_model() if params is None else params
        self.links = links or Links()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle parameters only: what a plugin prepared from them is prepared again."""
        return type(self), (self.params, self.links)

    @property
    @abstractmethod
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """IP version of the foreground on the left and on the right link; a tunnel's is the outer.

        Usually a class attribute: ``ip_versions = (6, 4)``.
        """

    @property
    def roles(self) -> tuple[DeviceRole, ...]:
        """The devices from left to right."""
        return (DeviceRole(self.name, self.stateful),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What its devices are made of from left to right; empty where one driver is the whole."""
        return ()

    @property
    def hops(self) -> int:
        """Hops that a packet takes in its devices: as many as a TTL loses."""
        return 1

    @property
    def zone(self) -> Zone | None:
        """The names a tester asks for and answers for; None: frames are forwarded."""
        return None

    @property
    def cautions(self) -> tuple[str, ...]:
        """What must be said beside every result with these parameters."""
        return ()

    @property
    def combinations(self) -> int:
        """Connections the parameters have four-tuples for; 0 where none are kept."""
        return 0

    @property
    def most_sessions(self) -> int | None:
        """Sessions that the device is configured to hold; None: no limit is configured."""
        return None

    def check_limits(self) -> None:
        """Refuse a configured limit of each client that is smaller than what the client opens.

        Raises:
            UsageError: with the value that is large enough.
        """

    @property
    def responder_version(self) -> int:
        """IP version between device and Responder: what its table holds."""
        return self.ip_versions[1]

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Sizes on both sides for a listed (IPv6) frame size, FCS and VLAN tags included.

        Where both sides carry the same version, ``ipv6`` is the left frame's size and ``ipv4`` the
        right one's.

        Raises:
            UsageError: the size cannot exist for this technology or MTU (GEN-06).
        """
        left, right = self.links.left, self.links.right
        here, there = self.ip_versions
        if here == there:
            return routed_pair(ipv6_frame_size, left, right, here)
        six, four = (left, right) if here == 6 else (right, left)
        return translated_pair(ipv6_frame_size, self.overhead, six, four, self.params.measured)

    def sizes_of(self, listed: int | str) -> Sizes:
        """What a run's listed size is on both sides: of one frame, or of a mix (RFC 6985).

        Raises:
            UsageError: a size cannot exist for this technology or MTU (GEN-06).
        """
        if isinstance(listed, str):
            return frame_mix(listed, self.frame_pair)
        return self.frame_pair(listed)

    def side_sizes(self, sizes: FramePair) -> tuple[int, int]:
        """Octets of the tester's foreground frames on the left and on the right link."""
        if self.ip_versions == (4, 6):
            return sizes.ipv4, sizes.ipv6
        return sizes.ipv6, sizes.ipv4

    def audit_views(self) -> Sequence[AuditView]:
        """Return the roles of the device that an audit has clauses for; none: it has no clauses."""
        return ()

    def audit_params(self) -> Mapping[str, Any]:
        """Return parameters with which an audit covers more; those that the user sets take precedence."""
        return {}

    def audit_variants(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters of further configurations, by names of :mod:`v6t.plugins.audit_views`."""
        return {}

    @abstractmethod
    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and negative classes for one direction."""

    def sized_traffic(self, direction: Direction, sizes: Sizes, seed: int = 1) -> Traffic:
        """Its traffic, in one size or in several."""
        if isinstance(sizes, FrameMix):
            return mixed_traffic(
                sizes,
                lambda pair: self.traffic(direction, pair, seed),
                connections=self.stateful,
            )
        return self.traffic(direction, sizes, seed)

    @abstractmethod
    def dut_intent(self) -> DeviceIntent:
        """What a device must be configured to be for this traffic."""
