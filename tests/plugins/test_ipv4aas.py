"""IPv4 as a service and DS-Lite: chains of two devices, and the intents and frames of their parts."""

from ipaddress import IPv4Address
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.audit.packet_device.nat import NatDevice
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.oracle.state_table import count_inside_endpoints
from v6t.plugins.audit_views import Nat
from v6t.plugins.ipv4aas import MAX_PORT_SHARE, Ipv4aasParams
from v6t.tests.expect import expect_error

from . import support
from .test_stateful import ONE_SOFTWIRE, TRANSLATING, VARIANTS, DualDevice

TWO_SOFTWIRES = {
    "initiator_count": 2, "responder_count": 2, "initiator_ports": {"min": 4096, "max": 4099},
    "responder_ports": {"min": 1, "max": 3}, "enumerate_ips": 3,
}  # fmt: skip


def make_dual(variant, **params):
    plugin = support.make("ipv4aas", variant=variant, **params)
    return plugin, DualDevice(plugin)


def make_aftr(**params):
    plugin = support.make("dslite-aftr", **params)
    return plugin, support.make_device(plugin)


def nat_part(nat, pool_first, count, ports):
    """Make a packet-level device for the NAT of a chain."""
    pool = tuple(pool_first + n for n in range(count))
    return NatDevice(nat.intent, Nat((), (), pool, public_ports=(ports.min, ports.max)))


def make_chain_oracle(plugin, initial, learned):
    def expect(direction, frames):
        return plugin.expect_for_connections(direction, frames, initial, learned)

    oracle = make_driver("chain", {}).adapt_oracle(plugin, plugin.make_dut_intent())
    oracle.oracle = SimpleNamespace(expect=expect)
    return oracle


def to_rows(frames):
    return np.array([list(frame) for frame in frames], dtype=np.uint8)


@pytest.mark.parametrize("variant", ["ds-lite", "lw4o6", "map-e", "map-t"])
def test_parts_in_series_equal_two_devices(variant):
    plugin, _ = make_dual(variant)
    p = plugin.params
    (nat,) = [part for part in plugin.parts if part.stateful]
    device = nat_part(nat, p.public_pool.first, p.public_pool.count, p.public_pool.ports)

    def forward_through_parts(direction, frames):
        for part in plugin.parts if direction == "forward" else plugin.parts[::-1]:
            if part is nat:
                frames = to_rows(support.forward_frames(device, direction, frames))
                continue
            opposite = {"forward": "reverse", "reverse": "forward"}[direction]
            answer = part.reference.expect(opposite if part.mirrored else direction, frames)
            assert not answer.reason.any(), part.name
            frames = answer.frames[:, : answer.length[0]]
        return frames

    frames = support.first_frames(plugin, "forward", support.CONNECTIONS)
    out = forward_through_parts("forward", frames)
    oracle = make_chain_oracle(plugin, frames, out[:, 26:38])
    assert (to_rows(support.list_emitted(oracle.expect("forward", frames))) == out).all()
    back = support.make_responses(plugin, out[:, 26:38])
    answer = to_rows(support.list_emitted(oracle.expect("reverse", back)))
    assert (answer == forward_through_parts("reverse", back)).all()


@pytest.mark.parametrize(
    ("params", "inside_network"), [({}, "10.0.0.0/28"), (ONE_SOFTWIRE, "192.168.1.2/32")]
)
def test_dslite_parts_in_series_equal_aftr(params, inside_network):
    plugin, _ = make_aftr(**params)
    end, nat = plugin.parts
    device = nat_part(nat, plugin.params.pool_first, 1, plugin.params.pool_ports)
    frames = support.first_frames(plugin, "forward", support.CONNECTIONS)
    middle = end.reference.expect("forward", frames)
    assert not middle.reason.any()
    out = support.forward_frames(device, "forward", middle.frames)
    learned = to_rows(out)[:, 26:38]
    oracle = make_chain_oracle(plugin, frames, learned)
    assert support.list_emitted(oracle.expect("forward", frames)) == out
    back = support.make_responses(plugin, learned)
    translated = to_rows(support.forward_frames(device, "reverse", back))
    answer = end.reference.expect("reverse", translated)
    assert support.list_emitted(oracle.expect("reverse", back)) == support.list_emitted(answer)
    (inside,) = nat.intent.configuration.inside4
    assert str(inside) == inside_network


