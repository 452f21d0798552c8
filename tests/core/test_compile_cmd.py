"""``v6t compile``: streams as profile, module, capture and text."""

import base64
import json

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.profiles.exports import from_stl_json
from v6t.tests.core.support import tree, v6t
from v6t.tests.expect import expect_refusal

COMPILE = ["compile", "--plugin", "mape-br"]
FORMATS = ["stl-json", "stl-py", "pcap", "text"]
WAYS = ["forward", "reverse"]

MIXED = ["--set", "n=3", "--set", "m=2"]
"""Two of three frames foreground, the third native IPv6."""


def compiled(*arguments):
    done = v6t(*COMPILE, *arguments)
    assert (done.status, done.err) == (0, "")
    return done.out


def octets(direction, size):
    """Return the octets of a frame without FCS on the side where it is sent."""
    return size - 4 if direction == "forward" else size - 44


@pytest.mark.parametrize("direction", WAYS)
def test_json_profile_has_rate_size_and_direction(direction):
    text = compiled("--direction", direction, "--frame-size", 1518, "--rate", 5000)
    (stream,) = json.loads(text)
    assert stream["mode"] == {"type": "continuous", "rate": {"type": "pps", "value": 5000.0}}
    assert len(base64.b64decode(stream["packet"]["binary"])) == octets(direction, 1518)
    assert from_stl_json(text).direction == direction


@pytest.mark.parametrize("direction", WAYS)
def test_capture_is_read_by_scapy_and_satisfies_the_relay(direction, tmp_path):
    path = tmp_path / "x.pcap"
    done = v6t(
        *(*COMPILE, *MIXED, "--direction", direction, "--frame-size", 105, "--format", "pcap"),
        *("--count", 60, "--rate", 1000, "-o", path),
    )
    assert (done.status, done.out) == (0, "")
    assert done.err == f"60 frames in {path}\n"
    packets = rdpcap(str(path))
    assert len(packets) == 60
    assert float(packets[59].time) == pytest.approx(0.059)
    foreground = [p for p in packets if IP in p]
    assert len(foreground) == 40
    assert {len(p) for p in foreground} == {octets(direction, 105)}
    assert {IPv6 in p for p in foreground} == {direction == "forward"}
    assert all(answered(MapEBorderRelay(), direction, bytes(packet)) for packet in packets)


def answered(relay, direction, raw):
    """Return the length of a correct relay's output for a frame; 0 if it drops it."""
    import numpy as np

    return relay.expect(direction, np.frombuffer(raw, dtype=np.uint8)[None, :]).length[0]


def test_capture_without_count_has_1000_different_frames(tmp_path):
    assert v6t(*COMPILE, "--format", "pcap", "-o", tmp_path / "x.pcap").status == 0
    packets = rdpcap(str(tmp_path / "x.pcap"))
    assert len(packets) == len({bytes(p) for p in packets}) == 1000


def test_count_makes_bursts_shared_by_the_classes():
    modes = [stream["mode"] for stream in json.loads(compiled(*MIXED, "--count", 3000))]
    assert {mode["type"] for mode in modes} == {"single_burst"}
    assert sorted(mode["total_pkts"] for mode in modes) == [1000, 2000]


def test_a_vlan_of_the_testbed_is_in_the_frames(tmp_path):
    (tmp_path / "bed.yaml").write_text("links: {left: {vlan: 77}}")
    text = compiled("--testbed", tmp_path / "bed.yaml", "--frame-size", 108)
    packet = base64.b64decode(json.loads(text)[0]["packet"]["binary"])
    assert packet[12:16] == bytes.fromhex("8100004d")


def test_seed_decides(tmp_path):
    assert compiled("--seed", 5) == compiled("--seed", 5)
    assert compiled("--seed", 5) != compiled("--seed", 6)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_overwritten_only_by_force(kind, tmp_path):
    path = tmp_path / "mape.json"
    path.write_text("mine")
    arguments = [*COMPILE, "--format", kind, "--count", 10, "-o", path]
    said = expect_refusal(v6t(*arguments), "file-exists")
    assert "--overwrite" in said
    assert tree(tmp_path) == {"mape.json": b"mine"}
    assert v6t(*arguments, "--overwrite").status == 0
    assert list(tree(tmp_path)) == ["mape.json"]
    assert path.read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("kind", "content"),
    [("stl-json", '"v6t"'), ("stl-py", "def register"), ("text", "stream 0 'fg' (foreground")],
)
def test_output_file_equals_standard_output(kind, content, tmp_path):
    path = tmp_path / ("mape.py" if kind == "stl-py" else "mape.json")
    done = v6t(*COMPILE, "--format", kind, "-o", path)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert path.read_text() == compiled("--format", kind) == compiled("--format", kind, "-o", "-")
    assert content in path.read_text()


