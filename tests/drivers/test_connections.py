"""Connections without a lab: state table, replayed frames, reference translation and phases."""

import os
import re
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from v6t.core.runs.bench import compile_directions
from v6t.drivers.device import HookState
from v6t.drivers.duts.header_profile import HeaderProfile, ProfiledOracle
from v6t.drivers.duts.kinds.netfilter import conntrack
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.embedded.receiver import ReceiverConnections
from v6t.drivers.oracle import connection_oracle, replay, state_table, two_phase
from v6t.drivers.oracle.connection_oracle import TableLocation, find_foreground
from v6t.drivers.oracle.replay import ConnectionOrder, Replay
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.sim.device import SimOptions, SimTable
from v6t.intent.device import DeviceRequirements
from v6t.packets import trailer
from v6t.packets.walker import find_problems
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat64 import Nat64
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.plugins.foreign_stateful import QueryNat, TcpNat
from v6t.tests.procedures.support import make_sim
from v6t.trials.connections import Connections
from v6t.trials.trial import FlowStarts, Segment, Trial

pytestmark = pytest.mark.slow

COUNT = 2000
FORGETFUL = {"table_replaces": True}  # device that forgets old sessions for new ones
FEWER, MORE = {"table_entries": 93, **FORGETFUL}, {"table_off_by": 7}
# VPP's nat44-ei has one session per address and port (RFC 4787, REQ-1).
ENDPOINTS = {"phase_one": {"outside_endpoints": 60}, **FORGETFUL}
READ_ONLY = {"conntrack_fixed": "read-only"}
FIXED = {"conntrack_max": "262144", **READ_ONLY}
WIDE = {"conntrack_max": "8388608", "conntrack_buckets": "262144", "conntrack_fixed": ""}
PREPARED = ["flush", "count_sessions", "establish", "count_sessions"]  # calls of phase 1
SWAPPED = [4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9]  # a row with source and destination exchanged


@pytest.fixture
def memory():
    files = []

    def make_table(count, version=4):
        files.append(state_table.MemoryFile(count * state_table.ROW_OCTETS[version]))
        return state_table.StateTable(files[-1].path, count, version)

    yield make_table
    for file in files:
        file.close()


def compile_foreground(plugin):
    return compile_directions(plugin, plugin.make_frame_pair(84), 1)


def find_stream(plugin, direction="forward"):
    return find_foreground(compile_foreground(plugin)[direction])


def make_random_rows(count, version=4):
    shape = count, state_table.ROW_OCTETS[version]
    return np.random.default_rng(1).integers(1, 256, shape, dtype=np.uint8)


def test_connection_table_file_is_removed():
    file = state_table.MemoryFile(24_000)
    assert os.stat(file.path).st_size == 24_000
    file.close()
    file.close()
    assert not os.path.exists(file.path)


def test_first_frame_of_connection_is_learned(memory):
    table = memory(10)
    rows = make_random_rows(3)
    table.learn(np.array([4, 4, 5]), rows)
    assert (table.rows[4] == rows[0]).all()
    assert (table.rows[5] == rows[2]).all()
    assert np.count_nonzero(table.rows.any(axis=1)) == 2


@pytest.mark.parametrize("share", [100, 1 << 24])
@pytest.mark.parametrize("version", [4, 6])
def test_repeated_tuples_and_endpoints_are_counted(memory, monkeypatch, version, share):
    monkeypatch.setattr(state_table, "_SHARE", share)
    table = memory(COUNT, version)
    rows = make_random_rows(COUNT, version)
    rows[17] = rows[1999] = rows[3]
    rows[50, :-2] = rows[60, :-2]  # only the destination port differs
    table.learn(np.arange(COUNT), rows)
    table.rows[100:110] = 0  # rows of connections that were not learned
    count, example = table.find_duplicates()
    assert count == 2
    assert {*example} < {3, 17, 1999}
    size = (rows.shape[1] - 4) // 2
    learned = table.rows[table.rows.any(axis=1)]
    ends = np.concatenate([learned[:, :size], learned[:, -4:-2]], axis=1)
    assert table.count_endpoints() == len(np.unique(ends, axis=0))


