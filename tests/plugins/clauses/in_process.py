"""An audit of a device in this process: the command's own function, without interfaces, processes or a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from v6t.core.audit import auditing
from v6t.core.audit.auditing import Wanted, audit
from v6t.core.config.bound import BoundRun, bind
from v6t.core.config.resolve import Flags, resolve
from v6t.plugins.base import Technology
from v6t.plugins.clauses.base import Frame, Send
from v6t.plugins.clauses.nat_ends import nat
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44
from v6t.plugins.nat.nat64 import Nat64
from v6t.tests.plugins.clauses.nat_device import NatDevice
from v6t.tests.plugins.clauses.nat_fronts import AftrDevice, Nat64Device

DRIVERS = {"nat44": "nftables", "nat64": "jool", "dslite-aftr": "chain"}
"""Drivers of technologies without a reference device; none of them configures anything here."""


class InProcessDevice:
    """Hands the frames of an audit to a device object and returns what that emits."""

    about = "in this process"

    def __init__(self, device: Any) -> None:
        self._device = device

    def carry(self, send: Send) -> Sequence[Frame]:
        before = getattr(self._device, "before", None)
        if before is not None:
            before(send)
        return [
            Frame(side, octets)
            for frame in send.frames
            for side, octets in self._device.receive(frame.side, frame.octets)
        ]

    def check(self) -> None:
        pass

    def revive(self) -> None:
        pass


def bound_run(plugin: str, params: Mapping[str, str]) -> BoundRun:
    """Resolve a technology with parameters as they are written after ``--set``."""
    dut = DRIVERS.get(plugin, "reference")
    return bind(
        resolve(
            flags=Flags(plugin, dut=dut, params=params, procedure={"connections": {"count": 16}})
        )
    )


def findings(
    plugin: str,
    params: Mapping[str, str],
    device: Callable[[Technology], Any],
    wanted: Wanted | None = None,
) -> Sequence[Any]:
    """Audit a device in this process.

    Args:
        plugin: name of the technology.
        params: as written after ``--set``.
        device: makes a device of a technology, for each configuration.
        wanted: suites and clauses; by default all.

    Raises:
        UsageError: the parameters are impossible, or no suite applies.
    """

    @contextmanager
    def probed(bound: BoundRun, *_: Any) -> Iterator[InProcessDevice]:
        yield InProcessDevice(device(bound.technology))

    # drivers of NATs refuse ports and limits that their devices have not
    driver = type(bound_run(plugin, params).driver)
    any_intent = patch.multiple(
        driver,
        check_intent=lambda self, intent: None,
        configured_alike=lambda self, one, other: False,
    )
    with patch.object(auditing, "probed", probed), any_intent:
        done = audit(bound_run(plugin, params), wanted or Wanted(), None)
    return done.record.findings


def correct_device(technology: Technology) -> Any:
    """Make a packet-level device that behaves as RFCs say."""
    if not isinstance(technology, (Nat44, Nat64, DsLiteAftr)):
        return technology.whole_device()
    p = technology.params
    ends = nat(technology)
    assert ends is not None
    limits = {"block": p.port_block, "udp_s": p.udp_timeout_s, "limit": p.session_limit}
    device = NatDevice(ends, room=p.public.span, **limits)
    if isinstance(technology, Nat64):
        return Nat64Device(technology, device)
    return AftrDevice(technology, device) if isinstance(technology, DsLiteAftr) else device
