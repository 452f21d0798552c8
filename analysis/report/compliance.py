"""Clause by clause: what the RFCs ask for, what was done, and whether that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from v6t.analysis.presentation import Clause, Presentations, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, sheet
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
    yield clause("RFC 8219 section 4 (GEN-01)", "a tester around the device under test",
                  "simulated: no frame was sent" if data.simulated else "single DUT setup",
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
    yield clause("RFC 2544 section 23 (GEN-15)", "wait 2 s for late frames, 5 s between trials",
                  f"wait {p['residual_wait_s']:g} s, pause {p['pause_s']:g} s",
                  p["residual_wait_s"] >= WAIT_S and p["pause_s"] >= PAUSE_S)  # fmt: skip
    yield clause("RFC 8219 section 12 (GEN-18)", "median, 1st and 99th percentile",
                  "all three, by nearest rank", True)  # fmt: skip
    tolerated = p["loss_tolerance"]
    yield clause("RFC 2544 section 26.1 (GEN-22)", "no frame may be lost",
                  f"{tolerated:.4%} may be lost in each direction" if tolerated else "none",
                  not tolerated)  # fmt: skip
    late = p["sending_time_tolerance"]
    yield clause("siitperf's tolerance (GEN-23)", "sending takes at most 1.00001 of the trial",
                  f"at most {late:g}{_known_to(data)}", late <= TOLERANCE)  # fmt: skip
    checked = sum(c.checked for t in data.trials for c in t.result.directions.values())
    yield clause("v6t (GEN-24)", "received frames are compared with the reference translation",
                  f"{checked:,} frames compared", checked > 0)  # fmt: skip


def _known_to(data: RunData) -> str:
    """How closely the tester knew what it proved."""
    errors_s = [
        c.sending_error_s
        for t in data.trials
        for c in t.result.directions.values()
        if c.sending_error_s is not None
    ]
    return f", known to {1e6 * max(errors_s):.0f} µs and less" if errors_s else ""


def _list(values: Any) -> str:
    return ", ".join(map(str, values))
