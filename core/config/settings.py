"""Settings of a run: files as written, flags, presets, and the resolved run of config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError
from v6t.base.errors import ExtensionError, InvalidValue
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import registry
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S
from v6t.benchmarks.settings import ProcedureSettings
from v6t.intent.device import BackgroundVlan, Link, Links, Port
from v6t.profiles.mixes import is_mix, normalize_mix
from v6t.trials.trial import Mode

Preset = Literal["quick", "rfc"]


def _parse_frame_size(value: Any) -> int | str:
    """Return a number of octets, or a normalized mix of frame sizes."""
    if isinstance(value, str) and is_mix(value):
        return normalize_mix(value)
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        raise PydanticCustomError("int_type", "must be a whole number")
    try:
        number = int(value)
    except ValueError:
        raise PydanticCustomError("int_parsing", "must be a whole number") from None
    if isinstance(value, float) and number != value:
        raise PydanticCustomError("int_from_float", "must be a whole number")
    return number


# Octets of a frame, or a mix of several sizes (RFC 6985).
FrameSize = Annotated[
    int | str,
    PlainValidator(_parse_frame_size),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]


class LinksSettings(StrictModel):
    """Links between tester and device."""

    left: Link = Links().left
    """The cable at the tester's left port: with IPv6, or with the private side."""
    right: Link = Links().right
    """The cable at its right port: with IPv4, or with the public side."""

    @model_validator(mode="before")
    @classmethod
    def _add_background_addresses(cls, values: Any) -> Any:
        """Add the default addresses of background VLANs."""
        sides: tuple[Port, ...] = ("left", "right")
        for side in sides if isinstance(values, Mapping) else ():
            link = values.get(side)
            background = link.get("background") if isinstance(link, Mapping) else None
            if isinstance(background, Mapping):
                default = BackgroundVlan.with_default_addresses(side, vlan=1)
                background = {**default.model_dump(mode="json", exclude={"vlan"}), **background}
                values = {**values, side: {**link, "background": background}}
        return values

    @model_validator(mode="after")
    def _check_backgrounds(self) -> LinksSettings:
        """Reject a background VLAN on one link only."""
        if (self.left.background is None) != (self.right.background is None):
            problem = "only one of the links has a VLAN for the background"
            hint = "write background: {vlan: ...} within left and right"
            raise InvalidValue(problem, hint, code="missing-setting")
        return self


class TesterSettings(StrictModel):
    """Tester and its options."""

    kind: str = "auto"
    """`embedded`, `trex` or `sim`; `auto`: embedded."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of this tester, see below."""


class DutSettings(StrictModel):
    """Device driver and its options."""

    driver: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    """Name of a device driver; default: the technology's own, or `reference`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of this driver, see below."""


class RunFile(StrictModel):
    """Settings of a run file."""

    plugin: str | None = None
    """Technology: a name of `v6t plugins`."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the technology, see `v6t plugins NAME`."""
    preset: Preset | None = None
    """`quick`, a demonstration, or `rfc`; none: quick."""
    benchmarks: list[str] | None = Field(default=None, min_length=1)
    """Benchmarks to measure; none: throughput."""
    modes: list[str] | None = Field(default=None, min_length=1)
    """`bidirectional`, `forward`, `reverse`; none: all three."""
    frame_sizes: list[FrameSize] | None = Field(default=None, min_length=1)
    """Sizes of the IPv6 frame, octets with FCS; `imix` or `imix:64x28,570x16,1518x4`: several in that
    proportion; none: the preset's for the technology."""
    procedure: dict[str, Any] = Field(default_factory=dict)
    """Single settings of the procedures, in place of the preset's; see below."""
    modifier: str | None = None
    """Condition added to the test traffic of all benchmarks, for example `broadcast` (RFC 2544, 11)."""
    seed: int | None = None
    """Seed of all pseudorandom numbers; none: 1."""
    label: str | None = None
    """Text for the directory name and the results."""


class TestbedFile(StrictModel):
    """Testbed: tester, device, and the links between them."""

    tester: TesterSettings = Field(default_factory=TesterSettings)
    """Sender and receiver of the test traffic."""
    dut: DutSettings = Field(default_factory=DutSettings)
    """Device under test."""
    links: LinksSettings = Field(default_factory=LinksSettings)
    """The two cables between them."""
    initiator: Port = "left"
    """At which port of the tester the technology's left side is: the Initiator of a stateful one, IPv6 or the
    private side. `right`: the device is wired the other way; forward is from the Initiator all the same."""
    line_rate: Annotated[
        str | None,
        BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value),
    ] = None
    """The medium's rate in bit/s, for example 10G, 2.5Gbps, 100M; none: 10G."""


