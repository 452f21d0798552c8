"""Test frames and connections of any protocol: learned, replayed, and in the lab."""

from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded.receiver import ReceiverConnections
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.lab.reference_device import Faults
from v6t.drivers.lab.setup import ReferenceLabDevice, compute_frame_octets
from v6t.drivers.oracle import connection_oracle, state_table
from v6t.drivers.oracle.replay import ConnectionOrder, Replay
from v6t.packets import trailer
from v6t.packets.walker import find_problems
from v6t.profiles.expand import Expander
from v6t.tests.needs import needs_lab
from v6t.tests.plugins import foreign
from v6t.tests.plugins.foreign_stateful import ALL, QueryNat, TcpNat
from v6t.trials.trial import Trial

from .lab_testers import measure_passed

COUNT = 500
SIZE = 128
# Source and destination in a frame of the plugin.
PORTS = {TcpNat: (slice(34, 36), slice(36, 38)), QueryNat: (slice(38, 40), slice(38, 40))}


@pytest.fixture
def table():
    with closing(state_table.MemoryFile(COUNT * state_table.ROW_OCTETS[4])) as file:
        yield state_table.StateTable(file.path, COUNT, 4)


def compile_streams(plugin):
    return compile_directions(plugin, plugin.make_frame_pair(SIZE), 1)


def check_frames(frames):
    assert not [problem for frame in frames for problem in find_problems(frame.tobytes())]


@pytest.mark.parametrize("kind", ALL)
def test_translated_connections_are_learned_and_replayed(kind, table):
    plugin = kind()
    streams = compile_streams(plugin)
    first, answer = (connection_oracle.find_foreground(streams[d]) for d in ("forward", "reverse"))
    source, destination = PORTS[kind]
    opening = Expander(first).frames(0, COUNT)
    # a NAT with one port number per connection
    translated = opening.copy()
    translated[:, 26:30] = (198, 19, 0, 1)
    numbers = np.arange(20_000, 20_000 + COUNT, dtype=">u2")
    translated[:, source] = numbers.view(np.uint8).reshape(-1, 2)
    outer, inner = connection_oracle.make_connection_oracle(
        plugin, streams["forward"], streams["reverse"]
    )
    known = ReceiverConnections(outer, inner)
    location = connection_oracle.TableLocation(
        table.rows.filename, COUNT, 4, ConnectionOrder(COUNT)
    )
    known.arm(plugin, location, streams["forward"], learn=True)
    known.learn(first, translated, np.arange(COUNT, dtype=np.uint32), np.ones(COUNT, dtype=bool))
    report = known.report()
    inside = len(np.unique(opening[:, source], axis=0))
    assert report["duplicate_tuples"] == 0
    assert (report["inside_endpoints"], report["outside_endpoints"]) == (inside, COUNT)
    assert state_table.count_inside_endpoints(first, COUNT) == inside
    back = Replay(answer, table, ConnectionOrder(COUNT).find_connections).frames(0, COUNT)
    check_frames(back)
    assert (back[:, destination] == translated[:, source]).all()
    assert (back[:, source] == translated[:, destination]).all()
    assert (back[:, 26:30] == translated[:, 30:34]).all()
    assert (back[:, 30:34] == translated[:, 26:30]).all()
    trailer.stamp(
        back, answer.checksum, seq=np.arange(COUNT), stream_id=answer.stream_id, nonce=1, time_ns=2
    )
    expected = outer.expect("reverse", back)
    assert (expected.length == back.shape[1]).all()
    assert (expected.frames[:, 30:34] == opening[:, 26:30]).all()
    assert (expected.frames[:, destination] == opening[:, source]).all()
    check_frames(expected.frames)


@contextmanager
def open_bench(plugin, faults=None):
    device = ReferenceLabDevice(plugin, compute_frame_octets(plugin.links), faults)
    with closing(EmbeddedTester(plugin.links, device)) as tester:
        tester.open()
        tester.load(compile_streams(plugin), plugin)
        yield tester


TRIAL = Trial("throughput", "t", SIZE, SIZE, "bidirectional", 1000.0, 0.25, 0.2, 0.1)


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize("kind", foreign.ALL)
def test_foreground_returns_and_negative_traffic_is_dropped(kind):
    with open_bench(kind()) as tester:
        for counted in measure_passed(tester, TRIAL).directions.values():
            expired = counted.classes["expired"]
            assert counted.classes["fg"].received == 200
            assert (expired.sent, expired.received) == (50, 0)
            assert counted.checked == counted.matched == 200
            assert counted.control == 0


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(
    ("kind", "octet", "field"),
    [(foreign.OverTcp, 47, "TCP flags"), (foreign.GreTunnel, 45, "inner IPv6 hop limit")],
)
def test_corrupted_field_is_named(kind, octet, field):
    with open_bench(kind(), Faults(corrupt_octet=octet)) as tester:
        counted = tester.measure(replace(TRIAL, mode="forward")).directions["forward"]
        assert counted.matched == 0
        assert counted.classes["fg"].received == 200
        assert field in counted.mismatch["why"]
