"""The mark at the end of a test frame: its last 16 octets, laid out as TRex's latency header.

``<BBHIQ``: magic 0xAB, flow sequence (the trial's nonce), hardware id (stream id), sequence
number within the stream, time stamp. Translation and encapsulation leave the end of a frame
alone, so it identifies test frames wherever headers are rewritten (GEN-24, TRX-02, TRX-03).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LENGTH = 16
MAGIC = 0xAB


@dataclass(frozen=True)
class Checksum:
    """The checksum that covers the end of a stream's frames, where the tester writes its mark.

    Attributes:
        protocol: scapy's name of the header it stands in (``UDP``, ``TCP``, ``GRE`` ...).
        network: octet where the IP header below begins; None: there is none.
        header: octet where its own header begins; it covers all from there on.
        field: octet of the checksum.
    """

    protocol: str
    network: int | None
    header: int
    field: int


@dataclass(frozen=True)
class Marks:
    """Trailers of ``(n, length)`` frames, each ``(n,)``.

    Attributes:
        magic_ok: the magic octet is there; the other fields mean nothing where it is not.
        nonce, stream_id, seq: as stamped.
        time_ns: the sender's time stamp [ns].
    """

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
    """Write trailers into blank frames and keep their checksums valid.

    Blank means that the last 16 octets are zero, as the compiler leaves them.

    Args:
        frames: ``(n, length)``, rows may be strided; changed in place.
        checksum: that covers the trailer (all rows alike); None: none does.
        seq: ``(n,)`` sequence numbers.
        stream_id: 0..127, one for all or ``(n,)``.
        nonce: 0..255, one for all or ``(n,)``.
        time_ns: time stamp [ns], one for all or ``(n,)``.
    """
    import numpy as np

    count, length = frames.shape
    marks = np.empty((count, 8), dtype="<u2")
    marks[:, 0] = MAGIC | np.asarray(nonce, dtype=np.uint16) << 8
    marks[:, 1] = stream_id
    marks[:, 2:4] = np.asarray(seq).astype("<u4").view("<u2").reshape(count, 2)
    if isinstance(time_ns, int):
        marks[:, 4:8] = np.array([time_ns], dtype="<u8").view("<u2")
    else:
        marks[:, 4:8] = np.asarray(time_ns).astype("<u8").view("<u2").reshape(count, 4)
    frames[:, length - LENGTH :] = marks.view(np.uint8)
    if checksum is None:
        return
    sums = marks.sum(axis=1, dtype=np.uint32)
    # the sum of swapped words is the swapped sum (RFC 1071): little-endian words above
    sums = (sums & 0xFFFF) + (sums >> 16)
    sums = (sums & 0xFFFF) + (sums >> 16)
    if (length - LENGTH - checksum.header) % 2 == 0:
        sums = (sums >> 8) | ((sums & 0xFF) << 8)
    field = frames[:, checksum.field : checksum.field + 2].view(">u2")[:, 0]
    sums += ~field.astype(np.uint32) & 0xFFFF
    sums = (sums & 0xFFFF) + (sums >> 16)
    sums = (sums & 0xFFFF) + (sums >> 16)
    value = ~sums & 0xFFFF
    if checksum.protocol == "UDP":
        value[value == 0] = 0xFFFF  # RFC 768: zero means "no checksum"
    field[:] = value


def read(frames: NDArray[np.uint8]) -> Marks:
    """Trailers of all rows; rows shorter than a trailer are the caller's business."""
    import numpy as np

    tail = np.ascontiguousarray(frames[:, frames.shape[1] - LENGTH :])
    return Marks(
        magic_ok=tail[:, 0] == MAGIC,
        nonce=tail[:, 1],
        stream_id=tail[:, 2:4].view("<u2")[:, 0],
        seq=tail[:, 4:8].view("<u4")[:, 0],
        time_ns=tail[:, 8:16].view("<u8")[:, 0],
    )
