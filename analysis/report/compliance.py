"""Clause by clause: what the RFCs ask for, what was done, and whether that follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, sheet
from v6t.analysis.variation import random_ports

FOLLOWS, DEVIATES, OPEN = "follows", "deviates", "not known"
REPETITIONS, TRIAL_S, WAIT_S, PAUSE_S, TOLERANCE = 20, 60.0, 2.0, 5.0, 1.00001


@dataclass(frozen=True)
class Clause:
    """One line of the compliance table.

    Attributes:
        source: RFC and section, and v6t's identifier of the requirement.
        asked: what it asks for.
        done: what this run did.
        verdict: ``follows``, ``deviates`` or ``not known``.
    """

    source: str
    asked: str
    done: str
    verdict: str


def clauses(data: RunData) -> list[Clause]:
    """Every clause that concerns the benchmarks of this run."""
    done = {r["benchmark"] for r in data.records} or set(data.config["benchmarks"])
    found = list(_general(data))
    for benchmark, make in _BENCHMARKS.items():
        if benchmark in done:
            found += make(data, data.settings or data.config["procedure"])
    return found


def compliance_sheet(found: list[Clause]) -> Sheet:
    """The table."""
    rows = [(c.source, c.asked, c.done, c.verdict) for c in found]
    return sheet("Clause by clause", ["<source", "<asked for", "<done here", "<verdict"], rows)


def _clause(source: str, asked: str, done: str, follows: bool | None) -> Clause:
    verdict = OPEN if follows is None else FOLLOWS if follows else DEVIATES
    return Clause(source, asked, done, verdict)


def _general(data: RunData) -> Iterator[Clause]:
    p = data.settings or data.config["procedure"]
    yield _clause("RFC 8219 section 4 (GEN-01)", "a tester around the device under test",
                  "simulated: no frame was sent" if data.simulated else "single DUT setup",
                  not data.simulated)  # fmt: skip
    used, listed = set(data.config["frame_sizes"]), set(data.rfc_frame_sizes)
    yield _clause("RFC 8219 section 5.1.1 (GEN-04)",
                  f"frame sizes {_list(sorted(listed)) or 'not known for this technology'}",
                  _list(sorted(used)), listed <= used if listed else None)  # fmt: skip
    modes = data.config["modes"]
    yield _clause("RFC 8219 section 5.3 (GEN-02)", "bidirectional traffic; one way is optional",
                  _list(modes), "bidirectional" in modes)  # fmt: skip
    random = random_ports(data.params)
    yield _clause("RFC 4814 section 4.5 (GEN-10)", "pseudorandom port numbers",
                  {None: "not known", True: "pseudorandom", False: "not all pseudorandom"}[random],
                  random)  # fmt: skip
    n, m = data.params.get("n"), data.params.get("m")
    if n and m:
        yield _clause("RFC 8219 section 5.3 (GEN-14)", "translated share 100, 90, 50 or 10 %",
                      f"{100 * m / n:.4g} % of the frames",
                      round(100 * m / n, 6) in (100, 90, 50, 10))  # fmt: skip
    yield _clause("RFC 2544 section 23 (GEN-15)", "wait 2 s for late frames, 5 s between trials",
                  f"wait {p['residual_wait_s']:g} s, pause {p['pause_s']:g} s",
                  p["residual_wait_s"] >= WAIT_S and p["pause_s"] >= PAUSE_S)  # fmt: skip
    yield _clause("RFC 8219 section 12 (GEN-18)", "median, 1st and 99th percentile",
                  "all three, by nearest rank", True)  # fmt: skip
    tolerated = p["loss_tolerance"]
    yield _clause("RFC 2544 section 26.1 (GEN-22)", "no frame may be lost",
                  f"{tolerated:.4%} may be lost in each direction" if tolerated else "none",
                  not tolerated)  # fmt: skip
    late = p["sending_time_tolerance"]
    yield _clause("siitperf's tolerance (GEN-23)", "sending takes at most 1.00001 of the trial",
                  f"at most {late:g}", late <= TOLERANCE)  # fmt: skip
    checked = sum(c.checked for t in data.trials for c in t.result.directions.values())
    yield _clause("v6t (GEN-24)", "received frames are compared with the reference translation",
                  f"{checked:,} frames compared", checked > 0)  # fmt: skip


def _throughput(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    longest = max(p["trial_duration_s"], p["final_duration_s"] or 0.0)
    yield _clause("RFC 2544 section 24 (GEN-16), throughput", "the result held for 60 s",
                  f"{longest:g} s", longest >= TRIAL_S)  # fmt: skip
    yield _repeated(data, "throughput")
    words = {"binary": "binary search", "fast": "short trials, each result confirmed by a full one",
             "mlrsearch": "MLRsearch with the RFC 2544 goal"}  # fmt: skip
    yield _clause("RFC 2544 section 26.1 (TP-02)", "the highest rate without loss, by any search",
                  words[p["search"]], True)  # fmt: skip
    searched = [
        r for r in data.records if r["benchmark"] == "throughput" and not r.get("not_measured")
    ]
    known = [r for r in searched if r["tester_ceiling"]]
    if searched:
        limited = sum(bool(r["tester_limited"]) for r in searched)
        yield _clause("RFC 8219 section 4 (SELF-01, SELF-02)",
                      "the tester is not the bottleneck",
                      f"{limited} of {len(searched)} points above the margin of its own ceiling"
                      if known else "its ceiling is not known",
                      not limited if known else None)  # fmt: skip


def _latency(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    s = p["latency"]
    yield _clause("RFC 8219 section 7.2 (LAT-01, LAT-02)",
                  "120 s, at least 500 tagged frames from 60 s on",
                  f"{s['duration_s']:g} s, {s['tags']:,} tags from {s['first_tag_s']:g} s on",
                  _fits(s))  # fmt: skip
    yield _clause("RFC 8219 section 7.2 (LAT-04)", "median, and 99.9th percentile of the tags",
                  "TL and WCL by nearest rank", True)  # fmt: skip
    yield _at_throughput("latency", p)
    yield _repeated(data, "latency")


def _fits(s: Mapping[str, Any]) -> bool:
    return bool(s["duration_s"] >= 120 and s["tags"] >= 500 and s["first_tag_s"] >= 60)


def _pdv(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    length = p["delay_variation"]["duration_s"]
    yield _clause("RFC 8219 section 7.3.1 (PDV-01)", "60 s, every frame timed",
                  f"{length:g} s, " + _timed(data, "pdv"),
                  length >= TRIAL_S and "sample" not in _timed(data, "pdv"))  # fmt: skip
    yield _at_throughput("pdv", p)
    yield _repeated(data, "pdv")


def _ipdv(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    length = p["delay_variation"]["duration_s"]
    yield _clause("RFC 8219 section 7.3.2 (IPDV-01)", "60 s, every frame timed",
                  f"{length:g} s, " + _timed(data, "ipdv"),
                  length >= TRIAL_S and "sample" not in _timed(data, "ipdv"))  # fmt: skip
    yield _at_throughput("ipdv", p)
    yield _repeated(data, "ipdv")


def _frame_loss(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    s = p["frame_loss"]
    records = [r for r in data.records if r["benchmark"] == "frame-loss"]
    restricted = any(r.get("restricted_range") for r in records)
    listed = s["rates_fps"] is not None
    yield _clause("RFC 2544 section 26.3 (FLR-02)",
                  "from the medium's maximum down, steps of at most 10 %, until two successive "
                  "trials without loss",
                  "listed rates" if listed else f"steps of {s['step']:.0%}"
                  + (", from the tester's maximum" if restricted else ""),
                  not restricted and not listed)  # fmt: skip
    length = s["duration_s"] or p["trial_duration_s"]
    yield _clause(
        "RFC 2544 section 24 (GEN-16), frame-loss", "60 s", f"{length:g} s", length >= TRIAL_S
    )
    yield _repeated(data, "frame-loss")


def _bursts(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    s = p["back_to_back"]
    yield _clause("RFC 9004 section 5 (B2B-01)", "average of at least 50 searches",
                  f"{s['repetitions']}", s["repetitions"] >= 50)  # fmt: skip
    records = [r for r in data.records if r["benchmark"] == "back-to-back"]
    slower = any(r.get("burst_rate_reason") == "tester" for r in records)
    yield _clause("RFC 9004 section 5.1 (B2B-03)", "bursts at the medium's rate",
                  "at the tester's own maximum" if slower else "at the medium's rate",
                  not slower if records else None)  # fmt: skip


def _recovery(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    s = p["system_recovery"]
    yield _clause("RFC 2544 section 26.5 (REC-01)", "overload for 60 s, then half the rate",
                  f"{s['overload_s']:g} s, then half for {s['afterwards_s']:g} s",
                  s["overload_s"] >= TRIAL_S)  # fmt: skip


def _reset(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    s = p["reset"]
    yield _clause("RFC 6201 section 4 (RST-01, RST-02)", "reset under traffic, frame-loss method",
                  f"{s['hook']}, {s['repetitions']} times", None)  # fmt: skip


def _connection_rate(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    yield _validated(p)
    yield _clause("RFC 9693 section 4.5 (ST-06)", "no connection of phase 1 may be missing",
                  "none may; no tolerance can be set", True)  # fmt: skip
    yield _clause("RFC 9693 section 4.5 (ST-11)", "an empty connection table before every step",
                  "emptied and, where the device tells, counted", True)  # fmt: skip
    yield _repeated(data, "connection-rate")


def _teardown(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    del p
    yield _clause("RFC 9693 section 4.8 (ST-10)", "N / (t(N) - t(0)), the device empties its table",
                  "both times taken with the same command", True)  # fmt: skip
    yield _repeated(data, "teardown")


def _capacity(data: RunData, p: Mapping[str, Any]) -> Iterator[Clause]:
    del data
    c = p["connections"]["capacity"]
    yield _clause("RFC 9693 section 4.9 (ST-12)", "exponential, then binary search for the capacity",
                  f"from {c['first']:,} on, beta {c['beta']:g}, gamma {c['gamma']:g}, "
                  f"E {c['error']:,}", True)  # fmt: skip
    yield _validated(p)


def _validated(p: Mapping[str, Any]) -> Clause:
    c = p["connections"]
    done = f"each once, at {c['alpha']:g} R" if c["validate_connections"] else "not tried"
    return _clause("RFC 9693 section 4.6 (ST-07)", "every connection is validated", done,
                   bool(c["validate_connections"]))  # fmt: skip


def _repeated(data: RunData, benchmark: str) -> Clause:
    made = [
        r["repetitions"]
        for r in data.records
        if r["benchmark"] == benchmark and not r.get("not_measured")
    ]
    least = min(made, default=None)
    return _clause(f"RFC 8219 section 7 (GEN-17), {benchmark}",
                   f"at least {REPETITIONS} repetitions",
                   "none yet" if least is None else str(least),
                   None if least is None else least >= REPETITIONS)  # fmt: skip


def _at_throughput(what: str, p: Mapping[str, Any]) -> Clause:
    given = p["rate_fps"]
    done = f"{given:,.0f} fps, given" if given else f"the {p['rate_from']} of the throughput"
    return _clause(f"RFC 8219 section 7 (LAT-01), {what}", "at the throughput", done, not given)


def _timed(data: RunData, benchmark: str) -> str:
    sampled = any(r.get("sampled") for r in data.records if r["benchmark"] == benchmark)
    return "a sample of the frames" if sampled else "every frame"


def _list(values: Any) -> str:
    return ", ".join(map(str, values))


_BENCHMARKS: Mapping[str, Callable[[RunData, Mapping[str, Any]], Iterator[Clause]]] = {
    "throughput": _throughput,
    "throughput-frame-timeout": _throughput,
    "latency": _latency,
    "pdv": _pdv,
    "ipdv": _ipdv,
    "frame-loss": _frame_loss,
    "back-to-back": _bursts,
    "system-recovery": _recovery,
    "reset": _reset,
    "connection-rate": _connection_rate,
    "teardown": _teardown,
    "capacity": _capacity,
}
