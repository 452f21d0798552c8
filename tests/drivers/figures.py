"""Checks of delay records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from v6t.trials.trial import list_directions

# Figures that are finite despite lost frames.
ALWAYS = {"latency": ("tl", "min"), "pdv": ("min",), "ipdv": ()}


def assert_timed(record: Mapping[str, Any]) -> None:
    """Check that each direction of a delay record has finite figures from a valid repetition."""
    repetitions = record["repetitions"]
    assert repetitions >= 1, record
    assert set(record["directions"]) == set(list_directions(record["direction"]))
    for way, found in record["directions"].items():
        assert len(found["timed"]) == repetitions and min(found["timed"]) > 0, (way, found)
        figures = {
            name: one for name, one in found.items() if isinstance(one, Mapping) and "median" in one
        }
        assert {*ALWAYS[record["benchmark"]], "max"} <= set(figures)
        for name, one in figures.items():
            # a lost frame has an infinite delay, which is not a number
            if sum(found["lost"]) and name not in ALWAYS[record["benchmark"]]:
                continue
            assert one["median"] is not None and math.isfinite(one["median"]), (way, name, record)
