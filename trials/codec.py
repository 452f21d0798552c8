"""JSON form of trials and trial results, as the journal stores them.

A key keeps its meaning; :data:`_JSON_KEYS` maps the attributes that have another name than their key.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from v6t.trials.connections import Connections, PhaseOneResult, TcpCounts
from v6t.trials.delays import Distribution
from v6t.trials.result import Answers, DeviceLoad, DirectionResult, TrialResult
from v6t.trials.trial import Queries, Trial

T = TypeVar("T")

_JSON_KEYS: Mapping[type, Mapping[str, str]] = {
    Trial: {"second_segment": "then", "device_event": "event", "flow_starts": "starts"},
    Queries: {"cached_share": "cached", "native_aaaa_share": "own_aaaa", "is_selftest": "alone"},
    Connections: {"reuse": "keep"},
    Distribution: {"values_ns": "ns", "counts": "n"},
    TrialResult: {"device_loads": "device", "is_disturbed": "disturbed"},
    DirectionResult: {
        "sending_time_error_s": "sending_error_s",
        "rate_change_error_s": "change_late_s",
    },
    PhaseOneResult: {
        "duplicate_tuples": "repeated",
        "inside_endpoints": "inside",
        "outside_endpoints": "outside",
        "flush_s": "emptied_s",
        "idle_flush_s": "idle_emptied_s",
        "reused": "kept",
    },
    TcpCounts: {"expiry_s": "aged_s"},
    Answers: {
        "aaaa_queries": "aaaa",
        "a_queries": "a",
        "repeated_queries": "repeated",
        "other_queries": "other",
    },
    DeviceLoad: {"end_times_s": "at_s", "max_percent": "busiest", "mean_percent": "mean"},
}
_OPTIONAL_ATTRIBUTES: Mapping[type, frozenset[str]] = {
    Trial: frozenset({
        "delays", "frame_timeout_s", "second_segment", "device_event", "connections", "flow_starts",
        "queries", "mix",
    }),
    Connections: frozenset({"tcp"}),
    TrialResult: frozenset({"connections", "device_loads", "modifier", "is_disturbed"}),
    DirectionResult: frozenset({
        "behaviour", "delays", "ipdv", "first_lost_s", "last_lost_s", "longest_gap_s",
        "sending_time_error_s", "timed_share", "timed_of", "timeline", "answers",
        "rate_change_error_s",
    }),
    PhaseOneResult: frozenset({"by_endpoint", "tcp"}),
}  # fmt: skip
"""Attributes that are left out while they have their default value."""
_OMITTED_ATTRIBUTES = {(Trial, "search_limit_fps")}


@cache
def list_attributes(kind: type) -> tuple[tuple[str, str, bool, Any], ...]:
    """Return name, key and default of each attribute, and whether it is optional."""
    keys, optional = _JSON_KEYS.get(kind, {}), _OPTIONAL_ATTRIBUTES.get(kind, ())
    return tuple(
        (
            f.name,
            keys.get(f.name, f.name),
            f.name in optional,
            f.default if f.default_factory is MISSING else f.default_factory(),
        )
        for f in fields(kind)
        if (kind, f.name) not in _OMITTED_ATTRIBUTES
    )


TRIAL_DEFAULTS: Mapping[str, Any] = {
    key: default for _, key, _, default in list_attributes(Trial) if default is not MISSING
}
"""Values of keys that the journal's trials may leave out."""


def encode(value: Any) -> Any:
    """Return a trial, a result or a part of one as JSON values."""
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if not is_dataclass(value):
        return value
    encoded = {}
    for name, key, optional, default in list_attributes(type(value)):
        item = getattr(value, name)
        if not optional or item != default:
            encoded[key] = encode(item)
    return encoded


def decode(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return an object from its JSON values; ignore unknown keys.

    Raises:
        LookupError, TypeError, ValueError: ``data`` is not such an object.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{kind.__name__} {data!r:.80}: must be an object")
    values = {}
    for key, (name, decode_value) in _list_decoders(kind).items():
        if key in data:
            value = data[key]
            values[name] = value if value is None or decode_value is None else decode_value(value)
    return kind(**values)


@cache
def _list_decoders(kind: type) -> Mapping[str, tuple[str, Callable[[Any], Any] | None]]:
    """Return the attribute of each key, with the decoder of its values if JSON changes them."""
    hints = get_type_hints(kind)
    return {key: (name, _make_decoder(hints[name])) for name, key, *_ in list_attributes(kind)}


def _make_decoder(hint: Any) -> Callable[[Any], Any] | None:
    """Return the decoder of a type, or None if JSON does not change its values."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return partial(decode, hint)
    if origin is tuple:
        return tuple
    if origin is UnionType:
        return next(filter(None, map(_make_decoder, arguments)), None)
    if origin is Mapping and (decode_item := _make_decoder(arguments[1])) is not None:
        return lambda data: {name: decode_item(item) for name, item in data.items()}
    return None
