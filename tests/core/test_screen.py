"""Tables at every width: no figure is truncated, and marks stay with their figures."""

import itertools
import re

import pytest
from v6t.analysis.sheet import find_terms, make_text_columns, make_text_table
from v6t.benchmarks.registry import load_presentations
from v6t.core.cli.terminal import fit_table, print_table
from v6t.core.runs.results import load_run
from v6t.tests.core.reportruns import make_run
from v6t.tests.core.support import make_all_tables

HEADINGS = (
    "IPv6/IPv4\noctets", *make_text_columns("direction"), "median fps\nper direction", "P1",
    "aggregate\nfps",
)  # fmt: skip
ROWS = (
    ("84/104", "bidirectional", "67,812 *", "65,625", "135,625 *"),
    ("84/104", "forward", "15,000", "15,000", "-"),
)
WIDE = """\
Throughput
  IPv6/IPv4                    median fps          aggregate
     octets  direction      per direction      P1        fps
     84/104  bidirectional       67,812 *  65,625  135,625 *
     84/104  forward               15,000  15,000          -
"""
WITHOUT_AGGREGATE = """\
Throughput
  IPv6/IPv4                    median fps
     octets  direction      per direction      P1
     84/104  bidirectional       67,812 *  65,625
     84/104  forward               15,000  15,000
"""
WITHOUT_PERCENTILES = """\
Throughput
  IPv6/IPv4                    median fps
     octets  direction      per direction
     84/104  bidirectional       67,812 *
     84/104  forward               15,000
"""
NARROW = """\
Throughput
84/104 IPv6/IPv4 octets, bidirectional
  median fps per direction  67,812 *
  P1                        65,625
  aggregate fps             135,625 *
84/104 IPv6/IPv4 octets, forward
  median fps per direction  15,000
  P1                        15,000
  aggregate fps             -
"""


@pytest.mark.parametrize(
    ("width", "expected"),
    [(40, NARROW), (45, WITHOUT_PERCENTILES), (55, WITHOUT_AGGREGATE), (60, WIDE), (140, WIDE)],
)
def test_narrow_table_omits_columns_in_order(width, expected, capsys):
    print_table(make_text_table("Throughput", HEADINGS, ROWS), width)
    assert capsys.readouterr().out == expected


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Provide the tables of a run that a slow tester limits."""
    directory = tmp_path_factory.mktemp("limited")
    make_run(
        directory, "throughput", "latency", "pdv", "frame-loss", procedure={"repetitions": 2},
        device={"tester_fps": 400_000, "capacity_fps": 2_000_000},
    )  # fmt: skip
    return make_all_tables(load_presentations(), load_run(directory).records)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_printed_figures_are_never_truncated(tables, width, capsys):
    for table in tables:
        print_table(table, width)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        fitting = fit_table(table, width) or table.narrow()
        for cell in itertools.chain(*fitting.rows):
            for number in re.findall(r"[\d,.]+(?: \*)?", cell):
                assert number in text


def test_every_abbreviation_of_a_table_is_explained(tables):
    for table in tables:
        headings = [column.name for column in table.columns]
        words = " ".join(headings).split()
        short = {word for word in words if re.fullmatch(r"[A-Z]+\d*[a-z]*[\d.]*", word)}
        explained = {term for term, _ in find_terms(headings)}
        assert short - {"IPv6", "IPv4"} <= explained


def test_tester_limited_figures_are_marked(tables):
    medians = [row[2] for row in tables[0].rows]
    assert medians and all(cell.endswith(" *") for cell in medians)
