"""JSON form of trials and trial results, as the journal stores them.

Runs resume from journals of earlier versions, so keys never change. Where an attribute has another
name than its key, the tables below map one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from statistics import median_low
from typing import Any, TypeVar

from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.delays import Distribution
from v6t.trials.device_events import DeviceEvent
from v6t.trials.queries import Answers, Queries
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.tcp import Tcp, TcpCounts
from v6t.trials.timeline import MAX_SLOTS, DeviceLoad, Timeline
from v6t.trials.trial import DelayRequest, FlowStarts, Segment, Trial

T = TypeVar("T")


@dataclass(frozen=True)
class _Layout:
    """JSON object of a dataclass.

    Attributes:
        keys: keys that differ from the names of their attributes.
        optional: attributes that are left out while they have their default value.
        omitted: attributes that are never written.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    omitted: frozenset[str] = frozenset()


_LAYOUTS: Mapping[type, _Layout] = {
    Trial: _Layout(
        keys={"second_segment": "then", "device_event": "event", "flow_starts": "starts"},
        optional=frozenset({
            "delays", "frame_timeout_s", "second_segment", "device_event", "connections",
            "flow_starts", "queries", "mix",
        }),
        omitted=frozenset({"search_limit_fps"}),
    ),
    DelayRequest: _Layout(),
    Segment: _Layout(),
    DeviceEvent: _Layout(),
    FlowStarts: _Layout(),
    Queries: _Layout(
        keys={"cached_share": "cached", "native_aaaa_share": "own_aaaa", "is_selftest": "alone"},
    ),
    Connections: _Layout(keys={"reuse": "keep"}, optional=frozenset({"tcp"})),
    Tcp: _Layout(),
    TrialResult: _Layout(
        keys={"device_loads": "device", "is_disturbed": "disturbed"},
        optional=frozenset({"connections", "device_loads", "modifier", "is_disturbed"}),
    ),
    DirectionResult: _Layout(
        keys={
            "sending_time_error_s": "sending_error_s",
            "timeline": "course",
            "rate_change_error_s": "change_late_s",
        },
        optional=frozenset({
            "behaviour", "delays", "ipdv", "first_lost_s", "last_lost_s", "longest_gap_s",
            "sending_time_error_s", "timed_share", "timed_of", "timeline", "answers",
            "rate_change_error_s",
        }),
    ),
    ClassCount: _Layout(),
    PhaseOneResult: _Layout(
        keys={
            "duplicate_tuples": "repeated",
            "inside_endpoints": "inside",
            "outside_endpoints": "outside",
            "flush_s": "emptied_s",
            "idle_flush_s": "idle_emptied_s",
            "reused": "kept",
        },
        optional=frozenset({"by_endpoint", "tcp"}),
    ),
    TcpCounts: _Layout(keys={"expiry_s": "aged_s"}),
    Answers: _Layout(
        keys={
            "aaaa_queries": "aaaa",
            "a_queries": "a",
            "repeated_queries": "repeated",
            "other_queries": "other",
        },
    ),
    DeviceLoad: _Layout(
        keys={"end_times_s": "at_s", "max_percent": "busiest", "mean_percent": "mean"},
    ),
}  # fmt: skip


def _default(attribute: Field[Any]) -> Any:
    if attribute.default_factory is not MISSING:
        return attribute.default_factory()
    return attribute.default


