"""Parts of the embedded tester without real frames: TCP client, sender, receiver and phases."""

import itertools
import time
from contextlib import closing
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from v6t.base.errors import DutError
from v6t.base.log_levels import NOTICE
from v6t.drivers.embedded import port, receiver, sender, tcp_ends
from v6t.drivers.embedded import tester as tester_module
from v6t.drivers.embedded.dns import QueryNames
from v6t.drivers.embedded.port import ClientPort
from v6t.drivers.embedded.receiver import Receiver, ReceiverConnections
from v6t.drivers.embedded.sender import BATCH, MAX_BURST_S, TIMED_BATCH, Sender
from v6t.drivers.embedded.tcp_ends import ENDED, ENDING, OPEN, RESET, SENT, UNREACHABLE
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.embedded.timing import Pace, TimedTrial
from v6t.drivers.lab import setup
from v6t.drivers.oracle.connection_oracle import ConnectionTable
from v6t.intent.device import Links
from v6t.packets import trailer
from v6t.profiles.tcp.http import REQUEST
from v6t.profiles.tcp.segments import ACK, FIN, RST
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.trials.connections import Connections, Tcp
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

from .lab_testers import compile_plugin, make_stamped_frames

FRAMES = 100
PLUGIN, STREAMS = compile_plugin("nat44", 84)
(STREAM,) = STREAMS["forward"].streams
PHASE_ONE = Trial("t", "t", 84, 84, "forward", 1000.0, 0.1, 0.1, 0.0)


class RecordingClient(ClientPort):
    """Client port that records the times of sending and of reading, and receives no frames."""

    _select_exchange_frames = _handle_frames = None

    def __init__(self):
        self.sent_at_s = 0.0

    def _send(self, count):
        self._sent += count
        self.sent_at_s = time.monotonic()

    def _drain(self):
        self.drained_at_s = time.monotonic()
        return 0


def test_sending_time_ends_with_last_packet():
    client = RecordingClient()
    client._send_all(Pace(((20, 1000.0),)), time.monotonic())
    assert client.sent_at_s <= client._sent_by <= client.drained_at_s


class PortlessClient(tcp_ends.TcpClient):
    """Client without a port, with connections 0 to 4."""

    def __init__(self, nonce: int) -> None:
        self.memory = tcp_ends.ConnectionStates.make_file(5)
        self._layout = SimpleNamespace(width=12)
        self._begin_trial(self.memory.path, 5, nonce, Tcp())
        self._states.client[:] = SENT
        self._ends[:, -4:] = np.frombuffer(bytes((0, 1, 0, 2)), np.uint8)
        self._step = "open"

    def _reset_counters(self):
        pass

    _drain_all = _reset_counters


@pytest.fixture
def two_trials():
    """Provide the client in two successive trials, with different nonces."""
    clients = PortlessClient(1), PortlessClient(2)
    yield clients
    for client in clients:
        client.memory.close()


@pytest.mark.parametrize("octets", [0, len(REQUEST)])
@pytest.mark.parametrize("acknowledges", [True, False])
def test_reset_without_timestamps_identifies_connection_and_trial(two_trials, octets, acknowledges):
    """RFC 9293, section 3.5.2; resets with and without ACK."""
    current, other = two_trials
    which, zeros = np.array([3]), np.zeros(1, np.uint32)
    answered = np.uint32(len(current._answer) if octets else 0)
    reset = SimpleNamespace(flags=np.array([RST], np.uint8), sequence=zeros, acknowledgement=zeros)
    if acknowledges:
        reset.flags |= ACK
        reset.acknowledgement = current._compute_client_isns(which) + np.uint32(1 + octets)
    else:
        reset.sequence = current._compute_server_isns(which) + np.uint32(1) + answered
    without_timestamps = np.ones(1, bool)
    assert current._find_reset_connections(reset, without_timestamps).tolist() == [3]
    assert other._find_reset_connections(reset, without_timestamps).tolist() == [5]
    current._states.client[3] = 0
    assert current._find_reset_connections(reset, without_timestamps).tolist() == [5]


