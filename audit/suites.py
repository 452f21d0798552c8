"""Choose suites of clauses, by name or by the views of a technology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from v6t.audit.clause import Clause, Subject, Suite, subject_of
from v6t.base.entry_points import Extensions
from v6t.base.errors import ExtensionError, UsageError

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

SUITES: Extensions[Suite] = Extensions("v6t.audits", "v6t.audit.clause:Suite", "suite")
names = SUITES.names
_LISTING = "`v6t audit --plugin NAME --list` prints the clauses of a technology"


@dataclass(frozen=True)
class Selection:
    """The clauses for a device.

    Attributes:
        suites: that apply.
        clauses: for the audit's own configuration.
        unmet: what the parameters lack for further suites, and what to set.
    """

    suites: tuple[Suite, ...]
    clauses: tuple[Clause, ...]
    unmet: tuple[tuple[str, str], ...] = ()

    def variant_clauses(self, subject: Subject, variant: str) -> list[Clause]:
        """Return the clauses of all suites for a further configuration."""
        return [c for suite in self.suites for c in suite.variant_clauses(subject, variant)]


def load_suites(wanted: Sequence[str]) -> list[Suite]:
    """Load suites by name, or all if no name is given.

    Raises:
        UsageError: a name is unknown.
    """
    return [SUITES.load(name)() for name in (wanted or names())]


def select_clauses(
    suites: Sequence[Suite], technology: Technology, advice: str = _LISTING
) -> Selection:
    """Return the clauses of the suites that apply.

    Args:
        suites: candidates.
        technology: of the device.
        advice: hint if none applies.

    Raises:
        UsageError: none applies.
        ExtensionError: two clauses have the same name.
    """
    subject = subject_of(technology)
    by_suite = [(suite, tuple(suite.clauses(subject))) for suite in suites]
    applying = tuple(suite for suite, clauses in by_suite if clauses)
    unmet = [lack for suite in suites if (lack := suite.requirement(subject))]
    if not applying and unmet:
        problem, fix = unmet[0]
        raise UsageError(
            f"no clause applies to {technology.name} with these parameters: {problem}",
            fix if advice == _LISTING else f"{fix}; or {advice}",
            code="no-clauses",
        )
    if not applying:
        tried = ", ".join(suite.name for suite in suites)
        raise UsageError(
            f"no clauses exist for {technology.name} ({tried})", advice, code="no-clauses"
        )
    clauses = tuple(clause for _, some in by_suite for clause in some)
    seen: set[str] = set()
    for clause in clauses:
        if clause.name in seen:
            raise ExtensionError(f"two clauses have the name '{clause.name}'", code="duplicate")
        seen.add(clause.name)
    return Selection(applying, clauses, tuple(unmet))


def core_clauses(technology: Technology) -> list[Clause]:
    """Return the few clauses that a run checks before its first trial.

    Raises:
        UsageError: the technology has none.
    """
    advice = "leave out --audit"
    selection = select_clauses(load_suites(()), technology, advice)
    ends = tuple(end for suite in selection.suites for end in suite.core)
    clauses = [clause for clause in selection.clauses if clause.name.endswith(ends)]
    if not clauses:
        raise UsageError(
            f"{technology.name} has no clauses that are checked before a run",
            advice,
            code="no-clauses",
        )
    return clauses


def find_uncovered_rfcs(technology: Technology, selection: Selection) -> list[str]:
    """Return the RFCs of a technology that no clause of its audit cites."""
    covered = {clause.rfc for clause in selection.clauses}
    cited = dict.fromkeys(" ".join(text.split()[:2]) for text in technology.rfcs)
    return [rfc for rfc in cited if rfc not in covered]
