"""The tester's own capacity: measured in the run, or remembered (SELF-01 to SELF-03).

Where the ports can be joined during a run, as in the lab, `procedure.selftest` says whether every
run measures it (`run`) or whether one that was found before on this machine, with the same tester
and the very same streams, is good enough (`cached`). With TRex on real ports the device stands
between them: `v6t selftest --testbed FILE` measures it once, with a cable from port to port.

A remembered capacity that a run has used stays in its directory, so that a resumed run has the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.files import read_json, write_atomically
from v6t.core.config.bound import BoundRun
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.manifest import machine, now
from v6t.core.runs.rundir import RunDir
from v6t.drivers.device import ignore_message
from v6t.packets.direction import Direction
from v6t.procedures.tester_rate import (
    MOST_AGAIN,
    CapacitySpec,
    Rules,
    TesterCapacity,
    carries_more,
    plausible_capacity,
    tester_capacity,
)
from v6t.profiles.mixes import Sizes
from v6t.profiles.streams import StreamSet
from v6t.trials.result import Measure
from v6t.trials.trial import Mode

UNKNOWN = (
    "not measured: join the ports by a cable and run `v6t selftest` with this testbed; until then "
    "only the faults of each trial tell the tester's limit"
)
LAXER = (
    "not known under this run's rules: the self-test of {when} found {fps:,.0f} fps with shorter "
    "trials, a shorter or longer wait or more time to send; run `v6t selftest` with this run's "
    "settings"
)
_LEEWAY = 2
NO_DEVICE = "twice what a short look found, or the medium's: the run itself measures the tester"
_OF_MACHINE = ("processor", "cores", "kernel", "governor", "smt", "isolated_cores")


OPENING_S = 1.0
"""A client of TCP listens while it sends: in less a single wait for a core is more than it may be late."""
THIS_RUN = "this run"
FILE = "tester-capacity.json"
"""In the run directory: the remembered capacities it used."""


def capacity_spec(run: ResolvedRun, sizes: Sizes, mode: Mode, media_fps: float) -> CapacitySpec:
    """How the tester's own capacity is looked for under a preset."""
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
        rules=Rules(
            max(p.trial_duration_s, p.final_duration_s or 0.0),
            p.residual_wait_s,
            p.sending_time_tolerance,
        ),
    )


def opening_spec(run: ResolvedRun, sizes: Sizes, media_cps: float) -> CapacitySpec:
    """Specify the same for connections of TCP, which are opened for a second at least."""
    spec = capacity_spec(run, sizes, "forward", media_cps)
    rules = spec.rules and replace(spec.rules, most_frames=run.procedure.connections.count)
    return replace(spec, duration_s=max(OPENING_S, spec.duration_s), rules=rules)


def find_capacity(
    bound: BoundRun,
    streams: Mapping[Direction, StreamSet],
    spec: CapacitySpec,
    measure: Measure,
    directory: RunDir,
    *,
    of_phase_one: bool = False,
    least_fps: float = 0.0,
    say: Callable[[str], None] = ignore_message,
) -> tuple[TesterCapacity, str]:
    """Find the tester's capacity and where it is from; measured if nothing is remembered.

    Args:
        bound: the run.
        streams: what is sent.
        spec: the point, and how to look.
        measure: the tester without a device; not used where the ports cannot be joined.
        directory: of the run.
        of_phase_one: its trials establish connections: never remembered.
        least_fps: what the tester carries at least, as other modes show: less is not believed.
        say: told when it is not, and when long trials look for it.
    """
    if bound.driver.absent and bound.tester.loops_back:
        seen = tester_capacity(replace(spec, rules=None), measure)
        return replace(seen, rate_fps=min(spec.media_fps, _LEEWAY * seen.rate_fps)), NO_DEVICE
    if bound.tester.loops_back and (of_phase_one or not _may_be_old(bound)):
        return plausible_capacity(spec, measure, least_fps, say), THIS_RUN
    key = _key(bound, spec, streams)
    used = directory.read_json(FILE) or {}
    if key not in used:
        capacity, source = recall(bound, spec, streams)
        if bound.tester.loops_back and (source == UNKNOWN or capacity.rate_fps < least_fps):
            measured = plausible_capacity(spec, measure, least_fps, say)
            remember(bound, spec, streams, measured)
            return measured, THIS_RUN
        used[key] = {"fps": capacity.rate_fps, "source": source}
        directory.write_json(FILE, used)
    return TesterCapacity(spec.mode, used[key]["fps"], (), ()), used[key]["source"]


