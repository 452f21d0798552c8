"""The customer's side: one CE of any rule, its relay's mirror image."""

from ipaddress import IPv4Network, IPv6Address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.plugins.map_ce import (
    CustomerDrop,
    LwB4,
    LwB4Params,
    MapECe,
    MapECeParams,
    MapTCe,
    MapTCeParams,
)

from .drawn_rules import ce_settings, rule_settings, rules
from .support import addresses, first_frames, make, number


def as_sent(plugin, direction, frames):
    """Return frames that left one device as they arrive at another one on the same cables."""
    link = plugin.links.left if direction == "forward" else plugin.links.right
    out = frames.copy()
    out[:, :12] = list(bytes.fromhex((link.dut_mac + link.tester_mac).replace(":", "")))
    return out


@pytest.mark.parametrize(("ce_name", "relay_name", "unchanged", "hops"), [
    # but for TTL, identification and checksum
    ("mapt-ce", "mapt-br", [*range(14, 18), 23, *range(26, 40)], 2),
    ("mape-ce", "mape-br", [*range(14, 22), 23, *range(26, 40)], None),
], ids=["MAP-T", "MAP-E"])  # fmt: skip
@settings(max_examples=60, deadline=None)
@given(rule=rules(sendable=True), data=st.data())
def test_ce_and_relay_of_one_rule_forward_each_others_frames(
    ce_name, relay_name, unchanged, hops, rule, data
):
    ea = data.draw(st.integers(0, rule.ce_count - 1))
    ce = make(ce_name, **ce_settings(rule, ea))
    try:
        relay = make(relay_name, **rule_settings(rule), ces=min(rule.ce_count, 100))
    except UsageError as exc:
        assert (exc.code, rule.psid_len) == ("not-enough-addresses", 16)
        return
    frames = first_frames(ce, "reverse", 60)
    across = ce.expect("reverse", frames)
    assert not across.reason.any()
    out = relay.expect("forward", as_sent(relay, "forward", across.frames))
    assert not out.reason.any()
    kept = [*unchanged, *range(42, out.frames.shape[1])]
    assert (out.frames[:, kept] == frames[:, kept]).all()
    assert hops is None or (out.frames[:, 22] == frames[:, 22] - hops).all()
    frames = first_frames(ce, "forward", 60)
    inside = ce.expect("forward", frames)
    assert not inside.reason.any()
    back = relay.expect("reverse", as_sent(relay, "reverse", inside.frames))
    assert not back.reason.any()
    assert (back.frames[:, 22:54] == frames[:, 22:54]).all()


def routes(texts):
    return LinkIntent(routes=texts).routes


def test_ce_of_figure_8_of_the_mapperf_paper_has_its_addresses_and_ports():
    plugin = make("mape-ce", psid_offset=0)
    ports = number(first_frames(plugin, "reverse", 20_000), 34, 2)
    assert (ports.min(), ports.max()) == (18432, 20479)
    intent = plugin.dut_intent()
    assert str(intent.configuration.end_user_prefix) == "2001:db8:ce:17a9::/64"
    assert str(intent.configuration.tunnel_local) == "2001:db8:ce:17a9:0:c000:2bd:9"
    assert intent.left.routes == routes({"2001:db8:6::1/128": "2001:db8:6::1"})
    assert intent.right.routes == routes({"192.0.2.189/32": "192.168.19.2"})


def test_intent_contains_the_way_to_the_relay():
    intent = MapTCe().dut_intent()
    assert str(intent.configuration.dmr) == "2001:db8:ffff::/64"
    assert intent.left.routes == routes({"2001:db8:ffff::/64": "2001:db8:6::1"})
    lwb4 = LwB4().dut_intent().configuration
    assert (str(lwb4.tunnel_remote), str(lwb4.ipv4)) == ("2001:db8:6::1", "198.18.0.1/32")


def reasons(plugin, frames):
    return plugin.expect("forward", frames).reason.tolist()


@pytest.mark.parametrize("kind", [MapECe, LwB4])
def test_packet_from_another_tunnel_end_is_dropped(kind):
    frames = first_frames(kind(), "forward", 3)
    frames[1, 37] ^= 1  # the outer source
    assert reasons(kind(), frames) == [0, CustomerDrop.WRONG_RELAY, 0]


@pytest.mark.parametrize(("kind", "at"), [(MapECe, 76), (MapTCe, 56), (LwB4, 76)])
def test_port_below_the_offset_is_dropped(kind, at):
    plugin = kind()
    ports = plugin.params.customer.ports
    frames = first_frames(plugin, "forward", 3)
    low = ports.psid << ports.low_bits
    for row, port in enumerate((low, (1 << 16 - ports.psid_offset) + low)):
        frames[row, at : at + 2] = list(port.to_bytes(2, "big"))
    wanted = [CustomerDrop.BAD_PORT, 0, 0]
    assert reasons(plugin, frames) == wanted


def test_packet_for_another_address_is_dropped_by_a_mapt_ce():
    plugin = MapTCe()
    frames = first_frames(plugin, "forward", 132)
    bits = np.arange(128)
    frames[bits, 38 + bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    frames[128, 22:38] = list(IPv6Address("2001:db8:7::2").packed)
    answer = plugin.expect("forward", frames)
    # other prefixes are not the CE's, packets from elsewhere are native
    assert set(reasons(plugin, frames)[:64]) == {0}
    assert set(answer.length[:64].tolist()) == {80}
    assert set(reasons(plugin, frames)[64:128]) == {CustomerDrop.WRONG_ADDRESS}
    assert answer.length[128:].tolist() == [80, 60, 60, 60]


@pytest.mark.parametrize("name", ["mape-ce", "mapt-ce"])
def test_ce_with_a_prefix_has_many_hosts(name):
    plugin = make(name, rule_ipv6="2001:db8::/40", ea_len=4, ce_ipv4="192.0.2.48", ce_psid=0)
    assert plugin.params.customer.ipv4 == IPv4Network("192.0.2.48/28")
    out = plugin.expect("forward", first_frames(plugin, "forward", 2000)).frames
    assert addresses(out, 30, 4) == {f"192.0.2.{n}" for n in range(48, 64)}


def test_default_psid_fits_the_rule():
    for ea_len, psid in ((8, 0), (9, 1), (13, 9)):
        assert MapECeParams(ea_len=ea_len).ce_psid == MapTCeParams(ea_len=ea_len).ce_psid == psid
    for psid_len, psid in ((0, 0), (2, 3), (6, 9)):
        assert LwB4Params(psid_len=psid_len).psid == psid
