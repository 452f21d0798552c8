"""Data of a run, as read from its directory, and of the runs of a campaign."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from v6t.analysis.record import Record
from v6t.trials.result import TrialResult

JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class RunTrial:
    """One line of the journal: the trial as in ``journal.jsonl``, and its counters."""

    asked: JsonObject
    result: TrialResult

    @property
    def key(self) -> str:
        """Identity within the run."""
        return str(self.asked["key"])

    @property
    def sending_s(self) -> float:
        """Length of the requested stream [s]."""
        then = self.asked.get("then") or {"duration_s": 0.0}
        return float(self.asked["duration_s"]) + float(then["duration_s"])


def flatten(values: JsonObject, above: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects by their joined names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{above}{name}{separator}", separator)
        else:
            yield f"{above}{name}", value


def shares_oracle(manifest: JsonObject) -> bool:
    """Check whether the device uses the reference translation that its frames are compared with."""
    device = (manifest.get("tester") or {}).get("device") or {}
    return bool(device.get("shares_oracle", False))


@dataclass(frozen=True)
class RunData:
    """Content of the files of a run, and facts about its technology.

    Attributes:
        params: parameters of the technology with their defaults; empty where the plugin is not installed.
        setup: what is on which link, and which devices there are; empty where it is unknown.
        settings: all settings of the procedures with their defaults.
        bottleneck: ``bottleneck.json``: what limits the device at the measured rates.
        mix_sequences: order of the frame sizes of each mix (RFC 6985), by the mix.
    """

    name: str
    results: JsonObject
    records: Sequence[Record]
    config: JsonObject
    manifest: JsonObject
    params: JsonObject = field(default_factory=dict)
    title: str = ""
    rfcs: Sequence[str] = ()
    setup: JsonObject = field(default_factory=dict)
    rfc_frame_sizes: Sequence[int] = ()  # IPv6 frame sizes RFC 8219 lists for it
    settings: JsonObject = field(default_factory=dict)
    trials: Sequence[RunTrial] = ()
    bottleneck: Sequence[JsonObject] = ()
    mix_sequences: Mapping[str, str] = field(default_factory=dict)
    measured: int = 0  # trials that were measured, and not read from a journal

    @property
    def procedure(self) -> JsonObject:
        """Settings of the procedures, with their defaults where they are known."""
        settings: JsonObject = self.settings or self.config["procedure"]
        return settings

    @property
    def status(self) -> str:
        """``complete``, ``running`` (interrupted) or ``translation incorrect``."""
        return str(self.results.get("status", "unknown"))

    @property
    def caveats(self) -> list[str]:
        """Warnings about the whole run."""
        return list(self.results.get("caveats", ()))

    @property
    def simulated(self) -> bool:
        """Whether the run is a simulation."""
        known = self.manifest.get("setup", {}).get("simulated")
        return bool(self.config["tester"]["kind"] == "sim" if known is None else known)

    @property
    def shares_oracle(self) -> bool:
        """Check whether the device uses the reference translation that its frames are compared with."""
        return shares_oracle(self.manifest)

    @property
    def heading(self) -> str:
        """Technology, tester and device in one line."""
        tester, device = self.config["tester"]["kind"], self.config["dut"]["driver"]
        return f"{self.config['plugin']}, {tester} tester, {device} device"

    @property
    def behaviour(self) -> Mapping[str, Mapping[str, int]]:
        """Choices of the device revealed by comparing frames, by direction."""
        by_direction: dict[str, Counter[str]] = {}
        for trial in self.trials:
            for direction, counted in trial.result.directions.items():
                by_direction.setdefault(direction, Counter()).update(counted.behaviour or {})
        return {
            direction: dict(sorted(seen.items()))
            for direction, seen in by_direction.items()
            if seen
        }

    def find_trials(self, record: Record) -> Iterator[RunTrial]:
        """Return the trials behind a record that the journal still holds, invalid ones too."""
        by_key = self._by_key
        return (by_key[key] for key in record.trials if key in by_key)

    def list_valid_trials(self, records: Sequence[Record]) -> list[RunTrial]:
        """Return the valid trials behind records."""
        trials = []
        for record in records:
            invalid = {t.key for t in record.invalid_trials}
            trials += [t for t in self.find_trials(record) if t.key not in invalid]
        return trials

    @cached_property
    def _by_key(self) -> dict[str, RunTrial]:
        return {t.key: t for t in self.trials}


@dataclass(frozen=True)
class CampaignRun:
    """One run of a campaign."""

    directory: str
    experiment: str
    testbed: str
    axes: Mapping[str, Any]  # value of each varied setting
    status: str  # `complete`, `running`, `translation incorrect`, `failed` or `waiting`
    failure: str
    data: RunData | None  # None before its first trial

    @property
    def records(self) -> Sequence[Record]:
        """Records of the run."""
        return () if self.data is None else self.data.records

    @property
    def values(self) -> str:
        """The values of its axes: ``"ces 1000, frame_sizes 104"``."""
        return ", ".join(f"{shorten_axis(k)} {format_axis_value(v)}" for k, v in self.axes.items())


POINT_AXES = ("frame_sizes", "modes")  # axes that are part of the label of a test point


def strip_number(directory: str) -> str:
    """Return the name of a run without its number, which depends on the runs before it."""
    return re.sub(r"^\d+-", "", directory)


def shorten_axis(axis: str) -> str:
    """Shorten the name of an axis: ``"params.ces"`` is ``"ces"``."""
    return {"params": "traffic", "dut.driver": "device"}.get(axis, axis.rpartition(".")[2])


def format_axis_value(value: Any) -> str:
    """Format a value of an axis."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{k}={format_axis_value(v)}" for k, v in value.items())
    return "/".join(map(format_axis_value, value)) if isinstance(value, list) else str(value)
