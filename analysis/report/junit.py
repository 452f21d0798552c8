"""A run as JUnit XML: one test case per benchmark and point, for continuous integration."""

from __future__ import annotations

from xml.etree import ElementTree

from v6t.analysis.presentation import Presentations
from v6t.analysis.record import Record
from v6t.analysis.report.render import printable
from v6t.analysis.rundata import RunData


def to_junit(data: RunData, presentations: Presentations) -> str:
    """Write the file.

    A wrong translation is a failure, an interrupted run an error, a benchmark that could not be
    measured is skipped. Slow devices do not fail: what is too slow is not for a report to say.
    """
    plugin = printable(str(data.config["plugin"]))
    suite = ElementTree.Element("testsuite")
    for record in data.records:
        name = printable(f"{record.benchmark} {record.sizes} {record.direction}")
        case = ElementTree.SubElement(suite, "testcase", classname=plugin, name=name)
        if record.not_measured:
            ElementTree.SubElement(case, "skipped", message=printable(record.not_measured))
        else:
            text = "\n".join(_numbers(record, presentations))
            ElementTree.SubElement(case, "system-out").text = printable(text)
    if data.status == "translation incorrect":
        why = data.results.get("finding", {}).get("why", "a frame differs")
        case = ElementTree.SubElement(suite, "testcase", classname=plugin, name="preflight")
        message = printable(f"translation incorrect: {why}")
        ElementTree.SubElement(case, "failure", message=message)
    elif data.status != "complete":
        case = ElementTree.SubElement(suite, "testcase", classname=plugin, name="run")
        message = printable(f"the run is not complete: {data.status}")
        ElementTree.SubElement(case, "error", message=message)
    counts = {"tests": str(len(suite))}
    for name in ("failure", "error", "skipped"):
        plural = name if name == "skipped" else f"{name}s"
        counts[plural] = str(len(suite.findall(f"testcase/{name}")))
    created = printable(str(data.manifest.get("created", "")))
    suite.attrib |= {"name": printable(data.heading), **counts, "timestamp": created}
    suites = ElementTree.Element("testsuites", counts)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _numbers(record: Record, presentations: Presentations) -> list[str]:
    values = record.to_json()
    keys = ("title", "convention", "unit", "median", "p1", "p99", "average", "repetitions")
    lines = [f"{k}: {values[k]}" for k in keys if values.get(k) is not None]
    for result in presentations.of(record).results(record):
        if result.headline not in ("", record.benchmark) and result.summary:
            lines.append(f"{result.headline}: {result.summary.median}")
    return [*lines, f"invalid trials: {len(record.invalid_trials)} of {len(record.trials)}"]
