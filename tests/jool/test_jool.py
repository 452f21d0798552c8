"""Debian's Jool on Debian's kernel in a virtual machine, configured over SSH by its driver.

Asked for with ``make test-jool``: making the image takes minutes and needs Debian's packages from
the net, and without hardware acceleration a virtual machine is slow. Rates are low accordingly.
"""

from __future__ import annotations

import json
import os
import threading

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve
from v6t.core.runs import bench
from v6t.core.runs.bench import Bench, compile_point
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.drivers.lab.setup import Bed
from v6t.procedures.preflight import check_translation
from v6t.tests.core.support import v6t
from v6t.tests.drivers.duts import intents
from v6t.tests.drivers.duts.bench import Standing
from v6t.tests.drivers.duts.field import until
from v6t.tests.drivers.duts.test_guard import trials
from v6t.tests.machine.image import Image, lacking

from .image import JOOL
from .vm import MachineDut

ASKED = os.environ.get("V6T_JOOL") == "1"
pytestmark = [
    pytest.mark.jool,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not ASKED, reason="`make test-jool` asks for it (V6T_JOOL=1)"),
]


@pytest.fixture(scope="session")
def made() -> Image:
    possible, why = available()
    assert possible, why
    assert not lacking(), f"apt-get install {' '.join(lacking())}"
    return JOOL.image()


@pytest.fixture
def machine(made, monkeypatch):
    """The lab's device is a virtual machine."""

    def device(run, keep=None, say=None):
        del keep, say
        return MachineDut(run.driver, run.intent, made)

    monkeypatch.setattr(bench, "lab_device", device)


@pytest.fixture
def standing(made):
    """A machine that stands, with the tester's two ports; several in one test are closed late."""
    beds = []

    def stand(intent, **options):
        dut = MachineDut(make_driver("jool", options), intent, made)
        beds.append(Bed(intent.links, dut))
        return Standing(dut, beds[-1].open())

    yield stand
    for bed in beds:
        bed.close()


@pytest.mark.parametrize("plugin", ["siit", "clat"])
def test_every_frame_is_the_reference_translation(plugin, machine):
    run = resolve(flags=Flags(plugin, dut="jool"))
    tool = bind(run).technology
    sizes = tool.frame_pair(run.frame_sizes[0])
    bench = Bench(bind(run))
    try:
        bench.load(compile_point(tool, sizes, run.seed))
        finding = check_translation(
            bench.measure, ipv6_frame_size=sizes.ipv6, ipv4_frame_size=sizes.ipv4
        )
        described = bench.describe()["device"]
        read = bench.verify_device()
    finally:
        bench.close()
    assert finding is None
    assert described["kind"] == "jool"
    assert described["version"] == "4.1.9"
    assert "6.1" in described["system"]
    assert any("jool_siit -i v6t eamt display" in line for line in read)


def test_a_throughput_is_measured(machine, tmp_path):
    path = tmp_path / "run"
    what = ["--plugin", "siit", "--dut", "jool", "--mode", "forward", "--frame-size", "84"]
    how = ["--reps", "1", "--resolution", "500", "--output", path, "--no-report"]
    done = v6t("run", *what, *how)
    assert done.status == 0, done.err
    found = json.loads((path / "results.json").read_text())
    assert found["status"] == "complete"
    assert {point["benchmark"] for point in found["results"]} == {"throughput"}
    assert all(p["matched"] == 1 and p["checked"] and p["median"] for p in found["results"])
    manifest = json.loads((path / "manifest.json").read_text())
    assert "jool_siit file handle /run/v6t/jool.json" in str(manifest)


def test_a_machine_that_is_reset_while_it_is_measured(made, monkeypatch, tmp_path):
    """The trial in which it happened counts for nothing; the run goes on where it was."""
    devices = []

    def device(run, keep=None, say=None):
        devices.append(MachineDut(run.driver, run.intent, made, keep=keep, say=say))
        return devices[-1]

    monkeypatch.setattr(bench, "lab_device", device)
    path = tmp_path / "run"

    known = []

    def press():
        until(lambda: trials(path) >= 3, "some trials", 600)
        devices[-1].machine.reset()
        known.append(trials(path))

    finger = threading.Thread(target=press)
    finger.start()
    what = ["--plugin", "siit", "--dut", "jool", "--set-dut", "ssh.lab=vm", "--mode", "forward"]
    how = ["--frame-size", "84", "--reps", "2", "--resolution", "500", "--duration", "2"]
    done = v6t("run", *what, *how, "--output", path, "--no-report")
    finger.join()
    print(done.err)
    assert done.status == 4, done.err
    assert "it may no longer be configured" in done.err
    journal = (path / "journal.jsonl").read_bytes()
    assert trials(path) <= known[0] + 1, "frames that a machine without power lost count as lost"
    assert json.loads((path / "results.json").read_text())["status"] == "running"
    done = v6t("resume", path, "--no-report")
    print(done.err, done.out)
    assert done.status == 0, done.err
    assert (path / "journal.jsonl").read_bytes().startswith(journal)
    assert json.loads((path / "results.json").read_text())["status"] == "complete"


def frames_pass(bed, first, number):
    """Clients of NAT64 reach a server, and its answers them."""
    for port in range(first, first + number):
        payload = b"from port %d" % port
        out = bed.through("forward", "2001:2::2", "64:ff9b::c613:2", port, 53, payload)
        assert out is not None, "the frame was dropped"
        assert (out.payload.src, out.payload.dst) == ("198.19.0.1", "198.19.0.2")
        assert out["UDP"].sport >= 1024
        assert out["IP"].ttl == 63
        back = bed.through(
            "reverse", "198.19.0.2", "198.19.0.1", 53, out["UDP"].sport, b"answer %d" % port
        )
        assert back is not None, "the answer was dropped"
        assert (back.payload.src, back.payload.dst) == ("64:ff9b::c613:2", "2001:2::2")
        assert back["UDP"].dport == port


def count(bed):
    reading = bed.session.driver.sessions(bed.session.intent)
    return reading.parse(bed.session.transport.run(reading.command).out)["sessions"]


def boot(bed):
    return bed.session.transport.run("cat /proc/sys/kernel/random/boot_id").out


@pytest.mark.parametrize("way", ["instance", "reboot"])
def test_nat64_is_emptied_and_goes_on(way, standing):
    bed = standing(intents.nat64("64:ff9b::/96"), flush=way)
    frames_pass(bed, 5000, 20)
    assert count(bed) == 20
    before = boot(bed)
    bed.session.flush()
    assert (boot(bed) != before) == (way == "reboot")
    assert count(bed) == 0
    assert bed.session.verify()
    frames_pass(bed, 7000, 5)
    assert count(bed) == 5
    assert any("undone" in line for line in bed.session.restore())
    assert bed.session.transport.run("jool instance display --csv --no-headers").out == ""


def test_another_translator_makes_the_driver_refuse(standing):
    bed = standing(intents.SIIT)
    session = bed.session
    session.restore()
    session.transport.run("modprobe jool_siit && jool_siit instance add theirs --netfilter")
    with pytest.raises(Exception, match="another translator is at work.*theirs"):
        session.apply()
    assert "theirs" in session.transport.run("jool_siit instance display").out
