"""Injected faults of devices and testers, and the reports by which testers must identify them.

``test_fault_injection.py`` tests each fault with each tester. With V6T_RECORD (the number of repetitions), it records
the results in ``recorded/planted.json``, which ``v6t.tools.accuracy_page`` renders.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from v6t.core.runs.bench import compile_directions
from v6t.drivers.lab.setup import LabDevice, ReferenceLabDevice, compute_frame_octets
from v6t.drivers.tester import OracleDecorator
from v6t.tests.drivers.duts.remote_site import wait_until
from v6t.tests.drivers.faketrex import list_descendants
from v6t.tests.drivers.lab_testers import make_tester_setup
from v6t.tools.accuracy.impairments import Impairments
from v6t.tools.accuracy.known_device import KnownDevice
from v6t.tools.accuracy.study import UnchangedFrames
from v6t.tools.record_files import update_record
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

RECORD = Path(__file__).parent / "recorded" / "planted.json"
TESTERS = ("embedded", "trex")
MILLION = 1_000_000
# One of this number of frames is lost. ``test_embedded_parts.py`` tests one in a million without real frames; runs that
# record, and ``python -m v6t.tools.accuracy``, send a million.
FRAMES_PER_LOSS = MILLION if os.environ.get("V6T_RECORD") else MILLION // 50
# Maximum number of attempts if a busy machine makes trials invalid.
MAX_TRIES = 8
# Lower limit of the rate, which is halved if tester or device is too slow.
SLOWEST_FPS = 20_000.0
SENDING_TIME_TOLERANCE = 1.05


class CorruptedOracle(OracleDecorator):
    """Reference translation that corrupts the frames of one direction."""

    def __init__(self, oracle, corrupt, direction):
        super().__init__(oracle)
        self._corrupt, self._direction = corrupt, direction

    def expect(self, direction, frames):
        answer = self.oracle.expect(direction, frames)
        if direction == self._direction and len(answer.frames):
            self._corrupt(answer.frames)
        return answer


def swap_ports(frames):
    """Swap source and destination port, which keeps the UDP checksum valid."""
    frames[:, 34:38] = frames[:, [36, 37, 34, 35]]


def flip_checksum_bit(frames):
    frames[:, 41] ^= 1


def use_next_psid(frames):
    """Add one to the PSID, which ends the interface identifier (RFC 7597, section 6)."""
    psid = (frames[:, 52].astype(np.uint16) << 8 | frames[:, 53]) + 1
    frames[:, 52], frames[:, 53] = psid >> 8 & 0xFF, psid & 0xFF


@dataclass(frozen=True)
class Fault:
    """Fault, the report by which a tester must identify it, and a trial."""

    name: str
    words: str  # fault, as text in the table
    device: Callable[[object, int], LabDevice] | None
    """Makes the device for a technology and a maximum frame length; None if the tester is faulty."""
    found: Callable[[Observation], bool]  # checks whether a trial reports exactly this fault
    says: str  # expected report, as text in the table
    technology: str = "mape-br"
    mode: str = "bidirectional"
    rate_fps: float = 2000.0
    frames: int = 1000
    timeout_s: float | None = None


@dataclass(frozen=True)
class Observation:
    trial: Trial
    result: object
    verdict: object

    def count_frames(self, what):
        """Count frames over both directions, without negative traffic."""
        return sum(c.count_frames(what) for c in self.result.directions.values())

    @property
    def lost(self):
        """Count the sent frames that were received neither in time nor late."""
        return self.count_frames("sent") - self.count_frames("received") - self.count_frames("late")


def is_failure(seen):
    return seen.verdict.valid and not seen.verdict.passed


def has_mismatch(seen):
    return is_failure(seen) and seen.verdict.mismatch is not None


def make_corrupting_device(corrupt, direction="forward"):
    return lambda technology, octets: ReferenceLabDevice(
        CorruptedOracle(technology, corrupt, direction), octets
    )


def make_device_with_other_rule(technology, octets):
    """Make a reference device whose rule has one inverted bit in its IPv6 prefix."""
    setup = make_tester_setup("embedded", params={"rule_ipv6": "2001:db8:cf::/51"})
    return ReferenceLabDevice(setup.technology, octets)


def make_known_device(**impairments):
    settings = Impairments(record_departures=False, **impairments)
    return lambda technology, octets: StartedKnownDevice(octets, settings)


class StartedKnownDevice(KnownDevice):
    """Known device that impairs frames from the start."""

    def __init__(self, octets, impairments):
        super().__init__(octets)
        self.impairments = impairments

    def start_in_namespace(self, pid):
        super().start_in_namespace(pid)
        self.start_trial(self.impairments)


ROUTER = {"technology": "ipv6-router", "mode": "forward"}
MANY_FRAMES = {**ROUTER, "rate_fps": 50_000.0, "frames": FRAMES_PER_LOSS}
FRAMES_PER_DUPLICATE = 1000

FAULTS = (
    Fault("nothing-translated", "nothing: MAP-E border relay as it should be",
          ReferenceLabDevice, lambda seen: seen.verdict.passed, "the trial passes"),
    Fault("nothing-forwarded", f"nothing: {MILLION:,} frames forwarded", make_known_device(),
          lambda seen: seen.verdict.passed, "the trial passes", **MANY_FRAMES),
    Fault("rule-bit", "one bit of the rule's IPv6 prefix", make_device_with_other_rule,
          lambda seen: (seen.verdict.valid and seen.lost > 0) or has_mismatch(seen),
          "frames are lost, or differ from the translation"),
    Fault("psid", "PSID one too large", make_corrupting_device(use_next_psid, "reverse"), has_mismatch,
          "frames differ from the translation"),
    Fault("checksum", "one bit of the UDP checksum", make_corrupting_device(flip_checksum_bit), has_mismatch,
          "frames differ from the translation"),
    Fault("ports", "source and destination port swapped", make_corrupting_device(swap_ports), has_mismatch,
          "frames differ from the translation"),
    Fault("one-in-a-million", f"one frame in {MILLION:,} lost", make_known_device(lose_every=FRAMES_PER_LOSS),
          lambda seen: is_failure(seen) and seen.lost == 1, "exactly one frame is lost", **MANY_FRAMES),
    Fault("duplicates", f"one frame in {FRAMES_PER_DUPLICATE:,} twice", make_known_device(duplicate_every=FRAMES_PER_DUPLICATE),
          lambda seen: is_failure(seen) and seen.lost == 0
          and seen.count_frames("surplus") == seen.trial.frames // FRAMES_PER_DUPLICATE,
          "surplus frames, exactly as many", rate_fps=10_000.0, frames=5_000, **ROUTER),
    Fault("late", "every frame 3 ms late, where 2 ms are allowed", make_known_device(delay_us=3000),
          lambda seen: seen.verdict.valid and seen.count_frames("late") == seen.trial.frames,
          "every frame is late", timeout_s=0.002, **ROUTER),
    Fault("under-sends", "the tester stands still in the middle of a trial", None,
          lambda seen: not seen.verdict.valid, "the trial is invalid: the tester's fault, no loss",
          rate_fps=1000.0, **ROUTER),
)  # fmt: skip
RESET = Fault("table-reset", "a NAT forgets its connections during a trial", None,
              lambda seen: seen.verdict.valid and seen.lost > 0, "frames from outside are lost",
              technology="nat44", mode="reverse")  # fmt: skip
ALL = (*FAULTS, RESET)


class ReplaceableDevice:
    """Lab device that can be replaced while the lab is open."""

    def __init__(self, device):
        self._device = device

    def __getattr__(self, name):
        return getattr(self._device, name)

    @property
    def parts(self):
        return [self]

    def start_in_namespace(self, pid):
        self._pid = pid
        self._device.start_in_namespace(pid)

    def replace(self, device):
        self._device.close()
        self._device = device
        device.start_in_namespace(self._pid)


class FaultBench:
    """Real tester whose device is replaced for each fault."""

    def __init__(self, kind):
        self.kind, self._loaded = kind, None
        setups = {name: make_tester_setup(kind, name) for name in ("mape-br", "ipv6-router")}
        self._technologies = {name: setup.technology for name, setup in setups.items()}
        links = self._technologies["mape-br"].links
        self._octets = compute_frame_octets(links)
        self._device = device = ReplaceableDevice(make_known_device()(None, self._octets))
        make = setups["mape-br"].tester.make
        self.tester = make(links, device, loopback=False, delays=True, seed=1)
        self.tester.open()

    def close(self):
        self.tester.close()

    def try_fault(self, fault):
        """Measure a trial with this fault, and repeat it while it is invalid."""
        make_device = fault.device or make_known_device()
        technology = self._technologies[fault.technology]
        sizes = self._load(fault.technology)
        for attempt in range(MAX_TRIES):
            # faults depend on the number of frames since the device's start
            self._device.replace(make_device(technology, self._octets))
            rate = max(fault.rate_fps / 2**attempt, min(fault.rate_fps, SLOWEST_FPS))
            trial = Trial("planted", fault.name, sizes.ipv6, sizes.ipv4, fault.mode, rate,
                          fault.frames / rate, 0.5, 0.1, frame_timeout_s=fault.timeout_s)  # fmt: skip
            with self._stop_senders(trial) if fault.device is None else nullcontext():
                result = self.tester.measure(trial)
            verdict = assess_trial(trial, result, sending_time_tolerance=SENDING_TIME_TOLERANCE)
            if verdict.valid or fault.device is None:
                break
        return Observation(trial, result, verdict)

    def _load(self, name):
        technology = self._technologies[name]
        sizes = technology.make_frame_pair(104 if name == "mape-br" else 84)
        if self._loaded != name:
            oracle = technology if name == "mape-br" else UnchangedFrames(technology)
            self.tester.load(compile_directions(technology, sizes, 1), oracle)
            self._loaded = name
        return sizes

    @contextmanager
    def _stop_senders(self, trial):
        """Stop the sending processes from the middle of the trial until after its end."""
        if self.kind == "embedded":
            pids = [self.tester._senders["forward"].pid]
        else:
            server = self.tester.attachment.server.process.pid
            pids = [server, *list_descendants(server)]

        def stop():
            wait_for_frames(self.tester.list_namespaces()["device"])
            time.sleep(trial.duration_s / 2)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(trial.duration_s)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

        with ThreadPoolExecutor() as pool:
            stopped = pool.submit(stop)
            yield
        stopped.result()


def wait_for_frames(pid, side="left"):
    """Wait until a process's network namespace receives frames on one side."""

    def count_received():
        text = Path(f"/proc/{pid}/net/dev").read_text()
        return int(re.search(rf"{side}: *\d+ +(\d+)", text)[1])

    before = count_received()
    wait_until(lambda: count_received() >= before + 50, "frames", 30)


def expect_found(tester, fault, measure):
    """Measure a fault once, or V6T_RECORD times with a record; require that it is always found."""
    observations = [measure() for _ in range(int(os.environ.get("V6T_RECORD") or 1))]
    found = sum(fault.found(observation) for observation in observations)
    reasons = ["; ".join(observation.verdict.reasons) for observation in observations]
    with update_record(RECORD) as record:
        before = record.get(f"{tester} {fault.name}", {"found": 0, "of": 0})
        counts = {"found": before["found"] + found, "of": before["of"] + len(observations)}
        said = {"said": reasons[-1], "date": date.today().isoformat()}
        record[f"{tester} {fault.name}"] = counts | said
    assert found == len(observations), reasons
