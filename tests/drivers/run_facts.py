"""Facts about the device of a finished run, read from the run's directory.

The device was configured, verified by frames, measured and restored. Each fact is asserted and described.
:func:`assert_timed` checks delay records.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from v6t.core.runs.events import LOG
from v6t.core.runs.journal import Journal
from v6t.trials.trial import list_directions

FACTS = ("configured", "verified by frames", "measured", "restored")
# The reference translation has no commands.
NOTHING = "nothing to do"
_CONFIGURED = re.compile(r"(?P<device>.+): configured as \S+ in (?P<number>\d+) steps")
_READ_BACK = re.compile(r"(?P<device>.+): (?P<number>\d+) read-backs agree")
_UNDONE = re.compile(r"(?P<device>.+): rolled back the changes of .+")


class Run:
    """Directory of a finished run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self, name: str) -> Any:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Return the results of all benchmarks."""
        results = self._read("results.json")
        assert results["status"] == "complete"
        return results["results"]

    @cached_property
    def tester(self) -> dict[str, Any]:
        return self._read("manifest.json")["tester"]

    @property
    def device(self) -> dict[str, Any]:
        return self.tester["device"]

    @property
    def configured_parts(self) -> dict[str, dict[str, Any]]:
        """Return the parts of the device, or the device, that are configured by commands."""
        parts = self.device.get("parts") or {self.device["kind"]: self.device}
        return {name: part for name, part in parts.items() if "commands" in part}

    @cached_property
    def compared_frames(self) -> int:
        """Return the number of compared frames, all of which must match."""
        trials = Journal(self.path / "journal.jsonl").entries.values()
        counted = [count for trial in trials for count in trial.directions.values()]
        assert all(count.checked == count.matched for count in counted)
        return sum(count.checked for count in counted)

    def describe_fact(self, name: str) -> str:
        """Assert one of FACTS and return its description."""
        if name == "configured":
            steps = sum(int(line["number"]) for line in self._find_lines(_CONFIGURED))
            read = sum(int(line["number"]) for line in self._find_lines(_READ_BACK))
            return f"{steps} steps, {read} read back" if self.configured_parts else NOTHING
        if name == "verified by frames":
            assert self.compared_frames > 0
            return f"all of {self.compared_frames:,}"
        if name == "measured":
            assert self.points
            for point in self.points:
                if point["benchmark"] == "throughput":
                    assert point["median"] > 0 and point["checked"] > 0
                    assert point["matched"] == 1
            return ", ".join(dict.fromkeys(point["benchmark"] for point in self.points))
        assert name == "restored"
        undone = Counter(line["device"] for line in self._find_lines(_UNDONE))
        steps = Counter(line["device"] for line in self._find_lines(_CONFIGURED))
        assert undone == steps  # every configuration was undone
        return "as before" if self.configured_parts else NOTHING

    def _find_lines(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Return matching lines of the log, of which each configured part must have one."""
        log = (self.path / LOG).read_text(encoding="utf-8").splitlines()
        lines = [line for text in log if (line := pattern.fullmatch(text.partition(" ")[2]))]
        parts = Counter(part["device"] for part in self.configured_parts.values())
        counts = Counter(line["device"] for line in lines)
        assert set(counts) == set(parts), (counts, parts)
        assert counts >= parts, (counts, parts)
        return lines


# Figures of delay benchmarks that are finite despite lost frames.
ALWAYS_FINITE = {"latency": ("tl", "min"), "pdv": ("min",), "ipdv": ()}


def assert_timed(record: Mapping[str, Any]) -> None:
    """Check that each direction of a delay record has finite figures from a valid repetition."""
    repetitions = record["repetitions"]
    assert repetitions >= 1, record
    assert set(record["directions"]) == set(list_directions(record["direction"]))
    for direction, values in record["directions"].items():
        assert len(values["timed"]) == repetitions and min(values["timed"]) > 0, (direction, values)
        tables = {name: one for name, one in values.items() if isinstance(one, Mapping)}
        medians = {name: one["median"] for name, one in tables.items() if "median" in one}
        assert {*ALWAYS_FINITE[record["benchmark"]], "max"} <= set(medians)
        # a lost frame has an infinite delay, which is not a number
        for name in ALWAYS_FINITE[record["benchmark"]] if sum(values["lost"]) else medians:
            assert medians[name] is not None and math.isfinite(medians[name]), (name, record)
