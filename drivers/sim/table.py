"""The simulated state table: capacity, insertion rate, timeouts, replacement, in closed form.

Connections are numbered in the order of phase 1 and established at a constant rate, so what is
left of them at any time is a stretch of numbers: nothing is simulated one by one.
"""

from __future__ import annotations

import math

from v6t.drivers.sim.device import SimOptions


class SimTable:
    """Connection table of a simulated device."""

    counts_endpoints = False

    def __init__(self, options: SimOptions) -> None:
        self._options = options
        self.clock_s = 0.0  # Virtual time, moved on by the tester and by emptying
        self._first = self._stored = 0
        """Connections ``first .. first + stored - 1`` are in the table unless they expired."""
        self._used_s = 0.0
        self._rate_cps = math.inf
        self._fillings = 0
        self._ending_s = math.inf

    @property
    def timeout_s(self) -> float | None:
        o = self._options
        return None if o.table_hides_timeout or not o.table_timeout_s else o.table_timeout_s

    def flush(self) -> None:
        """Empty the table while virtual time passes."""
        o = self._options
        if o.teardown_cps:
            self.clock_s += self._stored / o.teardown_cps
        self.clock_s += o.teardown_s
        self._first, self._stored = 0, o.table_stuck

    def count_sessions(self) -> int | None:
        o = self._options
        if not o.table_tells:
            return None
        return self.count_alive() + (o.table_off_by if self._fillings else 0)

    def read_limits(self) -> dict[str, float]:
        return {}

    def fill(self, count: int, rate_cps: float) -> int:
        """Begin phase 1 now; return the number of frames that are forwarded."""
        o = self._options
        self._fillings += 1
        limit = o.insertion_cps
        if limit and o.slow_from and count > o.slow_from:
            limit *= o.slow_insertion_share
        lost = math.ceil(count * (1 - limit / rate_cps)) if limit and rate_cps > limit else 0
        if self._fillings <= o.phase_one_loss_trials:
            lost += o.phase_one_loss
        arrived = max(0, count - lost)
        fitting = min(arrived, o.table_entries or arrived)
        self._stored = fitting if o.table_stores else 0
        self._first = arrived - self._stored if o.table_replaces else 0
        self._ending_s = math.inf
        self._used_s = self.clock_s
        self._rate_cps = rate_cps
        return arrived if o.table_replaces or not o.table_stores else fitting

    def end(self) -> None:
        """End all connections: they are deleted after the aging time."""
        self._ending_s = self.clock_s + self._options.tcp_aging_s

    def refresh(self) -> None:
        """Refresh all connections that have not expired."""
        expired = self._stored - self.count_alive()
        self._first, self._stored = self._first + expired, self._stored - expired
        self._used_s = self.clock_s
        self._rate_cps = math.inf

    def count_alive(self) -> int:
        """Count connections that have not expired; the oldest expire first."""
        limit = self._options.table_timeout_s
        if self.clock_s >= self._ending_s:
            return 0
        # connection k of phase 1 was used at k / rate after its begin
        late_s = self.clock_s - self._used_s - limit
        if not limit or not self._stored or late_s < 0:
            return self._stored
        if math.isinf(self._rate_cps):
            return 0
        expired = math.floor(late_s * self._rate_cps) + 1 - self._first
        return self._stored - min(self._stored, max(0, expired))
