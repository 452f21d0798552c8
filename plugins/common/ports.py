"""Port policies of RFC 4814 and of Mapperf: who sends from which ports, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.plugins.base import PluginParams
from v6t.profiles.model import Binding, Kind, Variable

Policy = Literal["fixed", "inc", "dec", "random"]

KINDS = {"inc": Kind.INC, "dec": Kind.DEC, "random": Kind.UNIFORM}

FIXED_SOURCE = 0xC020
"""Source port of RFC 2544 appendix C.2.6.4 (GEN-10)."""
FIXED_DESTINATION = 7


class PortRange(PluginParams):
    """Ports drawn from ``min..max``; ``fixed`` always sends ``min``. Port 0 is no port (RFC 6335)."""

    policy: Policy = "random"
    min: int = Field(ge=1, le=65535)
    max: int = Field(ge=1, le=65535)

    @model_validator(mode="after")
    def _ordered(self) -> PortRange:
        if self.min > self.max:
            raise InvalidValue(
                f"the smallest port {self.min} is larger than the largest {self.max}",
                code="empty-range",
            )
        return self

    def variable(self, name: str) -> Variable | None:
        """The variable to bind to a whole port field; None where the port never changes."""
        if self.policy == "fixed" or self.min == self.max:
            return None
        return Variable(name, 16, KINDS[self.policy], low=self.min, high=self.max)


class SourcePorts(PortRange):
    """RFC 4814 section 4.5: 1024 to 65535; fixed: RFC 2544's."""

    min: int = Field(1024, ge=1, le=65535)
    max: int = Field(65535, ge=1, le=65535)

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, value: Any) -> Any:
        return _fixed_at(value, FIXED_SOURCE)


class DestinationPorts(PortRange):
    """RFC 4814 section 4.5: 1 to 49151; fixed: RFC 2544's."""

    min: int = Field(1, ge=1, le=65535)
    max: int = Field(49151, ge=1, le=65535)

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, value: Any) -> Any:
        return _fixed_at(value, FIXED_DESTINATION)


def _fixed_at(value: Any, port: int) -> Any:
    """A fixed port that is not told is RFC 2544's."""
    if isinstance(value, Mapping) and value.get("policy") == "fixed" and "min" not in value:
        return {**value, "min": port, "max": value.get("max", port)}
    return value


def source_range() -> SourcePorts:
    """Random ports of RFC 4814 for sources."""
    return SourcePorts()


def destination_range() -> DestinationPorts:
    """Random ports of RFC 4814 for destinations."""
    return DestinationPorts()


def bind_port(variable: Variable | None, field: str) -> list[Binding]:
    """A whole-port binding, or none for a constant port."""
    return [] if variable is None else [Binding(variable.name, field, 0, 15)]
