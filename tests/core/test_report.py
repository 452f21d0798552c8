"""Reports: complete, equal to results.json, safe and reproducible."""

import csv
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import jsonschema
import pytest
import v6t as v6t_package
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from v6t.analysis.blocks import BulletList, Collapsible
from v6t.analysis.figures import plots
from v6t.analysis.report import run as run_report
from v6t.analysis.report.compliance import list_rulings
from v6t.analysis.report.exports import to_json
from v6t.analysis.report.render import to_html
from v6t.analysis.report.run import build_document
from v6t.analysis.report.trust import assess_validity
from v6t.benchmarks.registry import load_presentations, make_results_schema
from v6t.core.config import plugins
from v6t.core.reporting import write
from v6t.core.runs.results import load_run, read_results
from v6t.tests.core.reportruns import EVERYTHING, make_run
from v6t.tests.core.support import SIM, read_csv, read_schema, replace_config, tree, v6t
from v6t.tests.expect import expect_refusal

from .browser import open_page

pytestmark = pytest.mark.slow


def parsed(path):
    """Return the root of an XML file that this test suite has written."""
    return ET.fromstring(path.read_text())  # noqa: S314


EVIL = '<script>alert("x")</script> & $x^2$ | `a` \\ b\nc \u202e\x07'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Provide a run of every benchmark."""
    procedure = {"frame_timeout": {"deadline_ms": 5.0}, "repetitions": 6}
    home = tmp_path_factory.mktemp("runs")
    device = {"buffer_frames": 2000, "tail_share": 0.001, "recovery_s": 0.1, "reset_s": 0.2}
    path = make_run(home / "run", *EVERYTHING, device=device, procedure=procedure, label=EVIL)
    write.write_run_report(path)
    return path


@pytest.fixture(scope="module")
def page(run):
    return Page((run / "report.html").read_text())


class Page(HTMLParser):
    """An HTML file as a browser takes it apart: elements balanced, tables, identifiers, text."""

    VOID = ("meta", "br", "img", "link", "hr", "input")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.raw, self.open, self.tables, self.ids, self.references = text, [], {}, [], []
        self.elements, self.text, self.caption, self.row = [], "", None, None
        self.feed(text)
        self.close()
        assert self.open == [], "unclosed elements"

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href", "action", "data", "poster", "srcset"):
                self.references.append(value)
        if tag == "tr":
            self.row = []
        if tag in ("td", "th") and self.row is not None:
            self.row.append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

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


def records(run, benchmark):
    content = json.loads((run / "results.json").read_text())
    return [r for r in content["results"] if r["benchmark"] == benchmark]


def test_report_writes_its_files_only_and_always_the_same(tmp_path):
    path = make_run(tmp_path / "run", "latency", procedure={"repetitions": 2})
    write.write_run_report(path)
    before = tree(path)
    for name in ("report.html", "report.md", "report.json", "junit.xml"):
        (path / name).unlink()
    done = v6t("report", path)
    assert done.status == 0
    assert done.out.split() == [str(path / name) for name in write.DEFAULT_FILES.values()]
    assert tree(path) == before


def test_page_has_no_scripts_or_external_resources(page):
    assert "script" not in page.elements
    assert {"link", "img", "iframe", "object", "embed"}.isdisjoint(page.elements)
    assert all(r.startswith("#") for r in page.references), page.references
    assert "default-src 'none'" in page.raw
    assert "@import" not in page.raw
    assert re.findall(r"url\((?!#)", page.raw) == []


def test_identifiers_are_unique_and_references_lead_somewhere(page):
    assert len(set(page.ids)) == len(page.ids)
    assert {r[1:] for r in page.references} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page.raw)) <= set(page.ids)


def test_user_text_is_escaped(run, page):
    assert '<script>alert("x")</script> & $x^2$' in page.text
    assert "\u202e" not in page.raw
    assert "\x07" not in page.raw
    fenced = re.compile(r"^(`{3,})$.*?^\1$", re.DOTALL | re.MULTILINE)
    markdown = fenced.sub("", (run / "report.md").read_text())
    assert "&#60;/script\\> &#38; &#36;x^2&#36;" in markdown
    assert re.search(r"(?<!\\)[<`]|&(?!#\d+;)", markdown) is None
    assert parsed(run / "junit.xml").tag == "testsuites"


def test_every_benchmark_has_its_table_and_figures(run, page):
    for benchmark in EVERYTHING:
        assert benchmark in page.ids
    captions = set(page.tables)
    for words in ("Throughput", "Frame loss", "Back-to-back", "Latency", "PDV", "IPDV", "System",
                  "Reset", "Clause by clause", "Every trial", "Headroom"):  # fmt: skip
        assert any(c and c.startswith(words) for c in captions), words
    # the setup, rate by size, trace, repetitions (twice), loss curve, forwarded, delays of three benchmarks
    # and of each benchmark its trials over their time
    assert page.elements.count("svg") == 1 + 3 + 3 + 2 + 3 + len(EVERYTHING)
    for name in ("throughput-sizes", "frame-loss-curve", "latency-104-bidirectional"):
        assert any(i.startswith(f"{name}-") for i in page.ids), name


def test_the_tables_are_results_json(run, page):
    (record,) = records(run, "throughput")
    row = dict(zip(*page.tables["Throughput"], strict=True))
    assert row["median fps per direction"] == f"{record['median']:,.0f}"
    assert row["P1"] == f"{record['p1']:,.0f}"
    assert row["P99"] == f"{record['p99']:,.0f}"
    assert row["aggregate fps"] == f"{2 * record['median']:,.0f}"
    assert row["repetitions"] == str(record["repetitions"]) == "6"
    low, high = record["median_interval"]["low"], record["median_interval"]["high"]
    assert next(v for k, v in row.items() if k.startswith("95 %")) == f"{low:,.0f} to {high:,.0f}"
    (record,) = records(run, "latency")
    head, *rows = page.tables["Latency, milliseconds"]
    assert [r[head.index("TL ms")] for r in rows] == [
        f"{record['directions'][way]['tl']['median']:.4f}" for way in ("forward", "reverse")
    ]
    (record,) = records(run, "frame-loss")
    head, *rows = page.tables[record["title"]]
    found = {(r[1], r[3].removesuffix(" *")): r[4] for r in rows}
    for point in record["rates"]:
        for way, loss in point["loss_percent"].items():
            label = way if way == "sum" else f"{way}, both"
            assert found[label, f"{point['rate']:,.0f}"] == f"{loss['median']:.4f}"


def test_the_report_names_the_medium(page):
    """RFC 8219 section 5.1: details of the media MUST be noted in all reports."""
    assert re.search(r"Medium\s*10 Gbit/s", page.text)


def test_the_raw_trials_are_those_of_the_journal(run, page):
    rows = read_csv(run / "trials.csv")
    head, *shown = page.tables["Every trial, as it was counted"]
    assert [(r[0], r[2], r[3]) for r in shown] == [
        (r["key"], r["direction"], r["class"]) for r in rows
    ]
    received = head.index("received")
    assert [r[received] for r in shown] == [r["received"] for r in rows]


def test_compliance_table_marks_deviations(page):
    _, *rows = page.tables["Clause by clause"]
    found = {re.search(r"\((.*?)\)", r[0])[1]: r for r in reversed(rows)}
    assert found["GEN-16"][2:] == ["1 s", "deviates"]
    assert found["GEN-17"][2:] == ["6", "deviates"]
    assert found["GEN-10"][3] == "follows"
    assert found["GEN-01"][3] == "deviates"  # simulated
    assert "compliant" not in page.text.replace("compliance", "")


@pytest.mark.parametrize(
    ("answers_on", "entries", "verdict"),
    [
        (["left", "right"], "resolved", "follows"),
        ([], "static", "follows"),
        ([], "resolved", "deviates"),
        (None, "static", "not known"),
    ],
)
def test_neighbor_clause_follows_tester_and_driver(run, answers_on, entries, verdict):
    data = load_run(run)
    tester = {} if answers_on is None else {"answers_on": answers_on}
    setup = {**data.manifest.get("setup", {}), "simulated": False}
    config = {**data.config, "dut": {"driver": "linux-router", "options": {"neighbours": entries}}}
    real = replace(
        data, manifest={**data.manifest, "tester": tester, "setup": setup}, config=config
    )
    (found,) = [c for c in list_rulings(real, load_presentations()) if "GEN-27" in c.source]
    assert found.verdict == verdict
    assert entries in found.practice or answers_on is None
    for pause_s, early in ((2.0, True), (1.9, False)):
        again = list_rulings(
            replace(real, settings={**real.procedure, "pause_s": pause_s}), load_presentations()
        )
        (found,) = [c for c in again if "section 23 b" in c.source]
        assert (found.verdict == "follows") is (early and bool(answers_on))


def test_invalid_trials_are_reported(tmp_path):
    # the tester manages less than the search offers: its sending takes too long now and then
    path = make_run(tmp_path / "run", device={"tester_fps": 500_000})
    write.write_run_report(path, formats=["html"], figures="none")
    page = Page((path / "report.html").read_text())
    head, row = page.tables["Headroom of the tester, per direction"]
    assert row[head.index("headroom")] != "enough"
    assert "limited by the tester" in page.text


def test_observed_header_behaviour_is_reported(run):
    data = load_run(run)
    seen = {"outer DSCP: copied from the inner header": 7, "outer hop limit: 63": 9}

    def with_behaviour(trial):
        told = {
            way: replace(counted, behaviour=seen if way == "reverse" else None)
            for way, counted in trial.result.directions.items()
        }
        return replace(trial, result=replace(trial.result, directions=told))

    trials = [with_behaviour(t) for t in data.trials if "reverse" in t.result.directions][:2]
    shown = replace(data, trials=trials)
    assert shown.behaviour == {"reverse": {k: 2 * v for k, v in seen.items()}}
    items = [b.items for b in assess_validity(shown) if isinstance(b, BulletList)]
    assert [re.findall(r"\d+", " ".join(texts)) for texts in items if "DSCP" in str(texts)] == [
        ["14", "63", "18"]
    ]
    content = json.loads(to_json(shown, load_presentations()))
    jsonschema.validate(content, read_schema("report-1"))
    assert content["validity"]["behaviour"] == shown.behaviour
    assert json.loads(to_json(data, load_presentations()))["validity"]["behaviour"] == {}


def test_changes_of_driver_figures_are_reported(run):
    place = {"device": "nat", "benchmark": "throughput", "direction": "forward"}
    counted = {"drops": {}, "changes": {"queue waiting": -1.0}, "table": {}}
    entry = {**place, "frame_sizes": {"ipv6": 84, "ipv4": 64}, **counted}
    data = load_run(run)
    shown = replace(data, results={**data.results, "device": [entry]})
    blocks = [b for b in assess_validity(shown) if isinstance(b, Collapsible)]
    (table,) = [
        t for b in blocks for t in b.blocks if t.title.startswith("What the device counted")
    ]
    assert [row[-2:] for row in table.rows][1:] == [("queue waiting", "-1")]


def test_json_follows_its_schema(run):
    content = {
        name: json.loads((run / f"{name}.json").read_text()) for name in ("results", "report")
    }
    assert content["report"]["results"] == read_results(run)
    for schema, example in (
        (make_results_schema(), content["results"]),
        (read_schema("report-1"), content["report"]),
        *((read_schema(name), None) for name in ("comparison-1", "campaign-1")),
    ):
        jsonschema.Draft202012Validator.check_schema(schema)
        if example:
            jsonschema.Draft202012Validator(schema).validate(example)


def test_schema_rejects_incomplete_result(run):
    content = json.loads((run / "results.json").read_text())
    content["results"] = content["results"][:1]
    content["results"][0].pop("median")
    (error,) = jsonschema.Draft202012Validator(make_results_schema()).iter_errors(content)
    assert "median" in error.message


def test_junit_has_a_case_per_point(run):
    suites = parsed(run / "junit.xml")
    cases = suites.findall("testsuite/testcase")
    assert [c.get("name") for c in cases] == [f"{name} 104/64 bidirectional" for name in EVERYTHING]
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("0", "0", "0")
    (median,) = [r["median"] for r in records(run, "throughput")]
    assert f"median: {median}" in cases[0].findtext("system-out")


def test_csv_is_in_siitperfs_column_order(run, tmp_path):
    done = v6t("report", run, "--format", "csv", "-o", tmp_path / "out")
    assert done.status == 0
    assert list(tree(tmp_path / "out")) == ["results.csv"]
    with (tmp_path / "out" / "results.csv").open() as lines:
        head, *rows = csv.reader(lines)
    assert head == [
        *("No", "Size", "Dir", "n", "m", "Duration", "Initial Rate", "Timeout", "Error", "Date"),
        *("Iterations", "rate", "Limited", "median"),
    ]
    (record,) = records(run, "throughput")
    assert [float(r[-3]) for r in rows] == record["rates"]
    limited = record["tester_limited"] or record["upper_bound_hit"]
    assert {r[-2] for r in rows} == {"yes" if limited else "no"}
    assert {float(r[-1]) for r in rows} == {record["median"]}


def test_medians_csv_has_a_row_for_each_figure_of_each_benchmark(run):
    rows = read_csv(run / "medians.csv")
    assert {row["benchmark"] for row in rows} == set(EVERYTHING)
    medians = {
        b: [float(r["median"]) for r in rows if r["benchmark"] == b and r["median"]]
        for b in EVERYTHING
    }
    loaded = v6t_package.load(run)
    record = next(r for r in loaded.records if r.benchmark == "latency")
    assert record.directions["forward"].tl.median in medians["latency"]
    assert medians["throughput"] == [loaded.table("throughput")[0]["median"]]


def test_markdown_tables_are_complete(run):
    lines = (run / "report.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert table
    for line in table:
        assert line.endswith("|")
    (median,) = [r["median"] for r in records(run, "throughput")]
    assert any(f"| {median:,.0f} |" in line for line in table)


def test_a_wrong_translation_is_reported_as_a_failure(tmp_path):
    out = tmp_path / "out"
    done = v6t(*SIM, "--set-tester", "mismatch=1", "--report", "-o", out)
    assert done.status == 6
    assert "translates wrongly" in (out / "report.html").read_text()
    suites = parsed(out / "junit.xml")
    assert suites.get("failures") == "1"


def test_an_interrupted_run_has_a_report(tmp_path):
    out = tmp_path / "out"
    assert v6t(*SIM, "--set-tester", "crash_at=30", "-o", out).code == "tester-fault"
    assert v6t("report", out, "--figures", "none").status == 0
    assert "not complete" in (out / "report.html").read_text()
    assert parsed(out / "junit.xml").get("errors") == "1"


def test_a_run_ends_with_its_report(tmp_path):
    out = tmp_path / "out"
    done = v6t(*SIM, "--reps", 1, "--mode", "forward", "--report", "-o", out)
    assert done.status == 0
    assert done.out.splitlines()[-1] == f"Report: {out / 'report.html'}"
    assert (out / "report.html").stat().st_size > 20_000


def test_failed_report_keeps_results(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_report, "MAX_FIGURES", 0)
    monkeypatch.setattr(write, "write_atomically", broken)
    out = tmp_path / "out"
    done = v6t(*SIM, "--reps", 1, "--mode", "forward", "--report", "-o", out)
    assert done.status == 0
    assert "report" in done.err
    assert f"Results: {out}" in done.out


@pytest.mark.parametrize("error", [ImportError, ZeroDivisionError])
def test_a_library_that_cannot_draw_costs_figures_only(error, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise error("cannot draw")

    load_presentations()  # modules that draw are imported before what they draw with is broken
    monkeypatch.setattr(plots, "make_axes", broken)
    out = tmp_path / "out"
    done = v6t(*SIM, "--reps", 1, "--mode", "forward", "--report", "-o", out)
    assert done.status == 0
    assert "figures" in done.err
    assert f"Report: {out / 'report.html'}" in done.out
    text = (out / "report.html").read_text()
    assert "<svg" not in text
    assert "Clause by clause" in text


def test_bottleneck_is_reported(run, tmp_path):
    path = shutil.copytree(run, tmp_path / "run")
    entry = {
        "frame_sizes": {"ipv6": 104, "ipv4": 64},
        "direction": "bidirectional",
        "rate_fps": 123_456.0,
        "judged_at": "above",
        "judged_fps": 154_320.0,
        "samples": 6,
        "idle_percent": {"0": [0.0]},
        "limit": "cpu",
        "device": "router",
        "says": "core 3 had no time left",
        "evidence": ["core 3: 0 % idle in 6 of 6 seconds"],
    }
    results = read_results(path) | {"bottleneck": [entry]}
    (path / "results.json").write_text(json.dumps(results))
    write.write_run_report(path, formats=["html", "md"], figures="none")
    found = Page((path / "report.html").read_text())
    title = "What limits the device, watched every second"
    assert found.tables[title][1] == [
        "104/64", "bidirectional", "123,456", "154,320", "6", "core 3 had no time left",
    ]  # fmt: skip
    assert "core 3: 0 %" in found.text


def test_the_cards_are_those_of_the_smallest_frames(tmp_path):
    path = make_run(tmp_path / "run", "throughput", frame_sizes=(104, 1518))
    write.write_run_report(path, formats=["md"])
    small = json.loads((path / "results.json").read_text())["results"][0]
    text = (path / "report.md").read_text().partition("## What was measured")[0]
    assert f"{small['median']:,.0f}" in text
    assert text.count("frames/s per direction") == 1


def test_required_benchmarks_are_listed(tmp_path):
    """A stateful device's connection rate comes with its throughput."""
    path = make_run(tmp_path / "run", "throughput", "frame-loss")
    replace_config(path, lambda config: config.update(benchmarks=["throughput"]))
    write.write_run_report(path, formats=["md"])
    assert "throughput, frame-loss" in (path / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nowhere"], "no-such-run"),
        (["{run}", "--format", "pdf"], "unknown-name"),
        (["{run}", "--paper", "nobody-1999"], "unknown-name"),
        (["{run}", "-o", "{run}/results.json"], "file-unwritable"),
    ],
)
def test_refusals(arguments, code, run):
    expect_refusal(v6t("report", *(a.format(run=run) for a in arguments)), code)


