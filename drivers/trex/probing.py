"""Single frames through TRex's ports: pushed one by one, and what the ports captured afterwards."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from v6t.drivers.lab.setup import Bed
from v6t.drivers.prober import FrameOnSide
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.options import TrexOptions

QUIET_S = 0.2  # Least wait for the frames of a capture, which are polled


class TrexProber:
    """Prober that uses the ports of a TRex server, which is started if none answers."""

    def __init__(self, options: TrexOptions, links: Any, bed: Bed | None) -> None:
        left, right = options.ports
        self._ports = {"left": left, "right": right}
        self._attachment = Attachment(options, links, bed, delays=False)
        try:
            self._attachment.open()
            self._attachment.ask("introduce", ports=self._attachment.learning)
        except BaseException:
            self.close()
            raise

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        left, right = self._ports.values()
        arrivals = self._attachment.ask(
            "exchange",
            deadline_s=wait_s + 60,
            frames=[[self._ports[s], base64.b64encode(octets).decode()] for s, octets in frames],
            receive=[left, right],
            wait_s=wait_s,
            quiet_s=max(quiet_s, QUIET_S),
        )
        return [
            ("left" if port == left else "right", base64.b64decode(text)) for port, text in arrivals
        ]

    def close(self) -> None:
        self._attachment.close()
