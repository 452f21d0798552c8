"""Records describe themselves: only a benchmark's own presentation depends on its name."""

import ast
from pathlib import Path

import jsonschema
import pytest
import v6t.analysis.presentation
from v6t.analysis.presentation import Presentation, Presentations
from v6t.analysis.record import RateRecord, Record
from v6t.benchmarks.registry import list_names, load_presentations, make_results_schema
from v6t.tests.core.support import make_all_tables
from v6t.tests.expect import expect_error

ANALYSIS = Path(v6t.analysis.presentation.__file__).parent
UNITS = {
    "_s": "[s]",
    "_fps": "frames per second",
    "_cps": "[connections per second]",
    "_percent": "[%]",
}
HEAD = {
    "benchmark": "of-mine",
    "title": "Mine",
    "direction": "forward",
    "frame_sizes": {"ipv6": 104, "ipv4": 64},
    "repetitions": 3,
    "trials": ["a", "b"],
    "invalid_trials": [{"key": "b", "reasons": ["too slow"]}],
    "conditions": {},
}


def fields():
    """Return every key of the results' schemas with its description."""
    for name, model in make_results_schema()["$defs"].items():
        for key, known in model["properties"].items():
            yield f"{name}.{key}", key, known.get("description", "")


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(make_results_schema())


def test_every_field_says_what_it_is():
    assert [where for where, _, text in fields() if not text] == []


def test_units_stand_in_the_descriptions():
    for where, key, text in fields():
        for ending, unit in UNITS.items():
            if key.endswith(ending):
                assert unit in text, where


def test_every_rate_says_of_what_it_is():
    """Per direction or all together: stated by the field, or by the record's convention."""
    for name, model in make_results_schema()["$defs"].items():
        for key, known in model["properties"].items():
            if key.endswith("_fps") or "frames per second" in known["description"]:
                text = known["description"]
                stated = "per direction" in text or "together" in text or "sum of" in text
                assert stated or "unit" in key, f"{name}.{key}"


def test_nothing_in_analysis_asks_for_a_benchmark_by_name():
    known = set(list_names())
    named = []
    for path in ANALYSIS.rglob("*.py"):
        if path.parent.name in ("records", "presentations"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                named += [(path.name, t) for t in texts if t in known]
    assert named == []


class OfMine(Presentation[RateRecord]):
    """A benchmark that says nothing but what its records are."""

    name = "of-mine"
    title = "Mine"
    record = RateRecord


FOUND = {
    "unit": "frames per second",
    "rates": [1, 2.5, 3.0],
    "median": 2.5,
    "p1": 1,
    "p99": 3.0,
    "dispersion": 80.0,
    "median_interval": None,
    "tester_limited": False,
    "tester_ceiling": None,
    "upper_bound": 10,
    "upper_bound_reason": "media",
    "upper_bound_hit": True,
}


def test_a_record_goes_out_as_it_came_in():
    values = {**HEAD, **FOUND, "of_tomorrow": [1]}
    read = Presentations([OfMine()]).read_record(values)
    assert isinstance(read, RateRecord)
    assert read.limited
    out = read.to_json()
    assert {k: repr(out[k]) for k in values} == {k: repr(v) for k, v in values.items()}
    assert out.keys() - values.keys() == {"min", "max", "notes"}


def test_stored_statistics_are_computed_again():
    read = Presentations([OfMine()]).read_record({**HEAD, **FOUND, "median": 7.0, "p1": None})
    assert (read.median, read.p1, read.to_json()["median"]) == (2.5, 1, 2.5)


def test_single_values_are_the_table_of_a_benchmark_that_draws_none():
    known = Presentations([OfMine()])
    (table,) = make_all_tables(known, [known.read_record({**HEAD, **FOUND})])
    row = dict(zip((c.name for c in table.columns), table.rows[0], strict=True))
    assert table.title == "Mine"
    assert row["IPv6/IPv4\noctets"] == "104/64"
    assert row["median"] == "2.5"
    assert row["upper bound reason"] == "media"
    assert row["repetitions"] == "3"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, RateRecord),
        ({"benchmark": "of-nobody"}, Record),
        ({"not_measured": "no rate passed"}, Record),
        ({"rates": "many"}, Record),
    ],
)
def test_what_a_record_is_read_as(changes, kind):
    assert type(Presentations([OfMine()]).read_record({**HEAD, **FOUND, **changes})) is kind


def test_what_is_no_record_is_refused():
    with expect_error("missing-setting", mentions="frame_sizes", kind=ValueError):
        load_presentations().read_record({k: v for k, v in HEAD.items() if k != "frame_sizes"})


def test_records_of_one_benchmark_in_two_forms_have_a_table_each():
    known = Presentations([OfMine()])
    records = [known.read_record({**HEAD, **FOUND}), known.read_record({**HEAD, "marvel": 7})]
    assert [len(table.rows) for table in make_all_tables(known, records)] == [1, 1]
