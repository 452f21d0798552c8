"""Test frames of plugins with other protocols than UDP, sent by the embedded tester in the lab."""

from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.lab.reference_device import Faults
from v6t.drivers.lab.setup import ReferenceLabDevice, compute_frame_octets
from v6t.tests.needs import needs_lab
from v6t.tests.plugins import foreign
from v6t.trials.trial import Trial

from .lab_testers import measure_passed

pytestmark = [pytest.mark.lab, needs_lab]
SIZE = 128
TRIAL = Trial("throughput", "t", SIZE, SIZE, "bidirectional", 1000.0, 0.25, 0.2, 0.1)


@contextmanager
def open_bench(plugin, faults=None):
    device = ReferenceLabDevice(plugin, compute_frame_octets(plugin.links), faults)
    with closing(EmbeddedTester(plugin.links, device)) as tester:
        tester.open()
        tester.load(compile_directions(plugin, plugin.make_frame_pair(SIZE), 1), plugin)
        yield tester


@pytest.mark.parametrize("kind", foreign.ALL)
def test_foreground_returns_and_negative_traffic_is_dropped(kind):
    with open_bench(kind()) as tester:
        for counted in measure_passed(tester, TRIAL).directions.values():
            expired = counted.classes["expired"]
            assert counted.classes["fg"].received == 200
            assert (expired.sent, expired.received) == (50, 0)
            assert counted.checked == counted.matched == 200
            assert counted.control == 0


@pytest.mark.parametrize(("kind", "octet", "field"), [
    (foreign.OverTcp, 47, "TCP flags"), (foreign.GreTunnel, 45, "inner IPv6 hop limit"),
])  # fmt: skip
def test_corrupted_field_is_named(kind, octet, field):
    with open_bench(kind(), Faults(corrupt_octet=octet)) as tester:
        counted = tester.measure(replace(TRIAL, mode="forward")).directions["forward"]
        assert counted.matched == 0
        assert counted.classes["fg"].received == 200
        assert field in counted.mismatch["why"]
