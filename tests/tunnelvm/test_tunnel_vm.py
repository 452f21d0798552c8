"""ip6_tunnel of Debian's kernel in a virtual machine, configured over SSH by its driver.

Asked for with ``make test-tunnel-vm``: many kernels of containers have no such module. The first time,
the image is made. Without hardware acceleration a machine is slow, and rates are low accordingly.
"""

import pytest
from v6t.drivers.duts import devices
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.setup import Bed
from v6t.plugins.map_ce import LwB4
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts.bench import LabBed as Bedded
from v6t.tests.drivers.duts.bench import measure_traffic_classes
from v6t.tests.jool.image import TUNNEL
from v6t.tests.jool.measuring import CONNECTIONS, SHORT, THROUGHPUT, measured
from v6t.tests.jool.vm import MachineDut, Standing, stands_in
from v6t.tests.needs import asked_for, needs_trex

pytestmark = asked_for("tunnelvm", "test-tunnel-vm", "V6T_TUNNEL_VM", timeout_s=3600)
DRIVER = "ip6-tunnel"
PLUGINS = ("mape-ce", "lwb4")
DELAYS = (
    *("--measure", "throughput,latency,pdv", "--set-procedure", "latency.duration_s=1"),
    *("--set-procedure", "latency.first_tag_s=0.3", "--set-procedure", "latency.tags=50"),
    *("--set-procedure", "delay_variation.duration_s=1"),
)
OCTETS = [(outer, inner) for outer in (0, 1, 2, 0xB8, 0xBB) for inner in (2, 0x29)]
"""Of DSCPs and ECN; CE outside a packet that is Not-ECT is dropped, and so is asked for elsewhere."""


@pytest.fixture(scope="module")
def machine():
    """Provide one machine for all tests; its image is made the first time."""
    made = Standing(TUNNEL.image())
    yield made
    made.end()


@pytest.fixture
def in_machine(machine, monkeypatch):
    """Replace the lab's device by the machine."""
    stands_in(machine, monkeypatch)


@pytest.fixture
def in_chain(machine, monkeypatch):
    """Replace a chain's part with the tunnel by the machine; the others are namespaces."""

    def device(driver, intent, keep, part):
        if driver.name == DRIVER:
            return MachineDut(driver, intent, machine, record_dir=keep)
        return LabDut(driver, intent, keep, part)

    monkeypatch.setattr(devices, "LabDut", device)


def seen(machine, technology, run):
    """Record a run in the page's row."""
    machines.add_record(f"{DRIVER} {technology}", run, machine.machine.hypervisor)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_it_is_measured(plugin, machine, in_machine, tmp_path):
    run = measured(tmp_path, plugin, {"driver": DRIVER}, *DELAYS)
    assert {point["benchmark"] for point in run.points} >= {"throughput", "latency", "pdv"}
    seen(machine, plugin, run)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_strays_are_dropped_where_it_is_told_to_check(plugin, in_machine, tmp_path):
    dut = {"driver": DRIVER, "options": {"checks": True}}
    measured(tmp_path, plugin, dut, *THROUGHPUT, "--set", "negative_percent=20")


def test_without_checks_strays_come_through(in_machine, tmp_path):
    """A tunnel looks at its own header alone: what it lets pass is seen and told."""
    how = (*THROUGHPUT, "--set", "negative_percent=20", "--output", tmp_path / "run")
    done = v6t("run", "--plugin", "lwb4", "--dut", DRIVER, *SHORT, *how)
    assert done.status == 6, done.err
    assert "stray-port" in done.err


@pytest.mark.parametrize("dscp", ["uniform", "pipe"])
def test_traffic_classes(dscp, in_machine):
    for pair, (why, told) in measure_traffic_classes("lwb4", OCTETS, dut=DRIVER, dscp=dscp).items():
        assert why == "", (pair, told)


@needs_trex
def test_trex_measures_it(machine, in_machine, tmp_path):
    run = measured(tmp_path, "lwb4", {"driver": DRIVER}, *THROUGHPUT, tester="trex")
    seen(machine, "lwb4-trex", run)


@pytest.mark.parametrize(
    ("variant", "part"),
    [("ds-lite", "b4"), ("ds-lite", "softwire"), ("lw4o6", "ce"), ("map-e", "ce")],
)
def test_it_is_a_part_of_a_chain(variant, part, machine, in_chain, tmp_path):
    dut = {"driver": "chain", "options": {"parts": {part: {"driver": DRIVER}}}}
    how = (*THROUGHPUT, "--set", f"variant={variant}", *CONNECTIONS)
    run = measured(tmp_path, "ipv4aas", dut, *how)
    assert run.device["parts"][part]["kind"] == DRIVER
    seen(machine, variant if part != "softwire" else f"{variant} {part}", run)


def test_it_is_read_back_and_put_back(machine):
    dut = MachineDut(make_driver(DRIVER, {"checks": True}), LwB4().make_dut_intent(), machine)
    bed = Bed(dut.intent.links, dut)
    try:
        standing = Bedded(dut, bed.open())
        session = standing.session
        assert session is not None
        run = session.transport.run
        assert len(session.verify()) > 8
        assert dut.report()["tunnel v6t-tunnel"]["tx.packets"] == 0
        assert any("undone" in line for line in session.rollback())
        left = run("ip -o link show; ip rule; nft list ruleset; ip -6 -o addr; ls /run/v6t").out
        assert "v6t-tunnel" not in left
        assert "8676" not in left
        assert "table ip v6t" not in left
        assert "2001:db8:b4:1" not in left
        assert "there" not in run("[ ! -d /sys/module/ip6_tunnel ] || echo there").out
    finally:
        bed.close()
