"""The tester's own capacity: measured in a run or by the self-test, or stored earlier.

``procedure.selftest`` determines whether a run measures it (``run``), or may use the rate at which the same
tester sent the same streams on this machine before (``cached``). TRex cannot join its real ports:
`v6t selftest --testbed FILE` measures it once, with a cable from port to port.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.base.files import locate_cache, write_atomically
from v6t.benchmarks.tcp import find_syn_limit
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.core.config.settings import Settings
from v6t.core.log import LineWriter
from v6t.core.runs import rundir
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.manifest import describe_machine, format_utc_now
from v6t.core.runs.preflight import with_loopback_setup
from v6t.core.runs.rundir import RunDir, compute_digest, report_damage
from v6t.drivers.device import ignore_message
from v6t.packets.direction import Direction
from v6t.procedures import tester_rate
from v6t.procedures.tester_rate import SelfTestSpec, TesterCapacity, TrialRules, compute_usable_rate
from v6t.profiles.mixes import Sizes, sizes_to_json
from v6t.profiles.streams import StreamSet
from v6t.trials.result import Measure
from v6t.trials.trial import Mode

THIS_RUN_SOURCE = "this run"  # source of a capacity that the run measured
UNKNOWN_SOURCE = "not measured: join the ports by a cable and run `v6t selftest` with this testbed"
LAXER_RULES_SOURCE = (  # if the stored capacity was measured under laxer rules
    "not known under this run's rules: the self-test of {when} found {fps:,.0f} fps under laxer "
    "ones; run `v6t selftest` with this run's settings"
)
# Source in a run that measures the tester itself.
SHORT_SELFTEST_SOURCE = "twice the rate of a short self-test, or the medium's"
# File of capacities, in the cache and in the directory of each run that uses stored ones.
CAPACITY_FILE = "tester-capacity.json"
# A TCP client listens while it sends: one wait for a core must be short compared with the trial.
MIN_OPENING_TRIAL_S = 1.0  # shortest trial that opens TCP connections
_SHORT_SELFTEST_FACTOR = 2  # assumed ratio of the capacity to the result of a short self-test
# Properties of a machine that determine the capacity of its tester.
_MACHINE_KEYS = ("processor", "cores", "kernel", "governor", "smt", "isolated_cores")

Streams = Mapping[Direction, StreamSet]  # by direction


def make_capacity_spec(
    run: Settings, sizes: Sizes, mode: Mode, *, opens_connections: bool = False
) -> SelfTestSpec:
    """Return the specification of the self-test for a frame size and mode."""
    careful, p = run.preset == "rfc", run.procedure
    longest_s = max(p.trial_duration_s, p.final_duration_s or 0.0)
    count = p.connections.count if opens_connections else None
    return SelfTestSpec(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mix=sizes.mix,
        mode=mode,
        media_fps=compute_max_frame_rate_fps(run.line_rate_bps, sizes.longest),
        duration_s=min(5.0 if careful else 0.3, p.trial_duration_s),
        refinements=4 if careful else 2,
        residual_wait_s=min(0.2, p.residual_wait_s),
        sending_time_tolerance=max(1.02, p.sending_time_tolerance),
        rules=TrialRules(longest_s, p.residual_wait_s, p.sending_time_tolerance, count),
    )


def make_tcp_capacity_spec(setup: RunSetup) -> tuple[Sizes, SelfTestSpec]:
    """Return the frame sizes of TCP handshakes and the specification of their self-test."""
    sizes, media_cps = find_syn_limit(setup)
    spec = make_capacity_spec(setup.settings, sizes, "forward", opens_connections=True)
    duration_s = max(MIN_OPENING_TRIAL_S, spec.duration_s)
    return sizes, replace(spec, media_fps=media_cps, duration_s=duration_s)


@dataclass(frozen=True)
class SelfTest:
    """Self-test of the tester with the streams of one point."""

    setup: RunSetup  # run whose tester is measured
    spec: SelfTestSpec  # frame size, mode and search settings of the self-test
    streams: Streams  # streams that the tester sends
    measure: Measure  # measures a trial without a device; unused if the ports cannot be connected
    opens_connections: bool = False  # whether trials do; the capacity is then not stored
    on_message: LineWriter = ignore_message  # told of a repeated self-test and of long trials
    recorded_keys: Collection[str] = ()  # keys of the trials that the run has measured so far

    def find_capacity(self, directory: RunDir, min_fps: float = 0.0) -> tuple[TesterCapacity, str]:
        """Return the capacity of the tester and its source; measure it unless a stored one is valid.

        A resumed run uses the self-test that it has begun, even if another one is stored now.

        Args:
            directory: run directory, which keeps the stored capacities that the run uses.
            min_fps: lowest plausible rate, according to other modes.
        """
        setup, spec, can_loop_back = self.setup, self.spec, self.setup.tester.can_loop_back
        if setup.driver.is_cable and can_loop_back:
            short_spec = replace(self._with_start_rate(min_fps), rules=None)
            seen = tester_rate.measure_tester_capacity(short_spec, self.measure)
            rate_fps = min(spec.media_fps, _SHORT_SELFTEST_FACTOR * seen.rate_fps)
            return replace(seen, rate_fps=rate_fps), SHORT_SELFTEST_SOURCE
        if can_loop_back and (self.opens_connections or not self._is_cacheable):
            return self.measure_capacity(min_fps), THIS_RUN_SOURCE
        used = rundir.read_optional_json(directory.path / CAPACITY_FILE) or {}
        with report_damage(directory.path):
            if (stored := used.get(self.key)) is not None:
                return TesterCapacity(spec.mode, float(stored["fps"]), (), ()), stored["source"]
        if any(key.startswith(f"{spec.key_prefix}/") for key in self.recorded_keys):
            return self.measure_capacity(min_fps), THIS_RUN_SOURCE
        capacity, source = self._find_capacity_limit()
        if can_loop_back and (source == UNKNOWN_SOURCE or capacity.rate_fps < min_fps):
            return self.measure_capacity(min_fps, store=True), THIS_RUN_SOURCE
        used[self.key] = {"fps": capacity.rate_fps, "source": source}
        directory.write_json(CAPACITY_FILE, used)
        return capacity, source

    def measure_capacity(self, min_fps: float, *, store: bool = False) -> TesterCapacity:
        """Measure the capacity of the tester; if ``store``, also store it for later runs."""
        measure = tester_rate.measure_plausible_capacity
        spec = self._with_start_rate(min_fps)
        capacity = measure(spec, self.measure, min_fps, self.on_message)
        if store:
            self.store(capacity)
        return capacity

    def repeat(self, previous: TesterCapacity, number: int) -> TesterCapacity | None:
        """Repeat the self-test if a short trial passes at a higher rate than before.

        Returns the capacity if it is higher, else None; ``number`` counts repetitions from 1.
        """
        if self.setup.driver.is_cable or not self.setup.tester.can_loop_back:
            return None
        if not tester_rate.can_carry_more(self.spec, previous.rate_fps, self.measure):
            return None
        capacity_text = f"the self-test found {previous.rate_fps:,.0f} fps"
        text = f"{capacity_text}, but now the tester carries far more"
        self.on_message(f"{self.spec.mode}: {text}: self-test and search are repeated")
        measure = tester_rate.measure_tester_capacity
        number += tester_rate.MAX_REMEASUREMENTS
        capacity = measure(self.spec, self.measure, number, self.on_message)
        if capacity.rate_fps <= previous.rate_fps:
            return None
        if self._is_cacheable:
            self.store(capacity)
        return replace(capacity, keys=previous.keys + capacity.keys)

    def store(self, capacity: TesterCapacity) -> None:
        """Store a measured capacity in the cache; write errors do not stop the run."""
        if not capacity.rate_fps or self.setup.tester.simulates:
            return
        rules = None if self.spec.rules is None else asdict(self.spec.rules)
        entry = {"fps": capacity.rate_fps, "when": format_utc_now(), "rules": rules}
        known = {**_read_cache(), self.key: entry}
        with contextlib.suppress(OSError):
            locate_cache().mkdir(parents=True, exist_ok=True)
            write_atomically(locate_cache() / CAPACITY_FILE, json.dumps(known, indent=1))

    def _find_capacity_limit(self) -> tuple[TesterCapacity, str]:
        """Return the stored capacity, or the medium's rate if none is valid, and the source.

        A capacity found under laxer rules than the run's is not valid, as it would be too high.
        """
        entry, needed = _read_cache().get(self.key), self.spec.rules
        medium = TesterCapacity(self.spec.mode, self.spec.media_fps, (), ())
        if entry is None:
            return medium, UNKNOWN_SOURCE
        rules = entry.get("rules")
        if needed is not None and not (rules and TrialRules(**rules).is_as_strict_as(needed)):
            return medium, LAXER_RULES_SOURCE.format(**entry)
        return replace(medium, rate_fps=entry["fps"]), f"self-test of {entry['when']}"

    def _with_start_rate(self, min_fps: float) -> SelfTestSpec:
        begins = self.setup.tester.in_lab and min_fps > self.spec.start_fps
        return replace(self.spec, start_fps=min_fps) if begins else self.spec

    @property
    def _is_cacheable(self) -> bool:
        """Whether the run may use a stored capacity and store its own."""
        setup = self.setup
        if setup.technology.exchange == "queries":  # RFC 8219, section 9.2.1: measured first
            return False
        return setup.settings.procedure.selftest == "cached" and not setup.tester.simulates

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the capacity, such as tester and frames."""
        run, spec, links = self.setup.settings, self.spec, self.setup.technology.links
        left, right = run.links.left, run.links.right
        facts = [
            *collect_tester_facts(self.setup),
            run.line_rate_bps,
            # A capacity measured in loopback also depends on the search. The streams contain the mix.
            {k: v for k, v in asdict(spec).items() if k != "mix"}
            if self.setup.tester.can_loop_back
            else [spec.ipv6_frame_size, spec.ipv4_frame_size, spec.mode],
            (left.mtu, right.mtu, left.vlan, right.vlan),
            *(vlan.model_dump(mode="json") for vlan in links.background_vlans or ()),
            *(("turned",) if links.swapped else ()),
            {d: [dict(s.trex) for s in one.streams] for d, one in sorted(self.streams.items())},
        ]
        return compute_digest(json.dumps(facts, sort_keys=True).encode())


