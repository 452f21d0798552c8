"""TRex on emulated NICs by PCI address: bound, measured with, and given back.

v6t runs here, TRex in a virtual machine that it reaches over SSH, as a TRex server of one's own. Without
hardware acceleration the machine is slow: rates are low, and starting takes a minute.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.shown import Run
from v6t.tests.machine.image import Image, lacking

from .guest import GUEST, Guest, Nic, nics

pytestmark = [
    pytest.mark.trexvm,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(
        os.environ.get("V6T_TREX_VM") != "1",
        reason="`make test-trex-vm` asks for it (V6T_TREX_VM=1)",
    ),
    pytest.mark.skipif(
        not os.environ.get("TREX_DIR"),
        reason="needs a TRex installation: set TREX_DIR to the directory with t-rex-64",
    ),
]
MOUNT = "mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize=2M hugetlbfs /dev/hugepages"
LINE_RATE = "4M"
"""So little that a processor that is a program reaches it: a search is at its end soon then."""


def routed(kind: str, wire: int, first: int, name: str) -> list[Nic]:
    """The tester's two and the two of the device, which is the guest's kernel."""
    wires = [wire, wire + 1]
    devices = nics("virtio-net-pci", wires, first + 2, f"{name}dev")
    return [*nics(kind, wires, first, name), *devices]


CABLES = {"vmxnet3": nics("vmxnet3", [1, 1]), "e1000": nics("e1000", [2, 2], 2, "old")}
ROUTERS = {"vmxnet3": routed("vmxnet3", 3, 4, "new"), "e1000": routed("e1000", 5, 8, "slow")}
ALL = [card for cards in (*CABLES.values(), *ROUTERS.values()) for card in cards]
FOUR = nics("vmxnet3", [1, 1, 2, 2])
GUESTS = {"all NICs": (ALL, {}), "six CPUs": (FOUR, {"cpus": 6, "mib": 6144})}
with_all = pytest.mark.parametrize("guest", ["all NICs"], indirect=True)
with_cores = pytest.mark.parametrize("guest", ["six CPUs"], indirect=True)


@pytest.fixture(scope="session")
def image() -> Image:
    packages = lacking() + ([] if shutil.which("lspci") else ["pciutils"])
    if packages:
        pytest.skip(f"apt-get install {' '.join(packages)}")
    return GUEST.image()


@pytest.fixture(scope="module")
def guest(request, image):
    """A machine with NICs; booting takes a minute: it serves all tests that are content with it."""
    cards, more = GUESTS[request.param]
    made = Guest(image, cards, **more)
    try:
        made.start()
        made.done("sysctl -w vm.nr_hugepages=512")
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def forgotten(tmp_path, monkeypatch):
    """What v6t learnt of testers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def hugepages(guest, *, mounted):
    """Whether programs can have them."""
    guest.run("umount /dev/hugepages")
    if mounted:
        guest.done(MOUNT)


def way(guest):
    return guest.options.model_dump(mode="json", exclude_defaults=True) | {"config": ""}


def link(tester: Nic, far: Nic, **more):
    return {"tester_mac": tester.mac, "dut_mac": far.mac, **more}


def bed(guest, path, cards, ends, *, links=None, dut=None, **options):
    """A testbed file: left and right of the tester, and who is at the cables' other ends."""
    left, right = cards
    text = {
        "tester": {
            "kind": "trex",
            "options": {
                "trex_dir": os.environ["TREX_DIR"],
                "interfaces": [left.address, right.address],
                "ssh": way(guest),
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
        # when a burst ends is known to some 20 ms where the processor is a program: of short trials
        # nothing is proven, and those of the results' length look for the rate
        *("--duration", "3", "--json"),
        *more,
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
    assert "512 of 2M, but no hugetlbfs" in found["hugepages"]["text"]
    assert MOUNT in found["hugepages"]["text"]
    assert f"driver {before} ({cards[0].name})" in found[f"interface {cards[0].address}"]["text"]
    assert found["programs for NICs"]["text"] == "lspci and modprobe"
    assert "closed to other hosts" in found["TRex's ports"]["text"]

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
    assert "v6t_trex" not in guest.done("nft list tables")


@with_all
def test_a_nic_that_a_driver_of_dpdk_has_already(guest, tmp_path):
    """Whoever bound it wants it so: doctor says that, and it stays there."""
    cards = CABLES["vmxnet3"]
    hugepages(guest, mounted=True)
    before = guest.driver(cards[0])
    taken(guest, cards, "uio_pci_generic")
    file = bed(guest, tmp_path / "bed.yaml", cards, cards[::-1])
    found = findings(file)
    for card in cards:
        row = found[f"interface {card.address}"]
        assert row["state"] == "ok"
        assert "driver uio_pci_generic: TRex's already, and it stays there" in row["text"]
    selftest(file, "--mode", "forward")
    assert [guest.driver(card) for card in cards] == ["uio_pci_generic"] * 2
    by_hand = f"./dpdk_nic_bind.py --bind={before} {' '.join(card.address for card in cards)}"
    print(guest.done(f"cd {os.environ['TREX_DIR']} && {by_hand}"))
    assert [guest.driver(card) for card in cards] == [before] * 2


def taken(guest, cards, driver):
    """NICs are taken from the kernel's driver by hand."""
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
        "options": {"left": ends[0].name, "right": ends[1].name, "ssh": way(guest)},
    }
    file = bed(guest, tmp_path / "bed.yaml", cards, ends, dut=dut)
    out = tmp_path / "run"
    what = ["--plugin", "ipv4-router", "--testbed", file, "--measure", "throughput,latency"]
    how = ["--mode", "forward", "--frame-size", "84", "--reps", "1", "--resolution", "1000"]
    how += ["--duration", "3", "--set-procedure", "latency.duration_s=3"]
    # as with the self-test: of less nothing is proven while others are at work beside the machine
    how += ["--set-procedure", "sending_time_tolerance=1.1"]
    done = v6t("run", *what, *how, "--output", out, "--no-report")
    assert done.status == 0, done.err
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["benchmark"] for r in results["results"]} == {"throughput", "latency"}
    (found,) = (r for r in results["results"] if r["benchmark"] == "throughput")
    assert (found["matched"], found["median"] > 0) == (1, True), (found, done.err)
    described = json.loads((out / "manifest.json").read_text())["tester"]
    assert described["reached_by"] == "its own host only"
    assert guest.driver(cards[0]) == kind
    where = " in the same machine"
    machines.note(f"linux-router {kind}", Run(out), guest.hypervisor, where=where)


@with_cores
def test_two_pairs_and_several_cores(guest, tmp_path):
    cards = FOUR
    hugepages(guest, mounted=True)
    pair = {
        "ports": [2, 3],
        "interfaces": [cards[2].address, cards[3].address],
        "left": link(cards[2], cards[3]),
        "right": link(cards[3], cards[2]),
    }
    for cores in (1, 2):
        file = bed(
            guest, tmp_path / f"{cores}.yaml", cards[:2], cards[1::-1], pairs=[pair], cores=cores
        )
        selftest(file, "--mode", "bidirectional")
    assert [guest.driver(card) for card in cards] == ["vmxnet3"] * 4
