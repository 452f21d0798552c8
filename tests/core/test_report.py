"""Reports: complete, equal to results.json, safe, reproducible and readable."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from unittest.mock import Mock

import jsonschema
import pytest
import v6t as v6t_package
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from v6t.analysis.blocks import BulletList, CodeListing, Collapsible
from v6t.analysis.figures import plots
from v6t.analysis.report import run as run_report
from v6t.analysis.report.compliance import list_rulings
from v6t.analysis.report.exports import to_json
from v6t.analysis.report.render import to_html
from v6t.analysis.report.run import build_document
from v6t.analysis.report.setup import fold_configuration, split_command
from v6t.analysis.report.trust import assess_validity
from v6t.analysis.sheet import make_text_table
from v6t.base.errors import ExtensionError
from v6t.benchmarks.registry import load_presentations
from v6t.core.cli.run_console import _add_bottleneck
from v6t.core.config import plugins
from v6t.core.config.resolve import resolve_setup
from v6t.core.reporting import write
from v6t.core.runs import bottleneck
from v6t.core.runs.events import Listener
from v6t.core.runs.manifest import describe_setup
from v6t.core.runs.results import load_run, read_results
from v6t.tests.core.support import (
    SIM,
    make_all_tables,
    make_results_validator,
    make_run,
    open_page,
    read_csv,
    read_dir,
    read_schema,
    replace_config,
    v6t,
    write_report,
)
from v6t.tests.expect import expect_error, expect_refusal

pytestmark = pytest.mark.slow


def read_xml(path):
    """Return the root of an XML file that this test suite has written."""
    return ET.fromstring(path.read_text())  # noqa: S314


EVERYTHING = (
    *("throughput", "throughput-frame-timeout", "frame-loss", "back-to-back", "latency", "pdv"),
    *("ipdv", "system-recovery", "reset"),
)
SHORT = (*SIM, "--reps", 1, "--mode", "forward")
HOSTILE_LABEL = '<script>alert("x")</script> & $x^2$ | `a` \\ b\nc \u202e\x07'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    procedure = {"frame_timeout": {"deadline_ms": 5.0}, "resolution_fps": 50_000.0}
    device = {"buffer_frames": 2000, "tail_share": 0.001, "recovery_s": 0.1, "reset_s": 0.2}
    settings = {"device": device, "procedure": procedure, "label": HOSTILE_LABEL}
    path = make_run(tmp_path_factory.mktemp("runs") / "run", *EVERYTHING, **settings)
    write.write_run_report(path)
    return path


@pytest.fixture(scope="module")
def page(run):
    return Page((run / "report.html").read_text())


class Page(HTMLParser):
    """Parsed HTML file: its elements, which must be balanced, tables, identifiers and text."""

    VOID = ("meta", "br", "img", "link", "hr", "input")
    REFERENCES = ("href", "src", "xlink:href", "action", "data", "poster", "srcset")

    def __init__(self, text):
        super().__init__()
        self.raw, self.open, self.tables, self.ids, self.references = text, [], {}, [], []
        self.elements, self.text, self.caption, self.row = [], "", None, None
        self.feed(text)
        self.close()
        assert self.open == [], "unclosed elements"

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs), attrs
        self.ids += [value for name, value in attrs if name == "id"]
        self.references += [value for name, value in attrs if name in self.REFERENCES]
        if tag == "tr":
            self.row = []
        if tag in ("td", "th") and self.row is not None:
            self.row.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag == "tr":
            self.tables.setdefault(self.caption, []).append(self.row)
            self.row = None
        if tag == "table":
            self.caption = None

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] == "caption":
            self.caption = (self.caption or "") + data
        elif self.row:
            self.row[-1] += data


def read_records(run, benchmark):
    return [r for r in read_results(run)["results"] if r["benchmark"] == benchmark]


def test_report_is_reproducible(tmp_path):
    path = make_run(tmp_path / "run", "latency", procedure={"repetitions": 2})
    write.write_run_report(path)
    before = read_dir(path)
    for name in ("report.html", "report.md", "report.json", "junit.xml"):
        (path / name).unlink()
    done = v6t("report", path)
    assert done.status == 0
    assert done.out.split() == [str(path / name) for name in write.DEFAULT_FILES.values()]
    assert read_dir(path) == before


def test_page_has_no_scripts_or_external_resources(page):
    assert "script" not in page.elements
    assert {"link", "img", "iframe", "object", "embed"}.isdisjoint(page.elements)
    assert all(r.startswith("#") for r in page.references), page.references
    assert "default-src 'none'" in page.raw and "@import" not in page.raw
    assert re.findall(r"url\((?!#)", page.raw) == []


def test_identifiers_are_unique_and_references_exist(page):
    assert len(set(page.ids)) == len(page.ids)
    assert {r[1:] for r in page.references} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page.raw)) <= set(page.ids)


def test_user_text_is_escaped(run, page):
    assert '<script>alert("x")</script> & $x^2$' in page.text
    assert "\u202e" not in page.raw and "\x07" not in page.raw
    fenced = re.compile(r"^(`{3,})$.*?^\1$", re.DOTALL | re.MULTILINE)
    markdown = fenced.sub("", (run / "report.md").read_text())
    assert "&#60;/script\\> &#38; &#36;x^2&#36;" in markdown
    assert re.search(r"(?<!\\)[<`]|&(?!#\d+;)", markdown) is None
    assert read_xml(run / "junit.xml").tag == "testsuites"


def test_every_benchmark_has_its_table_and_figures(run, page):
    for benchmark in EVERYTHING:
        assert benchmark in page.ids
    captions = set(page.tables)
    for words in ("Throughput", "Frame loss", "Back-to-back", "Latency", "PDV", "IPDV", "System",
                  "Reset", "Clause by clause", "Every trial", "Headroom"):  # fmt: skip
        assert any(c and c.startswith(words) for c in captions), words
    # one figure of the setup, rates by size, the search, two of repetitions, loss curve, forwarded rate,
    # delays of three benchmarks, and the timelines of each benchmark
    assert page.elements.count("svg") == 1 + 3 + 3 + 2 + 3 + len(EVERYTHING)
    for name in ("throughput-sizes", "frame-loss-curve", "latency-104-bidirectional"):
        assert any(i.startswith(f"{name}-") for i in page.ids), name


def test_tables_equal_results(run, page):
    (record,) = read_records(run, "throughput")
    row = dict(zip(*page.tables["Throughput"], strict=True))
    assert row["median fps per direction"] == f"{record['median']:,.0f}"
    assert (row["P1"], row["P99"]) == (f"{record['p1']:,.0f}", f"{record['p99']:,.0f}")
    assert row["aggregate fps"] == f"{2 * record['median']:,.0f}"
    assert row["repetitions"] == str(record["repetitions"]) == "6"
    low, high = record["median_interval"]["low"], record["median_interval"]["high"]
    assert next(v for k, v in row.items() if k.startswith("95 %")) == f"{low:,.0f} to {high:,.0f}"
    (record,) = read_records(run, "latency")
    head, *rows = page.tables["Latency, milliseconds"]
    medians = [record["directions"][d]["tl"]["median"] for d in ("forward", "reverse")]
    assert [r[head.index("TL ms")] for r in rows] == [f"{median:.4f}" for median in medians]
    (record,) = read_records(run, "frame-loss")
    head, *rows = page.tables[record["title"]]
    losses = {(r[1], r[3].removesuffix(" *")): r[4] for r in rows}
    for point in record["rates"]:
        for direction, loss in point["loss_percent"].items():
            label = direction if direction == "sum" else f"{direction}, both"
            assert losses[label, f"{point['rate']:,.0f}"] == f"{loss['median']:.4f}"


def test_report_states_the_medium(page):
    """RFC 8219 section 5.1: details of the media MUST be noted in all reports."""
    assert re.search(r"Medium\s*10 Gbit/s", page.text)


def test_listed_trials_are_those_of_the_journal(run, page):
    rows = read_csv(run / "trials.csv")
    head, *shown = page.tables["Every trial, as it was counted"]
    places = [0, 2, 3, head.index("received")]
    names = ("key", "direction", "class", "received")
    assert [[r[n] for n in places] for r in shown] == [[r[n] for n in names] for r in rows]


def test_compliance_table_marks_deviations(page):
    _, *rows = page.tables["Clause by clause"]
    clauses = {row[0]: row for row in reversed(rows)}
    assert clauses["RFC 2544 section 24, throughput"][2:] == ["1 s", "deviates"]
    assert clauses["RFC 8219 section 7, throughput"][2:] == ["6", "deviates"]
    assert clauses["RFC 4814 section 4.5"][3] == "follows"
    assert clauses["RFC 8219 section 4"][3] == "deviates"  # simulated
    assert "compliant" not in page.text.replace("compliance", "")


@pytest.mark.parametrize(("answers_on", "entries", "verdict"), [
    (["left", "right"], "resolved", "follows"), ([], "static", "follows"),
    ([], "resolved", "deviates"), (None, "static", "not known"),
])  # fmt: skip
def test_neighbor_clause_follows_tester_and_driver(run, answers_on, entries, verdict):
    data = load_run(run)
    tester = {} if answers_on is None else {"answers_on": answers_on}
    setup = {**data.manifest.get("setup", {}), "simulated": False}
    config = {**data.config, "dut": {"driver": "linux-router", "options": {"neighbours": entries}}}
    manifest = {**data.manifest, "tester": tester, "setup": setup}
    real = replace(data, manifest=manifest, config=config)

    def find_clause(source, requirement, data):
        rulings = [c for c in list_rulings(data, load_presentations()) if c.source == source]
        (clause,) = [c for c in rulings if c.requirement.startswith(requirement)]
        return clause

    clause = find_clause("v6t", "the tester answers", real)
    assert clause.verdict == verdict
    assert entries in clause.practice or answers_on is None
    for pause_s, early in ((2.0, True), (1.9, False)):
        paused = replace(real, settings={**real.procedure, "pause_s": pause_s})
        follows = find_clause("RFC 2544 section 23 b", "learning", paused).verdict == "follows"
        assert follows is (early and bool(answers_on))


def test_invalid_trials_are_reported(tmp_path):
    # the tester is slower than the offered rates, so that some of its trials take too long
    path = make_run(tmp_path / "run", device={"tester_fps": 500_000})
    write.write_run_report(path, formats=["html"], figures="none")
    page = Page((path / "report.html").read_text())
    head, row = page.tables["Headroom of the tester, per direction"]
    assert row[head.index("headroom")] != "enough"
    assert "limited by the tester" in page.text


def test_observed_header_behaviour_is_reported(run):
    data, presentations = load_run(run), load_presentations()
    behaviour = {"outer DSCP: copied from the inner header": 7, "outer hop limit: 63": 9}

    def add_behaviour(trial):
        reverse = replace(trial.result.directions["reverse"], behaviour=behaviour)
        directions = {**trial.result.directions, "reverse": reverse}
        return replace(trial, result=replace(trial.result, directions=directions))

    trials = [add_behaviour(t) for t in data.trials if "reverse" in t.result.directions][:2]
    observed = replace(data, trials=trials)
    assert observed.behaviour == {"reverse": {text: 2 * n for text, n in behaviour.items()}}
    items = [b.items for b in assess_validity(observed) if isinstance(b, BulletList)]
    (texts,) = [" ".join(texts) for texts in items if "DSCP" in str(texts)]
    assert re.findall(r"\d+", texts) == ["14", "63", "18"]
    for example in (observed, data):
        content = json.loads(to_json(example, presentations))
        jsonschema.validate(content, read_schema("report-1"))
        assert content["validity"]["behaviour"] == example.behaviour
    assert data.behaviour == {}


def test_changes_of_driver_figures_are_reported(run):
    entry = {
        **{"device": "nat", "benchmark": "throughput", "direction": "forward"},
        "frame_sizes": {"ipv6": 84, "ipv4": 64},
        **{"drops": {}, "changes": {"queue waiting": -1.0}, "table": {}},
    }
    data = load_run(run)
    blocks = assess_validity(replace(data, results={**data.results, "device": [entry]}))
    tables = [t for b in blocks if isinstance(b, Collapsible) for t in b.blocks]
    (table,) = [t for t in tables if t.title.startswith("What the device counted")]
    assert [row[-2:] for row in table.rows][1:] == [("queue waiting", "-1")]


def test_json_follows_its_schema(run):
    results, report = (json.loads((run / f"{n}.json").read_text()) for n in ("results", "report"))
    assert report["results"] == read_results(run)
    schemas = make_results_validator().schema, read_schema("report-1")
    for schema in (*schemas, read_schema("comparison-1"), read_schema("campaign-1")):
        jsonschema.Draft202012Validator.check_schema(schema)
    for schema, example in zip(schemas, (results, report), strict=True):
        jsonschema.Draft202012Validator(schema).validate(example)


def test_schema_rejects_incomplete_result(run):
    content = read_results(run)
    content["results"] = content["results"][:1]
    content["results"][0].pop("median")
    (error,) = make_results_validator().iter_errors(content)
    assert "median" in error.message


def test_junit_has_a_case_per_point(run):
    suites = read_xml(run / "junit.xml")
    cases = suites.findall("testsuite/testcase")
    assert [c.get("name") for c in cases] == [f"{name} 104/64 bidirectional" for name in EVERYTHING]
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("0", "0", "0")
    (median,) = [r["median"] for r in read_records(run, "throughput")]
    assert f"median: {median}" in cases[0].findtext("system-out")


def test_csv_is_in_siitperfs_column_order(run, tmp_path):
    assert v6t("report", run, "--format", "csv", "-o", tmp_path / "out").status == 0
    assert list(read_dir(tmp_path / "out")) == ["results.csv"]
    rows = read_csv(tmp_path / "out" / "results.csv")
    assert list(rows[0]) == [
        *("No", "Size", "Dir", "n", "m", "Duration", "Initial Rate", "Timeout", "Error", "Date"),
        *("Iterations", "rate", "Limited", "median"),
    ]
    (record,) = read_records(run, "throughput")
    assert [float(r["rate"]) for r in rows] == record["rates"]
    limited = record["tester_limited"] or record["upper_bound_hit"]
    assert {r["Limited"] for r in rows} == {"yes" if limited else "no"}
    assert {float(r["median"]) for r in rows} == {record["median"]}


def test_medians_csv_has_a_row_for_each_figure_of_each_benchmark(run):
    rows = read_csv(run / "medians.csv")
    assert {row["benchmark"] for row in rows} == set(EVERYTHING)
    places = [(r["benchmark"], r["ipv6_octets"], r["direction"], r["figure"]) for r in rows]
    assert len(set(places)) == len(places)
    assert all(figure for *_, figure in places)
    loaded = v6t_package.load(run)
    record = next(r for r in loaded.records if r.benchmark == "latency")

    def read_medians(benchmark):
        selected = [r["median"] for r in rows if r["benchmark"] == benchmark and r["median"]]
        return list(map(float, selected))

    assert record.directions["forward"].tl.median in read_medians("latency")
    assert read_medians("throughput") == [loaded.table("throughput")[0]["median"]]


def test_markdown_tables_are_complete(run):
    rows = [line for line in (run / "report.md").read_text().splitlines() if line.startswith("|")]
    assert rows and all(line.endswith("|") for line in rows)
    (median,) = [r["median"] for r in read_records(run, "throughput")]
    assert any(f"| {median:,.0f} |" in line for line in rows)


def test_wrong_translation_is_reported_as_a_failure(tmp_path):
    assert v6t(*SIM, "--set-tester", "mismatch=1", "--report", "-o", tmp_path).status == 6
    assert "translates incorrectly" in (tmp_path / "report.html").read_text()
    assert read_xml(tmp_path / "junit.xml").get("failures") == "1"


def test_interrupted_run_has_a_report(tmp_path):
    assert v6t(*SIM, "--set-tester", "crash_at=30", "-o", tmp_path).code == "tester-fault"
    assert v6t("report", tmp_path, "--figures", "none").status == 0
    assert "not complete" in (tmp_path / "report.html").read_text()
    assert f"v6t resume {tmp_path}" in v6t("show", tmp_path).out
    assert read_xml(tmp_path / "junit.xml").get("errors") == "1"


def test_failed_report_keeps_results(tmp_path, monkeypatch):
    error = OSError(28, "No space left on device")
    monkeypatch.setattr(run_report, "MAX_FIGURES", 0)
    monkeypatch.setattr(write, "write_atomically", Mock(side_effect=error))
    done = v6t(*SHORT, "--report", "-o", tmp_path)
    assert done.status == 0 and "report" in done.err
    assert f"Results: {tmp_path}" in done.out


@pytest.mark.parametrize("error", [ImportError, ZeroDivisionError])
def test_report_without_a_library_that_draws_lacks_figures_only(error, tmp_path, monkeypatch):
    load_presentations()  # import the drawing modules before their library is replaced
    monkeypatch.setattr(plots, "make_axes", Mock(side_effect=error("cannot draw")))
    done = v6t(*SHORT, "--report", "-o", tmp_path)
    assert done.status == 0 and "figures" in done.err
    assert done.out.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    text = (tmp_path / "report.html").read_text()
    assert "<svg" not in text and "Clause by clause" in text


def test_bottleneck_is_reported(short_run):
    entry = {
        **{"frame_sizes": {"ipv6": 104, "ipv4": 64}, "direction": "bidirectional"},
        **{"rate_fps": 123_456.0, "judged_at": "above", "judged_fps": 154_320.0, "samples": 6},
        **{"idle_percent": {"0": [0.0]}, "limit": "cpu", "device": "router"},
        **{"says": "core 3 had no time left", "evidence": ["core 3: 0 % idle in 6 of 6 seconds"]},
    }
    data = load_run(short_run)
    data = replace(data, results={**data.results, "bottleneck": [entry]})
    page = Page(to_html(build_document(data, load_presentations(), max_figures=0)))
    assert page.tables["What limits the device, watched every second"][1] == [
        "104/64", "bidirectional", "123,456", "154,320", "6", "core 3 had no time left",
    ]  # fmt: skip
    assert "core 3: 0 %" in page.text


def test_device_of_a_run_without_throughput_is_not_watched_again(tmp_path, caplog):
    path = make_run(tmp_path / "run", "latency", procedure={"latency": {"rate_fps": 1000}})
    data = load_run(path)
    assert _add_bottleneck(path, Listener(), None, data) == data
    assert "throughput" in caplog.text and "v6t dut bottleneck" not in caplog.text


def test_extension_that_fails_while_the_device_is_watched_ends_the_run(tmp_path, monkeypatch):
    path = make_run(tmp_path / "run", "latency", procedure={"latency": {"rate_fps": 1000}})
    defect = ExtensionError("x", code="extension-broken")
    monkeypatch.setattr(bottleneck, "watch_device", Mock(side_effect=defect))
    with expect_error("extension-broken"):
        _add_bottleneck(path, Listener(), None, load_run(path))


def test_summary_cards_are_those_of_the_smallest_frames(tmp_path):
    path = make_run(tmp_path / "run", "throughput", frame_sizes=(104, 1518))
    small = read_results(path)["results"][0]
    text = write_report(path).partition("## What was measured")[0]
    assert f"{small['median']:,.0f}" in text and text.count("frames/s per direction") == 1


def test_required_benchmarks_are_listed(tmp_path):
    """A benchmark may require others: the throughput of a stateful device its connection rate."""
    path = make_run(tmp_path / "run", "throughput", "frame-loss")
    replace_config(path, lambda config: config.update(benchmarks=["throughput"]))
    assert "throughput, frame-loss" in write_report(path)


@pytest.mark.parametrize(("arguments", "code"), [
    (["nowhere"], "no-such-run"), (["{run}", "--format", "pdf"], "unknown-name"),
    (["{run}", "--paper", "nobody-1999"], "unknown-name"),
    (["{run}", "-o", "{run}/results.json"], "file-unwritable"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(arguments, code, run):
    expect_refusal(v6t("report", *(a.format(run=run) for a in arguments)), code)


@pytest.fixture
def short_run(tmp_path):
    return make_run(tmp_path / "run", procedure={"repetitions": 1})


def test_run_of_a_removed_plugin_has_a_report(short_run, tmp_path, monkeypatch):
    monkeypatch.setattr(plugins.TECHNOLOGIES, "_list_entries", dict)
    (path,) = write.write_run_report(short_run, tmp_path, ["html"], figures="none")
    assert "mape-br" in path.read_text()


def draw_setup(run):
    """Return the page of a run whose only figure is the test setup."""
    return to_html(build_document(load_run(run), load_presentations(), max_figures=1))


@pytest.mark.parametrize(("plugin", "left", "right"), [
    ("mape-ce", " (relay): IPv6, 104", " (customer): IPv4, 64"),
    ("siit", ": IPv6, 84", ": IPv4, 64"),
    ("ipv4aas", " (Initiator): IPv4, 64", " (Responder): IPv4, 64"),
    ("nat44", " (Initiator): IPv4, 64", " (Responder): IPv4, 64"),
])  # fmt: skip
def test_figure_shows_packets_on_each_link(plugin, left, right, tmp_path):
    page = draw_setup(make_run(tmp_path / "run", plugin=plugin, procedure={"repetitions": 1}))
    assert f"left link{left} octets; right link{right} octets." in page
    if plugin == "ipv4aas":
        setting = page[page.index('<section id="setting"') :]
        picture = setting[setting.index("<svg") : setting.index("</svg>")]
        assert re.findall(r">(IPv[46])<", picture) == ["IPv4", "IPv6", "IPv4"]
        assert re.findall(r">(CE|PE|464xlat)<", picture) == ["CE", "464xlat", "PE", "464xlat"]


def test_figure_of_old_run_uses_plugin(short_run, monkeypatch):
    manifest = json.loads((short_run / "manifest.json").read_text())
    assert manifest.pop("setup")["ip_versions"] == [6, 4]
    (short_run / "manifest.json").write_text(json.dumps(manifest))
    assert "(CEs): IPv6, 104" in draw_setup(short_run)
    monkeypatch.setattr(plugins.TECHNOLOGIES, "_list_entries", dict)
    assert "Test setup: sim tester" in draw_setup(short_run)


LOCAL_SCHEMES = ("file://", "data:", "chrome:", "chrome-extension:", "devtools:")


def browse(path, profile, *more, window=1300):
    """Open a page in a browser; return its document, its errors and every address it requests."""
    log = profile.with_suffix(".netlog.json")
    options = ("--dump-dom", f"--window-size={window},2000", f"--log-net-log={log}", *more)
    browser = open_page(f"file://{path}", profile, *options)
    # requests of the page have an initiator; the browser's own requests for updates have none
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    urls = {e["url"] for e in events if e.get("initiator", "not an origin") != "not an origin"}
    return browser.stdout, browser.stderr, urls


def test_browser_draws_every_figure_without_errors(run, page, tmp_path):
    document, errors, urls = browse(run / "report.html", tmp_path / "profile")
    assert "CONSOLE" not in errors, errors
    assert [url for url in urls if not url.startswith(LOCAL_SCHEMES)] == []
    assert document.count("<svg") == page.elements.count("svg")
    assert document.count("<table") == page.elements.count("table")


def test_browser_test_detects_requests_and_scripts(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<!DOCTYPE html><img src="http://192.0.2.1/x.png"><script>nothing()</script>')
    _, errors, urls = browse(page, tmp_path / "profile", "--timeout=2000")
    assert "CONSOLE" in errors
    assert "http://192.0.2.1/x.png" in urls


@pytest.mark.parametrize("window", [800, 1600])
def test_figures_and_tables_fit_every_window(run, tmp_path, window):
    text = (run / "report.html").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    script = (Path(__file__).parent / "samples/measure.html").read_text()
    (tmp_path / "page.html").write_text(text.replace("</body>", f"{script}</body>"))
    document, errors, _ = browse(tmp_path / "page.html", tmp_path / "profile", window=window)
    assert "CONSOLE" not in errors, errors
    measured = json.loads(re.search(r'<pre id="measured">(.*?)</pre>', document, re.S)[1])
    assert measured["overflow"] <= 0 and measured["cut"] == []
    assert len(measured["figures"]) == text.count("<svg") > 10
    for width, height, shown_width, shown_height, shapes in measured["figures"]:
        assert width > 100
        assert height > 40
        assert 100 < shown_width <= window
        assert shown_height > 40
        assert shapes >= 5


def test_printed_report_has_complete_tables(run, tmp_path):
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("needs the package poppler-utils")
    paper, page = tmp_path / "report.pdf", run / "report.html"
    options = ("--no-pdf-header-footer", f"--print-to-pdf={paper}")
    open_page(f"file://{page}", tmp_path / "profile", *options)
    text = subprocess.check_output([reader, "-layout", paper, "-"], text=True)
    words = set(re.split(r"[\s-]+", text))  # words are broken at hyphens
    source = re.sub(r"<details><summary>.*?</details>", "", page.read_text(), flags=re.DOTALL)
    printed = Page(source)
    assert len(printed.tables) > len(EVERYTHING)
    for caption, rows in printed.tables.items():
        cells = re.split(r"[\s-]+", " ".join(cell for row in rows for cell in row))
        assert {word for word in cells if word.isascii() and len(word) < 12} <= words, caption
    assert re.search(r"trials\s*\(folded away: not printed\)", text)


def test_openmetrics_has_a_sample_for_every_figure(run, tmp_path):
    done = v6t("report", run, "--format", "openmetrics", "-o", tmp_path)
    assert done.out == f"{tmp_path / 'results.prom'}\n"
    text = (tmp_path / "results.prom").read_text()
    families = {f.name: f.samples for f in text_string_to_metric_families(text)}
    assert set(families) == {"v6t_result", "v6t_trials", "v6t_invalid_trials"}
    samples = families["v6t_result"]
    (throughput,) = read_records(run, "throughput")
    selected = [s for s in samples if s.labels["benchmark"] == "throughput"]
    statistics = {name: throughput[name] for name in ("median", "p1", "p99")}
    assert {s.labels["statistic"]: s.value for s in selected} == statistics
    assert {s.labels["benchmark"] for s in samples} == set(EVERYTHING)
    assert {s.labels["benchmark"] for s in families["v6t_trials"]} == set(EVERYTHING)
    assert {s.labels["label"] for s in samples} == {HOSTILE_LABEL}
    trials = sum(s.value for s in families["v6t_trials"])
    assert trials == sum(len(r["trials"]) for b in EVERYTHING for r in read_records(run, b))


def test_grids_of_the_report_are_not_wider_than_a_narrow_window():
    style = (resources.files("v6t.analysis.report") / "templates/style.css").read_text()
    minima = re.findall(r"minmax\(([\w.]+rem|min\([^)]*\))", style)
    assert minima
    assert all("100%" in minimum or float(minimum[:-3]) <= 16 for minimum in minima)


def is_without_ipv6(name):
    """Check that a technology's frames are IPv4 on every link, also between two devices."""
    technology = resolve_setup(plugin=name, tester="sim").technology
    setup = describe_setup(technology, [technology.default_frame_sizes[0]])
    middle = [setup["middle_version"]] if len(setup["devices"]) > 1 else []
    return {*setup["ip_versions"], *middle} == {4}


