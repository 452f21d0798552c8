"""Blocks of a report document, independent of the medium."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from v6t.analysis.sheet import Table

Tone = Literal["plain", "good", "warning", "bad"]  # sets the colour of a text


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text, marked by its tone."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class BulletList:
    """A bulleted list of sentences."""

    items: Sequence[str]
    tone: Tone = "plain"


@dataclass(frozen=True)
class FactTable:
    """A table of two columns: names and values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Drawing:
    """A figure: an ``<svg>`` element, the caption below it, and a description for screen readers."""

    svg: str
    caption: str
    description: str


@dataclass(frozen=True)
class CodeListing:
    """Preformatted text."""

    text: str


@dataclass(frozen=True)
class LinkList:
    """References to other files: texts and paths."""

    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class CardList:
    """Results in large type: number, unit and description of each."""

    cards: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class FactColumns:
    """Facts with headings, side by side where there is room."""

    columns: Sequence[tuple[str, FactTable]]


@dataclass(frozen=True)
class Collapsible:
    """Blocks under a summary line that the reader can fold."""

    summary: str
    blocks: Sequence[Block]
    brief: bool = False  # whether the blocks are short enough to be printed on paper
    shown: bool = False  # whether the blocks are unfolded at first


Block: TypeAlias = "Paragraph | BulletList | FactTable | CardList | FactColumns | Drawing | CodeListing | LinkList | Collapsible | Table"  # noqa: E501


def walk(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, with those in a :class:`Collapsible` in its place."""
    for block in blocks:
        if isinstance(block, Collapsible):
            yield from walk(block.blocks)
        else:
            yield block


@dataclass(frozen=True)
class ReportSection:
    """A section of a report."""

    title: str
    anchor: str  # ASCII letters, digits and hyphens
    blocks: Sequence[Block]


@dataclass(frozen=True)
class ReportDocument:
    """A report: title, subtitle and sections."""

    title: str
    subtitle: str
    sections: Sequence[ReportSection] = ()


class FigureBudget:
    """Number of figures that a report, or a part of it, may still draw; None means unlimited."""

    def __init__(self, most: int | None, parent: FigureBudget | None = None) -> None:
        self.most = self.left = most
        self._parent = parent

    def take(self, drawings: Iterator[Drawing]) -> Iterator[Drawing]:
        """Yield figures until the budget is used up; those beyond it are never drawn."""
        for drawing in islice(drawings, self.left):
            for budget in (self, self._parent):
                if budget is not None and budget.left is not None:
                    budget.left -= 1
            yield drawing

    def divide(self, parts: int) -> FigureBudget:
        """Return the budget of the next part, where several ``parts`` remain."""
        return FigureBudget(None if self.left is None else -(-self.left // parts), self)
