"""A run as JUnit XML: one test case per benchmark and point, for continuous integration."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from v6t.analysis.presentation import Presentations
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def to_junit(data: RunData, presentations: Presentations) -> str:
    """The file.

    A wrong translation is a failure, an interrupted run an error, a benchmark that could not be
    measured is skipped. Slow devices do not fail: what is too slow is not for a report to say.
    """
    cases = [_case(data, record, presentations) for record in data.records]
    failures = errors = 0
    suite = _attribute(data.config["plugin"])
    if data.status == "translation incorrect":
        why = str(data.results.get("finding", {}).get("why", "a frame differs"))
        message = _attribute(f"translation incorrect: {why}")
        cases.append(
            f'<testcase classname={suite} name="preflight"><failure message={message}/></testcase>'
        )
        failures = 1
    elif data.status != "complete":
        message = _attribute(f"the run is not complete: {data.status}")
        cases.append(
            f'<testcase classname={suite} name="run"><error message={message}/></testcase>'
        )
        errors = 1
    skipped = sum(not r.measured for r in data.records)
    body = "\n".join(f"  {case}" for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    return (
        f"{_HEAD}<testsuites {counts}>\n <testsuite name={_attribute(data.heading)} {counts} "
        f"timestamp={_attribute(str(data.manifest.get('created', '')))}>\n{body}\n"
        " </testsuite>\n</testsuites>\n"
    )


def _case(data: RunData, record: Record, presentations: Presentations) -> str:
    name = _attribute(f"{record.benchmark} {record.sizes} {record.direction}")
    head = f"<testcase classname={_attribute(data.config['plugin'])} name={name}"
    if record.not_measured:
        return f"{head}><skipped message={_attribute(record.not_measured)}/></testcase>"
    text = escape(_printable("\n".join(_numbers(record, presentations))))
    return f"{head}><system-out>{text}</system-out></testcase>"


def _numbers(record: Record, presentations: Presentations) -> list[str]:
    values = record.to_json()
    keys = ("title", "convention", "unit", "median", "p1", "p99", "average", "repetitions")
    lines = [f"{k}: {values[k]}" for k in keys if values.get(k) is not None]
    for result in presentations.of(record).results(record):
        if result.headline not in ("", record.benchmark) and result.summary:
            lines.append(f"{result.headline}: {result.summary.median}")
    return [*lines, f"invalid trials: {len(record.invalid_trials)} of {len(record.trials)}"]


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    """Control characters cannot stand in XML, not even escaped."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
