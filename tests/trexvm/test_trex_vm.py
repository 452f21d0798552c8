"""TRex on emulated NICs by PCI address: bound, measured with, and given back.

v6t runs here, TRex in a virtual machine that it reaches over SSH, as a TRex server of one's own. Without
hardware acceleration the machine is slow: rates are low, and starting takes a minute.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import compile_directions, make_tester
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.shown import Run
from v6t.tests.needs import asked_for, needs_trex
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

from .guest import Nic, nics, running_guest

pytestmark = [*asked_for("trexvm", "test-trex-vm", "V6T_TREX_VM", 3000), needs_trex]
MOUNT = "mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize=2M hugetlbfs /dev/hugepages"
LINE_RATE = "4M"
"""So little that a processor that is a program reaches it: a search is at its end soon then."""
TOLERANCE = 1.1
"""How long sending may take: when a burst ends is known to some hundredths of a second only, and of less
nothing is proven while others are at work beside the machine."""
PATIENT = ("--sleeps", "--no-watchdog")
"""Arguments of TRex whose threads have virtual CPUs, of which there are more than of this host's: who waits
sleeps, and none is thought to hang that waits for its turn."""
MEMIF = tuple(
    f"--vdev=net_memif{n},id=0,role={role},socket=v6t-cable,rsize=13"
    for n, role in enumerate(("server", "client"))
)
"""Two ports joined to each other."""


def routed(kind: str, wire: int, first: int, name: str) -> list[Nic]:
    """Return the tester's two NICs and the two of the device, which is the guest's kernel."""
    wires = [wire, wire + 1]
    devices = nics("virtio-net-pci", wires, first + 2, f"{name}dev")
    return [*nics(kind, wires, first, name), *devices]


CABLES = {"vmxnet3": nics("vmxnet3", [1, 1]), "e1000": nics("e1000", [2, 2], 2, "old")}
ROUTERS = {"vmxnet3": routed("vmxnet3", 3, 4, "new"), "e1000": routed("e1000", 5, 8, "slow")}
ALL = [card for cards in (*CABLES.values(), *ROUTERS.values()) for card in cards]
FOUR = nics("vmxnet3", [1, 1, 2, 2])
# where each thread has a CPU, TRex's wrapper takes 4 GiB of hugepages
GUESTS = {"all NICs": (ALL, {}), "six CPUs": (FOUR, {"cpus": 6, "mib": 8192})}
with_all = pytest.mark.parametrize("guest", ["all NICs"], indirect=True)
with_cores = pytest.mark.parametrize("guest", ["six CPUs"], indirect=True)


@pytest.fixture(scope="module")
def guest(request):
    """Boot a machine with NICs; since this takes a minute, several tests share it."""
    cards, more = GUESTS[request.param]
    if not shutil.which("lspci"):
        pytest.skip("apt-get install pciutils")
    with running_guest(cards, **more) as made:
        made.done("sysctl -w vm.nr_hugepages=512")
        yield made


@pytest.fixture(autouse=True)
def forgotten(tmp_path, monkeypatch):
    """Start without what v6t has learned about testers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def hugepages(guest, *, mounted):
    """Unmount the hugepages, and mount them again if wanted."""
    guest.run("umount /dev/hugepages")
    if mounted:
        guest.done(MOUNT)


def link(tester: Nic, far: Nic, **more):
    return {"tester_mac": tester.mac, "dut_mac": far.mac, **more}


def bed(guest, path, cards, ends, *, links=None, dut=None, **options):
    """Write a testbed file; ``ends`` are the other ends of the tester's left and right cable."""
    left, right = cards
    text = {
        "tester": {
            "kind": "trex",
            "options": {
                "trex_dir": os.environ["TREX_DIR"],
                "interfaces": [left.address, right.address],
                "ssh": guest.login(),
                "start_deadline_s": 600,
                **options,
            },
        },
        "links": {
            "left": link(left, ends[0], **(links or {})),
            "right": link(right, ends[1], **(links or {})),
        },
        "line_rate": LINE_RATE,
        **({"dut": dut} if dut else {}),
    }
    path.write_text(yaml.safe_dump(text))
    return path


