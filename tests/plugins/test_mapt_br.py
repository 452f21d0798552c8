"""The MAP-T border relay over the whole legal range of its rules (MAP-01 to MAP-11)."""

from ipaddress import IPv4Address, IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from v6t.audit.packet_device.maps import TableMap
from v6t.base.errors import UsageError
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins import translation
from v6t.plugins.audit_views import AddressTable

from .drawn_rules import rule_settings, rules
from .support import addresses, emitted, first_frames, forwarded_frames, make, number, packet_device

SERVER = "203.0.113.56"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rules(sendable=True), st.sampled_from(translation.PREFIX_LENGTHS))
def test_frames_of_any_rule_and_dmr_equal_those_of_the_packet_level_device(rule, length):
    dmr = str(IPv6Network((0x0064FF9B << 96, length)))
    try:
        plugin = make("mapt-br", **rule_settings(rule), ces=min(rule.ce_count, 100), dmr=dmr)
    except UsageError as exc:
        assert exc.code in ("address-conflict", "not-enough-addresses")
        return
    device = packet_device(plugin)
    for direction in ("forward", "reverse"):
        frames = first_frames(plugin, direction, 40)
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        assert emitted(answer)[::7] == forwarded_frames(device, direction, frames[::7])


def test_example_of_rfc_7599_is_translated():
    """Appendix A, examples 2 and 3."""
    plugin = make(
        "mapt-br", rule_ipv6="2001:db8::/40", rule_ipv4="192.0.2.0/24", ea_len=16, ces=100,
        server_ipv4=SERVER, dmr="2001:db8:ffff::/64",
    )  # fmt: skip
    frames = first_frames(plugin, "reverse", 1)
    frames[0, 26:34] = list(IPv4Address("10.2.3.4").packed + IPv4Address("192.0.2.18").packed)
    frames[0, 34:38] = list((80).to_bytes(2, "big") + (1232).to_bytes(2, "big"))
    write_ipv4_checksum(frames, 14)
    six = IPv6(plugin.expect("reverse", frames).frames[0, 14:].tobytes())
    assert six.src == "2001:db8:ffff:0:a:203:400:0"
    assert six.dst == "2001:db8:12:3400:0:c000:212:34"
    assert (six[UDP].sport, six[UDP].dport) == (80, 1232)


def test_example_of_the_dual_device_paper_is_translated():
    plugin = make("mapt-br", rule_ipv6="2001:db8:ce::/53", ea_len=11, psid_offset=0, ces="all",
                  dmr="64:ff9b::/96")  # fmt: skip
    frames = first_frames(plugin, "forward", 20_000)
    mine = frames[number(frames, 22, 8) == 0x20010DB800CE011B]
    assert addresses(mine, 22, 16) == {"2001:db8:ce:11b:0:c000:223:3"}
    ports = number(mine, 54, 2)
    assert (ports.min(), ports.max()) >= (24576, 24576)
    assert ports.max() <= 32767
    server = TableMap(AddressTable(prefix=IPv6Network("64:ff9b::/96"))).to_ipv6(IPv4Address(SERVER))
    assert addresses(mine, 38, 16) == {str(server)}
    assert addresses(plugin.expect("forward", mine).frames, 26, 4) == {"192.0.2.35"}


@pytest.mark.parametrize("name", ["mape-br", "mapt-br"])
@pytest.mark.parametrize("iid_format", ["rfc7597", "draft"])
def test_all_hosts_of_ces_with_a_prefix_send_and_receive(iid_format, name):
    """Sixteen CEs with a /28 each: erratum 5225 of RFC 7599 shows every host in the identifier."""
    plugin = make(name, rule_ipv6="2001:db8:100::/40", ea_len=4, ces=16, iid_format=iid_format)
    pool = {f"192.0.2.{n}" for n in range(256)}
    sent = plugin.expect("forward", first_frames(plugin, "forward", 5000)).frames
    assert addresses(sent, 26, 4) == addresses(first_frames(plugin, "reverse", 5000), 30, 4) == pool


def test_intent_contains_the_dmr():
    intent = make("mapt-br").dut_intent()
    assert str(intent.configuration.dmr) == "2001:db8:ffff::/64"
    assert intent.configuration.rules[0].ea_len == 13
    assert "2001:db8:ce::/51" in map(str, intent.left.routes)