_ATTRIBUTES = {
    kind: tuple(
        (f.name, layout.keys.get(f.name, f.name), f.name in layout.optional, _default(f))
        for f in fields(kind)
        if f.name not in layout.omitted
    )
    for kind, layout in _LAYOUTS.items()
}
_NAMES = {
    kind: {key: name for name, key, _, _ in attributes} for kind, attributes in _ATTRIBUTES.items()
}
TRIAL_DEFAULTS: Mapping[str, Any] = {
    key: default for _, key, _, default in _ATTRIBUTES[Trial] if default is not MISSING
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
    known = {key: value for key, value in data.items() if key in _NAMES[Connections]}
    return _decode_object(Connections, known, tcp=_decode_tcp)


def result_to_json(result: TrialResult) -> dict[str, Any]:
    """Return a trial result as a JSON object."""
    return _encode_object(result)


def result_from_json(data: Mapping[str, Any]) -> TrialResult:
    """Read a trial result from its JSON object.

    Raises:
        LookupError, TypeError, ValueError: the object is not a trial result.
    """
    return TrialResult(
        directions={name: _decode_direction(d) for name, d in data["directions"].items()},
        faults=tuple(data.get("faults", ())),
        started=data.get("started", ""),
        tester=data.get("tester", {}),
        connections=_decode_phase_one(data["connections"]) if data.get("connections") else None,
        device_loads={name: _decode_load(load) for name, load in data.get("device", {}).items()},
        modifier=_check_modifier(data.get("modifier", {})),
        is_disturbed=bool(data.get("disturbed", False)),
    )


def _encode(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, Distribution):
        return {
            "ns": list(value.values_ns),
            "n": list(value.counts),
            "lost": value.lost,
            "clamped": value.clamped,
        }
    if isinstance(value, Timeline):
        return {
            "slot_s": value.slot_s,
            "received": _compress(value.received),
            "lost": _compress(value.lost),
        }
    return _encode_object(value) if type(value) in _LAYOUTS else value


def _encode_object(value: Any) -> dict[str, Any]:
    encoded = {}
    for name, key, optional, default in _ATTRIBUTES[type(value)]:
        item = getattr(value, name)
        if not optional or item != default:
            encoded[key] = _encode(item)
    return encoded


def _decode_object(kind: type[T], data: Mapping[str, Any], **decoders: Any) -> T:
    """Make a dataclass of a JSON object; decoders by key convert values that are not None."""
    names = _NAMES[kind]
    values = {
        names.get(key, key): decoders[key](value)
        if key in decoders and value is not None
        else value
        for key, value in data.items()
    }
    return kind(**values)


def _decode_direction(data: Mapping[str, Any]) -> DirectionResult:
    known = {key: value for key, value in data.items() if key in _NAMES[DirectionResult]}
    return _decode_object(
        DirectionResult,
        known,
        classes=_decode_classes,
        delays=_decode_distributions,
        ipdv=_decode_distributions,
        course=_decode_timeline,
        answers=_decode_answers,
    )


def _decode_classes(data: Mapping[str, Any]) -> dict[str, ClassCount]:
    return {name: ClassCount(**count) for name, count in data.items()}


def _decode_distributions(data: Mapping[str, Any]) -> dict[str, Distribution]:
    return {
        name: Distribution(tuple(d["ns"]), tuple(d["n"]), d["lost"], d["clamped"])
        for name, d in data.items()
    }


def _decode_timeline(data: Mapping[str, Any]) -> Timeline:
    return Timeline(data["slot_s"], _expand(data["received"]), _expand(data["lost"]))


def _decode_answers(data: Mapping[str, Any]) -> Answers:
    return _decode_object(Answers, data)


def _decode_load(data: Mapping[str, Any]) -> DeviceLoad:
    return _decode_object(DeviceLoad, {key: tuple(values) for key, values in data.items()})


def _decode_phase_one(data: Mapping[str, Any]) -> PhaseOneResult:
    return _decode_object(PhaseOneResult, data, tcp=_decode_tcp_counts)


def _decode_tcp(data: Mapping[str, Any]) -> Tcp:
    return _decode_object(Tcp, data)


def _decode_tcp_counts(data: Mapping[str, Any]) -> TcpCounts:
    return _decode_object(TcpCounts, data)


def _compress(values: Sequence[int]) -> list[int]:
    """Return the number of values, the median and the differences from it up to the last one."""
    usual = median_low(values) if values else 0
    differences = [value - usual for value in values]
    while differences and not differences[-1]:
        differences.pop()
    return [len(values), usual, *differences]


def _expand(compressed: Sequence[int]) -> tuple[int, ...]:
    count, usual, *differences = compressed
    if not 0 <= len(differences) <= count <= MAX_SLOTS:
        raise ValueError(f"a timeline of {count} slots has {len(differences)} values")
    return tuple(usual + n for n in differences) + (usual,) * (count - len(differences))


_MODIFIER_COUNTERS: Mapping[str, Any] = {
    "times": int,
    "right": int,
    "slowest_s": (int, float),
    "what": str,
    "why": str,
}


def _check_modifier(data: Any) -> Mapping[str, Any]:
    """Return the counters of a modifier, which are either empty or complete."""
    if not isinstance(data, Mapping):
        raise TypeError(f"modifier {data!r}: must be an object")
    for name, kind in _MODIFIER_COUNTERS.items() if data else ():
        if not isinstance(data[name], kind):
            raise TypeError(f"modifier: {name} {data[name]!r} has the wrong type")
    return data
