"""The audited device: configured, with a prober at both links, and restored afterwards."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from socket import if_nametoindex
from typing import Any

from v6t.audit.clause import Frame, ProbeUnable
from v6t.audit.packet_device.build import build_device
from v6t.base.errors import DutError, EnvironmentLacking, TesterError, UsageError, hides_interrupt
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.devices import make_lab_device, make_session
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.packet_model import PacketModelDevice
from v6t.drivers.lab.prober import ProberRole
from v6t.drivers.lab.setup import Bed, compute_frame_octets
from v6t.drivers.lab.workers import Worker
from v6t.drivers.prober import FrameOnSide, Prober
from v6t.intent.device import Links, make_host_arguments
from v6t.plugins.base import Technology

SETTLE_S = 0.3  # seconds to wait after the tester's hosts have announced their addresses


@dataclass
class ProbedDevice:
    """Configured device to which an audit sends frames (see :class:`v6t.audit.clause.Probe`)."""

    prober: Prober  # sends and receives at both links
    session: DeviceSession | None  # None if v6t does not configure the device
    name_and_version: str  # of the device
    model: PacketModelDevice | None = None  # the device itself, if it is a packet model

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> list[Frame]:
        """Send frames and return the received ones; see :meth:`v6t.drivers.prober.Prober.exchange`."""
        outgoing = [(frame.side, frame.octets) for frame in frames]
        return [Frame(*received) for received in self.prober.exchange(outgoing, wait_s, quiet_s)]

    def pause(self, seconds: float) -> None:
        """Wait without sending frames."""
        time.sleep(seconds)

    def flush(self) -> None:
        """Empty the device's connection table."""
        if self.model is not None:
            self.model.flush()
            return
        session = self._require_session()
        try:
            session.flush()
        except DutError as exc:
            if hides_interrupt(exc):
                raise
            raise ProbeUnable(exc.message) from exc

    def reset(self) -> None:
        """Roll the configuration back, commit it again and verify it.

        Raises:
            ProbeUnable: v6t does not configure the device.
            DutError: it failed; the device may have no configuration, so the audit must end.
        """
        if self.model is not None:
            self.model.reset()
            return
        session = self._require_session()
        session.rollback()
        session.commit()
        session.verify()

    def check(self) -> None:
        """Raise an error if the device has lost its configuration."""
        if self.session is not None:
            self.session.check_configured()

    def _require_session(self) -> DeviceSession:
        if self.session is None:
            raise ProbeUnable("v6t does not configure this device")
        return self.session


@dataclass(frozen=True)
class RunDevice:
    """Device of a run that an audit configures (see :class:`v6t.audit.auditor.AuditedDevice`)."""

    setup: RunSetup  # technology, driver and tester
    # left and right, on this machine; None for those of the lab or the tester
    interfaces: tuple[str, str] | None = None
    on_open: Callable[[str], None] = lambda name: None  # called with the name of the open device

    @property
    def technology(self) -> Technology:
        """Technology that the device implements."""
        return self.setup.technology

    @contextmanager
    def open(self) -> Iterator[ProbedDevice]:
        """Configure and verify the device, yield it for probing, and restore it at the end.

        Raises:
            UsageError: single frames cannot reach this device.
            DutError: the device could not be configured.
        """
        with ExitStack() as stack:
            if self.interfaces is None and self.setup.tester.in_lab:
                probe = _open_lab_device(self.setup, stack)
            else:
                probe = _open_remote_device(self.setup, self.interfaces, stack)
            self.on_open(probe.name_and_version)
            yield probe

    def with_params(self, params: Mapping[str, Any]) -> "RunDevice":
        """Return a copy of the device with additional parameters."""
        setup, settings = self.setup, self.setup.settings
        settings = settings.model_copy(update={"params": {**settings.params, **params}})
        changed = replace(make_setup(settings), rollback_command=setup.rollback_command)
        changed.driver.check_intent(changed.intent)
        intents = setup.intent, changed.intent
        if setup.intent != changed.intent and changed.driver.has_equal_commands(*intents):
            problem = "the driver has no setting for it"
            hint = f"audit with these parameters from the start: {', '.join(params)}"
            raise UsageError(problem, hint, code="setting-untellable")
        return replace(self, setup=changed)


