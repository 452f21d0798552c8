"""What TRex and the worker return, as models: no other module reads their dictionaries.

Read from TRex v3.08: ``get_stats``, ``get_pgid_stats``, ``get_server_system_info``.

Delay histograms come in HdrHistogram's V2 encoding, compressed, in base64, laid out after the reference
implementation's documentation (hdrhistogram.github.io): an outer cookie and a zlib stream; inside a 40-octet
header and the counts as ZigZag LEB128 numbers, negative ones being runs of empty buckets.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import (
    AliasPath,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from v6t.base.errors import TesterError
from v6t.trials.delays import Distribution

VIRTUAL_DRIVERS = ("net_memif", "net_tap", "net_af_xdp", "net_pcap", "net_ring")
_COMPRESSED, _PLAIN = 0x1C849304, 0x1C849303
_COOKIE_MASK = ~0xF0  # Without the word size, which does not matter in V2
NO_DELAYS = Distribution((), ())


def decode_histogram(text: str) -> Distribution:
    """Decode a histogram of microseconds, whose buckets count as their middles.

    Raises:
        TesterError: it cannot be read.
    """
    try:
        return _decode(base64.b64decode(text))
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError) as exc:
        raise TesterError(
            "TRex sent a delay histogram that cannot be read", code="tester-fault"
        ) from exc


def _decode(data: bytes) -> Distribution:
    cookie, length = struct.unpack_from(">ii", data)
    if cookie & _COOKIE_MASK != _COMPRESSED & _COOKIE_MASK:
        raise ValueError("not a compressed histogram")
    body = zlib.decompress(data[8 : 8 + length])
    cookie, octets, _, digits, lowest, _highest, _ratio = struct.unpack_from(">iiiiqqd", body)
    if cookie & _COOKIE_MASK != _PLAIN & _COOKIE_MASK or not 0 <= digits <= 5:
        raise ValueError("not a histogram")
    half_bits = (2 * 10**digits - 1).bit_length() - 1
    unit_bits = max(0, lowest.bit_length() - 1)
    counts = {}
    index = 0
    for number in _decode_zigzag(body[40 : 40 + octets]):
        if number < 0:
            index -= number
            continue
        if number:
            bucket = max(0, (index >> half_bits) - 1)
            shift = bucket + unit_bits
            low = (index - (bucket << half_bits)) << shift
            counts[1000 * low + 500 * ((1 << shift) - 1)] = number
        index += 1
    return Distribution.from_values(counts)


def _decode_zigzag(data: bytes) -> Iterator[int]:
    value = shift = 0
    for octet in data:
        is_ninth = shift == 56  # which holds eight bits
        value |= (octet if is_ninth else octet & 0x7F) << shift
        shift += 7
        if is_ninth or octet < 0x80:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0
    if shift:
        raise ValueError("cut off")


class _Answer(BaseModel):
    """Base of the models of what TRex and the worker return."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


def _list_ports(counts: Mapping[Any, Any]) -> dict[Any, Any]:
    """Leave out TRex's entries that are not ports."""
    return {port: count for port, count in counts.items() if str(port).isdigit()}


FramesByPort = Annotated[Mapping[int, int], BeforeValidator(_list_ports)]
"""Frames by port, without TRex's total."""


class PortStats(_Answer):
    """Counters of one port in a trial."""

    sent: int = Field(0, validation_alias="opackets")
    received: int = Field(0, validation_alias="ipackets")
    output_errors: int = Field(0, validation_alias="oerrors")
    input_errors: int = Field(0, validation_alias="ierrors")


class GroupStats(_Answer):
    """Counters of one latency group."""

    sent: FramesByPort = Field({}, validation_alias="tx_pkts")
    received: FramesByPort = Field({}, validation_alias="rx_pkts")
    duplicates: int = Field(0, validation_alias=AliasPath("err_cntrs", "dup"))
    out_of_order: int = Field(0, validation_alias=AliasPath("err_cntrs", "out_of_order"))
    min_delay_us: float | None = Field(None, validation_alias=AliasPath("latency", "total_min"))
    encoded: str | None = Field(None, validation_alias=AliasPath("latency", "hdrh"))
    """The histogram of delays as TRex sends it."""

    @cached_property
    def delays(self) -> Distribution:
        """Delays of the received frames."""
        return (
            decode_histogram(self.encoded)
            if self.encoded and any(self.received.values())
            else NO_DELAYS
        )


