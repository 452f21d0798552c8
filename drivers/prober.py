"""Single frames on the two links of a device, and what comes back on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Side = Literal["left", "right"]
FrameOnSide = tuple[Side, bytes]  # A frame without FCS, and the link it is on


class Prober(Protocol):
    """Holds both ports of the tester until it is closed."""

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        """Send frames; what arrives afterwards, oldest first.

        Args:
            frames: one after the other.
            wait_s: listen so long where nothing comes.
            quiet_s: and so long after the last frame that came.
        """

    def close(self) -> None:
        """Give the ports back. May be called twice."""
