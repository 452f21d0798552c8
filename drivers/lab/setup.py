"""The devices of the lab, and the bed: the lab with a device between its two cables."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from v6t.base.errors import DutError
from v6t.base.log_levels import NOTICE
from v6t.drivers.device import DeviceSession, StateDevice
from v6t.drivers.lab.faults import Faults
from v6t.drivers.lab.namespaces import LEFT, RIGHT, Lab
from v6t.drivers.lab.reference_device import ReferenceDut
from v6t.drivers.lab.workers import Worker
from v6t.intent.device import Links
from v6t.packets.reference import ReferenceTranslation

_LOG = logging.getLogger(__name__)
Outcome = TypeVar("Outcome")  # result of a trial, or counts of a phase


class LabDevice(ABC):
    """A device under test that is set up between the lab's two cables."""

    mtus_between: Sequence[int] = ()  # MTUs of the cables between several parts [octets]

    @property
    def parts(self) -> Sequence[LabDevice]:
        """Parts of the device in the order of the lab's cables, each in its own namespace."""
        return [self]

    def get_namespace_pid(self) -> int | None:
        """Return a process in the part's namespace, or None for a new network namespace."""
        return None

    def prepare(self) -> None:  # noqa: B027  (most need nothing)
        """Prepare before the first part of a device of several is started."""

    @abstractmethod
    def start_in_namespace(self, pid: int) -> None:
        """Configure the part in the network namespace of a process and wait until it forwards.

        Raises:
            EnvironmentLacking: a program or kernel feature is missing.
            DutError: the device could not be configured.
        """

    @property
    def session(self) -> DeviceSession | None:
        return None

    def check(self) -> None:  # noqa: B027  (programs of the system look after themselves)
        """Check that v6t's processes in the part still run.

        Raises:
            TesterError: a process has ended; the message holds its last output.
            ExtensionError: a plugin failed in a process.
        """

    def describe_parts(self) -> list[str]:
        """Return a line for each part on this machine; raise V6tError if it lacks something it needs."""
        return []

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Return the device's own counters."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest: kind, versions, commands."""

    @abstractmethod
    def close(self) -> None:
        """Stop the device. May be called twice."""


class WorkerDevice(LabDevice):
    """Device of the lab that is a worker process; swapped: its left is the lab's right."""

    role = "reference device"  # name of the worker in messages

    def __init__(
        self, role_class: type, octets: int, *, swapped: bool = False, **values: Any
    ) -> None:
        left, right = (RIGHT, LEFT) if swapped else (LEFT, RIGHT)
        self._role_class = role_class
        self._values = {**values, "left": left, "right": right, "frame_octets": octets}
        self._worker: Worker | None = None

    def start_in_namespace(self, pid: int) -> None:
        worker = Worker(self.role, self._role_class, namespace=pid, **self._values)
        self._worker = worker
        worker.answer()

    def check(self) -> None:
        self.report()

    def report(self) -> dict[str, Any]:
        return self._ask("report") or {}

    def _ask(self, request: str, **arguments: Any) -> Any:
        return None if self._worker is None else self._worker.ask(request, **arguments)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class ReferenceLabDevice(WorkerDevice):
    """Device of the lab that uses the technology's reference translation."""

    def __init__(
        self,
        oracle: ReferenceTranslation,
        octets: int,
        faults: Faults | None = None,
        *,
        swapped: bool = False,
    ) -> None:
        super().__init__(ReferenceDut, octets, swapped=swapped, oracle=oracle, faults=faults)

    def describe(self) -> dict[str, Any]:
        what = "reference translation behind two rings"
        return {"kind": "reference", "what": what, "shares_oracle": True}


def compute_frame_octets(links: Links) -> int:
    """Return the size of the longest frame on the lab's links, with a VLAN tag and without FCS."""
    return max(links.left.mtu, links.right.mtu) + 18


class Bed:
    """Lab and device together; without a device the ports are joined directly."""

    def __init__(self, links: Links, device: LabDevice | None) -> None:
        self._links = links
        self.device = device
        self.lab: Lab | None = None

    def open(self) -> Lab:
        parts = [] if self.device is None else self.device.parts
        try:
            mtus = [self._links.get_link(side).mtu for side in (LEFT, RIGHT)]
            pids = [part.get_namespace_pid() for part in parts]
            between = () if self.device is None else self.device.mtus_between
            lab = self.lab = Lab(*mtus, device_pids=pids, mtus_between=between)
            for part in parts:
                part.prepare()
            for part, namespace in zip(parts, lab.devices, strict=True):
                part.start_in_namespace(namespace.pid)
        except BaseException as exc:
            try:
                self.close()
            except DutError:
                _LOG.log(NOTICE, "%s", exc)  # the error of the rollback takes its place
                raise
            raise
        return lab

    def check(self) -> None:
        if self.device is not None and self.lab is not None:
            for part in self.device.parts:
                part.check()

    def describe(self) -> dict[str, Any]:
        return {"kind": "none"} if self.device is None else self.device.describe()

    def device_session(self) -> DeviceSession | None:
        return None if self.device is None else self.device.session

    def list_namespaces(self) -> dict[str, int]:
        """Return process ids in the lab's network namespaces, for ``nsenter -t PID -n``."""
        if self.lab is None:
            return {}
        device = {} if self.lab.device is None else {"device": self.lab.device.pid}
        return {"tester": self.lab.tester.pid, **device}

    def close(self) -> None:
        try:
            if self.device is not None:
                self.device.close()
        finally:
            if self.lab is not None:
                self.lab.close()
                self.lab = None


class BedTester:
    """Base of testers whose ports are in the lab, or elsewhere without a bed, and that run in real time."""

    _bed: Bed | None

    def device_session(self) -> DeviceSession | None:
        return None if self._bed is None else self._bed.device_session()

    def device_state(self) -> StateDevice | None:
        return self.device_session()

    def list_namespaces(self) -> dict[str, int]:
        """Return process ids in the lab's network namespaces, for ``nsenter -t PID -n``."""
        return {} if self._bed is None else self._bed.list_namespaces()

    def _check_bed(self, outcome: Outcome) -> Outcome:
        """Check the lab's device after a trial or phase; return the outcome unchanged."""
        if self._bed is not None:
            self._bed.check()
        return outcome

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def read_clock(self) -> float:
        return time.monotonic()
