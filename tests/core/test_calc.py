"""``v6t calc``: the arithmetic of RFC 7597, RFC 6052 and RFC 8219 from the command line."""

import json

import pytest
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_refusal

RULE = ["--rule-ipv6", "2001:db8:ce::/51", "--rule-ipv4", "192.0.2.0/24", "--ea-len", 13]
FIGURE_8 = [*RULE, "--psid-offset", 0]
"""The rule of the Mapperf paper, figure 8."""

CE_9 = ["--ipv4", "192.0.2.189", "--psid", 9]
"""A CE of this rule."""


def run_calc(*arguments):
    done = v6t("calc", *arguments, "--json")
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)


def test_map_ce_equals_figure_8_of_the_mapperf_paper():
    expected = {
        "end_user_prefix": "2001:db8:ce:17a9::/64", "map_address": "2001:db8:ce:17a9:0:c000:2bd:9",
        "ipv4": "192.0.2.189", "psid": 9, "psid_len": 5, "port_ranges": [[18432, 20479]],
        "ports_per_ce": 2048, "sharing_ratio": 32,
    }  # fmt: skip
    assert list(run_calc("map", *FIGURE_8, *CE_9).items()) == list(expected.items())
    lines = v6t("calc", "map", *FIGURE_8, *CE_9).out.splitlines()
    for line, (key, value) in zip(lines, expected.items(), strict=True):
        assert line.startswith(key.replace("_", " ") + " ")
        assert line.endswith(f" {value if key != 'port_ranges' else '18432-20479'}")


@pytest.mark.parametrize("name", [
    ["--ipv6", "2001:db8:ce:17a9:0:c000:2bd:9"], ["--ipv6", "2001:db8:ce:17a9:ffff::1"],
    ["--ipv4", "192.0.2.189", "--port", 18432], ["--ipv4", "192.0.2.189", "--port", 20479],
    [*CE_9, "--port", 19000],
])  # fmt: skip
def test_ce_can_be_named_by_address_or_port(name):
    assert run_calc("map", *FIGURE_8, *name) == run_calc("map", *FIGURE_8, *CE_9)


def test_default_psid_offset_is_6():
    assert run_calc("map", *RULE, *CE_9) == run_calc("map", *RULE, "--psid-offset", 6, *CE_9)


def test_unshared_address_has_all_ports():
    rule = ["--rule-ipv6", "2001:db8::/40", "--rule-ipv4", "192.0.2.0/24", "--ea-len", 8]
    ce = run_calc("map", *rule, "--ipv4", "192.0.2.18")
    assert (ce["psid"], ce["sharing_ratio"], ce["port_ranges"]) == (None, 1, [[0, 65535]])
    assert "none (not shared)" in v6t("calc", "map", *rule, "--ipv4", "192.0.2.18").out


def test_many_port_ranges_are_abridged():
    """RFC 7597, appendix A, examples 1 and 2."""
    rule = [
        *("--rule-ipv6", "2001:db8:0000::/40", "--rule-ipv4", "192.0.2.0/24"),
        *("--ea-len", 16, "--psid-offset", 6),
    ]
    stdout = v6t("calc", "map", *rule, "--ipv4", "192.0.2.18", "--psid", 0x34).out
    assert "1232-1235, 2256-2259" in stdout and "... 64720-64723 (63 ranges)" in stdout


def test_rfc6052_address_is_embedded_and_extracted():
    expected = {"prefix": "2001:db8:100::/40", "ipv4": "192.0.2.33", "ipv6": "2001:db8:1c0:2:21::"}
    for address in ("--ipv4", expected["ipv4"]), ("--ipv6", expected["ipv6"]):
        assert run_calc("rfc6052", "--prefix", expected["prefix"], *address) == expected


def test_max_rate_includes_the_overhead():
    """RFC 8219 appendix A."""
    words = ("--line-rate", "10G", "--frame-size", 64, "--overhead", 20)
    assert run_calc("rate", *words)["max_fps"] == 12_019_230
    expect_refusal(v6t("calc", "rate", "--line-rate", "10", "--frame-size", "64"), "out-of-range")


def list_notes(*arguments):
    done = v6t("calc", *arguments)
    assert done.status == 0
    return [line for line in done.err.splitlines() if line.startswith("v6t: note: ")]


V6PLUS = [
    *("--rule-ipv6", "240b:10::/31", "--rule-ipv4", "106.72.0.0/15", "--ea-len", 25),
    *("--psid-offset", 4),
]


@pytest.mark.parametrize(("arguments", "expected"), [
    ([*FIGURE_8, "--ipv6", "2001:db8:ce:17a9:0:c000:2bc:9"], "192.0.2.188"),
    ([*FIGURE_8, "--ipv6", "2001:db8:ce:17a9:0:c000:2bd:8"], "2001:db8:ce:17a9:0:c000:2bd:9"),
    ([*V6PLUS, "--ipv6", "240b:10:1234:5600:6a:4812:3400:5600"], "--iid-format draft"),
    ([*FIGURE_8, "--ipv6", "2001:db8:ce:17a9:0:c000:2bd:9"], None),
    ([*FIGURE_8, "--ipv6", "2001:db8:ce:17a9:5054:ff:fe12:3456"], None),
    ([*V6PLUS, "--ipv6", "240b:10:1234:5600::"], None),
])  # fmt: skip
def test_interface_identifier_of_other_ce_gives_a_warning(arguments, expected):
    notes = list_notes("map", *arguments)
    assert [expected in note for note in notes] == [True] * (expected is not None)


@pytest.mark.parametrize(("prefix", "address", "embedded"), [
    ("2001:db8::/64", "2001:db8::c000:201", "2001:db8::c000:0"),
    ("2001:db8::/32", "2001:db8:c000:201::1", "2001:db8:c000:201::"),
    ("2001:db8::/64", "2001:db8::c0:2:100:0", None),
])  # fmt: skip
def test_nonzero_suffix_bits_give_a_warning(prefix, address, embedded):
    notes = list_notes("rfc6052", "--prefix", prefix, "--ipv6", address)
    assert [f"is {embedded};" in note for note in notes] == [True] * (embedded is not None)
