"""The customer's side: one CE of any rule, its relay's mirror image."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.plugins.map_ce import (
    LwB4,
    LwB4Params,
    MapCeParams,
    MapECe,
    MapECeParams,
    MapTCe,
    MapTCeParams,
)
from v6t.plugins.map_rules import MapRule
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.mapt_br import MapTBorderRelay
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error

from .test_mapt import SERVER, params, rules


def settings_of(rule: MapRule, ea: int) -> dict[str, object]:
    """Parameters of a rule's CE number ``ea``."""
    ipv4, psid = rule.decode_ea(ea) if rule.ea_len else (rule.ipv4_prefix.network_address, 0)
    if not rule.ea_len and rule.ipv4_prefix.prefixlen < 32:
        psid = 0
    if rule.psid_len == 16 and not psid:
        psid = 1
    return {
        "rule_ipv6": str(rule.ipv6_prefix),
        "rule_ipv4": str(rule.ipv4_prefix),
        "ea_len": rule.ea_len,
        "psid_offset": rule.psid_offset,
        "psid_len": None if rule.ea_len else rule.psid_len,
        "iid_format": rule.iid_format,
        "ce_ipv4": str(ipv4),
        "ce_psid": psid,
        "server_ipv4": SERVER,
    }


def expanded(plugin, direction, count=60):
    sizes = plugin.frame_pair(plugin.default_frame_sizes[0])
    (stream,) = compile_traffic(plugin.traffic(direction, sizes)).streams
    return Expander(stream).frames(0, count)


def as_sent(plugin, direction, frames):
    """Frames that left one device as they arrive at another one on the same cables."""
    out = frames.copy()
    link = plugin.links.left if direction == "forward" else plugin.links.right
    macs = bytes.fromhex((link.dut_mac + link.tester_mac).replace(":", ""))
    out[:, :12] = list(macs)
    return out


@settings(max_examples=60, deadline=None)
@given(rules(), st.data())
def test_ce_and_relay_of_map_t_understand_each_other(rule, data):
    """What the CE sends the BR takes, and back, for any rule and any of its CEs."""
    ce = MapTCe(MapTCeParams.model_validate(
        settings_of(rule, data.draw(st.integers(0, rule.ce_count - 1)))
    ))  # fmt: skip
    try:
        relay = MapTBorderRelay(params(rule))
    except UsageError as exc:
        assert (exc.code, rule.psid_len) == ("not-enough-addresses", 16)
        return
    frames = expanded(ce, "reverse")
    across = ce.expect("reverse", frames)
    assert not across.reason.any()
    out = relay.expect("forward", as_sent(relay, "forward", across.frames))
    assert not out.reason.any()
    # unchanged but for TTL, identification and checksum
    kept = [*range(14, 18), *range(23, 24), *range(26, 40), *range(42, out.frames.shape[1])]
    assert (out.frames[:, kept] == frames[:, kept]).all()
    assert (out.frames[:, 22] == frames[:, 22] - 2).all()
    frames = expanded(ce, "forward")
    at_home = ce.expect("forward", frames)
    assert not at_home.reason.any()
    again = relay.expect("reverse", as_sent(relay, "reverse", at_home.frames))
    assert not again.reason.any()
    assert (again.frames[:, 22:54] == frames[:, 22:54]).all()


@settings(max_examples=60, deadline=None)
@given(rules(), st.data())
def test_ce_and_relay_of_map_e_understand_each_other(rule, data):
    chosen = settings_of(rule, data.draw(st.integers(0, rule.ce_count - 1)))
    ce = MapECe(MapECeParams.model_validate(chosen))
    same = {k: v for k, v in chosen.items() if not k.startswith("ce_")}
    try:
        relay = MapEBorderRelay(MapEParams.model_validate({**same, "ces": min(rule.ce_count, 9)}))
    except UsageError as exc:
        assert (exc.code, rule.psid_len) == ("not-enough-addresses", 16)
        return
    frames = expanded(ce, "reverse")
    across = ce.expect("reverse", frames)
    assert not across.reason.any()
    out = relay.expect("forward", as_sent(relay, "forward", across.frames))
    assert not out.reason.any()
    kept = [*range(14, 22), 23, *range(26, frames.shape[1])]
    assert (out.frames[:, kept] == frames[:, kept]).all()
    frames = expanded(ce, "forward")
    at_home = ce.expect("forward", frames)
    assert not at_home.reason.any()
    again = relay.expect("reverse", as_sent(relay, "reverse", at_home.frames))
    assert not again.reason.any()
    assert (again.frames[:, 22:54] == frames[:, 22:54]).all()


def test_figure_8_of_the_mapperf_paper():
    """PSID 9 of 192.0.2.189 sends from 18432 to 20479."""
    plugin = MapECe(MapECeParams(psid_offset=0))
    frames = expanded(plugin, "reverse", 20_000)
    ports = frames[:, 34].astype(int) << 8 | frames[:, 35]
    assert (ports.min(), ports.max()) == (18432, 20479)
    intent = plugin.dut_intent()
    assert str(intent.configuration.end_user_prefix) == "2001:db8:ce:17a9::/64"
    assert str(intent.configuration.tunnel_local) == "2001:db8:ce:17a9:0:c000:2bd:9"
    assert intent.left.routes == routes({"2001:db8:6::1/128": "2001:db8:6::1"})
    assert intent.right.routes == routes({"192.0.2.189/32": "192.168.19.2"})


