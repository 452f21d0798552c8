"""Traffic with fewer varying fields or flows, which devices still forward."""

import numpy as np
import pytest
from v6t.core.config.plugins import load_technology_type
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.entropy import find_variation, hold_variables, limit_flows
from v6t.profiles.expand import Expander
from v6t.profiles.model import Kind, Layer, Role, Traffic, TrafficClass, Variable
from v6t.tests.expect import expect_error
from v6t.tests.plugins.support import make

SPREAD = ("mape-br", "mapt-br", "siit", "lwaftr", "ipv4-router", "ipv6-router")
ONE_HOST = ("clat", "lwb4", "mape-ce", "mapt-ce")


def build_traffic(name, direction):
    plugin = make(name, **load_technology_type(name).varying_params)
    sizes = plugin.make_frame_pair(plugin.default_frame_sizes[0])
    return plugin, plugin.build_traffic(direction, sizes, 1)


def compute_frames(traffic, count=400):
    return Expander(compile_traffic(traffic).streams[0]).compute_frames(0, count)


def count_distinct(rows):
    return len(np.unique(rows, axis=0))


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_frames_with_held_variables_are_constant_and_forwarded(name, direction):
    plugin, traffic = build_traffic(name, direction)
    assert find_variation(traffic) == (True, True)
    for ports in (False, True):
        for addresses in (False, True):
            frames = compute_frames(hold_variables(traffic, ports=ports, addresses=addresses))
            assert np.all(plugin.expect(direction, frames).length > 0)
            assert (count_distinct(frames) == 1) is (ports and addresses)
            outer = frames[:, 22:54] if frames[0, 14] >> 4 == 6 else frames[:, 26:34]
            assert (count_distinct(outer) == 1) is addresses
    assert find_variation(hold_variables(traffic, ports=True, addresses=True)) == (False, False)
    assert find_variation(hold_variables(traffic, ports=True, addresses=False)) == (False, True)


@pytest.mark.parametrize("name", ONE_HOST)
def test_addresses_of_one_customer_are_constant(name):
    for direction in DIRECTIONS:
        assert find_variation(build_traffic(name, direction)[1]) == (True, False)


@pytest.mark.parametrize("name", SPREAD + ONE_HOST)
@pytest.mark.parametrize("count", [1, 2, 16, 100])
def test_limited_flows_take_turns(name, count):
    for direction in DIRECTIONS:
        plugin, traffic = build_traffic(name, direction)
        frames = compute_frames(limit_flows(traffic, count), 3 * count + 5)
        assert np.all(plugin.expect(direction, frames).length > 0)
        assert count_distinct(frames) == count
        # testers that start flows one by one assume that frame k belongs to flow k mod n
        assert np.array_equal(frames[count:], frames[:-count])


def test_background_has_same_number_of_flows():
    plugin = make("mape-br", n=2, m=1)
    traffic = limit_flows(plugin.build_traffic("forward", plugin.make_frame_pair(128), 1), 8)
    for stream in compile_traffic(traffic).streams:
        assert count_distinct(Expander(stream).compute_frames(0, 64)) == 8


def test_lists_of_equal_length_are_limited_together():
    a = Variable("a", 16, Kind.LIST, values=(3, 1, 2))
    b = Variable("b", 16, Kind.LIST, values=(30, 10, 20))
    layers = (Layer("IP", {"dst": a.place(16, "198.18.0.1")}), Layer("UDP", {"dport": b}))
    traffic = Traffic("forward", (TrafficClass("fg", Role.FOREGROUND, layers, 64),))
    (two,) = limit_flows(traffic, 2).classes
    assert [v.values for v in two.list_drawn_variables()] == [(3, 1), (30, 10)]


def test_more_flows_than_values_are_rejected():
    plugin = make("mape-br", ces=10, fw_sport="fixed", fw_dport={"policy": "fixed"})
    traffic = plugin.build_traffic("forward", plugin.make_frame_pair(104), 1)
    with expect_error("not-enough-addresses", mentions="10"):
        limit_flows(traffic, 11)
