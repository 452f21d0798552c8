"""Clauses in the report: a correct run follows each one, and a damaged run deviates."""

from dataclasses import replace

import pytest
from v6t.analysis.report.compliance import list_rulings
from v6t.benchmarks.registry import load_presentations
from v6t.core.runs.results import load_run
from v6t.tests.core.support import measure_run
from v6t.tests.settings import resolve
from v6t.trials.codec import decode, encode
from v6t.trials.result import TrialResult

pytestmark = pytest.mark.slow

STREAMS = (
    *("throughput", "frame-loss", "back-to-back", "latency", "pdv", "ipdv", "system-recovery"),
    *("reset", "mlrsearch"),
)
CONNECTIONS = ("connection-rate", "teardown", "capacity", "tcp-rate", "tcp-capacity")


def simulate_run(home, line_rate, benchmarks, plugin, procedure, **device):
    """Simulate a run of the rfc preset on a medium slow enough for a quick simulation."""
    testbed = home / "testbed.yaml"
    testbed.write_text(f"line_rate: {line_rate}\n")
    run = resolve(
        testbed=testbed, plugin=plugin, preset="rfc", tester="sim", benchmarks=benchmarks,
        tester_options={k: str(v) for k, v in device.items()}, procedure=procedure,
        modes=("bidirectional",), frame_sizes=(128,),
    )  # fmt: skip
    measure_run(run, home / "run")
    return load_run(home / "run")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Provide a run of streams and one of connections, both correct."""
    streams = simulate_run(
        tmp_path_factory.mktemp("streams"), "3M", STREAMS, "ipv6-router",
        {"latency": {"tags": 500}, "back_to_back": {"resolution_frames": 1024}},
        capacity_fps=1100, buffer_frames=100, recovery_s=0.1, reset_s=2,
    )  # fmt: skip
    connections = simulate_run(
        tmp_path_factory.mktemp("connections"), "100M", CONNECTIONS, "nat64",
        {
            **{"connections": {"count": 1000}, "capacity": {"first": 500, "most": 4000}},
            "tcp_capacity": {"first": 500, "most": 4000},
        },
        insertion_cps=5000, table_entries=3000, teardown_cps=60000, teardown_s=0.25,
    )  # fmt: skip
    return streams, connections


def list_verdicts(data):
    """Return the verdicts by source and requirement."""
    return {(c.source, c.requirement): c.verdict for c in list_rulings(data, load_presentations())}


# ------------------------------------------------------------------ damages
# A damage returns changed data of a run, or None if the run lacks the benchmark.


def find_record(data, benchmark):
    return next((r for r in data.records if r.benchmark == benchmark), None)


def change_record(benchmark, change):
    """Change the record of a benchmark, by a function or by other values."""

    def damage(data):
        if not (record := find_record(data, benchmark)):
            return None
        content = record.to_json()
        if callable(change):
            change(content)
        else:
            content |= change
        changed = type(record).model_validate(content)
        return replace(data, records=[changed if r is record else r for r in data.records])

    return damage


def change_trials(benchmark, change, every=True):
    """Change every trial of a benchmark, or only the first decisive one."""

    def damage(data):
        if not (record := find_record(data, benchmark)):
            return None
        content = record.to_json()
        keys = content["trials"]
        if not every:
            keys = (content.get("decisive_trials") or keys)[:1]
        return replace(data, trials=[change(t) if t.key in keys else t for t in data.trials])

    return damage


def change_requests(benchmark, values):
    return change_trials(benchmark, lambda t: replace(t, request={**t.request, **values}))


def change_counts(benchmark, change, every=False):
    def change_result(trial):
        content = encode(trial.result)
        change(content)
        return replace(trial, result=decode(TrialResult, content))

    return change_trials(benchmark, change_result, every)


def change_each_direction(change):
    """Apply a change to each direction of a record or of a trial's counters."""

    def change_directions(content):
        for direction in content["directions"].values():
            change(direction)

    return change_directions


def add_background(direction):
    """Make a quarter of the frames foreground."""
    fg = direction["classes"]["fg"]
    direction["classes"]["bg"] = {**fg, "role": "background", "required": 3 * fg["required"]}


def make_irregular(record):
    record["goals"][-1]["irregular"][0] = "no bound"


def lose_connection(record):
    record["counts"]["learned"] -= 1


def lose_answers(record):
    for trial in record["decisive"]:
        trial["answered"] -= 1


def fail_at_table_size(record):
    for step in record["steps"]:
        step["carried"] = step["connections"] != 3000


