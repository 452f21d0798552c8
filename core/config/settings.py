"""The resolved configuration of a run: everything decided, nothing left to look up.

Built by :mod:`v6t.core.config.resolve` from a run file, a testbed file, a preset and flags; written as it
is into the run directory, so that a run is resumed and reproduced from it alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Interface
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, create_model
from v6t.base.errors import ExtensionError
from v6t.base.strict_model import StrictModel
from v6t.core.benchmarks import kinds
from v6t.core.benchmarks.settings import AdaptiveSettings, ConnectionSettings, Flag
from v6t.core.config.frame_sizes import FrameSize
from v6t.procedures.throughput import Search
from v6t.trials.trial import Mode

Preset = Literal["quick", "rfc"]


class AsideSettings(StrictModel):
    """A VLAN of the background's own (MIX-04)."""

    vlan: int = Field(ge=1, le=4094)
    device: IPv6Interface
    tester: IPv6Address


class LinkSettings(StrictModel):
    """One link: MAC addresses, VLAN, MTU [octets], who answers for the tester's hosts."""

    tester_mac: str
    dut_mac: str
    vlan: int | None = Field(default=None, ge=1, le=4094)
    mtu: int = Field(default=1500, ge=1280, le=9216)
    answers: bool = True
    learning: bool | None = None
    background: AsideSettings | None = None


class TesterSettings(StrictModel):
    """Which tester, and its options (for ``sim``: capacity, noise, faults ...)."""

    kind: str
    options: dict[str, Any] = Field(default_factory=dict)


class DutSettings(StrictModel):
    """Which device driver, and its options.

    ``reference`` is the plugin's own reference translation behind two interfaces; its option
    ``params`` overrides plugin parameters on the device only (to see a wrong device caught).
    """

    driver: str
    options: dict[str, Any] = Field(default_factory=dict)


class ProcedureSettings(StrictModel):
    """How trials are run and repeated; see requirements GEN-15 to GEN-23 and TP-01 to TP-05."""

    trial_duration_s: Annotated[float, Flag("--duration")] = Field(ge=0.001, le=86_400)
    """Length of each throughput trial [s] (GEN-15)."""
    residual_wait_s: float = Field(ge=0, le=3600)
    """Wait for late frames after sending [s]."""
    pause_s: float = Field(ge=0, le=86_400)
    """Rest before each trial [s]."""
    repetitions: Annotated[int, Flag("--reps")] = Field(ge=1, le=100_000)
    """Repetitions of each benchmark that sets no number of its own (GEN-17)."""
    resolution_fps: Annotated[float | None, Flag("--resolution")] = Field(default=None, ge=0.001)
    """Stop when the bracket is this narrow [fps]; None: ``resolution_ratio`` of the upper bound. For slow
    devices: an eighth of the rate that failed."""
    resolution_ratio: float = Field(default=0.001, ge=1e-9, lt=1)
    """Stop when the bracket is this share of the upper bound."""
    loss_tolerance: Annotated[float, Flag("--loss-tolerance")] = Field(default=0.0, ge=0, lt=1)
    """Accepted share of lost frames, checked in each direction separately (GEN-22)."""
    sending_time_tolerance: float = Field(default=1.00001, gt=1, le=10)
    """A trial whose sending takes longer than duration times this is invalid (GEN-23)."""
    invalid_retries: int = Field(default=2, ge=0, le=1000)
    """How often an invalid trial is measured again before it counts as failed."""
    confirmations: Annotated[int, Flag("--confirm")] = Field(default=0, ge=0, le=1000)
    """How often a found rate must pass again (TP-04)."""
    selftest_margin: float = Field(default=0.10, gt=0, lt=1)
    """Results above (1 - margin) of the tester's own capacity are flagged (SELF-02)."""
    means: bool = False
    """Mean, its margin and the relative deviation beside every median (GEN-20)."""
    selftest: Literal["run", "cached"] = "run"
    """``run`` measures the tester's capacity in every run; ``cached`` takes one that was found with
    the same tester, machine and streams (SELF-03)."""
    search: Annotated[Search, Flag("--search")] = "binary"
    """``binary`` (RFC 2544) or ``mlrsearch`` (RFC 9971)."""
    final_duration_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """The found rate must pass once for so long (GEN-16, TP-04)."""
    adaptive: AdaptiveSettings | None = None
    rate_from: Literal["median", "p1"] = "median"
    """Which measured throughput later benchmarks take."""
    watch_device: bool = True
    """Read the load of a driven device's cores each second of trials of 3 s and longer (BN-01).

    That is a little work for the device: the preset ``rfc`` leaves it alone."""
    read_device: bool = True
    """Read a driven device's counters before the first and after the last trial of each benchmark at a test
    point, while nothing is sent: what it dropped, by its own reasons, and how full its table is."""
    connections: ConnectionSettings = ConnectionSettings()
    """Connections of stateful devices (RFC 9693)."""


