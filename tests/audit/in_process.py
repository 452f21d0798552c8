"""A packet-level device as the probe of an audit, in this process and with a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from v6t.audit.clause import Clause, Frame, Subject, subject_of
from v6t.audit.packet_device.build import build_device
from v6t.audit.runner import Listening, Outcome, carry_out
from v6t.plugins.base import Technology


class DeviceProbe:
    """Hands frames to a device; time passes only in pauses."""

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
        pass


class InProcessDevice:
    """A technology's packet-level device as an audit configures it."""

    def __init__(self, technology: Technology) -> None:
        self.technology = technology

    @contextmanager
    def open(self) -> Iterator[DeviceProbe]:
        yield DeviceProbe(build_device(self.technology))

    def with_params(self, params: Mapping[str, Any]) -> InProcessDevice:
        user_params = self.technology.params.model_dump(exclude_unset=True)
        return InProcessDevice(with_params(self.technology, **{**user_params, **params}))


def outcomes(device: Any, clauses: Sequence[Clause]) -> list[Outcome]:
    """Carry out clauses with one device, one after the other."""
    probe = DeviceProbe(device)
    return [carry_out(clause, probe, Listening()) for clause in clauses]


def with_params(technology: Technology, **params: Any) -> Technology:
    """Return a technology of the same kind with other parameters."""
    return type(technology)(technology.params_model(**params))  # type: ignore[call-arg]


def configurations(technology: Technology) -> Iterator[tuple[str, Technology, Subject]]:
    """Return a technology as audits prefer it, then in its variants; names of variants come first."""
    preferred = dict(technology.audit_params())
    for variant, params in {"": {}, **technology.audit_variants()}.items():
        changed = with_params(technology, **{**preferred, **params})
        yield variant, changed, subject_of(changed)