# ------------------------------------------------ clauses that a simulated run cannot follow


def insert_preflight_trials(data):
    """Insert a preflight trial before every trial."""
    preflight = next(t for t in data.trials if t.request["benchmark"] == "preflight")
    return replace(data, trials=[one for t in data.trials for one in (preflight, t)])


def mark_as_measured(data):
    setup = {**data.manifest.get("setup", {}), "simulated": False}
    return replace(data, manifest={**data.manifest, "setup": setup})


def add_neighbor_answers(data):
    """Make the tester answer neighbor requests in every pause."""
    tester = {**(data.manifest.get("tester") or {}), "answers_on": ["left", "right"]}
    data = mark_as_measured(data)
    return replace(data, manifest={**data.manifest, "tester": tester})


REPEATED = (
    *("throughput", "frame-loss", "latency", "pdv", "ipdv", "mlrsearch"),
    *("connection-rate", "teardown", "tcp-rate"),
)
"""Benchmarks of which 20 repetitions are required."""
SEVEN, GENERAL = "RFC 8219 section 7", "RFC 8219 section 5.3"
UNSIMULATED = {
    ("RFC 8219 section 4", "a tester around the device under test"): mark_as_measured,
    ("RFC 2544 section 23 a", "routes announced or used before each trial"): insert_preflight_trials,
    ("RFC 2544 section 23 b", "learning frames 2 s before each trial"): add_neighbor_answers,
}  # fmt: skip
"""Clauses that a simulated run does not follow, each with a change after which it follows them."""
COMPUTED = "RFC 8219 section 12"
"""Clause on medians and percentiles, which follow from the repetitions and cannot be damaged."""
CHANGED_RECORDS = {
    f"{GENERAL} bidirectional": ("throughput", {"direction": "forward"}),
    "RFC 2544 section 26.1 the highest": ("throughput", {"unresolved": 1}),
    "RFC 8219 section 4 the tester is not": ("throughput", {"tester_limited": True}),
    "RFC 2544 section 26.3": ("frame-loss", lambda r: r["rates"].pop(1)),
    "RFC 9004 section 6.3": ("back-to-back", lambda r: r["values"].pop(0)),
    "RFC 9004 section 6.2 the search": ("back-to-back", {"verifications": None}),
    "RFC 9004 section 6.1": ("back-to-back", {"burst_rate_reason": "tester"}),
    "RFC 8219 section 7.2 at least 500": (
        "latency", change_each_direction(lambda d: d.update(timed=[n - 1 for n in d["timed"]]))),
    "RFC 8219 section 7.2 median": (
        "latency", change_each_direction(lambda d: d["tl"].update(values=[None]))),
    "RFC 8219 section 7.3.2": ("ipdv", {"sampled": True}),
    **{f"{SEVEN}, {b} at least": (b, {"repetitions": 19}) for b in REPEATED},
    "RFC 2544 section 26.5 an overload of 110": ("system-recovery", {"throughput": 1.0}),
    "RFC 6201 section 1.4": ("reset", {"repetitions": 1}),
    "RFC 9971 section 4.8.4": ("mlrsearch", make_irregular),
    "RFC 9971 section 4.6.1": ("mlrsearch", lambda r: r["goals"][-1]["goal"].update(final_trial_s=30.0)),
    "RFC 9693 section 4.5 no connection": ("connection-rate", lose_connection),
    "RFC 9693 section 4.5 an empty": ("connection-rate", lambda r: r["counts"].update(sessions_before=1)),
    "RFC 9693 section 4.5 the search": ("connection-rate", {"resolution_cps": 1001.0}),
    "RFC 9693 section 4.8": ("teardown", {"rates": [None]}),
    "RFC 8219 section 8.2, RFC 3511 section 5.3.4.2": ("tcp-rate", lambda r: r["decisive"].pop(0)),
    "RFC 3511 section 5.3.3": ("tcp-rate", lose_answers),
    "RFC 8219 section 8.1, RFC 3511 section 5.2.3": ("tcp-capacity", {"at_least": True}),
    "RFC 3511 section 5.2.3": ("tcp-capacity", lambda r: r["decisive"].update(answered=0)),
    "RFC 9693 section 4.9": ("capacity", fail_at_table_size),
}  # fmt: skip
CHANGED_REQUESTS = {
    "RFC 2544 section 23 d, e": ("pdv", {"residual_wait_s": 0.2}),
    "RFC 2544 section 24, throughput": ("throughput", {"duration_s": 59.0}),
    "RFC 2544 section 24, frame-loss": ("frame-loss", {"duration_s": 59.0}),
    "RFC 9004 section 6.2 2 s": ("back-to-back", {"residual_wait_s": 1.9}),
    "RFC 8219 section 7.2 streams of 120 s": ("latency", {"duration_s": 119.0}),
    "RFC 8219 section 7.2 tags from 60 s on": ("latency", {"delays": {"tags": 500, "first_tag_s": 59.0}}),
    "RFC 8219 section 7.3.1": ("pdv", {"duration_s": 30.0}),
    **{f"{SEVEN}, {b} at the": (b, {"rate_fps": 1.0}) for b in ("latency", "pdv", "ipdv")},
    "RFC 2544 section 26.5 an overload of 60 s": ("system-recovery", {"duration_s": 1.0}),
    "RFC 2544 section 26.5 then half": ("system-recovery", {"then": {"rate_fps": 1.0, "duration_s": 60.0}}),
    "RFC 6201 section 4": ("reset", {"event": None}),
}  # fmt: skip
CHANGED_COUNTS = {
    f"{GENERAL} translated share": ("throughput", change_each_direction(add_background), True),
    "siitperf's tolerance": ("latency", change_each_direction(lambda d: d.update(sending_time_s=120.01))),
    "v6t received frames": ("throughput", change_each_direction(lambda d: d.update(checked=0)), True),
    "RFC 2544 section 26.1, throughput": (
        "throughput", change_each_direction(lambda d: d["classes"]["fg"].update(received=1))),
    "RFC 9693 section 4.6": ("capacity", lambda counts: counts["connections"].update(validated=None), True),
}  # fmt: skip
DAMAGED = {
    "RFC 8219 section 5.1.1": lambda data: replace(data, rfc_frame_sizes=(128, 256)),
    **{name: change_record(*row) for name, row in CHANGED_RECORDS.items()},
    **{name: change_requests(*row) for name, row in CHANGED_REQUESTS.items()},
    **{name: change_counts(*row) for name, row in CHANGED_COUNTS.items()},
}
"""Damages by source, and the beginning of the requirement if the source has several clauses."""


