"""Clauses of RFCs, suites of them, and what a clause needs of a device under test.

A clause never sends. Its steps are a generator that yields :class:`Send` and receives the frames that the
device sent, until it returns a :class:`Judgement`; :mod:`v6t.audit.auditor` sends, listens and retries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from v6t.audit.packets import Wire
    from v6t.plugins.audit_views import Address, AuditView, SideName
    from v6t.plugins.base import Technology

Level = Literal["MUST", "SHOULD", "MAY"]  # A statement of an RFC without a key word counts as MUST
# information: the device does not follow a MAY
Verdict = Literal["conforms", "deviates", "not testable", "information"]
SIDES: tuple[SideName, SideName] = ("left", "right")
View = TypeVar("View", bound="AuditView")
T = TypeVar("T")


def flip_side(side: SideName) -> SideName:
    """Return the opposite side of the device."""
    return "right" if side == "left" else "left"


class Frame(NamedTuple):
    """An Ethernet frame without FCS on one of the two links."""

    side: SideName
    octets: bytes


Requirement: TypeAlias = tuple[str, str] | None  # what the parameters lack, and what to set
Turn: TypeAlias = tuple[Sequence[Frame], Sequence[Frame]]  # sent and received


class Send(NamedTuple):
    """Frames to send in order, and the time to wait for the device's frames."""

    frames: Sequence[Frame]
    before: Literal["", "flush", "reset"] = ""  # empty its connections, or configure it again
    pause_s: float = 0.0  # before sending
    listen_s: float = 0.0  # exactly this time; 0: the usual time


class Judgement(NamedTuple):
    """The verdict on a clause, with the expected and the actual frames of the device."""

    verdict: Verdict
    expected: str
    got: str
    dead: bool = False  # no plain packet passes any more: configure the device again


Talk: TypeAlias = Generator[Send, Sequence[Frame], T]
Steps: TypeAlias = Talk[Judgement]


@dataclass(frozen=True)
class Clause:
    """One requirement of an RFC; if no plain packet passes, no other clause is tried."""

    rfc: str  # for example ``RFC 7915``
    section: str
    label: str  # short and unique within the section
    level: Level
    title: str  # what the device does, in one sentence
    steps: Callable[[], Steps] = field(compare=False, repr=False)  # starts a new exchange
    rate_limited: bool = False  # as ICMP errors are: a missing answer is retried after a pause
    lasts_s: float = 0.0  # time that the clause waits for timers
    plain: bool = False  # sends the simplest packet

    @property
    def name(self) -> str:
        """Identifier, for example ``rfc7915-4.1-ttl``."""
        return f"{self.rfc.lower().replace(' ', '')}-{self.section}-{self.label}"


@dataclass(frozen=True)
class Subject:
    """The technology that is audited, as suites see it; ``neighbors`` are the tester's addresses."""

    wire: Wire
    views: tuple[AuditView, ...]
    neighbors: Mapping[SideName, tuple[Address, ...]]

    def find(self, view: type[View]) -> View | None:
        return next((v for v in self.views if isinstance(v, view)), None)


def make_subject(technology: Technology) -> Subject:
    """Return the subject of an audit of this technology."""
    from v6t.audit.packets import Wire

    intent = technology.make_dut_intent()
    neighbors = {side: tuple(getattr(intent, side).neighbors) for side in SIDES}
    return Subject(Wire(technology.links), tuple(technology.list_audit_views()), neighbors)


class Suite(ABC):
    """Clauses of one subject (entry point group ``v6t.audits``)."""

    name: ClassVar[str]
    core: ClassVar[tuple[str, ...]] = ()  # ends of names of clauses that a run checks first

    @abstractmethod
    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        """Return the clauses for a device in the audit's own configuration or a variant's; perhaps none."""

    def find_requirement(self, subject: Subject) -> Requirement:
        """Return the requirement of the suite that the parameters do not meet, or None."""
        return None


class ProbeUnable(Exception):
    """The device cannot be flushed or configured again; the clause is not testable."""


class Probe(Protocol):
    """A configured device with a prober at both links."""

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> Sequence[Frame]:
        """Send frames and return the device's; see :meth:`v6t.drivers.prober.Prober.exchange`."""

    def pause(self, seconds: float) -> None: ...

    def flush(self) -> None:
        """Empty the device's connection table, or raise :class:`ProbeUnable`."""

    def reset(self) -> None:
        """Remove the configuration and apply it again.

        Raises:
            ProbeUnable: this device cannot be reset.
            DutError: its configuration failed, so the audit must end.
        """

    def check(self) -> None:
        """Raise :class:`v6t.base.errors.DutError` if the device may have lost its configuration."""