def findings(bed):
    done = v6t("doctor", "--testbed", bed, "--json")
    return {row["what"]: row for row in json.loads(done.out)}


def selftest(bed, *more):
    done = v6t(
        "selftest",
        "--plugin",
        "ipv4-router",
        "--testbed",
        bed,
        "--frame-size",
        "84",
        *("--duration", "3", "--set-procedure", f"sending_time_tolerance={TOLERANCE}"),
        *("--json", *more),
    )
    assert done.status == 0, done.err
    rows = json.loads(done.out)
    print(rows)
    # how fast a machine is whose processor is a program says nothing; that it is proven does
    assert all(row["capacity_fps"] > 0 for row in rows), rows
    return rows


@with_all
@pytest.mark.parametrize("kind", CABLES)
def test_a_cable_between_two_nics(guest, tmp_path, kind):
    cards = CABLES[kind]
    hugepages(guest, mounted=False)
    file = bed(guest, tmp_path / "bed.yaml", cards, cards[::-1])
    before = guest.driver(cards[0])
    found = findings(file)
    assert found["hugepages"]["state"] == "missing"
    assert "512 of 2M" in found["hugepages"]["text"]
    assert MOUNT in found["hugepages"]["text"]
    assert f"driver {before} ({cards[0].name})" in found[f"interface {cards[0].address}"]["text"]
    assert found["programs for NICs"]["text"] == "lspci and modprobe"
    assert "other hosts" in found["TRex's ports"]["text"]

    refused = v6t("selftest", "--plugin", "ipv4-router", "--testbed", file, "--mode", "forward")
    assert refused.status != 0
    assert MOUNT in refused.err
    kept = refused.err.rpartition("all it said: ")[2].split()[0]
    assert "hugepages" in Path(kept).read_text()
    Path(kept).unlink()
    assert guest.driver(cards[0]) == before

    hugepages(guest, mounted=True)
    found = findings(file)
    assert found["hugepages"]["state"] == "ok"
    rows = selftest(file)
    assert [row["mode"] for row in rows] == ["bidirectional", "forward", "reverse"]
    tagged = bed(guest, tmp_path / "vlan.yaml", cards, cards[::-1], links={"vlan": 100})
    selftest(tagged, "--mode", "forward")
    assert [guest.driver(card) for card in cards] == [before, before]
    assert "v6t" not in guest.done("nft list tables; ls /dev/hugepages /var/run/dpdk")


@with_all
def test_a_nic_that_a_driver_of_dpdk_has_already(guest, tmp_path):
    """Its owner wants it so: doctor reports the driver, and the NIC keeps it."""
    cards = CABLES["vmxnet3"]
    hugepages(guest, mounted=True)
    before = guest.driver(cards[0])
    taken(guest, cards, "uio_pci_generic")
    file = bed(guest, tmp_path / "bed.yaml", cards, cards[::-1])
    found = findings(file)
    for card in cards:
        row = found[f"interface {card.address}"]
        assert row["state"] == "ok"
        assert "driver uio_pci_generic: " in row["text"]
    selftest(file, "--mode", "forward")
    assert [guest.driver(card) for card in cards] == ["uio_pci_generic"] * 2
    by_hand = f"./dpdk_nic_bind.py --bind={before} {' '.join(card.address for card in cards)}"
    print(guest.done(f"cd {os.environ['TREX_DIR']} && {by_hand}"))
    assert [guest.driver(card) for card in cards] == [before] * 2


def taken(guest, cards, driver):
    """Bind NICs to another driver by hand."""
    guest.done(f"modprobe {driver}")
    for card in cards:
        place = f"/sys/bus/pci/devices/0000:{card.address}"
        guest.done(
            f"echo 0000:{card.address} >{place}/driver/unbind && echo {driver} >{place}/driver_override && "
            f"echo 0000:{card.address} >/sys/bus/pci/drivers/{driver}/bind && echo >{place}/driver_override"
        )


