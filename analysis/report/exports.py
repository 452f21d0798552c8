"""A run for other programs: JSON, JUnit XML and OpenMetrics."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TypeAlias
from xml.etree import ElementTree

from v6t.analysis.presentation import Presentations
from v6t.analysis.published.library import collect_facts, find_references
from v6t.analysis.record import Record
from v6t.analysis.report.campaign import list_headlines
from v6t.analysis.report.compliance import list_rulings
from v6t.analysis.report.render import replace_controls
from v6t.analysis.rundata import RunData
from v6t.analysis.warnings import list_run_warnings, list_warnings

SCHEMA = "v6t-report/1"  # name and version of the JSON format


def to_json(data: RunData, presentations: Presentations, paper: str | None = None) -> str:
    """Return the report as JSON by ``schema/report-1.json``."""
    facts = collect_facts(data.config, data.params, simulated=data.simulated)
    content = {
        "schema": SCHEMA,
        "run": data.name,
        "heading": data.heading,
        "status": data.status,
        "config": data.config,
        "manifest": data.manifest,
        "params": data.params,
        "results": data.results,
        "remarks": [str(w) for w in list_warnings(data.records, presentations)],
        "warnings": [asdict(w) for w in list_run_warnings(data, presentations)],
        "validity": {
            "trials": sum(len(r.trials) for r in data.records),
            "invalid_trials": sum(len(r.invalid_trials) for r in data.records),
            "checked": sum(c.checked for t in data.trials for c in t.result.directions.values()),
            "matched": sum(c.matched for t in data.trials for c in t.result.directions.values()),
            "behaviour": data.behaviour,
        },
        "compliance": [
            dict(zip(("source", "asked", "done", "verdict"), ruling, strict=True))
            for ruling in list_rulings(data, presentations)
        ],
        "published": [
            {
                "source": ref.source,
                "metric": ref.entry["metric"],
                "frame_sizes": record.frame_sizes.to_json(),
                "direction": ref.direction,
                "unit": ref.unit,
                "published": ref.published_median,
                "measured": ref.measured,
                "same_conditions": ref.alike,
                "differing": [asdict(c) for c in ref.differing],
            }
            for record in data.records
            for ref in find_references(record, facts, presentations, paper=paper)
        ],
        "points": [
            {"benchmark": r.benchmark, "octets": r.sizes, "direction": r.direction}
            for r in data.records
        ],
    }
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


MAX_INVALID_SHARE = 0.5  # a point with a larger share of invalid trials fails in JUnit results
# class name, name, kind (`failure`, `error`, `skipped`, `system-out` or empty), message and text
JunitCase: TypeAlias = tuple[str, str, str, str, str]


def write_suite(name: str, timestamp: str, cases: Iterable[JunitCase]) -> str:
    """Return JUnit XML with one suite of test cases."""
    suite = ElementTree.Element("testsuite")
    for parts in cases:
        classname, case_name, kind, message, text = map(replace_controls, parts)
        names = {"classname": classname, "name": case_name}
        case = ElementTree.SubElement(suite, "testcase", names)
        if kind:
            attributes = {"message": message} if message else {}
            ElementTree.SubElement(case, kind, attributes).text = text or None
    counts = {"tests": str(len(suite))}
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        counts[plural] = str(len(suite.findall(f"testcase/{kind}")))
    times = {"timestamp": replace_controls(timestamp)}
    suite.attrib |= {"name": replace_controls(name), **counts, **times}
    suites = ElementTree.Element("testsuites", counts)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def to_junit(data: RunData, presentations: Presentations) -> str:
    """Return the results of a run as JUnit XML.

    An incorrect translation, a throughput below ``--fail-below`` and mostly invalid trials are failures, an
    incomplete run is an error, and benchmarks that could not be measured are skipped.
    """
    created = str(data.manifest.get("created", ""))
    return write_suite(data.heading, created, _list_cases(data, presentations))


def _list_cases(data: RunData, presentations: Presentations) -> Iterator[JunitCase]:
    """Yield a test case for each point, and one for the state of the run."""
    plugin = str(data.config["plugin"])
    for record in data.records:
        name = f"{record.benchmark} {record.sizes} {record.direction}"
        if record.not_measured:
            yield plugin, name, "skipped", record.not_measured, ""
        else:
            numbers = "\n".join(_list_numbers(record, presentations))
            failure = _find_failure(record, data.results.get("fail_below_fps"))
            yield plugin, name, "failure" if failure else "system-out", failure, numbers
    if data.status == "translation incorrect":
        why = data.results.get("finding", {}).get("why", "a frame differs")
        yield plugin, "preflight", "failure", f"translation incorrect: {why}", ""
    elif data.status != "complete":
        yield plugin, "run", "error", f"the run is not complete: {data.status}", ""


def _find_failure(record: Record, min_fps: float | None) -> str:
    """Return why a point fails; empty if it passes."""
    fps, invalid = record.throughput_fps, len(record.invalid_trials)
    if min_fps is not None and fps is not None and fps < min_fps:
        return f"{fps:,.0f} fps is below {min_fps:,.0f} fps"
    if invalid > MAX_INVALID_SHARE * len(record.trials):
        return f"{invalid} of {len(record.trials)} trials are invalid"
    return ""


def _list_numbers(record: Record, presentations: Presentations) -> list[str]:
    """Return lines with the figures of a record."""
    values = record.to_json()
    keys = ("title", "convention", "unit", "median", "p1", "p99", "average", "repetitions")
    lines = [f"{k}: {values[k]}" for k in keys if values.get(k) is not None]
    for result in presentations.find(record).list_quantities(record):
        if result.headline not in ("", record.benchmark) and result.summary:
            lines.append(f"{result.headline}: {result.summary.median}")
    return [*lines, f"invalid trials: {len(record.invalid_trials)} of {len(record.trials)}"]


STATISTICS = ("median", "p1", "p99")  # statistics that OpenMetrics has of each figure


def to_openmetrics(data: RunData, presentations: Presentations) -> str:
    """Return the run as OpenMetrics 1.0.0: a gauge for each figure, and counts of trials."""
    run = {
        "run": data.name,
        "plugin": str(data.config["plugin"]),
        "device": str(data.config["dut"]["driver"]),
        "tester": str(data.config["tester"]["kind"]),
        "label": str(data.results.get("label") or ""),
    }
    values, trials, invalid = [], [], []
    for record in data.records:
        point = {
            **run,
            "benchmark": record.benchmark,
            "direction": record.direction,
            "ipv6_octets": str(record.frame_sizes.ipv6),
            "ipv4_octets": str(record.frame_sizes.ipv4),
        }
        trials.append(_write_sample("v6t_trials", point, len(record.trials)))
        invalid.append(_write_sample("v6t_invalid_trials", point, len(record.invalid_trials)))
        for figure in list_headlines(record, presentations) if record.measured else ():
            labels = {
                **point,
                "figure": figure["figure"],
                "unit": figure["unit"] or "",
                "convention": figure["convention"] or "",
                "limited": "tester or medium" if figure["limited"] else "",
            }
            values += [
                _write_sample("v6t_result", {**labels, "statistic": s}, figure[s])
                for s in STATISTICS
                if figure[s] is not None
            ]
    lines = [
        *_write_family("v6t_result", "Results of a run; the label unit is their unit.", values),
        *_write_family("v6t_trials", "Trials behind a point, invalid ones included.", trials),
        *_write_family("v6t_invalid_trials", "Trials in which the tester failed.", invalid),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _write_family(name: str, text: str, samples: Iterable[str]) -> list[str]:
    """Return the lines of an OpenMetrics gauge with its help text."""
    return [f"# TYPE {name} gauge", f"# HELP {name} {text}", *dict.fromkeys(samples)]


def _write_sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return the line of an OpenMetrics sample."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    label_text = ",".join(f'{key}="{text.translate(escapes)}"' for key, text in labels.items())
    return f"{name}{{{label_text}}} {value:.17g}"