def test_largest_table_has_256_million_connections(memory):
    count, row = state_table.MAX_CONNECTIONS, make_random_rows(1)
    assert count == 268_435_456
    table = memory(count)
    table.learn(np.array([count - 1]), row)
    source = Replay(find_stream(Nat44(), "reverse"), table, ConnectionOrder(count).find_connections)
    assert source.compute_frames(count - 1, 1)[0, 26:38].tolist() == row[0, SWAPPED].tolist()


def test_table_larger_than_memory_is_rejected(monkeypatch):
    monkeypatch.setattr(os, "ftruncate", Mock(side_effect=OSError("no space left")))
    with expect_error("resource-missing", mentions="12"):
        state_table.MemoryFile(12)


@pytest.mark.parametrize("plugin", [Nat44(), Nat64()])
def test_replayed_frames_carry_learned_tuples_and_valid_checksums(memory, plugin):
    table = memory(COUNT)
    rows = make_random_rows(COUNT)
    rows[0, :] = 0xFF  # checksums with carries
    table.learn(np.arange(COUNT), rows)
    stream = find_stream(plugin, "reverse")
    source = Replay(stream, table, ConnectionOrder(COUNT).find_connections)
    frames = source.compute_frames(0, COUNT + 5)
    assert (frames[:COUNT, 26:38] == rows[:, SWAPPED]).all()
    assert (frames[COUNT:] == frames[:5]).all()
    assert verify(frames).all()


def test_pseudorandom_order_uses_all_connections_about_equally():
    drawn = ConnectionOrder(100, "pseudorandom").find_connections(np.arange(10_000))
    counted = np.bincount(drawn, minlength=100)
    assert (len(counted), counted.min() > 50, counted.max() < 150) == (100, True, True)


@pytest.mark.parametrize("numbers", [
    range(3 * replay.MAX_RUN_FRAMES + 1),
    range(0, 3 * replay.MAX_RUN_FRAMES * replay.MAX_GAP_FRAMES, replay.MAX_GAP_FRAMES),
    range(0, 5 * replay.MAX_GAP_FRAMES, replay.MAX_GAP_FRAMES + 1),
    [7, 5, 5, 1 << 30, 6, 0],
    [],
], ids=["neighbours", "at maximum gap", "beyond maximum gap", "unordered", "none"])  # fmt: skip
def test_frames_by_number_equal_consecutive_frames(numbers):
    source = Expander(find_stream(Nat44()))
    made = replay.make_frames(source, np.array(numbers, dtype=np.int64))
    assert made.shape == (len(numbers), source.length)
    for frame, number in zip(made, numbers, strict=True):
        assert bytes(frame) == source.compute_frames(number, 1).tobytes()


def test_initiator_restarts_after_last_connection():
    stream = find_stream(Nat44())
    plain = Expander(stream).compute_frames(0, 7)
    repeated = replay.Cycle(Expander(stream), 7).compute_frames(5, 16)
    assert (repeated == plain[np.arange(5, 21) % 7]).all()


def test_other_streams_are_judged_by_plugin(memory):
    plugin, table = Nat44(), memory(COUNT)
    streams = compile_foreground(plugin)
    first = find_foreground(streams["forward"])
    frames = Expander(first).compute_frames(0, 5)
    inner = connection_oracle.ConnectionOracle(plugin, *streams.values())
    assert not inner.expect("forward", frames).length.any()  # not yet bound
    inner.bind(TableLocation(table.rows.filename, COUNT, 4, ConnectionOrder(COUNT)))
    trailer.stamp(frames, first.checksum, seq=np.arange(5), stream_id=5, nonce=1, time_ns=0)
    assert not inner.expect("forward", frames).length.any()
    assert inner.expect("forward", frames[:0]).length.shape == (0,)


def test_receiver_learns_only_new_frames_of_its_stream(memory):
    streams, table = compile_foreground(Nat64()), memory(COUNT)
    receiver = ReceiverConnections()
    stream = find_foreground(streams["forward"])
    at = TableLocation(table.rows.filename, COUNT, 4, ConnectionOrder(COUNT))
    receiver.arm(None, at, streams["forward"], learn=True)
    frames = Expander(find_stream(Nat44())).compute_frames(0, 4)
    numbers = np.array([9, 8, 7, 6], dtype=np.uint32)
    receiver.learn(stream, frames, numbers, np.array([True, True, False, False]))
    receiver.learn(find_foreground(streams["reverse"]), frames, numbers, np.ones(4, dtype=bool))
    assert np.count_nonzero(table.rows.any(axis=1)) == 2
    assert (table.rows[9] == frames[0, 26:38]).all()
    receiver.arm(None, None, streams["forward"], learn=False)
    assert receiver.report() == {}


