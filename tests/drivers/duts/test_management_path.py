"""The operator's own way to a device is never taken: by no route, address, pool or interface."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from v6t.drivers.duts import management_path
from v6t.drivers.duts.facts import Facts, Interface
from v6t.drivers.duts.management_path import ManagementPath, ManagementPeer
from v6t.drivers.duts.os.openbsd import parse_route_back
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import LinkIntent
from v6t.plugins.map_ce import MapTCe
from v6t.plugins.siit import Clat
from v6t.tests.expect import expect_error

from . import field, intents, sshserver

SSH = {"ssh": {"host": "device"}}
SESSION = "10.9.9.2 50000 10.8.8.2 22"
LOOKED = """\
client 10.9.9.2 matched default via 10.8.8.1 dev mgmt
gateway 10.8.8.1 matched 10.8.8.0/24 dev mgmt proto kernel scope link src 10.8.8.2
nameserver 10.7.7.53 matched default via 10.8.8.1 dev mgmt
nameserver 10.7.7.54 host
nameserver 127.0.0.53 matched local 127.0.0.0/8 dev lo table local proto kernel scope host
jump 192.0.2.9 host 192.0.2.9 via 10.8.8.1 dev mgmt src 10.8.8.2 uid 0 \\    cache
"""


def facts(driver, intent, seen):
    return replace(driver.make_example_facts(intent), management_path=seen)


def planned(driver, intent, seen, **options):
    made = make_driver(driver, {**SSH, **options})
    return made.plan(intent, facts(made, intent, seen))


def routed(net, side="left"):
    given = getattr(intents.ROUTER4, side)
    changed = replace(given, routes={net: given.addresses[0].ip + 1})
    return replace(intents.ROUTER4, **{side: changed})


def addressed(text):
    return replace(intents.ROUTER4, left=replace(intents.ROUTER4.left, addresses=[text]))


# ---------------------------------------------------------- what a device says


def test_what_the_device_says_of_its_way():
    seen = management_path.parse_management_path(SESSION, LOOKED, ["mgmt"])
    assert seen.unknown_reason == ""
    assert [(p.role, str(p.address), p.length, p.devices) for p in seen.peers] == [
        ("client", "10.9.9.2", 0, ("mgmt",)),
        ("gateway", "10.8.8.1", 24, ("mgmt",)),
        ("nameserver", "10.7.7.53", 0, ("mgmt",)),
        ("nameserver", "127.0.0.53", 8, ("lo",)),
        ("jump", "192.0.2.9", 0, ("mgmt",)),
        ("server", "10.8.8.2", 32, ()),
    ]
    assert set(seen.devices) == {"mgmt"}


@pytest.mark.parametrize(
    ("line", "length", "devices"),
    [
        (
            "default metric 1024 pref medium\\\tnexthop via 2001:db8::3 dev one weight 1 "
            "\\\tnexthop via 2001:db8::1 dev two weight 1",
            0,
            ("one", "two"),
        ),
        ("2001:db8:1::/64 dev one proto kernel metric 256", 64, ("one",)),
        ("2001:db8:9::9 via fe80::1 dev one", 128, ("one",)),
    ],
)
def test_every_next_hop_is_part_of_it(line, length, devices):
    text = f"client 2001:db8:9::9 matched {line}\n"
    (client, _) = management_path.parse_management_path(
        "2001:db8:9::9 5 2001:db8:1::2 22", text, ["one"]
    ).peers
    assert (client.length, client.devices) == (length, devices)


@pytest.mark.parametrize(
    ("session", "looked", "management"),
    [
        ("", "", []),
        ("10.9.9.2 5", LOOKED, ["mgmt"]),
        (SESSION, LOOKED, []),
        (SESSION, "", ["mgmt"]),
        (SESSION, "client 10.9.9.2 host\n", ["mgmt"]),
        (SESSION, "client 10.9.9.2 matched unreachable 10.9.9.2\n", ["mgmt"]),
    ],
)
@pytest.mark.parametrize("driver", ["linux-router", "vpp", "openbsd-pf"])
def test_a_way_that_cannot_be_told_is_a_refusal(driver, session, looked, management):
    seen = management_path.parse_management_path(session, looked, management)
    assert seen.unknown_reason
    with expect_error("operator-path-unknown"):
        planned(driver, intents.ROUTER4, seen, **({"start": False} if driver == "vpp" else {}))


def test_a_device_of_the_lab_has_no_operator():
    made = make_driver("linux-router", {})
    made.plan(
        intents.ROUTER4,
        facts(made, intents.ROUTER4, ManagementPath(unknown_reason="nobody is there")),
    )


# -------------------------------------------------------------------- collisions


@pytest.fixture
def seen():
    return management_path.parse_management_path(SESSION, LOOKED, ["mgmt"])


def refused(text, driver, intent, seen, **options):
    with expect_error("operator-path-in-use") as info:
        planned(driver, intent, seen, **options)
    assert text in info.value.message


@pytest.mark.parametrize(
    ("net", "who"),
    [
        ("10.9.9.0/24", "10.9.9.2, where this SSH session comes from"),
        ("10.0.0.0/8", "10.9.9.2, where this SSH session comes from"),
        ("10.9.9.2/32", "10.9.9.2, where this SSH session comes from"),
        ("10.8.8.0/25", "10.8.8.1, the device's default gateway"),
        ("10.8.8.0/24", "10.8.8.1, the device's default gateway"),
        ("10.7.0.0/16", "10.7.7.53, the device's name server"),
        ("192.0.2.0/24", "192.0.2.9, a jump host"),
        ("10.8.8.2/32", "10.8.8.2, the address this SSH session came to"),
    ],
)
def test_a_route_that_would_take_the_way_is_refused_by_name(net, who, seen):
    for side in ("left", "right"):
        text = f"{side} route {net} would take the way to {who}"
        refused(text, "linux-router", routed(net, side), seen)


@pytest.mark.parametrize("net", ["10.8.0.0/16", "10.9.8.0/24", "198.18.0.0/15"])
def test_a_route_that_takes_nothing_is_none_of_our_business(net, seen):
    alone = ManagementPath(tuple(p for p in seen.peers if p.role in ("gateway", "server")))
    planned("linux-router", routed(net), alone if net == "10.8.0.0/16" else seen)


def test_everything_in_a_mapping_is_no_route(seen):
    """A CLAT by nat46, whose rule holds 0.0.0.0/0, for a client behind the device's default route."""
    client = ManagementPath((replace(seen.peers[0], length=0),))
    planned("nat46", Clat().dut_intent(), client)
    refused("10.9.9.2", "linux-router", routed("0.0.0.0/0"), client)


