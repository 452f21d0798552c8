"""OpenBSD PF in a virtual machine, configured over SSH by its driver.

Asked for with ``make test-openbsd`` where somebody has an OpenBSD that boots in QEMU, see :mod:`.vm`. Without
hardware acceleration a machine is slow, and rates are low accordingly. ``V6T_OPENBSD_SEEN`` names a directory
for what the machine printed.
"""

from __future__ import annotations

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
from v6t.tests.drivers.duts.bench import LabBed as Bedded
from v6t.tests.drivers.duts.field import wait_until
from v6t.tests.expect import expect_error
from v6t.tests.jool.measuring import (
    CONNECTIONS,
    THROUGHPUT,
    count_sessions,
    exchange_frames,
    measured,
)
from v6t.tests.jool.vm import stands_in

from .vm import VERSION, Standing, excerpt, lacking

pytestmark = [
    pytest.mark.openbsd,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
NAT64 = intents.nat64("64:ff9b::/96")
INTENTS = {
    "nat44": intents.nat44(),
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


def state(machine) -> list[str]:
    """Return all that the driver changes, without counters."""
    return machine.machine.run(STATE).splitlines()


@pytest.fixture(scope="module")
def machine():
    """Boot one machine for all tests."""
    made = Standing()
    try:
        made.stand()
        yield made
        seen("console", made.machine.console)
    finally:
        made.end()


def seen(name: str, text: str) -> str:
    """Return a printed text, and save it if ``V6T_OPENBSD_SEEN`` is set."""
    place = os.environ.get("V6T_OPENBSD_SEEN")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        (Path(place) / f"{name}.txt").write_text(text)
    return text


@contextmanager
def configured(machine, technology, intent=None, **options):
    """Configure the machine between the cables, and restore it."""
    driver = make_driver("openbsd-pf", {"flush": "purge", **options})
    dut = machine.device(driver, intent or INTENTS[technology])
    bed = Bed(dut.intent.links, dut)
    stands = None
    try:
        stands = Bedded(dut, bed.open())
        yield stands
    finally:
        bed.close()
        for port in (stands.left, stands.right) if stands else ():
            port._socket.close()  # it would keep the tester's namespace, and the cables with it


def test_what_it_is(machine):
    """It says who it is, and the driver knows its own way from the rest."""
    print("\n".join(excerpt(machine.machine.console)))
    driver = make_driver("openbsd-pf", machine.machine.ports())
    session = Session(driver, machine.machine.transport(), INTENTS["nat44"])
    session.open()
    try:
        facts = session.survey()
        print(seen("uname", session.transport.run("uname -a").out))
    finally:
        session.close()
    assert facts.system.startswith("OpenBSD")
    assert facts.is_root
    assert facts.boot_id
    assert len(facts.management_interfaces) == 1
    assert facts.management_interfaces.isdisjoint(machine.machine.ports().values())
    assert facts.management_path.unknown_reason == ""
    assert {str(p.address) for p in facts.management_path.peers} >= {"10.0.2.2", "10.0.2.15"}


@pytest.mark.parametrize("technology", INTENTS)
def test_configured_seen_by_frames_and_put_back(machine, technology):
    before = state(machine)
    with configured(machine, technology) as bed:
        run = bed.session.transport.run
        checks = bed.session.verify()
        assert len(checks) >= 7
        pairs = list(exchange_frames(bed, technology, 5000, 20))
        assert len(pairs) == 20
        lines = [f"{out.summary()}\n{back.summary()}\n" for out, back in pairs[:2]]
        print(seen(f"{technology}-frames", "".join(lines)))
        for name, command in {
            "pfctl-sr": "pfctl -sr", "pfctl-vsr": "pfctl -vsr", "pfctl-ss": "pfctl -ss", "pfctl-si": "pfctl -si", "pfctl-sm": "pfctl -sm",
            "ifconfig": "ifconfig -A", "route-show": "route -n show", "sysctl": "sysctl hw.ncpuonline kern.cp_time",
            "arp": "arp -na", "ndp": "ndp -na", "route-get": "route -n get -inet default",
            "route-get-six": "route -n get -inet6 default", "way": "route -n get 10.9.9.2",
            "no-way": "route -n get 2001:db8::9 2>&1",
        }.items():  # fmt: skip
            print(seen(f"{technology}-{name}", run(command).out))
        report = bed.dut.report()
        assert report["cpu"]["cpu0.total"] > 0
        assert report["table"]["limit"] >= 100_000
        if technology.startswith("nat"):
            assert count_sessions(bed) == 20
            rule = "af-to" if technology == "nat64" else "nat-to"
            assert rule in run("pfctl -sr").out
            began = time.monotonic()
            bed.session.flush()
            print(f"purged within {time.monotonic() - began:.0f} s")
            assert count_sessions(bed) == 0
            assert bed.session.verify()
            assert sum(1 for _ in exchange_frames(bed, technology, 7000, 40)) == 40
            assert count_sessions(bed) == 40
        assert any("undone" in line for line in bed.session.rollback())
    assert state(machine) == before


@pytest.mark.parametrize("technology", INTENTS)
def test_it_is_measured(machine, technology, monkeypatch, tmp_path):
    """A search for throughput with the lab's own tester; every frame compared is the reference translation."""
    stands_in(machine, monkeypatch)
    dut = {"driver": "openbsd-pf", "options": {"flush": "purge"}}
    more = CONNECTIONS if technology.startswith("nat") else ()
    run = measured(tmp_path, technology, dut, *THROUGHPUT, *more, line_rate="20M")
    version = os.environ.get(VERSION, "")
    machines.add_record(
        f"openbsd-pf {technology}", run, machine.machine.hypervisor, version=version
    )


def test_states_of_others_are_left_alone_and_not_counted(machine):
    """Many states of hosts that the test does not know, and the operator's own session."""
    with configured(machine, "nat44") as bed:
        run = bed.session.transport.run
        link = bed.links.left
        strange = Ether(src=link.tester_mac, dst=link.dut_mac) / IP(
            src="203.0.113.9", dst="192.0.2.9"
        )
        for port in range(9000, 9030):
            bed.left.send(bytes(strange / UDP(sport=port, dport=53) / b"of somebody else"))
        wait_until(lambda: "203.0.113.9:9029" in run("pfctl -ss").out, "their states", 30)
        others = len(run("pfctl -ss | grep 203.0.113.9").out.splitlines())
        assert others >= 30
        assert sum(1 for _ in exchange_frames(bed, "nat44", 5000, 5)) == 5
        bed.session.flush()
        assert count_sessions(bed) == 0
        assert len(run("pfctl -ss | grep 203.0.113.9").out.splitlines()) == others


def test_an_address_with_another_length_is_refused(machine):
    port = machine.machine.ports()["left"]
    machine.machine.run(f"ifconfig {port} inet 198.18.0.1/25")
    try:
        with (
            expect_error("address-conflict", mentions="198.18.0.1/25"),
            configured(machine, "nat44"),
        ):
            pass
        assert "198.18.0.1 netmask 0xffffff80" in machine.machine.run(f"ifconfig {port}")
    finally:
        machine.machine.run(f"ifconfig {port} inet 198.18.0.1 delete; ifconfig {port} down")


LISTS = """\
set skip on { lo }
block return
pass
pass out quick proto tcp from { 10.1.0.0/16 10.2.0.1 10.3.0.1 10.4.0.1 10.5.0.1 10.6.0.1 10.7.0.1 } to any
"""


def test_rules_with_lists_are_those_of_the_file_and_put_back(machine):
    """Check a long list, for which pfctl makes a table whose name changes at each load."""
    run = machine.machine.run
    run(
        f"cp -p /etc/pf.conf /tmp/pf.conf; cat >/etc/pf.conf <<'END'\n{LISTS}END\npfctl -f /etc/pf.conf"
    )
    try:
        loaded = run("pfctl -sr")
        assert "<__automatic_" in loaded
        survey = make_driver("openbsd-pf", {}).get_survey_commands()
        for section in ("rules", "tables", "file"):
            print(seen(f"lists-{section}", run(survey[section])))
        with configured(machine, "nat44") as bed:
            assert "nat-to" in run("pfctl -sr")
            assert any("undone" in line for line in bed.session.rollback())
        assert run("pfctl -sr | wc -l") == f"{len(loaded.splitlines()):8}\n"
        run("echo pass | pfctl -f -")
        with (
            expect_error("device-not-restored", mentions="/etc/pf.conf"),
            configured(machine, "nat44"),
        ):
            pass
    finally:
        run("cp -p /tmp/pf.conf /etc/pf.conf; rm /tmp/pf.conf; pfctl -f /etc/pf.conf")


def test_one_at_a_time(machine):
    with configured(machine, "ipv4-router") as bed:
        way = machine.machine.transport()
        way.open()
        try:
            with expect_error("device-busy", kind=DeviceBusyError):
                Lock(way, bed.session.driver.options.state_dir, "somebody@elsewhere process 1")
        finally:
            way.close()


def test_a_device_that_hears_nothing_undoes_everything(machine):
    """The operator's ssh is gone without a word."""
    before = state(machine)
    options = {"ssh": {"lab": "openbsd-vm"}, "undo_after_s": 5}
    with configured(machine, "nat44", **options) as bed:
        assert "nat-to" in machine.machine.run("pfctl -sr")
        bed.session.transport.close()
        wait_until(
            lambda: "undid" in machine.machine.run("cat /var/run/v6t/guard/fired"),
            "its undoing",
            120,
        )
        assert "nat-to" not in machine.machine.run("pfctl -sr")
        bed.dut._session = None
    machine.machine.run("rm -rf /var/run/v6t")
    assert state(machine) == before


def given_up(bed):
    """Check that a rollback ends an endless command whose ssh has timed out."""
    session = bed.session
    hangs = build_tracked_command(
        session.driver.options.state_dir, "(while :; do sleep 9999; done) & wait"
    )
    with pytest.raises(DeadlinePassed):
        session.transport.run(hangs, "", 5.0)
    processes = "ps -axww -o args"
    assert "sleep 9999" in session.transport.run(processes).out
    assert any("undone" in line for line in session.rollback())
    assert "sleep 9999" not in session.transport.run(processes).out


def test_what_was_given_up_is_ended_before_it_is_undone(machine):
    before = state(machine)
    with configured(machine, "ipv4-router") as bed:
        given_up(bed)
    assert state(machine) == before


@pytest.mark.skipif(
    not os.environ.get("V6T_OPENBSD_USER"),
    reason="V6T_OPENBSD_USER names no user who may `doas -n`",
)
def test_an_ordinary_user_with_doas(machine):
    machine.machine.login(os.environ["V6T_OPENBSD_USER"])
    try:
        with configured(machine, "nat64") as bed:
            assert bed.session.transport.run("id -u").out.strip() == "0"
            assert sum(1 for _ in exchange_frames(bed, "nat64", 5000, 3)) == 3
            given_up(bed)
    finally:
        machine.machine.login("root")


def test_ports_run_out(machine):
    """PF says so by its own counter. Of a NAT44: af-to gives a port again, see the driver's page."""
    nat44 = INTENTS["nat44"]
    few = intents.with_values(nat44, ports=(2000, 2009))
    with configured(machine, "nat44", few) as bed:
        pairs = list(exchange_frames(bed, "nat44", 5000, 10))
        assert {out["UDP"].sport for out, _ in pairs} == set(range(2000, 2010))
        before = bed.dut.report()["pf"]["translate"]
        for port in (6000, 6001):
            late = b"too late: %d" % port
            assert bed.through("forward", "198.18.0.2", "198.19.0.2", port, 53, late) is None
        assert bed.dut.report()["pf"]["translate"] - before == 2
        print(seen("no-ports-pfctl-si", bed.session.transport.run("pfctl -si").out))


def test_emptied_by_a_reboot(machine):
    """The last: QEMU that has translated much boots slowly the second time."""
    with configured(machine, "nat64", flush="reboot") as bed:
        assert sum(1 for _ in exchange_frames(bed, "nat64", 5000, 5)) == 5
        assert count_sessions(bed) == 5
        boot = bed.session.transport.run("ps -o lstart= -p 1").out
        bed.session.flush()
        assert bed.session.transport.run("ps -o lstart= -p 1").out != boot
        assert count_sessions(bed) == 0
        assert bed.session.verify()
        assert sum(1 for _ in exchange_frames(bed, "nat64", 7000, 5)) == 5
        assert any("undone" in line for line in bed.session.rollback())
