"""A search with the answer of the binary search for a fraction of its trial seconds.

The binary search of RFC 2544 runs every step for the full trial. This one finds the place with
short trials and spends full ones only where they decide:

1. A trial that loses tells more than "too fast": what arrived is an estimate of what the device
   forwards. The search starts at the upper bound and follows these estimates down, so it meets
   the highest rate that passes and not a lower edge of a device that is not monotonic.
2. Loss in a short trial fails a rate, as the full trial holds the short one. A *pass* of a short
   trial proves nothing: the reported rate has always passed a full trial.
3. Where a full trial fails although the short one passed (buffers hide overload for a while, rare
   loss takes its time), the following probes run longer.
4. A loss too small to say that the rate is wrong by more than the resolution is verified by one
   more trial of the same length (binary search with loss verification, ETSI GS NFV-TST 009,
   RFC 9004): a stray burst does not end the search far below the truth.

Every repetition starts anew and uses nothing of the repetitions before it, so that their spread
is the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from v6t.procedures.search.binary import SearchResult, Step, ended, widest_fps
from v6t.procedures.validity import Verdict

SHARES = (1 / 30, 1 / 6, 1.0)
"""Lengths of the probes as shares of the full trial."""

MOST_TRIALS = 120
"""Trials of one search at most; a search that needs more meets a device that has no throughput."""

MARGIN = 1 / 64
"""How far below an estimate a rate is offered, as a share of the resolution."""

TryFor = Callable[[float, float, str], Verdict]
"""Offers a rate [fps] for a share of the full duration; the third argument names the step."""


@dataclass
class _Search:
    """State of one search.

    Attributes:
        low: highest rate that passed a full trial.
        soft: highest rate that passed a probe of the present length since the last surprise.
        high: lowest rate that failed.
        level: index of the present probe length.
        hint: what the last failing trial forwarded.
        stride: width of the next blind step.
        asked: the resolution as it was asked for.
    """

    try_for: TryFor
    upper: float
    asked: float
    on_step: Callable[[Step], None] | None
    steps: list[Step]
    low: float = 0.0
    soft: float = 0.0
    high: float = 0.0
    level: int = 0
    hint: float | None = None
    stride: float = 0.0
    hints: list[float] = field(default_factory=list)

    def offer(self, rate: float, level: int) -> bool:
        name = f"s{len(self.steps):02d}"
        verdict = self.try_for(rate, SHARES[level], name)
        passed = verdict.passed
        full = level == len(SHARES) - 1
        low = max(self.low, rate) if passed and full else self.low
        high = self.high if passed else min(self.high, rate)
        self.steps.append(Step(name, rate, verdict, low, high))
        if self.on_step is not None:
            self.on_step(self.steps[-1])
        self.hint = None
        if not passed and verdict.valid:
            # a trial sends whole frames: just below the estimate none is lost to rounding
            self.hint = rate * (1 - _worst(verdict)) - self.resolution * MARGIN
        if self.hint is not None and not full:
            self.hints.append(self.hint)
            self.stride = max(self.stride, self.spread / 4)
        return passed

    @property
    def resolution(self) -> float:
        """How wide a bracket may end the search, by where it is [fps]."""
        return widest_fps(self.asked, self.high)

    @property
    def ended(self) -> bool:
        """The bracket is as narrow as asked, or nothing passed down to where it is looked for."""
        return ended(self.low, self.high, self.asked)

    @property
    def spread(self) -> float:
        """How far apart the estimates of the probes are: a steady device's agree [fps]."""
        return max(self.hints) - min(self.hints) if self.hints else 0.0

    def small_loss(self, rate: float) -> bool:
        """Whether the loss just seen fits a rate that is right to within the resolution."""
        return self.hint is not None and self.hint > rate - self.resolution


def fast_search(
    try_for: TryFor,
    *,
    upper_fps: float,
    resolution_fps: float,
    on_step: Callable[[Step], None] | None = None,
) -> SearchResult:
    """Find the highest passing rate; it has passed a trial of full length.

    Args:
        try_for: runs a trial (with retries, if the caller wants them) and judges it.
        upper_fps: highest rate that makes sense [fps].
        resolution_fps: the rate reported and one that failed are no further apart [fps]; nearer
            where the device is slow (:func:`~v6t.procedures.search.binary.widest_fps`).
        on_step: told of every step.

    Raises:
        ValueError: a bound or resolution that is not positive.
    """
    if upper_fps <= 0 or resolution_fps <= 0:
        raise ValueError("upper bound and resolution must be positive")
    s = _Search(try_for, upper_fps, resolution_fps, on_step, [], high=upper_fps)
    s.stride = resolution_fps
    last = len(SHARES) - 1
    if s.offer(upper_fps, 0) and s.offer(upper_fps, last):
        return SearchResult(upper_fps, None, True, tuple(s.steps))
    while not s.ended and len(s.steps) < MOST_TRIALS:
        if s.high - s.soft <= s.resolution and s.soft > s.low:
            _confirm(s, last)
        else:
            _probe(s, last)
    return SearchResult(s.low, s.high, False, tuple(s.steps))


def _probe(s: _Search, last: int) -> None:
    """One step at the present length."""
    rate = _next_rate(s, max(s.low, s.soft))
    # a shorter trial first: where it fails, the full one need not be run
    if s.level == last and not s.offer(rate, last - 1):
        s.high = rate
    elif s.offer(rate, s.level):
        s.soft = rate
        if s.level == last:
            s.low = rate
    else:
        s.high = rate


def _confirm(s: _Search, last: int) -> None:
    """A full trial where the probes have pointed; a failure lengthens the probes.

    A loss that says the rate is right to within the resolution is verified at the estimate; a
    device whose capacity varies from trial to trial is asked the same again.
    """
    rate = s.soft
    if s.offer(rate, last):
        s.low = rate
        return
    hint = s.hint
    if s.small_loss(rate):
        again = hint
    elif s.spread > s.resolution:
        again = rate
    else:
        again = None
    if again is not None and again > s.low and s.offer(again, last):
        s.low = again
        s.high = s.high if again == rate else rate
        s.soft = again
        return
    s.hint = hint if s.hint is None or hint is None else (hint + s.hint) / 2
    s.high = rate if again is None else again
    s.soft = s.low
    s.level = min(s.level + 1, last)
    s.stride = max(s.resolution, s.spread / 4)


def _next_rate(s: _Search, base: float) -> float:
    """Where to look between the highest pass and the lowest failure.

    The estimate of the last failure if it lies well inside; otherwise, next to the end that is
    known better, in growing steps; never beyond the middle of the bracket from that end.
    """
    middle = (base + s.high) / 2
    if s.hint is not None:
        if base < s.hint < s.high - s.resolution / 2:
            return s.hint
        # loss without overload: the first passing rate may be far below
        step = max(s.stride, 8 * s.resolution)
        rate = max(middle, s.high - step)
        s.stride = 4 * step
    else:
        rate = min(middle, base + s.stride) if base else middle
        s.stride *= 2
    return rate


def _worst(verdict: Verdict) -> float:
    return max(verdict.loss.values(), default=0.0)