def translate_stamped(oracle, direction, stream, frames):
    """Stamp frames of a stream and return their reference translation, which must be valid."""
    seq = np.arange(len(frames))
    trailer.stamp(frames, stream.checksum, seq=seq, stream_id=stream.stream_id, nonce=1, time_ns=2)
    answer = oracle.expect(direction, frames)
    assert (answer.length == frames.shape[1]).all()
    assert (trailer.read(answer.frames).seq == seq).all()
    assert not [problem for frame in answer.frames for problem in find_problems(frame.tobytes())]
    return answer.frames


# Places of a frame's ports (or of its query identifier) by plugin.
PORTS = {Nat44: ([34, 35], [36, 37]), TcpNat: ([34, 35], [36, 37]), QueryNat: ([38, 39], [38, 39])}


@pytest.mark.parametrize("reading", ["linear", "pseudorandom"])
@pytest.mark.parametrize("kind", PORTS)
def test_translated_connections_are_learned_and_replayed(kind, reading, memory):
    source_port, destination_port = PORTS[kind]
    source, destination = [*range(26, 30), *source_port], [*range(30, 34), *destination_port]
    plugin, table, order = kind(), memory(COUNT), ConnectionOrder(COUNT, reading)
    streams = compile_directions(plugin, plugin.make_frame_pair(128), 1)
    first, answer = (find_foreground(streams[d]) for d in ("forward", "reverse"))
    opening = Expander(first).compute_frames(0, COUNT)
    # a NAT with one port number per connection
    translated, ports = opening.copy(), np.arange(20_000, 20_000 + COUNT, dtype=">u2")
    translated[:, 26:30] = (198, 19, 0, 1)
    translated[:, source_port] = ports.view(np.uint8).reshape(-1, 2)
    profiled = ProfiledOracle(plugin, HeaderProfile())
    assert connection_oracle.unwrap_plugin(profiled) is plugin
    outer, inner = connection_oracle.make_connection_oracle(profiled, *streams.values())
    receiver = ReceiverConnections(outer, inner)
    location = TableLocation(table.rows.filename, COUNT, 4, order)
    receiver.arm(plugin, location, streams["forward"], learn=True)
    receiver.learn(first, translated, np.arange(COUNT, dtype=np.uint32), np.ones(COUNT, dtype=bool))
    report = receiver.report()
    assert report["duplicate_tuples"] == 0
    assert report["inside_endpoints"] == len(np.unique(opening[:, source], axis=0))
    assert report["outside_endpoints"] == COUNT
    back = Replay(answer, table, order.find_connections).compute_frames(0, COUNT)
    which = order.find_connections(np.arange(COUNT))
    assert (back[:, source + destination] == translated[which][:, destination + source]).all()
    assert not [problem for frame in back for problem in find_problems(frame.tobytes())]
    out = translate_stamped(outer, "forward", first, opening)
    assert (out[:, source] == translated[:, source]).all()
    out = translate_stamped(outer, "reverse", answer, back)
    assert (out[:, destination] == opening[which][:, source]).all()


def test_too_many_inside_endpoints_are_not_counted(monkeypatch):
    monkeypatch.setattr(state_table, "_MAX_COUNTED_CONNECTIONS", COUNT - 1)
    assert state_table.count_inside_endpoints(find_stream(Nat44()), COUNT) is None


def wrap(owner, name, change):
    """Have the results of a method changed by a function."""
    call = getattr(owner, name)
    setattr(owner, name, lambda *args: change(call(*args)))


