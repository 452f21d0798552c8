"""Versions of programs, and settings and versions that a driver rejects before any change."""

import hashlib
import re
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.kinds.ip6_tunnel import format_drop_rules
from v6t.drivers.duts.kinds.network_cli.session import BUSY_CHECK_REJECTED
from v6t.drivers.duts.registry import make_driver
from v6t.tests.expect import expect_error

from . import intents, parameter_values
from .cli_dialects import IOS
from .support import make_plan, mark_lab_test, needs_nft, read_captured, run_shell

EAM = {"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"}
SIIT_PARAMS = {"eam": [EAM], "prefix": "2001:db8:64::/96"}
VERSIONS = ("unknown", "0.9.2-8", "0.9.2-10", "0.9.4", "0.9.5", "0.9.6", "0.9.6-16-g8a028c7")


def is_rejected(driver, intent, **options):
    try:
        make_plan(driver, intent, **options)
    except UsageError:
        return True
    return False


def make_siit(**params):
    return intents.make_intent("siit", **{**SIIT_PARAMS, **params})


def make_mapped_siit(ipv6):
    eam = [EAM, {"ipv4": "198.19.0.0/24", "ipv6": ipv6}]
    return make_siit(eam=eam, prefix=None, ipv4_hosts={"first": "198.19.0.0"})


@pytest.mark.parametrize(("intent", "options", "versions"), [
    (intents.SIIT, {}, ()),
    (intents.make_intent("nat64"), {}, ()),
    (make_siit(ipv4_hosts={"first": "100.64.0.1"}), {}, ()),  # the prefix is not the Well-Known Prefix
    (make_mapped_siit("64:ff9b::/120"), {}, VERSIONS[:5]),
    (make_mapped_siit("64:ff9b:1::/120"), {}, VERSIONS[:3]),
    (make_mapped_siit("100::/120"), {}, ()),
    (intents.make_intent("nat64", prefix="64:ff9b:1::/48", responder_ipv4="9.9.9.9"), {}, VERSIONS[:2]),
    (intents.make_intent("nat64", prefix="64:ff9b::/64", responder_ipv4="9.9.9.9"), {}, VERSIONS[:2]),
    (intents.make_intent("nat64", prefix="2001:db8:64::/48", responder_ipv4="9.9.9.9"), {}, ()),
    (intents.make_intent("nat64", prefix="wkp", responder_ipv4="9.9.9.9"), {}, ()),
    (intents.make_intent("nat64", prefix="wkp", responder_ipv4="100.64.0.1"), {}, VERSIONS[3:]),
    (intents.make_intent("nat64", prefix="wkp", responder_ipv4="192.168.7.7"), {}, VERSIONS),
    (make_siit(prefix="64:ff9b::/96", ipv4_hosts={"first": "198.18.0.2"}, ipv6_hosts={"first": "9.9.9.9"}), {}, ()),
    (intents.make_intent("nat64"), {"dynamic_pool": "240.0.0.0/24"}, VERSIONS[:3]),  # a reserved pool
])  # fmt: skip
def test_tayga_versions_reject_unsupported_addresses(intent, options, versions):
    driver = {"siit": "tayga", "nat64": "tayga-nftables"}[intent.technology]
    rejecting = tuple(v for v in VERSIONS if is_rejected(driver, intent, version=v, **options))
    assert rejecting == versions


@pytest.mark.parametrize(("driver", "option", "valid", "wrong", "code"), [
    # v6t identifies a daemon by the name of its program
    ("tundra", "program", "/opt/tundra-nat64", "/opt/tundra-nat64-6.0.2", "wrong-form"),
    ("tayga", "program", "/opt/tayga", "/opt/tayga-6.0.2", "wrong-form"),
    ("tayga-nftables", "program", "/opt/tayga", "/opt/tayga-6.0.2", "wrong-form"),
    ("tayga-nftables", "dynamic_pool", "10.0.0.0/30", "10.0.0.1/30", "not-a-prefix"),
])  # fmt: skip
def test_wrong_option_is_rejected(driver, option, valid, wrong, code):
    make_driver(driver, {option: valid})
    with expect_error(code, path=[option]):
        make_driver(driver, {option: wrong})


