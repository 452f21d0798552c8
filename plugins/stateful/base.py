"""What stateful technologies add to the contract: connections, and frames that belong to one.

Forward is from the Initiator (left) to the Responder (right). The forward foreground enumerates
four-tuples, so its first N frames are N connections; the reverse foreground is a template whose
addresses and ports come from the Responder's table (see ``v6t.drivers.oracle.replay``).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from v6t.packets.direction import Direction
from v6t.packets.headers import read_hops
from v6t.packets.reference import (
    EXHAUSTED,
    FORWARDED,
    NOT_FORWARDED,
    NOT_OURS,
    DropReason,
    Expected,
    list_drop_reasons,
)
from v6t.packets.walker import locate_endpoints
from v6t.plugins.base import Technology
from v6t.plugins.reference_device import (
    ETHERTYPE,
    LinkHeaders,
    ReferenceDevice,
    is_forwardable,
    link_headers,
    route_all,
)
from v6t.plugins.stateful.four_tuples import Field, consecutive
from v6t.plugins.stateful.params import ConnectionParams
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed
from v6t.plugins.tunnels import UNMARKABLE
from v6t.profiles.model import FramePair, Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from ipaddress import IPv6Address

    from v6t.packets.arrays import U8, Mask


class StatefulDrop(DropReason):
    """Why a stateful technology drops a frame."""

    NO_CONNECTION = "belongs to no connection"
    OUTSIDE_POOL = "outside the public addresses and ports"
    UNMARKED = UNMARKABLE


_HEADER = {4: ("IP", ipv4), 6: ("IPv6", ipv6)}
"""scapy's name of a header, and what makes it."""


