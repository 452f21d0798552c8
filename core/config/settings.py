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
from v6t.benchmarks import registry
from v6t.benchmarks.settings import ProcedureSettings
from v6t.core.config.frame_sizes import FrameSize
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


def procedure_model() -> type[ProcedureSettings]:
    """Return the model with the settings of every installed benchmark, each under its own key."""
    sections = registry.sections()
    for name in sections.keys() & ProcedureSettings.model_fields.keys():
        whose = " and ".join(registry.of_section(name))
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
    """Return the first line of its docstring."""
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
    """Read a saved run without the settings of benchmarks that are not installed.

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
