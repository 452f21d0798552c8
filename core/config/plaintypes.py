"""What YAML makes of a value, against what a setting is: a number is no address, true no number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

ADDRESSES: dict[Any, str] = {
    IPv4Address: "192.0.2.1",
    IPv4Interface: "192.0.2.1/24",
    IPv4Network: "192.0.2.0/24",
    IPv6Address: "2001:db8::1",
    IPv6Interface: "2001:db8::1/64",
    IPv6Network: "2001:db8::/32",
}
"""Types of addresses, each with an example."""


class Mistyped(NamedTuple):
    """A value that would be taken for something else.

    Attributes:
        keys: the way to it.
        reason: what is wrong, a sentence without its subject.
        hint: what to write.
    """

    keys: tuple[str | int, ...]
    reason: str
    hint: str


def mistyped(model: type[BaseModel], data: Mapping[str, Any]) -> Iterator[Mistyped]:
    """Values that validation would accept and change: 12 as an address, true as the number 1.

    Args:
        model: what the data should be.
        data: plain values of a file.
    """
    for name, value in data.items():
        known = model.model_fields.get(name)
        if known is not None:
            for keys, reason, hint in _value(set(_leaves(known.annotation)), value):
                yield Mistyped((name, *keys), reason, hint)


def _value(kinds: set[Any], value: Any) -> Iterator[Mistyped]:
    if isinstance(value, Mapping):
        for model in kinds:
            if isinstance(model, type) and issubclass(model, BaseModel):
                yield from mistyped(model, value)
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            for keys, reason, hint in _value(kinds, item):
                yield Mistyped((number, *keys), reason, hint)
        return
    if Any in kinds or not isinstance(value, (int, float)):
        return
    shown = str(value).lower() if isinstance(value, bool) else f"the number {value}"
    example = next((ADDRESSES[kind] for kind in ADDRESSES if kind in kinds), "")
    if example and not (kinds & {int, float} and not isinstance(value, bool)):
        yield Mistyped((), f"an address is wanted, not {shown}", f"write for example {example}")
    elif isinstance(value, bool) and kinds & {int, float} and bool not in kinds:
        yield Mistyped((), f"a number is wanted, not {shown}", "")


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types a value may have in the end, whatever they are wrapped in."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        if not isinstance(part, (str, bytes)):  # the words of a Literal
            yield from _leaves(part)
