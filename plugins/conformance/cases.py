"""One way to run a plugin: parameters, links, size and direction; the frames it sends, the answers.

Frames are those a tester sends, marked as it marks them. A stateful plugin is given the table a
device would have made that keeps the Initiator's ports and gives all one public address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import UsageError
from v6t.packets import trailer
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.walker import locate_endpoints, walk
from v6t.plugins.base import Links, PluginParams, Technology
from v6t.plugins.stateful.base import StatefulTechnology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Role, Traffic
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.reference import Expected
    from v6t.plugins.base import Link

FRAMES = 48
"""Frames of each class that are looked at."""
NONCE = 0x5A
TIME_NS = 0x0123456789ABCDEF
LEFT_VLAN, RIGHT_VLAN = 7, 4094
FIRST_ID = {"forward": 0, "reverse": 64}
SEED = 7
MORE = "570x4,1518x1"
"""Sizes of a mix beside the smallest."""


@dataclass(frozen=True)
class Case:
    """A plugin with parameters and links, a frame size and a direction.

    Attributes:
        plugin: ready to be asked.
        size: the listed size, or a mix of sizes.
        direction: which way.
        what: is special about it, in words.
        opposite: the same in the other direction, where it is at hand.
    """

    plugin: Technology
    size: int | str
    direction: Direction
    what: str
    opposite: Case | None = field(default=None, compare=False, repr=False)
    _expanders: dict[int, Expander] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.what}, {self.size} octets, {self.direction}"

    @cached_property
    def sizes(self) -> Sizes:
        """On both sides."""
        return self.plugin.sizes_of(self.size)

    @cached_property
    def traffic(self) -> Traffic:
        """As the plugin describes it."""
        return self.plugin.sized_traffic(self.direction, self.sizes, SEED)

    @cached_property
    def streams(self) -> StreamSet:
        """Compiled."""
        return compile_traffic(self.traffic, first_stream_id=FIRST_ID[self.direction])

    @property
    def here(self) -> Link:
        """The link its frames are sent on."""
        return self.plugin.links.left if self.direction == "forward" else self.plugin.links.right

    @property
    def there(self) -> Link:
        """The link they leave the device on."""
        return self.plugin.links.right if self.direction == "forward" else self.plugin.links.left

    @cached_property
    def octets(self) -> dict[int, int]:
        """Of foreground frames as they come back, by those that are sent, FCS included."""
        sides = (self.plugin.side_sizes(pair) for pair, _ in self.sizes.pairs)
        return dict(s if self.direction == "forward" else s[::-1] for s in sides)

    @property
    def versions(self) -> tuple[int, int]:
        """IP version of foreground frames as sent, and as they come back."""
        left, right = self.plugin.ip_versions
        return (left, right) if self.direction == "forward" else (right, left)

    def first(self, stream: Stream) -> U8:
        """The first frames of a stream of this case."""
        if stream.stream_id not in self._expanders:
            self._expanders[stream.stream_id] = Expander(stream)
        return self._expanders[stream.stream_id].frames(0, FRAMES)

    def marked(self, stream: Stream) -> U8:
        """The first frames of a stream, marked."""
        frames = self.first(stream)
        trailer.stamp(
            frames,
            stream.checksum,
            seq=np.arange(FRAMES),
            stream_id=stream.stream_id,
            nonce=NONCE,
            time_ns=TIME_NS,
        )
        return frames

    def answer(self, stream: Stream, frames: U8) -> Expected:
        """What a correct device makes of frames of a stream, the first one first."""
        plugin = self.plugin
        if not isinstance(plugin, StatefulTechnology) or stream.role is not Role.FOREGROUND:
            return plugin.expect(self.direction, frames)
        initial, learned = (rows[: len(frames)] for rows in self._connections)
        if self.direction == "reverse":
            frames = _addressed(frames, learned)
        return plugin.connected(self.direction, frames, initial, learned)

    @cached_property
    def _connections(self) -> tuple[U8, U8]:
        """Frames that opened connections, and what the Responder learned of them."""
        other: Direction = "reverse" if self.direction == "forward" else "forward"
        ways = {
            self.direction: self,
            other: self.opposite or Case(self.plugin, self.size, other, self.what),
        }
        initial, answer = (ways[way].first(foreground(ways[way].streams)) for way in DIRECTIONS)
        answer = answer[:1]
        here, there = locate_endpoints(initial[0]), locate_endpoints(answer[0])
        learned = np.empty((FRAMES, len(there.swapped_row)), dtype=np.uint8)
        learned[:] = answer[:, there.row][:, there.swapped_row]
        if here.port(source=True) != here.port(source=False):
            learned[:, -2:] = initial[:, here.port(source=False)]
        return initial, learned


def foreground(streams: StreamSet) -> Stream:
    """The first foreground stream of a set."""
    return next(s for s in streams.streams if s.role is Role.FOREGROUND)


def _addressed(frames: U8, learned: U8) -> U8:
    """The Responder's template with the ports of learned connections, checksums valid."""
    out = frames.copy()
    ends = locate_endpoints(out[0])
    out[:, ends.port(source=True)] = learned[:, -2:]
    out[:, ends.port(source=False)] = learned[:, -4:-2]
    ends.write_checksum(out)
    return out


