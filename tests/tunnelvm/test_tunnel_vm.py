"""ip6_tunnel of Debian's kernel in a virtual machine, configured over SSH by its driver.

``make test-tunnel-vm`` runs these tests. They use a virtual machine because many hosts lack the module.
"""

import pytest
from v6t.drivers.duts import devices
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.setup import Bed
from v6t.plugins.map_ce import LwB4
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts.bench import LabBed, measure_traffic_classes
from v6t.tests.jool.image import TUNNEL
from v6t.tests.jool.short_runs import CONNECTIONS, SHORT_RUN, THROUGHPUT, run_benchmark
from v6t.tests.jool.vm import MachineDut, SharedLinuxMachine, replace_lab_device
from v6t.tests.needs import mark_make_target, needs_trex

pytestmark = mark_make_target("tunnelvm", "test-tunnel-vm", "V6T_TUNNEL_VM", timeout_s=3600)
DRIVER = "ip6-tunnel"
PLUGINS = ("mape-ce", "lwb4")
DELAYS = (
    *("--measure", "throughput,latency,pdv", "--set-procedure", "latency.duration_s=1"),
    *("--set-procedure", "latency.first_tag_s=0.3", "--set-procedure", "latency.tags=50"),
    *("--set-procedure", "delay_variation.duration_s=1"),
)
# (outer, inner); excludes CE outside a Not-ECT packet, which is dropped (RFC 6040)
TRAFFIC_CLASSES = [(outer, inner) for outer in (0, 1, 2, 0xB8, 0xBB) for inner in (2, 0x29)]


@pytest.fixture(scope="module")
def machine():
    """Share one machine among all tests."""
    shared = SharedLinuxMachine(TUNNEL.get_image())
    yield shared
    shared.stop()


@pytest.fixture
def lab_machine(machine, monkeypatch):
    """Use the machine as the lab's device."""
    replace_lab_device(machine, monkeypatch)


@pytest.fixture
def chain_machine(machine, monkeypatch):
    """Use the machine as the part of a chain that has the tunnel driver."""

    def make_device(driver, intent, keep, part):
        if driver.name == DRIVER:
            return MachineDut(driver, intent, machine, record_dir=keep)
        return LabDut(driver, intent, keep, part)

    monkeypatch.setattr(devices, "LabDut", make_device)


def add_record(machine, technology, run):
    """Record a run for the documentation."""
    machines.add_record(f"{DRIVER} {technology}", run, machine.machine.hypervisor)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_throughput_and_delays(plugin, machine, lab_machine, tmp_path):
    run = run_benchmark(tmp_path, plugin, {"driver": DRIVER}, *DELAYS)
    assert {point["benchmark"] for point in run.points} >= {"throughput", "latency", "pdv"}
    add_record(machine, plugin, run)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_negative_traffic_with_checks_is_dropped(plugin, lab_machine, tmp_path):
    dut = {"driver": DRIVER, "options": {"checks": True}}
    run_benchmark(tmp_path, plugin, dut, *THROUGHPUT, "--set", "negative_percent=20")


def test_negative_traffic_without_checks_is_reported(lab_machine, tmp_path):
    """The kernel checks the outer header only; v6t reports the forwarded negative traffic."""
    options = (*THROUGHPUT, "--set", "negative_percent=20", "--output", tmp_path / "run")
    result = v6t("run", "--plugin", "lwb4", "--dut", DRIVER, *SHORT_RUN, *options)
    assert result.status == 6, result.err
    assert "stray-port" in result.err


@pytest.mark.parametrize("dscp", ["uniform", "pipe"])
def test_traffic_classes_follow_the_dscp_model(dscp, lab_machine):
    for pair, (problem, details) in measure_traffic_classes(
        "lwb4", TRAFFIC_CLASSES, dut=DRIVER, dscp=dscp
    ).items():
        assert problem == "", (pair, details)


@needs_trex
def test_throughput_with_trex(machine, lab_machine, tmp_path):
    run = run_benchmark(tmp_path, "lwb4", {"driver": DRIVER}, *THROUGHPUT, tester="trex")
    add_record(machine, "lwb4-trex", run)


@pytest.mark.parametrize(
    ("variant", "part"),
    [("ds-lite", "b4"), ("ds-lite", "softwire"), ("lw4o6", "ce"), ("map-e", "ce")],
)
def test_throughput_of_tunnel_in_chain(variant, part, machine, chain_machine, tmp_path):
    dut = {"driver": "chain", "options": {"parts": {part: {"driver": DRIVER}}}}
    options = (*THROUGHPUT, "--set", f"variant={variant}", *CONNECTIONS)
    run = run_benchmark(tmp_path, "ipv4aas", dut, *options)
    assert run.device["parts"][part]["kind"] == DRIVER
    add_record(machine, variant if part != "softwire" else f"{variant} {part}", run)


def test_verify_and_rollback(machine):
    dut = MachineDut(make_driver(DRIVER, {"checks": True}), LwB4().make_dut_intent(), machine)
    bed = Bed(dut.intent.links, dut)
    try:
        lab_bed = LabBed(dut, bed.open())
        session = lab_bed.session
        assert session is not None
        run = session.transport.run
        assert len(session.verify()) > 8
        assert dut.report()["tunnel v6t-tunnel"]["tx.packets"] == 0
        assert any("undone" in line for line in session.rollback())
        state = run("ip -o link show; ip rule; nft list ruleset; ip -6 -o addr; ls /run/v6t").out
        assert "v6t-tunnel" not in state
        assert "8676" not in state
        assert "table ip v6t" not in state
        assert "2001:db8:b4:1" not in state
        assert "there" not in run("[ ! -d /sys/module/ip6_tunnel ] || echo there").out
    finally:
        bed.close()
