"""Single frames sent to a device on either link, and the frames that return on both."""

from collections.abc import Sequence
from typing import Protocol

from v6t.intent.device import Port

FrameOnSide = tuple[Port, bytes]  # A link, and a frame on it without FCS
MAX_QUIET_TIMES = 20  # Others on a link may never fall silent


class Prober(Protocol):
    """Sends single frames on both ports of the tester until it is closed."""

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        """Send frames and return those received afterwards, oldest first.

        Args:
            frames: frames to send, in this order.
            wait_s: time to wait for the first frame [s].
            quiet_s: time to wait for another frame after each one [s], at most
                :data:`MAX_QUIET_TIMES` times; 0: always receive for ``wait_s``.
        """

    def close(self) -> None:
        """Release the ports. May be called twice."""