def test_recursor_versions_with_unknown_settings_are_rejected():
    versions = ("4.3.9", "4.4.0", "4.8", "4.8.8", "5.1.7", "5.2.0", "5.3.1")
    rejected = [
        v for v in versions if is_rejected("pdns-recursor", intents.make_intent("dns64"), version=v)
    ]
    assert rejected == ["4.3.9", "5.2.0", "5.3.1"]


RUNNING, EI = {"start": False}, {"nat44": "ei"}
OLD_TAYGA = {"version": "0.9.2-8"}
MAPE, NAT44, NAT64 = intents.make_paper_mape(), intents.make_nat44(), intents.make_nat64()
MAPT, MAPT_CE = (
    intents.make_mapt("2001:db8:ce::/51", "64:ff9b::/96"),
    intents.make_intent("mapt-ce"),
)
LWB4, NPT = intents.make_intent("lwb4"), intents.make_intent("nptv6")
# Sections of the survey.
LOADED = {"plugins": read_captured("vpp-show-plugins.txt"), "ipip": ""}
LISTED = "/usr/lib/vpp_plugins:\nmap_plugin.so\nnat_plugin.so\n"
INSTANCES = read_captured("jool-nat64-instances.txt")
HARDWARE = {**LOADED, "hardware": read_captured("vpp-show-hardware.txt")}
IFCONFIG = read_captured("openbsd-ifconfig.txt")
EM = {"left": "em0", "right": "em1"}
HOST = {**RUNNING, "left": "host-left", "right": "host-right"}
PCI = "eno1 0000:03:00.1\neno2 0000:03:00.0\nlo \n"
SNABB = {"left": "03:00.0", "right": "03:00.1"}
PCI_WITH_KERNEL_DRIVER = "eno2 0000:03:00.0{}\neno3 0000:04:00.0 192.0.2.9/24\n"

# output of pfctl -nvf for a file with an address list and an anchor
PF_FILE = """\
set skip on { lo }
table <__automatic_0> const { 10.1.0.0/16 10.2.0.1 }
block return all
pass out quick inet proto tcp from <__automatic_0> to any flags S/SA
anchor "ftp" all

Loading anchor ftp from /etc/ftp.conf
pass in proto tcp from any to any port = 21 flags S/SA
"""
# output of pfctl -sr after loading (pf_opt_create_table, sbin/pfctl/pfctl_optimize.c)
PF_RULES = """\
block return all
pass out quick inet proto tcp from <__automatic_7c3e19f0_0> to any flags S/SA
anchor "ftp" all
"""
# output of pfctl -t NAME -T show in the survey (print_addrx, sbin/pfctl/pfctl_table.c)
PF_TABLES = "table <__automatic_7c3e19f0_0> const { 10.2.0.1 10.1.0.0/16 }\n"
PF = {"file": PF_FILE, "rules": PF_RULES, "tables": PF_TABLES}


def with_left_mac(mac):
    links = intents.ROUTER6.links
    left = links.left.model_copy(update={"dut_mac": mac})
    return replace(intents.ROUTER6, links=replace(links, left=left))


def make_ports(**changes):
    macs = {name: getattr(intents.LINKS, name).dut_mac for name in ("left", "right")}
    return {name: Interface(mac, **changes) for name, mac in macs.items()}


def have_eno2(*, is_up):
    return {"eno2": Interface("02:00:00:00:00:01", is_up=is_up)}


