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


def calc(*arguments):
    done = v6t("calc", *arguments, "--json")
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)


def test_ce_of_the_papers_figure_8():
    expected = {
        "end_user_prefix": "2001:db8:ce:17a9::/64",
        "map_address": "2001:db8:ce:17a9:0:c000:2bd:9",
        "ipv4": "192.0.2.189",
        "psid": 9,
        "psid_len": 5,
        "port_ranges": [[18432, 20479]],
        "ports_per_ce": 2048,
        "sharing_ratio": 32,
    }
    assert list(calc("map", *FIGURE_8, *CE_9).items()) == list(expected.items())
    lines = v6t("calc", "map", *FIGURE_8, *CE_9).out.splitlines()
    for line, (key, value) in zip(lines, expected.items(), strict=True):
        assert line.startswith(key.replace("_", " ") + " ")
        assert line.endswith(f" {value if key != 'port_ranges' else '18432-20479'}")


@pytest.mark.parametrize(
    "name",
    [
        ["--ipv6", "2001:db8:ce:17a9:0:c000:2bd:9"],
        ["--ipv6", "2001:db8:ce:17a9:ffff::1"],
        ["--ipv4", "192.0.2.189", "--port", 18432],
        ["--ipv4", "192.0.2.189", "--port", 20479],
        [*CE_9, "--port", 19000],
    ],
)
def test_ce_can_be_named_by_address_or_port(name):
    assert calc("map", *FIGURE_8, *name) == calc("map", *FIGURE_8, *CE_9)


def test_default_psid_offset_is_6():
    assert calc("map", *RULE, *CE_9) == calc("map", *RULE, "--psid-offset", 6, *CE_9)


def test_unshared_address_has_all_ports():
    rule = ["--rule-ipv6", "2001:db8::/40", "--rule-ipv4", "192.0.2.0/24", "--ea-len", 8]
    ce = calc("map", *rule, "--ipv4", "192.0.2.18")
    assert (ce["psid"], ce["sharing_ratio"], ce["port_ranges"]) == (None, 1, [[0, 65535]])
    assert "none (not shared)" in v6t("calc", "map", *rule, "--ipv4", "192.0.2.18").out


def test_many_port_ranges_are_abridged():
    """RFC 7597, appendix A, examples 1 and 2."""
    rule = [
        *("--rule-ipv6", "2001:db8:0000::/40", "--rule-ipv4", "192.0.2.0/24"),
        *("--ea-len", 16, "--psid-offset", 6),
    ]
    stdout = v6t("calc", "map", *rule, "--ipv4", "192.0.2.18", "--psid", 0x34).out
    assert "1232-1235, 2256-2259" in stdout
    assert "... 64720-64723 (63 ranges)" in stdout


def make_rule(ipv6, ipv4, ea_len, offset):
    words = ["map", "--rule-ipv6", ipv6, "--rule-ipv4", ipv4, "--ea-len", ea_len]
    return [*words, "--psid-offset", offset, "--psid", 1, "--ipv4", "192.0.2.1"]


