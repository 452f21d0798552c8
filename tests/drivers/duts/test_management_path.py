"""Plans that would cut the management path by routes, addresses, pools or interfaces are rejected."""

import json
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from v6t.drivers.duts import management_path
from v6t.drivers.duts.facts import Facts, Interface
from v6t.drivers.duts.management_path import ManagementPath, ManagementPeer
from v6t.drivers.duts.os.openbsd import convert_route
from v6t.intent.device import LinkIntent
from v6t.tests.expect import expect_error

from . import intents, remote_site
from .support import DUMMY, make_plan, run_shell

SESSION = "10.9.9.2 50000 10.8.8.2 22"
SURVEY = """\
client 10.9.9.2 matched default via 10.8.8.1 dev mgmt
gateway 10.8.8.1 matched 10.8.8.0/24 dev mgmt proto kernel scope link src 10.8.8.2
nameserver 10.7.7.53 matched default via 10.8.8.1 dev mgmt
nameserver 10.7.7.54 host
nameserver 127.0.0.53 matched local 127.0.0.0/8 dev lo table local proto kernel scope host
jump 192.0.2.9 host 192.0.2.9 via 10.8.8.1 dev mgmt src 10.8.8.2 uid 0 \\    cache
"""


def make_path_plan(driver, intent, path, **options):
    return make_plan(
        driver, intent, {"management_path": path}, **{"ssh": {"host": "device"}, **options}
    )


def with_route(net, side="left"):
    link = getattr(intents.ROUTER4, side)
    return replace(intents.ROUTER4, **{side: replace(link, routes={net: link.addresses[0].ip + 1})})


def with_left_address(text):
    return replace(intents.ROUTER4, left=replace(intents.ROUTER4.left, addresses=[text]))


PATH = management_path.parse_management_path(SESSION, SURVEY, ["mgmt"])


def test_management_path_is_parsed_from_survey():
    assert (PATH.unknown_reason, set(PATH.interfaces)) == ("", {"mgmt"})
    assert [(p.role, str(p.address), p.prefix_length, p.interfaces) for p in PATH.peers] == [
        ("client", "10.9.9.2", 0, ("mgmt",)),
        ("gateway", "10.8.8.1", 24, ("mgmt",)),
        ("nameserver", "10.7.7.53", 0, ("mgmt",)),
        ("nameserver", "127.0.0.53", 8, ("lo",)),
        ("jump", "192.0.2.9", 0, ("mgmt",)),
        ("server", "10.8.8.2", 32, ()),
    ]


OPENBSD = "destination: 2001:db8::\n   mask: ffff:ffff::\n  interface: one\n"


@pytest.mark.parametrize(("line", "length", "devices"), [
    ("default metric 1024 pref medium\\\tnexthop via 2001:db8::3 dev one weight 1 "
     "\\\tnexthop via 2001:db8::1 dev two weight 1", 0, ("one", "two")),
    ("2001:db8:1::/64 dev one proto kernel metric 256", 64, ("one",)),
    ("2001:db8:9::9 via fe80::1 dev one", 128, ("one",)),
    (convert_route("2001:db8:9::9", OPENBSD).partition(" matched ")[2], 32, ("one",)),
])  # fmt: skip
def test_every_next_hop_belongs_to_path(line, length, devices):
    session, text = "2001:db8:9::9 5 2001:db8:1::2 22", f"client 2001:db8:9::9 matched {line}\n"
    client, _ = management_path.parse_management_path(session, text, ["one"]).peers
    assert (client.prefix_length, client.interfaces) == (length, devices)


@pytest.mark.parametrize(("session", "survey", "management"), [
    ("", "", []),
    ("10.9.9.2 5", SURVEY, ["mgmt"]),
    (SESSION, SURVEY, []),
    (SESSION, "", ["mgmt"]),
    (SESSION, "client 10.9.9.2 host\n", ["mgmt"]),
    (SESSION, "client 10.9.9.2 matched unreachable 10.9.9.2\n", ["mgmt"]),
])  # fmt: skip
def test_unknown_management_path_is_rejected(session, survey, management):
    path = management_path.parse_management_path(session, survey, management)
    assert path.unknown_reason
    for driver, options in (("linux-router", {}), ("vpp", {"start": False}), ("openbsd-pf", {})):
        with expect_error("operator-path-unknown"):
            make_path_plan(driver, intents.ROUTER4, path, **options)


_, GATEWAY, *_, SERVER = PATH.peers


def make_client_path(address, length, interface="mgmt"):
    """Make the path to a client, with the prefix length of the device's route to it."""
    return ManagementPath((ManagementPeer("client", ip_address(address), length, (interface,)),))