def exhausted(frame: bytes) -> bytes:
    """The same frame with a TTL and hop limit of 1 in every IP header."""
    out = bytearray(frame)
    for header in walk(frame):
        if header.name == "IPv6":
            out[header.start + 7] = 1
        elif header.name == "IPv4":
            out[header.start + 8] = 1
            row = np.frombuffer(bytes(out), dtype=np.uint8)[None].copy()
            write_ipv4_checksum(row, header.start)
            out = bytearray(row.tobytes())
    return bytes(out)


def cases(kind: type[Technology], params: PluginParams | None = None) -> Iterator[Case]:
    """Everything a plugin is tried with.

    Args:
        kind: the plugin.
        params: instead of its defaults.
    """
    plain = params if params is not None else kind.params_model()
    sizes = sorted({*kind.default_frame_sizes[:1], *kind.rfc_frame_sizes[:1]})
    sizes += kind.rfc_frame_sizes[-1:]
    for size in dict.fromkeys(sizes):
        yield from _both(kind(plain, Links()), size, "as it is")
    usual = kind.default_frame_sizes[0]
    yield from _both(kind(plain, Links()), f"imix:{usual}x7,{MORE}", "several sizes")
    full, words = _everything(plain)
    # room for background, which is IPv6 whatever the foreground is
    roomy = usual + 100
    yield from _both(kind(full, Links()), roomy, words)
    for left, right in ((LEFT_VLAN, None), (None, RIGHT_VLAN)):
        links = Links()
        links = Links(replace(links.left, vlan=left), replace(links.right, vlan=right))
        side = "left" if right is None else "right"
        yield from _both(kind(full, links), roomy, f"VLAN on the {side}, {words}")


def _both(plugin: Technology, size: int | str, what: str) -> Iterator[Case]:
    forward = Case(plugin, size, "forward", what)
    yield forward
    yield Case(plugin, size, "reverse", what, forward)


def _everything(params: PluginParams) -> tuple[PluginParams, str]:
    """The parameters with background and with frames that must be dropped, where there are any."""
    names = type(params).model_fields
    more: dict[str, Any] = {name: 20 for name in names if name.endswith("_percent")}
    words = ["frames that must be dropped"] if more else []
    values = {name: getattr(params, name) for name in params.model_fields_set} | more
    if params.mixture is not None and {"n", "m"} <= names.keys():
        try:
            return type(params)(**{**values, "n": 2, "m": 1}), " and ".join([*words, "background"])
        except UsageError:
            pass  # some cannot have any (MIX-03)
    return type(params)(**values), " and ".join(words) or "as it is"
