"""The benchmark of field-engine programs sends requests that the TRex worker accepts."""

import inspect
import json
from dataclasses import asdict, replace

import pytest
from v6t.base.errors import TesterError
from v6t.drivers.trex.client.stats import CounterReading, PortStats, TrialStats
from v6t.drivers.trex.client.stl import StlWorker
from v6t.profiles.streams import StreamSet
from v6t.tests.bench.bench_trex_programs import measure_frame_time

STATS = TrialStats(
    ports={0: PortStats(6_000_000, 0, 0, 0), 1: PortStats(0, 6_000_000, 0, 0)},
    counter_readings=[CounterReading(1.4, {0: 6_000_000}, 1.5)],
    dropped_frames=3_000_000,
    queue_full_count=1_000_000,
)


class FakeAttachment:
    """Check each request against the worker's methods, and answer trials with these counters."""

    def __init__(self, stats):
        self.stats = stats

    def ask(self, op, /, *, deadline_s=None, **arguments):
        inspect.signature(getattr(StlWorker, op)).bind(self, **arguments)
        return json.loads(json.dumps(asdict(self.stats)))


@pytest.mark.parametrize(("ended", "time_ns"), [(True, 150), (False, 200)])
def test_frame_time_counts_sent_and_dropped_frames(ended, time_ns):
    attachment = FakeAttachment(replace(STATS, ended=ended))
    assert measure_frame_time(attachment, StreamSet("forward", ())) == pytest.approx(time_ns)


def test_unknown_drops_are_an_error():
    attachment = FakeAttachment(replace(STATS, dropped_frames=None, events=["drops are unknown"]))
    with pytest.raises(TesterError, match="drops are unknown"):
        measure_frame_time(attachment, StreamSet("forward", ()))
