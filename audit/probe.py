"""What an audit needs of a device under test: send frames, listen, empty its tables, configure it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from v6t.plugins.audit_views import SideName


@dataclass(frozen=True)
class Frame:
    """An Ethernet frame without FCS on one of the two links."""

    side: SideName
    octets: bytes


class ProbeUnable(Exception):
    """The device cannot be flushed or configured again; the clause is not testable."""


class Probe(Protocol):
    """A configured device with a prober at both links."""

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> Sequence[Frame]:
        """Send frames and return what the device sends.

        Args:
            frames: sent in this order.
            wait_s: longest time to wait for the first frame.
            quiet_s: listening ends when no frame came for this time.
        """

    def pause(self, seconds: float) -> None:
        """Wait before the next exchange."""

    def flush(self) -> None:
        """Empty the device's connection table.

        Raises:
            ProbeUnable: the device has no way to do this.
        """

    def reset(self) -> None:
        """Remove the device's configuration and apply it again.

        Raises:
            ProbeUnable: the device is not driven by v6t.
        """

    def check(self) -> None:
        """Verify that the device was configured all the time.

        Raises:
            DutError: it may not have been.
        """
