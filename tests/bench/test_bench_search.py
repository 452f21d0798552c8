"""The comparison of search methods agrees with the documentation."""

from typing import get_args

import pytest
from v6t.tests.bench import bench_search

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lines():
    return list(bench_search.compare())


def test_search_reports_no_unproven_rate(lines):
    assert [line for line in lines if line.unproven] == []


def test_mlrsearch_takes_a_third_of_the_trial_seconds(lines):
    binary = {line.device: line for line in lines if line.search == "binary"}
    for line in lines:
        if line.search == "mlrsearch":
            assert 3 * line.traffic_s <= binary[line.device].traffic_s, line.device


def test_recorded_table_is_current(lines):
    if len(bench_search.list_installed()) < len(get_args(bench_search.SearchMethod)):
        pytest.skip("MLRsearch is not installed")
    recorded = bench_search.RECORDED.read_text(encoding="utf-8")
    assert recorded == f"{bench_search.render_table(lines)}\n"