CLI = {**IOS, "ssh": {"host": "192.0.2.9"}}
BUSY = {**CLI, "busy": {"command": "show users", "pattern": "vty 1.*"}}
PREFIX = {"prefix": "2001:db8:64::/96"}
RIGHT_NETWORK_IN_POOL = {"dut_right_ipv4": "192.168.255.1/30", "tester_right_ipv4": "192.168.255.2"}
TAYGA_NETWORK = {"dut_left_ipv6": "fd76:3674::1/64", "tester_left_ipv6": "fd76:3674::2"}
# Driver, intent, options, and changes of the example facts.
ACCEPTED = [
    ("vpp", MAPE, RUNNING, {"sections": LOADED}),
    ("vpp", intents.ROUTER4, RUNNING, {"sections": LOADED}),
    ("vpp", NAT44, RUNNING, {"sections": LOADED}),
    ("vpp", LWB4, RUNNING, {"sections": LOADED}),
    # a VPP that v6t starts
    ("vpp", MAPE, {}, {"sections": {"plugins": LISTED}}),
    ("vpp", MAPE, {}, {"sections": {"plugins": ""}}),
    ("vpp", with_left_mac("02:00:00:00:01:01"), HOST, {"sections": HARDWARE}),
    ("jool", NAT64, {}, {"sections": {"instances_jool": INSTANCES}}),
    ("jool", MAPT, {"version": "4.2.0-rc3"}, {}),
    ("tayga", intents.SIIT, {"workers": 2, "version": "0.9.6-16-g8a028c7"}, {}),
    ("tayga", intents.SIIT, {"workers": 2, "version": "0.9.7"}, {}),
    ("openbsd-pf", NAT44, EM, {"sections": {"links": IFCONFIG}}),
    ("openbsd-pf", NAT44, EM, {"sections": PF}),  # the tables differ in order only
    ("snabb-lwaftr", intents.make_lwaftr(), SNABB, {"sections": {"pci": PCI}, "management_interfaces": frozenset({"lo"})}),
    ("snabb-lwaftr", intents.make_lwaftr(), SNABB, {"sections": {"pci": PCI_WITH_KERNEL_DRIVER.format("")}, "interfaces": have_eno2(is_up=False)}),
    ("network-cli", intents.ROUTER6, BUSY, {"sections": {"busy": "vty 0 root"}}),
]  # fmt: skip
# The same columns, the error code, and words of the message or hint.
REJECTED = [
    ("linux-router", intents.ROUTER4, {"left": "eth9"}, {"interfaces": make_ports()}, "unknown-interface", []),
    ("linux-router", intents.ROUTER4, {}, {"interfaces": make_ports(has_carrier=False)}, "no-carrier", []),
    *(("network-cli", intents.ROUTER6, {**CLI, name: []}, {}, "missing-setting", []) for name in ("configure", "verify", "restore")),
    *(("network-cli", intents.ROUTER6, BUSY, {"sections": {"busy": answer}}, "device-busy", [])
      for answer in ("vty 1 eve", BUSY_CHECK_REJECTED)),
    ("tayga", intents.make_intent("siit", **PREFIX, ipv4_hosts={"first": "10.9.9.9"}), {"ipv4_addr": "10.9.9.9"}, {}, "address-conflict", []),
    *(("tayga-nftables", intents.make_intent("nat64", **params), {}, {}, "address-conflict", [])
      for params in ({"pool_first": "192.168.255.2"}, RIGHT_NETWORK_IN_POOL)),
    ("vpp", NAT44, {**RUNNING, **EI}, {"sections": LOADED}, "plugin-not-loaded", ["plugin nat44_ei_plugin.so { enable }"]),
    ("vpp", NAT64, RUNNING, {"sections": LOADED}, "plugin-not-loaded", ["plugin nat64_plugin.so { enable }"]),
    ("vpp", LWB4, RUNNING, {"sections": {**LOADED, "ipip": "show: unknown input `ipip tunnel'"}},
     "plugin-not-loaded", ["plugin ipip_plugin.so { enable }"]),
    ("vpp", MAPE, {}, {"sections": {"plugins": LISTED.replace("\nmap", "\nnomap")}}, "plugin-not-loaded", ["map_plugin.so"]),
    ("vpp", NPT, RUNNING, {"sections": LOADED, "version": "23.06"}, "unsupported-by-version", []),
    ("vpp", NPT, RUNNING, {"sections": LOADED, "version": "26.06"}, "plugin-not-loaded", []),
    ("vpp", NAT44, RUNNING, {"sections": LOADED, "version": "21.06"}, "unsupported-by-version", []),
    ("vpp", intents.make_dslite(), RUNNING, {"sections": LOADED, "version": "26.06"}, "unsupported-by-device", []),
    ("vpp", with_left_mac("02:00:00:00:09:09"), HOST, {"sections": HARDWARE}, "wrong-interface", []),
    ("vpp", intents.ROUTER6, {**HOST, "left": "host-up"}, {"sections": HARDWARE}, "unknown-interface", []),
    ("vpp", intents.make_intent("nat44", udp_timeout_s=30), EI, {}, "unsupported-by-device", ["udp_timeout_s"]),
    ("vpp", intents.with_values(NAT44, port_block=16), EI, {}, "unsupported-by-device", ["port_block"]),
    ("vpp", intents.with_values(NAT44, port_block=16), {}, {}, "unsupported-by-device", ["port_block"]),
    # test_foreign_table_is_not_changed tests the firewall of IPv4
    ("nftables66", intents.make_intent("nat66"), {}, {"sections": {"forward": "type filter hook forward priority filter; policy drop;"}}, "firewall-blocks", []),
    ("jool", NAT64, {}, {"sections": {"instances_jool": INSTANCES.replace(",v6t,", ",theirs,")}}, "device-busy", ["jool instance remove"]),
    *(("jool", intent, {}, {"programs": frozenset()}, "missing-program", [source]) for intent, source in (
        (intents.SIIT, "apt-get install jool-tools jool-dkms"), (NAT64, "apt-get install jool-tools jool-dkms"),
        (MAPT, "see https://github.com/NICMx/Jool"),  # no release has it
    )),
    *(("jool", intent, {"version": version}, {}, "unsupported-by-version", [f"or measure {other}"])
      for version in ("4.0.9", "4.1.15")
      for intent, other in ((MAPT, "mapt-br on VPP"), (MAPT_CE, "mapt-ce on nat46"))),
    ("nat46", intents.SIIT, {"module": "/nowhere/nat46.ko"}, {"sections": {"module": "none\n"}},
     "missing-kernel-module", ["/nowhere/nat46.ko", "https://github.com/ayourtch/nat46", "--set-dut module=FILE"]),
    ("ip6-tunnel", intents.make_intent("mape-ce"), {}, {"sections": {"ip6_tunnel": "none\n"}}, "missing-kernel-module", ["ip6_tunnel"]),
    ("ip6-tunnel", intents.B4, {"checks": True}, {}, "unsupported-by-device", []),
    *(("tayga", intents.SIIT, {"workers": 2, "version": version}, {}, "unsupported-by-version", [])
      for version in ("0.9.2-8", "unknown", "0.9.6")),
    ("ip6-tunnel", intents.ROUTER4, {}, {}, "unsupported-technology", ["v6t dut list"]),
    ("tayga", intents.make_intent("siit", lowest_ipv6_mtu=1500), OLD_TAYGA, {}, "setting-untellable", ["no offlink-mtu"]),
    # an alias of an existing address changes its mask (in_ioctl_change_ifaddr, sys/netinet/in.c)
    ("openbsd-pf", NAT44, EM, {"sections": {"links": IFCONFIG.replace("netmask 0xffffff00", "netmask 0xffffff80")}},
     "address-conflict", ["198.18.0.1/25"]),
    *(("openbsd-pf", NAT44, EM, {"sections": {**PF, **other}}, "device-not-restored", ["/etc/pf"]) for other in (
        {"tables": PF_TABLES.replace("10.2.0.1", "10.2.0.2")}, {"rules": PF_RULES.replace("block return", "pass")})),
    *(("snabb-lwaftr", intents.make_lwaftr(), {**SNABB, "right": port}, {"sections": {"pci": PCI}, "management_interfaces": frozenset({"eno1"})},
       "interface-protected", []) for port in ("0000:03:00.1", "03:00.1")),
    *(("snabb-lwaftr", intents.make_lwaftr(), SNABB, {"sections": {"pci": PCI_WITH_KERNEL_DRIVER.format(addresses)}, "interfaces": have_eno2(is_up=is_up)},
       "interface-protected", ["ip addr flush dev eno2; ip link set dev eno2 down"])
      for is_up, addresses in ((True, ""), (False, " 192.0.2.1/24 2001:db8::1/64"))),
]  # fmt: skip


