"""Real devices in namespaces, reached directly and over SSH: frames, rollback and removal."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import expect_text, expect_words
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.undo_store import PROGRESS, SCRIPT, UndoRecord, build_undo_script
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import LinkIntent
from v6t.tests.expect import expect_error

from . import intents, sshserver
from .bench import measure_traffic_classes, open_bed
from .field import Place
from .support import find_missing_for, in_lab

pytestmark = in_lab

LAB = sshserver.make_unique_name("devices")


@pytest.mark.parametrize(
    ("device", "options", "intent", "src", "dst", "ttl"),
    [
        ("tayga-nftables", {}, intents.nat64(), "2001:2::2", "2001:db8:64::c613:2", 61),
        ("nftables", {"ssh": {"lab": LAB}}, intents.nat44(), "198.18.0.2", "198.19.0.2", 63),
    ],
    ids=["directly", "over ssh"],
)
def test_frames_go_through_both_ways(device, options, intent, src, dst, ttl):
    if package := find_missing_for(device, "over ssh" if options else "directly"):
        pytest.skip(f"needs {package}")
    with open_bed(device, intent, **options) as bed:
        out = bed.forward("forward", src, dst, 5000, 53, b"there it goes")
        assert out is not None, "frame dropped"
        assert (out.payload.src, out.payload.dst) == ("198.19.0.1", "198.19.0.2")
        assert out.payload.ttl == ttl
        assert (out.src, out.dst) == (intent.links.right.dut_mac, intent.links.right.tester_mac)
        sport = out["UDP"].sport
        back = bed.forward("reverse", "198.19.0.2", "198.19.0.1", 53, sport, b"here it returns")
        assert back is not None, "answer dropped"
        assert (back.payload.src, back.payload.dst) == (dst, src)
        assert len(bed.session.verify()) > 5
        reading = bed.session.driver.get_session_reading(intent)
        counts = [reading.parse(bed.session.transport.run(reading.command).out)["sessions"]]
        bed.session.flush()
        counts.append(reading.parse(bed.session.transport.run(reading.command).out)["sessions"])
        own = 1 if options else 0  # the kernel tracks v6t's connection, too
        assert counts[0] > counts[1] == own
        assert any("undone" in line for line in bed.session.rollback())
        assert bed.session.rollback()[0].startswith("there is nothing")
        assert bool(LabSshServer(LAB).find_pid()) is bool(options)
    assert not LabSshServer(LAB).directory.exists()


COPIED = {
    "forward TOS: copied from the traffic class",
    "reverse traffic class: copied from the TOS",
}


@pytest.mark.parametrize(
    ("plugin", "device", "seen"), [("nat44", "nftables", set()), ("siit", "tayga", COPIED)]
)
def test_traffic_class_is_translated_correctly(plugin, device, seen):
    if package := find_missing_for(device, "directly"):
        pytest.skip(f"needs {package}")
    ((why, behaviours),) = measure_traffic_classes(plugin, [(0xB9, 0xB9)], dut=device).values()
    assert why == ""
    assert {what for what in behaviours if "TOS" in what or "traffic class" in what} == seen


SEEN = "ip -o addr | sed 's/ tentative//; s/ [0-9]*sec/ Nsec/g'; ip -o link; ip route; sysctl -a -r keep_addr"


@pytest.fixture(scope="module")
def router():
    """Provide the session of an IPv4 router with an IPv6 address that is up but not configured."""
    left = intents.ROUTER4.left
    left = replace(left, addresses=[*left.addresses, "2001:db8:7c::1/64"])
    with open_bed("linux-router", replace(intents.ROUTER4, left=left)) as bed:
        yield bed.session


@pytest.mark.parametrize(
    ("given", "undo", "code"),
    [
        ("ip link set dev left address 02:00:00:00:00:99",
         f"ip link set dev left address {intents.LINKS.left.dut_mac}", "wrong-interface"),
        ("ip link set left up; ip route add default dev left", "ip route del default dev left",
         "interface-protected"),
        ("ip route add 198.18.0.0/24 dev right", "ip route del 198.18.0.0/24 dev right",
         "foreign-configuration"),
        # Linux rejects a second prefix length for an IPv6 address
        ("ip -6 addr add 2001:db8:7c::1/48 dev left nodad", "ip -6 addr del 2001:db8:7c::1/48 dev left",
         "command-failed"),
    ],
)  # fmt: skip
def test_foreign_configuration_is_rejected_before_changes(given, undo, code, router):
    router.rollback()
    router.transport.run(given)
    before = router.transport.run(SEEN).out
    with expect_error(code):
        router.commit()
    assert router.transport.run(SEEN).out == before
    router.transport.run(undo)


def test_former_addresses_are_restored(router):
    router.rollback()
    # another prefix length makes another address; a temporary address does not become permanent
    added = router.transport.run(
        "set -e; ip addr add 192.168.18.1/24 dev left; "
        "ip addr add 192.168.18.1/30 dev left valid_lft 900 preferred_lft 900; "
        "ip link set right down; ip -6 addr add 2001:db8:7b::1/64 dev right"
    )
    assert added.status == 0
    before = router.transport.run(SEEN).out
    words = ("192.168.18.1/24", "valid_lft Nsec", "2001:db8:7b::1/64")
    assert [w for w in words if w not in before] == []
    router.commit()
    assert router.verify()
    assert router.transport.run(SEEN).out != before
    router.rollback()
    assert router.transport.run(SEEN).out == before
    router.transport.run("ip addr flush dev left; ip addr flush dev right; ip link set right up")


# the kernel purges neighbors with an IPv4 address, not with an IPv6 one
HOSTS = ("192.0.2.2", "192.0.2.3", "2001:db8::2", "2001:db8::3")
SIDE = LinkIntent(
    ["192.0.2.1/24", "2001:db8::1/64"],
    dict.fromkeys(HOSTS, "02:00:00:00:00:01"),
    {"198.51.100.0/24": "192.0.2.2"},
)
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
    with closing(Place()) as place:
        place.run(
            "ip link set lo up; ip link add left type veth peer name cable; ip link set left up"
        )
        yield place.run


STATE = (
    "ip -o addr | grep -v fe80; ip route; ip neigh show nud permanent; ip -o link | cut -d' ' -f2-5; "
    "sysctl net.ipv4.conf.all.rp_filter; nft list ruleset"
)
SYSCTL = linux.make_sysctl_step(
    {"net.ipv4.conf.left.rp_filter": 2, "net.ipv4.conf.all.rp_filter": 2}, "x"
)


@pytest.mark.parametrize(
    ("steps", "loss"),
    [
        (SIDE_STEPS, "ip addr del 192.0.2.1/24 dev left"),
        (SIDE_STEPS, "ip neigh del 192.0.2.3 dev left"),
        (SIDE_STEPS, "ip neigh del 2001:db8::2 dev left"),
        (SIDE_STEPS, "ip route del 198.51.100.0/24"),
        (SIDE_STEPS, "ip link set left down; ip link set left up"),
        ([linux.make_link_up_step("cable")], "ip link set cable down"),
        ([linux.make_mtu_step("left", 1400)], "ip link set left mtu 1300"),
        ([SYSCTL], "sysctl -q -w net.ipv4.conf.all.rp_filter=1"),
        ([TUN, linux.make_mtu_step("tun9", 1400), linux.make_link_up_step("tun9")], "ip link del tun9"),
        ([TABLE], "nft delete table ip v6t"),
    ],
)  # fmt: skip
def test_rollback_after_an_object_vanished_leaves_the_device_as_before(
    device, tmp_path, steps, loss
):
    before = device(STATE)
    entries = [make_undo_entry(n, s, device(s.record_command)) for n, s in enumerate(steps, 1)]
    record = UndoRecord("me", "boot", "linux", "x", "now", str(tmp_path), tuple(entries))
    (tmp_path / SCRIPT).write_text(build_undo_script(record))
    for number, step in enumerate(steps, 1):
        device(f"{step.command} <<'END'\n{step.text}END")
        with (tmp_path / PROGRESS).open("a") as progress:
            progress.write(f"{number}\n")
    device(loss)
    assert "left" not in device(f"sh {tmp_path / SCRIPT}").split()
    assert device(STATE) == before
    assert not any(entry.differs_from(device(entry.state_command)) for entry in entries)
