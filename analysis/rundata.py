"""Data of a run, as read from its directory, and of the runs of a campaign."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from v6t.analysis.record import Record
from v6t.trials.result import TrialResult

JsonObject = Mapping[str, Any]
PHASE_ONE_REPETITION = re.compile(r"/p\d+$")  # end of the key of a trial whose phase 1 is repeated


@dataclass(frozen=True)
class RunTrial:
    """A line of ``journal.jsonl``: the requested trial and its result."""

    request: JsonObject  # fields of the requested trial
    result: TrialResult

    @property
    def key(self) -> str:
        """Key of the trial, unique within the run."""
        return str(self.request["key"])

    @property
    def sending_s(self) -> float:
        """Length of the requested stream, with the load that follows an overload [s]."""
        then = self.request.get("then") or {"duration_s": 0.0}
        return float(self.request["duration_s"]) + float(then["duration_s"])


def flatten(values: JsonObject, above: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects by their joined names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{above}{name}{separator}", separator)
        else:
            yield f"{above}{name}", value


@dataclass(frozen=True)
class RunData:
    """Content of the files of a run, and facts about its technology."""

    name: str  # name of the run's directory
    results: JsonObject  # `results.json`
    records: Sequence[Record]
    config: JsonObject  # `config.json`
    manifest: JsonObject  # `manifest.json`
    params: JsonObject = field(default_factory=dict)  # parameters; empty: no such plugin installed
    title: str = ""  # title of the technology
    rfcs: Sequence[str] = ()  # RFCs of the technology
    setup: JsonObject = field(default_factory=dict)  # links and devices; empty: not known
    rfc_frame_sizes: Sequence[int] = ()  # IPv6 frame sizes that RFC 8219 lists for the technology
    settings: JsonObject = field(default_factory=dict)  # settings of procedures with their defaults
    trials: Sequence[RunTrial] = ()
    mix_sequences: Mapping[str, str] = field(default_factory=dict)  # order of sizes by the mix

    @property
    def procedure(self) -> JsonObject:
        """Settings of the procedures, with their defaults where they are known."""
        settings: JsonObject = self.settings or self.config["procedure"]
        return settings

    @property
    def status(self) -> str:
        """State of the run: ``complete``, ``running`` (also: interrupted) or ``translation incorrect``."""
        return str(self.results.get("status", "unknown"))

    @property
    def caveats(self) -> list[str]:
        """Warnings about the whole run."""
        return list(self.results.get("caveats", ()))

    @property
    def bottleneck(self) -> Sequence[JsonObject]:
        """Limits of the device, as in ``bottleneck.json``."""
        return self.results.get("bottleneck") or ()

    @property
    def simulated(self) -> bool:
        """Whether the run is a simulation."""
        known = self.manifest.get("setup", {}).get("simulated")
        return bool(self.config["tester"]["kind"] == "sim" if known is None else known)

    @property
    def shares_oracle(self) -> bool:
        """Whether the device uses the reference translation that its frames are compared with."""
        device = (self.manifest.get("tester") or {}).get("device") or {}
        return bool(device.get("shares_oracle", False))

    @property
    def has_user_device(self) -> bool:
        """Whether the device was one that its user had configured, without a driver."""
        has_run = bool(self.manifest.get("tester"))
        is_undriven = self.config["dut"]["driver"] == "reference"
        return has_run and is_undriven and not self.simulated and not self.shares_oracle

    @property
    def heading(self) -> str:
        """Technology, tester and device in one line."""
        tester, driver = self.config["tester"]["kind"], self.config["dut"]["driver"]
        device = "user's" if self.has_user_device else driver
        return f"{self.config['plugin']}, {tester} tester, {device} device"

    @property
    def behaviour(self) -> Mapping[str, Mapping[str, int]]:
        """Frames that show each choice the RFCs leave to the device, by direction."""
        by_direction: dict[str, Counter[str]] = {}
        for trial in self.trials:
            for direction, counted in trial.result.directions.items():
                by_direction.setdefault(direction, Counter()).update(counted.behaviour or {})
        return {d: dict(sorted(counts.items())) for d, counts in by_direction.items() if counts}

    def find_trials(self, record: Record) -> Iterator[RunTrial]:
        """Yield the trials of a record that are in the journal, invalid ones included."""
        return (self._trials[key] for key in record.trials if key in self._trials)

    def list_valid_trials(self, records: Sequence[Record]) -> list[RunTrial]:
        trials = []
        for record in records:
            invalid = {t.key for t in record.invalid_trials}
            trials += [t for t in self.find_trials(record) if t.key not in invalid]
        return trials

    @cached_property
    def _trials(self) -> dict[str, RunTrial]:
        """The trials by their keys in records; of repeated phases 1, the last counts."""
        trials = {}
        for trial in self.trials:
            key = PHASE_ONE_REPETITION.sub("", trial.key)
            trials[key] = replace(trial, request={**trial.request, "key": key})
        return trials


@dataclass(frozen=True)
class CampaignRun:
    """One run of a campaign."""

    directory: str  # path below the directory of the campaign
    experiment: str  # name in the campaign file
    testbed: str  # name in the campaign file
    axes: Mapping[str, Any]  # value of each varied setting
    status: str  # `complete`, `running`, `translation incorrect`, `failed` or `waiting`
    failure: str  # error message; empty if the run did not fail
    data: RunData | None  # None before the first trial
    is_damaged: bool = False  # its files cannot be read

    @property
    def records(self) -> Sequence[Record]:
        return () if self.data is None else self.data.records

    @property
    def values(self) -> str:
        """Values of the axes as text: ``"ces 1000, frame_sizes 104"``."""
        return ", ".join(f"{shorten_axis(k)} {format_axis_value(v)}" for k, v in self.axes.items())


Runs = Sequence[CampaignRun]  # runs of a campaign
POINT_AXES = ("frame_sizes", "modes")  # varied settings that the label of a test point contains


def strip_number(directory: str) -> str:
    """Return the name of a run without its number, which depends on the runs before it."""
    return re.sub(r"^\d+-", "", directory)


def shorten_axis(axis: str) -> str:
    """Shorten the name of a varied setting: ``"params.ces"`` becomes ``"ces"``."""
    return {"params": "traffic", "dut.driver": "device"}.get(axis, axis.rpartition(".")[2])


def format_axis_value(value: Any) -> str:
    """Format a value of a varied setting."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{k}={format_axis_value(v)}" for k, v in value.items())
    return "/".join(map(format_axis_value, value)) if isinstance(value, list) else str(value)
