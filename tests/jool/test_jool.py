"""Jool in a virtual machine, configured over SSH by its driver.

``make test-jool`` runs these tests. Building the image takes minutes and downloads Debian packages.
Releases other than Debian's are taken from ``JOOL_DIR``, see :mod:`.builds`.
"""

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
from v6t.tests.drivers.duts.bench import LabBed
from v6t.tests.drivers.duts.remote_site import wait_until
from v6t.tests.drivers.duts.test_guard import count_trials
from v6t.tests.expect import expect_error
from v6t.tests.machine.image import Image
from v6t.tests.needs import mark_make_target

from .builds import find_mapt_build, find_plain_build
from .image import JOOL
from .short_runs import (
    CONNECTIONS,
    THROUGHPUT,
    count_sessions,
    exchange_frames,
    run_benchmark,
    write_bed,
)
from .vm import MachineDut, SharedLinuxMachine, replace_lab_device

pytestmark = mark_make_target("jool", "test-jool", "V6T_JOOL", timeout_s=3600)

DEBIAN, NEWEST, MAPT = "debian", "newest-4.1", "mapt"
releases = pytest.mark.parametrize("machine", [DEBIAN, NEWEST], indirect=True)


def parametrize_release(release):
    return pytest.mark.parametrize("machine", [release], indirect=True)


@pytest.fixture(scope="session")
def image() -> Image:
    return JOOL.get_image()


@pytest.fixture(scope="module")
def machine(request, image):
    """Share a machine among all tests of a release, which pytest groups."""
    version, files = "4.1.9", ()
    if request.param != DEBIAN:
        try:
            build = find_mapt_build() if request.param == MAPT else find_plain_build()
            version, files = build.version, build.list_files(image)
        except EnvironmentLacking as exc:
            pytest.skip(exc.message)
    shared = SharedLinuxMachine(image, files, version)
    yield shared
    shared.stop()


@pytest.fixture
def lab_machine(machine, monkeypatch):
    """Use the machine as the lab's device."""
    replace_lab_device(machine, monkeypatch)


@pytest.fixture
def connect_machine(machine):
    """Return a function that configures the machine between the tester's ports."""
    with ExitStack() as stack:

        def connect(intent, **options):
            dut = MachineDut(make_driver("jool", options), intent, machine)
            bed = stack.enter_context(closing(Bed(intent.links, dut)))
            return stack.enter_context(closing(LabBed(dut, bed.open())))

        yield connect


@pytest.fixture
def add_record(request, machine):
    """Return a function that records a run for the documentation."""
    release = request.node.callspec.params["machine"]

    def add(technology, run):
        machines.add_record(f"jool-{release} {technology}", run, machine.machine.hypervisor)

    return add


@pytest.fixture
def measure_one(machine, lab_machine, add_record, tmp_path):
    """Return a function that measures the throughput of Jool."""

    def measure(plugin):
        more = CONNECTIONS if plugin == "nat64" else ()
        run = run_benchmark(tmp_path, plugin, {"driver": "jool"}, *THROUGHPUT, *more)
        assert [point["benchmark"] for point in run.points] == ["throughput"]
        assert run.device["kind"] == "jool"
        assert run.device["version"].startswith(machine.version)
        assert "cloud-amd64" in run.device["system"]
        add_record(plugin, run)

    return measure


@releases
@pytest.mark.parametrize("plugin", ["siit", "clat", "nat64"])
def test_throughput_of_translators(measure_one, plugin):
    measure_one(plugin)


@pytest.fixture
def measure_two(machine, add_record, request, monkeypatch, tmp_path):
    """Return a function that measures with Jool as CE and as PE in two machines."""

    def measure(variant, ce, pe):
        """Measure a variant; ``ce`` and ``pe`` are (part name, technology)."""
        other = machine.clone()
        request.addfinalizer(other.stop)
        machine_of = {ce[1]: machine, pe[1]: other}

        def make_device(driver, intent, keep=None, part=""):
            if driver.name != "jool":
                return LabDut(driver, intent, keep, part)
            return MachineDut(driver, intent, machine_of[intent.technology], record_dir=keep)

        monkeypatch.setattr(devices, "LabDut", make_device)
        parts = {name: {"driver": "jool"} for name in (ce[0], pe[0])}
        dut = {"driver": "chain", "options": {"parts": parts}}
        options = ("--set", f"variant={variant}", *CONNECTIONS)
        run = run_benchmark(tmp_path, "ipv4aas", dut, *THROUGHPUT, *options)
        assert [point["benchmark"] for point in run.points] == ["throughput"]
        for part in parts:
            assert run.device["parts"][part]["kind"] == "jool"
            assert run.device["parts"][part]["version"].startswith(machine.version)
        add_record(variant, run)

    return measure


@releases
def test_throughput_of_464xlat_in_two_machines(measure_two):
    measure_two("464xlat", ce=("clat", "clat"), pe=("plat", "nat64"))


