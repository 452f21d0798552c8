"""Jool in a virtual machine, configured over SSH by its driver: Debian's, and releases that are newer.

Asked for with ``make test-jool``: making the image takes minutes and needs Debian's packages from
the net, and without hardware acceleration a virtual machine is slow. Rates are low accordingly.
The newest 4.1 and MAP-T are those of ``JOOL_DIR``, see :mod:`.built`.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, closing

import pytest
from v6t.base.errors import EnvironmentLacking
from v6t.drivers.duts import devices
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.setup import Bed
from v6t.tests.core.support import v6t
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts import intents
from v6t.tests.drivers.duts.bench import LabBed as Bedded
from v6t.tests.drivers.duts.field import wait_until
from v6t.tests.drivers.duts.test_guard import count_trials
from v6t.tests.expect import expect_error
from v6t.tests.machine.image import Image
from v6t.tests.needs import asked_for

from .built import built_mapt, built_plain
from .image import JOOL
from .measuring import CONNECTIONS, THROUGHPUT, bed_file, count_sessions, exchange_frames, measured
from .vm import MachineDut, Standing, stands_in

pytestmark = asked_for("jool", "test-jool", "V6T_JOOL", timeout_s=3600)

DEBIAN, NEWEST, MAPT = "debian", "newest-4.1", "mapt"
releases = pytest.mark.parametrize("machine", [DEBIAN, NEWEST], indirect=True)


def only(which):
    """Select one machine's tests."""
    return pytest.mark.parametrize("machine", [which], indirect=True)


@pytest.fixture(scope="session")
def image() -> Image:
    return JOOL.image()


@pytest.fixture(scope="module")
def machine(request, image):
    """Provide one machine for all tests of a version, which pytest runs one after the other."""
    version, files = "4.1.9", ()
    if request.param != DEBIAN:
        try:
            built = built_mapt() if request.param == MAPT else built_plain()
            version, files = built.version, built.files(image)
        except EnvironmentLacking as exc:
            pytest.skip(exc.message)
    made = Standing(image, files, version)
    yield made
    made.end()


@pytest.fixture
def in_machine(machine, monkeypatch):
    """Replace the lab's device by the machine."""
    stands_in(machine, monkeypatch)


@pytest.fixture
def bedded(machine):
    """Provide a function that joins the machine to the tester's two ports."""
    with ExitStack() as stack:

        def stand(intent, **options):
            dut = MachineDut(make_driver("jool", options), intent, machine)
            bed = stack.enter_context(closing(Bed(intent.links, dut)))
            return stack.enter_context(closing(Bedded(dut, bed.open())))

        yield stand


@pytest.fixture
def seen(request, machine):
    """Provide a function that records a run in the page's row."""
    which = request.node.callspec.params["machine"]

    def noted(technology, run):
        machines.add_record(f"jool-{which} {technology}", run, machine.machine.hypervisor)

    return noted


@pytest.fixture
def as_one_device(machine, in_machine, seen, tmp_path):
    """Provide a function that judges frames through Jool and finds a throughput."""

    def carried_out(plugin):
        more = CONNECTIONS if plugin == "nat64" else ()
        run = measured(tmp_path, plugin, {"driver": "jool"}, *THROUGHPUT, *more)
        assert [point["benchmark"] for point in run.points] == ["throughput"]
        assert run.device["kind"] == "jool"
        assert run.device["version"].startswith(machine.version)
        assert "cloud-amd64" in run.device["system"]
        seen(plugin, run)

    return carried_out


@releases
@pytest.mark.parametrize("plugin", ["siit", "clat", "nat64"])
def test_translators(as_one_device, plugin):
    as_one_device(plugin)


@pytest.fixture
def as_two_devices(machine, seen, request, monkeypatch, tmp_path):
    """Provide a function that measures with Jool as CE and PE in two machines."""

    def carried_out(variant, ce, pe):
        """Measure a variant; ``ce`` and ``pe`` are the name of the part and its technology."""
        other = machine.twin()
        request.addfinalizer(other.end)
        stand = {ce[1]: machine, pe[1]: other}

        def device(driver, intent, keep=None, part=""):
            if driver.name != "jool":
                return LabDut(driver, intent, keep, part)
            return MachineDut(driver, intent, stand[intent.technology], record_dir=keep)

        monkeypatch.setattr(devices, "LabDut", device)
        parts = {name: {"driver": "jool"} for name in (ce[0], pe[0])}
        dut = {"driver": "chain", "options": {"parts": parts}}
        how = ("--set", f"variant={variant}", *CONNECTIONS)
        run = measured(tmp_path, "ipv4aas", dut, *THROUGHPUT, *how)
        assert [point["benchmark"] for point in run.points] == ["throughput"]
        for part in parts:
            assert run.device["parts"][part]["kind"] == "jool"
            assert run.device["parts"][part]["version"].startswith(machine.version)
        seen(variant, run)

    return carried_out


