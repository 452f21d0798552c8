"""What every tester can do: TRex, the embedded tester and the simulated one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from v6t.drivers.device import DeviceSession, StateDevice
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.tcp import TcpCounts
from v6t.trials.trial import Capability, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.profiles.dns.zone import Zone


class ExpectedFrames(Protocol):
    """What :meth:`Oracle.expect` returns (see ``v6t.plugins.base.Expected``)."""

    @property
    def frames(self) -> NDArray[np.uint8]:
        """``(n, longest)`` uint8."""

    @property
    def length(self) -> NDArray[np.int32]:
        """``(n,)`` octets of each row that count, 0: dropped."""


class ReferenceTranslation(Protocol):
    """Knows the frame a correct device emits, or a part of one. Picklable."""

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> ExpectedFrames:
        """Reference translation of ``(n, length)`` uint8 frames."""


class Oracle(ReferenceTranslation, Protocol):
    """Knows also what such a frame may look like otherwise; a technology plugin is one."""

    @property
    def header_policy(self) -> HeaderPolicy:
        """Which fields of that frame may have other values."""

    @property
    def zone(self) -> Zone | None:
        """The names that are asked and answered in place of frames; None: frames are forwarded."""


class OracleDecorator(ABC):
    """An oracle around another one: what an implementation, or a chain, does to its frames."""

    def __init__(self, oracle: Oracle) -> None:
        """Args: oracle: what is around the technology, or the technology itself."""
        self.oracle = oracle

    @property
    def header_policy(self) -> HeaderPolicy:
        """The technology's."""
        return self.oracle.header_policy

    @property
    def zone(self) -> Zone | None:
        """The technology's."""
        return self.oracle.zone

    @abstractmethod
    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> ExpectedFrames:
        """The inner oracle's frames with the differences."""


class Tester(Protocol):
    """Sends and counts. Opened once, loaded per traffic, measured per trial, closed always."""

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond counting (:attr:`v6t.trials.trial.Trial.needs`)."""

    def open(self) -> None:
        """Take ports, start processes.

        Raises:
            EnvironmentLacking: a permission, kernel feature or program is missing.
            TesterError: the tester could not be started.
        """

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        """Replace what is sent in each direction and who judges what comes back.

        Without streams ``oracle.zone`` is asked and answered: trials have ``queries``.
        """

    def measure(self, trial: Trial) -> TrialResult:
        """Run one trial with the loaded streams and wait for its end."""

    def device_state(self) -> StateDevice | None:
        """How connections of a device that it has set up itself are emptied and counted."""

    def device_session(self) -> DeviceSession | None:
        """The session with a driven device that it has set up itself."""

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest: kind, versions, interfaces, options."""

    def close(self) -> None:
        """Stop traffic, give everything back. May be called twice and after a failure."""


PHASE_NAMES: Mapping[Direction, str] = {"forward": "phase 1", "reverse": "the validation"}


def describe_stale_frames(stale: int, direction: Direction) -> tuple[str, ...]:
    """Return the fault of a phase in which frames of an earlier trial arrived.

    They are not counted, but may have opened connections in the device.
    """
    return (
        (f"{stale} frames of an earlier trial arrived in {PHASE_NAMES[direction]}",)
        if stale
        else ()
    )


@dataclass(frozen=True)
class PhaseCounts:
    """Phase 1, or the validation after it.

    Attributes:
        result: frames of its one class: phase 1 counts learned connections as ``received``.
        began_s, ended_s: first frame, and end of the last one's slot, by the tester's clock.
        repeated: connections with the outside four-tuple of another one (phase 1).
        inside, outside: distinct initiator endpoints before and behind the device (phase 1).
        example: two connections with one four-tuple.
        faults: of the tester.
        started: wall clock time of the first frame, ISO 8601, UTC.
        health: figures of the tester, free form.
        tcp: every connection of TCP so far, by what became of it.
    """

    result: DirectionResult
    start_s: float
    end_s: float
    duplicate_tuples: int = 0
    inside_endpoints: int | None = None
    outside_endpoints: int | None = None
    example: Mapping[str, Any] | None = None
    faults: tuple[str, ...] = ()
    started: str = ""
    health: Mapping[str, Any] | None = None
    tcp: TcpCounts | None = None


