"""Test frames and connections of any protocol: learned, replayed, and in the lab."""

from contextlib import closing

import numpy as np
import pytest
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded.receiver import ReceiverConnections as Known
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.lab.reference_device import Faults
from v6t.drivers.lab.setup import ReferenceLabDevice, frame_octets
from v6t.drivers.oracle.connection_oracle import (
    TableLocation,
    find_foreground,
    make_connection_oracle,
)
from v6t.drivers.oracle.replay import ConnectionOrder, Replay
from v6t.drivers.oracle.state_table import (
    ROW_OCTETS,
    MemoryFile,
    StateTable,
    count_inside_endpoints,
)
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
    held = MemoryFile(COUNT * ROW_OCTETS[4])
    yield StateTable(held.path, COUNT, 4)
    held.close()


def compile_streams(plugin):
    return compile_directions(plugin, plugin.make_frame_pair(SIZE), 1)


def translate_frames(kind, opening):
    """Translate the Initiator's frames like a NAT with one port number per connection."""
    out = opening.copy()
    source = PORTS[kind][0]
    out[:, 26:30] = (198, 19, 0, 1)
    numbers = np.arange(20_000, 20_000 + len(out), dtype=">u2")
    out[:, source] = numbers.view(np.uint8).reshape(-1, 2)
    return out, numbers


@pytest.mark.parametrize("kind", ALL)
def test_translated_connections_are_learned_and_replayed(kind, table):
    plugin = kind()
    streams = compile_streams(plugin)
    first = find_foreground(streams["forward"])
    opening = Expander(first).frames(0, COUNT)
    out, numbers = translate_frames(kind, opening)
    at = TableLocation(table.rows.filename, COUNT, 4, ConnectionOrder(COUNT))
    outer, inner = make_connection_oracle(plugin, streams["forward"], streams["reverse"])
    known = Known(outer, inner)
    known.arm(plugin, at, streams["forward"], learn=True)
    known.learn(first, out, np.arange(COUNT, dtype=np.uint32), np.ones(COUNT, dtype=bool))
    report = known.report()
    source, destination = PORTS[kind]
    inside = len(np.unique(opening[:, source], axis=0))
    assert report["duplicate_tuples"] == 0
    assert (report["inside_endpoints"], report["outside_endpoints"]) == (inside, COUNT)
    assert count_inside_endpoints(first, COUNT) == inside
    answer = find_foreground(streams["reverse"])
    back = Replay(answer, table, ConnectionOrder(COUNT).find_connections).frames(0, COUNT)
    assert not [p for frame in back for p in find_problems(frame.tobytes())]
    assert (back[:, destination] == out[:, source]).all()
    assert (back[:, source] == out[:, destination]).all()
    assert (back[:, 26:30] == out[:, 30:34]).all()
    assert (back[:, 30:34] == out[:, 26:30]).all()
    trailer.stamp(
        back, answer.checksum, seq=np.arange(COUNT), stream_id=answer.stream_id, nonce=1, time_ns=2
    )
    told = outer.expect("reverse", back)
    assert (told.length == back.shape[1]).all()
    assert (told.frames[:, 30:34] == opening[:, 26:30]).all()
    assert (told.frames[:, destination] == opening[:, source]).all()
    assert not [p for frame in told.frames for p in find_problems(frame.tobytes())]
    assert numbers[0] == 20_000


def open_bench(plugin, faults=None):
    device = ReferenceLabDevice(plugin, frame_octets(plugin.links), faults)
    tester = EmbeddedTester(plugin.links, device)
    tester.open()
    tester.load(compile_streams(plugin), plugin)
    return tester


def make_trial(mode):
    return Trial("throughput", "t", SIZE, SIZE, mode, 1000.0, 0.25, 0.2, 0.1)


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize("kind", foreign.ALL)
def test_foreground_returns_and_negative_traffic_is_dropped(kind):
    with closing(open_bench(kind())) as tester:
        result = measure_passed(tester, make_trial("bidirectional"))
        for counted in result.directions.values():
            assert counted.classes["fg"].received == 200
            assert counted.classes["expired"].sent == 50
            assert counted.classes["expired"].received == 0
            assert counted.checked == counted.matched == 200
            assert counted.control == 0


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(
    ("kind", "octet", "said"),
    [(foreign.OverTcp, 47, "TCP flags"), (foreign.GreTunnel, 45, "inner IPv6 hop limit")],
)
def test_corrupted_field_is_named(kind, octet, said):
    with closing(open_bench(kind(), Faults(corrupt_octet=octet))) as tester:
        counted = tester.measure(make_trial("forward")).directions["forward"]
        assert counted.matched == 0
        assert counted.classes["fg"].received == 200
        assert said in counted.mismatch["why"]