def test_a_ce_that_takes_all_of_ipv4_is_a_route(seen):
    """Its two halves beside the default route are longer than that."""
    client = ManagementPath((replace(seen.peers[0], length=0),))
    refused("with 0.0.0.0/1 would take the way to 10.9.9.2", "nat46", MapTCe().dut_intent(), client)
    planned("nat46", MapTCe().dut_intent(), ManagementPath((replace(seen.peers[0], length=24),)))


def test_a_more_specific_route_of_the_devices_own_stays(seen):
    """The device reaches the client by 10.9.9.0/25, whatever the test does with 10.9.0.0/16."""
    client = replace(seen.peers[0], length=25)
    planned("linux-router", routed("10.9.0.0/16"), ManagementPath((client,)))
    refused("10.9.9.2", "linux-router", routed("10.9.9.0/25"), ManagementPath((client,)))


def test_an_address_attracts_its_network(seen):
    """The command of the finding: ``--set left_ipv4=10.9.9.77``."""
    refused("left address 10.9.9.77/24", "linux-router", addressed("10.9.9.77/24"), seen)
    planned("linux-router", addressed("10.9.9.77/32"), seen)


def test_ipv6_as_well():
    peer = ManagementPeer("client", ip_address("2001:db8:5::9"), 0, ("mgmt",))
    right = replace(intents.ROUTER6.right, routes={"2001:db8::/32": "2001:2:0:1::2"})
    given = replace(intents.ROUTER6, right=right)
    refused("2001:db8:5::9, where this", "linux-router", given, ManagementPath((peer,)))


@pytest.mark.parametrize(
    ("driver", "intent", "client", "what"),
    [
        ("nftables", intents.nat44(), "198.18.0.77", "inside4 198.18.0.0/24"),
        ("nftables", intents.nat44(), "198.19.0.1", "pool4 198.19.0.1/32"),
        ("jool", intents.nat64("64:ff9b::/96"), "64:ff9b::5", "prefix 64:ff9b::/96"),
        ("jool", intents.mapt("2001:db8:ce::/51", "64:ff9b::/96"), "192.0.2.9",
         "rules.ipv4_prefix 192.0.2.0/24"),
    ],
)  # fmt: skip
def test_a_pool_or_rule_that_holds_a_peer_is_refused(driver, intent, client, what):
    """Whatever route leads there: a translator takes the packets before they are routed."""
    peer = ManagementPeer("client", ip_address(client), ip_address(client).max_prefixlen, ("mgmt",))
    quiet = replace(intent, left=LinkIntent(), right=LinkIntent())
    refused(what, driver, quiet, ManagementPath((peer,)))


def test_what_a_driver_adds_of_its_own_counts():
    """TAYGA's pool between its two parts is in no intent."""
    peer = ManagementPeer("client", ip_address("192.168.255.9"), 0, ("mgmt",))
    refused("192.168.255.", "tayga-nftables", intents.nat64(), ManagementPath((peer,)))


