"""Header fields whose values are expressions over variables."""

import numpy as np
from v6t.packets.bit_layout import BitCopy, BitLayout
from v6t.profiles import model
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.entropy import hold_variables
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error

from .traffics import ETHER

EA = model.Variable("ea", 8, model.Kind.LIST, values=(0x12, 0x34, 0xF7))
PORT = model.Variable("port", 16, model.Kind.INC, low=7, high=9)
SUFFIX = BitLayout(32, {"ea": 8, "host": 4}, (BitCopy("ea", 24, 4), BitCopy("host", 28, 4)))
ADDRESS = BitLayout(128, {"ipv4": 32}, (BitCopy("ipv4", 96, 32),))
SOURCE = model.Expression.from_layout(SUFFIX, "192.0.2.5", ea=EA, host=None)


def make_class(src, sport=1024, **keys):
    ip = model.Layer("IP", {"src": src, "dst": "198.51.100.1"})
    udp = model.Layer("UDP", {"sport": sport, "dport": 2})
    return model.TrafficClass("fg", model.Role.FOREGROUND, (ETHER, ip, udp), 84, **keys)


def compute_frames(traffic_class, count=3):
    streams = compile_traffic(model.Traffic("forward", (traffic_class,))).streams
    return Expander(streams[0]).compute_frames(0, count)


def test_expression_places_bits_of_variables_in_a_field():
    assert compute_frames(make_class(SOURCE))[:, 29].tolist() == [0x15, 0x35, 0xF5]
    counting = make_class("192.0.2.5", PORT)
    assert compute_frames(counting)[:, 34:36].tolist() == [[0, 7], [0, 8], [0, 9]]
    assert counting.find_layer("UDP").constants["sport"] == 7
    low = compute_frames(make_class(EA.place(16, "192.0.2.5")))[:, 28:30]
    assert low.tolist() == [[0x12, 5], [0x34, 5], [0xF7, 5]]
    halves = model.VariableBits(EA, 0, 8), model.VariableBits(EA, 8, 8)
    added = make_class(model.Expression("192.0.2.5", halves).add_constant(1, "ea", range(8, 32)))
    assert compute_frames(added)[:, 26:28].tolist() == [[0x12, 0x13], [0x34, 0x35], [0xF7, 0xF8]]


def test_sum_of_a_narrow_draw_fills_all_bits():
    drawn = model.Variable("host", 32, low=1, high=6)
    address = drawn.place(0, "192.0.2.5").add_constant(1 << 30, "host")
    octets = compute_frames(make_class(address), 200)[:, 26:30]
    assert {tuple(row) for row in octets.tolist()} == {(64, 0, 0, low) for low in range(1, 7)}


def test_expression_within_a_layout_is_cut_and_joined():
    nested = model.Expression.from_layout(ADDRESS, "2001:db8::", ipv4=SOURCE)
    assert nested.bits == (model.VariableBits(EA, 120, 4),)
    halves = BitLayout(8, {"a": 32}, (BitCopy("a", 0, 2, 24), BitCopy("a", 2, 2, 26)))
    assert model.Expression.from_layout(halves, 0, a=SOURCE).bits == (model.VariableBits(EA, 0, 4),)


def test_variables_of_wrong_width_or_equal_name_are_rejected():
    with expect_error("invalid-traffic-model"):
        model.Expression.from_layout(SUFFIX, 0, ea=PORT)
    with expect_error("duplicate"):
        compute_frames(make_class(SOURCE, model.Variable("ea", 16)))


def test_variables_are_drawn_in_the_order_of_the_layers_unless_given():
    assert [v.name for v in make_class(SOURCE, PORT).list_drawn_variables()] == ["ea", "port"]
    ordered = make_class(SOURCE, PORT, draw_order=("port", "unused"))
    assert [v.name for v in ordered.list_drawn_variables()] == ["port", "ea"]


def test_replace_fields_keeps_the_other_fields():
    traffic_class = make_class(SOURCE, PORT)
    layers = traffic_class.replace_fields("IP", src="192.0.2.9")
    assert layers[1].fields == {"src": "192.0.2.9", "dst": "198.51.100.1"}
    assert layers[2] is traffic_class.layers[2]


def test_held_addresses_are_constant_while_ports_vary():
    traffic = model.Traffic("forward", (make_class(SOURCE, PORT),))
    frames = compute_frames(hold_variables(traffic, ports=False, addresses=True).classes[0])
    assert np.unique(frames[:, 29]).tolist() == [0x15]
    assert frames[:, 35].tolist() == [7, 8, 9]
