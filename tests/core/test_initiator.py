"""The setting ``initiator: right``, which swaps the sides of the device."""

import json
import re
from contextlib import closing

import pytest
from v6t.core.config.run_setup import make_setup
from v6t.core.migrate.siitperf import read_siitperf
from v6t.core.runs.bench import Bench, compile_directions
from v6t.core.runs.rundir import write_run_files
from v6t.core.runs.tester_capacity import SelfTest, make_capacity_spec
from v6t.drivers.duts.driver import check_interfaces
from v6t.drivers.duts.facts import Facts, Interface
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.trex.options import TrexOptions
from v6t.intent.device import Link, Links
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab
from v6t.tests.settings import resolve
from v6t.trials.connections import Connections
from v6t.trials.trial import Trial

BED = """
initiator: right
tester: {kind: trex, options: {ports: [2, 3]}}
dut: {driver: nftables, options: {left: eth1, right: eth2, ssh: {host: dut}}}
links:
  left: {tester_mac: "02:00:00:00:0a:02", dut_mac: "02:00:00:00:0a:01", vlan: 7}
  right: {tester_mac: "02:00:00:00:0b:02", dut_mac: "02:00:00:00:0b:01"}
"""


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "testbed.yaml"
    path.write_text(BED)
    return resolve(testbed=path, plugin="nat44")


@pytest.fixture
def setup(run):
    return make_setup(run)


def test_left_of_technology_is_the_link_at_the_right_port(run, setup):
    links = setup.technology.links
    assert (links.left.dut_mac, links.left.vlan) == ("02:00:00:00:0b:01", None)
    assert (links.right.dut_mac, links.right.vlan) == ("02:00:00:00:0a:01", 7)
    assert (links.get_link("left"), links.get_link("right")) == (links.right, links.left)
    assert run.links.left.vlan == 7  # files name links by the tester's ports
    streams = compile_directions(setup.technology, setup.technology.make_frame_pair(64), 1)
    first = Expander(streams["forward"].streams[0]).compute_frames(0, 1)[0, :12].tobytes()
    assert first == bytes.fromhex("020000000b01020000000b02")


def test_device_has_private_side_at_initiator(setup):
    driver, intent = setup.driver, setup.intent
    assert (driver.options.left, driver.options.right) == ("eth2", "eth1")
    address, steps = str(intent.left.addresses[0]), setup.example_plan.steps
    (step,) = [s for s in steps if address in s.command and " addr " in s.command]
    assert "eth2" in step.command and "eth1" not in step.command


def test_interface_errors_use_names_of_testbed_file(setup):
    ports = {"eth1": Interface("02:00:00:00:0a:01"), "eth2": Interface("02:00:00:00:0b:01")}
    facts = Facts("Linux 6.1", "1", interfaces=ports)
    check_interfaces(setup.driver.options, setup.intent, facts)
    ports["eth2"] = Interface("02:00:00:00:0c:01")
    with expect_error("wrong-interface") as error:
        check_interfaces(setup.driver.options, setup.intent, facts)
    assert "links.right.dut_mac" in str(error.value.hint)


def test_trex_sends_the_initiators_frames_from_its_right_port():
    sides = {"left": {"tester_mac": "02:00:00:00:0c:02", "dut_mac": "02:00:00:00:0c:01"}}
    options = TrexOptions(ports=(0, 1), interfaces=("03:00.0", "03:00.1"),
                          pairs=({"ports": (2, 3), "interfaces": ("04:00.0", "04:00.1"), **sides},))  # fmt: skip
    right = Link(tester_mac="02:00:00:00:0b:02", dut_mac="02:00:00:00:0b:01")
    links = Links(right, Links().left, swapped=True)
    swapped = options.orient_ports(links)
    assert (swapped.ports, swapped.pairs[0].ports) == ((1, 0), (3, 2))
    assert swapped.all_interfaces == options.all_interfaces  # a port keeps its interface
    left_macs = [macs[0][-5:] for _, macs in sorted(swapped.find_macs(links).items())]
    assert left_macs == ["01:02", "0b:02", "0c:02", "0b:02"]
    assert swapped.orient_ports(links) == options


