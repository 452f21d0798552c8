"""Single frames through TRex's ports: pushed one by one, and what the ports captured afterwards."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from v6t.drivers.lab.setup import Bed
from v6t.drivers.prober import Side, Sided
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.options import TrexOptions

QUIET_S = 0.2
"""TRex's captures are asked for, and come no sooner than its service loop has seen a frame."""
SIDES: tuple[Side, Side] = ("left", "right")


class TrexProber:
    """See :class:`v6t.drivers.prober.Prober`."""

    def __init__(self, options: TrexOptions, links: Any, bed: Bed | None) -> None:
        """Attach to the server, or start one; take its ports.

        Args:
            options: of the tester; left and right as the technology has them.
            links: MAC addresses and MTUs.
            bed: the lab TRex stands in, not open yet; None: real ports.
        """
        self._ports = dict(zip(SIDES, options.ports, strict=True))
        self._attachment = Attachment(options, links, bed, delays=False)
        try:
            self._attachment.open()
            self._attachment.ask("introduce", ports=self._attachment.learning)
        except BaseException:
            self.close()
            raise

    def exchange(self, frames: Sequence[Sided], wait_s: float, quiet_s: float) -> list[Sided]:
        """See the protocol."""
        heard = self._attachment.ask(
            "exchange",
            deadline_s=wait_s + 60,
            frames=[[self._ports[s], base64.b64encode(octets).decode()] for s, octets in frames],
            receive=list(self._ports.values()),
            wait_s=wait_s,
            quiet_s=max(quiet_s, QUIET_S),
        )
        side_of = {port: side for side, port in self._ports.items()}
        return [(side_of[port], base64.b64decode(octets)) for port, octets in heard]

    def close(self) -> None:
        """Give the ports back."""
        self._attachment.close()