def test_reports_without_ipv6_never_mention_it(tmp_path):
    names = list(filter(is_without_ipv6, plugins.TECHNOLOGIES.list_names()))
    assert {"nat44", "ipv4-router"} <= set(names)
    for name in names:
        path = make_run(tmp_path / name, plugin=name, procedure={"repetitions": 2})
        write.write_run_report(path, formats=["md", "html"], figures="none")
        text = (path / "report.md").read_text()
        # parameters and files of the run are shown unchanged, and may contain IPv6
        prose = text[: text.index("**Parameters of the technology**")]
        prose += text[text.index("\n## Throughput") : text.index("\n## Configuration and manifest")]
        assert [line for line in prose.splitlines() if "IPv6" in line] == [], name
        assert "IPv6/IPv4" not in (path / "report.html").read_text(), name
        for table in make_all_tables(load_presentations(), load_run(path).records):
            assert not any("IPv6" in column.name for column in table.columns), name


def test_equal_frame_sizes_share_one_column():
    both = make_text_table("t", ["IPv6/IPv4\noctets", "fps"], [["104/64", "1"], ["64/64", "1"]])
    assert (both.columns[0].name, both.rows[0][0]) == ("IPv6/IPv4\noctets", "104/64")
    one = make_text_table("t", ["IPv6/IPv4\noctets", "fps"], [["64/64", "1"], ["128/128", "1"]])
    assert (one.columns[0].name, [r[0] for r in one.rows]) == ("frame\noctets", ["64", "128"])
    syn = make_text_table("Rates", ["IPv6/IPv4\nSYN's octets"], [["74/74"]])
    assert (syn.columns[0].name, syn.rows) == ("SYN's octets", (("74",),))