def test_emulated_hosts_follow_the_initiator(setup):
    intent = setup.technology.make_dut_intent()
    hosts = intent.emulated_links.get_link("right").hosts
    assert set(hosts) == set(map(str, intent.left.neighbors))


def test_initiator_is_kept_in_run_files(run, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(run.to_json()))
    assert resolve(*write_run_files(tmp_path / "config.json", tmp_path / "again")) == run


def test_capacity_key_depends_on_initiator(run):
    keys, links = set(), run.links.model_copy(update={"left": run.links.right})
    for initiator in ("left", "right"):
        setup = make_setup(run.model_copy(update={"initiator": initiator, "links": links}))
        spec = make_capacity_spec(setup.settings, setup.technology.make_frame_pair(64), "forward")
        keys.add(SelfTest(setup, spec, {}, measure=None).key)
    assert len(keys) == 2


def test_siitperf_file_with_initiator_on_the_right_is_converted(tmp_path):
    """Stateful 2 is Stateful 1 with L and R, Fwd and Rev exchanged; links keep their sides."""
    one = """IP-L-Vers 6\nIP-R-Vers 4\nIPv6-L-Real 2001:2::2\nIPv6-R-Virt 64:ff9b::c613:0002
IPv4-R-Real 198.19.0.2\nMAC-L-Tester 02:00:00:00:00:0a\nForward 1\nReverse 0
Fwd-sport-min 1024\nFwd-sport-max 2047\nFwd-dport-min 5\nFwd-dport-max 9\nStateful 1\n"""
    swaps = {"-L-": "-R-", "Fwd": "Rev", "Forward": "Reverse", "Stateful 1": "Stateful 2"}
    swaps |= {"-R-": "-L-", "Reverse": "Forward"}
    other = re.sub("|".join(swaps), lambda match: swaps[match[0]], one)
    for name, text in (("one", one), ("other", other)):
        (tmp_path / name).write_text(text)
    left, right = (read_siitperf(tmp_path / name) for name in ("one", "other"))
    assert left.run == right.run and "initiator" not in left.testbed
    assert right.testbed["initiator"] == "right"
    assert left.testbed["links"]["left"]["tester_mac"] == "02:00:00:00:00:0a"
    assert right.testbed["links"]["right"]["tester_mac"] == "02:00:00:00:00:0a"
    targets = {parameter.name: target for parameter, target in right.parameter_targets}
    assert targets["MAC-R-Tester"] == "testbed: links.right.tester_mac"
    assert targets["Rev-sport-min"] == "params.initiator_ports.min"


def test_driver_without_interfaces_is_not_swapped():
    options = make_driver("reference", {}).options
    assert make_driver("reference", {}, swapped=True).options == options


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(("plugin", "dut", "connections"), [
    ("mape-br", None, None), ("ipv4-router", "linux-router", None),
    ("ipv4aas", None, Connections(50, 500.0, wait_s=0.3, gap_s=0.1)),
])  # fmt: skip
def test_frames_match_through_swapped_device(plugin, dut, connections):
    params = {"initiator_ports": {"min": 1024, "max": 1279}} if connections else {}
    setup = make_setup(resolve(plugin=plugin, dut=dut, params=params, initiator="right"))
    sizes = setup.technology.make_frame_pair(setup.settings.frame_sizes[0])
    trial = Trial("test", "k", sizes.ipv6, sizes.ipv4, "bidirectional", rate_fps=500.0,
                  duration_s=0.2, residual_wait_s=0.5, pause_s=0.0, connections=connections)  # fmt: skip
    with closing(Bench(setup)) as bench:
        bench.load(compile_directions(setup.technology, sizes, 1))
        result = bench.measure(trial)
    for counted in result.directions.values():
        assert counted.count_frames("received") == 100 and counted.checked == counted.matched > 0
