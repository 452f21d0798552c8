"""What a plugin says of itself: a name, sizes that exist, parameters with words, and that it pickles."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.base.strict_model import descriptions
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.conformance.cases import Case

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


def declared(kind: type[Technology]) -> Iterator[str]:
    """What is missing or wrong in the class."""
    for what, value in (("name", kind.name), ("title", kind.title), ("rfcs", kind.rfcs)):
        if not value:
            yield f"{what} is empty"
    if not kind.default_frame_sizes:
        yield "default_frame_sizes is empty"
    if not kind.drop_reasons or kind.drop_reasons[0] != "forwarded":
        yield "drop_reasons does not begin with 'forwarded'"
    words = descriptions(kind.params_model)
    for name, field in kind.params_model.model_fields.items():
        if not words[name].strip():
            yield f"parameter '{name}' has no description"
        if field.is_required():
            yield f"parameter '{name}' has no default"


def described(plugin: Technology) -> Iterator[str]:
    """What is missing or wrong in an instance with its default parameters."""
    for size in (*plugin.default_frame_sizes, *plugin.rfc_frame_sizes):
        try:
            pair = plugin.frame_pair(size)
        except UsageError as exc:
            yield f"frame_pair refuses its own frame size of {size} octets: {exc.message}"
            continue
        difference = pair.ipv6 - pair.ipv4
        if set(plugin.ip_versions) == {4, 6} and difference != plugin.overhead:
            yield f"frame_pair({size}) differs by {difference}, overhead says {plugin.overhead}"
    intent = plugin.dut_intent()
    if intent.technology != plugin.name:
        yield f"dut_intent() is of '{intent.technology}'"
    if not isinstance(intent.configuration, DeviceConfig):
        yield f"the configuration of dut_intent() is {intent.configuration!r}, not a DeviceConfig"


def pickled(plugin: Technology) -> Iterator[str]:
    """A plugin goes to other processes: what arrives there must be the same."""
    try:
        other = pickle.loads(pickle.dumps(plugin))  # noqa: S301  (made here)
    except Exception as exc:  # noqa: BLE001  (anything may fail here, and is told)
        yield f"it cannot be pickled: {type(exc).__name__}: {exc}"
        return
    if (other.params, other.links) != (plugin.params, plugin.links):
        yield "parameters or links are others after pickling"
        return
    size = plugin.default_frame_sizes[0]
    for direction in DIRECTIONS:
        mine, its = (Case(p, size, direction, "") for p in (plugin, other))
        if mine.streams != its.streams:
            yield "it sends other frames after pickling"
            return
        for stream in mine.streams.streams:
            frames = mine.marked(stream)
            answer, again = mine.answer(stream, frames), its.answer(stream, frames)
            if (answer.length != again.length).any() or (answer.frames != again.frames).any():
                yield "it answers otherwise after pickling"
                return
