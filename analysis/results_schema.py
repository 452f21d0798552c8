"""``results.json`` as a whole, and its JSON schema, made from the records' models."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from v6t.analysis.record import FrameSizes, Number, Record, RecordModel

SCHEMA_TITLE = "v6t results.json, version 1"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"  # version of JSON Schema


class Bottleneck(RecordModel):
    """Observation of a device at the measured rate and just above it."""

    device: str = Field(description="name of the device")
    frame_sizes: FrameSizes = Field(description="octets with FCS on either side")
    direction: str = Field(description="direction of the load")
    rate_fps: Number = Field(description="measured rate [frames per second per direction]")
    unsustained: str = Field("", description="why a longer trial failed; empty: it passed")
    judged_at: Literal["found", "above"] = "found"
    """whether samples, idle times and verdict are of a trial at the measured rate or above it"""
    judged_fps: Number | None = None
    """rate offered in that trial [frames per second per direction]"""
    samples: int = Field(description="seconds under load in which the device was sampled")
    idle_percent: dict[str, Any] = Field(description="idle time of each core in each second [%]")
    limited_by: Literal[
        "cpu", "table", "rules", "queue", "contention", "tester", "nothing here", "unknown"
    ] = Field(description="what limits the device")
    says: str = Field(description="the verdict as a sentence")
    evidence: list[str] = Field(description="figures that support the verdict")
    telemetry: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """the device's own figures before, at the measured rate, above it and after"""
    together: str | None = Field(None, description="verdict on all devices of a chain together")


class DeviceCounts(RecordModel):
    """Counters of a device over all trials of a benchmark."""

    device: str = Field(description="name of the device")
    benchmark: str = Field(description="benchmark of the trials")
    frame_sizes: FrameSizes = Field(description="octets with FCS on either side")
    direction: str = Field(description="direction of the load")
    seconds: Number = Field(description="time between the two readings [s]")
    drops: dict[str, Number]
    """dropped frames by the device's name of the reason, in all trials; empty: it counted none"""
    lost_for: dict[str, str]
    """kind of each reason: `queue`, `ingress`, `room`, `entry`, `no connection`, `rule`, `all` of them"""
    changes: dict[str, Number] = Field(
        {}, description="changes of the other figures of the driver's own readings"
    )
    table: dict[str, dict[str, Number]]
    """connection table `before` and `after`: `used`, `limit`, `full` [%]; empty: it shows none"""


class Results(RecordModel):
    """The results of a run."""

    format: Literal["v6t-results/1"] = Field(alias="schema", description="format and its version")
    run: str | None = Field(None, description="identifier of the run, as in manifest.json")
    status: Literal["complete", "running", "translation incorrect"]
    """state of the run; `running`: in progress or interrupted"""
    label: str = Field(description="value of `--label`")
    caveats: list[str] = Field(description="warnings about all figures of the run")
    conditions: dict[str, Any] = Field(default_factory=dict)
    """conditions that all records share; each record has only its others"""
    results: list[Record] = Field(description="one record for each benchmark and point")
    finding: dict[str, Any] | None = None
    """after an incorrect translation: the frame as sent, expected and received"""
    fail_below_fps: Number | None = None
    """value of `--fail-below`: a lower throughput fails in JUnit results [fps per direction]"""
    sha256: str | None = None
    """SHA-256 of all other content, formatted as in this file; files of earlier versions have none"""
    bottlenecks: Sequence[Bottleneck] = Field((), alias="bottleneck", description="device limits")
    device_counts: Sequence[DeviceCounts] = Field((), alias="device", description="device counters")


class _UntitledSchema(GenerateJsonSchema):
    """Generator of JSON schemas without titles of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def build_results_schema(kinds: Mapping[str, type[Record]]) -> dict[str, Any]:
    """Build the schema of ``results.json`` (JSON Schema 2020-12) from the models of records by benchmark."""
    models: Iterable[type[RecordModel]] = dict.fromkeys((Results, Record, *kinds.values()))
    _, schema = models_json_schema(
        [(model, "serialization") for model in models], schema_generator=_UntitledSchema
    )
    definitions = schema["$defs"]
    for definition in definitions.values():
        definition.pop("title")
        if "above_usable" in definition.get("required", ()):  # records without rates omit it
            definition["required"].remove("above_usable")
    names: dict[type[Record], list[str]] = {}
    for name, kind in kinds.items():
        names.setdefault(kind, []).append(name)
    definitions["Record"]["allOf"] = [
        {
            "if": {
                "properties": {"benchmark": {"enum": benchmarks}, "not_measured": {"type": "null"}},
                "required": ["benchmark"],
            },
            "then": {"$ref": f"#/$defs/{kind.__name__}"},
        }
        for kind, benchmarks in names.items()
    ]
    return {
        "$schema": SCHEMA_DIALECT, "title": SCHEMA_TITLE,
        **definitions.pop("Results"), "$defs": definitions,
    }  # fmt: skip