def procedure_model() -> type[ProcedureSettings]:
    """The settings with those of every installed benchmark, each under its own key."""
    sections = kinds.sections()
    for name in sections.keys() & ProcedureSettings.model_fields.keys():
        whose = " and ".join(kinds.of_section(name))
        raise ExtensionError(
            f"the settings of {whose} stand below procedure.{name}, where v6t's own are",
            "its author must choose another section",
            code="duplicate",
        )
    return _composed(tuple(sections.items()))


@lru_cache(maxsize=4)
def _composed(sections: tuple[tuple[str, type[StrictModel]], ...]) -> type[ProcedureSettings]:
    fields: dict[str, Any] = {
        name: (model, Field(model(), description=summary(model))) for name, model in sections
    }
    model: type[ProcedureSettings] = create_model(
        "ProcedureSettings", __base__=ProcedureSettings, __doc__=ProcedureSettings.__doc__, **fields
    )
    return model


def summary(model: type[StrictModel]) -> str:
    """What stands in the first line of its docstring."""
    return inspect.cleandoc(model.__doc__ or "").splitlines()[0]


def _with_sections(values: Any) -> Any:
    if isinstance(values, ProcedureSettings):
        return values
    return procedure_model().model_validate(values)


class ResolvedRun(StrictModel):
    """One run: a technology, its traffic, a tester, a device and the procedures to follow."""

    plugin: str
    params: dict[str, Any] = Field(default_factory=dict)
    suited: tuple[str, ...] = ()
    """Parameters nobody gave, and whose defaults the device cannot take: its driver's."""
    links_left: LinkSettings
    links_right: LinkSettings
    initiator: Literal["left", "right"] = "left"
    """At which of these links the technology's left side is (ST-01)."""
    line_rate_bps: float = Field(gt=0)
    tester: TesterSettings
    dut: DutSettings
    preset: Preset
    benchmarks: tuple[str, ...] = ("throughput",)
    modes: tuple[Mode, ...]
    frame_sizes: tuple[FrameSize, ...]
    """IPv6 frame sizes, octets with FCS (GEN-05), and mixes of them (RFC 6985)."""
    procedure: Annotated[SerializeAsAny[ProcedureSettings], BeforeValidator(_with_sections)]
    seed: int
    label: str = ""
    connects: bool = False
    """The technology is stateful: trials have connections (RFC 9693)."""
    modifier: str | None = None
    """What goes on beside the test traffic (RFC 2544 section 11)."""


def saved_run(values: Any) -> ResolvedRun:
    """A run as it was written; settings of a benchmark that is not installed any more are left out.

    Raises:
        ValidationError: it is none.
    """
    if isinstance(values, Mapping) and isinstance(values.get("procedure"), Mapping):
        known = procedure_model().model_fields
        procedure = {
            name: value
            for name, value in values["procedure"].items()
            if name in known or not isinstance(value, Mapping)
        }
        values = {**values, "procedure": procedure}
    return ResolvedRun.model_validate(values)
