"""Audit the packet-level model of a technology with drawn parameters: no suite may accuse it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, get_args

from v6t.analysis.sheet import number_of
from v6t.audit.auditor import AuditProgress, AuditRequest, choose_clauses, run_audit
from v6t.audit.clause import Frame
from v6t.audit.packet_device.build import build_device
from v6t.base.errors import EnvironmentLacking, UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from pydantic.fields import FieldInfo
    from v6t.plugins.base import Technology

EXAMPLES = 5
"""Drawn sets of parameters, after the defaults."""
NEIGHBORHOOD = 8
"""Integers and addresses are drawn this close to their defaults: further away, most sets are invalid."""


class DeviceProbe:
    """Hands frames to a device in this process; time passes only in pauses."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.now_s = 0.0

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> list[Frame]:
        return [
            Frame(side, octets)
            for frame in frames
            for side, octets in self.device.receive(frame.side, frame.octets, self.now_s)
        ]

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def flush(self) -> None:
        self.device.flush()

    def reset(self) -> None:
        self.device.reset()

    def check(self) -> None:
        """Do nothing: the device cannot lose its configuration."""


class InProcessDevice:
    """The packet-level model of a technology as the device of an audit."""

    def __init__(self, technology: Technology) -> None:
        self.technology = technology

    @contextmanager
    def open(self) -> Iterator[DeviceProbe]:
        yield DeviceProbe(build_device(self.technology))

    def with_params(self, params: Mapping[str, Any]) -> InProcessDevice:
        user_params = self.technology.params.model_dump(exclude_unset=True)
        changed = self.technology.params_model(**{**user_params, **params})
        return InProcessDevice(type(self.technology)(changed, self.technology.links))


def find_accusations(technology: Technology) -> list[str]:
    """Audit the model in all configurations; describe each deviation.

    Raises:
        UsageError: no clause applies.
    """
    user_params = technology.params.model_dump(exclude_unset=True)
    device, selection = choose_clauses(InProcessDevice(technology), (), user_params)
    progress = AuditProgress()
    run_audit(device, selection, AuditRequest(), progress)
    return [f"{f.full_title}: {f.got}" for f in progress.findings if f.verdict == "deviates"]


def check_audit(kind: type[Technology]) -> tuple[list[tuple[str, str]], str]:
    """Audit the model of a technology with its defaults, then with drawn parameters.

    Returns:
        parameters and deviation of each finding; what was audited, or why nothing was.

    Raises:
        EnvironmentLacking: hypothesis is not installed.
    """
    try:
        from hypothesis import HealthCheck, Phase, given, settings
    except ImportError as exc:
        raise EnvironmentLacking(
            "hypothesis, which draws parameters for the check, is not installed",
            "pip install 'v6t[check]'",
            code="missing-package",
        ) from exc
    try:
        findings = [("default parameters", text) for text in find_accusations(kind())]
    except UsageError as exc:
        if exc.code != "no-clauses":
            raise
        return [], f"its audit was not checked: {exc.message}"

    audited = 1

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(draw_params(kind))
    def audit(params: dict[str, Any]) -> None:
        nonlocal audited
        try:
            accusations = find_accusations(kind(kind.params_model(**params)))
        except (UsageError, ValueError):
            return  # the parameters exclude one another, or all clauses
        audited += 1
        words = ", ".join(f"{name}={value}" for name, value in params.items())
        findings.extend((words, text) for text in accusations)

    if not findings:
        audit()
    return findings, f"packet-level device audited with {number_of(audited, 'set')} of parameters"


def draw_params(kind: type[Technology]) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy of parameters: one to three of a technology's, near their defaults."""
    from hypothesis import strategies as st

    # a NAT whose table is full forwards no packet of the clauses that open no session themselves
    fields = {
        name: _draw(field)
        for name, field in kind.params_model.model_fields.items()
        if not name.endswith("_limit")
    }
    drawn = {name: values for name, values in fields.items() if values is not None}
    if not drawn:
        return st.just({})
    names = st.lists(st.sampled_from(sorted(drawn)), min_size=1, max_size=3, unique=True)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: drawn[name] for name in some}))


def _draw(field: FieldInfo) -> SearchStrategy[Any] | None:
    """Return a strategy of a parameter's values; None if only its default is known to be valid."""
    from hypothesis import strategies as st

    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        low = max([default - NEIGHBORHOOD, *_limits(field, ge=0, gt=1)])
        high = min([default + NEIGHBORHOOD, *_limits(field, le=0, lt=-1)])
        return st.integers(low, high) if low <= high else None
    if isinstance(default, IPv4Address | IPv6Address):
        near = st.integers(0, NEIGHBORHOOD)
        return near.map(lambda offset: str(ip_address(int(default) + offset)))
    choices = [value for value in get_args(field.annotation) if isinstance(value, str | int)]
    return st.sampled_from(choices) if choices else None


def _limits(field: FieldInfo, **distances: int) -> Iterator[int]:
    """Return the limits of an integer, each with the distance that makes it inclusive."""
    for name, distance in distances.items():
        for constraint in field.metadata:
            limit = getattr(constraint, name, None)
            if limit is not None:
                yield limit + distance
