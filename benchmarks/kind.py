"""What is known of a benchmark before there is a run: its name, its turn, what it can be told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from v6t.analysis.presentation import Presentation
from v6t.analysis.record import Record
from v6t.base.strict_model import StrictModel
from v6t.profiles.model import Exchange
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import TechnologyClass

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=StrictModel)


class Phase(IntEnum):
    """When a benchmark has its turn at a frame size."""

    CONNECTIONS = 0
    """Once, before anything that needs connections."""
    STREAMS = 1
    """In each mode, with the run's own traffic."""
    TABLE = 2
    """Once, when the table of connections may be lost."""
    VARIANTS = 3
    """In each mode, with variants of the traffic in place of the run's own."""
    QUERIES = 4
    """Once: names are resolved, no frame is forwarded."""
    TCP = 5
    """Once in a run: connections of TCP, whose segments have sizes of their own."""

    @property
    def directed(self) -> bool:
        """Measured in each mode; else once for a frame size, in no direction."""
        return self in (Phase.STREAMS, Phase.VARIANTS)

    @property
    def sized(self) -> bool:
        """Measured at each of the run's frame sizes."""
        return self is not Phase.TCP


class BenchmarkKind(Presentation[R], Generic[R, S]):
    """A benchmark as it is listed.

    Attributes:
        summary: one sentence on what it finds out.
        phase, order: when it has its turn: those of a phase by their order.
        connections: whether it is measured of stateful devices: ``only``, ``also`` or ``never``.
        section: the key of its settings below ``procedure``; None: it has none of its own.
        model: of these settings.
        further: settings it shares with others, by their key below ``procedure``.
        quick: what the preset ``quick`` makes of their defaults, which are those of ``rfc``.
        heeds: settings of ``procedure`` that are for certain benchmarks only, and for this one.
        capabilities: what the tester must be able to do beyond counting.
        fills_table: its trials have ``connections.count`` connections where there are any.
        incremental: it can be measured while flows begin one after the other (RFC 8219 section 10.2.2).
        exchange: of the technologies it is for.
        one_size: it counts connections: a mix of frame sizes means nothing to it.
        reconfigures: its trials change the device while traffic goes on.
        alone: it cannot stand beside others in one run.
        searches: it offers what device or tester may not carry; trials that the tester spoils are made again.
        in_all: ``--measure all`` means it, too; not what has a run of its own or asks for a setting.
    """

    summary: ClassVar[str]
    phase: ClassVar[Phase] = Phase.STREAMS
    order: ClassVar[int] = 500
    connections: ClassVar[Literal["only", "also", "never"]] = "never"
    section: ClassVar[str | None] = None
    model: type[S] | None = None
    quick: S | None = None
    further: ClassVar[Mapping[str, type[StrictModel]]] = {}
    heeds: ClassVar[frozenset[str]] = frozenset()
    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    exchange: ClassVar[Exchange] = "frames"
    fills_table: ClassVar[bool] = True
    incremental: ClassVar[bool] = False
    one_size: ClassVar[bool] = False
    reconfigures: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    in_all: ClassVar[bool] = True

    @property
    def csv_file(self) -> str:
        """Where its rows stand in a run directory."""
        return f"{self.name}.csv"

    @classmethod
    def sections(cls) -> dict[str, type[StrictModel]]:
        """All its settings by their key below ``procedure``."""
        own: dict[str, Any] = {cls.section: cls.model} if cls.section and cls.model else {}
        return {**own, **cls.further}

    def lacks(self) -> tuple[str, str] | None:
        """What it needs of this machine and does not find, with a hint; None: nothing."""
        return None

    def parameters(self, plugin: TechnologyClass) -> Mapping[str, Any]:
        """Parameters of a technology that it wants where the user says nothing else."""
        del plugin
        return {}
