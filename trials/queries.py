"""Trials of name resolution: queries and answers (RFC 8219, section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_QUERIES_PER_NAME = 2
"""Most queries of a DNS64 server for one name (RFC 8219, section 9.2.1)."""


@dataclass(frozen=True)
class Queries:
    """DNS queries that replace the frames of a trial.

    Attributes:
        cached_share: share of the names that are queried before the trial [0 to 1].
        native_aaaa_share: share of the names that have an AAAA record [0 to 1].
        timeout_s: longest time to an answer [s].
        cached_names: number of names queried before the trial, if ``cached_share`` is not 0.
        is_selftest: query the tester's own authoritative server, without a device (section 9.2.1);
            every name has an AAAA record.
    """

    cached_share: float = 0.0
    native_aaaa_share: float = 0.0
    timeout_s: float = 1.0
    cached_names: int = 1000
    is_selftest: bool = False


@dataclass(frozen=True)
class Answers:
    """Answers of a trial, and the queries of the device that they needed.

    Attributes:
        reasons: queries without a correct answer in time, by reason.
        aaaa_queries, a_queries: queries of the device for AAAA and A records.
        repeated_queries: queries for AAAA records that should have been cached.
        other_queries: other queries of the device.
        cached_names: names that were answered before the trial.
    """

    reasons: Mapping[str, int] = field(default_factory=dict)
    aaaa_queries: int = 0
    a_queries: int = 0
    repeated_queries: int = 0
    other_queries: int = 0
    cached_names: int = 0
