"""The authoritative server behind the device, as a role of the embedded tester."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from v6t.drivers.embedded.played import Answering
from v6t.packets.headers import UDP, view
from v6t.profiles.dns.envelope import DNS_PORT, DnsLayout
from v6t.profiles.dns.messages import Authority, QuestionCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.profiles.dns.zone import Zone


class AuthorityRole(Answering):
    """Answers on one interface whatever is asked at port 53 there."""

    def __init__(
        self,
        interface: str,
        frame_octets: int,
        hosts: Mapping[str, Any] | None,
        layout: DnsLayout,
        zone: Zone,
    ) -> None:
        """See the base class; ``zone`` is answered for."""
        super().__init__(interface, frame_octets, hosts, layout.is_ours)
        self._layout = layout
        self._authority = Authority(zone)

    def arm(self, *, own_share: float, cached: int) -> None:
        """A trial begins: its counts, and what it answers; see :class:`Authority`."""
        self._begin()
        self._authority.native_share, self._authority.cached = own_share, cached
        self.recount()

    def recount(self) -> None:
        """What was asked so far is forgotten."""
        self._authority.counts = QuestionCounts()

    def report(self) -> dict[str, Any]:
        """What was asked, and health."""
        self._drain()
        return {**asdict(self._authority.counts), **self._health()}

    def _took(self, frames: U8, times: NDArray[np.int64]) -> None:
        del times
        at = self._layout.message
        asked = view(frames, UDP, self._layout.udp)["dport"] == DNS_PORT
        if not asked.all():
            frames = frames[asked]
        if not len(frames):
            return
        # what follows a short datagram is padding of the frame
        octets = int(view(frames, UDP, self._layout.udp)["len"][0]) - 8
        for rows, answers in self._authority.answer(frames[:, at : at + octets]):
            made = self._layout.make_replies(frames[rows], answers.shape[1])
            made[:, at:] = answers
            self._layout.finish(made)
            self._tx.send(made)
