"""``v6t compile``: streams as profile, module, capture and text."""

import base64
import json

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.profiles.exports import from_stl_json
from v6t.tests.core.support import read_dir, v6t
from v6t.tests.expect import expect_refusal

COMPILE = ["compile", "--plugin", "mape-br"]
DIRECTIONS = ["forward", "reverse"]
MIXED = ["--set", "n=3", "--set", "m=2"]
"""Two of three frames are foreground, the third is native IPv6."""


def compile_text(*arguments):
    """Compile traffic of the MAP-E border relay to standard output."""
    done = v6t(*COMPILE, *arguments)
    assert (done.status, done.err) == (0, "")
    return done.out


def compute_translated_size(direction, packet):
    """Return the length of a correct relay's output for a frame; 0 if it drops it."""
    frames = np.frombuffer(bytes(packet), dtype=np.uint8)[None, :]
    return MapEBorderRelay().expect(direction, frames).length[0]


def compute_sent_octets(direction, size):
    """Return the octets of a frame without FCS on the side where it is sent."""
    return size - 4 if direction == "forward" else size - 44


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_json_profile_has_rate_size_and_direction(direction):
    text = compile_text("--direction", direction, "--frame-size", 1518, "--rate", 5000)
    (stream,) = json.loads(text)
    assert stream["mode"] == {"type": "continuous", "rate": {"type": "pps", "value": 5000.0}}
    assert len(base64.b64decode(stream["packet"]["binary"])) == compute_sent_octets(direction, 1518)
    assert from_stl_json(text).direction == direction


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_capture_is_read_by_scapy_and_satisfies_the_relay(direction, tmp_path):
    path = tmp_path / "x.pcap"
    done = v6t(
        *(*COMPILE, *MIXED, "--direction", direction, "--frame-size", 105, "--format", "pcap"),
        *("--count", 60, "--rate", 1000, "-o", path),
    )
    assert (done.status, done.out, done.err) == (0, "", f"60 frames in {path}\n")
    packets = rdpcap(str(path))
    assert len(packets) == 60
    assert float(packets[59].time) == pytest.approx(0.059)
    foreground = [p for p in packets if IP in p]
    assert len(foreground) == 40
    assert {len(p) for p in foreground} == {compute_sent_octets(direction, 105)}
    assert {IPv6 in p for p in foreground} == {direction == "forward"}
    assert all(compute_translated_size(direction, packet) for packet in packets)


def test_capture_without_count_has_1000_different_frames(tmp_path):
    assert v6t(*COMPILE, "--format", "pcap", "-o", tmp_path / "x.pcap").status == 0
    packets = rdpcap(str(tmp_path / "x.pcap"))
    assert len(packets) == len({bytes(p) for p in packets}) == 1000


def test_count_makes_bursts_shared_by_the_classes():
    modes = [stream["mode"] for stream in json.loads(compile_text(*MIXED, "--count", 3000))]
    assert {mode["type"] for mode in modes} == {"single_burst"}
    assert sorted(mode["total_pkts"] for mode in modes) == [1000, 2000]


def test_vlan_of_the_testbed_is_in_the_frames(tmp_path):
    (tmp_path / "bed.yaml").write_text("links: {left: {vlan: 77}}")
    text = compile_text("--testbed", tmp_path / "bed.yaml", "--frame-size", 108)
    packet = base64.b64decode(json.loads(text)[0]["packet"]["binary"])
    assert packet[12:16] == bytes.fromhex("8100004d")


def test_traffic_depends_on_the_seed(tmp_path):
    assert compile_text("--seed", 5) == compile_text("--seed", 5)
    assert compile_text("--seed", 5) != compile_text("--seed", 6)


@pytest.mark.parametrize("kind", ["stl-json", "stl-py", "pcap", "text"])
def test_file_is_overwritten_only_by_force(kind, tmp_path):
    path = tmp_path / "mape.json"
    path.write_text("mine")
    words = [*COMPILE, "--format", kind, "--count", 10, "-o", path]
    assert "--overwrite" in expect_refusal(v6t(*words), "file-exists")
    assert read_dir(tmp_path) == {"mape.json": b"mine"}
    assert v6t(*words, "--overwrite").status == 0
    assert list(read_dir(tmp_path)) == ["mape.json"]
    assert path.read_bytes() != b"mine"


