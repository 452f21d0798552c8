"""Medians in the CSV files equal those of results.json."""

from __future__ import annotations

import csv
import json

import pytest
import v6t

from .reportruns import made


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("run") / "out", "throughput", "latency", "frame-loss")


def _read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_results_csv_has_the_median_in_its_last_column(run):
    record = json.loads((run / "results.json").read_text())["results"][0]
    rows = _read(run / "results.csv")
    assert list(rows[0])[-3:] == ["rate", "Limited", "median"]
    assert {float(row["median"]) for row in rows} == {record["median"]}


def test_medians_csv_has_a_row_for_each_figure_of_each_benchmark(run):
    rows = _read(run / "medians.csv")
    assert {row["benchmark"] for row in rows} == {"throughput", "latency", "frame-loss"}
    record = next(r for r in v6t.load(run).records if r.benchmark == "latency")
    medians = [float(row["median"]) for row in rows if row["benchmark"] == "latency"]
    assert record.directions["forward"].tl.median in medians
    assert [float(row["median"]) for row in rows if row["benchmark"] == "throughput"] == [
        v6t.load(run).table("throughput")[0]["median"]
    ]
