"""The contract of a technology plugin.

A plugin is pure: it computes frames and never sends one. Registered under the entry point group
``v6t.plugins``, it gives the whole machine (compiler, testers, procedures, report) its
technology through the five members below. Instances are pickled into the reference device and
the receivers with their parameters only; what they prepare for themselves stays behind.

What technologies have in common is at hand beside this module: ``mixture`` (foreground,
background and negative shares, headers), ``sizes``, ``device`` (a reference device of one handler
per direction and IP version), ``prefixes``, ``addressing``, ``translate`` and ``tunnel``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from v6t.profiles.headerpolicy import HeaderPolicy
from v6t.profiles.model import Direction, FramePair, Traffic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PluginParams(BaseModel):
    """Base of every plugin's parameters: unknown names are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Link:
    """One cable between tester and device.

    Attributes:
        tester_mac, dut_mac: Ethernet addresses of its two ends.
        vlan: IEEE 802.1Q identifier 1..4094, or None for untagged frames.
        mtu: octets of IP packet the link carries.
    """

    tester_mac: str
    dut_mac: str
    vlan: int | None = None
    mtu: int = 1500


@dataclass(frozen=True)
class Links:
    """Left and right link: the IPv6 and the IPv4 side of a single translation.

    Technologies without two sides, or with another orientation, say which link carries what.
    """

    left: Link = Link("02:00:00:00:01:02", "02:00:00:00:01:01")
    right: Link = Link("02:00:00:00:02:02", "02:00:00:00:02:01")


@dataclass(frozen=True)
class Expected:
    """What a correct device emits for a batch of frames.

    Attributes:
        frames: ``(n, longest)`` uint8, Ethernet header on, FCS off; row i answers input row i.
        length: ``(n,)`` int32, octets of row i that count; 0 means "dropped".
        reason: ``(n,)`` uint8, index into the plugin's ``drop_reasons`` (0: not dropped).
    """

    frames: NDArray[np.uint8]
    length: NDArray[np.int32]
    reason: NDArray[np.uint8]


@dataclass(frozen=True)
class DutIntent:
    """What the device must be configured to be, in no vendor's words.

    Attributes:
        technology: the plugin's name.
        settings: technology parameters (rules, prefixes, pools), JSON-like values.
        left, right: per link ``{"addresses": [...], "neighbours": {address: mac},
            "routes": {prefix: via}}``.
        links: MAC addresses, VLANs and MTUs.
    """

    technology: str
    settings: Mapping[str, Any]
    links: Links
    left: Mapping[str, Any] = field(default_factory=dict)
    right: Mapping[str, Any] = field(default_factory=dict)


class Technology(ABC):
    """One IPv6 transition technology, as seen by a tester around it."""

    name: ClassVar[str]
    """Name on the command line, for example ``mape-br``."""
    title: ClassVar[str]
    """One line for ``v6t plugins``."""
    rfcs: ClassVar[tuple[str, ...]]
    params_model: ClassVar[type[PluginParams]]
    stateful: ClassVar[bool] = False
    overhead: ClassVar[int]
    """Octets the IPv6 frame is longer than the IPv4 frame (20 translation, 40 encapsulation, 0)."""
    drop_reasons: ClassVar[tuple[str, ...]] = ("forwarded",)
    default_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of the quick preset's demonstration."""
    spread: ClassVar[Mapping[str, Any]] = {}
    """Parameters with which the traffic's addresses vary, where they do not by default (GEN-12)."""
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = ()
    """IPv6 frame sizes of RFC 8219 section 5.1.1 that exist for this technology (GEN-04)."""

    def __init__(self, params: PluginParams, links: Links | None = None) -> None:
        self.params = params
        self.links = links or Links()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle parameters only: what a plugin prepared from them is prepared again."""
        return type(self), (self.params, self.links)

    @property
    def header_policy(self) -> HeaderPolicy:
        """Which header fields of expected frames may have other values; see the class."""
        return HeaderPolicy()

    @abstractmethod
    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Sizes on both sides for a listed (IPv6) frame size, FCS included.

        Where nothing is translated, ``ipv6`` is the left frame's size and ``ipv4`` the right
        one's. :mod:`v6t.plugins.common.sizes` has both computations.

        Raises:
            UsageError: the size cannot exist for this technology or MTU (GEN-06).
        """

    @abstractmethod
    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and negative classes for one direction."""

    @abstractmethod
    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation of equally long frames, ``(n, length)`` uint8, FCS off."""

    @abstractmethod
    def dut_intent(self) -> DutIntent:
        """What a device must be configured to be for this traffic."""