def make_device(*, foreign_sessions=0, phase_one=None, **options):
    """Return a simulated tester whose calls and whose table's are recorded in ``calls``.

    Args:
        foreign_sessions: sessions that a flush does not remove.
        phase_one: fields of phase 1's counts that the simulation does not have.
    """
    tester, fields = make_sim(**options), phase_one or {}
    tester.table.counts_endpoints = "outside_endpoints" in fields
    wrap(tester, "establish", lambda phase: replace(phase, **fields))
    wrap(tester.table, "count_sessions", lambda n: None if n is None else n + foreign_sessions)
    tester.calls = Mock()
    for owner, names in ((tester.table, ("flush", "count_sessions")),
                         (tester, ("establish", "validate", "measure"))):  # fmt: skip
        for name in names:
            getattr(tester.calls, name).side_effect = getattr(owner, name)
            setattr(owner, name, getattr(tester.calls, name))
    return tester


def list_calls(tester):
    return [name for name, _, _ in tester.calls.mock_calls]


def make_trial(**connections):
    request = Connections(**{"count": 100, "rate_cps": 100.0, "wait_s": 0.5, **connections})
    return Trial("t", "k", 84, 64, "forward", 10.0, 1.0, 0.0, connections=request)


def measure_trials(device, trials=1, **connections):
    tester = TwoPhaseTester(device, device.table)
    return [tester.measure(make_trial(**connections)) for _ in range(trials)]


def test_phase_one_is_done_in_order_before_phase_two():
    device = make_device()
    (result,) = measure_trials(device, alpha=0.5, gap_s=2.0)
    assert list_calls(device) == [*PREPARED, "validate", "measure"]
    used = result.connections
    assert (used.sessions_before, used.sessions, used.learned, used.validated) == (0, 100, 100, 100)
    assert used.gap_s == pytest.approx(0.5 + 2.0)  # from the end of the validation
    assert used.age_s == pytest.approx(1.0 + 0.5 + 2.0 + 0.5 + 2.0 + 1.0)


@pytest.mark.parametrize("step_h", [1, -1, None])
def test_gap_is_independent_of_wall_clock(step_h):
    def step_clock(result):
        if step_h is None:
            return replace(result, started="")
        stepped = datetime.fromisoformat(result.started) + timedelta(hours=step_h)
        return replace(result, started=stepped.isoformat())

    device = make_device(table_timeout_s=20.0, phase_one={"started": ""} if step_h is None else {})
    wrap(device, "measure", step_clock)
    (result,) = measure_trials(device, gap_s=2.0)
    assert 0.0 <= result.connections.gap_s <= 2.5


def test_evaluation_of_trial_is_part_of_next_gap():
    device = make_device()
    wrap(device, "measure", lambda result: device.wait(3.0) or result)
    first, second = measure_trials(device, trials=2, gap_s=2.0, reuse=True)
    assert (first.connections.reused, second.connections.reused) == (False, True)
    assert first.connections.gap_s == pytest.approx(2.5)  # from the end of phase 1
    assert first.connections.validated is None
    assert second.connections.gap_s == pytest.approx(3.0 + 2.0)


@pytest.mark.parametrize(("entries", "calls"), [(100, ["validate"]), (93, [])])
def test_establish_purpose_has_no_phase_two(entries, calls):
    """Fewer sessions than connections are a result; a validation is then useless."""
    device = make_device(table_entries=entries, **FORGETFUL)
    (result,) = measure_trials(device, alpha=1.0, purpose="establish")
    assert list_calls(device) == PREPARED + calls
    assert result.connections.sessions == entries
    assert set(result.directions) == ({"forward", "reverse"} if calls else {"forward"})


def test_teardown_measures_flush_of_full_and_empty_table():
    device = make_device(teardown_s=0.1, teardown_cps=250.0)
    (result,) = measure_trials(device, purpose="tear-down", alpha=1.0)
    assert list_calls(device)[-3:] == ["flush", "flush", "count_sessions"]
    assert result.connections.flush_s == pytest.approx(0.5)
    assert result.connections.idle_flush_s == pytest.approx(0.1)


@pytest.mark.parametrize(("options", "faults"), [
    ({"phase_one_loss": 1}, ()), ({"table_reuses": 1}, ()),
    ({"phase_one": {"faults": ("its ring overflowed",)}}, ("its ring overflowed",)),
])  # fmt: skip
def test_incomplete_or_faulty_phase_one_has_no_phase_two(options, faults):
    device = make_device(**options)
    (result,) = measure_trials(device, alpha=1.0)
    assert list_calls(device) == PREPARED
    assert result.faults == faults
    assert result.is_disturbed, "not a loss"


