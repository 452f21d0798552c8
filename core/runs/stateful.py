"""Stateful devices in a run: connection rate first, then phase 2, tear-down and capacity last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from v6t.analysis.records.connections import (
    capacity_record,
    capacity_rows,
    connection_rate_record,
    connection_rate_rows,
    teardown_record,
    teardown_rows,
)
from v6t.analysis.statistics import percentile
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs, stateful_specs
from v6t.core.runs.benchmarks import Measured, Place, nothing
from v6t.procedures.connection_types import Connections
from v6t.procedures.stateful.capacity import measure_capacity
from v6t.procedures.stateful.connection_rate import ConnectionRateResult, measure_connection_rate
from v6t.procedures.stateful.phases import Prepared
from v6t.procedures.stateful.teardown import measure_teardown
from v6t.procedures.trial import Measure, Trial, TrialResult

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

PREFLIGHT_CONNECTIONS = 200
PREFLIGHT_CPS = 2000.0
LOOPBACK_CONNECTIONS = 10_000
LOOPBACK_CPS = 5_000.0


def stateful(run: ResolvedRun) -> Any:
    """The run's plugin if it is stateful, else None."""
    from v6t.core.config.resolve import technology

    plugin = technology(run)
    return plugin if plugin.stateful else None


def for_preflight(run: ResolvedRun, measure: Measure) -> Measure:
    """The door for a look at the translation: with a few connections where they are needed."""
    plugin = stateful(run)
    if plugin is None:
        return measure
    count = min(PREFLIGHT_CONNECTIONS, plugin.combinations)
    return Prepared(measure, Connections(count, PREFLIGHT_CPS, wait_s=0.3))


def for_loopback(run: ResolvedRun, measure: Measure) -> Measure:
    """The door without a device: the tester learns its own frames and replays them."""
    plugin = stateful(run)
    if plugin is None:
        return measure
    count = min(LOOPBACK_CONNECTIONS, plugin.combinations)
    return Prepared(measure, Connections(count, LOOPBACK_CPS, wait_s=0.1, keep=True))


def establishing(measure: Measure) -> Measure:
    """The loopback door for the ceiling of phase 1: its trials learn."""

    def measured(trial: Trial) -> TrialResult:
        asked = Connections(
            trial.frames, trial.rate_fps, wait_s=trial.residual_wait_s, purpose="establish"
        )
        return measure(replace(trial, key=f"phase1-{trial.key}", connections=asked))

    return measured


class PhaseOne:
    """What is measured of connections themselves, and the connections phase 2 gets."""

    def __init__(self, at: Place, method: str) -> None:
        """Combine.

        Args:
            at: place of the forward direction; its ceiling is that of phase 1.
            method: how the device empties its table.
        """
        self._at = at
        self._method = method
        self._plugin = stateful(at.run)
        self._found: ConnectionRateResult | None = None

    def first(self) -> Iterator[Measured]:
        """The connection rate, where it is asked for or needed."""
        at = self._at
        if specs.CONNECTION_RATE not in specs.measured(at.run):
            return
        at.say(f"{at.sizes.label} octets: {specs.CONNECTION_RATE}")
        spec = stateful_specs.rate_spec(at.run, at.sizes, at.media_fps, at.ceiling.rate_fps)
        self._found = measure_connection_rate(spec, at.measure, at.watch)
        record = connection_rate_record(
            self._found,
            at.find,
            setup=self._setup(),
            conditions=at.conditions,
            ceiling_cps=at.ceiling.rate_fps,
            selftest_margin=at.run.procedure.selftest_margin,
        )
        rows = connection_rate_rows(self._found, lambda key: at.find(key).started)
        yield Measured(specs.CONNECTION_RATE, record, rows)

    def rate(self) -> tuple[float, str]:
        """R of phase 2, and where it comes from (ST-09)."""
        c = self._at.run.procedure.connections
        if c.rate_cps is not None:
            return c.rate_cps, "given"
        rates = [r.rate_cps for r in self._found.repetitions] if self._found else []
        found = percentile(rates, 1) if rates else 0.0
        return found * c.rate_share, f"{c.rate_share:.0%} of P1 of the connection rate"

    def connections(self) -> Connections | None:
        """Phase 1 of trials with a phase 2; None: no rate passed."""
        rate_cps, _ = self.rate()
        c = self._at.run.procedure.connections
        if not rate_cps:
            return None
        asked = stateful_specs.filling(self._at.run).connections(c.count, rate_cps)
        return replace(asked, reading=c.reading, alpha=None)

    def described(self) -> dict[str, Any]:
        """N, M, R, T and D, for the conditions of phase 2 (ST-09)."""
        asked = self.connections()
        if asked is None:
            return {}
        _, source = self.rate()
        delay_s = asked.filling_s + asked.wait_s + asked.gap_s
        return {**asdict(asked), "rate_source": source, "delay_s": delay_s, **self._setup()}

    def last(self) -> Iterator[Measured]:
        """Tear-down and capacity, where they are asked for."""
        at = self._at
        asked = specs.measured(at.run)
        if specs.TEARDOWN in asked:
            at.say(f"{at.sizes.label} octets: {specs.TEARDOWN}")
            yield self._teardown()
        if specs.CAPACITY in asked:
            at.say(f"{at.sizes.label} octets: {specs.CAPACITY}")
            spec = stateful_specs.capacity_spec(
                at.run, self._plugin, at.sizes, at.media_fps, at.ceiling.rate_fps
            )
            found = measure_capacity(spec, at.measure, at.watch)
            record = capacity_record(found, setup=self._setup(), conditions=at.conditions)
            yield Measured(specs.CAPACITY, record, capacity_rows(found))

    def _teardown(self) -> Measured:
        at = self._at
        rate_cps, source = self.rate()
        if not rate_cps:
            return nothing(at, specs.TEARDOWN, "no connection rate passed")
        spec = stateful_specs.teardown_spec(at.run, at.sizes, rate_cps, source)
        found = measure_teardown(spec, at.measure, at.watch)
        record = teardown_record(
            found, method=self._method, setup=self._setup(), conditions=at.conditions
        )
        return Measured(specs.TEARDOWN, record, teardown_rows(found))

    def _setup(self) -> dict[str, Any]:
        return setup_of(self._plugin)


def setup_of(plugin: Technology) -> dict[str, Any]:
    """Ranges of the connections and which device is stateful, for the report (ST-14, DD-04)."""
    found: Any = plugin
    p = found.params
    names = ("initiator_ports", "responder_ports", "initiator_count", "responder_count")
    dumped: Mapping[str, Any] = p.model_dump(mode="json")
    return {
        **{name: dumped[name] for name in names if name in dumped},
        "combinations": found.combinations,
        "initiator_endpoints": found.endpoints,
        "usual_timeout_s": found.usual_timeout_s,
        "mapping": found.mapping,
        "devices": [{"name": r.name, "stateful": r.stateful} for r in found.roles],
    }
