"""How long trials with connections take, told before they start (GEN-30).

Nobody knows the device's rate yet: half of the highest rate offered is assumed throughout.
"""

from __future__ import annotations

import math

from v6t.procedures.conditions import Conditions
from v6t.procedures.connection_types import Connections
from v6t.procedures.estimate import Cost
from v6t.procedures.search.binary import halvings
from v6t.procedures.stateful.capacity import CapacitySpec
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec
from v6t.procedures.stateful.phases import Filling
from v6t.procedures.stateful.teardown import TeardownSpec

TRIALS_PER_COUNT = 2
"""Trials of a capacity search for each number of connections but the first, usually."""


def connection_rate_cost(spec: ConnectionRateSpec) -> Cost:
    """All searches."""
    trials = spec.repetitions * spec.steps
    asked = spec.filling.connections(spec.connections, spec.upper_bound_cps / 2)
    return Cost(trials, trials * (spec.conditions.pause_s + phase_one_s(asked)))


def teardown_cost(spec: TeardownSpec) -> Cost:
    """Filling only: how long the device takes to empty its table is what is measured."""
    asked = spec.filling.connections(spec.connections, spec.rate_cps)
    each = spec.conditions.pause_s + phase_one_s(asked)
    return Cost(spec.repetitions, spec.repetitions * each)


def capacity_cost(spec: CapacitySpec) -> Cost:
    """As if the capacity was just below the most connections there are four-tuples for."""
    rate_cps = spec.upper_bound_cps / 2
    counts = [spec.first]
    while counts[-1] < spec.most:
        counts.append(min(2 * counts[-1], spec.most))
    width = max(1, counts[-1] - (counts[-2] if len(counts) > 1 else 0))
    between = math.ceil(math.log2(max(1.0, width / spec.error)))
    counts += [spec.most] * between
    first = halvings(spec.upper_bound_cps, min(spec.resolution_cps, rate_cps)) + 1
    each = [_establishing_s(spec.conditions, spec.filling, n, rate_cps) for n in counts]
    trials = first + TRIALS_PER_COUNT * (len(counts) - 1)
    return Cost(trials, first * each[0] + TRIALS_PER_COUNT * sum(each[1:]))


def phase_one_s(asked: Connections) -> float:
    """Phase 1 with its waits, and the validation if there is one [s]."""
    found = asked.filling_s + asked.wait_s
    if asked.alpha is not None:
        found += asked.validation_s + asked.wait_s
    return found


def _establishing_s(at: Conditions, filling: Filling, count: int, rate_cps: float) -> float:
    return at.pause_s + phase_one_s(filling.connections(count, rate_cps))