def exchange_nat64_frames(bed, first, number):
    """Send frames of NAT64 clients and answers, and check the translated headers."""
    for out, _ in exchange_frames(bed, "nat64", first, number):
        assert (out.payload.dst, out["IP"].ttl) == ("198.19.0.2", 63)


def read_boot_id(bed):
    return bed.session.transport.run("cat /proc/sys/kernel/random/boot_id").out


def check_flush(method, connect_machine):
    bed = connect_machine(intents.make_nat64("64:ff9b::/96"), flush=method)
    exchange_nat64_frames(bed, 5000, 20)
    assert count_sessions(bed) == 20
    assert bed.dut.report()["table"] == {"used": 20}
    before = read_boot_id(bed)
    bed.session.flush()
    assert (read_boot_id(bed) != before) == (method == "reboot")
    assert count_sessions(bed) == 0
    assert bed.session.verify()
    exchange_nat64_frames(bed, 7000, 5)
    assert count_sessions(bed) == 5
    assert any("undone" in line for line in bed.session.rollback())
    assert bed.session.transport.run("jool instance display --csv --no-headers").out == ""


@releases
def test_flush_nat64_by_new_instance(machine, connect_machine):
    check_flush("instance", connect_machine)


@releases
def test_exhausted_pool_is_counted_as_drops(machine, connect_machine):
    intent = intents.with_values(intents.make_nat64("64:ff9b::/96"), ports=(1024, 1033))
    bed = connect_machine(intent)
    exchange_nat64_frames(bed, 5000, 10)

    def count_changes(before):
        after = bed.dut.report()["jool"]
        return {name: after[name] - was for name, was in before.items() if after[name] != was}

    before = bed.dut.report()["jool"]
    for port in (6000, 6001):
        late = b"too late: %d" % port
        assert bed.forward("forward", "2001:2::2", "64:ff9b::c613:2", port, 53, late) is None
    drops = {name: more for name, more in count_changes(before).items() if "drop" in name}
    assert drops == {"dropped: out of ports for a client (JSTAT_BIB6_NOT_FOUND)": 2}


@parametrize_release(DEBIAN)
def test_commit_with_foreign_instance_is_refused(machine, connect_machine):
    bed = connect_machine(intents.SIIT)
    session = bed.session
    session.rollback()
    session.transport.run("modprobe jool_siit && jool_siit instance add theirs --netfilter")
    try:
        with expect_error("device-busy", mentions="theirs"):
            session.commit()
        assert "theirs" in session.transport.run("jool_siit instance display").out
    finally:  # other tests use the machine
        session.transport.run("jool_siit instance remove theirs")


@parametrize_release(DEBIAN)
def test_flush_nat64_by_reboot(machine, connect_machine):
    check_flush("reboot", connect_machine)


@parametrize_release(DEBIAN)
def test_reset_during_run_can_be_resumed(machine, lab_machine, tmp_path):
    """The interrupted trial is not recorded, and the run can be resumed."""
    path = tmp_path / "run"
    trials_before = []

    def press_reset():
        wait_until(lambda: count_trials(path) >= 1, "a trial", 600)
        machine.machine.reset()
        trials_before.append(count_trials(path))

    thread = threading.Thread(target=press_reset)
    thread.start()
    # above the machine's capacity, so that trials are left after the reset
    dut = {"driver": "jool", "options": {"ssh": {"lab": "vm"}}}
    bed = write_bed(tmp_path, dut, line_rate="20M")
    options = ["--plugin", "siit", "--testbed", bed, "--mode", "forward", "--frame-size", "84"]
    options += ["--reps", "10", "--resolution", "2000", "--duration", "1"]
    result = v6t("run", *options, "--output", path, "--no-report")
    thread.join()
    print(result.err)
    assert result.status == 4, result.err
    assert result.code == "check-failed"
    journal = (path / "journal.jsonl").read_bytes()
    assert count_trials(path) <= trials_before[0] + 1, (
        "the trial interrupted by the reset was recorded"
    )
    assert json.loads((path / "results.json").read_text())["status"] == "running"
    machine.machine.await_login()
    result = v6t("resume", path, "--no-report")
    print(result.err, result.out)
    assert result.status == 0, result.err
    assert (path / "journal.jsonl").read_bytes().startswith(journal)
    assert json.loads((path / "results.json").read_text())["status"] == "complete"


@parametrize_release(MAPT)
@pytest.mark.parametrize("plugin", ["mapt-br", "mapt-ce"])
def test_throughput_of_map_t_devices(measure_one, plugin):
    measure_one(plugin)


@parametrize_release(MAPT)
def test_throughput_of_map_t_in_two_machines(measure_two):
    measure_two("map-t", ce=("ce", "mapt-ce"), pe=("br", "mapt-br"))