def routes(texts):
    return LinkIntent(routes=texts).routes


def test_intents_say_how_packets_cross():
    intent = MapTCe().dut_intent()
    assert str(intent.configuration.dmr) == "2001:db8:ffff::/64"
    assert intent.left.routes == routes({"2001:db8:ffff::/64": "2001:db8:6::1"})
    lwb4 = LwB4().dut_intent().configuration
    assert str(lwb4.tunnel_remote) == "2001:db8:6::1"
    assert str(lwb4.ipv4) == "198.18.0.1/32"


def test_a_stranger_in_the_tunnel_is_not_heard():
    for plugin in (MapECe(), LwB4()):
        frames = expanded(plugin, "forward", 3)
        frames[1, 37] ^= 1  # the outer source
        answer = plugin.expect("forward", frames)
        assert [plugin.drops.describe(r) for r in answer.reason] == [
            "forwarded", "does not come from the relay", "forwarded",
        ]  # fmt: skip


def test_ports_below_the_offset_belong_to_nobody():
    """PSID 9 of 5 bits from bit 6 on: 288 has the PSID's bits, but A = 0."""
    for plugin, at in ((MapECe(), 74), (MapTCe(), 54), (LwB4(), 74)):
        ports = plugin.params.customer.ports
        frames = expanded(plugin, "forward", 3)
        low = ports.psid << ports.low_bits
        for row, port in enumerate((low, (1 << 16 - ports.psid_offset) + low)):
            frames[row, at + 2 : at + 4] = list(port.to_bytes(2, "big"))
        answer = plugin.expect("forward", frames)
        assert [plugin.drops.describe(r) for r in answer.reason] == [
            "port outside the customer's port set", "forwarded", "forwarded",
        ]  # fmt: skip


def test_a_map_t_ce_takes_its_own_address_only():
    plugin = MapTCe()
    frames = expanded(plugin, "forward", 132)
    bits = np.arange(128)
    frames[bits, 38 + bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    frames[128, 22:38] = list(IPv6Address("2001:db8:7::2").packed)
    answer = plugin.expect("forward", frames)
    reasons = [plugin.drops.describe(r) for r in answer.reason]
    # other prefixes are not the CE's, packets from elsewhere are native
    assert set(reasons[:64]) == {"forwarded"}
    assert set(answer.length[:64].tolist()) == {80}
    assert set(reasons[64:128]) == {"an address is not the customer's"}
    assert answer.length[128:].tolist() == [80, 60, 60, 60]


def test_a_customer_with_a_prefix_has_many_hosts():
    given = {"rule_ipv6": "2001:db8::/40", "ea_len": 4, "ce_ipv4": "192.0.2.48", "ce_psid": 0}
    for plugin in (MapECe(MapECeParams(**given)), MapTCe(MapTCeParams(**given))):
        assert plugin.params.customer.ipv4 == IPv4Network("192.0.2.48/28")
        out = plugin.expect("forward", expanded(plugin, "forward", 2000)).frames
        assert {row.tobytes()[3] for row in out[:, 30:34]} == set(range(48, 64))


@pytest.mark.parametrize(
    ("model", "given", "code"),
    [
        (MapECeParams, {"ce_ipv4": "198.51.100.1"}, "outside-prefix"),
        (MapECeParams, {"ce_psid": 32}, "out-of-range"),
        (MapECeParams, {"rule_ipv6": "2001:db8:ce::/53"}, "out-of-range"),
        (MapECeParams, {"ea_len": 4, "ce_ipv4": "192.0.2.50", "ce_psid": 0}, "conflict"),
        (MapECeParams, {"server_ipv4": "192.0.2.189"}, "address-conflict"),
        (MapTCeParams, {"dmr": "2001:db8::/32"}, "address-conflict"),
        (MapTCeParams, {"dmr": "2001:db8:6::/64"}, "outside-prefix"),
        (LwB4Params, {"psid_len": 12, "psid_offset": 6}, "out-of-range"),
        (LwB4Params, {"psid": 64}, "out-of-range"),
        (LwB4Params, {"psid_len": 16, "psid": 0, "psid_offset": 0}, "not-enough-addresses"),
    ],
)
def test_refusals(model, given, code):
    with expect_error(code):
        model.model_validate(given)


@pytest.mark.parametrize(("ea_len", "psid"), [(8, 0), (9, 1), (13, 9)])
@pytest.mark.parametrize("params", [MapECeParams, MapTCeParams])
def test_default_ce_psid_fits_rule(params: type[MapCeParams], ea_len: int, psid: int) -> None:
    assert params(ea_len=ea_len).ce_psid == psid


@pytest.mark.parametrize(("psid_len", "psid"), [(0, 0), (2, 3), (6, 9)])
def test_default_lwb4_psid_fits_length(psid_len: int, psid: int) -> None:
    assert LwB4Params(psid_len=psid_len).psid == psid


def test_given_ce_psid_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError):
        MapTCeParams(ea_len=8, ce_psid=9)


def test_ce_with_a_single_port_sends_from_that_port():
    plugin = MapECe(MapECeParams(rule_ipv4="192.0.2.1/32", ea_len=16, psid_offset=0,
                                 rule_ipv6="2001:db8::/32", ce_ipv4="192.0.2.1", ce_psid=7))  # fmt: skip
    frames = expanded(plugin, "reverse", 8)
    assert {bytes(port) for port in frames[:, 34:36]} == {b"\x00\x07"}
