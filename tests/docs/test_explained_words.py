"""`v6t explain` covers every column and word that v6t prints."""

import re
from functools import cache
from typing import get_args

import pytest
from v6t.analysis.blocks import Collapsible
from v6t.analysis.compare.comparison import make_brief_comparison_tables, make_comparison_tables
from v6t.analysis.presentation import DEVIATES, FOLLOWS, UNKNOWN
from v6t.analysis.report.run import build_document
from v6t.analysis.sheet import Table
from v6t.audit.clause import Verdict
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import load_installed, load_presentations
from v6t.core.config.explain import look_up
from v6t.core.config.plugins import list_rows
from v6t.core.reporting.compare import compare_runs
from v6t.core.runs.doctor import CheckState
from v6t.core.runs.plan import LOADING, SELFTEST, SETUP
from v6t.core.runs.results import load_run
from v6t.drivers.duts.registry import DRIVERS
from v6t.drivers.testers import TESTERS
from v6t.tests.core.support import v6t


def list_headings(tables):
    return {" ".join(column.name.split()) for table in tables for column in table.columns}


@cache
def is_explained(word):
    try:
        return bool(look_up(word))
    except UsageError:
        return False


def find_unexplained(words):
    return {word for word in words if not is_explained(word)}


@pytest.mark.parametrize("benchmark", load_installed(), ids=lambda benchmark: benchmark.name)
def test_columns_and_method_of_every_benchmark_are_explained(benchmark):
    names = {" ".join(column.name.split()) for column in benchmark.columns}
    assert len(names) > 3
    assert find_unexplained(names) == set()
    (row,) = [row for row in look_up(benchmark.name) if row.kind == "benchmark"]
    method, *others = row.text.splitlines()[1:]
    assert re.search(r"RFC \d+|No RFC|draft-", method)
    assert len(others) <= 9


@pytest.mark.parametrize("benchmark", load_installed(), ids=lambda benchmark: benchmark.name)
def test_title_of_every_benchmark_is_explained(benchmark):
    for title in (benchmark.heading, f"{benchmark.heading} (forward)"):
        texts = [row.text for row in look_up(title)]
        assert any(benchmark.summary in text for text in texts)


def test_title_with_a_deadline_is_explained_by_its_benchmark():
    (row,) = look_up("Throughput with per-frame timeout 2.5 ms")
    assert row.text.startswith("throughput-frame-timeout: ")


@pytest.mark.parametrize("technology", list_rows(), ids=lambda technology: technology.name)
def test_name_and_title_of_every_technology_are_explained(technology):
    title = technology.kind.title
    for word in (technology.name, title, f"{title.partition(':')[0]} on vpp 24.10"):
        assert any(title in row.text for row in look_up(word))


@pytest.mark.parametrize(("alias", "name"), [("map-e", "mape-br"), ("464XLAT", "clat")])
def test_alias_of_a_technology_is_explained(alias, name):
    assert [row.name for row in look_up(alias)] == [name]


@pytest.mark.parametrize("extensions", [DRIVERS, TESTERS], ids=["device drivers", "testers"])
def test_every_driver_and_tester_is_explained(extensions):
    assert find_unexplained(extensions.list_names()) == set()


def test_states_and_verdicts_are_explained():
    words = {
        FOLLOWS, DEVIATES, UNKNOWN, *get_args(Verdict), *get_args(CheckState), SELFTEST, SETUP,
        LOADING,
    }  # fmt: skip
    words |= {"passed", "failed", "invalid", "measured", "better", "worse", "no difference"}
    assert find_unexplained(words) == set()


def list_tables(blocks):
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Collapsible):
            yield from list_tables(block.blocks)


@pytest.mark.slow
def test_every_title_of_a_report_is_explained(runs):
    known, titles = load_presentations(), set()
    for path in runs.iterdir():
        # one of the figures has a section with a title of its own
        report = build_document(load_run(path), known, max_figures=2)
        titles |= {report.title}
        for section in report.sections:
            titles |= {section.title, *(table.title for table in list_tables(section.blocks))}
    assert find_unexplained(titles) == set()


@pytest.mark.slow
def test_every_column_of_results_is_explained(runs):
    known, words = load_presentations(), set()
    for path in runs.iterdir():
        for presentation, records in known.group_measured(load_run(path).records):
            tables = [*presentation.make_tables(records), *presentation.make_brief_tables(records)]
            titles = {re.split(r"[(,]| with ", table.title)[0].strip() for table in tables}
            words |= list_headings(tables) | titles
    assert find_unexplained(words) == set()


@pytest.mark.slow
def test_every_column_of_a_comparison_is_explained(runs):
    comparison = compare_runs([load_run(runs / "mape-br")] * 2, allow_differences=False)
    tables = [*make_comparison_tables(comparison), *make_brief_comparison_tables(comparison)]
    assert find_unexplained(list_headings(tables) - set(comparison.runs)) == set()


@pytest.mark.parametrize(
    "command", [("run", "mape-br", "--dry-run"), ("run", "nat44", "--tester", "sim", "--dry-run")]
)
def test_every_label_of_a_plan_is_explained(command):
    labels = {line[2:15].strip() for line in v6t(*command).out.splitlines() if line[:2] == "  "}
    assert find_unexplained(labels - {""}) == set()


@pytest.mark.parametrize("word", [
    "ces", "phase 1", "trailer", "preflight", "headroom", "clamped", "validated at", "TL ms",
    "no loss up to fps", "median fps per direction", "invalid trial", "undecided", "file-exists",
])  # fmt: skip
def test_word_of_the_screen_is_explained(word):
    assert all(row.text for row in look_up(word))
