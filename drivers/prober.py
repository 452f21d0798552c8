"""Single frames on the two links of a device, and what comes back on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Side = Literal["left", "right"]
FrameOnSide = tuple[Side, bytes]  # A link, and a frame on it without FCS


class Prober(Protocol):
    """Sends single frames on both ports of the tester until it is closed."""

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        """Send frames; return those that arrive afterwards, oldest first.

        Args:
            frames: one after the other.
            wait_s: time to listen if nothing arrives.
            quiet_s: time to listen after the last arrival.
        """

    def close(self) -> None:
        """Give the ports back. May be called twice."""
