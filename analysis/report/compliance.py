"""Compliance of a run with the clauses of the RFCs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from v6t.analysis.presentation import Presentations, Ruling, judge
from v6t.analysis.rundata import RunData, RunTrial
from v6t.analysis.sheet import Table, make_text_columns, make_text_table
from v6t.analysis.variation import has_random_ports

WAIT_S, PAUSE_S, SENDING_TIME_TOLERANCE = 2.0, 5.0, 1.00001
FOREGROUND_TOLERANCE_PERCENT = 0.1  # trials have whole frames, so that shares are seldom exact
_FRAME_DIRECTIONS = ("bidirectional", "forward", "reverse")  # without `connections`, `queries`


def list_rulings(data: RunData, presentations: Presentations) -> list[Ruling]:
    """List the rulings on all clauses that concern the benchmarks of a run."""
    done = {r.benchmark for r in data.records} or set(data.config["benchmarks"])
    rulings = list(_check_general_clauses(data))
    for presentation in presentations.known.values():
        if presentation.name in done:
            records = [r for r in data.records if r.benchmark == presentation.name]
            rulings += presentation.check_clauses(data, list(filter(presentation.accepts, records)))
    return rulings


def make_compliance_table(rulings: list[Ruling]) -> Table:
    """Make the table of all rulings with their verdicts."""
    columns = make_text_columns("source", "required", "in this run", "verdict")
    return make_text_table("Clause by clause", columns, rulings)


def _check_general_clauses(data: RunData) -> Iterator[Ruling]:
    """Yield rulings on the clauses that concern all benchmarks."""
    devices = len(data.setup.get("devices", ()))
    setups = {0: "not known", 1: "single DUT setup", 2: "dual DUT setup"}
    yield judge("RFC 8219 section 4", "a tester around the device under test",
                "simulated: no frame was sent" if data.simulated
                else setups.get(devices, f"{devices} devices in a row"),
                not data.simulated)  # fmt: skip
    measured = [r for r in data.records if r.measured]
    used = {r.frame_sizes.ipv6 for r in measured if not r.frame_sizes.mix}
    listed = set(data.rfc_frame_sizes)
    yield judge("RFC 8219 section 5.1.1",
                f"frame sizes {_join_values(sorted(listed)) or 'not known for this technology'}",
                _join_values(sorted(used)), listed <= used if listed and used else None)  # fmt: skip
    if streams := [r for r in measured if r.direction in _FRAME_DIRECTIONS]:
        both = {(r.benchmark, r.sizes) for r in streams if r.direction == "bidirectional"}
        yield judge("RFC 8219 section 5.3",
                    "bidirectional traffic; one way is optional",
                    _join_values(dict.fromkeys(r.direction for r in streams)),
                    both == {(r.benchmark, r.sizes) for r in streams})  # fmt: skip
    random = has_random_ports(data.params)
    yield judge("RFC 4814 section 4.5", "pseudorandom port numbers",
                {None: "not known", True: "pseudorandom", False: "not all pseudorandom"}[random],
                random)  # fmt: skip
    trials = data.list_valid_trials(measured)
    if (share := _compute_foreground_percent(data, trials)) is not None:
        yield judge("RFC 8219 section 5.3", "translated share 100, 90, 50 or 10 %",
                    f"{share:.4g} % of the frames",
                    any(abs(share - usual) < FOREGROUND_TOLERANCE_PERCENT for usual in (100, 90, 50, 10))
                    )  # fmt: skip
    # a device learns the tester's hosts from the preflight before a trial
    before = {t.key: b.request["benchmark"] for b, t in pairwise(data.trials)}
    learned = sum(before.get(t.key) == "preflight" for t in trials)
    yield judge("RFC 2544 section 23 a", "routes announced or used before each trial",
                f"static; learning frames preceded {learned} of {len(trials)} trials",
                learned == len(trials) if trials else None)  # fmt: skip
    yield judge("RFC 2544 section 23 b", "learning frames 2 s before each trial",
                *_describe_learning(data))  # fmt: skip
    waited = min((t.request["residual_wait_s"] for t in trials), default=None)
    paused = min((t.request["pause_s"] for t in trials), default=None)
    yield judge("RFC 2544 section 23 d, e", "wait 2 s for late frames, 5 s between trials",
                "no trials recorded" if waited is None else f"wait {waited:g} s, pause {paused:g} s",
                None if waited is None or paused is None
                else waited >= WAIT_S and paused >= PAUSE_S)  # fmt: skip
    summarized = any(True for r in measured for _ in r.list_series())
    yield judge("RFC 8219 section 12", "median, 1st and 99th percentile",
                "all three, by nearest rank" if summarized else "no results",
                summarized or None)  # fmt: skip
    late = [
        counted.max_sending_time_s / t.sending_s
        for t in trials
        for counted in t.result.directions.values()
    ]
    yield judge("siitperf's tolerance", "sending takes at most 1.00001 of the trial",
                f"at most {max(late):.6f} in {len(late):,} trials" if late else "no trials recorded",
                max(late) <= SENDING_TIME_TOLERANCE if late else None)  # fmt: skip
    yield from _check_modifier(data, [t for t in trials if _has_streams(t)])
    if not data.simulated:
        yield judge("v6t", "the tester answers for its hosts, or the device has static entries",
                    *_describe_neighbors(data))  # fmt: skip
    compared = [
        [c.checked for t in data.list_valid_trials([r]) for c in t.result.directions.values()]
        for r in data.records
    ]
    points = [sum(counts) for counts in compared if counts]
    yield judge("v6t", "received frames are compared with the reference translation",
                f"{sum(points):,} frames; some in {sum(n > 0 for n in points)} of "
                f"{len(points)} results",
                all(points) if points else None)  # fmt: skip


def _has_streams(trial: RunTrial) -> bool:
    """Check whether a trial had streams, not only connections of phase 1 (RFC 9693)."""
    purpose = (trial.request.get("connections") or {}).get("purpose", "prepare")
    return bool(trial.result.directions) and purpose == "prepare"


def _check_modifier(data: RunData, streams: Sequence[RunTrial]) -> Iterator[Ruling]:
    """Yield the ruling on what the modifier does to the device during trials with streams."""
    modified = [t.result.modifier for t in streams if t.result.modifier]
    if not modified:
        return
    times, right = sum(each.times for each in modified), sum(each.right for each in modified)
    active = sum(each.times > 0 for each in modified)
    yield judge("RFC 2544 section 11", "the modifier's actions are verified",
                f"{data.config['modifier']}: {right:,} of {times:,} right, "
                f"in {active:,} of {len(streams):,} trials",
                right == times and active == len(streams))  # fmt: skip


def _compute_foreground_percent(data: RunData, trials: Sequence[RunTrial]) -> float | None:
    """Return the share of frames to translate [%], or None if the classes do not show it."""
    frames = Counter[str]()
    for trial in trials:
        for direction in trial.result.directions.values():
            for count in direction.classes.values():
                frames[count.role] += count.required
    both = frames["foreground"] + frames["background"]
    mixed = data.params.get("n") != data.params.get("m")
    # counted by ports, a mixture is one class
    if not both or (mixed and not frames["background"]):
        return None
    return 100 * frames["foreground"] / both


def _describe_learning(data: RunData) -> tuple[str, bool]:
    """Describe the learning frames; return also whether they are sent early enough."""
    pause_s = data.procedure["pause_s"]
    tester = data.manifest.get("tester") or {}
    # earlier versions sent them where they answered, and did not record it
    if data.simulated or not tester.get("learning_on", tester.get("answers_on")):
        return "none", False
    return f"each of the tester's hosts resolves the device {pause_s:g} s before", pause_s >= WAIT_S


def _describe_neighbors(data: RunData) -> tuple[str, bool | None]:
    """Describe how the device finds the tester's hosts; return also whether that is as required."""
    where = (data.manifest.get("tester") or {}).get("answers_on")
    if where is None:
        return "not known", None
    neighbours = data.config["dut"]["options"].get("neighbours", "static")
    if where:
        return f"answered, on {_join_values(where)}; entries of the device: {neighbours}", True
    return f"not answered; entries of the device: {neighbours}", neighbours != "resolved"


def _join_values(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