@pytest.fixture
def short_run(tmp_path):
    return make_run(tmp_path / "run", procedure={"repetitions": 1})


def test_a_run_of_a_plugin_that_is_gone_still_has_a_report(short_run, tmp_path, monkeypatch):
    monkeypatch.setattr(plugins.TECHNOLOGIES, "_entries", dict)
    (path,) = write.write_run_report(short_run, tmp_path, ["html"], figures="none")
    assert "mape-br" in path.read_text()


def draw_setup(run):
    """Return the page of a run whose only figure is the test setup."""
    return to_html(build_document(load_run(run), load_presentations(), max_figures=1))


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("mape-ce", "left link (relay): IPv6, 104 octets; right link (customer): IPv4, 64 octets."),
        ("siit", "left link: IPv6, 84 octets; right link: IPv4, 64 octets."),
        ("ipv4aas", "left link (Initiator): IPv4, 64 octets; "
                    "right link (Responder): IPv4, 64 octets."),
        ("nat44", "left link (Initiator): IPv4, 64 octets; "
                  "right link (Responder): IPv4, 64 octets."),
    ],
)  # fmt: skip
def test_figure_shows_packets_on_each_link(plugin, words, tmp_path):
    run = make_run(tmp_path / "run", plugin=plugin, procedure={"repetitions": 1})
    page = draw_setup(run)
    assert words in page
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
    monkeypatch.setattr(plugins.TECHNOLOGIES, "_entries", dict)
    assert "Test setup: sim tester" in draw_setup(short_run)


