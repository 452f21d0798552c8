"""Clauses in the report: a correct run follows each one, and a damaged run deviates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from v6t.analysis.report.compliance import list_rulings
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.resolve import resolve
from v6t.core.runs.results import load_run
from v6t.tests.core.support import measure_run
from v6t.trials.codec import decode, encode
from v6t.trials.result import TrialResult

pytestmark = pytest.mark.slow

STREAMS = (
    *("throughput", "frame-loss", "back-to-back", "latency", "pdv", "ipdv", "system-recovery"),
    *("reset", "mlrsearch"),
)
CONNECTIONS = ("connection-rate", "teardown", "capacity", "tcp-rate", "tcp-capacity")


def measured(home, line_rate, benchmarks, plugin, procedure, **device):
    """Rehearse a run of the rfc preset on a medium slow enough for a quick simulation."""
    testbed = home / "testbed.yaml"
    testbed.write_text(f"line_rate: {line_rate}\n")
    measure_run(
        resolve(
            testbed=testbed,
            plugin=plugin,
            preset="rfc",
            tester="sim",
            modes=("bidirectional",),
            frame_sizes=(128,),
            benchmarks=benchmarks,
            tester_options={k: str(v) for k, v in device.items()},
            procedure=procedure,
        ),
        home / "run",
    )
    return load_run(home / "run")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Provide a run of streams and one of connections that follow the RFCs."""
    streams = measured(
        tmp_path_factory.mktemp("streams"), "3M", STREAMS, "ipv6-router",
        {"latency": {"tags": 500}, "back_to_back": {"resolution_frames": 1024}},
        capacity_fps=1100, buffer_frames=100, recovery_s=0.1, reset_s=2,
    )  # fmt: skip
    connections = measured(
        tmp_path_factory.mktemp("connections"), "100M", CONNECTIONS, "nat64",
        {
            **{"connections": {"count": 1000}, "capacity": {"first": 500, "most": 4000}},
            "tcp_capacity": {"first": 500, "most": 4000},
        },
        insertion_cps=5000, table_entries=3000, teardown_cps=60000, teardown_s=0.25,
    )  # fmt: skip
    return streams, connections


def found(data):
    """Return the verdicts by source and demand."""
    return {(c.source, c.requirement): c.verdict for c in list_rulings(data, load_presentations())}


# ------------------------------------------------------------------ damages


@dataclass(frozen=True)
class Damage:
    """What becomes of the trials, or of the record, of a benchmark."""

    benchmark: str
    trials: Callable[[Mapping, Sequence], Sequence] = lambda _, trials: trials
    record: Callable[[Mapping], Mapping] = lambda _: {}

    def __call__(self, data):
        (record,) = [r for r in data.records if r.benchmark == self.benchmark]
        content = record.to_json()
        changed = type(record).model_validate({**content, **self.record(content)})
        return replace(
            data,
            records=[changed if r is record else r for r in data.records],
            trials=self.trials(content, data.trials),
        )


class OfAny(NamedTuple):
    """Of any run."""

    change: Callable

    def __call__(self, data):
        return self.change(data)


def benchmarks(data):
    return {r.benchmark for r in data.records}


def asking(benchmark, **values):
    """Change the requests of a benchmark's trials."""

    def change(record, trials):
        return [
            replace(t, request={**t.request, **values}) if t.key in record["trials"] else t
            for t in trials
        ]

    return Damage(benchmark, trials=change)


def saying(benchmark, change=None, **values):
    """Change a benchmark's record."""
    return Damage(benchmark, record=change or (lambda _: values))


def counting(benchmark, change, every=False):
    """Change what the first of the deciding trials (or every one) counted."""

    def changed(trial):
        content = encode(trial.result)
        change(content)
        return replace(trial, result=decode(TrialResult, content))

    def of_some(record, trials):
        keys = record["trials"] if every else record.get("decisive_trials") or record["trials"]
        wanted = set(keys if every else keys[:1])
        return [changed(t) if t.key in wanted else t for t in trials]

    return Damage(benchmark, trials=of_some)


def ways(change):
    """Apply a change to what was counted in each direction."""

    def of_all(content):
        for way in content["directions"].values():
            change(way)

    return of_all


def mixed(way):
    """Make a quarter of the frames foreground."""
    fg = way["classes"]["fg"]
    way["classes"]["bg"] = {**fg, "role": "background", "required": 3 * fg["required"]}


def directions(change):
    """Apply a change to each direction of a record."""
    return lambda record: {
        "directions": {way: {**d, **change(d)} for way, d in record["directions"].items()}
    }


def goals(change):
    """Apply a change to the last goal's result."""
    return lambda record: {"goals": [*record["goals"][:-1], change(record["goals"][-1])]}