@pytest.mark.parametrize(
    ("kind", "name"), [("stl-json", "mape.v2.json"), ("stl-py", "json.py"), ("stl-json", "mape")]
)
def test_a_name_that_trex_cannot_load_is_noted(kind, name, tmp_path):
    done = v6t(*COMPILE, "--format", kind, "-o", tmp_path / name)
    assert done.status == 0
    assert done.err.startswith("v6t: note: trex-console ")
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("kind", ["pcap", "text"])
def test_failed_write_leaves_no_file(kind, tmp_path):
    (tmp_path / "there").mkdir()
    done = v6t(*COMPILE, "--format", kind, "--count", 5, "--overwrite", "-o", tmp_path / "there")
    expect_refusal(done, "file-unwritable")
    assert tree(tmp_path) == {"there": None}


def test_number_of_ces_does_not_enlarge_profile():
    wide = [
        *("--set", "rule_ipv6=fd00:db8::/32", "--set", "rule_ipv4=10.0.0.0/8"),
        *("--set", "ea_len=30", "--set", "ces=all"),
    ]
    assert len(compiled(*wide)) < 1.5 * len(compiled("--set", "ces=all"))


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize(("ports", "space"), [((1024, 1024), 1), ((1024, 1033), 10)])
def test_stateful_profile_of_any_size_is_written(direction, ports, space, tmp_path):
    """However many connections a run makes when nothing is said."""
    low, high = ports
    at = tmp_path / "small.pcap"
    done = v6t(
        *("compile", "--plugin", "nat44", "--direction", direction, "--format", "pcap"),
        *("--set", f"initiator_ports.min={low}", "--set", f"initiator_ports.max={high}"),
        *("--set", "responder_ports.min=80", "--set", "responder_ports.max=80"),
        *("--count", 3 * space, "-o", at),
    )
    assert done.status == 0, done.err
    seen = {(frame[UDP].sport, frame[UDP].dport) for frame in rdpcap(str(at))}
    if direction == "forward":
        assert seen == {(port, 80) for port in range(low, high + 1)}


def test_expected_capture_holds_the_translation_of_each_forwarded_frame(tmp_path):
    sent, expected = tmp_path / "sent.pcap", tmp_path / "expected.pcap"
    shape = ("--set", "negative_percent=20", "--format", "pcap", "--count", 50, "--rate", 1000)
    done = v6t(*COMPILE, *shape, "-o", sent, "--expected", expected)
    assert done.status == 0
    translated = {float(p.time): bytes(p) for p in rdpcap(str(expected))}
    frames = {float(p.time): bytes(p) for p in rdpcap(str(sent))}
    lengths = {time: answered(MapEBorderRelay(), "forward", raw) for time, raw in frames.items()}
    assert 0 < len(translated) < len(frames) == 50
    assert {t: len(raw) for t, raw in translated.items()} == {t: n for t, n in lengths.items() if n}
    assert all(raw[26:30] == frames[t][66:70] for t, raw in translated.items())


def test_expected_capture_is_written_with_any_format(tmp_path):
    done = v6t(*COMPILE, "--frame-size", "imix", "--count", 24, "--expected", tmp_path / "e.pcap")
    assert done.status == 0 and json.loads(done.out)
    assert len({len(p) for p in rdpcap(str(tmp_path / "e.pcap"))}) == 3


def test_expected_capture_of_a_stateful_technology_is_rejected(tmp_path):
    done = v6t("compile", "--plugin", "nat64", "--expected", tmp_path / "e.pcap")
    expect_refusal(done, "missing-reference")
    assert tree(tmp_path) == {}


def test_expected_capture_over_the_output_is_rejected(tmp_path):
    path = tmp_path / "x.pcap"
    expect_refusal(
        v6t(*COMPILE, "--format", "pcap", "-o", path, "--expected", path, "--overwrite"),
        "conflicting-options",
    )
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["mape-br", "map-e"])
def test_compile_takes_the_technology_as_argument(name):
    assert v6t("compile", name, "--format", "text").out == compiled("--format", "text")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), "missing-setting"), (("nat44", "--plugin", "mape-br"), "conflicting-options")],
)
def test_compile_without_or_with_two_technologies_is_refused(arguments, code):
    expect_refusal(v6t("compile", *arguments), code)