def without_addresses(intent):
    """Return the intent without addresses and routes, because translators act before routing."""
    return replace(intent, left=LinkIntent(), right=LinkIntent())


ROUTES6 = {"2001:db8::/32": "2001:2:0:1::2"}
ROUTED6 = replace(intents.ROUTER6, right=replace(intents.ROUTER6.right, routes=ROUTES6))
MAPT = intents.make_mapt("2001:db8:ce::/51", "64:ff9b::/96")


def make_user_options(line, **more):
    return {"steps": [{"command": line, "why": "mine", "undo": ""}], **more}


PATH_ENDS = (
    ("10.0.0.0/8", "10.9.9.2, where this SSH session comes from"),
    ("10.9.9.2/32", "10.9.9.2, where this SSH session comes from"),
    ("10.8.8.0/24", "10.8.8.1, the device's default gateway"),
    ("10.7.0.0/16", "10.7.7.53, the device's name server"),
    ("192.0.2.0/24", "192.0.2.9, a jump host"),
    ("10.8.8.2/32", "10.8.8.2, the address this SSH session came to"),
)
# Each covers a client at 10.9.9.2 behind the device's default route.
USER_COMMANDS = (
    "ip route replace 10.0.0.0/8 dev left",
    "ip r add 0.0.0.0/0 dev left",
    "route add -net 0.0.0.0/0 gw 198.18.0.2",
    # the prefix covers every client
    "echo config mine remote.v4 0.0.0.0/0 >/proc/net/nat46/control",
)
NO_SESSIONS = {"command": "echo 0", "equals": "0"}
USER_FLUSH = {"flush": [{"command": USER_COMMANDS[0], "check": NO_SESSIONS}]}
CLIENT = management_path.make_client_path(SESSION)
# Driver, intent, management path, options, and words of the error.
COLLISIONS = [
    *(("linux-router", with_route(net, side), PATH, {}, f"{side} route {net} would cut the path to {peer}")
      for net, peer in PATH_ENDS for side in ("left", "right")),
    ("linux-router", with_left_address("10.9.9.77/24"), PATH, {}, "left address 10.9.9.77/24"),
    ("linux-router", ROUTED6, make_client_path("2001:db8:5::9", 0), {}, "2001:db8:5::9, where this"),
    ("linux-router", with_route("0.0.0.0/0"), make_client_path("10.9.9.2", 0), {}, "10.9.9.2"),
    ("linux-router", with_route("10.9.9.0/25"), make_client_path("10.9.9.2", 25), {}, "10.9.9.2"),
    # 0.0.0.0/1 and 128.0.0.0/1 are more specific than the default route
    ("nat46", intents.make_intent("mapt-ce"), make_client_path("10.9.9.2", 0), {}, "0.0.0.0/1 would cut the path to 10.9.9.2"),
    ("nftables", without_addresses(intents.make_nat44()), make_client_path("198.18.0.77", 32), {}, "inside4 198.18.0.0/24"),
    ("nftables", without_addresses(intents.make_nat44()), make_client_path("198.19.0.1", 32), {}, "pool4 198.19.0.1/32"),
    ("jool", without_addresses(intents.make_nat64("64:ff9b::/96")), make_client_path("64:ff9b::5", 128), {}, "prefix 64:ff9b::/96"),
    ("jool", without_addresses(MAPT), make_client_path("192.0.2.9", 32), {}, "rules.ipv4_prefix 192.0.2.0/24"),
    # TAYGA's dynamic pool is not part of the intent
    ("tayga-nftables", intents.make_nat64(), make_client_path("192.168.255.9", 0), {}, "192.168.255.9"),
    *(("command", intents.ROUTER4, PATH, make_user_options(line), "(mine) with") for line in USER_COMMANDS),
    *(("command", intents.ROUTER4, CLIENT, make_user_options(line, base=False), "step 1 (mine) with") for line in USER_COMMANDS),
    ("command", intents.ROUTER4, PATH, USER_FLUSH, "step (empty the device's state) with"),
]  # fmt: skip
UNKNOWN = ManagementPath(unknown_reason="nobody is there")
NO_COLLISIONS = [
    ("linux-router", intents.ROUTER4, UNKNOWN, {"ssh": None}),  # a device in the lab
    ("linux-router", with_left_address("10.9.9.77/32"), PATH, {}),
    ("linux-router", with_route("10.8.0.0/16"), ManagementPath((GATEWAY, SERVER)), {}),
    ("linux-router", with_route("10.9.8.0/24"), PATH, {}),
    ("linux-router", with_route("198.18.0.0/15"), PATH, {}),
    # the device reaches the client by 10.9.9.0/25, regardless of the test's 10.9.0.0/16
    ("linux-router", with_route("10.9.0.0/16"), make_client_path("10.9.9.2", 25), {}),
    ("linux-router", with_route("10.9.9.0/24"), replace(PATH, vrf="management"), {}),
    # the translator maps all addresses, but has no route for them
    ("nat46", intents.make_intent("clat"), make_client_path("10.9.9.2", 0), {}),
    ("nat46", intents.make_intent("mapt-ce"), make_client_path("10.9.9.2", 24), {}),
    # these devices have no routes in the kernel
    ("snabb-lwaftr", intents.make_lwaftr(), make_client_path("192.0.2.80", 0), {}),
    ("vpp", intents.ROUTER4, make_client_path("192.0.2.80", 0), {"start": False}),
    *(("command", intents.ROUTER4, PATH, make_user_options(line))
      for line in ("ip -6 r a default dev left", "ip r show default", "ip r g 10.9.9.2")),
]  # fmt: skip


