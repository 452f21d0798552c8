"""TRex on emulated NICs given by PCI address: bind, measure and unbind.

v6t runs on this host, TRex in a virtual machine that v6t reaches over SSH. Without hardware acceleration, rates are
low and starting takes a minute.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import compile_directions, make_tester
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.run_facts import Run
from v6t.tests.needs import mark_make_target, needs_trex
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

from .guest import Nic, make_nics, run_guest

pytestmark = [*mark_make_target("trexvm", "test-trex-vm", "V6T_TREX_VM", 3000), needs_trex]
MOUNT = "mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize=2M hugetlbfs /dev/hugepages"
LINE_RATE = "4M"  # within reach of an emulated machine, so that a search is short
# The virtual CPUs wait for each other: the end of a burst is known to some tenths of a second.
TOLERANCE = 1.5
# TRex threads share the host's CPUs: let idle ones sleep, and do not abort slow ones.
SLEEP_ARGUMENTS = ("--sleeps", "--no-watchdog")
# two ports connected to each other
MEMIF = tuple(
    f"--vdev=net_memif{n},id=0,role={role},socket=v6t-cable,rsize=13"
    for n, role in enumerate(("server", "client"))
)


def make_router_nics(kind: str, wire: int, first: int, name: str) -> list[Nic]:
    """Return two NICs for the tester and two for the guest's kernel as the device."""
    wires = [wire, wire + 1]
    devices = make_nics("virtio-net-pci", wires, first + 2, f"{name}dev")
    return [*make_nics(kind, wires, first, name), *devices]


CABLES = {"vmxnet3": make_nics("vmxnet3", [1, 1]), "e1000": make_nics("e1000", [2, 2], 2, "old")}
ROUTERS = {
    "vmxnet3": make_router_nics("vmxnet3", 3, 4, "new"),
    "e1000": make_router_nics("e1000", 5, 8, "slow"),
}
ALL_NICS = [card for cards in (*CABLES.values(), *ROUTERS.values()) for card in cards]
FOUR_NICS = make_nics("vmxnet3", [1, 1, 2, 2])
# with a CPU for each thread, TRex's wrapper allocates 4 GiB of hugepages
GUESTS = {"all NICs": (ALL_NICS, {}), "six CPUs": (FOUR_NICS, {"cpus": 6, "mib": 8192})}
with_all_nics = pytest.mark.parametrize("guest", ["all NICs"], indirect=True)
with_six_cpus = pytest.mark.parametrize("guest", ["six CPUs"], indirect=True)


@pytest.fixture(scope="module")
def guest(request):
    """Boot a machine with these NICs; all tests with the same NICs share it."""
    cards, more = GUESTS[request.param]
    if not shutil.which("lspci"):
        pytest.skip("apt-get install pciutils")
    with run_guest(cards, **more) as machine:
        machine.run_checked("sysctl -w vm.nr_hugepages=512")
        yield machine


