"""TCP connections of the embedded tester without frames: times, resets, ICMP errors, late segments."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from v6t.drivers.embedded.port import ClientPort
from v6t.drivers.embedded.sender import Pace
from v6t.drivers.embedded.tcp_ends import (
    ENDED,
    ENDING,
    OPEN,
    RESET,
    SENT,
    UNREACHABLE,
    ConnectionStates,
    TcpClient,
)
from v6t.profiles.tcp.http import REQUEST
from v6t.profiles.tcp.segments import ACK, FIN, RST, SegmentFields
from v6t.trials.tcp import Tcp


def test_max_wait_doubles_for_each_retransmission():
    assert replace(Tcp(), timeout_s=1.0, retransmissions=2).max_wait_s == 1 + 2 + 4


class SlowConnection(ClientPort):
    """Connection that processes received segments slowly."""

    def __init__(self):
        self.left = 0.0

    def _send(self, wanted):
        self._sent += wanted
        self.left = time.monotonic()

    def _drain(self):
        self.drained = time.monotonic()
        return 0

    def _is_ours(self, frames):
        raise AssertionError

    def _handle_frames(self, frames, times):
        raise AssertionError


def test_sending_time_ends_with_last_packet():
    asking = SlowConnection()
    asking._send_all(Pace(((20, 1000.0),)), time.monotonic())
    assert asking.left <= asking._sent_by <= asking.drained


class PortlessClient(TcpClient):
    """Client without a port, with connections 0 to 4."""

    def __init__(self, nonce: int) -> None:
        self.memory = ConnectionStates.make_file(5)
        layout = type("Layout", (), {"width": 12})()
        self._layout = layout
        self._begin_trial(self.memory.path, 5, nonce, Tcp())
        self._states.client[:] = SENT
        self._ends[:, -4:] = np.frombuffer(bytes((0, 1, 0, 2)), np.uint8)
        self._step = "open"

    def _reset_counters(self):
        pass

    _drain_all = _reset_counters


@pytest.fixture
def two_trials():
    made = PortlessClient(1), PortlessClient(2)
    yield made
    for one in made:
        one.memory.close()


def make_reset(flags, number, acknowledged):
    zeros = np.zeros(1, np.uint32)
    place = np.zeros(1, np.int64)
    no = np.zeros(1, bool)
    return SegmentFields(
        np.array([flags], np.uint8), number, acknowledged, zeros, zeros, no, place, place, no
    )


@pytest.mark.parametrize("said", [0, len(REQUEST)])
@pytest.mark.parametrize("acknowledges", [True, False])
def test_a_reset_without_timestamps_names_its_connection_and_its_trial(
    two_trials, said, acknowledges
):
    """RFC 9293, section 3.5.2, with and without ACK."""
    now, later = two_trials
    which, zeros = np.array([3]), np.zeros(1, np.uint32)
    heard = np.uint32(len(now._answer) if said else 0)
    if acknowledges:
        reset = make_reset(RST | ACK, zeros, now._compute_client_isns(which) + np.uint32(1 + said))
    else:
        reset = make_reset(RST, now._compute_server_isns(which) + np.uint32(1) + heard, zeros)
    bare = np.ones(1, bool)
    assert now._find_reset_connections(reset, bare).tolist() == [3]
    assert later._find_reset_connections(reset, bare).tolist() == [5]
    now._states.client[3] = 0
    assert now._find_reset_connections(reset, bare).tolist() == [5]


def test_foreign_icmp_errors_are_ignored(two_trials):
    now, later = two_trials
    ports = np.tile(np.array([0, 1, 0, 2], np.uint8), (5, 1))
    ports[2, 3] = 3
    each = np.arange(5)
    for beyond in (0, 1, 1 + len(REQUEST), 2 + len(REQUEST)):
        numbers = now._compute_client_isns(each) + np.uint32(beyond)
        assert now._find_quoted_connections(ports, numbers).tolist() == [0, 1, 3, 4]
        assert not len(later._find_quoted_connections(ports, numbers))


def test_icmp_error_refuses_opening_and_resets_open_connections(two_trials):
    client = two_trials[0]
    client._states.client[1] |= OPEN
    client._handle_resets(np.array([1, 3, 3]), UNREACHABLE)
    assert client._states.client.tolist() == [
        SENT,
        SENT | OPEN | RESET,
        SENT,
        SENT | UNREACHABLE,
        SENT,
    ]
    client._step = "ask"
    client._handle_resets(np.array([4]), UNREACHABLE)
    assert client._states.client[4] == SENT


def test_late_fin_is_ignored_but_unsolicited_fin_counts(two_trials, monkeypatch):
    client, answered = two_trials[0], []
    monkeypatch.setattr(client, "_reply", lambda which, *_, **__: answered.extend(which.tolist()))
    none, which = np.zeros(3, np.int64), np.array([1, 3, 4])
    finished = replace(make_reset(FIN | ACK, *np.zeros((2, 1), np.uint32)), data_octets=none)
    finished = replace(finished, flags=np.full(3, FIN | ACK, np.uint8))
    frames, known = np.zeros((3, 60), np.uint8), np.ones(3, bool)
    client._states.client[:] = [SENT, SENT | ENDING, SENT, SENT | ENDING, SENT]
    client._handle_data_and_fins(finished, frames, which, known, np.array([True, False, False]))
    assert answered == [1, 4]
    late = SENT | ENDING
    assert client._states.client.tolist() == [SENT, late | ENDED, SENT, late, SENT | ENDED]


def test_syn_retransmission_timeout_doubles(two_trials, monkeypatch):
    """RFC 6298, section 5.5; answered SYNs are not sent again."""
    client, sent, now = two_trials[0], [], [100.0]
    monkeypatch.setattr(client, "_emit", lambda which, *_: sent.append((now[0], which.tolist())))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    client._tcp, client._retransmitted, client._unanswered = Tcp(retransmissions=2), 0, []
    client._order = itertools.count()
    client._schedule(np.array([0, 1]), 0)
    now[0] = 100.5
    client._schedule(np.array([2, 3]), 0)
    client._states.client[1] |= OPEN
    for now[0] in (100.9, 101.0, 101.5, 102.9, 103.0, 103.5, 110.0):
        client._retransmit()
    assert sent == [(101.0, [0]), (101.5, [2, 3]), (103.0, [0]), (103.5, [2, 3])]
    assert client._retransmitted == 6
    assert not client._unanswered


def test_late_opening_is_not_established(two_trials):
    states = two_trials[0]._states
    states.client[:] |= OPEN
    states.server[:3] |= OPEN
    states.opened[0] = 2 * 10**9
    states.mark_established_connections(1.0)
    before = states.count(retransmitted=0, wrong=0)
    assert (before.established, before.half_open) == (2, 3)
    states.server[:] |= OPEN
    assert states.count(retransmitted=0, wrong=0) == before


def test_final_drain_reads_all_packets():
    slow = SlowConnection()
    there = [4096, 10, 4096, 0, 7]
    slow._drain = lambda: there.pop(0)
    slow._drain_all()
    assert there == [7]