class Capture(_Answer):
    """One capture on a port."""

    kind: str  # ``sample``, ``control``, ``marked`` or ``recording``
    port: int
    matched: int  # Frames that passed its filter
    class_number: int = Field(0, validation_alias="class")
    """Class of the marked frames that it counts."""
    frames: Sequence[tuple[float, Base64Bytes]] = ()
    """Times of arrival by the server's clock [s], and octets."""


class CounterLook(NamedTuple):
    """Frames that had left by port, between two readings of the server's clock [s after the start]."""

    before_s: float
    sent: Mapping[int, int]
    after_s: float


class TrialStats(_Answer):
    """Counters and captures of one trial."""

    ports: Mapping[int, PortStats] = {}
    groups: Mapping[int, GroupStats] = {}
    captures: Sequence[Capture] = ()
    looks: Sequence[CounterLook] = ()
    queue_full: int = Field(0, validation_alias=AliasPath("global", "queue_full"))
    """Times at which the transmit queue was full."""
    queue_drop: int = 0  # Frames that were dropped before a transmit queue
    faults: Sequence[str] = ()  # Of the ports, found by their driver
    answered: Mapping[int, int] = {}  # Neighbor frames that were sent meanwhile, by port
    ended: bool = True  # Whether traffic ended by itself
    began_ago_s: float = 0.0  # From the first frame to the worker's answer [s]
    cpu: Sequence[float] = ()  # Load of the data path [%]
    rx_cpu: Sequence[float] = ()  # Load of the receiver [%]
    events: Sequence[str] = ()
    readings: Sequence[tuple[float, Mapping[int, tuple[int, int]]]] = ()
    """Times since the first frame [s], and frames sent and received by port."""

    @model_validator(mode="before")
    @classmethod
    def _join_groups(cls, answer: Mapping[str, Any]) -> dict[str, Any]:
        groups = answer.get("groups", {})
        flows, delays = (groups.get(name, {}) for name in ("flow_stats", "latency"))
        numbers = _list_ports({**flows, **delays})
        return {
            **answer,
            "groups": {n: {**flows.get(n, {}), **delays.get(n, {})} for n in numbers},
        }

    def count_matches(
        self, kind: str, ports: Iterable[int], class_number: int | None = None
    ) -> int:
        """Count the frames that captures of a kind matched at some ports."""
        return sum(
            c.matched
            for c in self.captures
            if c.kind == kind and c.port in ports and class_number in (None, c.class_number)
        )


class StepStats(_Answer):
    """Counters of TRex's stateful engine at the end of a step."""

    counters: Mapping[str, Mapping[str, float]]
    """By side (``client`` and ``server``) and TRex's name; those that are zero may lack."""
    ports: Mapping[int, PortStats]
    looks: Sequence[CounterLook] = ()
    queue_full: int = Field(0, validation_alias=AliasPath("global", "queue_full"))
    cpu: Sequence[float] = ()
    first: int | None = None  # Units that had been counted at the first reading
    ago_s: float = 0.0  # From the first SYN to the worker's answer [s]


class PortFacts(_Answer):
    """Facts that a server reports about a port."""

    index: int
    driver: str = ""
    mac: str = Field("", validation_alias="hw_mac", serialization_alias="hw_mac")
    speed: float | None = None
    link: str | None = None
    numa: Any = None
    promiscuous: Any = Field(None, validation_alias="prom", serialization_alias="prom")
    owner: str = Field("", exclude=True)
    virtual_flag: Any = Field(None, validation_alias="is_virtual", exclude=True)
    """TRex's client says ``yes`` or ``no``, its server true or false."""

    @property
    def is_virtual(self) -> bool:
        return self.virtual_flag in (True, "yes") or self.driver in VIRTUAL_DRIVERS

    def describe(self) -> dict[str, Any]:
        return {**self.model_dump(by_alias=True), "virtual": self.is_virtual}


class ServerFacts(_Answer):
    """Facts that a server reports about itself."""

    version: Mapping[str, Any] = {}  # ``version``, ``mode`` and build as TRex reports them
    processor: str | None = Field(None, validation_alias="core_type")
    cores: int = Field(1, validation_alias="dp_core_count")  # All data path cores
    per_port: int | None = Field(None, validation_alias="dp_core_count_per_port")  # Cores
    ports: Sequence[PortFacts] = ()

    @property
    def cores_per_port(self) -> int:
        return self.per_port or self.cores

    @property
    def mode(self) -> str | None:
        """Engine of the server: ``STL`` or ``ASTF``; None: not reported."""
        return self.version.get("mode")
