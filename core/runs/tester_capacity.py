"""The tester's own capacity: measured in a run or by the self-test, or remembered.

``procedure.selftest`` says whether a run measures it (``run``), or may use what the same tester sent
of the same streams on this machine before (``cached``). TRex on real ports cannot join them:
`v6t selftest --testbed FILE` measures it once, with a cable from port to port.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import max_frame_rate_fps
from v6t.base.files import locate_cache, read_json, write_atomically
from v6t.core.config.bound import BoundRun, bind
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.manifest import describe_machine, utc_now
from v6t.core.runs.preflight import with_loopback_setup
from v6t.core.runs.rundir import RunDir
from v6t.drivers.device import ignore_message
from v6t.packets.direction import Direction
from v6t.procedures.tester_rate import (
    MOST_AGAIN,
    CapacitySpec,
    TesterCapacity,
    TrialRules,
    can_carry_more,
    compute_usable_rate,
    find_plausible_rate,
    measure_plausible_capacity,
    measure_tester_capacity,
)
from v6t.profiles.mixes import Sizes, sizes_to_json
from v6t.profiles.streams import StreamSet
from v6t.trials.result import Measure
from v6t.trials.trial import Mode

THIS_RUN = "this run"
UNKNOWN = (
    "not measured: join the ports by a cable and run `v6t selftest` with this testbed; until then "
    "only the faults of each trial tell the tester's limit"
)
LAXER = (
    "not known under this run's rules: the self-test of {when} found {fps:,.0f} fps with shorter "
    "trials, a shorter or longer wait or more time to send; run `v6t selftest` with this run's "
    "settings"
)
NO_DEVICE = "twice what a short look found, or the medium's: the run itself measures the tester"
FILE = "tester-capacity.json"
"""In the cache, and in a run directory: there the remembered capacities that the run used."""
OPENING_S = 1.0
"""A TCP client listens while it sends: one wait for a core must be short compared with the trial."""
_LEEWAY = 2
_OF_MACHINE = ("processor", "cores", "kernel", "governor", "smt", "isolated_cores")

Streams = Mapping[Direction, StreamSet]


def make_capacity_spec(
    run: ResolvedRun, sizes: Sizes, mode: Mode, media_fps: float
) -> CapacitySpec:
    """Return the specification of a self-test."""
    careful, p = run.preset == "rfc", run.procedure
    return CapacitySpec(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mix=sizes.mix,
        mode=mode,
        media_fps=media_fps,
        duration_s=min(5.0 if careful else 0.3, p.trial_duration_s),
        refinements=4 if careful else 2,
        residual_wait_s=min(0.2, p.residual_wait_s),
        sending_time_tolerance=max(1.02, p.sending_time_tolerance),
        rules=TrialRules(
            max(p.trial_duration_s, p.final_duration_s or 0.0),
            p.residual_wait_s,
            p.sending_time_tolerance,
        ),
    )


def make_phase_one_spec(run: ResolvedRun, spec: CapacitySpec) -> CapacitySpec:
    """Return the self-test specification for phase 1, limited by the number of connections."""
    rules = spec.rules and replace(spec.rules, most_frames=run.procedure.connections.count)
    return replace(spec, rules=rules)


def make_opening_spec(run: ResolvedRun, sizes: Sizes, media_cps: float) -> CapacitySpec:
    """Return the self-test specification for opening TCP connections."""
    spec = make_phase_one_spec(run, make_capacity_spec(run, sizes, "forward", media_cps))
    return replace(spec, duration_s=max(OPENING_S, spec.duration_s))


def find_capacity(
    bound: BoundRun,
    streams: Streams,
    spec: CapacitySpec,
    measure: Measure,
    directory: RunDir,
    *,
    of_phase_one: bool = False,
    min_fps: float = 0.0,
    say: Callable[[str], None] = ignore_message,
) -> tuple[TesterCapacity, str]:
    """Return the tester's capacity and its source; measure it if none is stored.

    Args:
        bound: the run.
        streams: what is sent.
        spec: the point, and how to look.
        measure: the tester without a device; not used where the ports cannot be joined.
        directory: of the run.
        of_phase_one: its trials establish connections: never remembered.
        min_fps: lowest plausible rate, from other modes.
        say: receives a message if it is measured again, or with long trials.
    """
    known = spec
    if bound.tester.in_lab and min_fps > spec.start_fps:  # lower rates are known to pass
        spec = replace(spec, start_fps=min_fps)
    if bound.driver.is_cable and bound.tester.can_loop_back:
        seen = measure_tester_capacity(replace(spec, rules=None), measure)
        return replace(seen, rate_fps=min(spec.media_fps, _LEEWAY * seen.rate_fps)), NO_DEVICE
    if bound.tester.can_loop_back and (of_phase_one or not _is_cacheable(bound)):
        return measure_plausible_capacity(spec, measure, min_fps, say), THIS_RUN
    key = _make_key(bound, known, streams)
    used = directory.read_json(FILE) or {}
    if key not in used:
        capacity, source = find_stored_capacity(bound, known, streams)
        if bound.tester.can_loop_back and (source == UNKNOWN or capacity.rate_fps < min_fps):
            measured = measure_plausible_capacity(spec, measure, min_fps, say)
            store_capacity(bound, known, streams, measured)
            return measured, THIS_RUN
        used[key] = {"fps": capacity.rate_fps, "source": source}
        directory.write_json(FILE, used)
    return TesterCapacity(spec.mode, used[key]["fps"], (), ()), used[key]["source"]


def remeasure_capacity(
    bound: BoundRun,
    streams: Streams,
    spec: CapacitySpec,
    measure: Measure,
    before: TesterCapacity,
    number: int,
    say: Callable[[str], None],
) -> TesterCapacity | None:
    """Repeat the self-test after the device reached it; return a higher capacity or None.

    The machine may have been busy during the self-test: if one short trial passes, it is repeated.
    """
    if bound.driver.is_cable or not bound.tester.can_loop_back:
        return None
    if not can_carry_more(spec, before.rate_fps, measure):
        return None
    say(
        f"{spec.mode}: the self-test found {before.rate_fps:,.0f} fps, but now the tester carries "
        "far more: self-test and search are repeated"
    )
    capacity = measure_tester_capacity(spec, measure, MOST_AGAIN + number, say)
    if capacity.rate_fps <= before.rate_fps:
        return None
    if _is_cacheable(bound):
        store_capacity(bound, spec, streams, capacity)
    return replace(capacity, keys=before.keys + capacity.keys)


def measure_capacities(bound: BoundRun, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the results of the self-test, for each of several servers and for all together.

    Returns:
        One row per server, frame size and mode; rates per direction.
    """
    rows = []
    for name in bound.tester.servers:
        say(f"server {name}")
        tester = bound.settings.tester
        one = tester.model_copy(update={"options": {**tester.options, "only": name}})
        chosen = bind(bound.settings.model_copy(update={"tester": one}))
        rows += [{"server": name, **row} for row in _measure_capacities(chosen, say)]
    if bound.tester.servers:
        say("all servers")
    return rows + _measure_capacities(bound, say)