@pytest.mark.parametrize(("driver", "intent", "options", "changes"), ACCEPTED)
def test_supported_device_is_accepted(driver, intent, options, changes):
    make_plan(driver, intent, changes, **options)


@pytest.mark.parametrize(("driver", "intent", "options", "changes", "code", "words"), REJECTED)
def test_unsupported_device_is_rejected(driver, intent, options, changes, code, words):
    with expect_error(code) as caught:
        make_plan(driver, intent, changes, **options)
    text = f"{caught.value.message} {caught.value.hint}"
    assert [w for w in words if not re.search(rf"(?<!\w){re.escape(w)}(?!\w)", text)] == []


def test_vpp_rejects_second_lwaftr_address_of_ipv4_address(tmp_path):
    """The binding table has two softwires of one IPv4 address, to different lwAFTR addresses."""
    table = tmp_path / "table"
    table.write_text("198.51.100.1 1 6 0 2001:db8:b4:1::1 2001:db8:6::1\n"
                     "198.51.100.1 2 6 0 2001:db8:b4:2::1 2001:db8:6::7\n")  # fmt: skip
    two_relays = intents.make_intent("lwaftr", binding_table=str(table))
    with expect_error("unsupported-by-device", mentions="2001:db8:6::7", hint="snabb-lwaftr"):
        make_plan("vpp", two_relays)
    assert "2001:db8:6::7" in format_steps(make_plan("snabb-lwaftr", two_relays))


