"""Records: their schema, their presentation without benchmark-specific code, and warnings."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
import v6t.analysis.presentation
from v6t.analysis.presentation import Presentation, Presentations
from v6t.analysis.record import RateRecord, Record
from v6t.analysis.warnings import list_warnings
from v6t.benchmarks.registry import list_names, load_presentations, make_results_schema
from v6t.tests.core.support import make_all_tables
from v6t.tests.expect import expect_error

UNITS = {
    "_s": "[s]", "_fps": "frames per second", "_cps": "[connections per second]", "_percent": "[%]",
}  # fmt: skip
HEAD = {
    "benchmark": "custom", "title": "Custom", "direction": "forward",
    "frame_sizes": {"ipv6": 104, "ipv4": 64}, "repetitions": 3, "trials": ["a", "b"],
    "invalid_trials": [{"key": "b", "reasons": ["too slow"]}], "conditions": {},
}  # fmt: skip


def list_fields():
    """Return each key of the schema of results, with its place and description."""
    return [
        (f"{name}.{key}", key, schema.get("description", ""))
        for name, model in make_results_schema()["$defs"].items()
        for key, schema in model["properties"].items()
    ]


def test_fields_have_description_with_unit():
    for place, key, text in list_fields():
        assert text, place
        for ending, unit in UNITS.items():
            if key.endswith(ending):
                assert unit in text, place


def test_descriptions_of_rates_state_direction_or_sum():
    """The description of the field, or of the record's convention, states it."""
    for place, key, text in list_fields():
        if key.endswith("_fps") or "frames per second" in text:
            stated = any(words in text for words in ("per direction", "together", "sum of"))
            assert stated or "unit" in key, place


def test_analysis_names_no_benchmark():
    benchmarks, named = set(list_names()), []
    for path in Path(v6t.analysis.presentation.__file__).parent.rglob("*.py"):
        if path.parent.name in ("records", "presentations"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                values = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                named += [(path.name, v) for v in values if v in benchmarks]
    assert named == []


class CustomBenchmark(Presentation[RateRecord]):
    """A benchmark that defines only the type of its records."""

    name = "custom"
    title = "Custom"
    record = RateRecord


PRESENTATIONS = Presentations([CustomBenchmark()])
RATES = {
    **HEAD,
    **{"unit": "frames per second", "rates": [1, 2.5, 3.0]},
    **{"median": 2.5, "p1": 1, "p99": 3.0, "dispersion": 80.0, "median_interval": None},
    **{"tester_limited": False, "tester_ceiling": None},
    **{"upper_bound": 10, "upper_bound_reason": "media", "upper_bound_hit": True},
}


def test_record_keeps_all_its_values():
    values = {**RATES, "unknown_key": [1]}
    record = PRESENTATIONS.read_record(values)
    assert isinstance(record, RateRecord)
    assert record.limited
    written = record.to_json()
    assert {k: repr(written[k]) for k in values} == {k: repr(v) for k, v in values.items()}
    assert written.keys() - values.keys() == {"min", "max", "notes"}


def test_stored_statistics_are_computed_again():
    record = PRESENTATIONS.read_record({**RATES, "median": 7.0, "p1": None})
    assert (record.median, record.p1, record.to_json()["median"]) == (2.5, 1, 2.5)


def test_default_table_has_the_values_of_the_record():
    (table,) = make_all_tables(PRESENTATIONS, [PRESENTATIONS.read_record(RATES)])
    row = dict(zip((c.name for c in table.columns), table.rows[0], strict=True))
    assert table.title == "Custom"
    assert (row["IPv6/IPv4\noctets"], row["median"]) == ("104/64", "2.5")
    assert (row["upper bound reason"], row["repetitions"]) == ("media", "3")


@pytest.mark.parametrize(("changes", "kind"), [
    ({}, RateRecord), ({"benchmark": "unknown"}, Record),
    ({"not_measured": "no rate passed"}, Record), ({"rates": "many"}, Record),
])  # fmt: skip
def test_type_of_a_record_follows_from_benchmark_and_values(changes, kind):
    assert type(PRESENTATIONS.read_record({**RATES, **changes})) is kind


def test_record_without_frame_sizes_is_rejected():
    with expect_error("missing-setting", mentions="frame_sizes", kind=ValueError):
        load_presentations().read_record({k: v for k, v in HEAD.items() if k != "frame_sizes"})


def test_records_of_one_benchmark_in_two_forms_have_a_table_each():
    records = [PRESENTATIONS.read_record(values) for values in (RATES, {**HEAD, "extra_value": 7})]
    assert [len(table.rows) for table in make_all_tables(PRESENTATIONS, records)] == [1, 1]


def test_equal_warnings_name_all_their_points():
    points = [
        *((s, d, "no rate passed") for s in ("84/64", "512/492") for d in ("forward", "reverse")),
        ("1518/1498", "forward", "no rate passed"),
        ("1518/1498", "reverse", "no time"),
    ]
    records = [
        SimpleNamespace(benchmark="pdv", sizes=sizes, direction=direction, not_measured=reason)
        for sizes, direction, reason in points
    ]
    without_rate, without_time = list_warnings(records, None)
    assert without_rate.figures == "pdv 84/64, 512/492 forward, reverse; 1518/1498 forward"
    assert without_time.figures == "pdv 1518/1498 reverse"
    assert {without_rate.code, without_time.code} == {"not-measured"}