def test_here_strings_are_split_into_lines():
    command = "nft -f - <<< 'table ip v6t {\\n  chain post {\\n  }\\n}\\n'"
    assert split_command(command) == ["nft -f - <<'END'", "table ip v6t {", "  chain post {", "  }", "}", "END"]  # fmt: skip
    for plain in ("ip link set dev left up", "cat <<< here", "cat <<< 12", "cat <<< 'half"):
        assert split_command(plain) == [plain]


def test_configuration_is_collapsed_and_readable():
    device = {
        "commands": ["ip link set dev left up", "ip -batch - <<< 'route add a\\nroute add b\\n'"],
        "facts": {"links": json.dumps([{"ifname": "lo"}, {"ifname": "left"}]), "empty": " "},
    }
    applied, answers = fold_configuration(device, "Device under test")
    assert isinstance(applied, Collapsible) and applied.brief
    assert "2 commands" in applied.summary
    (listing,) = applied.blocks
    assert isinstance(listing, CodeListing)
    assert listing.text.splitlines()[1:4] == ["ip -batch - <<'END'", "route add a", "route add b"]
    (facts,) = answers.blocks
    assert '  {"ifname": "lo"}\n  {"ifname": "left"}' in facts.text and "empty" not in facts.text
    assert list(fold_configuration({"kind": "reference"}, "x")) == []


def test_units_and_percentiles_are_explained(tmp_path):
    path = make_run(tmp_path / "run", "latency", procedure={"repetitions": 2})
    (page,) = write.write_run_report(path, formats=["html"])
    section = page.read_text().split('<section id="latency">')[1].split("</section>")[0]
    table, _, rest = section.partition("</table>")
    assert "TL ms" in table
    meaning = rest[: rest.index("<svg")]
    assert re.search(r"<details[^>]* open><summary>What the words mean", meaning)
    for word in ("TL", "WCL", "P1", "P99"):
        assert f'<th scope="row">{word}</th>' in meaning