def found_again(
    bound: BoundRun,
    streams: Mapping[Direction, StreamSet],
    spec: CapacitySpec,
    measure: Measure,
    before: TesterCapacity,
    number: int,
    say: Callable[[str], None],
) -> TesterCapacity | None:
    """Look for a higher capacity, where the device carried all that the tester was thought to.

    Such a result is the tester's, and the machine may have been busy when that was measured: one
    short trial tells, and the self-test is made again if it passes.

    Args:
        bound: the run.
        streams: what is sent.
        spec: how the capacity was looked for.
        measure: the tester without a device.
        before: what was found.
        number: of this look, from 1.
        say: told when the self-test is made again.
    """
    if bound.driver.absent or not bound.tester.loops_back:
        return None
    if not carries_more(spec, before.rate_fps, measure):
        return None
    say(
        f"{spec.mode}: the self-test found {before.rate_fps:,.0f} fps, but now the tester carries "
        "far more: self-test and search are repeated"
    )
    capacity = tester_capacity(spec, measure, MOST_AGAIN + number, say)
    if capacity.rate_fps <= before.rate_fps:
        return None
    if _may_be_old(bound):
        remember(bound, spec, streams, capacity)
    return replace(capacity, keys=before.keys + capacity.keys)


def _may_be_old(bound: BoundRun) -> bool:
    if bound.technology.exchange == "queries":  # the self-test goes before (RFC 8219 section 9.2.1)
        return False
    return bound.settings.procedure.selftest == "cached" and not bound.tester.simulates


def remember(
    bound: BoundRun,
    spec: CapacitySpec,
    streams: Mapping[Direction, StreamSet],
    capacity: TesterCapacity,
) -> None:
    """Keep what a self-test found; a file that cannot be written is no error."""
    if not capacity.rate_fps or bound.tester.simulates:
        return
    path = _path()
    known = _read(path)
    known[_key(bound, spec, streams)] = {
        "fps": capacity.rate_fps,
        "when": now(),
        "rules": None if spec.rules is None else asdict(spec.rules),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(known, indent=1))
    except OSError:
        return


def recall(
    bound: BoundRun, spec: CapacitySpec, streams: Mapping[Direction, StreamSet]
) -> tuple[TesterCapacity, str]:
    """Return the remembered capacity and where it is from; the medium's rate if there is none.

    One that was found under laxer rules than those of the results is none: it would be too high.
    """
    entry = _read(_path()).get(_key(bound, spec, streams))
    if entry is None:
        return TesterCapacity(spec.mode, spec.media_fps, (), ()), UNKNOWN
    held = entry.get("rules")
    if spec.rules is not None and not (held and Rules(**held).at_least(spec.rules)):
        return TesterCapacity(spec.mode, spec.media_fps, (), ()), LAXER.format(**entry)
    return TesterCapacity(spec.mode, entry["fps"], (), ()), f"self-test of {entry['when']}"


def _key(bound: BoundRun, spec: CapacitySpec, streams: Mapping[Direction, StreamSet]) -> str:
    """Hash of everything a capacity depends on: tester, machine, medium, frames, how it is found.

    TRex on real ports may run on another machine than this, which its options then name.
    """
    run = bound.settings
    what = [
        *tester_facts(bound),
        run.line_rate_bps,
        # without a device in between it matters how long was looked, elsewhere there is only one
        {k: v for k, v in asdict(spec).items() if k != "mix"}  # streams tell it
        if bound.tester.loops_back
        else [spec.ipv6_frame_size, spec.ipv4_frame_size, spec.mode],
        (run.links_left.mtu, run.links_right.mtu, run.links_left.vlan, run.links_right.vlan),
        *([asdict(a) for a in bound.technology.links.background_vlans or ()]),
        *(("turned",) if bound.technology.links.swapped else ()),
        {d: [dict(s.trex) for s in one.streams] for d, one in sorted(streams.items())},
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def tester_facts(bound: BoundRun) -> list[Any]:
    """Kind and options of a tester, and the machine it is on, where that is this one."""
    run = bound.settings
    options = {k: v for k, v in run.tester.options.items() if k not in bound.tester.no_matter}
    here = {k: machine()[k] for k in _OF_MACHINE} if bound.tester.loops_back else None
    return [run.tester.kind, options, here]


def _path() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("v6t") / "tester-capacity.json"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        known = read_json(path)
    except (OSError, UsageError):
        return {}
    return known if isinstance(known, dict) else {}