def decisive(**more):
    """Add to what the deciding trials counted."""
    return lambda record: {
        "decisive": [
            {**one, **{name: one[name] + by for name, by in more.items()}}
            for one in record["decisive"]
        ]
    }


def decisive_less(record):
    """Remove the decisive trial of one repetition."""
    return {"decisive": record["decisive"][1:]}


def counts(**changes):
    """Add to the counts of connections."""
    return lambda record: {
        "counts": {
            **record["counts"],
            **{k: (record["counts"][k] or 0) + v for k, v in changes.items()},
        }
    }


def learned(data):
    """Insert a preflight trial before every trial."""
    ahead = next(t for t in data.trials if t.request["benchmark"] == "preflight")
    return replace(data, trials=[one for t in data.trials for one in (ahead, t)])


def real(data):
    setup = {**data.manifest.get("setup", {}), "simulated": False}
    return replace(data, manifest={**data.manifest, "setup": setup})


def answering(data):
    """Make the tester answer neighbour requests in every pause."""
    tester = {**(data.manifest.get("tester") or {}), "answers_on": ["left", "right"]}
    data = real(data)
    return replace(data, manifest={**data.manifest, "tester": tester})


SEVEN, GENERAL = "RFC 8219 section 7", "RFC 8219 section 5.3"
MENDED = {
    ("RFC 8219 section 4 (GEN-01)", "a tester around the device under test"): real,
    ("RFC 2544 section 23 a (GEN-15)", "routes told or tried before each trial"): learned,
    ("RFC 2544 section 23 b (GEN-15)", "learning frames 2 s before each trial"): answering,
}  # fmt: skip
"""What a rehearsal does not follow, and the run that would."""
COMPUTED = "RFC 8219 section 12 (GEN-18)"
"""Medians and percentiles are computed from the repetitions: nothing could be damaged."""
DAMAGED = {
    f"{GENERAL} (GEN-02)": saying("throughput", direction="forward"),
    f"{GENERAL} (GEN-14)": counting("throughput", ways(mixed), every=True),
    "RFC 2544 section 23 d, e (GEN-15)": asking("pdv", residual_wait_s=0.2),
    "siitperf's tolerance (GEN-23)": counting(
        "latency", ways(lambda way: way.update(sending_time_s=120.01))
    ),
    "v6t (GEN-24)": counting("throughput", ways(lambda way: way.update(checked=0)), every=True),
    "RFC 2544 section 24 (GEN-16), throughput": asking("throughput", duration_s=59.0),
    "RFC 2544 section 26.1 (GEN-22), throughput": counting(
        "throughput", ways(lambda way: way["classes"]["fg"].update(received=1))
    ),
    "RFC 2544 section 26.1 (TP-02)": saying("throughput", unresolved=1),
    "RFC 8219 section 4 (SELF-01, SELF-02)": saying("throughput", tester_limited=True),
    "RFC 2544 section 26.3 (FLR-02)": saying(
        "frame-loss", lambda record: {"rates": record["rates"][:1] + record["rates"][2:]}
    ),
    "RFC 2544 section 24 (GEN-16), frame-loss": asking("frame-loss", duration_s=59.0),
    "RFC 9004 section 6.3 (B2B-01)": saying(
        "back-to-back", lambda record: {"values": record["values"][1:]}
    ),
    "RFC 9004 section 6.2 (B2B-01)": asking("back-to-back", residual_wait_s=1.9),
    "RFC 9004 section 6.2 (B2B-02)": saying("back-to-back", verifications=None),
    "RFC 9004 section 6.1 (B2B-03)": saying("back-to-back", burst_rate_reason="tester"),
    "RFC 8219 section 7.2 (LAT-01)": asking("latency", duration_s=119.0),
    "RFC 8219 section 7.2 (LAT-02) tags from 60 s on": asking(
        "latency", delays={"tags": 500, "first_tag_s": 59.0}
    ),
    "RFC 8219 section 7.2 (LAT-02) at least 500": saying(
        "latency", directions(lambda d: {"timed": [n - 1 for n in d["timed"]]})
    ),
    "RFC 8219 section 7.2 (LAT-04)": saying(
        "latency", directions(lambda d: {"tl": {**d["tl"], "values": [None]}})
    ),
    "RFC 8219 section 7.3.1 (PDV-01)": asking("pdv", duration_s=30.0),
    "RFC 8219 section 7.3.2 (IPDV-01)": saying("ipdv", sampled=True),
    **{f"{SEVEN} (LAT-01), {b}": asking(b, rate_fps=1.0) for b in ("latency", "pdv", "ipdv")},
    **{
        f"{SEVEN} (GEN-17), {b}": saying(b, repetitions=19)
        for b in (
            "throughput",
            "frame-loss",
            "latency",
            "pdv",
            "ipdv",
            "mlrsearch",
            *CONNECTIONS[:2],
            "tcp-rate",
        )
    },
    "RFC 2544 section 26.5 (REC-01) an overload of 60 s": asking("system-recovery", duration_s=1.0),
    "RFC 2544 section 26.5 (REC-01) then half": asking(
        "system-recovery", then={"rate_fps": 1.0, "duration_s": 60.0}
    ),
    "RFC 2544 section 26.5 (REC-01) an overload of 110": saying("system-recovery", throughput=1.0),
    "RFC 6201 section 4 (RST-01)": asking("reset", event=None),
    "RFC 6201 section 1.4 (RST-02)": saying("reset", repetitions=1),
    "RFC 9971 section 4.8.4 (TP-07)": saying(
        "mlrsearch", goals(lambda g: {**g, "irregular": ["no bound", *g["irregular"][1:]]})
    ),
    "RFC 9971 section 4.6.1 (TP-07)": saying(
        "mlrsearch", goals(lambda g: {**g, "goal": {**g["goal"], "final_trial_s": 30.0}})
    ),
    "RFC 8219 section 5.1.1 (GEN-04)": OfAny(
        lambda data: replace(data, rfc_frame_sizes=(128, 256))
    ),
    "RFC 9693 section 4.6 (ST-07)": counting(
        "capacity", lambda content: content["connections"].update(validated=None), every=True
    ),
    "RFC 9693 section 4.5 (ST-06) no connection": saying("connection-rate", counts(learned=-1)),
    "RFC 9693 section 4.5 (ST-11)": saying("connection-rate", counts(sessions_before=1)),
    "RFC 9693 section 4.5 (ST-06) the search": saying("connection-rate", resolution_cps=1001.0),
    "RFC 9693 section 4.8 (ST-10)": saying("teardown", rates=[None]),
    "RFC 8219 section 8.2, RFC 3511 section 5.3.4.2": saying("tcp-rate", decisive_less),
    "RFC 3511 section 5.3.3": saying("tcp-rate", decisive(answered=-1)),
    "RFC 8219 section 8.1, RFC 3511 section 5.2.3": saying("tcp-capacity", at_least=True),
    "RFC 3511 section 5.2.3": saying(
        "tcp-capacity", lambda record: {"decisive": {**record["decisive"], "answered": 0}}
    ),
    "RFC 9693 section 4.9 (ST-12)": saying(
        "capacity",
        lambda record: {
            "steps": [{**s, "carried": s["connections"] != 3000} for s in record["steps"]]
        },
    ),
}
"""By source, and the beginning of the demand if the source has several clauses."""


