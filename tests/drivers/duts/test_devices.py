"""Real implementations in namespaces, reached directly and through a real sshd: single frames."""

from __future__ import annotations

import pytest
from v6t.core.config.resolve import Flags
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.nptv6 import Nptv6
from v6t.tests.expect import expect_error

from . import intents, sshserver
from .bench import proven, standing, traffic_classes
from .support import find_missing_package, in_lab

pytestmark = in_lab

FRAMES = {
    "linux-router": (intents.ROUTER4, "198.18.0.2", "198.19.0.2", "198.18.0.2", "198.19.0.2", 63),
    "linux-router-6": (
        intents.ROUTER6, "2001:2::2", "2001:2:0:8000::2", "2001:2::2", "2001:2:0:8000::2", 63,
    ),
    "nftables": (intents.nat44(), "198.18.0.2", "198.19.0.2", "198.19.0.1", "198.19.0.2", 63),
    "iptables": (intents.nat44(), "198.18.0.2", "198.19.0.2", "198.19.0.1", "198.19.0.2", 63),
    "ip6tables-npt": (
        Nptv6().make_dut_intent(),
        *("fd01:203:405::9", "2001:2:0:8000::2", "2001:db8:1:d54f::9", "2001:2:0:8000::2", 63),
    ),
    "tayga": (
        intents.SIIT, "2001:2::2", "2001:2:0:1000::2", "198.18.0.2", "198.19.0.2", 61,
    ),
    "tayga-nftables": (
        intents.nat64(), "2001:2::2", "2001:db8:64::c613:2", "198.19.0.1", "198.19.0.2", 61,
    ),
}  # fmt: skip
"""Intent; source and destination sent forward; source and destination that come out; TTL."""
STATEFUL = ("nftables", "iptables", "tayga-nftables")
WAYS = {"directly": {}, "over ssh": {"ssh": {"lab": sshserver.unique("devices")}}}


def missing(name: str, way: str) -> str | None:
    """Return what a device lacks here."""
    lacking = find_missing_package(make_driver(name, {}))
    return lacking or (sshserver.lacking() if way == "over ssh" else None)


@pytest.mark.parametrize(
    ("device", "way"),
    [*((name, "directly") for name in FRAMES), ("nftables", "over ssh"), ("tayga", "over ssh")],
)
def test_frames_go_through_both_ways(device, way):
    name = device.removesuffix("-6")
    if package := missing(name, way):
        pytest.skip(f"needs {package}")
    intent, src, dst, new_src, new_dst, ttl = FRAMES[device]
    with standing(name, intent, **WAYS[way]) as bed:
        out = bed.through("forward", src, dst, 5000, 53, b"there it goes")
        assert out is not None, "the frame was dropped"
        assert (out.payload.src, out.payload.dst) == (new_src, new_dst)
        assert (out.payload.ttl if out.payload.version == 4 else out.payload.hlim) == ttl
        assert (out.src, out.dst) == (intent.links.right.dut_mac, intent.links.right.tester_mac)
        back = bed.through("reverse", new_dst, new_src, 53, out["UDP"].sport, b"here it returns")
        assert back is not None, "the answer was dropped"
        assert (back.payload.src, back.payload.dst) == (dst, src)
        assert len(bed.session.verify()) > 5
        if device in STATEFUL:
            reading = bed.session.driver.get_session_reading(intent)
            now = lambda: reading.parse(bed.session.transport.run(reading.command).out)  # noqa: E731
            before = now()["sessions"]
            bed.session.flush()
            own = 1 if way == "over ssh" else 0  # the kernel tracks v6t's connection, too
            assert before > own
            assert now()["sessions"] == own
        told = bed.session.rollback()
        assert any("undone" in line for line in told)
        assert bed.session.rollback()[0].startswith("there is nothing")


