"""What every tester can do: TRex, the embedded tester and the simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from v6t.procedures.tracking import Connections
from v6t.procedures.trial import Ability, DirectionResult, Trial, TrialResult
from v6t.profiles.model import Direction
from v6t.profiles.streams import StreamSet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Answer(Protocol):
    """What :meth:`Judge.expect` returns (see ``v6t.plugins.base.Expected``)."""

    @property
    def frames(self) -> NDArray[np.uint8]:
        """``(n, longest)`` uint8."""

    @property
    def length(self) -> NDArray[np.int32]:
        """``(n,)`` octets of each row that count, 0: dropped."""


class Judge(Protocol):
    """Knows the frame a correct device emits; a technology plugin is one. Picklable."""

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Answer:
        """Reference translation of ``(n, length)`` uint8 frames."""


class Tester(Protocol):
    """Sends and counts. Opened once, loaded per traffic, measured per trial, closed always."""

    name: str

    def open(self) -> None:
        """Take ports, start processes.

        Raises:
            EnvironmentLacking: a permission, kernel feature or program is missing.
            TesterError: the tester could not be started.
        """

    def load(self, streams: Mapping[Direction, StreamSet], judge: Judge) -> None:
        """Replace what is sent in each direction and who judges what comes back."""

    def measure(self, trial: Trial) -> TrialResult:
        """Run one trial with the loaded streams and wait for its end."""

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest: kind, versions, interfaces, options."""

    def close(self) -> None:
        """Stop traffic, give everything back. May be called twice and after a failure."""


@dataclass(frozen=True)
class Phase:
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
    """

    result: DirectionResult
    began_s: float
    ended_s: float
    repeated: int = 0
    inside: int | None = None
    outside: int | None = None
    example: Mapping[str, Any] | None = None
    faults: tuple[str, ...] = ()
    started: str = ""
    health: Mapping[str, Any] | None = None


class StatefulTester(Tester, Protocol):
    """A tester with the ability ``connections`` (RFC 9693).

    Capture, learn, replay: :meth:`establish` sends the first N frames of the forward foreground
    and remembers what came out (:mod:`v6t.drivers.statetable`); :meth:`validate` sends one frame
    of the reverse foreground in each connection; :meth:`Tester.measure` with a trial that has
    ``connections`` sends only in them, both ways. Emptying and counting the device's table is not
    the tester's business: see :mod:`v6t.drivers.preparing`.
    """

    def establish(self, trial: Trial, connections: Connections) -> Phase:
        """Phase 1, after the trial's pause; returns when late frames have had their time."""

    def validate(self, trial: Trial, connections: Connections) -> Phase:
        """One frame from outside in each connection of the last :meth:`establish`."""

    def now(self) -> float:
        """The tester's clock [s]; virtual time where the tester is simulated."""


def abilities_of(tester: Tester) -> frozenset[Ability]:
    """What a tester can do beyond counting: its attribute ``abilities``; none if it has none.

    See :attr:`v6t.procedures.trial.Trial.needs`. A run asks before any traffic.
    """
    found: frozenset[Ability] = getattr(tester, "abilities", frozenset())
    return found
