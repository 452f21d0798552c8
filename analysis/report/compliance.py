"""Clause by clause: what the RFCs ask for, what was done, and whether that follows them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from v6t.analysis.presentation import Clause, Presentations, clause
from v6t.analysis.records.base import Record
from v6t.analysis.rundata import RunData, RunTrial
from v6t.analysis.sheet import Sheet, sheet
from v6t.analysis.statistics import summary_json
from v6t.analysis.variation import random_ports

WAIT_S, PAUSE_S, TOLERANCE = 2.0, 5.0, 1.00001


def clauses(data: RunData, presentations: Presentations) -> list[Clause]:
    """Every clause that concerns the benchmarks of this run."""
    done = {r.benchmark for r in data.records} or set(data.config["benchmarks"])
    found = list(_general(data))
    for presentation in presentations.known.values():
        if presentation.name in done:
            found += presentation.clauses(data)
    return found


def compliance_sheet(found: list[Clause]) -> Sheet:
    """The table."""
    rows = [(c.source, c.asked, c.done, c.verdict) for c in found]
    return sheet("Clause by clause", ["<source", "<asked for", "<done here", "<verdict"], rows)


def _general(data: RunData) -> Iterator[Clause]:
    p = data.procedure
    devices = len(data.setup.get("devices", ())) or 1
    setups = {1: "single DUT setup", 2: "dual DUT setup"}
    yield clause("RFC 8219 section 4 (GEN-01)", "a tester around the device under test",
                  "simulated: no frame was sent" if data.simulated
                  else setups.get(devices, f"{devices} devices in a row"),
                  not data.simulated)  # fmt: skip
    used, listed = set(data.config["frame_sizes"]), set(data.rfc_frame_sizes)
    yield clause("RFC 8219 section 5.1.1 (GEN-04)",
                  f"frame sizes {_list(sorted(listed)) or 'not known for this technology'}",
                  _list(sorted(used)), listed <= used if listed else None)  # fmt: skip
    modes = data.config["modes"]
    yield clause("RFC 8219 section 5.3 (GEN-02)", "bidirectional traffic; one way is optional",
                  _list(modes), "bidirectional" in modes)  # fmt: skip
    random = random_ports(data.params)
    yield clause("RFC 4814 section 4.5 (GEN-10)", "pseudorandom port numbers",
                  {None: "not known", True: "pseudorandom", False: "not all pseudorandom"}[random],
                  random)  # fmt: skip
    n, m = data.params.get("n"), data.params.get("m")
    if n and m:
        yield clause("RFC 8219 section 5.3 (GEN-14)", "translated share 100, 90, 50 or 10 %",
                      f"{100 * m / n:.4g} % of the frames",
                      round(100 * m / n, 6) in (100, 90, 50, 10))  # fmt: skip
    yield clause("RFC 2544 section 23 a (GEN-15)", "a routing update 2 s before each trial",
                  "static, and tried by frames before the first trial of a point", False)  # fmt: skip
    yield clause("RFC 2544 section 23 b (GEN-15)", "learning frames 2 s before each trial",
                  *_learning(data))  # fmt: skip
    yield clause("RFC 2544 section 23 d, e (GEN-15)", "wait 2 s for late frames, 5 s between trials",
                  f"wait {p['residual_wait_s']:g} s, pause {p['pause_s']:g} s",
                  p["residual_wait_s"] >= WAIT_S and p["pause_s"] >= PAUSE_S)  # fmt: skip
    yield clause("RFC 8219 section 12 (GEN-18)", "median, 1st and 99th percentile",
                  *_summarised(data))  # fmt: skip
    tolerated = p["loss_tolerance"]
    yield clause("RFC 2544 section 26.1 (GEN-22)", "no frame may be lost",
                  f"{tolerated:.4%} may be lost in each direction" if tolerated else "none",
                  not tolerated)  # fmt: skip
    late = _sending_times(data)
    yield clause("siitperf's tolerance (GEN-23)", "sending takes at most 1.00001 of the trial",
                  f"at most {max(late):.6f} in {len(late):,} trials" if late else "no trial is kept",
                  max(late) <= TOLERANCE if late else None)  # fmt: skip
    if not data.simulated:
        yield clause("v6t (GEN-27)", "the tester answers for its hosts, or the device is told them",
                     *_neighbours(data))  # fmt: skip
    points = [n for n in map(partial(_compared, data), data.records) if n is not None]
    yield clause("v6t (GEN-24)", "received frames are compared with the reference translation",
                  f"{sum(points):,} frames; some in {sum(n > 0 for n in points)} of "
                  f"{len(points)} results",
                  all(points) if points else None)  # fmt: skip


def _counted(data: RunData, record: Record) -> Iterator[RunTrial]:
    """The trials behind a record in which the tester did its part."""
    invalid = {t.key for t in record.invalid_trials}
    return (t for t in data.of(record) if t.key not in invalid)


def _summarised(data: RunData) -> tuple[str, bool | None]:
    """Whether the printed summaries are those of the repetitions beside them."""
    right = []
    for record in data.records:
        for _, series, _ in record.series() if record.measured else ():
            printed = series.model_dump(include={"median", "p1", "p99"})
            again = summary_json([math.inf if v is None else v for v in series.repeated])
            right += [again[name] == value for name, value in printed.items()]
    if not right:
        return "nothing was summarised", None
    said = "all three, by nearest rank" if all(right) else "not those of the repetitions"
    return said, all(right)


def _sending_times(data: RunData) -> list[float]:
    """How long sending took at most in each trial that counts, as a multiple of what was asked."""
    return [
        counted.sending_at_most_s / t.sending_s
        for record in data.records
        for t in _counted(data, record)
        for counted in t.result.directions.values()
    ]


def _learning(data: RunData) -> tuple[str, bool]:
    """Whether the tester's hosts asked for the device early enough before each trial."""
    pause_s = data.procedure["pause_s"]
    if data.simulated or not (data.manifest.get("tester") or {}).get("answers_on"):
        return "none", False
    return f"each of the tester's hosts asks for the device {pause_s:g} s before", pause_s >= WAIT_S


def _neighbours(data: RunData) -> tuple[str, bool | None]:
    """Who sees to it that the device finds the tester's hosts."""
    where = (data.manifest.get("tester") or {}).get("answers_on")
    if where is None:
        return "not known", None
    told = data.config["dut"]["options"].get("neighbours", "static")
    if where:
        return f"answered, on {_list(where)}; entries of the device: {told}", True
    return f"not answered; entries of the device: {told}", told != "resolved"


def _compared(data: RunData, record: Record) -> int | None:
    """Frames compared in the trials of a record; None where it has none with streams."""
    counts = [c.checked for t in _counted(data, record) for c in t.result.directions.values()]
    return sum(counts) if counts else None


def _list(values: Any) -> str:
    return ", ".join(map(str, values))