@pytest.mark.parametrize(("kind", "content"), [
    ("stl-json", '"v6t"'), ("stl-py", "def register"), ("text", "stream 0 'fg' (foreground"),
])  # fmt: skip
def test_output_file_equals_standard_output(kind, content, tmp_path):
    path = tmp_path / ("mape.py" if kind == "stl-py" else "mape.json")
    done = v6t(*COMPILE, "--format", kind, "-o", path)
    assert (done.status, done.out, done.err) == (0, "", "")
    text = path.read_text()
    assert text == compile_text("--format", kind) == compile_text("--format", kind, "-o", "-")
    assert content in text


@pytest.mark.parametrize(
    ("kind", "name"), [("stl-json", "mape.v2.json"), ("stl-py", "json.py"), ("stl-json", "mape")]
)
def test_file_name_that_trex_cannot_load_gives_a_note(kind, name, tmp_path):
    done = v6t(*COMPILE, "--format", kind, "-o", tmp_path / name)
    assert done.status == 0 and done.err.startswith("v6t: note: trex-console ")
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("kind", ["pcap", "text"])
def test_failed_write_leaves_no_file(kind, tmp_path):
    (tmp_path / "x").mkdir()
    done = v6t(*COMPILE, "--format", kind, "--count", 5, "--overwrite", "-o", tmp_path / "x")
    expect_refusal(done, "file-unwritable")
    assert read_dir(tmp_path) == {"x": None}


def test_number_of_ces_does_not_enlarge_profile():
    wide = [
        *("--set", "rule_ipv6=fd00:db8::/32", "--set", "rule_ipv4=10.0.0.0/8"),
        *("--set", "ea_len=30", "--set", "ces=all"),
    ]
    assert len(compile_text(*wide)) < 1.5 * len(compile_text("--set", "ces=all"))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ports", [range(1024, 1025), range(1024, 1034)], ids=len)
def test_stateful_profile_of_any_size_is_written(direction, ports, tmp_path):
    """The default number of connections of a run may be larger."""
    path = tmp_path / "small.pcap"
    done = v6t(
        *("compile", "--plugin", "nat44", "--direction", direction, "--format", "pcap"),
        *("--set", f"initiator_ports={{min: {min(ports)}, max: {max(ports)}}}"),
        *("--set", "responder_ports={min: 80, max: 80}", "--count", 3 * len(ports), "-o", path),
    )
    assert done.status == 0, done.err
    sent = {(frame[UDP].sport, frame[UDP].dport) for frame in rdpcap(str(path))}
    if direction == "forward":
        assert sent == {(port, 80) for port in ports}


def test_expected_capture_holds_the_translation_of_each_forwarded_frame(tmp_path):
    sent, expected = tmp_path / "sent.pcap", tmp_path / "expected.pcap"
    words = ("--set", "negative_percent=20", "--format", "pcap", "--count", 50, "--rate", 1000)
    assert v6t(*COMPILE, *words, "-o", sent, "--expected", expected).status == 0
    frames = {float(p.time): bytes(p) for p in rdpcap(str(sent))}
    translated = {float(p.time): bytes(p) for p in rdpcap(str(expected))}
    sizes = {time: compute_translated_size("forward", frame) for time, frame in frames.items()}
    assert 0 < len(translated) < len(frames) == 50
    assert {t: len(raw) for t, raw in translated.items()} == {t: n for t, n in sizes.items() if n}
    assert all(raw[26:30] == frames[t][66:70] for t, raw in translated.items())


def test_expected_capture_is_written_with_any_format(tmp_path):
    done = v6t(*COMPILE, "--frame-size", "imix", "--count", 24, "--expected", tmp_path / "e.pcap")
    assert done.status == 0 and json.loads(done.out)
    assert len({len(p) for p in rdpcap(str(tmp_path / "e.pcap"))}) == 3


@pytest.mark.parametrize("name", ["mape-br", "map-e"])
def test_compile_takes_the_technology_as_argument(name):
    assert v6t("compile", name, "--format", "text").out == compile_text("--format", "text")


def test_reverse_traffic_of_a_nat_gives_a_note():
    done = v6t("compile", "nat44", "--direction", "reverse")
    assert done.status == 0 and json.loads(done.out)
    assert "note" in done.err and not v6t("compile", "nat44").err
