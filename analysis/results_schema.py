"""``results.json`` as a whole, and its JSON schema, made from the records' models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from v6t.analysis.record import FrameSizes, Number, Record, RecordModel

TITLE = "v6t results.json, version 1"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Bottleneck(RecordModel):
    """Observation of a device at the measured rate and just above it."""

    device: str = Field(description="name of the device")
    frame_sizes: FrameSizes = Field(description="octets with FCS on either side")
    direction: str = Field(description="of the load")
    rate_fps: Number = Field(description="found [frames per second per direction]")
    unsustained: str = ""
    """why the rate did not hold in the longer trial; empty: it did"""
    judged_at: Literal["found", "above"] = "found"
    """the trial that `samples`, `idle_percent` and the verdict with its evidence belong to"""
    judged_fps: Number | None = None
    """offered in that trial [frames per second per direction]"""
    samples: int = Field(description="seconds watched under load")
    idle_percent: dict[str, Any] = Field(description="every core's idle time in every second [%]")
    limited_by: Literal[
        "cpu", "table", "rules", "queue", "contention", "tester", "nothing here", "unknown"
    ]
    """what limits it"""
    says: str = Field(description="the verdict in words")
    evidence: list[str] = Field(description="figures it rests on")
    telemetry: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """what it said of itself before, at the found rate, above it and after, in one shape"""
    together: str | None = None
    """what the devices of a chain say together"""


class DeviceCounts(RecordModel):
    """Counters of a device over all trials of a benchmark."""

    device: str = Field(description="name of the device")
    benchmark: str = Field(description="whose trials these were")
    frame_sizes: FrameSizes = Field(description="octets with FCS on either side")
    direction: str = Field(description="of the load")
    seconds: Number = Field(description="between the two readings")
    drops: dict[str, Number]
    """frames by the device's own reason, those of trials with loss among them; empty: it counted none"""
    lost_for: dict[str, str]
    """what each reason says: `queue`, `ingress`, `room`, `entry`, `no connection`, `rule`, `all` of them"""
    table: dict[str, dict[str, Number]]
    """`before` and `after`: connections `used`, `limit`, `full` [%]; empty: it tells of no table"""


class Results(RecordModel):
    """The results of a run."""

    format: Literal["v6t-results/1"] = Field(alias="schema")
    """name and version of this format"""
    status: Literal["complete", "running", "translation incorrect"]
    """`running`: interrupted, or going on"""
    label: str = Field(description="`--label`")
    caveats: list[str] = Field(description="what must be said beside every number of this run")
    conditions: dict[str, Any] = Field(default_factory=dict)
    """conditions of all records; a record holds only its others"""
    results: list[Record] = Field(description="the records")
    finding: dict[str, Any] | None = None
    """after a wrong translation: the frame sent, expected and received"""
    fail_below_fps: Number | None = None
    """`--fail-below`: a throughput below this rate is a failure in JUnit results [fps per direction]"""
    bottleneck: Sequence[Bottleneck] = ()
    """what limits the device at the found rates, with the evidence"""
    device: Sequence[DeviceCounts] = ()
    """what the device counted over each benchmark"""


class _Schema(GenerateJsonSchema):
    """Schema generator that omits titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def build_results_schema(kinds: Mapping[str, type[Record]]) -> dict[str, Any]:
    """Build the schema of ``results.json`` (JSON Schema 2020-12) from the models of records by benchmark."""
    models: Iterable[type[RecordModel]] = dict.fromkeys((Results, Record, *kinds.values()))
    _, schema = models_json_schema(
        [(model, "serialization") for model in models], schema_generator=_Schema
    )
    definitions = schema["$defs"]
    for definition in definitions.values():
        definition.pop("title")
        if "above_usable" in definition.get("required", ()):  # written where something was offered
            definition["required"].remove("above_usable")
    names: dict[type[Record], list[str]] = {}
    for name, kind in kinds.items():
        names.setdefault(kind, []).append(name)
    definitions["Record"]["allOf"] = [
        {
            "if": {
                "properties": {"benchmark": {"enum": some}, "not_measured": {"type": "null"}},
                "required": ["benchmark"],
            },
            "then": {"$ref": f"#/$defs/{kind.__name__}"},
        }
        for kind, some in names.items()
    ]
    return {"$schema": DIALECT, "title": TITLE, **definitions.pop("Results"), "$defs": definitions}