@pytest.mark.parametrize(("timeout_s", "connections", "established"), [
    # half of the timeout passes in the third trial
    (0.0, {"reuse": True}, {1}), (0.0, {}, {9}), (12.0, {"reuse": True}, {*range(2, 10)}),
])  # fmt: skip
def test_only_complete_connections_are_reused(timeout_s, connections, established):
    device = make_device(table_timeout_s=timeout_s)
    results = measure_trials(device, trials=9, **connections)
    reused = [result.connections.reused for result in results]
    assert list_calls(device).count("establish") == reused.count(False)
    assert reused.count(False) in established
    assert not reused[0]


def test_concurrent_action_begins_with_phase_two():
    """The action's pause is the gap, with new and with reused connections."""
    device = make_device()
    action = device.calls.action
    action.side_effect = device.measure
    tester = TwoPhaseTester(device, device.table, action)
    connections = {"gap_s": 2.0, "reuse": True}
    trial = make_trial(**connections)
    assert [tester.measure(trial).connections.reused for _ in range(2)] == [False, True]
    with_action = ["count_sessions", "action", "measure"]
    assert list_calls(device) == [*PREPARED[:-1], *with_action, *with_action]
    assert [call.args[0].pause_s for call in action.mock_calls] == [2.0] * 2
    for purpose in ("establish", "tear-down"):
        tester.measure(make_trial(**connections, purpose=purpose))
    assert action.call_count == 2


def test_lost_connections_are_established_again():
    device = make_device(foreign_sessions=3)
    tester, trial = TwoPhaseTester(device, device.table), make_trial(reuse=True)
    assert [tester.measure(trial).connections.reused for _ in range(2)] == [False, True]
    device.table.flush()
    assert not tester.measure(trial).connections.reused


@pytest.mark.parametrize(("options", "connections", "code", "mentions"), [
    (FEWER, {}, "phase-one-lost", "93"), (MORE, {}, "phase-one-lost", "107"),
    (FEWER, {"purpose": "tear-down"}, "phase-one-lost", "93"),
    (MORE, {"purpose": "tear-down"}, "phase-one-lost", "107"),
    ({"table_entries": 59} | ENDPOINTS, {}, "phase-one-lost", "59"),
    ({"foreign_sessions": 11}, {}, "table-not-emptied", "11"),
])  # fmt: skip
def test_wrong_session_count_is_an_error(options, connections, code, mentions):
    with expect_error(code, mentions=mentions):
        measure_trials(make_device(**options), **connections)


@pytest.mark.parametrize(("options", "before", "sessions", "expected"), [
    ({"foreign_sessions": 3}, 3, 100, 100),
    ({"foreign_sessions": 11, "table_tells": False}, None, None, 100),
    ({"table_entries": 60} | ENDPOINTS, 0, 60, 60),
])  # fmt: skip
def test_sessions_from_before_phase_one_are_not_counted(options, before, sessions, expected):
    used = measure_trials(make_device(**options))[0].connections
    assert (used.sessions_before, used.sessions) == (before, sessions)
    assert used.expected_sessions == expected


def test_timeout_is_checked_before_first_frame_and_between_phases():
    device = make_device(table_timeout_s=2.0)
    with expect_error("idle-timeout", mentions="2.5"):
        measure_trials(device)
    assert list_calls(device) == []
    measure_trials(make_device(table_timeout_s=2.6))
    device = make_device(table_timeout_s=20.0)
    measure = device.measure
    device.measure = lambda trial: device.wait(30.0) or measure(trial)
    with expect_error("idle-timeout", mentions="31.5"):
        measure_trials(device, gap_s=1.0)


def test_table_limits_are_read_once(monkeypatch):
    limits = {"nf_conntrack_max": 262144}
    read = Mock(return_value=limits)
    monkeypatch.setattr(SimTable, "read_limits", lambda self: read())
    results = measure_trials(make_device(table_timeout_s=100.0), trials=3)
    read.assert_called_once()
    assert [r.connections.device for r in results] == [{**limits, "timeout_s": 100.0}] * 3
    read.return_value = {}
    assert measure_trials(make_device())[0].connections.device is None


