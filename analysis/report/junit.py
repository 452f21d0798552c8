"""JUnit XML for continuous integration; of a run, one test case per benchmark and point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from xml.etree import ElementTree

from v6t.analysis.presentation import Presentations
from v6t.analysis.record import Record
from v6t.analysis.report.render import printable
from v6t.analysis.rundata import RunData

JunitCase: TypeAlias = tuple[str, str, str, str, str]
"""Class name, name, kind (``failure``, ``error``, ``skipped``, ``system-out`` or nothing), message, text."""


def write_suite(name: str, timestamp: str, cases: Iterable[JunitCase]) -> str:
    """Return JUnit XML with one suite of test cases."""
    suite = ElementTree.Element("testsuite")
    for classname, case_name, kind, message, text in cases:
        names = {"classname": printable(classname), "name": printable(case_name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if kind:
            attributes = {"message": printable(message)} if message else {}
            ElementTree.SubElement(case, kind, attributes).text = printable(text) or None
    counts = {"tests": str(len(suite))}
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        counts[plural] = str(len(suite.findall(f"testcase/{kind}")))
    suite.attrib |= {"name": printable(name), **counts, "timestamp": printable(timestamp)}
    suites = ElementTree.Element("testsuites", counts)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def to_junit(data: RunData, presentations: Presentations) -> str:
    """Write the file of a run.

    A wrong translation is a failure, an interrupted run an error, a benchmark that could not be
    measured is skipped. Slow devices do not fail: what is too slow is not for a report to say.
    """
    created = str(data.manifest.get("created", ""))
    return write_suite(data.heading, created, _list_cases(data, presentations))


def _list_cases(data: RunData, presentations: Presentations) -> Iterator[JunitCase]:
    plugin = str(data.config["plugin"])
    for record in data.records:
        name = f"{record.benchmark} {record.sizes} {record.direction}"
        if record.not_measured:
            yield plugin, name, "skipped", record.not_measured, ""
        else:
            yield plugin, name, "system-out", "", "\n".join(_numbers(record, presentations))
    if data.status == "translation incorrect":
        why = data.results.get("finding", {}).get("why", "a frame differs")
        yield plugin, "preflight", "failure", f"translation incorrect: {why}", ""
    elif data.status != "complete":
        yield plugin, "run", "error", f"the run is not complete: {data.status}", ""


def _numbers(record: Record, presentations: Presentations) -> list[str]:
    values = record.to_json()
    keys = ("title", "convention", "unit", "median", "p1", "p99", "average", "repetitions")
    lines = [f"{k}: {values[k]}" for k in keys if values.get(k) is not None]
    for result in presentations.of(record).results(record):
        if result.headline not in ("", record.benchmark) and result.summary:
            lines.append(f"{result.headline}: {result.summary.median}")
    return [*lines, f"invalid trials: {len(record.invalid_trials)} of {len(record.trials)}"]