@releases
def test_clat_and_plat_are_two_machines(as_two_devices):
    """464XLAT (RFC 6877)."""
    as_two_devices("464xlat", ce=("clat", "clat"), pe=("plat", "nat64"))


def frames_pass(bed, first, number):
    """Send frames of NAT64 clients to a server, and answers."""
    for out, _ in exchange_frames(bed, "nat64", first, number):
        assert (out.payload.dst, out["IP"].ttl) == ("198.19.0.2", 63)


def boot(bed):
    return bed.session.transport.run("cat /proc/sys/kernel/random/boot_id").out


def emptied_and_goes_on(way, bedded):
    bed = bedded(intents.nat64("64:ff9b::/96"), flush=way)
    frames_pass(bed, 5000, 20)
    assert count_sessions(bed) == 20
    assert bed.dut.report()["table"] == {"used": 20}
    before = boot(bed)
    bed.session.flush()
    assert (boot(bed) != before) == (way == "reboot")
    assert count_sessions(bed) == 0
    assert bed.session.verify()
    frames_pass(bed, 7000, 5)
    assert count_sessions(bed) == 5
    assert any("undone" in line for line in bed.session.rollback())
    assert bed.session.transport.run("jool instance display --csv --no-headers").out == ""


@releases
def test_nat64_is_emptied_by_a_new_instance(machine, bedded):
    emptied_and_goes_on("instance", bedded)


@releases
def test_what_jool_drops_is_in_its_telemetry(machine, bedded):
    """A pool of few ports is exhausted."""
    intent = intents.with_values(intents.nat64("64:ff9b::/96"), ports=(1024, 1033))
    bed = bedded(intent)
    frames_pass(bed, 5000, 10)

    def grown(before):
        after = bed.dut.report()["jool"]
        return {name: after[name] - was for name, was in before.items() if after[name] != was}

    before = bed.dut.report()["jool"]
    for port in (6000, 6001):
        late = b"too late: %d" % port
        assert bed.through("forward", "2001:2::2", "64:ff9b::c613:2", port, 53, late) is None
    told = {name: more for name, more in grown(before).items() if "drop" in name}
    assert told == {"dropped: out of ports for a client (JSTAT_BIB6_NOT_FOUND)": 2}


@only(DEBIAN)
def test_another_translator_makes_the_driver_refuse(machine, bedded):
    bed = bedded(intents.SIIT)
    session = bed.session
    session.rollback()
    session.transport.run("modprobe jool_siit && jool_siit instance add theirs --netfilter")
    try:
        with expect_error("device-busy", mentions="theirs"):
            session.commit()
        assert "theirs" in session.transport.run("jool_siit instance display").out
    finally:  # the machine is others', too
        session.transport.run("jool_siit instance remove theirs")


@only(DEBIAN)
def test_nat64_is_emptied_by_a_reboot(machine, bedded):
    emptied_and_goes_on("reboot", bedded)


@only(DEBIAN)
def test_a_machine_that_is_reset_while_it_is_measured(machine, in_machine, tmp_path):
    """The trial in which it happened counts for nothing; the run goes on where it was."""
    path = tmp_path / "run"
    known = []

    def press():
        wait_until(lambda: count_trials(path) >= 1, "a trial", 600)
        machine.machine.reset()
        known.append(count_trials(path))

    finger = threading.Thread(target=press)
    finger.start()
    # no machine here carries this much: enough trials are left when the button is pressed
    dut = {"driver": "jool", "options": {"ssh": {"lab": "vm"}}}
    bed = bed_file(tmp_path, dut, line_rate="20M")
    what = ["--plugin", "siit", "--testbed", bed, "--mode", "forward", "--frame-size", "84"]
    how = ["--reps", "10", "--resolution", "2000", "--duration", "1"]
    done = v6t("run", *what, *how, "--output", path, "--no-report")
    finger.join()
    print(done.err)
    assert done.status == 4, done.err
    assert done.code == "check-failed"
    journal = (path / "journal.jsonl").read_bytes()
    assert count_trials(path) <= known[0] + 1, (
        "frames that a machine without power lost count as lost"
    )
    assert json.loads((path / "results.json").read_text())["status"] == "running"
    machine.machine.await_login()
    done = v6t("resume", path, "--no-report")
    print(done.err, done.out)
    assert done.status == 0, done.err
    assert (path / "journal.jsonl").read_bytes().startswith(journal)
    assert json.loads((path / "results.json").read_text())["status"] == "complete"


@only(MAPT)
@pytest.mark.parametrize("plugin", ["mapt-br", "mapt-ce"])
def test_map_t(as_one_device, plugin):
    as_one_device(plugin)


@only(MAPT)
def test_ce_and_br_are_two_machines(as_two_devices):
    """MAP-T (RFC 7599), behind a NAPT of the kernel's."""
    as_two_devices("map-t", ce=("ce", "mapt-ce"), pe=("br", "mapt-br"))