TYPED = [
    "ip route replace 10.0.0.0/8 dev left",
    "ip r add 0.0.0.0/0 dev left",
    "route add -net 0.0.0.0/0 gw 198.18.0.2",
    # a prefix of everything counts wherever it stands
    "echo config mine remote.v4 0.0.0.0/0 >/proc/net/nat46/control",
]
"""Each would take the way of a client at 10.9.9.2, behind the device's default route."""


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("line", TYPED)
def test_the_users_own_lines_count(line, base, seen):
    steps = [{"command": line, "why": "mine", "undo": ""}]
    if not base:
        seen = management_path.make_client_path(SESSION)
    refused("step 1 (mine) with" if not base else "(mine) with", "command", intents.ROUTER4, seen,
            steps=steps, base=base)  # fmt: skip


def test_users_flush_that_takes_the_way_is_refused(seen):
    flush = [{"command": TYPED[0], "check": {"command": "echo 0", "equals": "0"}}]
    refused("step (empty the device's state) with", "command", intents.ROUTER4, seen, flush=flush)


@pytest.mark.parametrize(
    "line", ["ip -6 r a default dev left", "ip r show default", "ip r g 10.9.9.2"]
)
def test_users_lines_that_take_nobodys_way(line, seen):
    steps = [{"command": line, "why": "mine", "undo": ""}]
    planned("command", intents.ROUTER4, seen, steps=steps)


def test_routes_of_another_routing_domain_take_nothing(seen):
    planned("linux-router", routed("10.9.9.0/24"), replace(seen, vrf="management"))


@pytest.mark.parametrize("driver", ["vpp", "snabb-lwaftr"])
def test_routes_outside_of_the_kernel_take_nothing(driver):
    intent = intents.ROUTER4 if driver == "vpp" else intents.lwaftr()
    peer = ManagementPeer("client", ip_address("192.0.2.80"), 0, ("mgmt",))
    options = {"start": False} if driver == "vpp" else {}
    planned(driver, intent, ManagementPath((peer,)), **options)


# -------------------------------------------------------------------- interfaces


def test_the_interface_of_the_way_back_is_not_touched(seen):
    """Packets may leave by another interface than they came in by."""
    aside = ManagementPath((ManagementPeer("client", ip_address("10.9.9.2"), 0, ("left",)),))
    with expect_error("interface-protected", mentions="10.9.9.2"):
        planned("linux-router", intents.ROUTER4, aside)


def test_a_bridge_over_a_vlan_over_an_interface():
    ports = {
        "br0": Interface("02:00:00:00:00:10"),
        "eth0.10": Interface("02:00:00:00:00:11", master="br0", lower_interface="eth0"),
        "eth0": Interface("02:00:00:00:00:12", master="bond0"),
        "eth1": Interface("02:00:00:00:00:13", master="bond0"),
        "bond0": Interface("02:00:00:00:00:14"),
        "eth2": Interface("02:00:00:00:00:15"),
    }
    found = Facts(
        "Linux", "6", interfaces=ports, management_interfaces=frozenset({"br0"})
    ).find_protected_interfaces()
    assert set(found) == {"br0", "eth0.10", "eth0"}
    assert "eth0.10" in found["eth0"]
    over = {**ports, "bond0.7": Interface("02:00:00:00:00:16", lower_interface="bond0")}
    found = Facts(
        "Linux", "6", interfaces=over, management_interfaces=frozenset({"bond0.7"})
    ).find_protected_interfaces()
    assert set(found) == {"bond0.7", "bond0", "eth0", "eth1"}


# ------------------------------------------------------------------- shell lines


def shell(line, tmp_path, answers, session):
    """The line with an ``ip`` that knows only these answers."""
    cases = "".join(f"'{asked}') printf '%s\\n' '{said}';;\n" for asked, said in answers.items())
    fake = tmp_path / "ip"
    fake.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 2;;\nesac\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", line],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SSH_CONNECTION": session},
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if not line.startswith("nameserver")]


def test_a_virtual_routing_domain_is_asked_for_its_own_routes(tmp_path):
    answers = {
        "-o addr show to 10.8.8.2": "3: mgmt    inet 10.8.8.2/24 scope global mgmt",
        "-o link show dev mgmt": "3: mgmt: <UP> mtu 1500 qdisc noqueue master red state UP",
        "-d -o link show dev red": "5: red: <UP> mtu 65575 \\    vrf table 10 addrgenmode eui64",
        "-o -4 route get fibmatch 10.9.9.2 vrf red": "default via 10.8.8.1 dev mgmt table 10",
        "-o -4 route show default vrf red": "default via 10.8.8.1 dev mgmt",
        "-o -4 route get fibmatch 10.8.8.1 oif mgmt vrf red": "10.8.8.0/24 dev mgmt table 10",
    }
    said = shell(management_path.make_survey_command(), tmp_path, answers, SESSION)
    assert said == [
        "vrf red",
        "client 10.9.9.2 matched default via 10.8.8.1 dev mgmt table 10",
        "gateway 10.8.8.1 matched 10.8.8.0/24 dev mgmt table 10",
    ]
    assert management_path.parse_management_path(SESSION, "\n".join(said), ["mgmt"]).vrf == "red"