def format_steps(plan):
    return "\n".join(f"{step.why}\n{step.command}\n{step.text}" for step in plan.steps)


ONE_CE = {**parameter_values.NO_EA_BITS, "psid": 0x34, "iid_format": "draft"}
POOL = {"pool4": ["198.19.0.1", "198.19.0.2"], "ports": (2000, 2999)}


def with_sessions(intent, sessions):
    return intents.with_requirements(intent, sessions=sessions)


@pytest.mark.parametrize(("driver", "intent", "options", "line"), [
    *(("nftables66", intents.make_intent("nat66"), {"rfc_timers": True}, f"nf_conntrack_{timer}") for timer in (
        "icmp_timeout=66", "icmpv6_timeout=66", "tcp_timeout_established=8184", "tcp_timeout_syn_sent=264",
        "tcp_timeout_time_wait=264",
    )),
    # TAYGA's own addresses do not overlap with addresses of the test
    *(("tayga", intents.make_intent("siit", **PREFIX, **{hosts: {"first": first}}), {}, f"\nipv4-addr {own}\n")
      for hosts, first, own in (
          ("ipv4_hosts", "198.19.0.2", "192.168.255.9"), ("ipv4_hosts", "192.168.255.9", "10.255.255.9"),
          ("ipv6_hosts", "192.168.255.9", "10.255.255.9"))),
    ("tayga-nftables", intents.make_intent("nat64", **TAYGA_NETWORK), {}, "\nipv6-addr fd76:3675::9\n"),
    # the tunnel's end is an additional address of the device
    *((driver, intents.make_intent(plugin, br_address="2404:9200:225:100::64"), {}, address)
      for driver, plugin in (("vpp", "mape-br"), ("vpp", "lwaftr"), ("command", "mape-br"))
      for address in ("2404:9200:225:100::64/128", "2001:db8:6::1/64")),
    *(("snabb-lwaftr", intents.make_intent("lwaftr", br_address="2404:9200:225:100::64", softwires=1), {}, own)
      for own in ("internal-interface { ip 2001:db8:6::1;", "br-address 2404:9200:225:100::64;")),
    # a rule without EA bits becomes one softwire
    ("vpp", intents.make_intent("mape-br", **ONE_CE), {}, "ip4-pfx 192.0.2.18/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1 ea-bits-len 0 psid-offset 6"),
    ("vpp", intents.make_intent("mape-br", **ONE_CE), {}, "\nv6t0 52 2001:db8:12:3400:c0:2:1200:3400\n"),
    ("nat46", intents.make_intent("mapt-ce", iid_format="draft"), {}, "local.style MAP0"),
    ("nat46", MAPT_CE, {}, "local.style MAP "),
    ("chain", intents.make_intent("ipv4aas", variant="map-t", iid_format="draft"), {"parts": {"ce": {"driver": "tayga"}}}, "map 192.0.2.35 2001:db8:ce:11b:c0:2:2300:300\n"),
    ("tayga-nftables", NAT64, {"ipv4_addr": "10.9.9.9"}, "ipv4-addr 10.9.9.9"),
    ("tayga", intents.make_intent("siit", lowest_ipv6_mtu=1500), {"version": "0.9.6"}, "offlink-mtu 1500\n"),
    ("tayga", intents.make_intent("siit", lowest_ipv6_mtu=1500), {"version": "0.9.6-16"}, "offlink-mtu 1500\n"),
    *((driver, intent, {"workers": n}, f"\nworkers {n}\n")
      for driver, intent in (("tayga", intents.SIIT), ("tayga-nftables", NAT64)) for n in (0, 2)),
    # pf_find_state (sys/net/pf.c) needs a second state for the outgoing packet
    ("openbsd-pf", with_sessions(NAT44, 1_000_000), {}, "set limit states 2100000\n"),
    ("openbsd-pf", with_sessions(NAT64, 1_000_000), {}, "set limit states 1050000\n"),
    ("openbsd-pf", intents.with_values(NAT44, **POOL), {}, "nat-to { 198.19.0.1, 198.19.0.2 } port 2000:2999\n"),
    ("vpp", intents.with_values(NAT44, inside4=["198.18.0.0/16"]), EI, "plugin enable sessions 64512 users 65536"),
    ("vpp", intents.with_values(NAT44, session_limit=50), EI, "plugin enable sessions 50 users 1024"),
    ("vpp", with_sessions(NAT64, 0), RUNNING, "10240 sessions\nvppctl nat64 plugin enable | grep"),
    ("vpp", with_sessions(NAT64, 10_240), RUNNING, "10240 sessions\nvppctl nat64 plugin enable | grep"),
    ("vpp", with_sessions(NAT64, 10_241), RUNNING, "20480 sessions\nvppctl nat64 plugin enable bib-buckets 2048"),
    ("vpp", with_sessions(NAT64, 4_000_000), RUNNING, "5242880 sessions\nvppctl nat64 plugin enable bib-buckets 524288 bib-memory 1073741824"),
    *(("jool", MAPT, {"version": v}, "map-t-type BR") for v in ("4.1.255.5", "4.2.0-rc3", "4.2.0")),
])  # fmt: skip
def test_plan_contains_line_for_parameters(driver, intent, options, line):
    assert line in format_steps(make_plan(driver, intent, **options))


