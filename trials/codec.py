"""JSON form of trials and trial results, as the journal stores them.

A key keeps its meaning; :data:`_JSON_KEYS` maps the attributes that have another name than their key.
"""

from __future__ import annotations

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


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as a JSON object without the parts that it does not ask for."""
    return _encode_object(trial)


def connections_to_json(connections: Connections) -> dict[str, Any]:
    """Return the connections of a trial as a JSON object with all keys."""
    encoded = _encode_object(connections)
    encoded.setdefault("tcp", None)
    return encoded


def connections_from_json(data: Mapping[str, Any]) -> Connections:
    """Read connections from a JSON object that may have other keys as well."""
    return _decode(Connections, data)


def result_to_json(result: TrialResult) -> dict[str, Any]:
    """Return a trial result as a JSON object."""
    return _encode_object(result)


def result_from_json(data: Mapping[str, Any]) -> TrialResult:
    """Read a trial result from its JSON object.

    Raises:
        LookupError, TypeError, ValueError: the object is not a trial result.
    """
    return _decode(TrialResult, data)


def _encode(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return _encode_object(value) if is_dataclass(value) else value


def _encode_object(value: Any) -> dict[str, Any]:
    encoded = {}
    for name, key, optional, default in list_attributes(type(value)):
        item = getattr(value, name)
        if not optional or item != default:
            encoded[key] = _encode(item)
    return encoded


@cache
def _map_keys(kind: type) -> Mapping[str, str]:
    """Return the attribute of each key."""
    return {key: name for name, key, *_ in list_attributes(kind)}


def _decode(kind: type[T], data: Mapping[str, Any]) -> T:
    """Decode a JSON object without the keys that are unknown."""
    names, decoders = _map_keys(kind), _list_decoders(kind)
    return kind(
        **{
            names[key]: decoders[key](value) if key in decoders and value is not None else value
            for key, value in data.items()
            if key in names
        }
    )


@cache
def _list_decoders(kind: type) -> Mapping[str, Callable[[Any], Any]]:
    """Return the decoders of values that JSON changes, by key."""
    hints = get_type_hints(kind)
    decoders = {key: _make_decoder(hints[name]) for name, key, *_ in list_attributes(kind)}
    used = {key: decode for key, decode in decoders.items() if decode is not None}
    return {**used, **_SPECIAL_DECODERS.get(kind, {})}


def _make_decoder(hint: Any) -> Callable[[Any], Any] | None:
    """Return the decoder of a type, or None if JSON does not change its values."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return partial(_decode, hint)
    if origin is tuple:
        return tuple
    if origin is UnionType:
        return next(filter(None, map(_make_decoder, arguments)), None)
    if origin is Mapping and (decode := _make_decoder(arguments[1])) is not None:
        return lambda data: {name: decode(item) for name, item in data.items()}
    return None


def _check_modifier(data: Any) -> Mapping[str, Any]:
    """Return the counters of a modifier, which are either empty or complete."""
    if not isinstance(data, Mapping):
        raise TypeError(f"modifier {data!r}: must be an object")
    for name, kind in _MODIFIER_COUNTERS.items() if data else ():
        if not isinstance(data[name], kind):
            raise TypeError(f"modifier: {name} {data[name]!r} has the wrong type")
    return data


_MODIFIER_COUNTERS: Mapping[str, Any] = {
    "times": int, "right": int, "slowest_s": (int, float), "what": str, "why": str,
}  # fmt: skip
_SPECIAL_DECODERS: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    TrialResult: {"modifier": _check_modifier},
}
