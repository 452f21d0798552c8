"""Test frames of any protocol in the lab, identified by their trailers only."""

from contextlib import closing

import pytest
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.lab.reference_device import Faults
from v6t.drivers.lab.setup import ReferenceLabDevice, frame_octets
from v6t.tests.needs import needs_lab
from v6t.tests.plugins.foreign import ALL, GreTunnel, OverTcp
from v6t.trials.trial import Trial

from .lab_testers import measure_passed

pytestmark = [pytest.mark.lab, needs_lab]
SIZE = 128


def open_bench(plugin, faults=None):
    device = ReferenceLabDevice(plugin, frame_octets(plugin.links), faults)
    tester = EmbeddedTester(plugin.links, device)
    tester.open()
    tester.load(compile_directions(plugin, plugin.make_frame_pair(SIZE), 1), plugin)
    return tester


def make_trial(mode):
    return Trial("throughput", "t", SIZE, SIZE, mode, 1000.0, 0.25, 0.2, 0.1)


@pytest.mark.parametrize("kind", ALL)
def test_foreground_returns_and_negative_traffic_is_dropped(kind):
    with closing(open_bench(kind())) as tester:
        result = measure_passed(tester, make_trial("bidirectional"))
        for counted in result.directions.values():
            assert counted.classes["fg"].received == 200
            assert counted.classes["expired"].sent == 50
            assert counted.classes["expired"].received == 0
            assert counted.checked == counted.matched == 200
            assert counted.control == 0


@pytest.mark.parametrize(
    ("kind", "octet", "said"), [(OverTcp, 47, "TCP flags"), (GreTunnel, 45, "inner IPv6 hop limit")]
)
def test_corrupted_field_is_named(kind, octet, said):
    with closing(open_bench(kind(), Faults(corrupt_octet=octet))) as tester:
        counted = tester.measure(make_trial("forward")).directions["forward"]
        assert counted.matched == 0
        assert counted.classes["fg"].received == 200
        assert said in counted.mismatch["why"]
