"""Every clause cites a section that exists, or a requirement by its number; names are unique over all suites."""

from __future__ import annotations

import re

import pytest
from v6t.core.audit import suites
from v6t.core.config.plugins import load_plugin
from v6t.tests.docs.clauses import sections

TECHNOLOGIES = (
    "siit",
    "clat",
    "nat64",
    "nat44",
    "mapt-br",
    "mapt-ce",
    "mape-br",
    "lwaftr",
    "dslite-aftr",
)


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_clauses_cite_what_exists(name: str) -> None:
    known = sections("read", "unread")
    plugin = load_plugin(name)
    preferred = suites.preferred(suites.chosen(()), plugin())
    technology = plugin(plugin.params_model(**preferred))
    found = [c for suite in suites.chosen(()) for c in suite.clauses(technology)]
    for suite in suites.chosen(()):
        for words, params in suite.variants(technology):
            varied = plugin(plugin.params_model(**{**preferred, **params}))
            found += suite.varied(varied, words)
    assert found
    for clause in found:
        number = clause.rfc.removeprefix("RFC ")
        listed = clause.section in known.get(number, ())
        assert listed or re.fullmatch(r"REQ-\d+[ab]?", clause.section), clause
    assert len({c.name for c in found}) == len(found)


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_the_core_of_a_suite_is_there(name: str) -> None:
    plugin = load_plugin(name)
    technology = plugin(plugin.params_model(**suites.preferred(suites.chosen(()), plugin())))
    for suite in suites.chosen(()):
        names = [c.name for c in suite.clauses(technology)]
        assert not names or all(any(n.endswith(end) for n in names) for end in suite.core), (
            suite.name
        )


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_a_whole_device_is_made_of_its_technology_alone(name: str) -> None:
    """As the lab makes it, in a process of its own."""
    plugin = load_plugin(name)
    technology = plugin(plugin.params_model(**suites.preferred(suites.chosen(()), plugin())))
    whole = technology.whole_device()
    assert type(type(whole)(technology)) is type(whole)
