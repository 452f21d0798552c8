"""Ports: policies of RFC 4814 and of Mapperf, and port sets of RFC 7597, section 5.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.packets.address_layouts import make_port_layout
from v6t.packets.bit_layout import BitLayout
from v6t.plugins.base import PluginParams
from v6t.profiles.model import Expression, Kind, Layer, Variable

Policy = Literal["fixed", "inc", "dec", "random"]

VARIABLE_KINDS = {"inc": Kind.INC, "dec": Kind.DEC, "random": Kind.UNIFORM}

FIXED_SOURCE, FIXED_DESTINATION = 0xC020, 7  # ports of RFC 2544, appendix C.2.6.4

CE_PORT, PEER_PORT = "ce_port", "peer_port"
"""Names of the variables of a customer's port and of the port of the host beyond the relay."""


class Bounds(PluginParams):
    """Base class of parameters with a range; subclasses declare ``min`` and ``max``."""

    value_name: ClassVar[str] = "port"  # in messages
    if TYPE_CHECKING:
        min: int
        max: int

    @model_validator(mode="after")
    def _check_order(self) -> Bounds:
        if self.min > self.max:
            name = self.value_name
            problem = f"the smallest {name} {self.min} is larger than the largest {self.max}"
            raise InvalidValue(problem, code="empty-range")
        return self

    @property
    def count(self) -> int:
        return self.max - self.min + 1


class Ports(Bounds):
    """The smallest and the largest port of a range."""

    min: int = Field(ge=1, le=65535)
    max: int = Field(ge=1, le=65535)


class ValueRange(Bounds):
    """16-bit values drawn from ``min..max``; the policy ``fixed`` always sends the same one."""

    policy: Policy = "random"
    min: int = Field(ge=1, le=65535)
    max: int = Field(ge=1, le=65535)

    def make_variable(self, name: str) -> Variable:
        return Variable(name, 16, VARIABLE_KINDS[self.policy], low=self.min, high=self.max)


class HeaderPorts(ValueRange):
    """Ports drawn from ``min..max``, without port 0 (RFC 6335); the policy ``fixed`` always sends ``min``."""

    fixed_port: ClassVar[int] = 1  # sent by the policy ``fixed`` if ``min`` is not set

    @model_validator(mode="before")
    @classmethod
    def _use_fixed_port(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("policy") == "fixed" and "min" not in value:
            return {**value, "min": cls.fixed_port, "max": value.get("max", cls.fixed_port)}
        return value

    def build_field(self, name: str) -> Variable | int:
        """Return the port of a header: a variable, or a number if the port is fixed."""
        fixed = self.policy == "fixed" or self.min == self.max
        return self.min if fixed else self.make_variable(name)


class SourcePorts(HeaderPorts):
    """Source ports: 1024 to 65535 (RFC 4814, section 4.5), or RFC 2544's if fixed."""

    fixed_port: ClassVar[int] = FIXED_SOURCE
    min: int = Field(1024, ge=1, le=65535)
    max: int = Field(65535, ge=1, le=65535)


class DestinationPorts(HeaderPorts):
    """Destination ports: 1 to 49151 (RFC 4814, section 4.5), or RFC 2544's if fixed."""

    fixed_port: ClassVar[int] = FIXED_DESTINATION
    min: int = Field(1, ge=1, le=65535)
    max: int = Field(49151, ge=1, le=65535)


def make_udp_header(source: HeaderPorts, destination: HeaderPorts, prefix: str = "") -> Layer:
    """Return a UDP header with ports of two ranges; names of variables start with ``prefix``."""
    ports = {"sport": source, "dport": destination}
    return Layer("UDP", {name: ports[name].build_field(prefix + name) for name in ports})


@dataclass(frozen=True)
class PortSharing:
    """Division of the ports of an IPv4 address among customers (RFC 7597, section 5.1)."""

    psid_offset: int
    psid_len: int

    def __post_init__(self) -> None:
        offset, length = self.psid_offset, self.psid_len
        if not 0 <= offset <= 16:
            raise UsageError(f"psid_offset {offset} is outside 0..16", code="out-of-range")
        if length and offset + length > 16:
            problem = f"psid_offset {offset} plus PSID length {length} is more than "
            hint = f"set psid_offset to at most {16 - length}"
            raise UsageError(f"{problem}the 16 bits of a port", hint, code="out-of-range")

    @property
    def low_bits(self) -> int:
        """Number of bits below the PSID (``m``); 16 without a PSID."""
        return 16 - self.psid_offset - self.psid_len if self.psid_len else 16

    @cached_property
    def layout(self) -> BitLayout:
        return make_port_layout(self.psid_offset if self.psid_len else 0, self.psid_len)

    def find_psids(self, ports: Any) -> tuple[Any, Any]:
        """Return the PSID of each port, and whether the port belongs to a port set."""
        psids = ports >> (self.low_bits if self.psid_len else 0) & (1 << self.psid_len) - 1
        lowest = 1 << 16 - self.psid_offset if self.psid_len and self.psid_offset else 0
        return psids, ports >= lowest


@dataclass(frozen=True)
class PortSet(PortSharing):
    """The ports of one PSID (RFC 7597, section 5.1)."""

    psid: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.psid < 1 << self.psid_len:
            problem = f"PSID {self.psid} does not fit {self.psid_len} bits"
            raise UsageError(problem, code="out-of-range")

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Inclusive port ranges in ascending order."""
        if not self.psid_len:
            return ((0, 65535),)
        first, size = self.layout.encode(psid=self.psid, index=0), 1 << self.low_bits
        tops = range(1, 1 << self.psid_offset) if self.psid_offset else range(1)
        starts = (first + (top << 16 - self.psid_offset) for top in tops)
        return tuple((start, start + size - 1) for start in starts)

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def middle_port(self) -> int:
        """A port in the middle of the last range; never 0."""
        low, high = self.ranges[-1]
        return (low + high) // 2 or high

    def select_ports(self, ports: Any) -> Any:
        """Return whether each port belongs to the port set."""
        psids, owned = self.find_psids(ports)
        return owned & (psids == self.psid)

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and 0 <= port <= 65535 and self.select_ports(port)


def customer_policy(purpose: str) -> Any:
    """Declare the policy parameter of a customer's ports, for example ``forward source``."""
    return Field("random", description=f"{purpose} ports, within the customer's port set")


def build_port(
    ports: PortSet, policy: Policy, source: bool, psid: Expression | None = None
) -> Expression:
    """Return the expression of a customer's port; without ``psid``, the PSID does not vary.

    Ports with ``A = 0`` (RFC 7597) are left out; without a PSID offset, the first port of each set is.
    """
    base, width, low, top = FIXED_SOURCE if source else FIXED_DESTINATION, 16, 1024, 65535
    if ports.psid_len:
        width = 16 - ports.psid_len
        has_port_0 = psid is not None or ports.psid == 0
        low = 1 << ports.low_bits if ports.psid_offset else int(width > 0 and has_port_0)
        base, top = ports.layout.encode(psid=ports.psid, index=low), (1 << width) - 1
    index = None
    if policy != "fixed" and width and low <= top:
        index = Variable(CE_PORT, width, VARIABLE_KINDS[policy], low=low, high=top)
    return Expression.from_layout(ports.layout, base, index=index, psid=psid)
