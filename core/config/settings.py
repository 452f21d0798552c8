"""Settings of a run and of its testbed, for files, options and config.json; and the presets."""

from collections.abc import Mapping
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
from v6t.base.ethernet import parse_line_rate
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import registry
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S
from v6t.benchmarks.settings import ProcedureSettings
from v6t.core.config.yaml_file import locate_errors
from v6t.intent.device import BackgroundVlan, Link, Links, Port
from v6t.profiles.mixes import is_mix, normalize_mix
from v6t.trials.trial import Mode

Preset = Literal["quick", "rfc"]
RFC_SIZES = "rfc"  # in place of a frame size: those that RFC 8219 lists


def _parse_frame_size(value: Any) -> int | str:
    if value == RFC_SIZES:
        return RFC_SIZES
    if isinstance(value, str) and is_mix(value):
        return normalize_mix(value)
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        raise PydanticCustomError("int_type", "must be a whole number")
    try:
        number = int(value)
    except (ValueError, OverflowError):  # of infinity
        raise PydanticCustomError("int_parsing", "must be a whole number") from None
    if isinstance(value, float) and number != value:
        raise PydanticCustomError("int_from_float", "must be a whole number")
    return number


FrameSize = Annotated[  # octets of a frame, or a mix of several sizes (RFC 6985)
    int | str,
    PlainValidator(_parse_frame_size),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]


def _parse_line_rate(value: Any) -> Any:
    """Return the bits per second of a line rate such as ``10G``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    with locate_errors(None, "line_rate"):
        return parse_line_rate(str(value))


class LinksSettings(StrictModel):
    """Links between tester and device."""

    left: Link = Links().left
    """The cable at the tester's left port: with IPv6, or with the private side."""
    right: Link = Links().right  #: The cable at its right port: with IPv4, or with the public side.

    @model_validator(mode="before")
    @classmethod
    def _add_background_addresses(cls, values: Any) -> Any:
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
    def _check_background_vlans(self) -> "LinksSettings":
        if (self.left.background is None) != (self.right.background is None):
            problem = "only one of the links has a VLAN for the background"
            hint = "write background: {vlan: ...} within left and right"
            raise InvalidValue(problem, hint, code="missing-setting")
        return self


class TesterSettings(StrictModel):
    """Tester and its options."""

    kind: str = "auto"  #: `embedded`, `trex` or `sim`; `auto`: embedded.
    options: dict[str, Any] = Field(default_factory=dict)  #: Options of this tester, see below.


class DutSettings(StrictModel):
    """Device driver and its options."""

    driver: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    """Name of a device driver; default: the technology's own, or `reference`."""
    options: dict[str, Any] = Field(default_factory=dict)  #: Options of this driver, see below.


class Testbed(StrictModel):
    """Testbed: tester, device, and the links between them."""

    tester: TesterSettings = Field(default_factory=TesterSettings)
    """Sender and receiver of the test traffic."""
    dut: DutSettings = Field(default_factory=DutSettings)  #: Device under test.
    links: LinksSettings = Field(default_factory=LinksSettings)  #: The two cables between them.
    initiator: Port = "left"
    """Port of the tester at the technology's left side: the Initiator of a stateful one, IPv6 or
    the private side. `right`: the device is cabled the other way; forward is still from the
    Initiator."""
    line_rate_bps: Annotated[float, BeforeValidator(_parse_line_rate)] = Field(
        default=10e9, alias="line_rate"
    )
    """The medium's rate in bit/s, for example 10G, 2.5Gbps, 100M."""

    @property
    def technology_links(self) -> Links:
        """Links as the technology sees them, with the Initiator's on the left."""
        left, right = self.links.left, self.links.right
        if self.initiator == "left":
            return Links(left, right)
        return Links(right, left, swapped=True)


def make_procedure_model() -> type[ProcedureSettings]:
    """Return the model with the settings of every installed benchmark, each under its own key."""
    sections = registry.list_sections()
    for name in sections.keys() & ProcedureSettings.model_fields.keys():
        benchmarks = " and ".join(registry.find_by_section(name))
        problem = f"procedure.{name} is reserved by v6t and cannot be the section of {benchmarks}"
        raise ExtensionError(problem, "its author must choose another section", code="duplicate")
    return _compose_model(tuple(sections.items()))


@lru_cache(maxsize=4)
def _compose_model(sections: tuple[tuple[str, type[StrictModel]], ...]) -> type[ProcedureSettings]:
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


