"""The data dictionary has every column and field that a run writes."""

import csv
import json

import pytest
from v6t.benchmarks.registry import list_names, make_results_schema
from v6t.core.config.explain import list_fields

from .generated_pages import build_pages

FREE_FORM_OBJECTS = {
    "params", "reasons", "behaviour", "machine", "connections", "tester", "modifier", "device",
    "example", "mismatch",
}  # fmt: skip
"""Objects whose keys are settings, or depend on the tester or device."""


@pytest.fixture(scope="module")
def known():
    return {(field.file, field.name) for field in list_fields()}


@pytest.mark.slow
def test_runs_measure_every_benchmark(runs):
    results = [json.loads(path.read_text())["results"] for path in runs.glob("*/results.json")]
    assert {record["benchmark"] for records in results for record in records} >= {*list_names()}


@pytest.mark.slow
def test_written_columns_are_in_dictionary(runs, known):
    written = {(p.name, c) for p in runs.glob("*/*.csv") for c in next(csv.reader(p.open()), ())}
    assert len({file for file, _ in written}) > len(list_names()) - 3
    assert written - known == set()


@pytest.mark.slow
def test_journal_fields_are_in_dictionary(runs, known):
    paths = [name for file, name in known if file == "journal.jsonl"]
    written = set()
    for journal in runs.glob("*/journal.jsonl"):
        for line in journal.read_text().splitlines():
            written.update(_list_paths(json.loads(line[9:])))
    assert {path for path in written if not _is_known(path, paths)} == set()


def _list_paths(value, above=""):
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield above + key
        if above + key == "result.connections" or key not in FREE_FORM_OBJECTS - {"connections"}:
            yield from _list_paths(inner, f"{above}{key}.")


def _is_known(path, known):
    parts = path.split(".")
    return any(
        len(pattern := name.split(".")) >= len(parts)
        and all(b in (a, "*") for a, b in zip(parts, pattern, strict=False))
        for name in known
    )


@pytest.mark.slow
def test_result_fields_are_in_dictionary(runs, known):
    schema, missing = make_results_schema(), set()
    for path in runs.glob("*/results.json"):
        content = json.loads(path.read_text())
        missing |= {*_list_unknown(content, schema, "results.json", schema["$defs"], known)}
        for each in (content, *content["results"]):
            missing |= {("results.json conditions", c) for c in each["conditions"]} - known
    assert missing == set()


def _list_unknown(value, schema, file, definitions, known):
    """Yield each field of a value that the dictionary lacks, with the object of the schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name == "Record":
            kinds = definitions[name]["allOf"]
            chosen = [
                k for k in kinds if value["benchmark"] in k["if"]["properties"]["benchmark"]["enum"]
            ]
            name = chosen[0]["then"]["$ref"].rpartition("/")[2]
        schema, file = definitions[name], f"results.json {name}"
    if isinstance(value, list) and "items" in schema:
        for each in value:
            yield from _list_unknown(each, schema["items"], file, definitions, known)
    if isinstance(value, dict):
        parts = schema.get("properties")
        for key, inner in value.items():
            if parts and (file, key) not in known:
                yield file, key
            below = parts.get(key, {}) if parts else schema.get("additionalProperties", {})
            for part in below.get("anyOf", [below]) if isinstance(below, dict) else ():
                if isinstance(inner, (list, dict)) and (
                    "$ref" in part or part.get("type") in ("array", "object")
                ):
                    yield from _list_unknown(inner, part, file, definitions, known)


def test_fields_have_description_and_row_on_page():
    page = build_pages()["reference/data-dictionary.md"]
    for field in list_fields():
        assert field.text.strip(), field
        assert f"| `{field.name}` | {field.unit} | " in page
    assert "| `rate` | frames per second per direction | " in page