@dataclass(frozen=True)
class Flags:
    """Settings of the command line; None and empty mean that a flag is not given."""

    plugin: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tester: str | None = None
    tester_options: Mapping[str, str] = field(default_factory=dict)
    dut: str | None = None  # name of the device driver
    dut_params: Mapping[str, str] = field(default_factory=dict)
    initiator: str | None = None
    preset: str | None = None
    benchmarks: Sequence[str] = ()
    modes: Sequence[str] = ()
    frame_sizes: Sequence[int | str] = ()
    procedure: Mapping[str, Any] = field(default_factory=dict)
    procedure_texts: Mapping[str, str] = field(default_factory=dict)  # of ``--set-procedure``
    settings: Mapping[str, str] = field(default_factory=dict)  # values by flag of a benchmark
    modifier: str | None = None
    seed: int | None = None
    label: str | None = None
    single_frames: bool = False  # measure no benchmark, send single frames only


def make_procedure_model() -> type[ProcedureSettings]:
    """Return the model with the settings of every installed benchmark, each under its own key."""
    sections = registry.list_sections()
    for name in sections.keys() & ProcedureSettings.model_fields.keys():
        raise ExtensionError(
            f"procedure.{name} is reserved by v6t, but the settings of "
            f"{' and '.join(registry.find_by_section(name))} have this name",
            "its author must choose another section",
            code="duplicate",
        )
    return _compose_model(tuple(sections.items()))


@lru_cache(maxsize=4)
def _compose_model(sections: tuple[tuple[str, type[StrictModel]], ...]) -> type[ProcedureSettings]:
    """Return the model of the procedure with a section for each benchmark."""
    fields: dict[str, Any] = {name: (model, model()) for name, model in sections}
    model: type[ProcedureSettings] = create_model(
        "ProcedureSettings", __base__=ProcedureSettings, __doc__=ProcedureSettings.__doc__, **fields
    )
    return model


def _validate_procedure(values: Any) -> Any:
    """Validate procedure settings, including the sections of all benchmarks."""
    if isinstance(values, ProcedureSettings):
        return values
    return make_procedure_model().model_validate(values)


class ResolvedRun(StrictModel):
    """Complete settings of a run, saved as ``config.json`` to resume and reproduce it."""

    plugin: str
    params: dict[str, Any] = Field(default_factory=dict)
    driver_defaults: tuple[str, ...] = Field((), alias="suited")
    """Parameters with the driver's own default: the device cannot take the technology's."""
    links_left: Link  # the link on the left; saved files use this name
    links_right: Link
    initiator: Port = "left"
    """The link at which the technology's left side is."""
    line_rate_bps: float = Field(gt=0)
    tester: TesterSettings
    dut: DutSettings
    preset: Preset
    benchmarks: tuple[str, ...] = ("throughput",)
    modes: tuple[Mode, ...]
    frame_sizes: tuple[FrameSize, ...]
    procedure: Annotated[SerializeAsAny[ProcedureSettings], BeforeValidator(_validate_procedure)]
    seed: int
    label: str = ""
    connects: bool = False
    """The technology is stateful: trials have connections (RFC 9693)."""
    modifier: str | None = None
    """Condition added to the test traffic (RFC 2544, section 11)."""

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``config.json``."""
        return self.model_dump(mode="json", by_alias=True)


def load_saved_run(values: Any) -> ResolvedRun:
    """Return a saved run without the settings of benchmarks that are not installed."""
    if isinstance(values, Mapping) and isinstance(values.get("procedure"), Mapping):
        known = make_procedure_model().model_fields
        procedure = {
            name: value
            for name, value in values["procedure"].items()
            if name in known or not isinstance(value, Mapping)
        }
        values = {**values, "procedure": procedure}
    return ResolvedRun.model_validate(values)


PRESETS = ("quick", "rfc")
TRAFFIC_MODES = ("bidirectional", "forward", "reverse")

_PRESET_SETTINGS: dict[Preset, dict[str, Any]] = {
    "quick": {
        "trial_duration_s": 0.7,
        "residual_wait_s": 0.15,
        "pause_s": 0.05,
        "repetitions": 2,
        "resolution_ratio": 1 / 16,
        "sending_time_tolerance": 1.02,
        "invalid_retries": 1,
        # the lowest of the few repetitions, so that the streams meet a device that keeps up
        "rate_from": "p1",
        "connections": {"count": 100_000, "wait_ms": 150.0, "keep": True},
    },
    "rfc": {
        "trial_duration_s": RFC_TRIAL_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        # also of the rate searches on the way to a capacity
        "connections": {"resolution_cps": 1000.0},
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
        "selftest": "cached",
        # reading its load is work for the device that is measured
        "watch_device": False,
    },
}


def make_preset(preset: Preset) -> dict[str, Any]:
    """Return the procedure settings of a preset, including those of every installed benchmark."""
    return {
        **_PRESET_SETTINGS[preset],
        **(registry.make_quick_preset() if preset == "quick" else {}),
    }


def is_demonstration(run: ResolvedRun) -> bool:
    """Return whether trials are too short for their numbers to count as results."""
    p = run.procedure
    return max(p.trial_duration_s, p.final_duration_s or 0.0) < RFC_TRIAL_S