@pytest.mark.parametrize(("driver", "intent", "options", "word"), [
    ("tayga", intents.SIIT, OLD_TAYGA, "offlink-mtu"),
    ("tayga", intents.SIIT, {"workers": -1}, "workers"),
    ("tayga-nftables", NAT64, {"workers": -1}, "workers"),
])  # fmt: skip
def test_plan_omits_unsupported_setting(driver, intent, options, word):
    assert word not in format_steps(make_plan(driver, intent, **options))


def test_learned_default_route_survives_forwarding():
    changes = {"advertised_route_interfaces": frozenset({"mgmt"})}
    plan = make_plan("linux-router", intents.ROUTER4, changes)
    assert "net.ipv6.conf.mgmt.accept_ra=2" in plan.steps[0].command


MAP_E_CE = intents.make_intent("mape-ce").configuration


@pytest.mark.parametrize(("options", "hop_limit", "outer_dscp", "inner_dscp"), [
    ({"hop_limit": 200}, 200, "copied", "copied"), ({"dscp": "pipe"}, 64, "zero", "kept")])  # fmt: skip
def test_ip6_tunnel_header_profile_follows_options(options, hop_limit, outer_dscp, inner_dscp):
    profile = make_driver("ip6-tunnel", options).get_header_profile(LWB4)
    assert (profile.tunnel_hop_limit, profile.outer_ecn) == (hop_limit, "reset")
    assert (profile.outer_dscp, profile.inner_dscp) == (outer_dscp, inner_dscp)


