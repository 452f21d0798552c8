"""Technologies in the configurations of an audit, and clauses on devices in this process."""

from v6t.audit.auditor import AuditRequest, carry_out
from v6t.audit.clause import make_subject
from v6t.audit.self_check import DeviceProbe


def outcomes(device, clauses):
    """Execute clauses with one device, one after the other."""
    probe = DeviceProbe(device)
    return [carry_out(clause, probe, AuditRequest()) for clause in clauses]


def with_params(technology, **params):
    """Return a technology of the same kind with other parameters."""
    return type(technology)(technology.params_model(**params))


def configurations(technology):
    """Return a technology as audits prefer it, then in its variants; names of variants come first."""
    preferred = dict(technology.suggest_audit_params())
    for variant, params in {"": {}, **technology.list_audit_variants()}.items():
        changed = with_params(technology, **{**preferred, **params})
        yield variant, changed, make_subject(changed)
