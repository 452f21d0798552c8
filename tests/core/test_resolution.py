"""DNS resolution performance (RFC 8219 section 9) of a simulated device with a known capacity."""

import json

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.plan import plan
from v6t.plugins.dns64 import Dns64
from v6t.procedures.resolution import compute_covered_qps
from v6t.tests.core.support import v6t, write_report

SIM = ("run", "--plugin", "dns64", "--tester", "sim")


def read_record(directory):
    (record,) = json.loads((directory / "results.json").read_text())["results"]
    return record


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    done = v6t(*SIM, "--set-tester", "capacity_fps=12345", "--cached", "[100,50]", "--own-aaaa",
               "[40]", "--resolution-qps", "100", "-o", out)  # fmt: skip
    assert done.status == 0, done.err
    return out, done


def test_known_query_capacity_is_measured_within_resolution(matrix):
    record = read_record(matrix[0])
    assert record["unit"] == "queries per second"
    for result in record["combinations"]:
        # the number of answers in a trial is rounded to a whole number
        assert all(12_345 - 100 <= rate <= 12_345 + 2 for rate in result["rates"])
        assert result["p1"] <= result["median"] <= result["p99"]


def test_combinations_are_ordered_and_distinct(matrix):
    queries = {
        (c["cached_percent"], c["own_aaaa_percent"]): (c["asked_aaaa"], c["asked_a"])
        for c in read_record(matrix[0])["combinations"]
    }
    assert list(queries) == [(0, 0), (0, 40), (50, 0), (50, 40), (100, 0)]
    assert queries[0, 0] == pytest.approx((1, 1))
    assert queries[0, 40] == pytest.approx((1, 0.6), abs=0.01)
    assert queries[50, 40] == pytest.approx((0.5, 0.3), abs=0.01) and queries[100, 0] == (0, 0)


def test_resolution_table_is_reported_and_printed(matrix):
    out, done = matrix
    assert "P1 to P99" in " ".join(done.out.split())
    report = write_report(out)
    for words in ("DNS resolution performance", "section 9.2.1", "time-out of no more than 1 s"):
        assert words in report
    rows = (out / "resolution.csv").read_text().splitlines()
    assert rows[0].startswith("No,cached %,own AAAA %")
    assert len(rows) == 1 + 5 * 2


def test_rates_above_the_self_test_are_not_measured(tmp_path):
    done = v6t(*SIM, "--set-tester", "tester_fps=22000", "-o", tmp_path / "out")
    record = read_record(tmp_path / "out")
    allowed = record["selftest"]["covered_qps"]
    assert allowed == pytest.approx(record["selftest"]["capacity_qps"] / 2.2)
    assert record["combinations"][0]["median"] == pytest.approx(allowed)
    assert f"{allowed:,.0f}" in record["not_measured"]
    assert "refused" in " ".join(done.out.split())
    assert "covers no more" in write_report(tmp_path / "out")
    assert record["selftest"]["timeout_s"] == 0.25


def test_rate_limited_by_the_line_rate_is_not_tester_limited(tmp_path):
    (tmp_path / "slow.yaml").write_text("line_rate: 10M\n")
    done = v6t(*SIM, "--testbed", tmp_path / "slow.yaml", "-o", tmp_path / "out")
    record = read_record(tmp_path / "out")
    (result, *_) = record["combinations"]
    assert (result["upper_bound_reason"], result["upper_bound_hit"]) == ("media", True)
    assert not result["tester_limited"]
    assert "line rate" in record["not_measured"] and "refused" in " ".join(done.out.split())


def test_self_test_must_cover_twice_the_rate_plus_its_share():
    assert compute_covered_qps(22_000, 0.1) == pytest.approx(10_000)
    assert 2 * (compute_covered_qps(22_000, 0.1) + 0.1) <= 22_000  # the text's sum, too


def test_single_late_answer_fails_the_rate(tmp_path):
    v6t(*SIM, "--set-tester", "late=1", "-o", tmp_path / "out")
    (result,) = read_record(tmp_path / "out")["combinations"]
    assert result["rates"] == [0, 0] and result["reasons"]["late"] >= 1


def test_wrong_dns_record_ends_the_run(tmp_path):
    done = v6t(*SIM, "--set-tester", "mismatch=1", "-o", tmp_path / "out")
    assert (done.status, done.code) == (6, "translation-incorrect")


def test_rfc_preset_requires_60_s_and_20_repetitions():
    planned = plan(resolve_setup(plugin="dns64", preset="rfc", tester="sim"))
    (point,) = planned.points
    assert (point.benchmark, point.mode) == ("resolution", "queries")
    assert planned.setup.settings.procedure.trial_duration_s == 60
    assert (planned.setup.settings.procedure.repetitions, planned.stream_descriptions) == (20, ())
    assert not any("section 9.2" in text for text in planned.warnings)


def test_medium_carries_answers_that_are_longer_than_queries():
    """14 + 40 + 8 octets of headers, 48 of the question, 28 of an AAAA record, 4 of the FCS."""
    assert Dns64().make_sizes(114).longest == 142