def measure_capacities(setup: RunSetup, on_message: LineWriter) -> Iterator[dict[str, Any]]:
    """Yield the capacities of the tester, and of each of its servers if it has several.

    Yields:
        One row per server, frame size and mode; rates per direction.
    """
    tester = setup.settings.tester
    for name in setup.tester.servers:
        on_message(f"server {name}")
        single = tester.model_copy(update={"options": {**tester.options, "only": name}})
        chosen = make_setup(setup.settings.model_copy(update={"tester": single}))
        for row in _measure_capacities(chosen, on_message):
            yield {"server": name, **row}
    if setup.tester.servers:
        on_message("all servers")
    yield from _measure_capacities(setup, on_message)


def _measure_capacities(setup: RunSetup, on_message: LineWriter) -> Iterator[dict[str, Any]]:
    run, plugin = setup.settings, setup.technology
    with closing(Bench(setup, loopback=True)) as bench:
        measure: Measure = bench.measure
        if plugin.exchange == "queries":  # a stateful technology is measured without connections
            measure = with_loopback_setup(measure, setup)
        for sizes in map(plugin.make_sizes, run.frame_sizes):
            streams = compile_streams(setup, sizes)
            bench.load(streams)
            rates: dict[Mode, float] = {}
            for mode in run.modes:
                on_message(f"{sizes.label} octets, {mode}")
                spec = make_capacity_spec(run, sizes, mode)
                test = SelfTest(setup, spec, streams, measure, on_message=on_message)
                min_fps = tester_rate.find_plausible_rate(mode, rates)
                capacity = test.measure_capacity(min_fps, store=True)
                rate_fps = rates[mode] = capacity.rate_fps
                yield {
                    "frame_sizes": sizes_to_json(sizes),
                    "mode": mode,
                    "convention": "per_direction",
                    "capacity_fps": rate_fps,
                    "usable_fps": compute_usable_rate(rate_fps, run.procedure.selftest_margin),
                    "media_fps": spec.media_fps,
                    "bounded_by": "line_rate" if rate_fps >= spec.media_fps else "tester",
                    "trials": len(capacity.keys),
                    "first_fault_above": capacity.faults[0] if capacity.faults else None,
                }


def _read_cache() -> dict[str, dict[str, Any]]:
    """Return the stored capacities by self-test key; damaged ones are measured again."""
    stored = rundir.read_json_object(locate_cache() / CAPACITY_FILE) or {}
    needed = {"fps", "when"}
    return {k: v for k, v in stored.items() if isinstance(v, dict) and needed <= v.keys()}


def collect_tester_facts(setup: RunSetup) -> list[Any]:
    """Return the kind and options of the tester and, if it runs here, facts about the machine."""
    run, neutral = setup.settings, setup.tester.speed_neutral_options
    options = {name: v for name, v in run.tester.options.items() if name not in neutral}
    machine = describe_machine() if setup.tester.can_loop_back else None
    facts = machine and {name: machine[name] for name in _MACHINE_KEYS}
    return [run.tester.kind, options, facts]