def _measure_capacities(bound: BoundRun, say: Callable[[str], None]) -> list[dict[str, Any]]:
    run, plugin = bound.settings, bound.technology
    bench = Bench(bound, loopback=True)
    # A stateful technology's streams are measured without connections.
    measure = (
        with_loopback_setup(bound, bench.measure) if plugin.exchange == "queries" else bench.measure
    )
    rows = []
    try:
        for size in run.frame_sizes:
            sizes = plugin.make_sizes(size)
            streams = compile_streams(bound, sizes)
            bench.load(streams)
            media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
            rates: dict[Mode, float] = {}
            for mode in run.modes:
                say(f"{sizes.label} octets, {mode}")
                spec = make_capacity_spec(run, sizes, mode, media)
                min_fps = find_plausible_rate(mode, rates)
                capacity = measure_plausible_capacity(spec, measure, min_fps, say)
                rates[mode] = capacity.rate_fps
                store_capacity(bound, spec, streams, capacity)
                rows.append(
                    {
                        "frame_sizes": sizes_to_json(sizes),
                        "mode": mode,
                        "convention": "per_direction",
                        "capacity_fps": capacity.rate_fps,
                        "usable_fps": compute_usable_rate(
                            capacity.rate_fps, run.procedure.selftest_margin
                        ),
                        "media_fps": media,
                        "bounded_by": "line_rate" if capacity.rate_fps >= media else "tester",
                        "trials": len(capacity.keys),
                        "first_fault_above": capacity.faults[0] if capacity.faults else None,
                    }
                )
    finally:
        bench.close()
    return rows