@with_all
@pytest.mark.parametrize("kind", ROUTERS)
def test_a_router_between_two_nics(guest, tmp_path, kind):
    cards, ends = ROUTERS[kind][:2], ROUTERS[kind][2:]
    hugepages(guest, mounted=True)
    dut = {
        "driver": "linux-router",
        "options": {"left": ends[0].name, "right": ends[1].name, "ssh": guest.login()},
    }
    file = bed(guest, tmp_path / "bed.yaml", cards, ends, dut=dut)
    out = tmp_path / "run"
    what = ["--plugin", "ipv4-router", "--testbed", file, "--measure", "throughput,latency"]
    how = ["--mode", "forward", "--frame-size", "84", "--reps", "1", "--resolution", "1000"]
    how += ["--duration", "3", "--set-procedure", "latency.duration_s=3"]
    how += ["--set-procedure", f"sending_time_tolerance={TOLERANCE}"]
    done = v6t("run", *what, *how, "--output", out, "--no-report")
    assert done.status == 0, done.err
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["benchmark"] for r in results["results"]} == {"throughput", "latency"}
    (found,) = (r for r in results["results"] if r["benchmark"] == "throughput")
    assert (found["matched"], found["median"] > 0) == (1, True), (found, done.err)
    described = json.loads((out / "manifest.json").read_text())["tester"]
    assert described["reached_by"].startswith("its own host")
    assert guest.driver(cards[0]) == kind
    where = " in the same machine"
    machines.add_record(f"linux-router {kind}", Run(out), guest.hypervisor, where=where)


@with_cores
@pytest.mark.parametrize(
    ("ports", "cores"), [("two pairs", 1), ("two pairs", 2), ("one pair", 4), ("memif", 4)]
)
def test_several_pairs_and_cores(guest, tmp_path, ports, cores):
    """As far as the machine's CPUs go: each pair sends its share, all of it comes back, proven."""
    hugepages(guest, mounted=True)
    pair = {
        "ports": [2, 3],
        "interfaces": [FOUR[2].address, FOUR[3].address],
        "left": link(FOUR[2], FOUR[3]),
        "right": link(FOUR[3], FOUR[2]),
    }
    more = {"two pairs": {"pairs": [pair]}, "memif": {"interfaces": MEMIF}}.get(ports, {})
    arguments = {
        "cores": cores,
        "extra_arguments": [*PATIENT],
        "catch_up_ms": 1000,  # where a thread waits for its CPU, what it is late is made up for
    }
    file = bed(guest, tmp_path / "bed.yaml", FOUR[:2], FOUR[1::-1], **arguments, **more)
    setup = make_setup(resolve(testbed=file, plugin="ipv4-router"))
    tester = make_tester(setup, loopback=True)
    tester.open()
    try:
        assert tester.describe()["data_path_cores"] == cores * (1 + len(more.get("pairs", ())))
        sizes = setup.technology.make_frame_pair(84)
        tester.load(compile_directions(setup.technology, sizes, 1), setup.oracle)
        asked = Trial(
            "throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 100.0, 20.0, 1.0, 0.2
        )
        for one in proven(tester, asked).directions.values():
            assert one.count_frames("received") == asked.frames
            assert one.checked == one.matched
            assert one.checked > 20 or (ports, cores) == ("two pairs", 2)
        if ports != "two pairs":
            tags = DelayRequest(tags=100, first_tag_s=1.0)
            (one,) = proven(tester, replace(asked, mode="forward", delays=tags)).directions.values()
            assert [(d.frames, d.lost) for d in one.delays.values()] == [(100, 0)]
    finally:
        tester.close()
    assert [guest.driver(card) for card in FOUR] == ["vmxnet3"] * 4


def proven(tester, asked):
    """Measure until a trial is valid, since the host may disturb some; check that it passes."""
    for _ in range(6):
        result = tester.measure(asked)
        # six virtual CPUs wait for each other: when all has left is known to some seconds
        verdict = assess_trial(asked, result, sending_time_tolerance=1.5)
        print(
            verdict,
            {w: (d.sending_time_s, d.sending_time_error_s) for w, d in result.directions.items()},
        )
        if verdict.valid:
            break
    assert verdict.passed, verdict
    return result