PORTS = "RFC 4814 section 4.5"


def list_names(clause):
    return [n for n in (*DAMAGED, PORTS, COMPUTED) if " ".join(clause).startswith(n)]


def test_correct_run_follows_every_clause_and_each_has_a_damage(runs):
    """A clause without a damage may be a check that cannot fail."""
    names = set()
    for data in runs:
        for clause, verdict in list_verdicts(replace(data, rfc_frame_sizes=(128,))).items():
            assert verdict == ("deviates" if clause in UNSIMULATED else "follows"), clause
            names |= set(list_names(clause)) or ({clause[0]} if clause in UNSIMULATED else set())
            assert clause in UNSIMULATED or len(list_names(clause)) == 1, clause
    assert names == {*DAMAGED, PORTS, COMPUTED, *(source for source, _ in UNSIMULATED)}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_run_deviates(runs, name):
    damaged = filter(None, map(DAMAGED[name], runs))
    rulings = [ruling for data in damaged for ruling in list_verdicts(data).items()]
    assert {v for clause, v in rulings if name in list_names(clause)} == {"deviates"}


@pytest.mark.parametrize("clause", UNSIMULATED)
def test_measured_run_follows_clauses_that_a_simulated_run_cannot(runs, clause):
    for data in runs:
        assert list_verdicts(UNSIMULATED[clause](data))[clause] == "follows"


def test_ports_that_are_not_pseudorandom_deviate(runs):
    key = (PORTS, "pseudorandom port numbers")
    for data, change in zip(runs, ({"rv_sport": "fixed"}, {"enumerate_ports": 1}), strict=True):
        assert change.keys() <= data.params.keys()
        assert list_verdicts(replace(data, params={**data.params, **change}))[key] == "deviates"


def test_clauses_about_trials_are_not_known_without_trials(runs):
    streams, _ = runs
    verdicts = list_verdicts(replace(streams, trials=[]))
    clause = "RFC 2544 section 24, throughput", "every result held for 60 s"
    assert verdicts[clause] == "not known"
    sources = {source for (source, _), verdict in verdicts.items() if verdict == "follows"}
    judged_by_trials = ("RFC 2544 section 24", "RFC 2544 section 26.5", "siitperf", "v6t")
    assert not [source for source in sources if source.startswith(judged_by_trials)]