def test_foreign_icmp_errors_are_ignored(two_trials):
    current, other = two_trials
    ports = np.tile(np.array([0, 1, 0, 2], np.uint8), (5, 1))
    ports[2, 3] = 3
    each = np.arange(5)
    for offset in (0, 1, 1 + len(REQUEST), 2 + len(REQUEST)):
        numbers = current._compute_client_isns(each) + np.uint32(offset)
        assert current._find_quoted_connections(ports, numbers).tolist() == [0, 1, 3, 4]
        assert not len(other._find_quoted_connections(ports, numbers))


def test_icmp_error_refuses_opening_and_resets_open_connections(two_trials):
    client = two_trials[0]
    client._states.client[1] |= OPEN
    client._handle_resets(np.array([1, 3, 3]), UNREACHABLE)
    reset, refused = SENT | OPEN | RESET, SENT | UNREACHABLE
    assert client._states.client.tolist() == [SENT, reset, SENT, refused, SENT]
    client._step = "ask"
    client._handle_resets(np.array([4]), UNREACHABLE)
    assert client._states.client[4] == SENT


def test_late_fin_is_ignored_but_unsolicited_fin_counts(two_trials, monkeypatch):
    client, answered = two_trials[0], []
    monkeypatch.setattr(client, "_reply", lambda which, *_, **__: answered.extend(which.tolist()))
    flags, which = np.full(3, FIN | ACK, np.uint8), np.array([1, 3, 4])
    finished = SimpleNamespace(flags=flags, data_octets=np.zeros(3, np.int64))
    frames, known = np.zeros((3, 60), np.uint8), np.ones(3, bool)
    client._states.client[:] = [SENT, SENT | ENDING, SENT, SENT | ENDING, SENT]
    client._handle_data_and_fins(finished, frames, which, known, np.array([True, False, False]))
    assert answered == [1, 4]
    late = SENT | ENDING
    assert client._states.client.tolist() == [SENT, late | ENDED, SENT, late, SENT | ENDED]


def test_syn_retransmission_timeout_doubles(two_trials, monkeypatch):
    """RFC 6298, section 5.5; answered SYNs are not retransmitted."""
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
    client, packets = RecordingClient(), [4096, 10, 4096, 0, 7]
    client._drain = lambda: packets.pop(0)
    client._drain_all()
    assert packets == [7]


class FakeSendRing:
    """Send ring that records committed frames and their departure times; the first may stall."""

    refused = 0
    first_stall_s = 0.0

    def __init__(self, _interface, octets):
        self._octets, self.committed = octets, []

    def get_free_slots(self, limit):
        self._slots = np.zeros((limit, self._octets), dtype=np.uint8)
        return self._slots

    def commit(self, count, _lengths):
        self.committed.append((time.time_ns(), self._slots[:count].copy()))
        if len(self.committed) == 1:
            time.sleep(self.first_stall_s)

    def count_unsent(self):
        return 0


@pytest.fixture
def send(monkeypatch):
    """Return a function that sends 1500 frames and returns the ring and the sender's answer."""
    monkeypatch.setattr(sender, "TxRing", FakeSendRing)
    loaded = Sender("none", 124)
    loaded.load(compile_plugin(size=128)[1]["forward"])

    def send_frames(*, timed, rate_fps=1e9):
        trial = Trial("latency", "k", 128, 88, "forward", rate_fps, 1500 / rate_fps)
        pace = Pace.from_trial(trial)
        answer = loaded.send(pace=pace, start=time.monotonic(), nonce=3, timed=timed)
        assert sum(answer["sent"].values()) == 1500
        return loaded._ring, answer

    return send_frames


def test_stalled_sender_sends_no_burst(send, monkeypatch):
    monkeypatch.setattr(FakeSendRing, "first_stall_s", 0.2)
    ring, answer = send(timed=False, rate_fps=10_000.0)
    assert max(len(batch) for _, batch in ring.committed) <= MAX_BURST_S * 10_000 + 1
    assert answer["sending_time_s"] > 0.15 + 0.2 - MAX_BURST_S - 0.001
    assert answer["lateness_s"] > 0.15


