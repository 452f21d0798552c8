"""Protocols of testers: TRex, the embedded and the simulated tester."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from v6t.base.errors import TesterError
from v6t.drivers.device import DeviceSession, StateDevice
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.reference import Expected, ReferenceTranslation
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections, TcpCounts
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import Capability, Trial, list_directions

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.profiles.dns.zone import Zone


class Oracle(ReferenceTranslation, Protocol):
    """A reference translation with a zone for DNS queries; technology plugins implement it."""

    @property
    def zone(self) -> Zone | None:
        """Zone with the names for DNS queries; None if the technology forwards frames."""


class OracleDecorator(ABC):
    """Oracle that changes the frames of another one, for an implementation or a chain."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    @property
    def header_policy(self) -> HeaderPolicy:
        return self.oracle.header_policy

    @property
    def zone(self) -> Zone | None:
        return self.oracle.zone

    @abstractmethod
    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Return the expected frames of the inner oracle, changed by this one."""


class Tester(Protocol):
    """Sends and counts frames: opened once, loaded for each set of streams, and always closed."""

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Capabilities beyond counting frames (``Trial.required_capabilities``)."""

    def open(self) -> None:
        """Acquire ports and start processes.

        Raises:
            EnvironmentLacking: a permission, kernel feature or program is missing.
            TesterError: the tester could not be started.
        """

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        """Replace the streams of each direction and the oracle for received frames.

        Without streams the tester queries and serves ``oracle.zone``: trials have ``queries``.
        """

    def measure(self, trial: Trial) -> TrialResult:
        """Run one trial with the loaded streams and wait for its end."""

    def device_state(self) -> StateDevice | None:
        """Return the device that the tester set up, to read and flush its state table; None without one."""

    def device_session(self) -> DeviceSession | None:
        """Return the session with a driven device that the tester set up, or None."""

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest: kind, versions, interfaces, options."""

    def close(self) -> None:
        """Stop traffic and release all resources; may be called twice and after a failure."""


TCP_CLASS = "tcp"  # Name of the only traffic class of trials with TCP connections
PHASE_NAMES: Mapping[Direction, str] = {"forward": "phase 1", "reverse": "the validation"}


def describe_stale_frames(stale: int, direction: Direction) -> tuple[str, ...]:
    """Return the fault of a phase in which frames of an earlier trial arrived.

    They are not counted, but may have opened connections in the device.
    """
    text = f"{stale} frames of an earlier trial arrived in {PHASE_NAMES[direction]}"
    return (text,) if stale else ()


def select_directions(trial: Trial, loaded: Container[Direction]) -> list[Direction]:
    """Return the directions of a trial; raise TesterError if no streams are loaded for one."""
    directions = [d for d in DIRECTIONS if d in list_directions(trial.mode)]
    if any(direction not in loaded for direction in directions):
        raise TesterError(f"no streams are loaded for a {trial.mode} trial", code="not-loaded")
    return directions


@dataclass(frozen=True)
class PhaseCounts:
    """Counts of phase 1, or of the validation after it."""

    result: DirectionResult
    """Counts of the phase's one class; in phase 1, ``received`` are learned connections."""
    start_s: float  # time of the first frame, by :meth:`StatefulTester.read_clock`
    _: KW_ONLY
    end_s: float = math.nan  # End of the last frame's slot; by default, start plus sending time
    duplicate_tuples: int = 0  # Connections with the outside four-tuple of another one
    inside_endpoints: int | None = None
    outside_endpoints: int | None = None
    """Numbers of distinct initiator endpoints before and behind the device (phase 1)."""
    example: Mapping[str, Any] | None = None  # Two connections with one four-tuple
    faults: tuple[str, ...] = ()
    started: str = ""  # Wall clock time of the first frame, ISO 8601, UTC
    health: Mapping[str, Any] | None = None  # Figures of the tester, free form
    tcp: TcpCounts | None = None  # Outcomes of the TCP connections so far

    def __post_init__(self) -> None:
        """Set the end of the last frame's slot."""
        if math.isnan(self.end_s):
            object.__setattr__(self, "end_s", self.start_s + self.result.sending_time_s)


class StatefulTester(Tester, Protocol):
    """A tester with the capability ``connections`` (RFC 9693): capture, learn, replay.

    :class:`v6t.drivers.oracle.two_phase.TwoPhaseTester` alone calls these methods. It empties and counts
    the device's table, and checks the device's timeout. Each :meth:`Tester.load` forgets the connections.

    *Streams.* Each direction has one foreground stream, whose frames belong to connections. Frame k of
    the forward foreground, counted from 0 over all cores (frame j of core c of C is frame ``C * j + c``), is
    connection k: the stream enumerates every four-tuple once, in the order the technology asks for, and
    then begins again. The reverse foreground is a template without variables.

    *Table.* Row k holds connection k: source and destination address and ports as octets of the frame
    that left the device (:class:`v6t.drivers.oracle.state_table.StateTable`). A frame is known to be
    connection k by what the tester stamped into it, never by its addresses. The first frame of a
    connection counts, further ones are ``surplus``; a row that is not learned stays zero.

    *Phase 2*, :meth:`Tester.measure` of a trial with ``connections``: the Initiator sends frame
    ``n mod count`` of its stream as n-th foreground frame. The Responder's n-th foreground frame is its
    template with a learned row, source and destination swapped (:class:`v6t.drivers.oracle.replay.Replay`);
    :class:`v6t.drivers.oracle.replay.ConnectionOrder` tells which row, by ``connections.entries`` and
    ``.reading``. The oracle is that of :func:`v6t.drivers.oracle.connection_oracle.make_connection_oracle`.

    *TCP*, of testers with the capability ``tcp``, where ``connections.tcp`` is given: phase 1 opens
    connection k from the four-tuple of frame k and counts those that are open on both sides; the validation
    asks for an object in each of them; :meth:`disconnect` ends them.
    """

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """Run phase 1 with an empty table.

        After ``trial.pause_s`` the first ``connections.count`` frames of the forward foreground
        leave at ``connections.rate_cps``, without background and nothing in reverse; late frames
        have ``connections.wait_s``. Of the trial only frame sizes and pause have a meaning.

        Returns:
            The counts of the forward foreground. Frames that the tester lost are ``faults``, never
            missing connections.
        """

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """Send one frame from outside in each connection of the last :meth:`establish`.

        Row 0, 1, ... once each, at ``connections.alpha * connections.rate_cps``, nothing else
        in either direction, then ``connections.wait_s``.

        Returns:
            The counts of the reverse foreground: ``received`` are the frames that reached the Initiator.
        """

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """End the TCP connections of the last :meth:`establish`, at ``connections.rate_cps``.

        Resets end every attempted connection; FINs end the open ones.
        """

    def wait(self, seconds: float) -> None:
        """Wait by the tester's clock."""

    def read_clock(self) -> float:
        """Return the time of the tester's clock, or the virtual time of a simulated one [s]."""
