"""Relays and CEs of MAP and lw4o6: any rule, examples of RFCs and papers, and dropped packets."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.plugins import translation
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
from .support import (
    first_frames,
    forward_frames,
    list_emitted,
    make,
    make_device,
    read_addresses,
    read_numbers,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mape-br", "mapt-br", "mape-ce", "mapt-ce"])
@settings(max_examples=40)
@given(rules(sendable=True), st.sampled_from(translation.PREFIX_LENGTHS), st.data())
def test_frames_of_any_rule_equal_those_of_the_packet_level_device(name, rule, length, data):
    params = {**rule_settings(rule), "ces": min(rule.ce_count, 100)}
    if name.endswith("-ce"):
        params = ce_settings(rule, data.draw(st.integers(0, rule.ce_count - 1)))
    if name.startswith("mapt"):
        params["dmr"] = str(IPv6Network((0x0064FF9B << 96, length)))
    try:
        plugin = make(name, **params)
    except UsageError as exc:
        assert exc.code in ("address-conflict", "not-enough-addresses")
        return
    device = make_device(plugin)
    for direction in DIRECTIONS:
        frames = first_frames(plugin, direction, 40)
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        assert list_emitted(answer)[::7] == forward_frames(device, direction, frames[::7])


def test_example_of_rfc_7599_is_translated():
    """Examples 2 and 3 of appendix A."""
    plugin = make(
        "mapt-br", rule_ipv6="2001:db8::/40", rule_ipv4="192.0.2.0/24", ea_len=16, ces=100,
        server_ipv4="203.0.113.56", dmr="2001:db8:ffff::/64",
    )  # fmt: skip
    frames = first_frames(plugin, "reverse", 1)
    frames[0, 26:34] = list(IPv4Address("10.2.3.4").packed + IPv4Address("192.0.2.18").packed)
    frames[0, 34:38] = list((80).to_bytes(2, "big") + (1232).to_bytes(2, "big"))
    write_ipv4_checksum(frames, 14)
    six = IPv6(plugin.expect("reverse", frames).frames[0, 14:].tobytes())
    assert (six.src, six.dst) == ("2001:db8:ffff:0:a:203:400:0", "2001:db8:12:3400:0:c000:212:34")
    assert (six[UDP].sport, six[UDP].dport) == (80, 1232)


@pytest.mark.parametrize("name", ["mape-br", "mapt-br"])
@pytest.mark.parametrize("iid_format", ["rfc7597", "draft"])
def test_all_hosts_of_ces_with_a_prefix_send_and_receive(iid_format, name):
    """Each of 16 CEs has a /28; by erratum 5225 of RFC 7599 the identifier contains the host."""
    plugin = make(name, rule_ipv6="2001:db8:100::/40", ea_len=4, ces=16, iid_format=iid_format)
    pool = {f"192.0.2.{n}" for n in range(256)}
    sent = plugin.expect("forward", first_frames(plugin, "forward", 5000)).frames
    received = first_frames(plugin, "reverse", 5000)
    assert read_addresses(sent, 26, 4) == read_addresses(received, 30, 4) == pool


def test_ce_of_figure_8_of_the_mapperf_paper_has_its_addresses_and_ports():
    plugin = make("mape-ce", psid_offset=0)
    ports = read_numbers(first_frames(plugin, "reverse", 20_000), 34, 2)
    assert (ports.min(), ports.max()) == (18432, 20479)
    intent = plugin.make_dut_intent()
    assert str(intent.configuration.end_user_prefix) == "2001:db8:ce:17a9::/64"
    assert str(intent.configuration.tunnel_local) == "2001:db8:ce:17a9:0:c000:2bd:9"
    assert intent.left.routes == LinkIntent(routes={"2001:db8:6::1/128": "2001:db8:6::1"}).routes
    assert intent.right.routes == LinkIntent(routes={"192.0.2.189/32": "192.168.19.2"}).routes


def list_reasons(plugin, frames):
    return plugin.expect("forward", frames).reason.tolist()


@pytest.mark.parametrize("kind", [MapECe, LwB4])
def test_packet_from_another_tunnel_end_is_dropped(kind):
    frames = first_frames(kind(), "forward", 3)
    frames[1, 37] ^= 1  # the outer source
    assert list_reasons(kind(), frames) == [0, CustomerDrop.WRONG_RELAY, 0]


@pytest.mark.parametrize(("kind", "at"), [(MapECe, 76), (MapTCe, 56), (LwB4, 76)])
def test_port_below_the_offset_is_dropped(kind, at):
    plugin = kind()
    ports = plugin.params.customer.ports
    frames = first_frames(plugin, "forward", 3)
    low = ports.psid << ports.low_bits
    for row, port in enumerate((low, (1 << 16 - ports.psid_offset) + low)):
        frames[row, at : at + 2] = list(port.to_bytes(2, "big"))
    assert list_reasons(plugin, frames) == [CustomerDrop.BAD_PORT, 0, 0]


def test_packet_for_another_address_is_dropped_by_a_mapt_ce():
    plugin = MapTCe()
    frames, bits = first_frames(plugin, "forward", 132), np.arange(128)
    frames[bits, 38 + bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    frames[128, 22:38] = list(IPv6Address("2001:db8:7::2").packed)
    answer = plugin.expect("forward", frames)
    # packets to other prefixes and from other sources are native traffic
    reasons = list_reasons(plugin, frames)
    assert set(reasons[:64]) == {0}
    assert set(answer.length[:64].tolist()) == {80}
    assert set(reasons[64:128]) == {CustomerDrop.WRONG_ADDRESS}
    assert answer.length[128:].tolist() == [80, 60, 60, 60]


@pytest.mark.parametrize("name", ["mape-ce", "mapt-ce"])
def test_ce_with_a_prefix_receives_for_all_its_hosts(name):
    plugin = make(name, rule_ipv6="2001:db8::/40", ea_len=4, ce_ipv4="192.0.2.48", ce_psid=0)
    assert plugin.params.customer.ipv4 == IPv4Network("192.0.2.48/28")
    out = plugin.expect("forward", first_frames(plugin, "forward", 2000)).frames
    assert read_addresses(out, 30, 4) == {f"192.0.2.{n}" for n in range(48, 64)}


def test_default_psid_fits_the_rule():
    for ea_len, psid in ((8, 0), (9, 1), (13, 9)):
        assert MapECeParams(ea_len=ea_len).ce_psid == MapTCeParams(ea_len=ea_len).ce_psid == psid
    for psid_len, psid in ((0, 0), (2, 3), (6, 9)):
        assert LwB4Params(psid_len=psid_len).psid == psid