def store_capacity(
    bound: BoundRun, spec: CapacitySpec, streams: Streams, capacity: TesterCapacity
) -> None:
    """Store a measured capacity in the cache; write errors do not stop the run."""
    if not capacity.rate_fps or bound.tester.simulates:
        return
    rules = None if spec.rules is None else asdict(spec.rules)
    entry = {"fps": capacity.rate_fps, "when": utc_now(), "rules": rules}
    known = {**_read_cache(), _make_key(bound, spec, streams): entry}
    with contextlib.suppress(OSError):
        locate_cache().mkdir(parents=True, exist_ok=True)
        write_atomically(locate_cache() / FILE, json.dumps(known, indent=1))


def _read_cache() -> dict[str, dict[str, Any]]:
    known = None
    with contextlib.suppress(OSError, UsageError):
        known = read_json(locate_cache() / FILE)
    return known if isinstance(known, dict) else {}


def find_stored_capacity(
    bound: BoundRun, spec: CapacitySpec, streams: Streams
) -> tuple[TesterCapacity, str]:
    """Return the stored capacity, or else the medium's rate, and its source.

    A capacity that was found under laxer rules than those of the results would be too high.
    """
    entry = _read_cache().get(_make_key(bound, spec, streams))
    medium = TesterCapacity(spec.mode, spec.media_fps, (), ())
    if entry is None:
        return medium, UNKNOWN
    rules = entry.get("rules")
    if spec.rules is not None and not (rules and TrialRules(**rules).is_as_strict_as(spec.rules)):
        return medium, LAXER.format(**entry)
    return replace(medium, rate_fps=entry["fps"]), f"self-test of {entry['when']}"


def _is_cacheable(bound: BoundRun) -> bool:
    if bound.technology.exchange == "queries":  # RFC 8219, section 9.2.1: the self-test goes first
        return False
    return bound.settings.procedure.selftest == "cached" and not bound.tester.simulates


def _make_key(bound: BoundRun, spec: CapacitySpec, streams: Streams) -> str:
    """Return a hash of everything that determines a capacity, such as tester and frames."""
    run = bound.settings
    what = [
        *collect_tester_facts(bound),
        run.line_rate_bps,
        # In loopback it matters how it was found; the streams say the mix.
        {k: v for k, v in asdict(spec).items() if k != "mix"}
        if bound.tester.can_loop_back
        else [spec.ipv6_frame_size, spec.ipv4_frame_size, spec.mode],
        (run.links_left.mtu, run.links_right.mtu, run.links_left.vlan, run.links_right.vlan),
        *([a.model_dump(mode="json") for a in bound.technology.links.background_vlans or ()]),
        *(("turned",) if bound.technology.links.swapped else ()),
        {d: [dict(s.trex) for s in one.streams] for d, one in sorted(streams.items())},
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def collect_tester_facts(bound: BoundRun) -> list[Any]:
    """Return the tester's kind, options and, if it runs here, its machine."""
    run = bound.settings
    options = {
        k: v for k, v in run.tester.options.items() if k not in bound.tester.speed_neutral_options
    }
    here = {k: describe_machine()[k] for k in _OF_MACHINE} if bound.tester.can_loop_back else None
    return [run.tester.kind, options, here]
