"""The trailer of a test frame: its last 16 octets, laid out as TRex's latency header, ``<BBHIQ``.

Magic 0xAB, the trial's nonce, stream id, sequence number within the stream, time stamp. Translation and
encapsulation leave the end of a frame alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from v6t.packets.checksum import sum_columns, swap_octets, write_update

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LENGTH = 16  # octets
MAGIC = 0xAB  # first octet of each trailer


@cache
def _make_dtype() -> np.dtype[np.void]:
    """Return the layout of a trailer; the compiler imports this module without NumPy."""
    import numpy as np

    names = ["magic", "nonce", "stream_id", "seq", "time_ns"]
    return np.dtype({"names": names, "formats": ["u1", "u1", "<u2", "<u4", "<u8"]})


@dataclass(frozen=True)
class Checksum:
    """The checksum that covers the end of a stream's frames, where the tester writes the trailer."""

    protocol: str  # scapy's name of the header that contains it (``UDP``, ``TCP``, ``GRE`` ...)
    network: int | None  # octet where the next outer IP header begins, or None without one
    header: int  # octet where its own header begins; it covers everything from there on
    field: int  # octet of the checksum


@dataclass(frozen=True)
class Trailers:
    """Trailers of ``(n, length)`` frames, each field ``(n,)``; only rows with ``magic_ok`` are valid."""

    magic_ok: NDArray[np.bool_]
    nonce: NDArray[np.uint8]
    stream_id: NDArray[np.uint16]
    seq: NDArray[np.uint32]
    time_ns: NDArray[np.uint64]


def stamp(
    frames: NDArray[np.uint8],
    checksum: Checksum | None,
    *,
    seq: NDArray[np.integer],
    stream_id: int | NDArray[np.integer],
    nonce: int | NDArray[np.integer],
    time_ns: int | NDArray[np.integer],
) -> None:
    """Write trailers into frames whose last 16 octets are zero, and keep their checksums valid.

    Fields of the trailer are ``(n,)`` or one for all.
    """
    import numpy as np

    length = frames.shape[1]
    trailers = np.empty(len(frames), _make_dtype())
    trailers["magic"], trailers["nonce"], trailers["stream_id"] = MAGIC, nonce, stream_id
    trailers["seq"], trailers["time_ns"] = seq, time_ns
    octets = trailers.view(np.uint8).reshape(-1, LENGTH)
    frames[:, length - LENGTH :] = octets
    if checksum is None:
        return
    after = sum_columns(octets, 0, LENGTH)
    if (length - LENGTH - checksum.header) % 2:
        after = swap_octets(after)
    write_update(frames, checksum.field, 0, after, udp=checksum.protocol == "UDP")


def read(frames: NDArray[np.uint8]) -> Trailers:
    """Read the trailers of all rows, which must not be shorter than a trailer."""
    import numpy as np

    octets = np.ascontiguousarray(frames[:, frames.shape[1] - LENGTH :])
    trailers = octets.view(_make_dtype())[:, 0]
    fields = {name: trailers[name] for name in ("nonce", "stream_id", "seq", "time_ns")}
    return Trailers(magic_ok=trailers["magic"] == MAGIC, **fields)
