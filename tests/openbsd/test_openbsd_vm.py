"""OpenBSD PF in a virtual machine, configured over SSH by its driver.

``make test-openbsd`` runs these tests with the machine described in :mod:`.vm`. ``V6T_OPENBSD_SEEN`` names a
directory in which to save the output of commands.
"""

import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.connection import DeviceBusyError, Lock
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.shell import build_tracked_command
from v6t.drivers.lab.setup import Bed
from v6t.drivers.transport.contract import DeadlinePassed
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts import intents
from v6t.tests.drivers.duts.bench import LabBed
from v6t.tests.drivers.duts.remote_site import wait_until
from v6t.tests.expect import expect_error
from v6t.tests.jool.short_runs import (
    CONNECTIONS,
    THROUGHPUT,
    count_sessions,
    exchange_frames,
    run_benchmark,
)
from v6t.tests.jool.vm import replace_lab_device

from .vm import VERSION_VARIABLE, SharedOpenBsdMachine, find_missing_variables, select_boot_lines

pytestmark = [
    pytest.mark.openbsd,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(find_missing_variables()), reason=find_missing_variables()),
]
NAT64 = intents.make_nat64("64:ff9b::/96")
INTENTS = {
    "nat44": intents.make_nat44(),
    "nat64": NAT64,
    "ipv4-router": intents.ROUTER4,
    "ipv6-router": intents.ROUTER6,
}
STATE = (
    "sysctl net.inet.ip.forwarding net.inet6.ip6.forwarding; ifconfig -A | grep -v -e index -e scopeid; "
    "for f in -inet -inet6; do route -n show $f | grep -v UHLc | sed 's/  */ /g' | cut -d' ' -f1,2,3; done; "
    "pfctl -sr; pfctl -st; pfctl -sm; pfctl -si | grep -o 'Status: [A-Za-z]*'; "
    "arp -na | grep permanent; ndp -na | grep permanent; ls /var/run/v6t 2>/dev/null | grep -v -e beat -e lock"
)


def read_state(machine) -> list[str]:
    """Return the state that the driver changes, without counters."""
    return machine.machine.run(STATE).splitlines()


@pytest.fixture(scope="module")
def machine():
    """Share one machine among all tests."""
    shared = SharedOpenBsdMachine()
    try:
        shared.start()
        yield shared
        save_output("console", shared.machine.console)
    finally:
        shared.stop()


def save_output(name: str, text: str) -> str:
    """Return the text, after saving it if ``V6T_OPENBSD_SEEN`` is set."""
    directory = os.environ.get("V6T_OPENBSD_SEEN")
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        (Path(directory) / f"{name}.txt").write_text(text)
    return text


@contextmanager
def configure(machine, technology, intent=None, **options):
    """Configure the machine, and roll it back on exit."""
    driver = make_driver("openbsd-pf", {"flush": "purge", **options})
    dut = machine.make_device(driver, intent or INTENTS[technology])
    bed = Bed(dut.intent.links, dut)
    lab_bed = None
    try:
        lab_bed = LabBed(dut, bed.open())
        yield lab_bed
    finally:
        bed.close()
        for port in (lab_bed.left, lab_bed.right) if lab_bed else ():
            port._socket.close()  # an open socket keeps the namespace and its cables


def test_survey_finds_system_user_and_management_path(machine):
    print("\n".join(select_boot_lines(machine.machine.console)))
    driver = make_driver("openbsd-pf", machine.machine.get_ports())
    session = Session(driver, machine.machine.transport(), INTENTS["nat44"])
    session.open()
    try:
        facts = session.survey()
        print(save_output("uname", session.transport.run("uname -a").out))
    finally:
        session.close()
    assert facts.system.startswith("OpenBSD")
    assert facts.is_root
    assert facts.boot_id
    assert len(facts.management_interfaces) == 1
    assert facts.management_interfaces.isdisjoint(machine.machine.get_ports().values())
    assert facts.management_path.unknown_reason == ""
    assert {str(p.address) for p in facts.management_path.peers} >= {"10.0.2.2", "10.0.2.15"}


