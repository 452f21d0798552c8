"""The record of an audit: each clause with its verdict, and the frames on which the verdict rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import Field, ValidationError
from v6t.analysis.record import Model
from v6t.audit.clause import Level, Verdict
from v6t.base.errors import UsageError

SCHEMA = "v6t-audit/2"
VERDICTS = get_args(Verdict)
LEVELS = get_args(Level)


class AuditFrame(Model):
    """One frame."""

    side: str
    """link of the frame: left or right"""
    sent: bool
    """sent by the tester rather than by the device"""
    octets: str
    """hexadecimal, without FCS"""
    number: int
    """number in the capture, from 1"""


class Finding(Model):
    """One clause."""

    clause: str
    """name, for example rfc7915-4.1-ttl-1"""
    rfc: str
    """for example RFC 7915"""
    section: str
    """of the RFC"""
    level: Level
    """of the requirement; a statement without a key word is MUST"""
    title: str
    """what the device does, in one sentence"""
    variant: str
    """further configuration of the device; empty: the audit's own"""
    verdict: Verdict
    """information: the device does not do what a MAY allows"""
    sent: str
    """description of what was sent"""
    expected: str
    """description of what the device had to send"""
    got: str
    """description of what the device sent"""
    tries: int
    """number of tries"""
    frames: Sequence[AuditFrame]
    """frames of the last try, in order"""

    @property
    def fails(self) -> bool:
        """Whether the clause fails the audit."""
        return self.verdict == "deviates"

    @property
    def full_title(self) -> str:
        """Name, title and configuration."""
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.clause}: {self.title}{variant}"


class AuditRecord(Model):
    """The audit of one device."""

    schema_: str = Field(alias="schema")
    """v6t-audit/2"""
    version: str
    """version of v6t"""
    source_commit: str | None
    """commit of the checkout, if any"""
    made: str
    """UTC, ISO 8601"""
    plugin: str
    """technology"""
    params: Mapping[str, Any]
    """all its parameters"""
    driver: str
    """driver of the device"""
    device: str
    """name and version of the device"""
    suites: Sequence[str]
    """suites of clauses"""
    seconds: float
    """duration"""
    planned: int
    """clauses of the audit; more than the findings if the audit was stopped"""
    stopped: str
    """why the audit was stopped; empty: it was not"""
    findings: Sequence[Finding]
    """tested clauses, in order"""

    def counts(self, rfc: str | None = None, level: str | None = None) -> Counter[str]:
        """Count findings by verdict, of an RFC and a level."""
        return Counter(
            f.verdict for f in self.findings if rfc in (None, f.rfc) and level in (None, f.level)
        )

    def select(self, verdict: str) -> list[Finding]:
        """Return the findings with a verdict."""
        return [f for f in self.findings if f.verdict == verdict]

    @property
    def fails(self) -> bool:
        """Whether the device deviates from a MUST or SHOULD."""
        return any(f.fails for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the values to store."""
        return self.model_dump(mode="json", by_alias=True)


def audit_from(values: Any, place: str) -> AuditRecord:
    """Return the record that a file holds.

    Raises:
        UsageError: the file holds no audit of this version.
    """
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        problem = f"{place} is not an audit of this version of v6t"
        raise UsageError(problem, "repeat the audit with `v6t audit`", code="invalid-audit")
    try:
        return AuditRecord.model_validate(values)
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        problem = f"{place} is damaged: {where}: {exc.errors()[0]['msg']}"
        raise UsageError(problem, code="invalid-audit") from exc
