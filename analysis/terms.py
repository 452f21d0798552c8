"""Meanings of terms in tables, for legends and ``v6t explain``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files


@cache
def read_terms() -> Mapping[str, Mapping[str, str]]:
    """Read the meanings of terms: those of ``tables``, and ``common`` ones that no legend needs."""
    text = files("v6t.analysis").joinpath("data/terms.json").read_text(encoding="utf-8")
    meanings: dict[str, dict[str, str]] = json.loads(text)
    return meanings


def find_terms(headings: Iterable[str], group: str = "tables") -> list[tuple[str, str]]:
    """Find the terms of a group that occur as words of headings."""
    words = {word.strip(",()+<") for heading in headings for word in heading.split()}
    text = " ".join(" ".join(heading.split()) for heading in headings)
    return [
        (term, meaning)
        for term, meaning in read_terms()[group].items()
        if term in words or (" " in term and term in text)
    ]