@pytest.mark.parametrize("technology", INTENTS)
def test_commit_traffic_and_rollback(machine, technology):
    before = read_state(machine)
    with configure(machine, technology) as bed:
        run = bed.session.transport.run
        checks = bed.session.verify()
        assert len(checks) >= 7
        pairs = list(exchange_frames(bed, technology, 5000, 20))
        assert len(pairs) == 20
        lines = [f"{out.summary()}\n{back.summary()}\n" for out, back in pairs[:2]]
        print(save_output(f"{technology}-frames", "".join(lines)))
        for name, command in {
            "pfctl-sr": "pfctl -sr", "pfctl-vsr": "pfctl -vsr", "pfctl-ss": "pfctl -ss", "pfctl-si": "pfctl -si", "pfctl-sm": "pfctl -sm",
            "ifconfig": "ifconfig -A", "route-show": "route -n show", "sysctl": "sysctl hw.ncpuonline kern.cp_time",
            "arp": "arp -na", "ndp": "ndp -na", "route-get": "route -n get -inet default",
            "route-get-six": "route -n get -inet6 default", "way": "route -n get 10.9.9.2",
            "no-way": "route -n get 2001:db8::9 2>&1",
        }.items():  # fmt: skip
            print(save_output(f"{technology}-{name}", run(command).out))
        report = bed.dut.report()
        assert report["cpu"]["cpu0.total"] > 0
        assert report["table"]["limit"] >= 100_000
        if technology.startswith("nat"):
            assert count_sessions(bed) == 20
            rule = "af-to" if technology == "nat64" else "nat-to"
            assert rule in run("pfctl -sr").out
            started = time.monotonic()
            bed.session.flush()
            print(f"purged within {time.monotonic() - started:.0f} s")
            assert count_sessions(bed) == 0
            assert bed.session.verify()
            assert sum(1 for _ in exchange_frames(bed, technology, 7000, 40)) == 40
            assert count_sessions(bed) == 40
        assert any("undone" in line for line in bed.session.rollback())
    assert read_state(machine) == before


def test_prefix_of_another_length_is_translated(machine):
    with configure(machine, "nat64", intents.make_nat64("2001:db8::/64")) as bed:
        assert bed.session.verify()
        server = "2001:db8::c6:1300:200:0"  # 198.19.0.2
        request = bed.forward("forward", "2001:2::2", server, 5000, 53, b"to another prefix")
        assert request.payload.dst == "198.19.0.2"


@pytest.mark.parametrize("technology", INTENTS)
def test_throughput(machine, technology, monkeypatch, tmp_path):
    replace_lab_device(machine, monkeypatch)
    dut = {"driver": "openbsd-pf", "options": {"flush": "purge"}}
    options = CONNECTIONS if technology.startswith("nat") else ()
    run = run_benchmark(tmp_path, technology, dut, *THROUGHPUT, *options, line_rate="20M")
    version = os.environ.get(VERSION_VARIABLE, "")
    machines.add_record(
        f"openbsd-pf {technology}", run, machine.machine.hypervisor, version=version
    )


def test_flush_keeps_unrelated_states(machine):
    """A flush keeps the states of unrelated hosts and of the operator's session."""
    with configure(machine, "nat44") as bed:
        run = bed.session.transport.run
        link = bed.links.left
        frame = Ether(src=link.tester_mac, dst=link.dut_mac)
        frame /= IP(src="203.0.113.9", dst="192.0.2.9")
        for port in range(9000, 9030):
            bed.left.send(bytes(frame / UDP(sport=port, dport=53) / b"from another host"))
        wait_until(lambda: "203.0.113.9:9029" in run("pfctl -ss").out, "states of the host", 30)
        others = len(run("pfctl -ss | grep 203.0.113.9").out.splitlines())
        assert others >= 30
        assert sum(1 for _ in exchange_frames(bed, "nat44", 5000, 5)) == 5
        bed.session.flush()
        assert count_sessions(bed) == 0
        assert len(run("pfctl -ss | grep 203.0.113.9").out.splitlines()) == others


def test_conflicting_prefix_length_is_refused(machine):
    port = machine.machine.get_ports()["left"]
    machine.machine.run(f"ifconfig {port} inet 198.18.0.1/25")
    try:
        with (
            expect_error("address-conflict", mentions="198.18.0.1/25"),
            configure(machine, "nat44"),
        ):
            pass
        assert "198.18.0.1 netmask 0xffffff80" in machine.machine.run(f"ifconfig {port}")
    finally:
        machine.machine.run(f"ifconfig {port} inet 198.18.0.1 delete; ifconfig {port} down")


PF_RULES = """\
set skip on { lo }
block return
pass
pass out quick proto tcp from { 10.1.0.0/16 10.2.0.1 10.3.0.1 10.4.0.1 10.5.0.1 10.6.0.1 10.7.0.1 } to any
"""