def test_drop_rules_accept_exactly_the_port_set():
    """Compare all accepted ports with the port set (RFC 7597, section 5.1); an address has none."""
    sport = [r for r in format_drop_rules(MAP_E_CE, "right") if "th sport" in r]
    mask, psid = (int(word) for word in sport[0].split("& ")[1].split()[0:3:2])
    floor = int(sport[1].rpartition("< ")[2].split()[0])
    accepted = [port for port in range(65536) if port & mask == psid and port >= floor]
    ports = parameter_values.Base("mape-ce").make_technology().params.customer.ports
    assert accepted == [port for port in range(65536) if port in ports]
    assert accepted
    whole = MAP_E_CE.model_copy(update={"psid_len": 0, "ipv4": IPv4Network("192.0.2.0/28")})
    rules = format_drop_rules(whole, "right")
    assert len(rules) == 2
    assert all("addr != 192.0.2.0/28 counter drop" in rule for rule in rules)


@mark_lab_test(needs_nft)
@pytest.mark.parametrize(("psid_offset", "psid_len"), [(0, 6), (6, 6), (0, 16)])
def test_nft_lists_drop_rules_as_loaded(psid_offset, psid_len):
    port_set = {"psid_offset": psid_offset, "psid_len": psid_len}
    plan = make_plan("ip6-tunnel", intents.make_intent("lwb4", **port_set), checks=True)
    text = next(s.text for s in plan.steps if "v6t.nft" in s.command and s.text)
    loaded = next(s for s in plan.steps if s.command.startswith("nft -c"))
    result = run_shell(f"nft -f - && {loaded.check.command}", text, sh=("unshare", "-n", "sh"))
    assert loaded.check.find_problem(result.stdout) is None
    assert loaded.check.find_problem(result.stdout.replace("!=", "==", 1))


def test_ip6_tunnel_is_aftr_side_for_one_b4():
    parts = {"softwire": {"driver": "ip6-tunnel"}}
    steps = make_plan("chain", intents.make_intent("ipv4aas", variant="ds-lite"), parts=parts).steps
    commands = [s.command for s in steps]
    (tunnel,) = [c for c in commands if c.startswith("ip -6 tunnel add")]
    assert "remote 2001:db8:6::9 local 2001:db8:6::1 " in tunnel
    assert "ip rule add priority 8676 iif right lookup 8676" in commands
    assert any("198.19.0.2/32 via 192.168.20.2 dev right" in s.text for s in steps)
    with expect_error("unsupported-by-device", mentions="16"):
        make_plan("chain", intents.make_intent("dslite-aftr"), parts=parts)


UNKNOWN = "tayga: unrecognized option '--help'\n0.9.2-8"  # output of version 0.9.2


