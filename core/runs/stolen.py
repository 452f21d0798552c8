"""CPU time that a hypervisor kept from this machine during trials: rates are those of what was left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from types import TracebackType

from v6t.trials.result import TrialResult

STAT = Path("/proc/stat")
STOLEN, FIELDS = 7, 8
"""Place of the stolen time among those that add up to all of it (proc_stat(5))."""
FIGURE = "stolen"
"""Its name among the figures of the tester: a share of the time of all CPUs."""
USUAL, MOMENT = 0.01, 0.05
"""Shares, of the median trial and of the worst, above which it is said beside the numbers."""


@dataclass
class Stolen:
    """Looks before and after a trial.

    Attributes:
        look: this machine is the tester's; else its time says nothing.
    """

    look: bool = True
    before: Sequence[int] = field(default=(), init=False)
    share: float | None = field(default=None, init=False)
    """None: the kernel does not say, or the trial was too short for its ticks."""

    def __enter__(self) -> Stolen:
        """Before the trial."""
        if self.look:
            self.before = _ticks()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """After it."""
        if not self.look:
            return
        spent = [now - then for then, now in zip(self.before, _ticks(), strict=False)]
        if len(spent) == FIELDS and sum(spent) > 0:
            self.share = spent[STOLEN] / sum(spent)

    def added_to(self, result: TrialResult) -> TrialResult:
        """Add this share to the figures of the tester."""
        if self.share is None:
            return result
        return replace(result, tester={**result.tester, FIGURE: round(self.share, 4)})


def share_of(result: TrialResult) -> float | None:
    """Of a trial; None: nobody looked."""
    share = result.tester.get(FIGURE)
    return float(share) if isinstance(share, (int, float)) else None


def words_on(shares: Sequence[float]) -> list[str]:
    """Warn of stolen CPU time; nothing where hardly any was stolen."""
    if not shares or (median(shares) < USUAL and max(shares) < MOMENT):
        return []
    return [
        f"the hypervisor kept {median(shares):.0%} of this machine's CPU time from it in the median "
        f"trial, {max(shares):.0%} in the worst: rates are those of what was left, and delays hold "
        "its pauses"
    ]


def _ticks() -> Sequence[int]:
    try:
        first = STAT.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return ()
    return [int(ticks) for ticks in first.split()[1 : FIELDS + 1]]