def test_rules_with_lists_are_restored(machine):
    """For a long list, pfctl creates a table whose name changes with each load."""
    run = machine.machine.run
    run(
        f"cp -p /etc/pf.conf /tmp/pf.conf; cat >/etc/pf.conf <<'END'\n{PF_RULES}END\npfctl -f /etc/pf.conf"
    )
    try:
        loaded = run("pfctl -sr")
        assert "<__automatic_" in loaded
        survey = make_driver("openbsd-pf", {}).get_survey_commands()
        for section in ("rules", "tables", "file"):
            print(save_output(f"lists-{section}", run(survey[section])))
        with configure(machine, "nat44") as bed:
            assert "nat-to" in run("pfctl -sr")
            assert any("undone" in line for line in bed.session.rollback())
        assert run("pfctl -sr | wc -l") == f"{len(loaded.splitlines()):8}\n"
        run("echo pass | pfctl -f -")
        with (
            expect_error("device-not-restored", mentions="/etc/pf.conf"),
            configure(machine, "nat44"),
        ):
            pass
    finally:
        run("cp -p /tmp/pf.conf /etc/pf.conf; rm /tmp/pf.conf; pfctl -f /etc/pf.conf")


def test_second_session_is_refused(machine):
    with configure(machine, "ipv4-router") as bed:
        transport = machine.machine.transport()
        transport.open()
        try:
            with expect_error("device-busy", kind=DeviceBusyError):
                Lock(transport, bed.dut.driver.options.state_dir, "user@host process 1")
        finally:
            transport.close()


def test_lost_session_is_rolled_back_by_device(machine):
    """The SSH connection is closed without a rollback."""
    before = read_state(machine)
    options = {"ssh": {"lab": "openbsd-vm"}, "undo_after_s": 5}
    with configure(machine, "nat44", **options) as bed:
        assert "nat-to" in machine.machine.run("pfctl -sr")
        bed.session.transport.close()
        wait_until(
            lambda: "undid" in machine.machine.run("cat /var/run/v6t/guard/fired"),
            "the rollback by the device",
            120,
        )
        assert "nat-to" not in machine.machine.run("pfctl -sr")
        bed.dut._session = None
    machine.machine.run("rm -rf /var/run/v6t")
    assert read_state(machine) == before


def check_abandoned_command(bed):
    """Check that a rollback kills a command whose SSH session has timed out."""
    session = bed.session
    command = build_tracked_command(
        session.driver.options.state_dir, "(while :; do sleep 9999; done) & wait"
    )
    with pytest.raises(DeadlinePassed):
        session.transport.run(command, "", 5.0)
    processes = "ps -axww -o args"
    assert "sleep 9999" in session.transport.run(processes).out
    assert any("undone" in line for line in session.rollback())
    assert "sleep 9999" not in session.transport.run(processes).out


def test_rollback_ends_abandoned_command(machine):
    before = read_state(machine)
    with configure(machine, "ipv4-router") as bed:
        check_abandoned_command(bed)
    assert read_state(machine) == before


@pytest.mark.skipif(
    not os.environ.get("V6T_OPENBSD_USER"),
    reason="V6T_OPENBSD_USER is not set (a user with `doas -n`)",
)
def test_user_with_doas_can_configure_device(machine):
    machine.machine.set_user(os.environ["V6T_OPENBSD_USER"])
    try:
        with configure(machine, "nat64") as bed:
            assert bed.session.transport.run("id -u").out.strip() == "0"
            assert sum(1 for _ in exchange_frames(bed, "nat64", 5000, 3)) == 3
            check_abandoned_command(bed)
    finally:
        machine.machine.set_user("root")


def test_exhausted_ports_are_counted_as_drops(machine):
    """PF counts the drops. NAT44 only: af-to reuses ports, see the driver's page."""
    limited = intents.with_values(INTENTS["nat44"], ports=(2000, 2009))
    with configure(machine, "nat44", limited) as bed:
        pairs = list(exchange_frames(bed, "nat44", 5000, 10))
        assert {out["UDP"].sport for out, _ in pairs} == set(range(2000, 2010))
        before = bed.dut.report()["pf"]["translate"]
        for port in (6000, 6001):
            late = b"too late: %d" % port
            assert bed.forward("forward", "198.18.0.2", "198.19.0.2", port, 53, late) is None
        assert bed.dut.report()["pf"]["translate"] - before == 2
        print(save_output("no-ports-pfctl-si", bed.session.transport.run("pfctl -si").out))


def test_flush_by_reboot_empties_the_table(machine):
    """Run last, because QEMU's translation cache slows down a second boot."""
    with configure(machine, "nat64", flush="reboot") as bed:
        assert sum(1 for _ in exchange_frames(bed, "nat64", 5000, 5)) == 5
        assert count_sessions(bed) == 5
        boot = bed.session.transport.run("ps -o lstart= -p 1").out
        bed.session.flush()
        assert bed.session.transport.run("ps -o lstart= -p 1").out != boot
        assert count_sessions(bed) == 0
        assert bed.session.verify()
        assert sum(1 for _ in exchange_frames(bed, "nat64", 7000, 5)) == 5
        assert any("undone" in line for line in bed.session.rollback())