@pytest.mark.parametrize(("timed", "most"), [(True, TIMED_BATCH), (False, BATCH)])
def test_batch_of_timed_frames_is_small(send, timed, most):
    assert max(len(batch) for _, batch in send(timed=timed)[0].committed) == most


def test_every_timed_frame_is_stamped_before_departure(send):
    ring, stamps = send(timed=True)[0], []
    for departure_ns, batch in ring.committed:
        marks = trailer.read(batch)
        assert marks.magic_ok.all()
        assert verify(batch).all()
        assert (marks.time_ns <= departure_ns).all()
        stamps += marks.time_ns.astype(np.int64).tolist()
    assert stamps == sorted(stamps)
    assert len(set(stamps)) > 0.9 * len(stamps)


def test_lost_frame_among_a_million_is_identified():
    (stream,) = compile_plugin("ipv6-router", 84)[1]["forward"].streams
    million, batch_frames = 1_000_000, 5000
    tally = receiver.StreamTally(stream, million, 1000, np.zeros(million, dtype=bool))
    received = np.delete(np.arange(million, dtype=np.uint32), 987_654)
    received = np.append(received, received[-1])  # a duplicate
    for first in range(0, len(received), batch_frames):
        numbers = received[first : first + batch_frames]
        selected, frames = np.ones(len(numbers), dtype=bool), np.zeros((len(numbers), 66), np.uint8)
        tally.add(frames, numbers, selected, np.zeros(len(numbers), np.int64), None)
    assert tally.list_lost().tolist() == [987_654]
    count = int(np.count_nonzero(tally.seen))
    assert (count, tally.total - count) == (million - 1, 1)


def test_late_duplicate_of_a_received_frame_is_surplus():
    (stream,) = compile_plugin("ipv6-router", 84)[1]["forward"].streams
    tally = receiver.StreamTally(stream, 10, 1, np.zeros(10, bool))
    for count, delay_ns in ((6, 100_000), (8, 5_000_000), (8, 6_000_000)):  # two are late only
        numbers = np.arange(10, dtype=np.uint32)
        frames, delays_ns = np.zeros((10, 60), np.uint8), np.full(count, delay_ns)
        tally.add(frames, numbers, numbers < count, delays_ns, 10**6)
    counts = receiver._count_frames(tally)
    assert (counts["received"], counts["late"], counts["surplus"]) == (6, 2, 6 + 8)


@pytest.fixture
def readings(monkeypatch):
    """Provide the next readings of the receive ring: groups of frames and their times."""
    readings = []
    ring = Mock(interface="none", take=lambda: readings.pop(0) if readings else [])
    ring.count_drops.return_value = 0
    monkeypatch.setattr(port, "RxRing", lambda *_: ring)
    return readings


@pytest.fixture
def two_lengths(readings, monkeypatch):
    """Provide a receiver that has read a frame each 0.1 ms, alternately of two streams with two lengths.

    The second reading of its ring begins 0.15 ms after the first ended.
    """
    monkeypatch.setattr(receiver, "MAX_DELAYS", 12)
    loaded, streams = Receiver("none", 124), compile_plugin(size=128, n="2", m="1")[1]["forward"]
    loaded.load(streams, None, "forward")
    trial = Trial("reset", "k", 128, 108, "forward", 10_000.0, 0.004)
    required = {stream.name: 20 for stream in streams.streams}
    loaded.arm(required=required, nonce=7, timed=TimedTrial(trial, (1, 1)))
    for seq, late_ns in ((np.arange(10), 0), (np.arange(10, 20), 50_000)):
        each = [(2 * seq + place) * 100_000 + late_ns for place in range(2)]
        both = list(zip(streams.streams, each, strict=True))
        readings.append([(make_stamped_frames(s, seq, 7, times), times) for s, times in both])
    loaded.report()
    return loaded


def test_longest_gap_covers_all_frame_lengths_and_readings(two_lengths):
    assert two_lengths._longest_gap_ns == 150_000


def test_stored_delays_are_evenly_spaced(two_lengths):
    assert sum(map(len, two_lengths._delays)) == 10  # every fourth of 40


def test_new_query_names_are_not_cached():
    names = QueryNames(range(1000, 65_536), used=64_000, cached=0.5, known=1000)
    indexes = names.compute_name_indexes(np.arange(4000))
    assert np.count_nonzero(indexes < 1000) == 2000
    assert indexes.max() < 65_536


