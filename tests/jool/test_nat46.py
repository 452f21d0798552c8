"""OpenWrt's nat46 in the virtual machine of Jool, configured over SSH by its driver.

``V6T_NAT46`` names the module (``nat46.ko``), built for the image's kernel; asked for with ``make test-nat46``.
"""

import hashlib
import os
from pathlib import Path

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.setup import Bed
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts.bench import LabBed as Bedded
from v6t.tests.drivers.duts.cases import CASES
from v6t.tests.needs import asked_for
from v6t.tests.standins import nat46

from .measuring import THROUGHPUT, measured
from .vm import MachineDut, stands_in

MODULE = os.environ.get("V6T_NAT46", "")
pytestmark = [
    *asked_for("nat46", "test-nat46", "V6T_NAT46_VM"),
    pytest.mark.skipif(not MODULE, reason="V6T_NAT46 names no nat46.ko"),
]
PLUGINS = ("siit", "clat", "mapt-ce")


@pytest.fixture(scope="module")
def machine():
    made = nat46()
    yield made
    made.end()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_frames_are_judged_and_a_throughput_is_found(machine, plugin, tmp_path, monkeypatch):
    stands_in(machine, monkeypatch)
    run = measured(tmp_path, plugin, {"driver": "nat46"}, *THROUGHPUT)
    assert [point["benchmark"] for point in run.points] == ["throughput"]
    assert run.device["kind"] == "nat46"
    assert "cloud-amd64" in run.device["system"]
    version = f"module {hashlib.sha256(Path(MODULE).read_bytes()).hexdigest()[:12]} (SHA-256)"
    assert run.device["version"] == version
    machines.add_record(f"nat46 {plugin}", run, machine.machine.hypervisor)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_it_is_read_back_and_put_back(machine, plugin):
    (case,) = [c for c in CASES if c.name == f"nat46-{plugin}"]
    dut = MachineDut(make_driver("nat46", {}), case.intent, machine)
    bed = Bed(case.intent.links, dut)
    try:
        session = Bedded(dut, bed.open()).session
        assert len(session.verify()) > 5
        assert any("undone" in line for line in session.rollback())
        left = session.transport.run("ip -o link; ls /sys/module; ip route; ip -6 route").out
    finally:
        bed.close()
    assert "mgmt" in left
    assert "nat46" not in left
    assert "proto 86" not in left
