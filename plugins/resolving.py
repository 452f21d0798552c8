"""The contract of a technology that answers queries: it has a zone in place of traffic.

The tester asks for names of :attr:`~v6t.plugins.base.Technology.zone` on the left, answers what the
device asks for them on the right, and knows the answer each client must be given. Stream sets,
frame sizes and the reference translation of frames do not exist; benchmarks for technologies
that forward frames are refused.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NoReturn

from v6t.base.errors import UsageError
from v6t.packets.direction import Direction
from v6t.plugins.base import Technology
from v6t.profiles.dns.messages import QUESTION_END
from v6t.profiles.model import FramePair
from v6t.profiles.wire import FCS_OCTETS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.profiles.dns.zone import Zone

IPV6_OCTETS, IPV4_OCTETS = (14 + ip + 8 + QUESTION_END + FCS_OCTETS for ip in (40, 20))
"""A query as a frame, untagged."""


class Resolving(Technology):
    """Answers queries."""

    exchange = "queries"
    modes = ("forward",)
    default_benchmarks = ("resolution",)
    overhead = 20
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = (IPV6_OCTETS,)

    @property
    @abstractmethod
    def zone(self) -> Zone:
        """The names that are asked for and answered for."""

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """The size of a query; as device and authoritative server would exchange it.

        Raises:
            UsageError: another size.
        """
        if ipv6_frame_size != IPV6_OCTETS:
            raise UsageError(
                f"a query is a frame of {IPV6_OCTETS} octets, not {ipv6_frame_size}",
                "leave the frame size out",
                code="frame-too-small",
            )
        return FramePair(IPV6_OCTETS, IPV4_OCTETS if self.zone.server.version == 4 else IPV6_OCTETS)

    def sizes_of(self, listed: int | str) -> FramePair:
        """The same.

        Raises:
            UsageError: several sizes.
        """
        if isinstance(listed, str):
            raise UsageError(
                "name resolution cannot use a mix of frame sizes",
                "leave the frame size out",
                code="invalid-frame-size-mix",
            )
        return self.frame_pair(listed)

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> NoReturn:
        """There is no translation of frames.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.name} forwards no frames", "it answers queries: see zone", code="no-frames"
        )

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> NoReturn:
        """There are no streams.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.name} sends single queries instead of streams of frames",
            "measure it with `v6t run --measure resolution`",
            code="no-frames",
        )
