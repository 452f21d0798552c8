"""Installed plugins are checked, measured and audited; ``tests/packaging`` installs the same ones with pip."""

import ast
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from v6t.audit.auditor import load_suites, select_clauses
from v6t.audit.clause import make_subject
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.relays import SixInFourDevice
from v6t.core.config import plugins
from v6t.plugins.conformance import assert_conforms
from v6t.tests.audit.in_process import execute_clauses
from v6t.tests.core.support import v6t
from v6t.tests.packaging.support import install_without_pip

from .support import MAC, list_emitted

TESTS = Path(__file__).parents[1]
BR, SERVER = "192.88.99.129", "2001:2:0:f001::9"
# RFC 5969, section 4: with 2001:db8::/32 and 10.0.0.0/8, CE 10.1.2.3 has 2001:db8:102:300::/56
CE, HOST = "10.1.2.3", "2001:db8:102:300::1"


@pytest.fixture(scope="module", autouse=True)
def site_packages(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    for name in ("plugin", "6rd"):
        install_without_pip(TESTS / f"example_{name}", directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(directory))
        yield directory
    for module in ("v6t_nptv6", "v6t_sixrd", "v6t_sixrd_audit"):
        sys.modules.pop(module, None)


@pytest.fixture
def sixrd():
    return plugins.load_technology_type("sixrd-br")()


def list_clauses(technology):
    return list(select_clauses(load_suites(()), technology).clauses)


def test_tutorial_plugin_is_measured_and_reported(tmp_path):
    out = tmp_path / "out"
    done = v6t("run", "--plugin", "my-nptv6", "--tester", "sim", "--reps", "1", "-o", out)
    assert done.status == 0, done.err
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["frame_sizes"]["ipv6"] for r in results["results"]} == {84}
    assert v6t("report", out).status == 0
    (label,) = re.findall(r'aria-label="(Test setup[^"]*)"', (out / "report.html").read_text())
    assert re.findall(r"IPv[46], \d+", label) == ["IPv6, 84"] * 2
    assert "IPv4" not in label


def test_tutorial_plugin_is_short_and_imports_names_that_the_tutorial_explains():
    text = (TESTS / "example_plugin" / "v6t_nptv6.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 100
    imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    names = {alias.name for n in imports if n.module.startswith("v6t") for alias in n.names}
    page = (TESTS.parent / "docs" / "tutorials" / "plugin.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = {word for span in re.findall(r"`[^`]+`", prose) for word in re.findall(r"\w+", span)}
    assert names <= words


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rfcs"), [
    ("my-nptv6", {"RFC 6296"}), ("sixrd-br", {"RFC 4213", "RFC 5969", "RFC 6040"}),
])  # fmt: skip
def test_plugin_conforms_and_is_audited_by_the_clauses_of_its_view(name, rfcs):
    assert_conforms(plugins.load_technology_type(name))
    technology = plugins.load_technology_type(name)()
    result = execute_clauses(build_device(technology), list_clauses(technology))
    assert {o.clause.rfc for o in result} >= rfcs
    assert {o.judgement.verdict for o in result} == {"conforms"}
    assert len(make_subject(technology).views) == 1


def make_native(src, dst, hlim=64):
    return IPv6(src=src, dst=dst, hlim=hlim, tc=8) / UDP(sport=5, dport=6) / Raw(bytes(30))


def make_tunnelled(ce, inner, **more):
    return IP(src=ce, dst=BR, ttl=9, tos=8, id=3, **more) / inner


def expect(plugin, direction, packet):
    src, dst = MAC[:2] if direction == "forward" else MAC[2:]
    frame = np.frombuffer(bytes(Ether(src=src, dst=dst) / packet), np.uint8)
    return plugin.expect(direction, frame[None].copy())


def test_6rd_relay_translates_headers_as_rfc_5969_requires(sixrd):
    inside = Ether(src=MAC[3], dst=MAC[2]) / make_native(HOST, SERVER, hlim=63)
    sent = make_tunnelled(CE, make_native(HOST, SERVER))
    assert list_emitted(expect(sixrd, "forward", sent)) == [bytes(inside)]
    outer = IP(src=BR, dst=CE, tos=8, id=0, ttl=64) / make_native(SERVER, HOST, hlim=63)
    expected = bytes(Ether(src=MAC[1], dst=MAC[0]) / outer)
    assert list_emitted(expect(sixrd, "reverse", make_native(SERVER, HOST))) == [expected]


@pytest.mark.parametrize(("packet", "reason"), [
    (make_tunnelled("10.1.2.4", make_native(HOST, SERVER)), "not of the CE"),
    (make_tunnelled(CE, make_native("2001:db9:102:300::1", SERVER)), "not of the CE"),
    (make_tunnelled(CE, make_native(HOST, SERVER), frag=3), "not a packet that this device forwards"),
    (make_tunnelled(CE, make_native(HOST, SERVER), proto=4), "not a packet that this device forwards"),
    (make_tunnelled(CE, make_native(HOST, SERVER, hlim=1)), "TTL or hop limit"),
    (IP(src=CE, dst="192.88.99.130") / make_native(HOST, SERVER), "not a packet that this device"),
])  # fmt: skip
def test_packet_that_6rd_relay_must_not_forward_is_dropped(sixrd, packet, reason):
    answer = expect(sixrd, "forward", packet)
    assert answer.length.tolist() == [0]
    assert reason in sixrd.drops.describe(answer.reason[0])


@pytest.mark.parametrize(("method", "wrong", "clauses"), [
    ("check_source", lambda self, outer, inner: None, {"outer-source", "inner-source"}),
    ("endpoint", lambda self, inner: self.view.remote, {"embedded"}),
    ("decrement", lambda self, packet: packet, {"outer-ttl", "encapsulated"}),
])  # fmt: skip
def test_planted_fault_of_6rd_relay_is_found(sixrd, method, wrong, clauses, monkeypatch):
    monkeypatch.setattr(SixInFourDevice, method, wrong)
    result = execute_clauses(build_device(sixrd), list_clauses(sixrd))
    assert clauses <= {o.clause.label for o in result if o.judgement.verdict == "deviates"}
