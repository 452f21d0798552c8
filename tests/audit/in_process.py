"""Execute audit clauses on packet-level devices, in the configurations of an audit."""

from v6t.audit.auditor import AuditRequest, carry_out
from v6t.audit.clause import make_subject
from v6t.audit.self_check import DeviceProbe


def execute_clauses(device, clauses):
    probe = DeviceProbe(device)
    return [carry_out(clause, probe, AuditRequest()) for clause in clauses]


def with_params(technology, **params):
    return type(technology)(technology.params_model(**params))


def list_configurations(technology):
    """Yield the name, technology and subject of the preferred configuration and of each variant."""
    preferred = dict(technology.suggest_audit_params())
    for variant, params in {"": {}, **technology.list_audit_variants()}.items():
        changed = with_params(technology, **{**preferred, **params})
        yield variant, changed, make_subject(changed)
