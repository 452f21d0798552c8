"""Names in single DNS messages, in whatever form they stand there."""

from __future__ import annotations


def read_name(message: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    """A name in lower case, pointers followed (RFC 1035 section 4.1.4), and the octet after it.

    Raises:
        IndexError, ValueError: it ends behind the message.
    """
    labels: list[bytes] = []
    end = None
    for _ in range(len(message)):
        length = message[at]
        if length >= 0xC0:
            end = at + 2 if end is None else end
            at = (length & 0x3F) << 8 | message[at + 1]
        elif not length:
            return tuple(labels), at + 1 if end is None else end
        else:
            label = message[at + 1 : at + 1 + length]
            if len(label) < length or length > 63:
                raise ValueError("a label ends behind the message")
            labels.append(label.lower())
            at += 1 + length
    raise ValueError("a name without end")
