"""The record of an audit: each clause with its judgement, and the frames it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError
from v6t.analysis.records.base import Model
from v6t.base.errors import UsageError

SCHEMA = "v6t-audit/1"
CONFORMS, DEVIATES, UNTOLD = "conforms", "deviates", "cannot be told"
VERDICTS = (CONFORMS, DEVIATES, UNTOLD)
LEVELS = ("MUST", "SHOULD", "MAY")
GRAVE = ("MUST", "SHOULD")
"""Levels at which a deviation fails an audit."""


class FrameSeen(Model):
    """One frame."""

    side: str
    """link it was sent or received on: left or right"""
    sent: bool
    """by the tester; else by the device"""
    octets: str
    """hexadecimal, FCS off"""
    number: int
    """in the capture, from 1"""


class Finding(Model):
    """One clause."""

    clause: str
    """its name"""
    rfc: str
    """for example RFC 7915"""
    section: str
    """of the RFC"""
    level: Literal["MUST", "SHOULD", "MAY"]
    """of the demand; what is prescribed without a key word is MUST"""
    title: str
    """what a device does, in a sentence"""
    variant: str
    """configuration other than the audit's own, in words; empty: none"""
    verdict: Literal["conforms", "deviates", "cannot be told"]
    """whether the device does it"""
    sent: str
    """what was sent, in words"""
    expected: str
    """what had to come, in words"""
    got: str
    """what came, in words"""
    tries: int
    """how often it was tried"""
    frames: Sequence[FrameSeen]
    """of the last try, in order"""

    @property
    def fails(self) -> bool:
        """Whether the audit fails by it."""
        return self.verdict == DEVIATES and self.level in GRAVE


class Audit(Model):
    """One device, all clauses."""

    schema_: str = Field(alias="schema")
    """v6t-audit/1"""
    version: str
    """of v6t"""
    source_commit: str | None
    """of a checkout it was run from"""
    made: str
    """UTC, ISO 8601"""
    plugin: str
    """technology"""
    params: Mapping[str, Any]
    """all its parameters"""
    driver: str
    """of the device"""
    device: str
    """what the device says it is"""
    suites: Sequence[str]
    """that were asked"""
    seconds: float
    """how long it took"""
    findings: Sequence[Finding]
    """in the order they were asked"""

    def counts(self, rfc: str | None = None, level: str | None = None) -> Counter[str]:
        """Findings by verdict, of an RFC and a level."""
        return Counter(
            f.verdict for f in self.findings if rfc in (None, f.rfc) and level in (None, f.level)
        )

    def of(self, *verdicts: str) -> list[Finding]:
        """Findings with one of these verdicts."""
        return [f for f in self.findings if f.verdict in verdicts]

    @property
    def fails(self) -> bool:
        """Whether a MUST or SHOULD is not followed."""
        return any(f.fails for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return self.model_dump(mode="json", by_alias=True)


def audit_from(values: Any, place: str) -> Audit:
    """What was written.

    Raises:
        UsageError: it is no audit.
    """
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise UsageError(f"{place} is not an audit of a supported version", code="invalid-audit")
    try:
        return Audit.model_validate(values)
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        raise UsageError(
            f"{place} is damaged: {where}: {exc.errors()[0]['msg']}", code="invalid-audit"
        ) from exc
