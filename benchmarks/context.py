"""Protocols for the parts of a run that benchmarks use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from v6t.benchmarks.settings import ProcedureSettings
from v6t.intent.device import Links
from v6t.packets.direction import Direction
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Exchange, FramePair, Traffic
from v6t.trials.tcp import Tcp
from v6t.trials.trial import Capability, Mode


class TechnologyClass(Protocol):
    """A technology without parameters."""

    @property
    def stateful(self) -> bool: ...
    @property
    def exchange(self) -> Exchange: ...
    @property
    def varying_params(self) -> Mapping[str, Any]: ...


class MeasuredTechnology(Protocol):
    """A technology with its parameters and links."""

    name: ClassVar[str]
    overhead: ClassVar[int]

    @property
    def params(self) -> Any: ...
    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]: ...
    @property
    def combinations(self) -> int: ...
    def make_sizes(self, frame_size: int | str) -> Sizes: ...
    @property
    def links(self) -> Links: ...
    def make_frame_pair(self, ipv6_frame_size: int) -> FramePair: ...
    def build_sized_traffic(self, direction: Direction, sizes: Sizes) -> Traffic: ...


class MeasuredDevice(Protocol):
    """The driver of the device under test."""

    is_cable: ClassVar[bool]

    @property
    def hooks(self) -> Mapping[str, Any]: ...


class MeasuringTester(Protocol):
    """Abilities of the kind of tester; see :class:`v6t.drivers.tester_kind.TesterKind`."""

    simulates: ClassVar[bool]
    sending_error_s: ClassVar[float]
    overhead_s: ClassVar[float]
    usual_retries: ClassVar[float]
    usual_cps: ClassVar[float]
    stamps: ClassVar[str]
    delay_error: ClassVar[str]

    def describe_counting(
        self, needs: frozenset[Capability], mode: Mode, most_fps: float
    ) -> str: ...
    def check_tcp_connections(
        self, technology: object, most: int, tcp: Tcp, alpha: float | None
    ) -> Iterator[str]: ...


class RunSettings(Protocol):
    """Settings of a run."""

    @property
    def benchmarks(self) -> Sequence[str]: ...
    @property
    def modes(self) -> Sequence[Mode]: ...
    @property
    def frame_sizes(self) -> Sequence[int | str]: ...
    @property
    def line_rate_bps(self) -> float: ...
    @property
    def connects(self) -> bool: ...
    @property
    def procedure(self) -> ProcedureSettings: ...


class RunContext(Protocol):
    """A run with its technology, device and tester."""

    @property
    def settings(self) -> RunSettings: ...
    @property
    def technology(self) -> MeasuredTechnology: ...
    @property
    def driver(self) -> MeasuredDevice: ...
    @property
    def tester(self) -> MeasuringTester: ...
    @property
    def has_driver(self) -> bool: ...
    @property
    def measures_tester(self) -> bool: ...
    @property
    def search_share(self) -> float: ...
    @property
    def flush_description(self) -> str: ...
    def describe_live_change(self) -> str: ...
