"""CPUs and priorities of the testers' threads, and lengths of their rings: all are chosen here.

*Rings.* Frames wait in rings of memory that a tester shares with the kernel. TRex's rings on Linux
interfaces have ``RING_FRAMES`` slots: with DPDK's own 512 they overflow while the data path waits for
a CPU, and more than 8,192 carried no more through a kernel router. Each ring of the embedded tester
takes at most ``RING_OCTETS`` and has at most ``MAX_RING_FRAMES`` slots.

*Threads.* TRex has a master, a receiver ("latency") and data path threads; each gets a CPU of its own
if there are enough (:func:`place_threads`). Where there are too few, the last CPU is left to the data
path, which does most of the kernel's work for Linux interfaces as well, and the kernel forwards on
the others (:func:`find_forwarding_cpus`). The processes of the embedded tester sleep between
batches, so the kernel's scheduler places them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from v6t.base.errors import EnvironmentLacking

RING_FRAMES = 8192
RING_OCTETS = 48 << 20
RING_BLOCK_OCTETS = 1 << 18  # The kernel allocates a ring of the embedded tester in such blocks
MAX_RING_FRAMES = 1 << 16
PROBE_RING_FRAMES = 1024  # Rings of the lab's prober and of devices modelled in Python
DATA_PATH_NICENESS = -20  # Priority of TRex's data path and receiver where threads share CPUs
_SLOT_OCTETS, _LONG_SLOT_OCTETS, _BLOCK_OCTETS = 2048, 16_384, 65_536
_MAX_SHARED_CPUS = 2  # With more, tester and device of the lab do not compete for them


@dataclass(frozen=True)
class ThreadPlacement:
    """CPU numbers of TRex's threads."""

    master: int
    latency: int
    sending: tuple[int, ...]

    @property
    def is_shared(self) -> bool:
        """Whether threads share a CPU: TRex can do that in its ``low_end`` mode only."""
        cpus = (self.master, self.latency, *self.sending)
        return len(set(cpus)) < len(cpus)

    @property
    def arguments(self) -> list[str]:
        """Arguments of the server: no watchdog if threads share a CPU, as it would take that for a hang."""
        return ["--no-watchdog"] if self.is_shared else []

    def make_config(self, sockets: Sequence[int]) -> dict[str, Any]:
        """Make this part of ``trex_cfg.yaml``, with the NUMA node of each pair of ports."""
        if self.is_shared:  # TRex puts all threads on one CPU; they are moved when it runs
            return {"low_end": True, "low_end_core": self.sending[-1]}
        share = len(self.sending) // len(sockets)
        pairs = [
            {"socket": socket, "threads": self.sending[pair * share : (pair + 1) * share]}
            for pair, socket in enumerate(sockets)
        ]
        threads = {"master_thread_id": self.master, "latency_thread_id": self.latency}
        return {"platform": {**threads, "dual_if": pairs}}

    def list_threads(self) -> dict[str, tuple[int, int | None]]:
        """Return CPU and niceness by thread name; the key "" stands for all other threads."""
        threads: dict[str, tuple[int, int | None]] = {"": (self.master, None)}
        for number, cpu in enumerate(self.sending, 1):
            threads[f"trex dp core {number}"] = cpu, DATA_PATH_NICENESS
        return threads | {"trex rx": (self.latency, DATA_PATH_NICENESS)}

    def describe(self) -> dict[str, Any]:
        return {"master": self.master, "latency": self.latency, "data path": list(self.sending)}


def place_threads(
    cores: int, available: Sequence[int], core_list: Sequence[int] = (), *, may_share: bool = True
) -> ThreadPlacement:
    """Choose CPUs of TRex's threads from a user's ``core_list``, or from all available ones."""
    cpus = list(core_list) or list(available[: cores + 2])
    if len(cpus) < cores + 2 and not may_share:
        problem = f"{cores} data path cores need {cores + 2} CPUs; {len(available)} are available"
        raise EnvironmentLacking(problem, "use fewer cores", code="resource-missing")
    if len(cpus) < cores + 2:
        cpus = [available[0]] * 2 + [available[-1]] * cores
    return ThreadPlacement(cpus[0], cpus[1], tuple(cpus[2:]))


def find_forwarding_cpus(placement: ThreadPlacement, available: Sequence[int]) -> list[int]:
    """Return the CPUs on which the kernel should forward TRex's frames in the lab; empty for any.

    A veth device hands frames over on the CPU that sends them, which has most to do already where
    TRex's threads share CPUs.
    """
    return [cpu for cpu in available if placement.is_shared and cpu not in placement.sending]


def has_few_cpus() -> bool:
    """Return whether tester and device of the lab compete for the CPUs of this machine."""
    return len(os.sched_getaffinity(0)) <= _MAX_SHARED_CPUS


def make_ring(frames: int, mtu: int) -> dict[str, int]:
    """Return the sizes of TRex's rings on a Linux interface, by DPDK's names.

    Longer frames than those of an MTU of 1,792 octets need larger slots.
    """
    slot = _SLOT_OCTETS if mtu <= _SLOT_OCTETS - 256 else _LONG_SLOT_OCTETS
    return {"blocksz": _BLOCK_OCTETS, "framesz": slot, "framecnt": frames}
