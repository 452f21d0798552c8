"""The device under audit, configured, with a prober at both its links; and put back afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import if_nametoindex
from typing import TYPE_CHECKING, Any

from v6t.base.errors import (
    DutError,
    EnvironmentLacking,
    TesterError,
    UsageError,
    interrupted,
)
from v6t.drivers.device import DeviceSession
from v6t.drivers.lab.channel import Worker
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.setup import Bed, frame_octets
from v6t.drivers.prober import Prober, Sided
from v6t.intent.device import host_arguments
from v6t.plugins.clauses.base import CannotBeDone, Frame, Send

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.intent.device import Links

WAIT_S, QUIET_S = 0.4, 0.06
SETTLE_S = 0.3
"""After the hosts introduced themselves."""


@dataclass(frozen=True)
class Listening:
    """How long is listened [s].

    Attributes:
        wait_s: where nothing comes.
        quiet_s: after the last frame that came.
    """

    wait_s: float = WAIT_S
    quiet_s: float = QUIET_S


class ProbedDevice:
    """Carries out what clauses send."""

    def __init__(
        self, prober: Prober, listening: Listening, session: DeviceSession | None, about: str
    ) -> None:
        self._prober = prober
        self._listening = listening
        self._session = session
        self.about = about
        """What the device is."""

    def carry(self, send: Send) -> Sequence[Frame]:
        """Send, listen.

        Raises:
            CannotBeDone: nobody drives the device, or its connections cannot be emptied.
        """
        if send.first:
            self._do(send.first)
        if send.pause_s:
            time.sleep(send.pause_s)
        wait_s = send.listen_s or self._listening.wait_s * send.patience
        heard = self._prober.exchange(
            [(frame.side, frame.octets) for frame in send.frames],
            wait_s,
            send.listen_s or self._listening.quiet_s * send.stillness,
        )
        return [Frame(side, octets) for side, octets in heard]

    def _do(self, what: str) -> None:
        session = self._session
        if session is None:
            raise CannotBeDone("no driver is configured for this device")
        try:
            if what == "flush":
                session.flush()
                return
            self.revive()
        except DutError as exc:
            if interrupted(exc):
                raise
            raise CannotBeDone(exc.message) from exc

    def revive(self) -> None:
        """Make it again what it was: it seems to be dead.

        Raises:
            DutError: it stays so.
        """
        if self._session is not None:
            self._session.restore()
            self._session.apply()
            self._session.verify()

    def check(self) -> None:
        """See that it was configured all the time.

        Raises:
            DutError: it may not have been.
        """
        if self._session is not None:
            self._session.check_held()


@contextmanager
def probed(
    bound: BoundRun,
    interfaces: tuple[str, str] | None,
    listening: Listening,
    keep: Path | None,
) -> Iterator[ProbedDevice]:
    """The device configured and read back, with a prober; restored at the end, whatever happens.

    Args:
        bound: technology and device.
        interfaces: of this machine, left and right; None: in the lab.
        listening: how long.
        keep: directory for a copy of the undo record.

    Raises:
        UsageError: this device cannot be reached by single frames.
        DutError: it could not be configured.
    """
    links = bound.technology.dut_intent().emulated_links
    if interfaces is None and bound.tester.in_lab:
        with _in_lab(bound, links, listening, keep) as device:
            yield device
        return
    with _elsewhere(bound, links, interfaces, listening, keep) as device:
        yield device


@contextmanager
def _in_lab(
    bound: BoundRun, links: Links, listening: Listening, keep: Path | None
) -> Iterator[ProbedDevice]:
    if bound.driver.absent:
        raise UsageError(
            "no device to audit is configured", "name a driver with --dut", code="device-absent"
        )
    device = bound.driver.probed_device(bound.device, bound.intent, keep)
    bed = Bed(links, device)
    try:
        prober = bound.tester.prober(links, bed)
        if prober is None:
            prober = SocketProber(links, bed.open().tester.pid, (LEFT, RIGHT))
        try:
            session = bed.device_session()
            if session is not None:
                session.verify()
            time.sleep(SETTLE_S)
            yield ProbedDevice(prober, listening, session, _about(bound, bed.describe()))
            bed.check()
        finally:
            prober.close()
    finally:
        bed.close()


@contextmanager
def _elsewhere(
    bound: BoundRun,
    links: Links,
    interfaces: tuple[str, str] | None,
    listening: Listening,
    keep: Path | None,
) -> Iterator[ProbedDevice]:
    session = bound.driver.session(bound.intent, keep, bound.again)
    if session is None:
        with _sided(bound, links, interfaces) as prober:
            yield ProbedDevice(prober, listening, None, _about(bound, {}))
        return
    session.open()  # a device that somebody else holds is left alone
    try:
        try:
            session.apply()
            session.verify()
            with _sided(bound, links, interfaces) as prober:
                yield ProbedDevice(prober, listening, session, _about(bound, session.describe()))
        finally:
            session.restore()
    finally:
        session.close()


@contextmanager
def _sided(bound: BoundRun, links: Links, interfaces: tuple[str, str] | None) -> Iterator[Prober]:
    """A prober whose hosts have introduced themselves."""
    prober = _elsewhere_prober(bound, links, interfaces)
    try:
        time.sleep(SETTLE_S)
        yield prober
    finally:
        prober.close()


def _elsewhere_prober(bound: BoundRun, links: Links, interfaces: tuple[str, str] | None) -> Prober:
    """Two interfaces of this machine, or the tester's own ports."""
    if interfaces is None:
        own = bound.tester.prober(links, None)
        if own is None:
            raise UsageError(
                f"the {bound.tester.name} tester cannot send single frames",
                "`v6t audit --interfaces LEFT,RIGHT` asks through two interfaces of this machine "
                "that are cabled to the device",
                code="unsupported-by-tester",
            )
        return own
    for name in interfaces:
        try:
            if_nametoindex(name)
        except OSError as exc:
            raise EnvironmentLacking(
                f"the interface {name} cannot be used: this machine has none of that name",
                "`ip -br link` lists them",
                code="unknown-interface",
            ) from exc
    try:
        return SocketProber(links, None, interfaces)
    except TesterError as exc:
        raise EnvironmentLacking(
            f"the interfaces {', '.join(interfaces)} cannot be used: {exc.message}",
            "they must be there and up, and raw sockets need CAP_NET_RAW",
            code=exc.code,
        ) from exc


