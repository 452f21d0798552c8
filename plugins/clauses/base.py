"""A clause: what one sentence of an RFC asks of a device, the frames that ask it, and the judgement.

A clause never sends. Its exchange is a generator: it yields what to send and is given what came back, as
often as it likes, and returns its judgement. Who sends, waits and captures is not known here.

Suites are added under the entry point group ``v6t.clauses``; each is asked whether it has anything to say
about a technology.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

Level = Literal["MUST", "SHOULD", "MAY"]
"""What an RFC prescribes without a key word counts as MUST."""
Verdict = Literal["conforms", "deviates", "cannot be told"]
SideName = Literal["left", "right"]


@dataclass(frozen=True)
class Frame:
    """A frame on one of the two links, FCS off."""

    side: SideName
    octets: bytes


@dataclass(frozen=True)
class Send:
    """Frames to send, one after the other, and how long to listen for what comes of them.

    Attributes:
        frames: in this order.
        pause_s: wait so long before.
        patience: so many times the usual time is waited where nothing comes.
        stillness: so many times the usual time is waited after the last frame that came.
        listen_s: listen so long whatever comes; 0: the usual time.
        first: done to the device before: its connections emptied, or its configuration taken away
            and made again.
    """

    frames: Sequence[Frame]
    pause_s: float = 0.0
    patience: float = 1.0
    stillness: float = 1.0
    listen_s: float = 0.0
    first: Literal["", "flush", "configure"] = ""


class CannotBeDone(Exception):
    """The device cannot be asked so, in words: nothing can be told."""


@dataclass(frozen=True)
class Judgement:
    """What is said of a clause.

    Attributes:
        verdict: of it.
        expected: what had to come, in words.
        got: what came, in words.
        ended: the device seems to be dead by it: nothing passes any more that did before.
    """

    verdict: Verdict
    expected: str
    got: str
    ended: bool = False


Exchange: TypeAlias = Generator[Send, "Sequence[Frame]", Judgement]
"""Yields what to send, is sent what arrived until the time was over, returns the judgement."""


@dataclass(frozen=True)
class Clause:
    """One demand on a device.

    Attributes:
        name: short and unique, for example ``rfc7915-4.1-ttl``.
        rfc: for example ``RFC 7915``.
        section: of it.
        level: of the demand.
        title: what the device does, in a sentence.
        exchange: a new one each time it is tried.
        rare: what the device sends may be limited in rate (ICMP errors): silence is tried again.
        lasts_s: what it waits for, where that is much (timers).
    """

    name: str
    rfc: str
    section: str
    level: Level
    title: str
    exchange: Callable[[], Exchange]
    rare: bool = False
    lasts_s: float = 0.0


class Suite(ABC):
    """Clauses of one subject. Entry point group ``v6t.clauses``."""

    name: ClassVar[str]
    """On the command line."""
    title: ClassVar[str]
    """One line."""
    core: ClassVar[tuple[str, ...]] = ()
    """Ends of names of the few clauses without which nothing need be measured."""

    @abstractmethod
    def clauses(self, technology: Technology) -> Iterable[Clause]:
        """What is asked of a device that is this technology; nothing where the suite does not apply."""

    def unmet(self, technology: Technology) -> tuple[str, str] | None:
        """Return what these parameters lack for the suite and what to set, or None if nothing lacks.

        None also for technologies that the suite is not about.
        """
        del technology
        return None

    def preferred(self, technology: Technology) -> Mapping[str, Any]:
        """Parameters the suite wants where the user named none."""
        del technology
        return {}

    def variants(self, technology: Technology) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Further configurations that the suite wants devices of: a word for each, and parameters.

        In those only :meth:`varied` is asked.
        """
        del technology
        yield from ()

    def varied(self, technology: Technology, variant: str) -> Iterable[Clause]:
        """What is asked of a device in one of the further configurations."""
        del technology, variant
        return ()


def clause(
    rfc: str,
    section: str,
    name: str,
    level: Level,
    title: str,
    exchange: Callable[[], Exchange],
    *,
    rare: bool = False,
    lasts_s: float = 0.0,
) -> Clause:
    """A clause whose name begins with its place."""
    full = f"{rfc.lower().replace(' ', '')}-{section}-{name}"
    return Clause(full, rfc, section, level, title, exchange, rare, lasts_s)


def conforms(expected: str, got: str = "as expected") -> Judgement:
    """It does."""
    return Judgement("conforms", expected, got)


def deviates(expected: str, got: str, *, ended: bool = False) -> Judgement:
    """It does not."""
    return Judgement("deviates", expected, got, ended)


def untold(expected: str, got: str) -> Judgement:
    """It cannot be told."""
    return Judgement("cannot be told", expected, got)
