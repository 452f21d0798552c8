"""What every tester can do: TRex, the embedded tester and the simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from v6t.procedures.trial import Ability, Trial, TrialResult
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


def abilities_of(tester: Tester) -> frozenset[Ability]:
    """What a tester can do beyond counting: its attribute ``abilities``; none if it has none.

    See :attr:`v6t.procedures.trial.Trial.needs`. A run asks before any traffic.
    """
    found: frozenset[Ability] = getattr(tester, "abilities", frozenset())
    return found
