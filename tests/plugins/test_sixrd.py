"""6rd from outside the tree: written with the tutorial, measured in the lab. ``tests/packaging`` has pip install it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from v6t.core.config import plugins
from v6t.drivers.lab.privilege import available
from v6t.plugins.conformance import assert_conforms
from v6t.tests.packaging.support import SLOW_BED, SLOWLY, lay_out

from .support import MAC, emitted

pytestmark = pytest.mark.slow

POSSIBLE, WHY = available()
EXAMPLE = Path(__file__).parents[1] / "example_6rd"
BR, SERVER = "192.88.99.129", "2001:2:0:f001::9"
# RFC 5969 section 4: 2001:db8::/32 and 10.0.0.0/8 make 10.1.2.3 the owner of 2001:db8:102:300::/56
CE, HOST = "10.1.2.3", "2001:db8:102:300::1"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    lay_out(EXAMPLE, place)
    return place


@pytest.fixture
def kind(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    yield plugins.load_plugin("sixrd-br")
    sys.modules.pop("v6t_sixrd", None)


def v6t(site, *arguments, cwd=None):
    done = subprocess.run(
        [sys.executable, "-m", "v6t.core.cli.main", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd,
        env={"PYTHONPATH": str(site), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outside(src, dst, hlim=64):
    return IPv6(src=src, dst=dst, hlim=hlim, tc=8) / UDP(sport=5, dport=6) / Raw(bytes(30))


def tunnelled(ce, inner, **more):
    return IP(src=ce, dst=BR, ttl=9, tos=8, id=3, **more) / inner


def forward(plugin, packet):
    return expect(plugin, "forward", Ether(src=MAC[0], dst=MAC[1]) / packet)


def reverse(plugin, packet):
    return expect(plugin, "reverse", Ether(src=MAC[2], dst=MAC[3]) / packet)


def expect(plugin, direction, frame):
    return plugin.expect(direction, np.frombuffer(bytes(frame), np.uint8)[None].copy())


def test_sixrd_conforms(kind):
    assert_conforms(kind)


def test_packets_leave_as_rfc_5969_requires(kind):
    inside = Ether(src=MAC[3], dst=MAC[2]) / outside(HOST, SERVER, hlim=63)
    assert emitted(forward(kind(), tunnelled(CE, outside(HOST, SERVER)))) == [bytes(inside)]
    outer = IP(src=BR, dst=CE, tos=8, id=0, ttl=64) / outside(SERVER, HOST, hlim=63)
    wanted = Ether(src=MAC[1], dst=MAC[0]) / outer
    assert emitted(reverse(kind(), outside(SERVER, HOST))) == [bytes(wanted)]


@pytest.mark.parametrize(("packet", "why"), [
    (tunnelled("10.1.2.4", outside(HOST, SERVER)), "not of the CE"),
    (tunnelled(CE, outside("2001:db9:102:300::1", SERVER)), "not of the CE"),
    (tunnelled(CE, outside(HOST, SERVER), frag=3), "no packet that this device forwards"),
    (tunnelled(CE, outside(HOST, SERVER), proto=4), "no packet that this device forwards"),
    (tunnelled(CE, outside(HOST, SERVER, hlim=1)), "TTL or hop limit"),
    (IP(src=CE, dst="192.88.99.130") / outside(HOST, SERVER), "no packet that this device"),
])  # fmt: skip
def test_packet_that_is_no_customers_is_dropped(kind, packet, why):
    plugin = kind()
    answer = forward(plugin, packet)
    assert answer.length.tolist() == [0]
    assert why in plugin.drops.describe(answer.reason[0])


@pytest.mark.lab
@pytest.mark.skipif(not POSSIBLE, reason=WHY)
def test_sixrd_is_measured_in_three_modes_with_negative_traffic(site, tmp_path):
    (tmp_path / "bed.yaml").write_text(SLOW_BED)
    v6t(
        site, "run", "--plugin", "sixrd-br", "--set", "negative_percent=5", *SLOWLY,
        "--reps", "1", "--duration", "0.3", "--testbed", "bed.yaml", "-o", "out", cwd=tmp_path,
    )  # fmt: skip
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["direction"] for r in results["results"]} == {"bidirectional", "forward", "reverse"}
    for record in results["results"]:
        assert record["frame_sizes"] == {"ipv6": 84, "ipv4": 104}
        assert record["matched"] == 1.0
        assert record["checked"] > 0
    with (tmp_path / "out" / "trials.csv").open(newline="") as table:
        spoofed = [row for row in csv.DictReader(table) if row["class"] == "spoof"]
    through = [row for row in spoofed if not row["key"].startswith("selftest")]
    assert sum(int(row["sent"]) for row in through) > 0
    assert sum(int(row["received"]) for row in through) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    picture = re.search(r'aria-label="Test setup[^"]*"', page)[0]
    assert re.findall(r"IPv[46], \d+", picture) == ["IPv4, 104", "IPv6, 84"]
    assert "UDP over IPv6 over IPv4" in page