class RunFileSettings(StrictModel):
    """What to measure; empty lists stand for the defaults of the technology and the preset."""

    plugin: str = ""  #: Technology: a name of `v6t plugins`.
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the technology, see `v6t plugins NAME`."""
    preset: Preset = "quick"  #: `quick`, a demonstration, or `rfc`.
    benchmarks: tuple[str, ...] = Field(default=(), min_length=1)
    """Benchmarks to measure; none: throughput."""
    modes: tuple[Mode, ...] = Field(default=(), min_length=1)
    """`bidirectional`, `forward`, `reverse`; none: all three."""
    frame_sizes: tuple[FrameSize, ...] = Field(default=(), min_length=1)
    """Sizes of the IPv6 frame, octets with FCS; `imix` or `imix:64x28,570x16,1518x4`: several in that
    proportion; `rfc`: those that RFC 8219 lists; none: the preset's for the technology."""
    procedure: Annotated[
        SerializeAsAny[ProcedureSettings], BeforeValidator(_validate_procedure)
    ] = Field(default_factory=lambda run: make_preset_procedure(run.get("preset", "quick")))
    """Single settings of the procedures, in place of the preset's; see below."""
    modifier: str | None = None
    """Condition added to the test traffic of all benchmarks, for example `broadcast` (RFC 2544, 11)."""
    seed: int = 1  #: Seed of all pseudorandom numbers.
    label: str = ""  #: Text for the directory name and the results.


class Settings(RunFileSettings, Testbed):
    """Complete settings of a run, saved as ``config.json`` to resume and reproduce it."""

    driver_defaults: tuple[str, ...] = ()
    """Parameters with the driver's default, because the device does not support the technology's."""
    connects: bool = False  #: The technology is stateful: trials have connections (RFC 9693).

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``config.json``."""
        config = self.model_dump(mode="json")
        suited = config.pop("driver_defaults")
        links = {f"links_{side}": link for side, link in config.pop("links").items()}
        return {**config, **links, "suited": suited}

    @classmethod
    def from_config(cls, config: Any) -> "Settings":
        """Return saved settings, without those of benchmarks that are not installed.

        Raises:
            ValueError: ``config`` is not the content of a ``config.json``.
        """
        if not isinstance(config, Mapping) or not config.keys() >= _CONFIG_KEYS:
            raise ValueError("settings are missing")
        values = dict(config)
        values["links"] = {side: values.pop(f"links_{side}") for side in ("left", "right")}
        values["line_rate"] = values.pop("line_rate_bps")
        values["driver_defaults"] = values.pop("suited", ())
        if isinstance(values["procedure"], Mapping):
            known = make_procedure_model().model_fields
            values["procedure"] = {
                name: value
                for name, value in values["procedure"].items()
                if name in known or not isinstance(value, Mapping)
            }
        return cls.model_validate(values)


_CONFIG_KEYS = {  # keys that every ``config.json`` has
    *("plugin", "preset", "modes", "frame_sizes", "procedure", "seed"),
    *("tester", "dut", "links_left", "links_right", "line_rate_bps"),
}


def list_file_names(model: type[StrictModel]) -> list[str]:
    """List the names of a model's settings in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


_PRESET_SETTINGS: dict[Preset, dict[str, Any]] = {
    "quick": {
        "trial_duration_s": 0.7,
        "residual_wait_s": 0.15,
        "pause_s": 0.05,
        "repetitions": 2,
        "resolution_ratio": 1 / 16,
        "sending_time_tolerance": 1.02,
        "invalid_retries": 1,
        # the lowest of the few repetitions, so that the device sustains the streams
        "rate_from": "p1",
        "connections": {"count": 100_000, "wait_ms": 150.0, "keep": True},
    },
    "rfc": {
        "trial_duration_s": RFC_TRIAL_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        # also for the rate searches within the search for a capacity
        "connections": {"resolution_cps": 1000.0},
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
        "selftest": "cached",
        # reading the load would itself load the measured device
        "watch_device": False,
    },
}


def make_preset_settings(preset: Preset) -> dict[str, Any]:
    """Return the procedure settings of a preset, including those of every installed benchmark."""
    benchmark_settings = registry.make_quick_preset() if preset == "quick" else {}
    return {**_PRESET_SETTINGS[preset], **benchmark_settings}


def make_preset_procedure(preset: Preset) -> ProcedureSettings:
    """Return the procedure of a preset."""
    return make_procedure_model().model_validate(make_preset_settings(preset))