PORTS = "RFC 4814 section 4.5 (GEN-10)"


def names(clause):
    source, asked = clause
    return [
        n for n in (*DAMAGED, PORTS, COMPUTED) if n == source or f"{source} {asked}".startswith(n)
    ]


def test_every_clause_follows_in_a_run_by_the_book_and_has_its_damage(book):
    """A clause without a damage above may be one that cannot fail."""
    seen = set()
    for data in book:
        whole = replace(data, rfc_frame_sizes=(128,))
        for clause, verdict in found(whole).items():
            assert verdict == ("deviates" if clause in MENDED else "follows"), clause
            seen |= set(names(clause)) or ({clause[0]} if clause in MENDED else set())
            assert clause in MENDED or len(names(clause)) == 1, clause
    assert seen == {*DAMAGED, PORTS, COMPUTED, *(source for source, _ in MENDED)}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_run_deviates(book, name):
    verdicts = []
    for data in book:
        if any(name in names(clause) for clause in found(data)) and (
            isinstance(DAMAGED[name], OfAny) or DAMAGED[name].benchmark in benchmarks(data)
        ):
            after = found(DAMAGED[name](data))
            verdicts += [v for clause, v in after.items() if name in names(clause)]
    assert verdicts
    assert set(verdicts) == {"deviates"}


@pytest.mark.parametrize("clause", MENDED)
def test_correct_run_follows_every_clause(book, clause):
    for data in book:
        assert found(MENDED[clause](data))[clause] == "follows"


def test_ports_that_are_not_pseudorandom_deviate(book):
    streams, connections = book
    key = (PORTS, "pseudorandom port numbers")
    for data, change in ((streams, {"rv_sport": "fixed"}), (connections, {"enumerate_ports": 1})):
        assert change.keys() <= data.params.keys()
        assert found(replace(data, params={**data.params, **change}))[key] == "deviates"


def test_clauses_without_trials_are_not_known(book):
    """Without its trials nothing is claimed of them."""
    streams, _ = book
    verdicts = found(replace(streams, trials=[]))
    assert verdicts["RFC 2544 section 24 (GEN-16), throughput", "every result held for 60 s"] == (
        "not known"
    )
    told = {source for (source, _), verdict in verdicts.items() if verdict == "follows"}
    assert not {s for s in told if "GEN-16" in s or "GEN-23" in s or "GEN-24" in s or "REC" in s}
