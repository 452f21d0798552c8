"""Trailers that a stream's own program writes: they tell frames apart where TRex's stamps run out.

TRex stamps 128 streams. A frame marked here ends like a stamped one, with the magic octet, but its
stream number has its highest bit set, which TRex's receiver passes over; a capture filter counts
it. There is no time in it. The number within the stream, in network byte order, stands where TRex's
does as far as programs reach (octet 512); of longer frames it stands before the trailer, at a fixed
distance from the frame's end, which translation leaves alone.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.packets import trailer
from v6t.packets.checksum import sum_columns, write_update
from v6t.packets.headers import to_numbers, to_octets
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.streams import Checksum, Stream, StreamSet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64, U8

FIRST = 1 << 15
"""Stream numbers from here on are of marked streams."""
CLASS = 1 << 12
"""Marked streams of each of eight classes: their numbers follow each other."""
COUNTED = f"ether[len - 16] = {trailer.MAGIC} and ether[len - 13] & 128 != 0"
"""Capture filter for marked frames."""
STAMPED = f"ether[len - 16] = {trailer.MAGIC} and ether[len - 13] & 128 = 0"
"""Capture filter for those that TRex stamped."""
_NUMBER = "mark-number"
NUMBER_OCTETS = 4


def is_marked(stream: Stream) -> bool:
    """Whether a stream is told by a mark of its own, not by TRex's stamp."""
    return stream.stream_id >= FIRST


def class_of(stream: Stream) -> int:
    """Which of eight classes a marked stream's number is of."""
    return (stream.stream_id - FIRST) // CLASS


def counted(number: int, nonce: int = 0) -> str:
    """Capture filter for the marked frames of one of eight classes in a trial with a nonce."""
    high = FIRST + number * CLASS >> 8
    return (
        f"ether[len - 16] = {trailer.MAGIC} and ether[len - 15] = {nonce} "
        f"and ether[len - 13] & 240 = {high}"
    )


def far_of(streams: StreamSet) -> int:
    """:func:`distance` of the marked frames of a direction; 0: none is marked."""
    for stream in streams.streams:
        if is_marked(stream):
            return distance(len(base64.b64decode(stream.trex["packet"]["binary"])))
    return 0


def distance(length: int) -> int:
    """Octets from the number to the end of a frame that is sent with so many octets."""
    reach = length - trailer.LENGTH + 4
    if reach + NUMBER_OCTETS <= ins.MAX_OFFSET:
        return length - reach
    return length - (ins.MAX_OFFSET - trailer.LENGTH)


def marked(stream: Stream) -> Stream:
    """The stream with its mark: in its frame, and the number of each frame in its program.

    Args:
        stream: its identifier is what the mark says.
    """
    packet = bytearray(base64.b64decode(stream.trex["packet"]["binary"]))
    end = len(packet)
    packet[end - trailer.LENGTH :] = bytes(trailer.LENGTH)
    packet[end - trailer.LENGTH] = trailer.MAGIC
    packet[end - 14 : end - 12] = stream.stream_id.to_bytes(2, "little")
    count = ins.flow_var(_NUMBER, NUMBER_OCTETS, "inc", 0, (1 << 32) - 1)
    place = ins.write(_NUMBER, end - distance(end))
    vm: Mapping[str, Any] = stream.trex["vm"]
    trex = {
        **stream.trex,
        "packet": {**stream.trex["packet"], "binary": base64.b64encode(packet).decode()},
        "vm": {**vm, "instructions": [count, place, *vm["instructions"]]},
    }
    return replace(stream, trex=trex)


def read(frames: U8, far: int) -> tuple[NDArray[np.bool_], I64, I64]:
    """Which frames are marked, by which stream number, and their numbers within the stream.

    Args:
        frames: ``(n, length)`` as received.
        far: :func:`distance` of the frames as they were sent.
    """
    length = frames.shape[1]
    if length < max(far, trailer.LENGTH):
        nothing = np.zeros(len(frames), dtype=np.int64)
        return nothing.astype(bool), nothing, nothing
    trailers = trailer.read(frames)
    stream = trailers.stream_id.astype(np.int64)
    at = length - far
    number = to_numbers(frames[:, at : at + NUMBER_OCTETS]).astype(np.int64)
    return trailers.magic_ok & (stream >= FIRST), stream, number


def sample_filter(frames: int, wanted: int, far: int, nonce: int = 0) -> str:
    """Capture filter that keeps about ``wanted`` of ``frames`` marked frames, spread over the trial.

    Args:
        frames: of each stream.
        wanted: of them.
        far: :func:`distance` of the frames as they are sent.
        nonce: of the trial.
    """
    mask = (1 << max(0, (frames // max(1, wanted)).bit_length() - 1)) - 1
    terms = [
        f"ether[len - {far - 3 + octet}] & {mask >> 8 * octet & 0xFF} = 0"
        for octet in range(4)
        if mask >> 8 * octet & 0xFF
    ]
    return " and ".join([COUNTED, f"ether[len - 15] = {nonce}", *terms])


def put_number(frames: U8, numbers: I64, checksum: Checksum | None) -> None:
    """Write the numbers of frames that are too long for the trailer's field, checksums kept valid.

    Of others the trailer holds them, and nothing is done.
    """
    length = frames.shape[1]
    far = distance(length)
    if far < trailer.LENGTH:
        return
    at = length - far
    first = at if checksum is None else at - (at - checksum.header) % 2
    before = sum_columns(frames, first, first + 6)
    frames[:, at : at + NUMBER_OCTETS] = to_octets(numbers, NUMBER_OCTETS)
    if checksum is not None:
        after = sum_columns(frames, first, first + 6)
        write_update(frames, checksum.field, before, after, udp=checksum.protocol == "UDP")