@pytest.fixture(autouse=True)
def clear_cache(tmp_path, monkeypatch):
    """Start each test with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def set_up_hugepages(guest, *, mounted):
    """Mount or unmount the hugepages."""
    guest.run("umount /dev/hugepages")
    if mounted:
        guest.run_checked(MOUNT)


def make_link(tester: Nic, dut: Nic, **more):
    return {"tester_mac": tester.mac, "dut_mac": dut.mac, **more}


def write_bed(guest, path, cards, dut_nics, *, links=None, dut=None, **options):
    """Write a testbed file; ``dut_nics`` are connected to the left and right NIC of the tester."""
    left, right = cards
    links = links or {}
    text = {
        "tester": {
            "kind": "trex",
            "options": {
                "trex_dir": os.environ["TREX_DIR"],
                "interfaces": [left.address, right.address],
                "ssh": guest.make_ssh_settings(),
                "start_deadline_s": 600,
                **options,
            },
        },
        "links": {
            "left": make_link(left, dut_nics[0], **links),
            "right": make_link(right, dut_nics[1], **links),
        },
        "line_rate": LINE_RATE,
        **({"dut": dut} if dut else {}),
    }
    path.write_text(yaml.safe_dump(text))
    return path


def run_doctor(bed):
    result = v6t("doctor", "--testbed", bed, "--json")
    return {row["what"]: row for row in json.loads(result.out)}


def run_selftest(bed, *more):
    options = ["--plugin", "ipv4-router", "--testbed", bed, "--frame-size", "84", "--duration", "3"]
    options += ["--set-procedure", f"sending_time_tolerance={TOLERANCE}", "--json"]
    result = v6t("selftest", *options, *more)
    assert result.status == 0, result.err
    rows = json.loads(result.out)
    print(rows)
    # the rate of an emulated machine is meaningless, but it must be measured
    assert all(row["capacity_fps"] > 0 for row in rows), rows
    return rows


@with_all_nics
@pytest.mark.parametrize("kind", CABLES)
def test_self_test_over_cable_restores_nics(guest, tmp_path, kind):
    cards = CABLES[kind]
    set_up_hugepages(guest, mounted=False)
    file = write_bed(guest, tmp_path / "bed.yaml", cards, cards[::-1])
    before = guest.get_driver(cards[0])
    rows = run_doctor(file)
    assert rows["hugepages"]["state"] == "missing"
    assert "512 of 2M" in rows["hugepages"]["text"]
    assert MOUNT in rows["hugepages"]["text"]
    assert f"driver {before} ({cards[0].name})" in rows[f"interface {cards[0].address}"]["text"]
    assert rows["programs for NICs"]["text"] == "lspci and modprobe"
    assert "other hosts" in rows["TRex's ports"]["text"]

    result = v6t("selftest", "--plugin", "ipv4-router", "--testbed", file, "--mode", "forward")
    assert result.status != 0
    assert MOUNT in result.err
    log = result.err.rpartition("all output: ")[2].split()[0]
    assert "hugepages" in Path(log).read_text()
    Path(log).unlink()
    assert guest.get_driver(cards[0]) == before

    set_up_hugepages(guest, mounted=True)
    rows = run_doctor(file)
    assert rows["hugepages"]["state"] == "ok"
    rows = run_selftest(file)
    assert [row["mode"] for row in rows] == ["bidirectional", "forward", "reverse"]
    tagged = write_bed(guest, tmp_path / "vlan.yaml", cards, cards[::-1], links={"vlan": 100})
    run_selftest(tagged, "--mode", "forward")
    assert [guest.get_driver(card) for card in cards] == [before, before]
    assert "v6t" not in guest.run_checked("nft list tables; ls /dev/hugepages /var/run/dpdk")


@with_all_nics
def test_nic_with_dpdk_driver_keeps_it(guest, tmp_path):
    """`v6t doctor` reports the DPDK driver, and the NIC keeps it."""
    cards = CABLES["vmxnet3"]
    set_up_hugepages(guest, mounted=True)
    before = guest.get_driver(cards[0])
    bind_driver(guest, cards, "uio_pci_generic")
    file = write_bed(guest, tmp_path / "bed.yaml", cards, cards[::-1])
    rows = run_doctor(file)
    for card in cards:
        row = rows[f"interface {card.address}"]
        assert row["state"] == "ok"
        assert "driver uio_pci_generic: " in row["text"]
    run_selftest(file, "--mode", "forward")
    assert [guest.get_driver(card) for card in cards] == ["uio_pci_generic"] * 2
    bind_command = f"./dpdk_nic_bind.py --bind={before} {' '.join(card.address for card in cards)}"
    print(guest.run_checked(f"cd {os.environ['TREX_DIR']} && {bind_command}"))
    assert [guest.get_driver(card) for card in cards] == [before] * 2


def bind_driver(guest, cards, driver):
    """Bind NICs to a driver without v6t."""
    guest.run_checked(f"modprobe {driver}")
    for card in cards:
        path = f"/sys/bus/pci/devices/0000:{card.address}"
        guest.run_checked(
            f"echo 0000:{card.address} >{path}/driver/unbind && echo {driver} >{path}/driver_override && "
            f"echo 0000:{card.address} >/sys/bus/pci/drivers/{driver}/bind && echo >{path}/driver_override"
        )


@with_all_nics
@pytest.mark.parametrize("kind", ROUTERS)
def test_linux_router_is_measured_by_trex(guest, tmp_path, kind):
    cards, dut_nics = ROUTERS[kind][:2], ROUTERS[kind][2:]
    set_up_hugepages(guest, mounted=True)
    dut = {
        "driver": "linux-router",
        "options": {
            "left": dut_nics[0].name,
            "right": dut_nics[1].name,
            "ssh": guest.make_ssh_settings(),
        },
    }
    file = write_bed(guest, tmp_path / "bed.yaml", cards, dut_nics, dut=dut)
    out = tmp_path / "run"
    options = ["--plugin", "ipv4-router", "--testbed", file, "--measure", "throughput,latency"]
    limits = ["--mode", "forward", "--frame-size", "84", "--reps", "1", "--resolution", "1000"]
    limits += ["--duration", "3", "--set-procedure", "latency.duration_s=3"]
    limits += ["--set-procedure", f"sending_time_tolerance={TOLERANCE}"]
    result = v6t("run", *options, *limits, "--output", out, "--no-report")
    assert result.status == 0, result.err
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["benchmark"] for r in results["results"]} == {"throughput", "latency"}
    (throughput,) = (r for r in results["results"] if r["benchmark"] == "throughput")
    assert (throughput["matched"], throughput["median"] > 0) == (1, True), (throughput, result.err)
    described = json.loads((out / "manifest.json").read_text())["tester"]
    assert described["reached_by"].startswith("its own host")
    assert guest.get_driver(cards[0]) == kind
    where = " in the same machine"
    machines.add_record(f"linux-router {kind}", Run(out), guest.hypervisor, where=where)


@with_six_cpus
@pytest.mark.parametrize(
    ("ports", "cores"), [("two pairs", 1), ("two pairs", 2), ("one pair", 4), ("memif", 4)]
)
def test_all_frames_return_for_port_pairs_and_cores(guest, tmp_path, ports, cores):
    """Each pair sends its share, and all frames return."""
    set_up_hugepages(guest, mounted=True)
    pair = {
        "ports": [2, 3],
        "interfaces": [FOUR_NICS[2].address, FOUR_NICS[3].address],
        "left": make_link(FOUR_NICS[2], FOUR_NICS[3]),
        "right": make_link(FOUR_NICS[3], FOUR_NICS[2]),
    }
    more = {"two pairs": {"pairs": [pair]}, "memif": {"interfaces": MEMIF}}.get(ports, {})
    arguments = {
        "cores": cores,
        "extra_arguments": [*SLEEP_ARGUMENTS],
        "catch_up_ms": 1000,  # threads wait for a CPU and must catch up
    }
    file = write_bed(
        guest, tmp_path / "bed.yaml", FOUR_NICS[:2], FOUR_NICS[1::-1], **arguments, **more
    )
    setup = resolve_setup(testbed=file, plugin="ipv4-router")
    tester = make_tester(setup, loopback=True)
    tester.open()
    try:
        assert tester.describe()["data_path_cores"] == cores * (1 + len(more.get("pairs", ())))
        sizes = setup.technology.make_frame_pair(84)
        tester.load(compile_directions(setup.technology, sizes, 1), setup.oracle)
        trial = Trial(
            "throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 100.0, 20.0, 1.0, 0.2
        )
        for one in measure_valid_trial(tester, trial).directions.values():
            assert one.count_frames("received") == trial.frames
            assert one.checked == one.matched
            assert one.checked > 20 or (ports, cores) == ("two pairs", 2)
        if ports != "two pairs":
            tags = DelayRequest(tags=100, first_tag_s=1.0)
            (one,) = measure_valid_trial(
                tester, replace(trial, mode="forward", delays=tags)
            ).directions.values()
            assert [(d.frames, d.lost) for d in one.delays.values()] == [(100, 0)]
    finally:
        tester.close()
    assert [guest.get_driver(card) for card in FOUR_NICS] == ["vmxnet3"] * 4


def measure_valid_trial(tester, trial):
    """Measure until a trial is valid, up to six times, and check that it passes."""
    for _ in range(6):
        result = tester.measure(trial)
        verdict = assess_trial(trial, result, sending_time_tolerance=TOLERANCE)
        print(verdict, result.directions)
        if verdict.valid:
            break
    assert verdict.passed, verdict
    return result
