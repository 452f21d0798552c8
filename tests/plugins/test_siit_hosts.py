"""Hosts of SIIT and CLAT: ranges, what cannot be, and the calculator."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from v6t.audit.packet_device.maps import PrefixMap
from v6t.core.cli.map_calculator import calc_eam
from v6t.core.config.plugins import load_plugin
from v6t.plugins import address_mappings
from v6t.plugins.address_mappings import read_pairs
from v6t.plugins.siit import Siit, SiitParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify


def hosts(plugin, direction, field):
    """Distinct addresses among 5000 frames."""
    streams = compile_traffic(plugin.traffic(direction, plugin.frame_pair(84))).streams
    frames = Expander(streams[0]).frames(0, 5000)
    assert verify(frames).all()
    return {row[field].tobytes() for row in frames}


def test_every_host_of_a_range_is_met():
    given = {
        "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.101"},
        "ipv4_hosts": {"first": "198.19.0.250", "last": "198.19.0.255", "policy": "inc"},
    }
    plugin = Siit(SiitParams.model_validate(given))
    source, destination = slice(22, 38), slice(38, 54)
    left = {IPv6Address(f"2001:2::{n:x}").packed for n in range(2, 102)}
    right = {IPv6Address(f"2001:2:0:1000::{n:x}").packed for n in range(250, 256)}
    assert hosts(plugin, "forward", source) == left
    assert hosts(plugin, "forward", destination) == right
    assert hosts(plugin, "reverse", slice(26, 30)) == {
        IPv4Address(f"198.19.0.{n}").packed for n in range(250, 256)
    }
    intent = plugin.dut_intent()
    assert "2001:2::/121" in map(str, intent.left.routes)
    assert set(map(str, intent.right.routes)) >= {"198.19.0.250/31", "198.19.0.252/30"}


@pytest.mark.parametrize("length", address_mappings.PREFIX_LENGTHS)
def test_every_host_behind_a_prefix_is_met(length):
    prefix = str(IPv6Network((0x20010DB8 << 96, length)))
    given = {
        "eam": (),
        "prefix": prefix,
        "ipv6_hosts": {"first": "10.0.255.200", "last": "10.1.0.43"},
        "bg_ipv4_side": "2001:2:0:8000::2",
    }
    plugin = Siit(SiitParams.model_validate(given))
    first = int(IPv4Address("10.0.255.200"))
    behind = PrefixMap(IPv6Network(prefix))
    wanted = {str(behind.to_ipv6(IPv4Address(first + n))) for n in range(100)}
    met = hosts(plugin, "forward", slice(22, 38))
    assert {str(IPv6Address(m)) for m in met} == wanted


def test_a_host_that_is_not_mapped_back_is_left_out_where_that_is_asked():
    """Its IPv6 address falls under a longer prefix, which is another host's."""
    table = [
        {"ipv4": "10.0.0.0/29", "ipv6": "2001:db8::/125"},
        {"ipv4": "192.0.2.9/32", "ipv6": "2001:db8::2/128"},
        {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"},
    ]
    chosen = {"first": "10.0.0.0", "last": "10.0.0.3", "only_mapped": True}
    with expect_error("not-enough-addresses", mentions="10.0.0.2"):
        Siit(
            SiitParams.model_validate(
                {"eam": table, "ipv6_hosts": {**chosen, "only_mapped": False}}
            )
        )
    plugin = Siit(SiitParams.model_validate({"eam": table, "ipv6_hosts": chosen}))
    met = hosts(plugin, "reverse", slice(30, 34))
    assert met == {IPv4Address(f"10.0.0.{n}").packed for n in (0, 1, 3)}
    beside = {"first": "10.0.0.4", "last": "10.0.0.7"}
    plugin = Siit(SiitParams.model_validate({"eam": table, "ipv6_hosts": beside}))
    assert len(hosts(plugin, "forward", slice(22, 38))) == 4


def test_a_range_is_not_halved_in_silence():
    """A range twice as long as its mapping was sent in half, without a word."""
    table = [
        {"ipv4": "198.18.0.0/24", "ipv6": "2001:db8:1::/96"},
        {"ipv4": "198.19.0.0/23", "ipv6": "2001:db8:2::/70"},
    ]
    chosen = {"first": "198.19.0.1", "last": "198.19.3.254"}
    with expect_error("not-enough-addresses", mentions="511"):
        SiitParams.model_validate({"eam": table, "ipv4_hosts": chosen})


def test_a_range_over_many_mappings_leaves_out_what_is_not_mapped(tmp_path):
    table = tmp_path / "eam.txt"
    lines = [f"10.0.{n}.0/28 2001:db8:{n:x}::/124" for n in range(40)]
    table.write_text("# forty\n" + "\n".join(lines) + "\n2001:2:0:1000::/120, 198.19.0.0/24\n")
    assert len(read_pairs(table)) == 41
    for policy in ("random", "inc", "dec"):
        chosen = {"first": "10.0.3.8", "last": "10.0.8.255", "policy": policy, "only_mapped": True}
        given = {"eam": (), "eam_file": str(table), "ipv6_hosts": chosen}
        plugin = Siit(SiitParams.model_validate(given))
        seen = hosts(plugin, "forward", slice(22, 38))
        wanted = {IPv6Address(f"2001:db8:3::{n:x}").packed for n in range(8, 16)}
        for third in range(4, 9):
            wanted |= {IPv6Address(f"2001:db8:{third:x}::{n:x}").packed for n in range(16)}
        assert seen == wanted


REFUSED = {
    "host bits": ({"eam": [{"ipv4": "198.18.0.2/24", "ipv6": "2001:2::/120"}]}, "not-a-prefix"),
    "no table": ({"eam": []}, "nothing-to-translate"),
    "prefix length": ({"prefix": "64:ff9b::/97"}, "not-a-prefix"),
    "unmapped host": ({"ipv6_hosts": {"first": "192.0.2.1"}}, "not-enough-addresses"),
    "overlap": ({"ipv6_hosts": {"first": "198.19.0.0", "last": "198.19.0.9"}}, "address-conflict"),
    "background": ({"bg_ipv4_side": "2001:2::77"}, "address-conflict"),
    "missing file": ({"eam_file": "/nowhere/at/all"}, "file-not-found"),
    "large range": (
        {"eam": [{"ipv4": "10.0.0.0/9", "ipv6": "2001:db8::/64"},
                 {"ipv4": "10.128.0.0/9", "ipv6": "2001:db9::/64"},
                 {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"}],
         "ipv6_hosts": {"first": "10.0.0.0", "last": "10.255.255.255"}},
        "not-enough-addresses",
    ),
    "long list": (
        {"eam": [{"ipv4": "10.0.0.0/16", "ipv6": "2001:db8::/64"},
                 {"ipv4": "10.1.0.0/16", "ipv6": "2001:db9::/64"},
                 {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"}],
         "ipv6_hosts": {"first": "10.0.0.0", "last": "10.1.255.255"}},
        "not-enough-addresses",
    ),
    "not back": (
        {"eam": [{"ipv4": "0.0.0.0/0", "ipv6": "2001:db8:ff00::/40"},
                 {"ipv4": "192.0.2.9/32", "ipv6": "2001:db8:ffc6:3364:4000::/128"}],
         "ipv6_hosts": {"first": "198.51.100.64"}},
        "not-enough-addresses",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    given, code = REFUSED[case]
    with expect_error(code):
        SiitParams.model_validate(given)


def test_ranges_are_in_order():
    with expect_error("conflict"):
        SiitParams.model_validate({"ipv4_hosts": {"first": "198.19.0.9", "last": "198.19.0.2"}})


@pytest.mark.parametrize(
    "line",
    ["10.0.0.0/24 = 2001:db8::/120", "10.0.0.0/24=2001:db8::/120", "2001:db8::/120,10.0.0.0/24"],
)
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_printed_mapping_is_accepted_in_a_file(tmp_path, start, line):
    path = tmp_path / "eam.txt"
    path.write_text(f"{start}{line}\n", encoding="utf-8")
    assert read_pairs(path) == [("10.0.0.0/24", "2001:db8::/120")]


def test_printed_mappings_are_accepted_as_parameters():
    default = SiitParams()
    assert SiitParams.model_validate({"eam": list(map(str, default.eam))}) == default


def test_a_bad_line_of_a_file_is_named(tmp_path):
    path = tmp_path / "eam.txt"
    path.write_text("10.0.0.0/24 2001:db8::/120\n10.0.1.0/24\n")
    with expect_error("invalid-table-row", mentions="eam.txt"):
        read_pairs(path)


@pytest.mark.parametrize("name", ["siit", "clat", "mapt-br", "mapt-ce"])
def test_packets_a_translator_would_fragment_are_not_sent(name):
    """GEN-07: without DF, nothing longer than lowest_ipv6_mtu."""
    plugin = load_plugin(name)
    careless = plugin(plugin.params_model(df=False))
    careless.traffic("reverse", careless.frame_pair(1280))
    with expect_error("frame-too-long") as caught:
        careless.traffic("reverse", careless.frame_pair(1518))
    assert "set df" in caught.value.hint
    raised = plugin(plugin.params_model(df=False, lowest_ipv6_mtu=1500))
    streams = compile_traffic(raised.traffic("reverse", raised.frame_pair(1518))).streams
    assert raised.expect("reverse", Expander(streams[0]).frames(0, 5)).length.all()
    assert not careless.expect("reverse", Expander(streams[0]).frames(0, 5)).length.any()


def test_clat_hosts_stay_on_their_side():
    plugin = load_plugin("clat")
    with expect_error("outside-prefix"):
        plugin.params_model.model_validate({"ipv4_hosts": {"first": "192.0.2.1"}})
    with expect_error("address-conflict"):
        plugin.params_model.model_validate({"ipv6_hosts": {"first": "198.18.0.9"}})


def test_calc_shows_the_mapping_an_address_falls_under():
    table = [["0.0.0.0/0", "2001:db8:ff00::/40"], ["198.51.100.64/32", "2001:db8::abcd/128"]]
    assert calc_eam(table, ipv4="198.51.100.64") == {
        "ipv4": "198.51.100.64",
        "ipv6": "2001:db8::abcd",
        "mapping": "198.51.100.64/32 = 2001:db8::abcd/128",
    }
    back = calc_eam(table, ipv6="2001:db8:ffc6:3364:4000::")
    assert (back["ipv4"], back["mapping"]) == ("198.51.100.64", "0.0.0.0/0 = 2001:db8:ff00::/40")
    assert calc_eam(table[1:], "64:ff9b::/96", ipv4="192.0.2.1")["ipv6"] == "64:ff9b::c000:201"
    absent = {"ipv4": None, "ipv6": "2001:db9::1", "mapping": None}
    assert calc_eam(table, ipv6="2001:db9::1") == absent
    assert calc_eam(table[1:], ipv4="192.0.2.1")["ipv6"] is None
    for which in ({}, {"ipv4": "192.0.2.1", "ipv6": "::1"}):
        with expect_error("missing-setting"):
            calc_eam(table, **which)
