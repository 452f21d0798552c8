"""Suites of clauses by name, found through the entry point group ``v6t.clauses``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import Extensions
from v6t.base.errors import ExtensionError, UsageError

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.clauses.base import Clause, Suite

SUITES: Extensions[Suite] = Extensions("v6t.clauses", "v6t.plugins.clauses.base:Suite", "suite")
names = SUITES.names
_KNOWN = (
    "clauses are of translators, relays of MAP and lw4o6, AFTRs and NATs of IPv4 servers: "
    "`v6t audit --plugin NAME --list`"
)


@dataclass(frozen=True)
class Asked:
    """What is asked of a device.

    Attributes:
        suites: that have something to say.
        clauses: of the configuration that was given.
        unmet: what the parameters lack for further suites, and what to set.
    """

    suites: tuple[Suite, ...]
    clauses: tuple[Clause, ...]
    unmet: tuple[tuple[str, str], ...] = ()

    def variants(self, technology: Technology) -> Iterator[tuple[Suite, str, Mapping[str, Any]]]:
        """Further configurations, each with the suite that wants it."""
        for suite in self.suites:
            for words, params in suite.variants(technology):
                yield suite, words, params


def chosen(wanted: Sequence[str]) -> list[Suite]:
    """Suites by name; none named: all that can be loaded.

    Raises:
        UsageError: there is none of a name.
    """
    return [SUITES.load(name)() for name in (wanted or names())]


def preferred(suites: Sequence[Suite], technology: Technology) -> dict[str, Any]:
    """Parameters that suites want of a technology where the user named none."""
    return {k: v for suite in suites for k, v in suite.preferred(technology).items()}


def core(technology: Technology) -> list[Clause]:
    """The few clauses without which nothing need be measured.

    Raises:
        UsageError: there are none for this technology.
    """
    advice = "leave out --audit"
    selection = asked(chosen(()), technology, advice)
    ends = tuple(end for suite in selection.suites for end in suite.core)
    clauses = [clause for clause in selection.clauses if clause.name.endswith(ends)]
    if not clauses:
        raise UsageError(f"no clause of {technology.name} is asked before a run", advice)
    return clauses


def asked(suites: Sequence[Suite], technology: Technology, advice: str = _KNOWN) -> Asked:
    """Clauses of the suites that apply.

    Args:
        suites: some.
        technology: what the device is.
        advice: what to do where none applies.

    Raises:
        UsageError: none does.
        ExtensionError: two clauses have one name.
    """
    by_suite = [(suite, tuple(suite.clauses(technology))) for suite in suites]
    applying = tuple(suite for suite, clauses in by_suite if clauses)
    unmet = [found for suite in suites if (found := suite.unmet(technology))]
    if not applying and unmet:
        problem, fix = unmet[0]
        raise UsageError(
            f"no clause applies to {technology.name} with these parameters: {problem}",
            fix if advice == _KNOWN else f"{fix}; or {advice}",
        )
    if not applying:
        names = ", ".join(suite.name for suite in suites)
        raise UsageError(f"no clause is known for {technology.name} ({names})", advice)
    clauses = tuple(clause for _, some in by_suite for clause in some)
    names_ = [clause.name for clause in clauses]
    twice = next((n for n in names_ if names_.count(n) > 1), None)
    if twice is not None:
        raise ExtensionError(f"two clauses are called '{twice}'")
    return Asked(applying, clauses, tuple(unmet))
