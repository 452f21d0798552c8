"""Where the threads of testers run, and how long their rings are: chosen here, for all of them.

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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.base.errors import EnvironmentLacking

RING_FRAMES = 8192
RING_OCTETS = 48 << 20
MAX_RING_FRAMES = 1 << 16


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


def place_threads(
    cores: int, available: Sequence[int], core_list: Sequence[int] = (), *, may_share: bool = True
) -> ThreadPlacement:
    """Choose the CPUs of TRex's threads."""
    cpus = list(core_list) or list(available[: cores + 2])
    if len(cpus) < cores + 2:
        if not may_share:
            raise EnvironmentLacking(
                f"{cores} data path cores need {cores + 2} CPUs, this machine offers {len(available)}",
                "ask for fewer cores",
                code="resource-missing",
            )
        cpus = [available[0]] * 2 + [available[-1]] * cores
    return ThreadPlacement(cpus[0], cpus[1], tuple(cpus[2:]))


def find_forwarding_cpus(placement: ThreadPlacement, available: Sequence[int]) -> list[int]:
    """Find CPUs on which the kernel should forward what TRex sends in the lab; empty: any.

    A veth device hands frames over on the CPU that sends them, which has most to do already where
    TRex's threads share CPUs.
    """
    return [cpu for cpu in available if placement.is_shared and cpu not in placement.sending]
