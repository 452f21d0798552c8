"""JSON of trials and results: keys never change, because runs resume from journals."""

import json

import pytest
from v6t.trials.codec import decode, encode
from v6t.trials.connections import Connections, Tcp
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import DelayRequest, DeviceEvent, FlowStarts, Queries, Segment, Trial

TRIAL = (
    '{"benchmark": "x", "key": "k", "ipv6_frame_size": 104, "ipv4_frame_size": 84.5, '
    '"mode": "forward", "rate_fps": 1000.0, "duration_s": 60.0, "residual_wait_s": 2.0, '
    '"pause_s": 10.0, "delays": {"tags": 500, "first_tag_s": 60.0, "ipdv": false}, '
    '"frame_timeout_s": 0.1, "then": {"rate_fps": 500.0, "duration_s": 4.0}, '
    '"event": {"hook": "software-reset", "at_s": 2.5}, "connections": {"count": 4000, '
    '"rate_cps": 1000.0, "wait_s": 0.5, "gap_s": 0.0, "alpha": 0.5, "entries": 100, '
    '"reading": "linear", "keep": true, "purpose": "tear-down", "tcp": {"object_octets": 64, '
    '"timeout_s": 1.0, "retransmissions": 0, "closing": "rst", "aging_s": 3.0}}, '
    '"starts": {"flows": 3, "interval_s": 0.5}, "queries": {"cached": 0.2, "own_aaaa": 0.1, '
    '"timeout_s": 1.0, "cached_names": 1000, "alone": false}, "mix": "84/64x28,1518/1498x4"}'
)
RESULT = (
    '{"directions": {"forward": {"classes": {"fg": {"role": "foreground", "required": 9, '
    '"sent": 9, "received": 8, "surplus": 1, "out_of_order": 2, "late": 3}}, '
    '"sending_time_s": 1.0, "control": 4, "checked": 3, "matched": 2, '
    '"mismatch": {"class": "fg", "why": "x"}, "behaviour": {"b": 3}, "missing": {"class": "fg"}, '
    '"delay_us": {"min": 1.5}, "delays": {"fg": {"ns": [5, 7], "n": [2, 1], "lost": 1, '
    '"clamped": 1}}, "ipdv": {"fg": {"ns": [0], "n": [1], "lost": 2, "clamped": 0}}, '
    '"first_lost_s": 0.0, "last_lost_s": 0.5, "longest_gap_s": 0.25, "sending_error_s": 0.001, '
    '"timed_share": 0.5, "timed_of": "load", "timeline": {"slot_s": 0.5, '
    '"received": [4, 4, 3], "lost": [0, 1]}, "answers": {"reasons": {"late": 2}, '
    '"aaaa": 1, "a": 2, "repeated": 3, "other": 4, "cached_names": 5}, "change_late_s": -1e-05}}, '
    '"faults": ["slow"], "started": "2026-01-01T00:00:00Z", "tester": {"counting": "trailer"}, '
    '"connections": {"required": 4000, "sent": 4001, "learned": 3999, "surplus": 1, "repeated": 2, '
    '"sending_time_s": 4.0, "validation_sent": 3999, "validated": 3998, "validation_time_s": 8.0, '
    '"inside": 100, "outside": 120, "sessions_before": 0, "sessions": 3999, "by_endpoint": true, '
    '"gap_s": 0.5, "age_s": 12.0, "emptied_s": 1.5, "idle_emptied_s": 0.25, "kept": true, '
    '"device": {"timeout_s": 300.0}, "example": {"a": 1}, "tcp": {"attempted": 10, '
    '"established": 8, "half_open": 1, "reset_refused": 1, "icmp_refused": 0, "timed_out": 0, '
    '"retransmitted": 2, "reset_later": 1, "wrong": 1, "requested": 8, "answered": 7, "closed": 6, '
    '"fastest_s": 0.1, "slowest_s": 0.3, "mean_s": 0.2, "sum_s": 1.6, "sessions_after": 0, '
    '"aged_s": 2.0}}, "device": {"router": {"at_s": [1.0, 2.1], "busiest": [97, 100], '
    '"mean": [50, 51]}}, "modifier": {"times": 3, "right": 2, "slowest_s": 0.5, "what": "snmp", '
    '"why": "timeout"}, "disturbed": true}'
)
PLAIN_RESULT = (
    '{"directions": {"forward": {"classes": {"fg": {"role": "foreground", "required": 9, '
    '"sent": 9, "received": 8, "surplus": 0, "out_of_order": 0, "late": 0}}, '
    '"sending_time_s": 1.0, "control": 0, "checked": 0, "matched": 0, "mismatch": null, '
    '"missing": null, "delay_us": null}}, "faults": [], "started": "", "tester": {}}'
)


def test_complete_trial_has_stored_format():
    trial = Trial(
        "x", "k", 104, 84.5, "forward", 1000.0, 60.0,
        delays=DelayRequest(500, 60.0), frame_timeout_s=0.1, second_segment=Segment(500.0, 4.0),
        device_event=DeviceEvent("software-reset", 2.5),
        connections=Connections(
            4000, 1000.0, alpha=0.5, entries=100, reading="linear", reuse=True,
            purpose="tear-down", tcp=Tcp(aging_s=3.0),
        ),
        flow_starts=FlowStarts(3, 0.5), queries=Queries(0.2, 0.1), search_limit_fps=5.0,
        mix="84/64x28,1518/1498x4",
    )  # fmt: skip
    assert json.dumps(encode(trial)) == TRIAL


def test_plain_trial_is_written_without_optional_keys():
    written = encode(Trial("x", "k", 104, 84, "forward", 1000.0, 60.0))
    assert list(written)[-3:] == ["duration_s", "residual_wait_s", "pause_s"]


@pytest.mark.parametrize("line", [RESULT, PLAIN_RESULT])
def test_result_round_trip_keeps_stored_format(line):
    assert json.dumps(encode(decode(TrialResult, json.loads(line)))) == line


def test_result_attributes_are_read_from_their_keys():
    result = decode(TrialResult, json.loads(RESULT))
    assert result.is_disturbed
    assert result.directions["forward"].timeline.received == (4, 4, 3)
    assert result.directions["forward"].rate_change_error_s == -1e-5
    assert result.connections.duplicate_tuples == 2
    assert result.connections.tcp.expiry_s == 2.0
    assert result.device_loads["router"].max_percent == (97, 100)


def test_result_without_optional_parts_has_their_defaults():
    counts = {"fg": ClassCount("foreground", 9, 9, 8)}
    assert decode(TrialResult, json.loads(PLAIN_RESULT)) == TrialResult(
        {"forward": DirectionResult(counts, 1.0)}
    )


@pytest.mark.parametrize("changes", [
    {"directions": {"forward": {"classes": {"fg": {}}, "sending_time_s": 1}}},
    {"directions": {"forward": {"classes": {}, "sending_time_s": 1, "answers": []}}},
    {"modifier": []}, {"modifier": {"times": 1}},
    {"modifier": {"times": "1", "right": 1, "slowest_s": 0, "what": "", "why": ""}},
])  # fmt: skip
def test_damaged_result_is_rejected(changes):
    with pytest.raises(TypeError):
        decode(TrialResult, {**json.loads(PLAIN_RESULT), **changes})


def test_connections_are_read_from_conditions_with_other_keys():
    connections = Connections(4000, 1000.0, reuse=True)
    written = encode(connections)
    assert decode(Connections, {**written, "delay_s": 1.0}) == connections
