"""What a trial of name resolution asks, and what came of it (RFC 8219 section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Queries:
    """Names asked in place of frames forwarded: one query for each frame of the trial.

    Attributes:
        cached: share of the queries whose name was asked before the trial [0 to 1].
        own_aaaa: share of the names that have an AAAA record of their own [0 to 1].
        timeout_s: an answer that takes longer is none [s].
        cached_names: how many names are asked beforehand, where some are to be cached.
        alone: the self-test of section 9.2.1: there is no device, the tester's authoritative server
            is asked directly, and every name has an AAAA record.
    """

    cached: float = 0.0
    own_aaaa: float = 0.0
    timeout_s: float = 1.0
    cached_names: int = 1000
    alone: bool = False


@dataclass(frozen=True)
class Answers:
    """Answers of a trial, and what the device asked for them.

    Attributes:
        reasons: how many queries were not answered rightly in time, by what was wrong.
        aaaa, a: questions to the authoritative server for records of a name.
        repeated: such for AAAA records of names that should have been in the cache.
        other: other questions.
        cached_names: names that were answered before the trial.
    """

    reasons: Mapping[str, int] = field(default_factory=dict)
    aaaa: int = 0
    a: int = 0
    repeated: int = 0
    other: int = 0
    cached_names: int = 0

    def to_json(self) -> dict[str, Any]:
        """JSON-like values."""
        return asdict(self)
