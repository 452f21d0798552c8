"""Connections and queries where no benchmark asked for them: in the preflight, and in loopback."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from v6t.benchmarks.resolution import alone
from v6t.procedures.stateful.phases import Prepared
from v6t.trials.connections import Connections
from v6t.trials.queries import Queries
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode, Trial

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.plugins.base import Technology

PREFLIGHT_CONNECTIONS = 200
PREFLIGHT_CPS = 2000.0
LOOPBACK = Connections(10_000, 5_000.0, wait_s=0.1, reuse=True)


def for_preflight(plugin: Technology, measure: Measure) -> Measure:
    """For a look at the translation: with a few connections, or queries, where they are needed."""
    if plugin.exchange == "queries":
        return _asking(measure, Queries())
    if not plugin.stateful:
        return measure
    most = plugin.params.most_sessions or plugin.combinations
    count = min(PREFLIGHT_CONNECTIONS, plugin.combinations, most)
    return Prepared(measure, Connections(count, PREFLIGHT_CPS, wait_s=0.3))


def preflight_mode(plugin: Technology) -> Mode:
    """Return the mode of the preflight: queries are asked on one side only."""
    return "forward" if plugin.exchange == "queries" else "bidirectional"


def for_loopback(bound: BoundRun, measure: Measure) -> Measure:
    """Without a device: the tester learns its own frames and replays them, or answers itself."""
    plugin = bound.technology
    if plugin.exchange == "queries":
        return _asking(measure, alone(bound))
    if not plugin.stateful:
        return measure
    count = min(LOOPBACK.count, plugin.combinations)
    return Prepared(measure, replace(LOOPBACK, count=count))


def _asking(measure: Measure, queries: Queries) -> Measure:
    return lambda trial: measure(replace(trial, queries=queries))


def establishing(measure: Measure) -> Measure:
    """In loopback, for the capacity of phase 1: its trials learn."""

    def measured(trial: Trial) -> TrialResult:
        connections = Connections(
            trial.frames, trial.rate_fps, wait_s=trial.residual_wait_s, purpose="establish"
        )
        return measure(replace(trial, key=f"phase1-{trial.key}", connections=connections))

    return measured
