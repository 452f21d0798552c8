"""Audit packet-level models with drawn parameters: no suite may report a deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, get_args

from v6t.analysis.sheet import pluralize
from v6t.audit.auditor import AuditProgress, AuditRequest, choose_clauses, run_audit
from v6t.audit.clause import Frame
from v6t.audit.packet_device.build import build_device
from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.intent.device import Links

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from v6t.plugins.base import Technology

EXAMPLES = 5  # drawn sets of parameters, after the defaults
MTUS = 1280, 1500, 9000  # of the links
NEIGHBORHOOD = 8  # values are drawn this close to their defaults: others are mostly invalid


class DeviceProbe:
    """Probe for a device in this process, whose time passes only in pauses."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.now_s = 0.0

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> list[Frame]:
        receive = self.device.receive
        return [Frame(*out) for f in frames for out in receive(f.side, f.octets, self.now_s)]

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def flush(self) -> None:
        self.device.flush()

    def reset(self) -> None:
        self.device.reset()

    def check(self) -> None: ...


class InProcessDevice:
    """Audited device that is the packet-level model of a technology."""

    def __init__(self, technology: Technology) -> None:
        self.technology = technology

    def open(self) -> AbstractContextManager[DeviceProbe]:
        return nullcontext(DeviceProbe(build_device(self.technology)))

    def with_params(self, params: Mapping[str, Any]) -> InProcessDevice:
        user_params = self.technology.params.model_dump(exclude_unset=True)
        changed = self.technology.params_model(**{**user_params, **params})
        return InProcessDevice(type(self.technology)(changed, self.technology.links))


def find_deviations(technology: Technology) -> list[str]:
    """Audit the model in all variants; return a description of each deviation, or raise UsageError."""
    user_params = technology.params.model_dump(exclude_unset=True)
    device, selection = choose_clauses(InProcessDevice(technology), (), user_params)
    progress = AuditProgress()
    run_audit(device, selection, AuditRequest(), progress)
    return [f"{f.full_title}: {f.got}" for f in progress.findings if f.verdict == "deviates"]


def set_mtus(links: Links, left: int, right: int) -> Links:
    """Return the links with other MTUs."""
    near = links.left.model_copy(update={"mtu": left})
    return Links(near, links.right.model_copy(update={"mtu": right}))


def check_audit(kind: type[Technology]) -> tuple[list[tuple[str, str]], str]:
    """Audit the model with default and random parameters; return the deviations and what was audited."""
    try:
        from hypothesis import Phase, given, settings
        from hypothesis import strategies as st
    except ImportError as exc:
        fix, code = "pip install 'v6t[check]'", "missing-package"
        raise EnvironmentLacking("hypothesis is not installed", fix, code=code) from exc
    try:
        findings = [("default parameters", text) for text in find_deviations(kind())]
    except UsageError as exc:
        if exc.code != "no-clauses":
            raise
        return [], f"its audit was not checked: {exc.message}"

    audited = 1

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(draw_params(kind), st.sampled_from(MTUS), st.sampled_from(MTUS))
    def audit(params: dict[str, Any], left_mtu: int, right_mtu: int) -> None:
        nonlocal audited
        values = {**params, "left MTU": left_mtu, "right MTU": right_mtu}
        words = ", ".join(f"{name}={value}" for name, value in values.items())
        with suppress(UsageError, ValueError):  # the parameters exclude one another, or all clauses
            links = set_mtus(kind().links, left_mtu, right_mtu)
            deviations = find_deviations(kind(kind.params_model(**params), links))
            audited += 1
            findings.extend((words, text) for text in deviations)

    if not findings:
        audit()
    return findings, f"packet-level device audited with {pluralize(audited, 'set')} of parameters"


def draw_params(kind: type[Technology]) -> SearchStrategy[dict[str, Any]]:
    """Return a Hypothesis strategy that draws one to three non-default parameters of a technology."""
    from hypothesis import strategies as st

    candidates: dict[str, list[Any]] = {}
    for name, field in kind.params_model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        for value in _list_candidates(default, field.annotation):
            with suppress(UsageError, ValueError):
                kind.params_model(**{name: value})
                candidates.setdefault(name, []).append(value)
    if not candidates:
        return st.just({})
    strategies = {name: st.sampled_from(values) for name, values in candidates.items()}
    names = st.lists(st.sampled_from(sorted(candidates)), min_size=1, max_size=3, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({n: strategies[n] for n in some}))


def _list_candidates(default: Any, annotation: Any) -> Sequence[Any]:
    """Return candidate values for a parameter; none if only its default is known to be valid."""
    if isinstance(default, bool):
        return [False, True]
    if isinstance(default, int):
        return range(default - NEIGHBORHOOD, default + NEIGHBORHOOD + 1)
    if isinstance(default, IPv4Address | IPv6Address):
        return [str(default + offset) for offset in range(NEIGHBORHOOD + 1)]
    return [value for value in get_args(annotation) if isinstance(value, str | int)]