@pytest.mark.parametrize("variant", VARIANTS)
def test_frame_size_is_that_of_the_middle_link(variant):
    plugin, _ = make_dual(variant)
    overhead = 20 if variant in TRANSLATING else 40
    assert plugin.overhead == overhead and plugin.default_frame_sizes == (64 + overhead,)
    sizes = plugin.make_frame_pair(64 + overhead)
    for direction in ("forward", "reverse"):
        (only,) = plugin.build_traffic(direction, sizes).classes
        assert only.frame_size == 64
    # the outer links carry the frame rate of the middle link
    assert compute_max_frame_rate_fps(10e9, sizes.ipv6) == 10e9 / 8 // (sizes.ipv6 + 20)


def test_map_t_ce_of_the_paper_has_its_ports():
    napt, ce, _ = make_dual("map-t")[0].parts
    assert napt.intent.configuration.pool4 == (IPv4Address("192.0.2.35"),)
    assert napt.intent.configuration.ports == (24576, 32767)
    assert str(ce.intent.configuration.end_user_prefix) == "2001:db8:ce:11b::/64"


@pytest.mark.parametrize(("count", "warned"), [(7000, False), (7372, False), (7373, True)])
def test_port_set_with_little_headroom_has_warning(count, warned):
    ports = {"min": 1024, "max": 1023 + count}
    plugin, _ = make_dual("map-t", initiator_ports=ports)
    assert any("8192" in line for line in plugin.warnings) == warned
    p = plugin.params
    assert (p.endpoints > MAX_PORT_SHARE * p.public_pool.ports.count) == warned
    nat64, _ = make_dual("464xlat", initiator_ports=ports)
    assert not any("8192" in line for line in nat64.warnings)


def test_frame_longer_than_the_middle_link_carries_is_refused():
    plugin, _ = make_dual("map-e", middle_mtu=1400)
    with expect_error("frame-too-long", mentions="1400"):
        plugin.make_frame_pair(1518)


def test_equal_inner_tuples_of_two_softwires_are_two_connections():
    """Two B4s send all combinations, so each inner four-tuple comes from both."""
    plugin, device = make_aftr(**TWO_SOFTWIRES)
    assert plugin.combinations == 48
    frames, _, learned = support.establish(plugin, device)
    inner = frames[:, 66:78]
    assert len(np.unique(inner, axis=0)) == 24
    assert len(np.unique(np.concatenate([frames[:, 22:38], inner], axis=1), axis=0)) == 48
    assert len(np.unique(learned, axis=0)) == 48
    # an endpoint is a softwire and a port
    assert plugin.params.endpoints == 8
    stream = support.compile_streams(plugin, "forward")[0]
    assert count_inside_endpoints(stream, plugin.combinations) == 8


def test_dslite_tunnel_end_drops_packets_of_no_softwire():
    end = make_aftr()[0].parts[0].reference
    frames = support.first_frames(make_aftr()[0], "forward", 6)
    frames[0, 37] = 0xFF  # unknown B4
    frames[1, 53] ^= 1  # another AFTR address
    frames[2, 20] = 17  # UDP instead of IPv4 in IPv6
    frames[3, 69] ^= 1  # an inner source outside the customer's network
    frames[4, 62] = 1  # TTL 1
    assert (end.expect("forward", frames).length > 0).tolist() == [False] * 5 + [True]
    out = end.expect("forward", frames[5:]).frames
    back = out.copy()
    back[:, :12] = np.roll(out[:, :12], 6, axis=1)
    back[:, 26:34] = np.roll(out[:, 26:34], 4, axis=1)
    assert end.expect("reverse", back).length.tolist() == [100]
    back[:, 33] = 200
    assert end.expect("reverse", back).length.tolist() == [0]


@pytest.mark.parametrize("variant", ["lw4o6", "map-e", "map-t"])
def test_napt_takes_the_first_range_of_ports(variant):
    plugin, _ = make_dual(variant, psid_offset=4, initiator_ports={"min": 4096, "max": 4111})
    assert plugin.params.port_set.ranges[:2] == ((5632, 6143), (9728, 10239))
    assert plugin.parts[0].intent.configuration.ports == (5632, 6143)
    assert any("5632 to 6143" in text for text in plugin.warnings)


def test_port_set_that_begins_at_port_0_is_used_from_port_1():
    params = Ipv4aasParams(variant="map-e", psid_offset=0, psid=0, low_ports=True)
    assert (params.public_pool.ports.min, params.public_pool.ports.max) == (1, 8191)