@pytest.mark.parametrize(("driver", "output", "version"), [
    ("tayga", UNKNOWN, "0.9.2-8"),
    ("tayga", "Usage: tayga ...\n", "unknown"),
    ("tayga", "TAYGA version 0.9.6\n0.9.2-8", "0.9.6"),
    ("tayga", "TAYGA version 0.9.6-16-g8a028c7\n", "0.9.6-16-g8a028c7"),
    ("tayga", "TAYGA version 0.9.7", "0.9.7"),
    ("tayga", "", "unknown"),
    ("tundra", "Tundra-NAT64 / v6.0.2 / Copyright (c) 2024", "6.0.2"),
    ("snabb-lwaftr", "snabb 2022.07 (396-gf32729274-dirty)\n", "2022.07-396-gf32729274-dirty"),
    ("snabb-lwaftr", "snabb 2024.08\n", "2024.08"),
    ("jool", read_captured("jool-version.txt"), "4.1.9"),
    ("jool", "4.1.255.5\n4.1.255.5\n", "4.2.0-rc3"),  # as published
    ("jool", "4.1.255.9\n", "4.1.255.9"),
])  # fmt: skip
def test_version_is_read_from_program_or_package(driver, output, version):
    assert make_driver(driver, {}).extract_version(output) == version


@pytest.mark.parametrize(("driver", "output", "code", "words"), [
    ("tundra", "sh: 1: /nowhere/tundra-nat64: not found", "unexpected-answer", "tundra"),
    ("jool", "4.1.10.0\n4.1.9.0\n", "version-mismatch", "4.1.10"),  # module and program
])  # fmt: skip
def test_missing_or_different_program_is_rejected(driver, output, code, words):
    with expect_error(code, mentions=words):
        make_driver(driver, {}).extract_version(output)


def test_template_with_an_unknown_placeholder_is_refused():
    with expect_error("invalid-placeholder", mentions="pidd"):
        make_driver("tundra", {}).fill_in("{program} {pidd}")


def test_nat46_version_is_module_checksum(tmp_path):
    module = tmp_path / "nat46.ko"
    module.write_bytes(b"v6t")
    digest = hashlib.sha256(b"v6t").hexdigest()[:12]
    versions = []
    for name in (str(module), "no_such_module", str(tmp_path / "none.ko")):
        driver = make_driver("nat46", {"module": name})
        output = run_shell(driver.version_command, "", check=False).stdout
        versions.append(driver.extract_version(output))
    assert versions == [f"module {digest} (SHA-256)", "unknown", "unknown"]


def test_vppctl_is_next_to_program_and_prints_version():
    sections = {"system": "Linux 6.18", "version": read_captured("vpp-show-version.txt")}
    assert make_driver("vpp", RUNNING).parse_facts(sections).version == "26.06-release"
    options = {"program": "/opt/vpp/bin/vpp"}
    assert make_driver("vpp", options).cli("show version").startswith("/opt/vpp/bin/vppctl -s ")
    remote = {"ssh": {"host": "dut"}}
    assert make_driver("vpp", remote).cli("show version") == "vppctl show version"
    assert not make_driver("vpp", remote).options.starts_vpp
    assert make_driver("vpp", {"ssh": {"lab": "x"}}).options.starts_vpp


@pytest.mark.parametrize(("plugin", "intent", "expected"), [
    ("ed", intents.make_nat44(), False), ("ei", intents.make_nat44(), True), ("ei", NAT64, False)])  # fmt: skip
def test_only_nat44_ei_counts_endpoints(plugin, intent, expected):
    driver = make_driver("vpp", {"nat44": plugin})
    assert driver.has_endpoint_independent_mapping(intent) is expected


def test_jool_flush_may_reboot_device():
    (flush,) = make_plan("jool", NAT64, flush="reboot", reboot_deadline_s=77).flush
    assert flush.reboots
    assert flush.deadline_s == 77


def test_zero_checksum_is_accepted():
    """Jool writes 0 instead of 0xFFFF towards IPv6; the profile differs in nothing else."""
    profile = make_driver("jool", {}).get_header_profile(intents.SIIT)
    assert replace(profile, zero_checksum="never").equals_reference
    assert not profile.equals_reference