@pytest.mark.parametrize(("driver", "intent", "path", "options", "text"), COLLISIONS)
def test_plan_that_cuts_management_path_is_rejected(driver, intent, path, options, text):
    with expect_error("operator-path-in-use", mentions=text):
        make_path_plan(driver, intent, path, **options)


@pytest.mark.parametrize(("driver", "intent", "path", "options"), NO_COLLISIONS)
def test_plan_outside_management_path_is_accepted(driver, intent, path, options):
    assert make_path_plan(driver, intent, path, **options).steps


def test_return_interface_is_protected():
    """Packets may leave by another interface than they arrive on."""
    with expect_error("interface-protected", mentions="10.9.9.2"):
        make_path_plan("linux-router", intents.ROUTER4, make_client_path("10.9.9.2", 0, "left"))


def test_bridge_over_vlan_is_followed_to_interface():
    ports = {
        "br0": Interface("02:00:00:00:00:10"),
        "eth0.10": Interface("02:00:00:00:00:11", master="br0", lower_interface="eth0"),
        "eth0": Interface("02:00:00:00:00:12", master="bond0"),
        "eth1": Interface("02:00:00:00:00:13", master="bond0"),
        "bond0": Interface("02:00:00:00:00:14"),
        "eth2": Interface("02:00:00:00:00:15"),
        "bond0.7": Interface("02:00:00:00:00:16", lower_interface="bond0"),
    }

    def find(management):
        facts = Facts("Linux", "6", interfaces=ports, management_interfaces={management})
        return facts.find_protected_interfaces()

    assert set(find("br0")) == {"br0", "eth0.10", "eth0"}
    assert "eth0.10" in find("br0")["eth0"]
    assert set(find("bond0.7")) == {"bond0.7", "bond0", "eth0", "eth1"}


def survey_path(answers):
    """Run the survey with a fake ``ip`` that has only these answers."""
    cases = "".join(f"'{words}') printf '%s\\n' '{out}';;\n" for words, out in answers.items())
    fake = f'ip() {{ case "$*" in\n{cases}*) return 2;;\nesac; }}\n'
    env = {"PATH": "/usr/bin:/bin", "SSH_CONNECTION": SESSION}
    result = run_shell(fake + management_path.make_survey_command(), check=False, env=env)
    return [line for line in result.stdout.splitlines() if not line.startswith("nameserver")]


def test_routes_of_vrf_are_surveyed():
    answers = {
        "-o addr show to 10.8.8.2": "3: mgmt    inet 10.8.8.2/24 scope global mgmt",
        "-o link show dev mgmt": "3: mgmt: <UP> mtu 1500 qdisc noqueue master red state UP",
        "-d -o link show dev red": "5: red: <UP> mtu 65575 \\    vrf table 10 addrgenmode eui64",
        "-o -4 route get fibmatch 10.9.9.2 vrf red": "default via 10.8.8.1 dev mgmt table 10",
        "-o -4 route show default vrf red": "default via 10.8.8.1 dev mgmt",
        "-o -4 route get fibmatch 10.8.8.1 oif mgmt vrf red": "10.8.8.0/24 dev mgmt table 10",
    }
    output = survey_path(answers)
    assert output == [
        "vrf red",
        "client 10.9.9.2 matched default via 10.8.8.1 dev mgmt table 10",
        "gateway 10.8.8.1 matched 10.8.8.0/24 dev mgmt table 10",
    ]
    assert management_path.parse_management_path(SESSION, "\n".join(output), ["mgmt"]).vrf == "red"