class StatefulTester(Tester, Protocol):
    """A tester with the ability ``connections`` (RFC 9693): capture, learn, replay.

    Everybody else keeps out of the tester: :class:`v6t.drivers.oracle.two_phase.TwoPhaseTester` calls these
    methods in order, empties the device's table and counts it, compares the counts, and checks
    the device's timeout before each trial and the gap between the phases after it.

    *Streams.* Each direction loaded with :meth:`Tester.load` has one foreground stream; that one
    belongs to connections (:func:`v6t.drivers.oracle.connection_oracle.foreground`), background does
    not. Frame k of the forward foreground, counted from 0 over all cores (frame j of core c of C is frame
    ``C * j + c``), is connection k: the stream as compiled enumerates every four-tuple once, in
    the order the technology asks for, and then begins again. The reverse foreground is a template
    without variables.

    *Table.* One row per connection, row k for connection k: source and destination address and
    ports as octets of the frame that left the device (:class:`v6t.drivers.oracle.state_table.StateTable`,
    12 octets for IPv4). A frame is known to be connection k by what the tester stamped into it,
    never by its addresses: those are what is to be learned. The first frame of a connection
    counts, further ones are ``surplus``; a row that is not learned stays zero.

    *Phase 2*, :meth:`Tester.measure` of a trial with ``connections``: the Initiator sends frame
    ``n mod count`` of its stream as n-th foreground frame. The Responder's n-th foreground frame
    is its template with the addresses and ports of a learned row, source and destination swapped,
    checksums valid (:class:`v6t.drivers.oracle.replay.Replay`); which row, says
    :class:`v6t.drivers.oracle.replay.Order` with ``connections.entries`` (None: all) and
    ``connections.reading``: ``linear`` is row ``n mod entries``, ``fixed`` always row 0,
    ``pseudorandom`` any order that uses all rows alike (a tester that sends value lists may cycle
    through a shuffled list). Trials whose table was not filled never come here. Counts, delays,
    comparison (through :func:`v6t.drivers.oracle.connection_oracle.connecting`) and faults are those of any
    other trial.

    A new :meth:`Tester.load` forgets the table, and so may :meth:`Tester.measure` of a trial
    without connections.

    *TCP*, of testers with the ability ``tcp``: the same methods where ``connections.tcp`` is given. Phase
    1 opens connection k from the four-tuple of frame k and counts those that are open on both sides;
    the validation asks for an object in each of them; :meth:`disconnect` ends them.
    """

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """Phase 1: a fresh table, filled.

        After ``trial.pause_s`` the first ``connections.count`` frames of the forward foreground
        leave at ``connections.rate_cps``, without background and nothing in reverse; late frames
        have ``connections.wait_s``. Of the trial only frame sizes and pause have a meaning.

        Returns:
            ``result`` with the one foreground class: ``required`` is the count, ``received`` the
            connections that were learned; ``repeated``, ``inside``, ``outside`` and ``example``
            from the table; ``began_s`` and ``ended_s`` by :meth:`now`. Frames the tester itself
            lost are ``faults``, never missing connections.
        """

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """One frame from outside in each connection of the last :meth:`establish`.

        Row 0, 1, ... once each, at ``connections.alpha * connections.rate_cps``, nothing else
        in either direction, then ``connections.wait_s``.

        Returns:
            ``result`` with the one foreground class of the reverse direction, ``received`` being
            the connections whose frame reached the Initiator.
        """

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """End the connections of TCP of the last :meth:`establish`, at ``connections.rate_cps``.

        By resets every one that was attempted; by FIN those that are open. ``tcp`` holds all counts.
        """

    def wait(self, seconds: float) -> None:
        """Let the tester's time pass."""

    def now(self) -> float:
        """The tester's clock [s]; virtual time where the tester is simulated."""
