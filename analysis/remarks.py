"""What must be said below the tables: why there is no number, what is odd about one."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.analysis.means import said_of_means
from v6t.analysis.sheet import Record, sizes_of


def remarks(records: Sequence[Record]) -> list[str]:
    """One sentence each, with the point it is about."""
    said: list[str] = []
    for record in records:
        place = f"{record['benchmark']} {sizes_of(record)} {record['direction']}"
        if record.get("not_measured"):
            said.append(f"{place}: not measured, {record['not_measured']}")
        if record.get("above_usable"):
            highest = max(record["above_usable"])
            said.append(
                f"{place}: offered up to {highest:,.0f} fps, but the tester's self-test covers "
                f"only {record['usable_fps']:,.0f}: loss and delay above may be its own"
            )
        if record.get("why"):
            said.append(f"{place}: {record['why']}")
        if record.get("invalid_repetitions"):
            said.append(
                f"{place}: {record['invalid_repetitions']} repetitions are left out, the tester "
                "could not send their bursts as asked"
            )
        if record.get("non_monotonic"):
            said.append(f"{place}: a rate passed above one that failed (TP-04)")
        if record.get("unresolved"):
            said.append(
                f"{place}: {record['unresolved']} searches gave up before their bracket was as "
                "narrow as asked"
            )
        if record.get("state_survived"):
            kept, resets = sum(record["state_survived"]), len(record["state_survived"])
            said.append(
                f"{place}: the connections survived {kept} of {resets} resets (frames from "
                "outside alone make none anew)"
            )
        if record.get("below_rfc_tags"):
            said.append(f"{place}: fewer tagged frames than the 500 of RFC 8219")
        if record.get("hit_longest"):
            said.append(f"{place}: the longest burst of the search lost nothing")
        said += [f"{place}: {note}" for note in record.get("notes", ())]
        said += [f"{place}: {note}" for note in said_of_means(record)]
        said += _of_directions(place, record)
    return said


def _of_directions(place: str, record: Record) -> list[str]:
    said: list[str] = []
    for way, figures in record.get("directions", {}).items():
        for name in ("tl", "wcl", "pdv"):
            noted = figures.get(name, {}).get("notes", ()) if name in figures else ()
            said += [f"{place}, {way} {name.upper()}: {note}" for note in noted]
        if sum(figures.get("clamped", ())):
            said.append(f"{place}, {way}: {sum(figures['clamped'])} negative delays counted as 0")
    return said
