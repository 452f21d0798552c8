"""What a modifier is: it goes on beside the test traffic, with any benchmark (RFC 2544 section 11)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from v6t.profiles.extensions import Extensions
from v6t.profiles.intent import Links
from v6t.profiles.model import Traffic


class Modifier(ABC):
    """One condition; a run has one of them at most, because they are measured separately."""

    name: ClassVar[str]
    """On the command line, for example ``broadcast``."""
    source: ClassVar[str]
    """The section that asks for it."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What goes on, as it stands beside every number."""

    @abstractmethod
    def traffic(self, traffic: Traffic, links: Links) -> Traffic:
        """The traffic of one direction with what the modifier sends.

        Args:
            traffic: of the technology, or a benchmark's variant of it.
            links: both cables.
        """


MODIFIERS: Extensions[Modifier] = Extensions(
    "v6t.modifiers", "v6t.core.modifiers.base:Modifier", "modifier"
)