class SocketProber:
    """Raw sockets on two interfaces, in a process of their own; see :class:`v6t.drivers.prober.Prober`."""

    def __init__(self, links: Links, namespace: int | None, interfaces: tuple[str, str]) -> None:
        """Open both, and have the hosts beyond introduce themselves.

        Args:
            links: MAC addresses and MTUs.
            namespace: process whose network namespace they are in; None: this one's.
            interfaces: left and right.
        """
        at = {"left": interfaces[0], "right": interfaces[1]}
        self._worker = Worker(
            "prober",
            {
                "kind": "prober",
                "namespace": namespace,
                "interfaces": {
                    "left": at[links.port_of("left")],
                    "right": at[links.port_of("right")],
                },
                "frame_octets": frame_octets(links),
                "hosts": {"left": host_arguments(links.left), "right": host_arguments(links.right)},
            },
        )
        try:
            self._worker.answer()
            self._worker.ask("introduce")
        except BaseException:
            self._worker.close()
            raise

    def exchange(self, frames: Sequence[Sided], wait_s: float, quiet_s: float) -> list[Sided]:
        """See the protocol."""
        heard: list[Sided] = self._worker.ask(
            "exchange", frames=frames, wait_s=wait_s, quiet_s=quiet_s, deadline_s=wait_s + 30
        )
        return heard

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def _about(bound: BoundRun, described: dict[str, Any]) -> str:
    """The device in a few words: its driver's, and the version it told."""
    version = described.get("version") or ""
    return f"{bound.driver.name} {version}".strip()