@pytest.mark.parametrize(
    ("plugin", "device"),
    [("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("siit", "tayga")],
)
def test_frames_are_the_reference_translation_in_the_drivers_profile(plugin, device):
    if package := missing(device, "directly"):
        pytest.skip(f"needs {package}")
    finding, _, described = proven(Flags(plugin, dut=device))
    assert finding is None
    assert described["kind"] == device
    assert described["version"]
    assert described["commands"]


COPIED = {
    "forward TOS: copied from the traffic class",
    "reverse traffic class: copied from the TOS",
}
OCTETS = [(octet, octet) for octet in (0, 2, 0xB9)]


@pytest.mark.parametrize(
    ("plugin", "device", "seen"),
    [
        ("ipv4-router", "linux-router", set()),
        ("ipv6-router", "linux-router", set()),
        ("nat44", "nftables", set()),
        ("siit", "tayga", COPIED),
        ("nat64", "tayga-nftables", COPIED),
    ],
)
def test_whatever_the_traffic_class_frames_are_right(plugin, device, seen):
    if package := missing(device, "directly"):
        pytest.skip(f"needs {package}")
    for octets, (why, told) in traffic_classes(plugin, OCTETS, dut=device).items():
        assert why == "", octets
        kinds = {what for what in told if "TOS" in what or "traffic class" in what}
        assert kinds == (seen if octets[0] else set()), octets


def test_the_users_own_commands_make_a_device():
    steps = [
        {
            "command": "ip link set dev $LEFT txqueuelen 77",
            "why": "as an example",
            "undo": "ip link set dev $LEFT txqueuelen {words}",
            "before": "ip -o link show dev $LEFT | sed 's/.* qlen \\([0-9]*\\).*/\\1/'",
            "check": {"command": "ip -o link show dev $LEFT", "contains": "qlen 77"},
        }
    ]
    with standing("command", intents.ROUTER4, steps=steps) as bed:
        out = bed.through("forward", "198.18.0.2", "198.19.0.2", 5000, 53, b"by hand")
        assert out is not None
        assert out["IP"].ttl == 63
        bed.session.rollback()
        assert "qlen 77" not in bed.session.transport.run("ip link show dev left").out


SEEN = "ip -o addr | sed 's/ tentative//; s/ [0-9]*sec/ Nsec/g'; ip -o link; ip route; sysctl -a -r keep_addr"


@pytest.fixture(scope="module")
def router():
    """The session of an IPv4 router that stands, not configured."""
    with standing("linux-router", intents.ROUTER4) as bed:
        yield bed.session


@pytest.mark.parametrize(
    ("given", "undo", "code"),
    [
        (
            "ip link set dev left address 02:00:00:00:00:99",
            f"ip link set dev left address {intents.LINKS.left.dut_mac}",
            "wrong-interface",
        ),
        (
            "ip link set left up; ip route add default dev left",
            "ip route del default dev left",
            "interface-protected",
        ),
        (
            "ip route add 198.18.0.0/24 dev right",
            "ip route del 198.18.0.0/24 dev right",
            "foreign-configuration",
        ),
    ],
)
def test_device_of_somebody_else_is_refused_before_any_change(given, undo, code, router):
    router.rollback()
    router.transport.run(given)
    before = router.transport.run(SEEN).out
    with expect_error(code):
        router.commit()
    assert router.transport.run(SEEN).out == before
    router.transport.run(undo)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        # the same address with another length is another one
        ("ip addr add 192.168.18.1/24 dev left", "192.168.18.1/24"),
        # one that is lent does not become one for good
        ("ip addr add 192.168.18.1/30 dev left valid_lft 900 preferred_lft 900", "valid_lft Nsec"),
        ("ip link set right down; ip -6 addr add 2001:db8:7b::1/64 dev right", "2001:db8:7b::1/64"),
    ],
)
def test_addresses_of_before_are_restored(given, words, router):
    router.rollback()
    assert router.transport.run(given).status == 0
    before = router.transport.run(SEEN).out
    assert words in before
    router.commit()
    assert router.verify()
    assert router.transport.run(SEEN).out != before
    router.rollback()
    assert router.transport.run(SEEN).out == before
    router.transport.run("ip addr flush dev left; ip addr flush dev right; ip link set right up")


def test_an_ipv6_address_that_is_there_with_another_length_is_told():
    """Linux has an IPv6 address once; whose it is v6t leaves it."""
    with standing("linux-router", intents.ROUTER6) as bed:
        session, (address, *_) = bed.session, intents.ROUTER6.left.addresses
        session.rollback()
        other = f"{address.ip}/48"
        session.transport.run(f"ip -6 addr add {other} dev left nodad")
        before = session.transport.run(SEEN).out
        assert other in before
        with expect_error("command-failed"):
            session.commit()
        assert session.transport.run(SEEN).out == before


def test_nothing_of_a_lab_device_is_left():
    if package := missing("linux-router", "over ssh"):
        pytest.skip(f"needs {package}")
    lab = LabSshServer(sshserver.unique("gone"))
    with standing("linux-router", intents.ROUTER4, ssh={"lab": lab.name}):
        assert lab.find_pid()
    assert not lab.find_pid()
    assert not lab.directory.exists()
