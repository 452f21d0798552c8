"""The limits of tools/limits.json only shrink."""

import ast

import pytest
from v6t.tools import rules

LIMITS = {"words": {"core": 3, "drivers": 2}}


def test_compare_with_equal_counts_reports_nothing():
    assert rules.compare(LIMITS, LIMITS) == ([], [])


@pytest.mark.parametrize(("counts", "grown", "shrunk"), [
    ({"core": 4, "drivers": 2}, ["words: core: 4, limit 3"], []),
    ({"core": 3, "drivers": 2, "base": 1}, ["words: base: 1, limit 0"], []),
    ({"core": 3, "drivers": 1}, [], ["words: drivers: 1, limit 2"]),
    ({"core": 3}, [], ["words: drivers: 0, limit 2"]),
])  # fmt: skip
def test_compare_separates_grown_from_shrunk(counts, grown, shrunk):
    assert rules.compare({"words": counts}, LIMITS) == (grown, shrunk)


def test_lower_never_raises_a_limit():
    counts = {"words": {"core": 1, "drivers": 5, "base": 7}}
    assert rules.lower(counts, LIMITS) == {"words": {"core": 1, "drivers": 2}}


def test_lower_drops_zeros():
    assert rules.lower({"words": {"core": 3}}, LIMITS) == {"words": {"core": 3}}


def test_move_stores_counts_of_the_same_sum():
    counts = {"words": {"base": 3, "core": 0, "drivers": 2}}
    assert rules.move(counts, LIMITS) == {"words": {"base": 3, "drivers": 2}}


def test_move_with_a_larger_sum_is_refused():
    with pytest.raises(SystemExit):
        rules.move({"words": {"base": 6}}, LIMITS)


@pytest.fixture
def checkout(tmp_path):
    """Provide a checkout with one package and one page."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core/__init__.py").touch()
    (tmp_path / "core/a.py").write_text(
        '"""Whoever reads ``whoever``."""\nx = "nobody"\n# so many of them\n'
        'def f():\n    """The file."""\n    import_module("v6t.core.a")\n'
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("Nobody\n`nobody`\n```\nnobody\n```\nteh\n")
    return tmp_path


def test_find_words_reads_docstrings_comments_and_prose_only(checkout):
    lines = rules.find_words(checkout, rules.CHECKOUT / rules.WORDS)
    places = [line.split(" ==> ")[0] for line in lines]
    assert sorted(places) == [
        "core/a.py:1: Whoever", "core/a.py:3: so many", "docs/page.md:1: Nobody",
        "docs/page.md:6: teh",
    ]  # fmt: skip


def test_count_module_names_finds_strings(checkout):
    assert rules.count_module_names(checkout) == {"core/a.py: v6t.core.a": 1}


@pytest.mark.parametrize("name", ["moved", "_told", "of_file", "beside", "own", "what"])
def test_odd_names_finds_names_without_verb(name):
    assert [*rules.odd_names(ast.parse(f"def {name}(): pass"))] == [name]


@pytest.mark.parametrize("name", ["move", "read_back", "load_settings", "exceed", "most_fps"])
def test_odd_names_accepts_verb_phrases(name):
    assert [*rules.odd_names(ast.parse(f"def {name}(): pass"))] == []


def test_no_import_is_exempt_from_the_contracts():
    assert "ignore_imports" not in (rules.CHECKOUT / "setup.cfg").read_text(encoding="utf-8")
