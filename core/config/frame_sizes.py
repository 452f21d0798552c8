"""A frame size as a user writes it: octets, or a mix of several (RFC 6985)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from v6t.profiles.mixes import is_mix, normalize_mix


def frame_size(value: Any) -> int | str:
    """Octets as a number, a mix with its sizes.

    Raises:
        UsageError: a mix that is none.
        PydanticCustomError: anything else that is no whole number.
    """
    if isinstance(value, str) and is_mix(value):
        return normalize_mix(value)
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        raise PydanticCustomError("int_type", "must be a whole number")
    try:
        number = int(value)
    except ValueError:
        raise PydanticCustomError("int_parsing", "must be a whole number") from None
    if isinstance(value, float) and number != value:
        raise PydanticCustomError("int_from_float", "must be a whole number")
    return number


FrameSize = Annotated[
    int | str,
    PlainValidator(frame_size),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]
