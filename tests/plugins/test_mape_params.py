"""Parameters: what is refused in which words, and where Mapperf's configuration went."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import numpy as np
import pytest
from pydantic import ValidationError
from v6t.base.errors import UsageError
from v6t.base.strict_model import describe_fields
from v6t.core.config.files import RunFile, TestbedFile
from v6t.packets.arrays import sort_unique
from v6t.plugins.base import Link, Links
from v6t.plugins.map_domains import Domain
from v6t.plugins.mape_br import MapEParams
from v6t.tests.expect import expect_error

from .support import FIGURE_8, number, ports, relay, stream_frames

TestbedFile.__test__ = False

OWN = {"rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0, "ces": 1}
TINY = {**FIGURE_8, "rule_ipv4": "192.0.2.0/31", "ea_len": 6, "ces": 1}
SECOND = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "198.18.0.0/16", "ea_len": 20}
INSIDE = {"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "10.0.0.0/28", "ea_len": 8, "ces": 1}

REFUSALS = {
    "MAP-01 negative EA length": ({"ea_len": -1}, "out-of-range"),
    "MAP-01 EA length": ({"rule_ipv6": "2000::/8", "ea_len": 49}, "out-of-range"),
    "MAP-02 end-user prefix": ({"rule_ipv6": "2001:db8:ce::/56"}, "out-of-range"),
    "MAP-02 rule prefix beyond 64 bits": ({**OWN, "rule_ipv6": "2001:db8::/65"}, "out-of-range"),
    "MAP-03 contradiction": ({"psid_len": 6}, "conflict"),
    "MAP-03 a PSID where an address is not shared": ({"ea_len": 8, "psid_len": 4}, "conflict"),
    "MAP-03 explicit PSID for many addresses": ({**OWN, "rule_ipv4": "192.0.2.0/24", "psid_len": 8},
        "conflict"),
    "MAP-03 psid_len too long": ({**OWN, "psid_len": 17}, "out-of-range"),
    "MAP-03 psid_len negative": ({**OWN, "psid_len": -1}, "out-of-range"),
    "MAP-03 psid beyond psid_len": ({**OWN, "psid_len": 3, "psid": 8}, "out-of-range"),
    "MAP-04 PSID longer than a port": ({"rule_ipv6": "2001:db8::/32", "rule_ipv4": "192.0.2.0/24",
        "ea_len": 25, "psid_offset": 0}, "out-of-range"),
    "MAP-04 offset": ({"psid_offset": 17}, "out-of-range"),
    "MAP-04 negative offset": ({"psid_offset": -1}, "out-of-range"),
    "MAP-04 offset and PSID": ({"psid_offset": 12}, "out-of-range"),
    "MAP-15 nothing but port 0": ({"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "192.0.2.0/24",
        "ea_len": 24, "psid_offset": 0}, "not-enough-addresses"),
    "MAP-15 nothing but port 0, the only CE": ({**OWN, "psid_len": 16, "psid_offset": 0},
        "not-enough-addresses"),
    "IPv6 prefix with host bits": ({"rule_ipv6": "2001:db8:ce::1/51"}, "not-a-prefix"),
    "IPv4 prefix with host bits": ({"rule_ipv4": "192.0.2.1/24"}, "not-a-prefix"),
    "MAP-09 BR within a rule": ({"br_address": "2001:db8:ce:17a9::1"}, "address-conflict"),
    "MAP-10 server within a rule": ({"server_ipv4": "192.0.2.7"}, "address-conflict"),
    "MAP-13 same IPv6 prefix": ({"domains": [{**FIGURE_8, "rule_ipv4": "198.18.0.0/24"}]},
        "duplicate"),
    "MAP-13 same IPv4 prefix": ({"domains": [{**FIGURE_8, "rule_ipv6": "2001:db8:cf::/51"}]},
        "duplicate"),
    "MAP-13 all CEs of a rule around another": ({"ces": "all", "domains": [INSIDE]},
        "not-enough-addresses"),
    "MAP-13 more CEs than another rule leaves": ({"ces": 7937, "domains": [INSIDE]},
        "not-enough-addresses"),
    "MAP-13 a rule hidden by another": ({**OWN, "rule_ipv6": "2001:db8:ce::/51",
        "domains": [{**FIGURE_8, "rule_ipv6": "2001:db8:ce::/52", "ea_len": 9, "ces": 1}]},
        "not-enough-addresses"),
    "MAP-13 a bad further domain": ({"domains": [{**SECOND, "psid_offset": 13}]}, "out-of-range"),
    "MAP-14 more CEs than there are": ({"ces": 8193}, "not-enough-addresses"),
    "MAP-14 without network and broadcast": ({"ces": 8129, "exclude_network_broadcast": True},
        "not-enough-addresses"),
    "MAP-14 no CE left": ({**TINY, "exclude_network_broadcast": True}, "not-enough-addresses"),
    "GEN-14 more foreground than frames": ({"n": 2, "m": 3}, "out-of-range"),
    "GEN-14 common divisor": ({"n": 10, "m": 4}, "out-of-range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_what_is_wrong_and_what_to_change(name):
    given, code = REFUSALS[name]
    with expect_error(code, kind=UsageError):
        relay(**given)


def test_prefixes_of_the_wrong_family_are_refused():
    with expect_error("not-a-prefix", path=["rule_ipv6"]) as caught:
        relay(rule_ipv6="192.0.2.0/24", rule_ipv4="2001:db8:ce::/51")
    assert "'192.0.2.0/24'" in caught.value.message


MALFORMED = {
    "unknown_name": 1,
    "iid_format": "rfc6052",
    "ces": "many",
    "share": 0,
    "br_address": "192.0.2.1",
    "server_ipv4": "2001:db8::1",
    "tester_left_ipv6": "x",
    "fw_sport": "zigzag",
    "fw_dport": {"min": 5, "max": 4},
    "rv_sport": {"min": 1, "max": 65536},
    "bg_sport": {"min": -1, "max": 4},
    "bg_dport": {"min": 1, "max": "many"},
    "n": 0,
    "m": -1,
    "negative_percent": 51,
    "ttl": 1,
    "df": "perhaps",
    "psid": -1,
    "ea_len": "thirteen",
    "domains": [{"br_address": "2001:db8::1"}],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_values_that_are_none_name_their_parameter(name):
    with pytest.raises(ValidationError) as caught:
        relay(**{name: MALFORMED[name]})
    assert [error["loc"][0] for error in caught.value.errors()] == [name]


def test_ttl_stays_above_what_a_device_drops():
    assert relay(ttl=2).params.ttl == 2
    with pytest.raises(ValidationError):
        relay(ttl=256)


def test_ports_of_rfc_4814_are_the_defaults():
    p = MapEParams()
    assert (p.fw_dport.min, p.fw_dport.max) == (p.bg_dport.min, p.bg_dport.max) == (1, 49151)
    assert (p.rv_sport.min, p.rv_sport.max) == (p.bg_sport.min, p.bg_sport.max) == (1024, 65535)
    policies = {p.fw_sport, p.rv_dport, p.fw_dport.policy, p.rv_sport.policy, p.bg_sport.policy}
    assert policies == {"random"}
    assert p.psid_offset == 6


def test_every_parameter_is_described():
    for model in (Domain, MapEParams):
        for name, text in describe_fields(model).items():
            assert text, name


# requirements 3.2: mapperf.conf and maptperf.conf
CONF = [
    "Tester-L-IPv6", "Tester-R-IPv6", "Tester-R-IPv4", "DUT-L-IPv6", "Tester-L-MAC",
    "Tester-R-MAC", "DUT-L-MAC", "DUT-R-MAC", "FW-dport-min", "FW-dport-max", "RV-sport-min",
    "RV-sport-max", "bg-dport-min", "bg-dport-max", "bg-sport-min", "bg-sport-max",
    "FW-var-sport", "FW-var-dport", "RV-var-sport", "RV-var-dport", "NUM-OF-CEs",
    "BMR-IPv6-Prefix", "BMR-IPv6-prefix-length", "BMR-IPv4-Prefix", "BMR-IPv4-prefix-length",
    "BMR-EA-length", "BMR-EA-Len", "DMR-IPv6-Prefix", "DMR-IPv6-prefix-length", "CPU-FW-Send",
    "CPU-FW-Receive", "CPU-RV-Send", "CPU-RV-Receive", "Mem-Channels", "FW", "RV", "Promisc",
]  # fmt: skip


PLACES = {
    "Tester-L-IPv6": "tester_left_ipv6",
    "Tester-R-IPv6": "tester_right_ipv6",
    "Tester-R-IPv4": "server_ipv4",
    "DUT-L-IPv6": "br_address",
    "Tester-L-MAC": "testbed: links.left.tester_mac",
    "Tester-R-MAC": "testbed: links.right.tester_mac",
    "DUT-L-MAC": "testbed: links.left.dut_mac",
    "DUT-R-MAC": "testbed: links.right.dut_mac",
    "FW-dport-min": "fw_dport.min",
    "FW-dport-max": "fw_dport.max",
    "RV-sport-min": "rv_sport.min",
    "RV-sport-max": "rv_sport.max",
    "bg-dport-min": "bg_dport.min",
    "bg-dport-max": "bg_dport.max",
    "bg-sport-min": "bg_sport.min",
    "bg-sport-max": "bg_sport.max",
    "FW-var-sport": "fw_sport",
    "FW-var-dport": "fw_dport.policy",
    "RV-var-sport": "rv_sport.policy",
    "RV-var-dport": "rv_dport",
    "NUM-OF-CEs": "ces",
    "BMR-IPv6-Prefix": "rule_ipv6",
    "BMR-IPv6-prefix-length": "rule_ipv6",
    "BMR-IPv4-Prefix": "rule_ipv4",
    "BMR-IPv4-prefix-length": "rule_ipv4",
    "BMR-EA-length": "ea_len",
    "BMR-EA-Len": "ea_len",
    "DMR-IPv6-Prefix": "none: MAP-T only",
    "DMR-IPv6-prefix-length": "none: MAP-T only",
    "CPU-FW-Send": "none: TRex places its threads itself",
    "CPU-FW-Receive": "none: TRex places its threads itself",
    "CPU-RV-Send": "none: TRex places its threads itself",
    "CPU-RV-Receive": "none: TRex places its threads itself",
    "Mem-Channels": "none: TRex configuration file",
    "FW": "run: modes",
    "RV": "run: modes",
    "Promisc": "none: always promiscuous",
}
"""Every parameter of mapperf.conf and maptperf.conf, and what stands for it here."""


def reaches(model, path: str) -> bool:
    """Whether a dotted name leads to a field of a pydantic model."""
    for name in path.split("."):
        if name not in getattr(model, "model_fields", {}):
            return False
        model = model.model_fields[name].annotation
    return True


def test_every_parameter_of_mapperf_has_a_place():
    assert sorted(PLACES) == sorted(CONF)
    for name, place in PLACES.items():
        where, colon, path = place.partition(": ")
        if not colon:
            assert reaches(MapEParams, place), name
        elif where == "none":
            assert path, name
        else:
            assert reaches({"testbed": TestbedFile, "run": RunFile}[where], path), name
    assert not reaches(MapEParams, "fw_dport.middle")


def bg(plugin, direction, count=1):
    return stream_frames(plugin, direction, count)["bg"]


def text6(frames, at):
    return str(IPv6Address(frames[0, at : at + 16].tobytes()))


def port_range(class_name, direction, side):
    def observe(plugin):
        frames = stream_frames(plugin, direction, 4000)[class_name]
        both = ports(frames, direction, native=class_name == "bg")[side == "dport"]
        return int(both.min()), int(both.max())

    return observe


def order(direction, side):
    def observe(plugin):
        port = ports(stream_frames(plugin, direction, 100)["fg"], direction)[side == "dport"]
        return set(np.diff(port).tolist())

    return observe


NARROW = {"min": 2000, "max": 2007}
MIXED = {"n": 2, "m": 1}
EFFECTS = {
    "Tester-L-IPv6": ({"tester_left_ipv6": "3fff::a", **MIXED},
        lambda p: (text6(bg(p, "forward"), 22), text6(bg(p, "reverse"), 38)),
        ("3fff::a", "3fff::a")),
    "Tester-R-IPv6": ({"tester_right_ipv6": "3fff::b", **MIXED},
        lambda p: (text6(bg(p, "forward"), 38), text6(bg(p, "reverse"), 22)),
        ("3fff::b", "3fff::b")),
    "Tester-R-IPv4": ({"server_ipv4": "198.51.100.9"},
        lambda p: [str(IPv4Address(int(number(stream_frames(p, d, 1)["fg"], at, 4)[0]))) for d,
        at in (("forward", 70), ("reverse", 26))], ["198.51.100.9", "198.51.100.9"]),
    "DUT-L-IPv6": ({"br_address": "3fff::c"},
        lambda p: text6(stream_frames(p, "forward", 1)["fg"], 38), "3fff::c"),
    "FW-dport": ({"fw_dport": NARROW}, port_range("fg", "forward", "dport"), (2000, 2007)),
    "RV-sport": ({"rv_sport": NARROW}, port_range("fg", "reverse", "sport"), (2000, 2007)),
    "bg-dport": ({"bg_dport": NARROW, **MIXED}, port_range("bg", "forward", "dport"), (2000, 2007)),
    "bg-sport": ({"bg_sport": NARROW, **MIXED}, port_range("bg", "reverse", "sport"), (2000, 2007)),
    "FW-var-sport": ({**OWN, "fw_sport": "inc"}, order("forward", "sport"), {1}),
    "FW-var-dport": ({"fw_dport": {"policy": "dec", "min": 5, "max": 9999}},
        order("forward", "dport"), {-1}),
    "RV-var-sport": ({"rv_sport": {"policy": "inc", "min": 5, "max": 9999}},
        order("reverse", "sport"), {1}),
    "RV-var-dport": ({**OWN, "rv_dport": "dec"}, order("reverse", "dport"), {-1}),
    "NUM-OF-CEs": ({"ces": 37}, lambda p: len(sort_unique(number(stream_frames(p, "forward",
        999)["fg"], 22, 8))), 37),
    "BMR-IPv6-Prefix": ({"rule_ipv6": "3fff:0:1::/48"},
        lambda p: hex(int(number(stream_frames(p, "forward", 1)["fg"], 22, 6)[0])),
        "0x3fff00000001"),
    "BMR-IPv4-Prefix": ({"rule_ipv4": "198.18.5.0/24"},
        lambda p: hex(int(number(stream_frames(p, "reverse", 1)["fg"], 30, 3)[0])), "0xc61205"),
    "BMR-EA": ({"ea_len": 9, "ces": "all"},
        lambda p: len(sort_unique(number(stream_frames(p, "forward", 9999)["fg"], 22, 8))), 512),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_parameters_show_in_the_frames(name):
    given, observe, wanted = EFFECTS[name]
    assert observe(relay(**given)) == wanted


def test_every_parameter_of_the_plugin_among_them_shows_in_the_frames():
    shown = {key.partition(".")[0] for given, _, _ in EFFECTS.values() for key in given}
    places = {p.partition(".")[0] for p in PLACES.values() if ": " not in p}
    assert places <= shown


def test_macs_and_tags_are_the_links():
    left = Link("02:aa:00:00:00:01", "02:aa:00:00:00:02", vlan=7)
    right = Link("02:bb:00:00:00:01", "02:bb:00:00:00:02")
    plugin = relay(Links(left, right), **MIXED)
    for kind in ("fg", "bg"):
        head = stream_frames(plugin, "forward", 1, size=108)[kind][0, :16].tobytes()
        assert head == bytes.fromhex("02aa00000002 02aa00000001 8100 0007")
        head = stream_frames(plugin, "reverse", 1, size=108)[kind][0, :12].tobytes()
        assert head == bytes.fromhex("02bb00000002 02bb00000001")
    # tags come on top: the same IPv6 packets both ways
    sizes = [
        stream_frames(plugin, direction, 1, size=108)["bg"].shape[1]
        for direction in ("forward", "reverse")
    ]
    assert sizes == [14 + 4 + 86, 14 + 86]


def test_frame_pairs():
    plain = relay()
    assert [plain.frame_pair(s).ipv4 for s in plain.rfc_frame_sizes] == [
        64, 128, 256, 512, 768, 1024, 1280, 1478,
    ]  # fmt: skip
    assert plain.frame_pair(104).label == "104/64"
    tagged = relay(Links(left=Link("02:00:00:00:00:01", "02:00:00:00:00:02", vlan=1)))
    assert (tagged.frame_pair(108).ipv6, tagged.frame_pair(108).ipv4) == (108, 64)
    assert tagged.frame_pair(1522).ipv4 == 1478
    for plugin, size, message, hint in (
        (
            plain,
            103,
            "an IPv6 frame of 103 octets holds no IPv4 frame of at least 64 octets: MAP-E adds 40",
            "the smallest is 104; sizes are those of the IPv6 frame, FCS included",
        ),
        (
            tagged,
            107,
            "an IPv6 frame of 107 octets holds no IPv4 frame of at least 64 octets: MAP-E adds 40",
            "the smallest is 108; sizes are those of the IPv6 frame, FCS included",
        ),
        (
            plain,
            1519,
            "an IPv6 frame of 1519 octets does not fit a link with an MTU of 1500: 1518 octets at "
            "most, FCS included",
            "choose a smaller frame size or raise the link's mtu in the testbed file",
        ),
    ):
        with pytest.raises(UsageError) as caught:
            plugin.frame_pair(size)
        assert (caught.value.message, caught.value.hint) == (message, hint)
    narrow = relay(Links(right=Link("02:00:00:00:00:01", "02:00:00:00:00:02", mtu=1000)))
    with expect_error("frame-too-long", mentions="1478"):
        narrow.frame_pair(1518)


def test_the_device_is_told_what_the_traffic_needs():
    plugin = relay(**FIGURE_8, domains=[SECOND])
    intent = plugin.dut_intent()
    assert intent.technology == "mape-br"
    wanted = [("2001:db8:ce::/51", "192.0.2.0/24", 13, 0, 5, "rfc7597")]
    wanted += [("2001:db8:100::/40", "198.18.0.0/16", 20, 6, 4, "rfc7597")]
    configuration = intent.configuration.to_json()
    assert [tuple(rule.values()) for rule in configuration["rules"]] == wanted
    assert configuration["br_address"] == "2001:db8:6::1"
    assert set(map(str, intent.left.routes)) == {"2001:db8:ce::/51", "2001:db8:100::/40"}
    tester = IPv6Address("2001:db8:6::2")
    assert set(intent.left.routes.values()) == {tester}
    assert intent.left.neighbors == {tester: plugin.links.left.tester_mac}
    assert set(map(str, intent.right.neighbors)) == {"203.0.113.56", "2001:db8:7::2"}