def _open_lab_device(setup: RunSetup, stack: ExitStack) -> ProbedDevice:
    """Set up a lab device and return it for probing; ``stack`` removes it at the end."""
    if setup.driver.is_cable:
        problem = "no device is configured for the audit"
        raise UsageError(problem, "name a driver with --dut", code="missing-driver")
    links = setup.technology.make_dut_intent().emulated_links
    device = make_lab_device(
        setup.driver, setup.device_view, setup.intent, build_model=build_device
    )
    bed = stack.enter_context(closing(Bed(links, device)))
    prober = setup.tester.make_prober(links, bed)
    if prober is None:
        prober = SocketProber(links, bed.open().tester.pid, (LEFT, RIGHT))
    stack.enter_context(closing(prober))
    if (session := bed.device_session()) is not None:
        session.verify()
    time.sleep(SETTLE_S)
    stack.push(lambda kind, *rest: None if kind else bed.check())
    model = device if isinstance(device, PacketModelDevice) else None
    return ProbedDevice(prober, session, _format_device(setup, bed.describe()), model)


def _open_remote_device(
    setup: RunSetup, interfaces: tuple[str, str] | None, stack: ExitStack
) -> ProbedDevice:
    """Configure a device outside the lab and return it; ``stack`` rolls it back at the end."""
    session = make_session(setup.driver, setup.intent, None, setup.rollback_command)
    if session is not None:
        session.open()  # a device that another user holds stays unchanged
        stack.callback(session.close)
        stack.callback(session.rollback)
        session.commit()
        session.verify()
    prober = stack.enter_context(closing(_make_prober(setup, interfaces)))
    time.sleep(SETTLE_S)
    facts = {} if session is None else session.describe()
    return ProbedDevice(prober, session, _format_device(setup, facts))


def _make_prober(setup: RunSetup, interfaces: tuple[str, str] | None) -> Prober:
    links = setup.technology.make_dut_intent().emulated_links
    if interfaces is None:
        if (prober := setup.tester.make_prober(links, None)) is not None:
            return prober
        problem = f"the {setup.tester.name} tester does not send single frames"
        hint = "`v6t audit --interfaces LEFT,RIGHT` uses interfaces that are cabled to the device"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    for name in interfaces:
        try:
            if_nametoindex(name)
        except OSError as exc:
            problem = f"the interface {name} cannot be used: no interface has this name"
            hint = "`ip -br link` lists them"
            raise EnvironmentLacking(problem, hint, code="unknown-interface") from exc
    try:
        return SocketProber(links, None, interfaces)
    except TesterError as exc:
        problem = f"the interfaces {', '.join(interfaces)} cannot be used: {exc.message}"
        hint = "they must exist and be up, and raw sockets need CAP_NET_RAW"
        raise EnvironmentLacking(problem, hint, code=exc.code) from exc


class SocketProber:
    """Prober that uses two interfaces of this machine; see :class:`v6t.drivers.prober.Prober`.

    Args:
        links: MAC addresses and MTUs.
        namespace: process in whose network namespace the interfaces are; None for this process.
        interfaces: names of the left and the right interface.
    """

    def __init__(self, links: Links, namespace: int | None, interfaces: tuple[str, str]) -> None:
        names = dict(zip(("left", "right"), interfaces, strict=True))
        hosts = {"left": make_host_arguments(links.left), "right": make_host_arguments(links.right)}
        self._worker = Worker(
            "prober",
            ProberRole,
            namespace=namespace,
            interfaces={side: names[links.get_port(side)] for side in ("left", "right")},
            frame_octets=compute_frame_octets(links),
            hosts=hosts,
        )
        try:
            self._worker.answer()
            self._worker.ask("introduce_hosts")
        except BaseException:
            self.close()
            raise

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        """Send frames and return those received before the wait times expire."""
        received: list[FrameOnSide] = self._worker.ask(
            "exchange", frames=frames, wait_s=wait_s, quiet_s=quiet_s, deadline_s=wait_s + 30
        )
        return received

    def close(self) -> None:
        """Stop the worker process, which closes its sockets."""
        self._worker.close()


def _format_device(setup: RunSetup, facts: Mapping[str, Any]) -> str:
    return f"{setup.driver.name} {facts.get('version') or ''}".strip()