def test_kernel_table_limits_are_parsed():
    expected = {"nf_conntrack_max": 262144, "nf_conntrack_udp_timeout": 3600}
    text = "".join(f"net.netfilter.{name} = {value}\n" for name, value in expected.items())
    assert conntrack.make_table_reading().parse(text + "sysctl: cannot stat x\n") == expected
    run = Mock(return_value=SimpleNamespace(out=text))
    for name in ("nftables", "iptables", "tayga-nftables", "linux-router"):
        intent = (Nat64 if name == "tayga-nftables" else Nat44)().make_dut_intent()
        session = Session(make_driver(name, {}), SimpleNamespace(run=run), intent)
        assert session.read_limits() == ({} if name == "linux-router" else expected)
    commands = [request.args[0] for request in run.mock_calls]
    assert len(commands) == 3
    assert all(command.startswith("sysctl net.netfilter.nf_conntrack_max") for command in commands)


@pytest.mark.parametrize(("driver", "sections", "count", "number", "setting"), [
    ("nftables", FIXED, 260_000, "260,000", "net.netfilter.nf_conntrack_max"),
    ("iptables", FIXED, 260_000, "260,000", "net.netfilter.nf_conntrack_max"),
    ("nftables", WIDE | READ_ONLY, 4_000_000, "262,144", "net.netfilter.nf_conntrack_buckets"),
])  # fmt: skip
def test_table_that_cannot_be_enlarged_is_rejected(driver, sections, count, number, setting):
    with expect_error("resource-missing", mentions=number) as caught:
        list_commands(driver, sections, count)
    assert setting in caught.value.hint


@pytest.mark.parametrize(("driver", "sections", "count", "changed"), [
    ("nftables", FIXED, 200_000, []), ("iptables", FIXED | {"conntrack_buckets": "25000"}, 200_000, []),
    ("nftables", FIXED | {"conntrack_fixed": ""}, 260_000, ["nf_conntrack_max", "524288 >/sys/module"]),
    ("nftables", WIDE, 4_000_000, ["8388608 >/sys/module"]),
])  # fmt: skip
def test_table_is_enlarged_if_necessary(driver, sections, count, changed):
    sizes = [c for c in list_commands(driver, sections, count) if re.search("_max|hashsize", c)]
    assert len(sizes) == len(changed)
    assert all(words in command for words, command in zip(changed, sizes, strict=True))


def list_commands(name, sections, count):
    """List the commands of a plan for a number of sessions and these facts of the device."""
    driver = make_driver(name, {})
    intent = replace(Nat44().make_dut_intent(), requirements=DeviceRequirements(sessions=count))
    facts = driver.make_example_facts(intent)
    facts = replace(facts, sections={**facts.sections, **sections})
    return [step.command for step in driver.plan(intent, facts).steps]


def test_hook_state_flushes_and_counts_sessions():
    flush = Mock()
    state = HookState(flush, lambda: "entries: 42\n")
    state.flush()
    flush.assert_called_once()
    assert state.count_sessions() == 42
    assert HookState(flush, lambda: "what?").count_sessions() is None
    assert HookState(flush, None).count_sessions() is None


def test_simulated_connections_expire_oldest_first():
    table = SimTable(SimOptions(table_timeout_s=10.0))
    table.fill(100, 100.0)
    for clock, alive in ((9.9, 100), (10.0, 99), (10.5, 49)):
        table.clock_s = clock
        assert table.count_alive() == alive
    table.refresh()  # frames refresh the open connections
    for clock, alive in ((20.4, 49), (20.6, 0)):
        table.clock_s = clock
        assert table.count_alive() == alive


def test_phase_1_uses_one_stream():
    """Phase 1 ignores the flow and rate settings of the trial."""
    trial = Trial("flows", "k", 84, 64, "bidirectional", 1000.0, 2.0, 0.5, 0.0,
                  flow_starts=FlowStarts(25, 0.1), second_segment=Segment(500.0, 1.0))  # fmt: skip
    for make_phase in (two_phase.make_phase_one_trial, two_phase.make_validation_trial):
        first = make_phase(trial, Connections(count=25, rate_cps=1000.0))
        assert (first.flow_starts, first.second_segment) == (None, None)
        assert first.frames == 25
