"""Technologies in the configurations of an audit, and clauses on devices in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from v6t.audit.auditor import AuditRequest, ClauseOutcome, carry_out
from v6t.audit.clause import Clause, Subject, subject_of
from v6t.audit.self_check import DeviceProbe
from v6t.plugins.base import Technology


def outcomes(device: Any, clauses: Sequence[Clause]) -> list[ClauseOutcome]:
    """Carry out clauses with one device, one after the other."""
    probe = DeviceProbe(device)
    return [carry_out(clause, probe, AuditRequest()) for clause in clauses]


def with_params(technology: Technology, **params: Any) -> Technology:
    """Return a technology of the same kind with other parameters."""
    return type(technology)(technology.params_model(**params))  # type: ignore[call-arg]


def configurations(technology: Technology) -> Iterator[tuple[str, Technology, Subject]]:
    """Return a technology as audits prefer it, then in its variants; names of variants come first."""
    preferred = dict(technology.audit_params())
    for variant, params in {"": {}, **technology.audit_variants()}.items():
        changed = with_params(technology, **{**preferred, **params})
        yield variant, changed, subject_of(changed)