def test_survey_works_without_fibmatch():
    answers = {
        "-o addr show to 10.8.8.2": "3: mgmt    inet 10.8.8.2/24 scope global mgmt",
        "-o link show dev mgmt": "3: mgmt: <UP> mtu 1500 qdisc noqueue state UP",
        "-o -4 route get 10.9.9.2": "10.9.9.2 via 10.8.8.1 dev mgmt src 10.8.8.2",
    }
    expected = ["client 10.9.9.2 host 10.9.9.2 via 10.8.8.1 dev mgmt src 10.8.8.2"]
    assert survey_path(answers) == expected


@pytest.mark.parametrize("command", [
    management_path.CLIENT_COMMAND,
    management_path.MANAGEMENT_INTERFACE_COMMAND,
    management_path.make_survey_command(["192.0.2.9"]),
], ids=["client", "interface", "routes"])  # fmt: skip
def test_survey_without_client_address_is_empty(command):
    assert run_shell(command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout.strip() == ""


ROUTER = ("--plugin", "ipv4-router")


@pytest.mark.lab
def test_commit_that_affects_session_is_rejected(site):
    """A link-local address has a zone, and the interface that it names is protected."""
    before = site.read_state()
    for words, options, what in (
        ("left_ipv4=10.9.9.77", {}, "10.9.9.2, where this SSH session comes from"),
        ("right_ipv4=10.8.8.77", {}, "10.8.8.1, the device's default gateway"),
        ("left_ipv4=10.7.7.1", {}, "10.7.7.53, the device's name server"),
        ("ttl=64", {"left": "mgmt"}, "interface mgmt"),
        ("ttl=64", {"left": "near", "host": remote_site.LINK_LOCAL}, "interface near"),
    ):
        flags = ("--testbed", site.write_testbed(**options), *ROUTER, "--set", words)
        assert what in site.v6t("dut", "commit", *flags, status=4)
    assert site.read_state() == before
    bed = site.write_testbed(host=remote_site.LINK_LOCAL)
    assert "stays so" in site.v6t("dut", "commit", "--testbed", bed, *ROUTER)
    site.v6t("dut", "rollback", "--testbed", bed, *ROUTER)
    assert site.read_state() == before


MISSING_TREX = {"kind": "trex", "options": {"start": "never", "trex_dir": "/nowhere"}}


def find_device_findings(site, *words, **options):
    path = site.write_testbed(tester=MISSING_TREX, **options)
    output = site.v6t("doctor", "--testbed", path, "--json", *words, status=3)
    return [(f["state"], f["text"]) for f in json.loads(output) if f["what"] == "device"]


@pytest.mark.lab
def test_doctor_accepts_usable_device_and_notes_configured_one(site):
    before = site.read_state()
    rows = find_device_findings(site, *ROUTER)
    assert {state for state, _ in rows} == {"ok"}
    words = ("logged in", "Linux", "not touched: ", "mgmt (", "configured as ipv4-router")
    assert [word for word in words if word not in str(rows)] == []
    assert site.read_state() == before
    configured = {"driver": "command", "base": False, "steps": [DUMMY], "undo_after_s": 0}
    path = site.write_testbed(**configured)
    site.v6t("dut", "commit", "--testbed", path, *ROUTER)
    rows = find_device_findings(site, **configured)
    assert "note" in {state for state, _ in rows}, rows
    site.v6t("dut", "rollback", "--testbed", path)


@pytest.mark.lab
def test_doctor_reports_wrong_interface_and_unreachable_device(site):
    for options, words in (
        ({"left": "right-cable"}, "MAC"),
        ({"left": "mgmt"}, "left interface mgmt"),
        ({"driver": "nftables", "ssh": {"port": 9}}, "cannot be reached"),
    ):
        *others, (state, text) = find_device_findings(site, **options)
        assert (state, words in text) == ("missing", True)
    assert others == []  # nothing else is known about an unreachable device


@pytest.mark.parametrize("requirement", ["route_updates", "live_change"])
def test_live_change_cannot_cut_management_path(requirement):
    intent = intents.with_requirements(intents.ROUTER4, **{requirement: True})
    change = make_path_plan("linux-router", intent, None)
    net = ip_network((change.route_update or change.live_change).show_command.split()[-1])
    with expect_error("operator-path-in-use"):
        make_path_plan("linux-router", intent, make_client_path(net[9], 0))
    make_path_plan("linux-router", intent, make_client_path(net[9], 32))
