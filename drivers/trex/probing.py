"""Prober that pushes single frames through TRex's ports and captures the answers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from v6t.drivers.lab.setup import Bed
from v6t.drivers.prober import FrameOnSide
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.capture import make_capture_request
from v6t.drivers.trex.channel import parse_answer
from v6t.drivers.trex.client.stats import Capture
from v6t.drivers.trex.options import TrexOptions
from v6t.intent.device import Port

MAX_CAPTURED_FRAMES = 1000  # Limit of each port's capture
MIN_QUIET_S = 0.2  # Shortest wait after the last frame, since captures are polled


class TrexProber:
    """Prober that uses the ports of a TRex server, which is started if none answers."""

    def __init__(self, options: TrexOptions, links: Any, bed: Bed | None) -> None:
        left, right = options.ports
        self._ports: dict[Port, int] = {"left": left, "right": right}
        self._attachment = Attachment(options, links, bed, delays=False)
        try:
            self._attachment.open()
            self._attachment.ask("introduce_hosts", ports=self._attachment.learning_ports)
        except BaseException:
            self.close()
            raise

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        answer = self._attachment.ask(
            "exchange",
            deadline_s=wait_s + 60,
            frames=[[self._ports[s], base64.b64encode(octets).decode()] for s, octets in frames],
            captures=[
                make_capture_request("sample", port, "not arp", MAX_CAPTURED_FRAMES)
                for port in self._ports.values()
            ],
            wait_s=wait_s,
            quiet_s=max(quiet_s, MIN_QUIET_S),
        )
        captures = parse_answer(list[Capture], answer)
        arrivals = [(*frame, one.port) for one in captures for frame in one.decode_frames()]
        side_of = {port: side for side, port in self._ports.items()}
        return [(side_of[port], octets) for _, octets, port in sorted(arrivals)]

    def close(self) -> None:
        self._attachment.close()
