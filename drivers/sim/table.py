"""The simulated state table: capacity, insertion rate, timeouts, replacement, in closed form.

Connections are numbered in the order of phase 1 and established at a constant rate, so what is
left of them at any time is a stretch of numbers: nothing is simulated one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from v6t.drivers.sim.device import SimOptions


@dataclass(frozen=True)
class Filled:
    """What phase 1 did.

    Attributes:
        forwarded: frames that came out.
        first, stored: the device holds connections ``first .. first + stored - 1``.
    """

    forwarded: int
    first: int
    stored: int


class SimTable:
    """The table of a simulated device; also its driver (see ``v6t.drivers.oracle.two_phase``).

    Args:
        options: of the device.
    """

    by_endpoint = False

    def __init__(self, options: SimOptions) -> None:
        self._options = options
        self.clock_s = 0.0
        """Virtual time, moved on by the tester and by emptying."""
        self._stored = Filled(0, 0, 0)
        self._used_s = 0.0
        self._rate_cps = math.inf
        self._fillings = 0
        self._ending_s = math.inf

    @property
    def timeout_s(self) -> float | None:
        """See :class:`v6t.drivers.device.StateDevice`."""
        o = self._options
        return None if o.table_hides_timeout or not o.table_timeout_s else o.table_timeout_s

    def flush(self) -> None:
        """Empty it; takes the time it takes."""
        o = self._options
        if o.teardown_cps:
            self.clock_s += self._stored.stored / o.teardown_cps
        self.clock_s += o.teardown_s
        self._stored = Filled(0, 0, o.table_stuck)

    def sessions(self) -> int | None:
        """Its own count."""
        o = self._options
        if not o.table_tells:
            return None
        return self.alive() + o.table_off_by if self._fillings else self.alive()

    def table(self) -> dict[str, float]:
        """Return nothing: the limits are unknown."""
        return {}

    def fill(self, count: int, rate_cps: float) -> Filled:
        """Phase 1 of ``count`` connections, beginning now.

        Args:
            count: connections.
            rate_cps: at which they come.
        """
        o = self._options
        self._fillings += 1
        limit = o.insertion_cps
        if limit and o.slow_from and count > o.slow_from:
            limit *= o.slow_insertion_share
        lost = math.ceil(count * (1 - limit / rate_cps)) if limit and rate_cps > limit else 0
        if self._fillings <= o.phase_one_loss_trials:
            lost += o.phase_one_loss
        arrived = max(0, count - lost)
        room = o.table_entries or arrived
        forwarded = arrived if o.table_replaces or not o.table_stores else min(arrived, room)
        stored = min(arrived, room) if o.table_stores else 0
        first = arrived - stored if o.table_replaces else 0
        self._stored = Filled(forwarded, first, stored)
        self._ending_s = math.inf
        self._used_s = self.clock_s
        self._rate_cps = rate_cps
        return self._stored

    def end(self) -> None:
        """All connections end: they are forgotten when their time is over."""
        self._ending_s = self.clock_s + self._options.tcp_aging_s

    def touch(self) -> None:
        """All connections that live carry frames from now on."""
        gone = self._stored.stored - self.alive()
        self._stored = Filled(
            self._stored.forwarded, self._stored.first + gone, self._stored.stored - gone
        )
        self._used_s = self.clock_s
        self._rate_cps = math.inf

    def alive(self) -> int:
        """Count connections that have not expired; the oldest expire first."""
        limit, held = self._options.table_timeout_s, self._stored
        if self.clock_s >= self._ending_s:
            return 0
        if not limit or not held.stored:
            return held.stored
        # connection k of phase 1 was used at k / rate after its begin
        late = self.clock_s - self._used_s - limit
        if late < 0:
            return held.stored
        if math.isinf(self._rate_cps):
            return 0
        expired = math.floor(late * self._rate_cps) + 1 - held.first
        return held.stored - min(held.stored, max(0, expired))
