"""The conformance suite: everything that a plugin is checked for, in its author's tests and ours.

A test of your own is one line::

    def test_it_conforms():
        assert_conforms(MyTechnology)

What it proves: frames are valid on both links, with VLAN on either, and as long as the plugin says;
what must be dropped is dropped; the plugin is deterministic and can be sent to other processes. What
it cannot prove: that the translation is the RFC's. Compare that with something independent.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from v6t.base.entry_points import blame
from v6t.base.errors import V6tError
from v6t.plugins.conformance.answered import answered
from v6t.plugins.conformance.asked import asked
from v6t.plugins.conformance.cases import Case, cases
from v6t.plugins.conformance.declared import declared, described, pickled
from v6t.plugins.conformance.sent import sent
from v6t.profiles.model import Role

if TYPE_CHECKING:
    from v6t.plugins.base import PluginParams, Technology

MOST = 5
"""Sentences kept of one check: the rest mostly says the same."""


@dataclass(frozen=True)
class Finding:
    """Something a plugin does wrong.

    Attributes:
        where: what was tried.
        said: one sentence.
    """

    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}"


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        checks: how many were made.
        findings: what is wrong; none: the plugin conforms.
        notes: what could not be looked at.
    """

    checks: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def check(
    kind: type[Technology], params: PluginParams | None = None, entry: str | None = None
) -> Report:
    """Check a plugin.

    Args:
        kind: its class.
        params: to check it with; its defaults otherwise.
        entry: name of the entry point it was found by.
    """
    findings: list[Finding] = []
    checks, negative = 0, False

    def look(where: str, problems: Callable[[], Iterable[str]]) -> None:
        nonlocal checks
        checks += 1
        findings.extend(
            Finding(where, problem) for problem in islice(_safely(problems, kind), MOST)
        )

    look("declaration", lambda: declared(kind))
    if entry is not None:
        look("entry point", lambda: _named(kind, entry))
    if findings:
        return Report(checks, tuple(findings))
    try:
        plugin = kind(params if params is not None else kind.params_model())
        tried = list(cases(kind, params)) if plugin.exchange == "frames" else []
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        return Report(checks, (Finding("construction", _in_words(exc, kind)),))
    look("description", lambda: described(plugin))
    if plugin.exchange == "queries":
        look("zone", lambda: asked(plugin))
        return Report(checks, tuple(findings))
    look("pickling", lambda: pickled(plugin))
    for case in tried:
        look(case.name, lambda case=case: sent(case))
        look(case.name, lambda case=case: answered(case))
        negative |= _has_negative(case)
    notes = () if negative else ("it has no traffic that must be dropped (negative_percent)",)
    return Report(checks, tuple(findings), notes)


def _named(kind: type[Technology], entry: str) -> Iterator[str]:
    if kind.name != entry:
        yield f"it is called '{kind.name}', its entry point '{entry}': users name the latter"


def assert_conforms(kind: type[Technology], params: PluginParams | None = None) -> None:
    """For tests: fail with everything that is wrong.

    Raises:
        AssertionError: one line for each finding.
    """
    findings = check(kind, params).findings
    if findings:
        raise AssertionError("\n".join(map(str, findings)))


def _has_negative(case: Case) -> bool:
    try:
        return any(c.role is Role.NEGATIVE for c in case.traffic.classes)
    except Exception:  # noqa: BLE001  (told where the traffic was looked at)
        return False


def _safely(problems: Callable[[], Iterable[str]], kind: type[Technology]) -> Iterator[str]:
    try:
        yield from problems()
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        yield _in_words(exc, kind)


def _in_words(exc: Exception, kind: type[Technology]) -> str:
    """An error in words, with the line of the plugin (the last one on the way) it came from."""
    if not isinstance(exc, V6tError):
        message = blame(exc)
        if message is not None:
            return message
        last = traceback.extract_tb(exc.__traceback__)[-1]
        return f"{type(exc).__name__}: {exc} ({last.filename}, line {last.lineno})"
    for frame, line in reversed(list(traceback.walk_tb(exc.__traceback__))):
        if _of_author(frame.f_globals.get("__name__", ""), kind.__module__):
            return f"{exc.message} ({frame.f_code.co_filename}, line {line})"
    return exc.message


def _of_author(module: str, plugin: str) -> bool:
    """Whether a module is the plugin's, or another of its package (v6t's own is everybody's)."""
    package = plugin.partition(".")[0]
    return module == plugin or (package != "v6t" and module.partition(".")[0] == package)
