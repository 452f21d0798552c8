import json
import re
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from scapy.utils import RawPcapReader
from v6t.base.errors import UsageError
from v6t.profiles import exports
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.model import Kind, Traffic, Variable
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error, expect_refusal

from .test_template import STACKS
from .traffics import UDP6, Binding, make_background, make_mape, make_traffic


def compile_example(direction="forward"):
    traffic = Traffic(direction, (make_mape(Kind.PERMUTATION), make_background(3)), seed=4)
    return compile_traffic(traffic, rate_fps=4000, frames=1000)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_json_round_trip_is_lossless(direction):
    streams = compile_example(direction)
    assert exports.from_stl_json(exports.to_stl_json(streams)) == streams


def test_json_is_a_list_of_trex_streams():
    objects = json.loads(exports.to_stl_json(compile_example()))
    for entry, stream in zip(objects, compile_example().streams, strict=True):
        assert entry.pop("v6t")["stream_id"] == stream.stream_id and entry == stream.trex
        # keys that STLStream.from_json requires
        assert {"packet", "vm", "mode", "flow_stats", "enabled", "self_start"} <= entry.keys()
        assert {"isg", "action_count", "flags"} <= entry.keys()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[1]", "[{}]", '[{"v6t": {}}]', '{"v6t": 1}', "null"]
)
def test_json_that_is_not_a_stream_set_is_refused(text):
    with expect_error("invalid-stream-set"):
        exports.from_stl_json(text)


def load_profile(streams, monkeypatch):
    """Import a profile as trex-console does, with a client that returns the dictionaries of streams."""
    api = ModuleType("trex.stl.api")
    api.STLStream = SimpleNamespace(from_json=lambda stream: stream)
    for name in ("trex", "trex.stl"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "trex.stl.api", api)
    source, namespace = exports.to_stl_py(streams), {"__doc__": ""}
    imported = set(re.findall(r"^(?:from|import) ([\w.]+)", source, re.M))
    assert imported == {"argparse", "json", "trex.stl.api"}
    exec(compile(source, "profile", "exec"), namespace)  # noqa: S102
    # TRex passes these keyword arguments
    return namespace["register"]().get_streams(direction=0, tunables=(), port_id=1)


@pytest.mark.parametrize("name", ["fg", 'x"""\\'])
def test_python_profile_returns_the_streams_under_any_name(name, monkeypatch):
    (traffic_class,) = make_traffic(bind=()).classes
    streams = compile_traffic(Traffic("forward", (replace(traffic_class, name=name),)))
    assert load_profile(streams, monkeypatch) == [streams.streams[0].trex]


def test_explanation_names_every_field_and_decision():
    text = exports.explain(compile_example())
    for phrase in (
        "stream 0 'fg' (foreground, forward)", "Ether/IPv6/IP/UDP, 104 octets with FCS",
        "sends 1000 frames/s, 250 frames", "the 8192 values", "IPv6.src[48..63]",
        "IPv6.src[104..111]", "IPv6.src[123..127]", "IP.src[24..31]", "UDP.sport[0..4]",
        "UDP.sport[5..15]", "IP header at octet 54 and the transport header at octet 74",
        "note: ea: a shuffled list of all 8192 values", "stream 1 'bg' (background, forward)",
        "each of 64512 values within", "UDP.dport",
    ):  # fmt: skip
        assert phrase in text
    program = [len(s.program) for s in compile_example().streams]
    assert text.count("\n    ") == sum(program)


LOW_OCTET = Binding("v", "IP.src", 24, 31, 16, 23), Binding("v", "Ether.dst", 24, 47, add=-3)


@pytest.mark.parametrize(("variable", "bind", "layers", "phrases"), [
    (Variable("v", 24, Kind.DEC), LOW_OCTET, STACKS["4in4"],
        ("counts down within", "IPv4 header at octet 14")),
    (Variable("v", 48, Kind.INC), (Binding("v", "IPv6.src", 80, 127),), UDP6, ("v.32",)),
    (Variable("v", 16), (Binding("v", "ICMPv6EchoRequest.id", 0, 15),), STACKS["icmpv6"],
        ("ICMPv6 checksum at octet 54",)),
    (Variable("v", 16, Kind.INC), (Binding("v", "UDP.sport", 0, 15),), UDP6,
        ("payload octet",)),
])  # fmt: skip
def test_explanation_describes_counters_and_checksums(variable, bind, layers, phrases):
    text = exports.explain(compile_traffic(make_traffic(variable, bind=bind, layers=layers)))
    assert all(phrase in text for phrase in phrases)


def test_file_name_that_trex_does_not_load_is_rejected():
    for name in ("mape.json", "mape_br.py", "dir.d/forward.py", "a-b.json"):
        exports.check_file_name(name)
    wrong = "mape.v1.py", "mape", ".py", "a-b.py", "random.py", "trex.py", "class.py", "x.yaml"
    for name in wrong:
        with expect_error("not-a-file-name"):
            exports.check_file_name(name)


FRAMES = [bytes([k]) * (60 + k) for k in range(9)]


def read_pcap(path):
    """Return time stamps in nanoseconds and frames."""
    with RawPcapReader(str(path)) as reader:
        assert reader.nano and reader.linktype == 1
        records = list(reader)
    assert [meta.wirelen for _, meta in records] == [len(data) for data, _ in records]
    return [meta.sec * 10**9 + meta.usec for _, meta in records], [data for data, _ in records]


def test_capture_has_frames_and_stamps(tmp_path):
    path = tmp_path / "out.pcap"
    assert exports.write_pcap(path, iter(FRAMES), 3.0) == 9
    assert read_pcap(path) == ([round(k * 10**9 / 3) for k in range(9)], FRAMES)
    assert [p.name for p in tmp_path.iterdir()] == ["out.pcap"]
    assert exports.write_pcap(path, [b"a" * 60, None, b"c" * 60], 4.0, overwrite=True) == 2
    assert read_pcap(path) == ([0, 500_000_000], [b"a" * 60, b"c" * 60])
    assert exports.write_pcap(path, [], 4.0, overwrite=True) == 0
    assert path.stat().st_size == 24
    exports.write_pcap(path, (b"x" * 60 for _ in range(30_001)), 14_880_952.38, overwrite=True)
    assert read_pcap(path)[0][-1] == round(30_000 * 1e9 / 14_880_952.38)


@pytest.mark.parametrize("content", [None, b"old"])
def test_capture_that_fails_while_written_keeps_the_old_file(tmp_path, content):
    def fail():
        yield FRAMES[0]
        raise UsageError("no more", code="duplicate")

    path = tmp_path / "out.pcap"
    if content:
        path.write_bytes(content)
    with expect_error("duplicate"):
        exports.write_pcap(path, fail(), 1.0, overwrite=True)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([content] if content else [])


@pytest.mark.parametrize("option", ["-o", "--expected"])
def test_file_of_a_run_is_not_replaced(option, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    words = ("compile", "mape-br", "--overwrite", "--count", 1, option, tmp_path / "config.json")
    expect_refusal(v6t(*words), "file-exists")
    assert (tmp_path / "config.json").read_text() == "{}"
