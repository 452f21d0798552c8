"""Devices in namespaces: foreign configuration, restored state, traffic classes and unfetched frames."""

import os
import subprocess
from contextlib import closing
from dataclasses import replace

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.lab import namespaces
from v6t.drivers.duts.lab.ssh import read_start_time
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import expect_text, expect_words
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.telemetry import summarize_samples
from v6t.drivers.duts.session.undo_store import PROGRESS, SCRIPT, UndoRecord, build_undo_script
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import LinkIntent
from v6t.tests.drivers import matrix
from v6t.tests.expect import expect_error

from . import intents
from .bench import EQUAL_OCTETS, TRANSLATION, measure_traffic_classes, open_bed
from .remote_site import Namespace
from .support import in_lab

pytestmark = in_lab

# Commands that print the state of a device.
ADDRESS_STATE = "ip -o addr | sed 's/ tentative//; s/ [0-9]*sec/ Nsec/g'; ip -o link; ip route; sysctl -a -r keep_addr"


@pytest.fixture(scope="module")
def router():
    """Provide the session of a started IPv4 router, whose intent has an IPv6 address, too."""
    left = intents.ROUTER4.left
    left = replace(left, addresses=[*left.addresses, "2001:db8:7c::1/64"])
    with open_bed("linux-router", replace(intents.ROUTER4, left=left)) as bed:
        yield bed.session


@pytest.mark.parametrize(("change", "undo", "code"), [
    ("ip link set dev left address 02:00:00:00:00:99",
     f"ip link set dev left address {intents.LINKS.left.dut_mac}", "wrong-interface"),
    ("ip link set left up; ip route add default dev left", "ip route del default dev left",
     "interface-protected"),
    ("ip route add 198.18.0.0/24 dev right", "ip route del 198.18.0.0/24 dev right",
     "foreign-configuration"),
    # Linux rejects a second prefix length for an IPv6 address
    ("ip -6 addr add 2001:db8:7c::1/48 dev left nodad", "ip -6 addr del 2001:db8:7c::1/48 dev left",
     "command-failed"),
])  # fmt: skip
def test_foreign_configuration_is_rejected_before_changes(change, undo, code, router):
    router.rollback()
    router.transport.run(change)
    before = router.transport.run(ADDRESS_STATE).out
    with expect_error(code):
        router.commit()
    assert router.transport.run(ADDRESS_STATE).out == before
    router.transport.run(undo)


def test_former_addresses_are_restored(router):
    router.rollback()
    # Linux allows several prefix lengths of an address; a temporary address must stay temporary
    added = router.transport.run("set -e; ip addr add 192.168.18.1/24 dev left; "
                                 "ip addr add 192.168.18.1/30 dev left valid_lft 900 preferred_lft 900; "
                                 "ip link set right down; ip -6 addr add 2001:db8:7b::1/64 dev right")  # fmt: skip
    assert added.status == 0
    before = router.transport.run(ADDRESS_STATE).out
    words = ("192.168.18.1/24", "valid_lft Nsec", "2001:db8:7b::1/64")
    assert [w for w in words if w not in before] == []
    router.commit()
    assert router.verify()
    assert router.transport.run(ADDRESS_STATE).out != before
    router.rollback()
    assert router.transport.run(ADDRESS_STATE).out == before
    router.transport.run("ip addr flush dev left; ip addr flush dev right; ip link set right up")


# the kernel removes neighbor entries with the address of an interface for IPv4 only
HOSTS = ("192.0.2.2", "192.0.2.3", "2001:db8::2", "2001:db8::3")
SIDE = LinkIntent(["192.0.2.1/24", "2001:db8::1/64"], dict.fromkeys(HOSTS, "02:00:00:00:00:01"),
                  {"198.51.100.0/24": "192.0.2.2"})  # fmt: skip
TUN = make_object_step(
    "ip tuntap add dev tun9 mode tun", "ip link del tun9", "a TUN interface",
    read=linux.make_show_link_command("tun9"), expected=expect_words("tun9"),
)  # fmt: skip
TABLE = make_object_step(
    "nft add table ip v6t", "nft delete table ip v6t", "a table",
    read="nft list tables | grep -x 'table ip v6t' || true", expected=expect_text("table ip v6t"),
)  # fmt: skip
SIDE_STEPS = linux.make_side_steps(SIDE, "left", "static")


@pytest.fixture
def device():
    """Provide a shell in a network namespace with a link `left`."""
    with closing(Namespace()) as place:
        place.run("ip link set lo up; ip link add left type veth peer name cable")
        place.run("ip link set left up")
        yield place.run


