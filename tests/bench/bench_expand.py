"""Frames per second on one core: expander, stamp, reference translation.

``python -m v6t.tests.bench.bench_expand``
"""

from __future__ import annotations

import numpy as np
from v6t.packets import trailer
from v6t.profiles.expand import Expander

from .common import in_turn, rate, show, streams

BLOCK = 4096


def main() -> None:
    """Print the figures; nothing is asserted."""
    works = {}
    for direction in ("forward", "reverse"):
        plugin, compiled = streams(direction)
        expander = Expander(compiled.streams[0])
        out = np.empty((BLOCK, expander.length), dtype=np.uint8)

        def expand(expander=expander, out=out):
            expander.frames(0, BLOCK, out)
            return BLOCK

        def stamp(expander=expander):
            rows = expander.frames(0, BLOCK)
            trailer.stamp(
                rows,
                expander.checksum,
                seq=np.arange(BLOCK, dtype=np.uint32),
                stream_id=1,
                nonce=1,
                time_ns=1,
            )
            return BLOCK

        frames = expander.frames(0, BLOCK)

        def expect(plugin=plugin, frames=frames, direction=direction):
            plugin.expect(direction, frames)
            return BLOCK

        works[f"{direction}: expand"] = lambda w=expand: rate(w)
        works[f"{direction}: expand and stamp"] = lambda w=stamp: rate(w)
        works[f"{direction}: reference translation"] = lambda w=expect: rate(w)
    show("MAP-E, 104/64 octets, one process", in_turn(works, 3), "frames/s")


if __name__ == "__main__":
    main()