def test_matplotlib_waits_until_it_is_needed():
    script = (
        "import sys, v6t.core.cli.main, v6t.core.cli.run_commands, v6t.core.runs.runner, "
        "v6t.core.cli.results_commands; sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


OWN = ("file://", "data:", "chrome:", "chrome-extension:", "devtools:")
MEASURE = """<script>
const found = [...document.querySelectorAll("svg")].map(svg => {
  for (let at = svg; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  const box = svg.getBBox(), shown = svg.getBoundingClientRect();
  return [box.width, box.height, shown.width, shown.height,
          svg.querySelectorAll("path, rect, line, use").length];
});
const cut = [...document.querySelectorAll(".scroll")]
  .filter(box => box.querySelectorAll("tr").length <= 100)
  .filter(box => box.clientWidth && box.scrollWidth > box.clientWidth + 1)
  .map(box => box.querySelector("caption")?.textContent);
const overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const out = document.createElement("pre");
out.id = "measured";
out.textContent = JSON.stringify({found, overflow, cut});
document.body.append(out);
</script>"""


def browsed(path, profile, *more, window=1300):
    """Open a page in a browser; return its document, its errors and every address it requests."""
    log = profile.with_suffix(".netlog.json")
    options = ("--dump-dom", f"--window-size={window},2000", f"--log-net-log={log}", *more)
    done = open_page(f"file://{path}", profile, *options)
    # the browser itself asks for its updates; what a page asks for has an origin
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    asked = {e["url"] for e in events if e.get("initiator", "not an origin") != "not an origin"}
    return done.stdout, done.stderr, asked


def test_a_browser_draws_every_figure_without_complaint(run, tmp_path):
    document, said, asked = browsed(run / "report.html", tmp_path / "profile")
    assert "CONSOLE" not in said, said
    assert [url for url in asked if not url.startswith(OWN)] == []
    before = Page((run / "report.html").read_text())
    assert document.count("<svg") == before.elements.count("svg")
    assert document.count("<table") == before.elements.count("table")


def test_browser_test_detects_requests_and_scripts(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<!DOCTYPE html><img src="http://192.0.2.1/x.png"><script>nothing()</script>')
    _, said, asked = browsed(page, tmp_path / "profile", "--timeout=2000")
    assert "CONSOLE" in said
    assert "http://192.0.2.1/x.png" in asked


@pytest.mark.parametrize("window", [800, 1600])
def test_figures_and_tables_fit_every_window(run, tmp_path, window):
    text = (run / "report.html").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (tmp_path / "page.html").write_text(text.replace("</body>", MEASURE + "</body>"))
    document, said, _ = browsed(tmp_path / "page.html", tmp_path / "profile", window=window)
    assert "CONSOLE" not in said, said
    measured = json.loads(re.search(r'<pre id="measured">(.*?)</pre>', document, re.S)[1])
    assert measured["overflow"] <= 0
    assert measured["cut"] == []
    assert len(measured["found"]) == text.count("<svg") > 10
    for width, height, shown_width, shown_height, shapes in measured["found"]:
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
    text = subprocess.run(
        [reader, "-layout", paper, "-"], capture_output=True, text=True, check=True
    ).stdout
    words = set(re.split(r"[\s-]+", text))  # words are broken at hyphens
    source = re.sub(r"<details><summary>.*?</details>", "", page.read_text(), flags=re.DOTALL)
    printed = Page(source)
    assert len(printed.tables) > len(EVERYTHING)
    for caption, rows in printed.tables.items():
        cells = re.split(r"[\s-]+", " ".join(cell for row in rows for cell in row))
        expected = {word for word in cells if word.isascii() and len(word) < 12}
        assert expected <= words, caption
    assert re.search(r"trials\s*\(folded away: not printed\)", text)


def test_openmetrics_has_a_sample_for_every_figure(run, tmp_path):
    done = v6t("report", run, "--format", "openmetrics", "-o", tmp_path)
    assert done.out == f"{tmp_path / 'results.prom'}\n"
    text = (tmp_path / "results.prom").read_text()
    families = {f.name: f.samples for f in text_string_to_metric_families(text)}
    assert set(families) == {"v6t_result", "v6t_trials", "v6t_invalid_trials"}
    samples = families["v6t_result"]
    (throughput,) = records(run, "throughput")
    found = {
        s.labels["statistic"]: s.value for s in samples if s.labels["benchmark"] == "throughput"
    }
    assert found == {name: throughput[name] for name in ("median", "p1", "p99")}
    assert {s.labels["benchmark"] for s in samples} == set(EVERYTHING)
    assert {s.labels["benchmark"] for s in families["v6t_trials"]} == set(EVERYTHING)
    assert {s.labels["label"] for s in samples} == {EVIL}
    trials = sum(s.value for s in families["v6t_trials"])
    assert trials == sum(len(r["trials"]) for b in EVERYTHING for r in records(run, b))


def test_grids_of_the_report_are_not_wider_than_a_narrow_window():
    style = (resources.files("v6t.analysis.report") / "templates/style.css").read_text()
    minima = re.findall(r"minmax\(([\w.]+rem|min\([^)]*\))", style)
    assert minima
    assert all("100%" in least or float(least[:-3]) <= 16 for least in minima)