KERNEL_STATE = (
    "ip -o addr | grep -v fe80; ip route; ip neigh show nud permanent; ip -o link | cut -d' ' -f2-5; "
    "sysctl net.ipv4.conf.all.rp_filter; nft list ruleset"
)
RP_FILTER = linux.make_sysctl_step(
    {f"net.ipv4.conf.{name}.rp_filter": 2 for name in ("left", "all")}, "x"
)


@pytest.mark.parametrize(("steps", "removal"), [
    (SIDE_STEPS, "ip addr del 192.0.2.1/24 dev left"),
    (SIDE_STEPS, "ip neigh del 192.0.2.3 dev left"),
    (SIDE_STEPS, "ip neigh del 2001:db8::2 dev left"),
    (SIDE_STEPS, "ip route del 198.51.100.0/24"),
    (SIDE_STEPS, "ip link set left down; ip link set left up"),
    ([linux.make_link_up_step("cable")], "ip link set cable down"),
    ([linux.make_mtu_step("left", 1400)], "ip link set left mtu 1300"),
    ([RP_FILTER], "sysctl -q -w net.ipv4.conf.all.rp_filter=1"),
    ([TUN, linux.make_mtu_step("tun9", 1400), linux.make_link_up_step("tun9")], "ip link del tun9"),
    ([TABLE], "nft delete table ip v6t"),
])  # fmt: skip
def test_rollback_restores_device_after_object_vanished(device, tmp_path, steps, removal):
    before = device(KERNEL_STATE)
    entries = [make_undo_entry(n, s, device(s.record_command)) for n, s in enumerate(steps, 1)]
    record = UndoRecord("me", "boot", "linux", "x", "now", str(tmp_path), tuple(entries))
    (tmp_path / SCRIPT).write_text(build_undo_script(record))
    for number, step in enumerate(steps, 1):
        device(f"{step.command} <<'END'\n{step.text}END")
        with (tmp_path / PROGRESS).open("a") as progress:
            progress.write(f"{number}\n")
    device(removal)
    assert "left" not in device(f"sh {tmp_path / SCRIPT}").split()
    assert device(KERNEL_STATE) == before
    assert not any(entry.differs_from(device(entry.state_command)) for entry in entries)


KEYS, NAMES = (matrix.MULTIQUEUE, "tundra"), ("nftables-nat44", "tayga-siit")
ROWS = [row for row in matrix.ROWS if row.program_key in KEYS or row.name in NAMES]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_traffic_class_handling_is_allowed_and_reported(row):
    if missing := matrix.find_missing("embedded", row):
        pytest.skip(missing)
    options = {"dut": row.device, **row.driver_options}
    measured = measure_traffic_classes(row.plugin, EQUAL_OCTETS, **options)
    for pair, (why, behaviours) in measured.items():
        assert why == "", pair
        kinds = {what for what in behaviours if "TOS" in what or "traffic class" in what}
        if pair[0]:
            assert kinds == (set() if row.plugin == "nat44" else TRANSLATION)


@pytest.mark.alone
def test_unfetched_frames_are_counted_as_device_losses():
    """The worker is stopped, because a polling core always looks busy."""
    program = matrix.find_program("snabb-lwaftr")
    if not program:
        pytest.skip("no snabb in PATH; V6T_SNABB may name one")
    intent = intents.make_lwaftr()
    link = intent.links.left
    frame = bytes(Ether(src=link.tester_mac, dst=link.dut_mac) / IPv6(dst="2001:db8:6::1", nh=4))
    with open_bed("snabb-lwaftr", intent, program=program) as bed:
        shell = bed.session.transport
        samples = [bed.session.read_sample()]
        worker = "$(ps -o pid= --ppid $(cat /run/v6t/snabb.pid))"
        assert shell.run(f"kill -STOP {worker}").status == 0
        for _ in range(3000):
            bed.left.send(frame)
        samples.append(bed.session.read_sample())
        shell.run(f"kill -CONT {worker}")
    summary = summarize_samples(samples)
    assert summary.polls and summary.cores
    assert summary.drops["sockets dropped"] > 1000
    verdict = judge_device(samples, lost=3000)
    assert verdict.limited_by == "cpu", verdict
    assert "it polls" in verdict.explanation


def test_zombie_has_no_start_time():
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert read_start_time(process.pid) == ""
    assert read_start_time(os.getpid())


def test_missing_program_of_the_lab_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with expect_error("lab-failed", mentions="setpriv"):
        namespaces.start_namespaces(persistent=False)