def test_an_ip_that_cannot_show_the_matching_route_is_asked_otherwise(tmp_path):
    answers = {
        "-o addr show to 10.8.8.2": "3: mgmt    inet 10.8.8.2/24 scope global mgmt",
        "-o link show dev mgmt": "3: mgmt: <UP> mtu 1500 qdisc noqueue state UP",
        "-o -4 route get 10.9.9.2": "10.9.9.2 via 10.8.8.1 dev mgmt src 10.8.8.2",
    }
    said = shell(management_path.make_survey_command(), tmp_path, answers, SESSION)
    assert said == ["client 10.9.9.2 host 10.9.9.2 via 10.8.8.1 dev mgmt src 10.8.8.2"]


def test_openbsds_words():
    six = "destination: 2001:db8::\n   mask: ffff:ffff::\n  interface: em0\n"
    way = parse_route_back("2001:db8::9", six)
    (client, _) = management_path.parse_management_path(
        "2001:db8::9 5 2001:db8::2 22", way, ["em0"]
    ).peers
    assert (client.length, client.devices) == (32, ("em0",))
    assert parse_route_back("10.9.9.2", "route: writing to routing socket: not in table") == ""


# -------------------------------------------------- a device behind a router


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if sshserver.lacking() is not None:
        pytest.skip(f"needs {sshserver.lacking()}")
    made = field.Field("way", tmp_path_factory.mktemp("field"))
    yield made
    made.close()


ROUTER = ("--plugin", "ipv4-router")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--set", "left_ipv4=10.9.9.77"), "10.9.9.2, where this SSH session comes from"),
        (("--set", "right_ipv4=10.8.8.77"), "10.8.8.1, the device's default gateway"),
        (("--set", "left_ipv4=10.7.7.1"), "10.7.7.53, the device's name server"),
    ],
)
def test_s1_the_way_to_a_device_behind_a_router_is_not_taken(site, words, what):
    before = site.state()
    said = site.v6t("dut", "commit", "--testbed", site.testbed(), *ROUTER, *words, status=4)
    assert what in said
    assert "nothing was changed" in said
    assert site.state() == before


@pytest.mark.lab
@pytest.mark.parametrize("host", [field.DEVICE, field.LINK_LOCAL])
def test_s6_the_interface_of_the_session_is_not_touched(site, host):
    """A link-local login has a zone; the interface it names is protected like any other."""
    port = "mgmt" if host == field.DEVICE else "near"
    before = site.state()
    bed = site.testbed(host=host, left=port)
    said = site.v6t("dut", "commit", "--testbed", bed, *ROUTER, status=4)
    assert f"interface {port}" in said
    assert site.state() == before


@pytest.mark.lab
def test_s6_a_session_that_hides_where_it_comes_from(site):
    hide = """ForceCommand exec env -u SSH_CONNECTION sh -c "$SSH_ORIGINAL_COMMAND"\n"""
    site.configure_sshd(field.SSHD + hide)
    try:
        before = site.state()
        said = site.v6t("dut", "commit", "--testbed", site.testbed(), *ROUTER, status=4)
        assert "[operator-path-unknown]" in said
        assert site.state() == before
    finally:
        site.configure_sshd(field.SSHD)


@pytest.mark.lab
@pytest.mark.parametrize("host", [field.DEVICE, field.LINK_LOCAL])
def test_a_test_that_takes_nothing_is_configured_and_restored(site, host):
    before = site.state()
    bed = site.testbed(host=host)
    assert "stays so" in site.v6t("dut", "commit", "--testbed", bed, *ROUTER)
    assert site.state() != before
    site.v6t("dut", "rollback", "--testbed", bed, *ROUTER)
    assert site.state() == before


@pytest.mark.parametrize("asked", ["route_updates", "live_change"])
def test_what_is_changed_under_traffic_takes_nobodys_way(asked):
    """It is no step of the plan, and a route all the same: an operator may live in documentation's networks."""
    intent = intents.requiring(intents.ROUTER4, **{asked: True})
    change = planned("linux-router", intent, None)
    net = ip_network((change.route_update or change.live_change).show_command.split()[-1])
    with expect_error("operator-path-in-use"):
        planned("linux-router", intent, ManagementPath((ManagementPeer("client", net[9], 0),)))
    planned("linux-router", intent, ManagementPath((ManagementPeer("client", net[9], 32),)))
