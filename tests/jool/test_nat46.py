"""OpenWrt's nat46 in a virtual machine, configured over SSH by its driver.

``make test-nat46`` runs these tests. ``V6T_NAT46`` names the module (``nat46.ko``), built for the image's kernel.
"""

import hashlib
import os
from pathlib import Path

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.setup import Bed
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts.bench import LabBed
from v6t.tests.drivers.duts.cases import CASES
from v6t.tests.needs import mark_make_target
from v6t.tests.standins import nat46

from .short_runs import THROUGHPUT, run_benchmark
from .vm import MachineDut, replace_lab_device

MODULE = os.environ.get("V6T_NAT46", "")
pytestmark = [
    *mark_make_target("nat46", "test-nat46", "V6T_NAT46_VM"),
    pytest.mark.skipif(not MODULE, reason="V6T_NAT46 is not set"),
]
PLUGINS = ("siit", "clat", "mapt-ce")


@pytest.fixture(scope="module")
def machine():
    shared = nat46()
    yield shared
    shared.stop()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_throughput(machine, plugin, tmp_path, monkeypatch):
    replace_lab_device(machine, monkeypatch)
    run = run_benchmark(tmp_path, plugin, {"driver": "nat46"}, *THROUGHPUT)
    assert [point["benchmark"] for point in run.points] == ["throughput"]
    assert run.device["kind"] == "nat46"
    assert "cloud-amd64" in run.device["system"]
    version = f"module {hashlib.sha256(Path(MODULE).read_bytes()).hexdigest()[:12]} (SHA-256)"
    assert run.device["version"] == version
    machines.add_record(f"nat46 {plugin}", run, machine.machine.hypervisor)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_verify_and_rollback(machine, plugin):
    (case,) = [c for c in CASES if c.name == f"nat46-{plugin}"]
    dut = MachineDut(make_driver("nat46", {}), case.intent, machine)
    bed = Bed(case.intent.links, dut)
    try:
        session = LabBed(dut, bed.open()).session
        assert len(session.verify()) > 5
        assert any("undone" in line for line in session.rollback())
        state = session.transport.run("ip -o link; ls /sys/module; ip route; ip -6 route").out
    finally:
        bed.close()
    assert "mgmt" in state
    assert "nat46" not in state
    assert "proto 86" not in state
