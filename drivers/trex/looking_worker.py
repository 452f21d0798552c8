"""Looks at TRex's counters while it sends: when the first frame left, and the last (GEN-23).

Handed over with :mod:`v6t.drivers.trex.client_worker`: old syntax, the standard library only.
"""

import time
from typing import Any, Dict, List

from v6t.drivers.trex.service_worker import one_line

EARLY_S = 0.2
"""TRex wakes at most 0.1 s before the moment of the start: no look is wanted earlier."""
LATE_S = 0.03
"""So long after the moment of the start the first frame is looked for."""


class Looking(object):
    """Looks at the ports of a trial: before the first frame, at it, and at the last one."""

    def __init__(self, worker, frames, preparing_s):
        self.worker = worker
        self.frames = frames
        self.preparing_s = preparing_s
        self.ports = sorted(frames)
        self.seen: List[Any] = []
        self.at = self.began = self.idle = 0.0
        self.base: Dict[int, int] = {}
        self.refused = ""

    def start(self, patience):
        """Order the start for one moment of the server's clock: whether all ports took it.

        patience: how many times the time is left that this takes.
        """
        self.worker.client.pgid_stats.clear_stats(clear_flow_stats=True, clear_latency_stats=True)
        requested_at = time.monotonic()
        _, self.base, now = self.worker.look(self.ports)
        half = (time.monotonic() - requested_at) / 2
        # TRex wants 0.1 s of time, for every port, after it has made the streams ready
        lead = patience * (0.15 + len(self.ports) * (0.03 + 2 * half)) + self.preparing_s
        self.at, self.began = now + lead, requested_at + half + lead
        done = self._order()
        if not done:
            self.refused = one_line(done.err())
            return False
        # where its threads share a CPU, TRex wakes early by what it thinks that sleep costs: up to
        # 0.1 s if the machine was busy when it began
        self.seen.append((now - self.at, dict.fromkeys(self.ports, 0), now - self.at))
        self.idle = requested_at
        time.sleep(max(0.0, self.began - EARLY_S - time.monotonic()))
        while time.monotonic() < self.began + LATE_S and not all(self.look().values()):
            time.sleep(0.001)
        return True

    def _order(self):
        """Start every port then; what the first that would not said, or the last."""
        whole = {"type": "raw", "op": "abs", "value": 1.0}
        for port in self.ports:
            done = self.worker.client.ports[port].start(
                whole, -1, self.worker.service, None, self.at
            )
            if not done:
                break
        return done

    def look(self):
        """Once more; frames sent by now."""
        now = time.monotonic()
        before, sent, after = self.worker.look(self.ports)
        sent = {p: n - self.base[p] for p, n in sent.items()}
        self.seen.append((before - self.at, sent, after - self.at))
        if not any(sent.values()):
            self.idle = now  # sending may have begun since, and is not over before its time
        return sent

    @property
    def complete(self):
        """All frames were seen to have left."""
        return bool(self.seen) and all(n >= self.frames[p] for p, n in self.seen[-1][1].items())
