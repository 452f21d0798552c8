"""Results of parts of the testers and the lab that do not send frames."""

import json
from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from v6t.base.errors import V6tError
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded.timing import Pace
from v6t.drivers.oracle.replay import ConnectionOrder
from v6t.drivers.transport.contract import make_shell_line
from v6t.drivers.trex.bursts import make_bursts
from v6t.drivers.trex.streams import with_mark, with_stamps
from v6t.profiles.streams import StreamSet
from v6t.tests.golden.store import Parts
from v6t.tools.accuracy.impairments import Impairer, Impairments
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import DelayRequest, Segment, Trial
from v6t.trials.verdict import assess_trial

TECHNOLOGIES = ("mape-br", "siit", "ipv4-router")
TRIAL = Trial("throughput", "t", 104, 64, "bidirectional", 2000.0, 2.0)
TRIALS = (
    TRIAL,
    replace(TRIAL, delays=DelayRequest(tags=50, first_tag_s=0.5)),
    replace(TRIAL, rate_fps=5e6, delays=DelayRequest()),
    replace(TRIAL, second_segment=Segment(1.0, 500.0)),
)
BEHAVIOURS = (
    {"lose_every": 7, "delay_us": 20.0, "jitter_us": 5.0},
    {"duplicate_every": 5, "reorder_every": 9},
    {"capacity_fps": 50_000.0, "buffer_frames": 8},
)

FORWARDED = ClassCount("foreground", 1000, 1000, 1000)
DIRECTION_RESULTS = (
    DirectionResult({"fg": FORWARDED}, 2.0),
    DirectionResult({"fg": FORWARDED}, 2.1),
    DirectionResult({"fg": FORWARDED}, 2.0, mismatch={"class": "fg"}),
    DirectionResult({"fg": replace(FORWARDED, received=990)}, 2.0),
    DirectionResult({"fg": replace(FORWARDED, received=989)}, 2.0),
    DirectionResult({"fg": replace(FORWARDED, sent=999)}, 2.0),
    DirectionResult({"fg": replace(FORWARDED, surplus=1)}, 2.0),
    DirectionResult({"fg": FORWARDED, "n": replace(FORWARDED, role="negative")}, 2.0),
    DirectionResult({"fg": FORWARDED}, 2.0, rate_change_error_s=0.5),
)


def describe_trials(technology: str) -> Parts:
    """Return the bursts that TRex must send in several trials, and the programs of its streams."""
    params = {"negative_percent": "10"} if technology == "mape-br" else {}
    plugin = resolve_setup(None, None, plugin=technology, params=params).technology
    compiled = compile_directions(plugin, plugin.make_sizes(104), 1)
    parts: Parts = {}
    for direction, streams in compiled.items():
        marks = StreamSet(direction, tuple(with_mark(stream) for stream in streams.streams))
        parts[f"{direction} stamps"] = list(_programs(with_stamps(streams)))
        parts[f"{direction} marks"] = list(_programs(marks))
        for number, trial in enumerate(TRIALS):
            for stamp in (False, True):
                name = f"{direction} trial {number} stamp {stamp:d}"
                try:
                    requested = make_bursts(streams, trial, stamp=stamp, samples=10)
                    parts[name] = [str(astuple(burst)) for burst in requested]
                except V6tError as exc:
                    parts[name] = [f"exit status {exc.exit_code}"]
    return parts


def _programs(streams: StreamSet) -> Iterator[str]:
    for stream in streams.streams:
        yield json.dumps([stream.trex["packet"], stream.trex["vm"]], sort_keys=True)


def describe_parts() -> Parts:
    """Return orders of connections, shell lines, sending times, verdicts and device behaviour."""
    numbers = np.arange(40)
    readings: tuple[Any, ...] = ("linear", "fixed", "pseudorandom")
    orders = [ConnectionOrder(7, reading, 3) for reading in readings]
    arrivals = numbers * 10_000
    parts: Parts = {
        "orders": [str(order.find_connections(numbers).tolist()) for order in orders],
        "shell": [
            make_shell_line("true", become, condition, netns)
            for become in ("", "doas -n")
            for condition in ("", "test -e x")
            for netns in ("", "lab")
        ],
        "due": [
            str(Pace.from_trial(trial).compute_due_s(numbers * 150).round(9).tolist())
            for trial in TRIALS
        ],
    }
    for counted in DIRECTION_RESULTS:
        result = TrialResult({"forward": counted})
        verdict = assess_trial(replace(TRIAL, mode="forward"), result, loss_tolerance=0.01)
        line = f"{verdict.passed:d}{verdict.valid:d} {len(verdict.reasons)} {list(verdict.loss.values())}"
        parts.setdefault("verdicts", []).append(line)
    for number, options in enumerate(BEHAVIOURS):
        columns = Impairer(Impairments(**options), seed=1).schedule(arrivals)
        parts[f"behaviour {number}"] = [str(column.tolist()) for column in columns]
    return parts