class StatefulTechnology(Technology):
    """A device that makes a state for every connection."""

    stateful = True
    sides = ("Initiator", "Responder")
    drop_reasons: ClassVar[tuple[str, ...]] = list_drop_reasons(StatefulDrop)
    mapping: ClassVar[str] = ""
    """What the technology's RFC asks of address and port mapping, for the report (ST-15)."""
    usual_timeout_s: ClassVar[float] = 300.0
    """UDP connections live so long unless the device is told otherwise: RFC 4787 section 4.3
    recommends 5 minutes (the same as RFC 6146 section 4)."""
    params: ConnectionParams

    @property
    def combinations(self) -> int:
        """Connections there are four-tuples for."""
        return self.params.combinations

    @property
    def endpoints(self) -> int:
        """Number of pairs of address and port of the Initiator.

        With endpoint-independent mapping, all connections together need as many BIB entries.
        """
        return self.params.endpoints

    @property
    def most_sessions(self) -> int | None:
        """The parameter of the device's table."""
        return self.params.most_sessions

    def check_limits(self) -> None:
        """The clients' limits are parameters."""
        self.params.check_limits()

    @property
    def ends(self) -> tuple[IPv6Address, IPv6Address] | None:
        """Background addresses left and right; None: there is no background (MIX-03)."""
        return None

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """The Initiator's connections or the Responder's template, and background."""
        self.check_traffic(direction, sizes)
        foreground = (
            self.initiator(sizes, seed) if direction == "forward" else self.responder(sizes)
        )
        behind = []
        if self.ends is not None:
            behind = background_of(
                self.params, self.links, direction, sizes, self.ends, self.links.left
            )
        return mixed(self.params, direction, [(foreground, 1)], behind, [], 0, seed)

    def address_fields(self) -> list[Field]:
        """Destination and source of the Initiator's frames; each takes all its addresses."""
        p, name = self.params, _HEADER[self.ip_versions[0]][0]
        return [
            consecutive("responders", f"{name}.dst", p.server, p.responder_count),
            consecutive("initiators", f"{name}.src", p.initiator, p.initiator_count),
        ]

    def client_layers(self) -> tuple[Layer, ...]:
        """Headers of the Initiator's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[0]][1](p, p.initiator, p.server),)

    def server_layers(self) -> tuple[Layer, ...]:
        """Headers of the Responder's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[1]][1](p, p.responder, p.public.first),)

    def client_transport(self) -> Layer:
        """The header with the Initiator's and the Responder's port; of ICMP, the query."""
        p = self.params
        return Layer(p.transport, {"sport": p.initiator_ports.min, "dport": p.responder_ports.min})

    def server_transport(self) -> Layer:
        """The same of the Responder's frames; of ICMP, the answer."""
        p = self.params
        return Layer(p.transport, {"sport": p.responder_ports.min, "dport": p.public.ports.min})

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Refuse frames that a correct device would not forward whole."""

    def initiator(self, sizes: FramePair, seed: int) -> TrafficClass:
        """Class ``fg`` of the forward direction: every connection once per cycle."""
        p = self.params
        variables, bindings = p.varied(self.address_fields(), seed)
        return TrafficClass(
            "fg",
            Role.FOREGROUND,
            (
                *ethernet(self.links, "forward"),
                *self.client_layers(),
                self.client_transport(),
            ),
            self.side_sizes(sizes)[0],
            tuple(variables),
            tuple(bindings),
        )

    def responder(self, sizes: FramePair) -> TrafficClass:
        """Class ``fg`` of the reverse direction: a template without variables."""
        layers = (
            *ethernet(self.links, "reverse"),
            *self.server_layers(),
            self.server_transport(),
        )
        return TrafficClass("fg", Role.FOREGROUND, layers, self.side_sizes(sizes)[1])

    @abstractmethod
    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """What a correct device makes of packets of known connections.

        Args:
            direction: which way.
            packets: ``(n, length)`` IP packets as sent.
            initial: ``(n, length)`` IP packets with which the Initiator opened the connections.
            learned: ``(n, 12)`` or ``(n, 36)`` rows of the Responder's table.
        """

    def connected(self, direction: Direction, frames: U8, initial: U8, learned: U8) -> Expected:
        """The reference translation of frames that belong to known connections.

        Args:
            direction: which way.
            frames: ``(n, length)`` as sent.
            initial: ``(n, length)`` frames that opened the connections.
            learned: ``(n, octets)`` rows of the Responder's table.
        """
        if not len(frames):
            return Expected(frames, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        left, right = self._sides
        here, there = (left, right) if direction == "forward" else (right, left)
        translation = self.translate(
            direction, frames[:, here.l3 :], initial[:, left.l3 :], learned
        )
        head = np.frombuffer(there.leaving + ETHERTYPE[translation.version], dtype=np.uint8)
        out = np.empty((len(frames), len(head) + translation.packets.shape[1]), dtype=np.uint8)
        out[:, : len(head)] = head
        out[:, len(head) :] = translation.packets
        reason = translation.reason.copy()
        version = self.ip_versions[0 if direction == "forward" else 1]
        reason[~is_forwardable(frames[:, here.l3 :], version)] = NOT_FORWARDED
        reason[~here.is_destination(frames)] = NOT_OURS
        reason[(reason == FORWARDED) & _exhausted(frames, out)] = EXHAUSTED
        length = np.where(reason == FORWARDED, out.shape[1], 0).astype(np.int32)
        return Expected(out, length, reason)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Without a connection only native IPv6 is forwarded."""
        return self._native.expect(direction, frames)

    @cached_property
    def _sides(self) -> tuple[LinkHeaders, LinkHeaders]:
        return link_headers(self.links.left), link_headers(self.links.right)

    @cached_property
    def _native(self) -> ReferenceDevice:
        handlers = {6: route_all(6)}
        return ReferenceDevice(self.links, handlers, handlers)


def _exhausted(before: U8, after: U8) -> Mask:
    """Rows whose TTL or hop limit ends on the way: it became 0, or passed it.

    In a tunnel the inner one counts.
    """
    entered, left = _hops(before), _hops(after)
    ended: Mask = (left == 0) | (left > entered)
    return ended


def _hops(frames: U8) -> U8:
    version, at = locate_endpoints(frames[0]).networks[-1]
    return read_hops(frames, version, at)


@dataclass(frozen=True)
class Packets:
    """Packets that leave a device.

    Attributes:
        packets: ``(n, length)`` uint8.
        version: of IP.
        reason: ``(n,)`` uint8, 0 where it is forwarded.
    """

    packets: U8
    version: int
    reason: U8