MAP = ["map", *FIGURE_8]
UNSHARED = ["--rule-ipv6", "2001:db8::/56", "--rule-ipv4", "192.0.2.18/32", "--ea-len", 0]
EMBED = ["rfc6052", "--prefix"]
LINE = ["rate", "--line-rate"]
INVALID = [
    ("missing-setting", MAP),
    ("missing-setting", [*MAP, "--psid", 9]),
    ("out-of-range", [*MAP, "--ipv4", "192.0.2.1", "--psid", 32]),
    ("not-an-address", [*MAP, "--ipv6", "x"]),
    ("outside-prefix", [*MAP, "--ipv6", "2001:db8::1"]),
    ("outside-prefix", [*MAP, "--ipv4", "203.0.113.1", "--psid", 1]),
    ("out-of-range", [*MAP, "--ipv4", "192.0.2.1", "--port", 65536]),
    ("outside-port-set", [*MAP, "--ipv4", "192.0.2.1", "--port", 1, "--psid", 9]),
    ("outside-port-set", ["map", *RULE, "--ipv4", "192.0.2.1", "--port", 1023]),
    ("missing-setting", [*MAP, "--ipv4", "192.0.2.1", "--ipv6", "2001:db8:ce::1"]),
    ("outside-prefix", ["map", *UNSHARED, "--ipv6", "2001:db8::1"]),
    ("invalid-argument", [*MAP, "--psid", 9, "--iid-format", "x"]),
    ("invalid-argument", [*MAP, "--psid", "x"]),
    ("out-of-range", make_rule("2001::/16", "10.0.0.0/8", 49, 0)),
    ("out-of-range", make_rule("2001:db8:ce::/51", "192.0.2.0/24", 13, 17)),
    ("out-of-range", make_rule("2001:db8:ce::/51", "192.0.2.0/24", 13, 12)),
    ("not-a-prefix", make_rule("2001:db8:ce::/51", "192.0.2.1/24", 13, 0)),
    ("not-a-prefix", make_rule("2001:db8:ce::1/51", "192.0.2.0/24", 13, 0)),
    ("missing-setting", [*EMBED, "64:ff9b::/96"]),
    ("missing-setting", [*EMBED, "64:ff9b::/96", "--ipv4", "192.0.2.1", "--ipv6", "64:ff9b::1"]),
    ("not-a-prefix", [*EMBED, "64:ff9a::/95", "--ipv4", "192.0.2.1"]),
    ("outside-prefix", [*EMBED, "64:ff9b:0:0:ff00::/96", "--ipv4", "192.0.2.1"]),
    ("outside-prefix", [*EMBED, "64:ff9b::/96", "--ipv6", "2001:db8::1"]),
    *(
        ("not-a-number", [*LINE, rate, "--frame-size", 64])
        for rate in ("0", "10X", "1e400", "nan", "9" * 5000)
    ),
    ("out-of-range", [*LINE, "1G", "--frame-size", 63]),
    ("out-of-range", [*LINE, "1G", "--frame-size", 64, "--overhead=-1"]),
]


@pytest.mark.parametrize(("code", "words"), INVALID)
def test_invalid_input_is_rejected_in_short_lines(code, words):
    assert len(expect_refusal(v6t("calc", *words), code)) < 300


def test_rfc6052_address_is_embedded_and_extracted():
    expected = {"prefix": "2001:db8:100::/40", "ipv4": "192.0.2.33", "ipv6": "2001:db8:1c0:2:21::"}
    for address in ("--ipv4", expected["ipv4"]), ("--ipv6", expected["ipv6"]):
        assert calc("rfc6052", "--prefix", expected["prefix"], *address) == expected


def test_rate_of_a_line():
    """RFC 8219 appendix A."""
    words = ["rate", "--line-rate", "10G", "--frame-size", 64, "--overhead", 20]
    expected = {"frame_size": 64, "overhead": 20, "convention": "per_direction"}
    assert calc(*words).items() >= {**expected, "max_fps": 12_019_230}.items()
    assert "max fps        12019230\n" in v6t("calc", *words).out


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


def test_rule_of_a_provider_with_the_draft_format():
    ce = calc("map", *V6PLUS, "--iid-format", "draft", "--ipv6", "240b:10:1234:5600::")
    assert (ce["ipv4"], ce["psid"]) == ("106.72.18.52", 86)
    assert ce["map_address"] == "240b:10:1234:5600:6a:4812:3400:5600"
    assert (len(ce["port_ranges"]), ce["port_ranges"][0]) == (15, [5472, 5487])


@pytest.mark.parametrize(("prefix", "address", "embedded"), [
    ("2001:db8::/64", "2001:db8::c000:201", "2001:db8::c000:0"),
    ("2001:db8::/32", "2001:db8:c000:201::1", "2001:db8:c000:201::"),
    ("2001:db8::/64", "2001:db8::c0:2:100:0", None),
])  # fmt: skip
def test_nonzero_suffix_bits_give_a_warning(prefix, address, embedded):
    notes = list_notes("rfc6052", "--prefix", prefix, "--ipv6", address)
    assert [f"is {embedded};" in note for note in notes] == [True] * (embedded is not None)