def test_lab_is_closed_after_a_failed_rollback(monkeypatch, caplog):
    lab = Mock()
    monkeypatch.setattr(setup, "Lab", lambda *_, **__: lab)
    caplog.set_level(NOTICE)
    device = Mock(mtus_between=())
    device.parts = [device]
    device.prepare.side_effect = DutError("no start", code="check-failed")
    device.close.side_effect = DutError("no rollback", code="rollback-failed")
    bed = setup.Bed(Links(), device)
    with expect_error("rollback-failed"):
        bed.open()
    lab.close.assert_called_once()
    assert "no start" in caplog.text
    assert bed.lab is None


@pytest.fixture
def tester(monkeypatch):
    monkeypatch.setattr(EmbeddedTester, "_make_worker_arguments", lambda _: {})
    return EmbeddedTester(Links(), None)


def test_new_zone_replaces_dns_workers(tester, monkeypatch):
    monkeypatch.setattr(tester_module, "DnsTrials", lambda _, zone, *__, **___: Mock(zone=zone))
    first, second = SimpleNamespace(zone=1), SimpleNamespace(zone=2)
    tester.load({}, first)
    workers = tester._dns
    tester.load({}, first)
    assert tester._dns is workers
    tester.load({}, second)
    workers.close.assert_called_once()
    assert tester._dns.zone == 2


def test_device_is_checked_after_requests_over_tcp(tester):
    tester._tcp, tester._bed.check = Mock(), Mock()
    trial = Trial("tcp-rate", "k", 128, 108, "forward", 100.0, 1.0)
    tester.validate(trial, Connections(10, 100.0, tcp=Tcp()))
    tester._bed.check.assert_called_once()


@pytest.fixture
def learn(readings):
    """Provide a function that receives frames in phase 1 of trial 5 and returns report and table rows."""
    with closing(ConnectionTable()) as table:

        def learn(*frames):
            known, receiver = ReceiverConnections(), Receiver("none", 2000)
            receiver.load(STREAMS["forward"], None, "forward", known)
            location, timed = table.make(FRAMES), TimedTrial(PHASE_ONE, (1,))
            receiver.arm(required={"fg": FRAMES}, nonce=5, timed=timed, table=location, learn=True)
            readings.append([(group, np.zeros(len(group), np.int64)) for group in frames])
            return receiver.report(), known._table.rows.copy()

        yield learn


def test_stale_frames_in_phase_one_are_neither_counted_nor_learned(learn):
    frames = make_stamped_frames(STREAM, range(FRAMES), 5)
    stale = make_stamped_frames(STREAM, range(60, FRAMES), 4)
    stale[:, 34:36] = 0x99  # the source port
    _, expected = learn(frames)
    report, rows = learn(stale, frames.copy())
    counted = report["classes"]["fg"]
    assert (counted["received"], counted["surplus"]) == (FRAMES, 0)
    assert report["health"]["stale"] == 40
    assert (rows == expected).all()


def test_frames_with_impossible_numbers_are_not_stale(learn):
    report, _ = learn(make_stamped_frames(STREAM, [FRAMES, FRAMES + 1], 5))
    assert (report["health"]["stale"], report["health"]["misnumbered"]) == (0, 2)


@pytest.mark.parametrize(("stale", "count"), [(0, 0), (40, 1)])
def test_phase_with_stale_frames_is_invalid(monkeypatch, stale, count):
    counted = DirectionResult({"fg": ClassCount("foreground", FRAMES, FRAMES, FRAMES)}, 0.1)
    for direction, phase in (("forward", "phase 1"), ("reverse", "the validation")):
        result = TrialResult({direction: counted}, tester={direction: {"stale": stale}})
        tester = EmbeddedTester(PLUGIN.links, None)
        monkeypatch.setattr(tester, "_exchange", lambda *_, result=result, **__: (result, 0.0, {}))
        faults = tester._run_phase(PHASE_ONE, direction, None).faults
        assert faults == (f"{stale} frames of an earlier trial arrived in {phase}",) * count
