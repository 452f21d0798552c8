"""Checks accept the output of a correct device and reject similar objects.

Files under ``captured`` were recorded. Other outputs of VPP, Jool, nat46 and OpenBSD follow the source functions named
here.
"""

import functools
import os
import re

import pytest
from v6t.drivers.duts import plan as plans
from v6t.drivers.duts.kinds.command import CheckOptions
from v6t.drivers.duts.kinds.netfilter.nftables import expect_rules
from v6t.drivers.duts.plan import expect_lines, expect_only_words, find_line

from . import intents
from .cases import CASE_BY_NAME, plan_case
from .support import make_plan, read_captured, run_shell


def find_check(case_name, command, step_command=""):
    """Return the first check whose command, and that of its step, contain these texts."""
    _, _, plan = plan_case(case_name)
    checks = [(s.command, s.check) for s in (*plan.steps, *plan.flush) if s.check]
    return next(c for step, c in checks if command in c.command and step_command in step)


STUBS = ("ip", "ethtool", "iptables", "ip6tables", "nft", "jool", "jool_mapt", "ifconfig", "ndp", "arp", "route",
         "pfctl", "vppctl")  # fmt: skip


def read(check, output):
    """Return the result of a check's command when its program prints this output."""
    if not any(re.search(rf"(^|[{{;] ){name} ", check.command) for name in STUBS):
        return output
    stub = "\n".join(f'{name}() {{ printf "%s" "$OUTPUT"; }}' for name in STUBS)
    env = {"PATH": os.environ["PATH"], "OUTPUT": output}
    return run_shell(f"{stub}\n{check.command}", check=False, env=env).stdout


@pytest.mark.parametrize(("phrase", "line", "is_found"), [
    ("UP", "<BROADCAST,UP,LOWER_UP> mtu 1500", True),
    ("tbf", "qdisc tbf 8001: root", True),
    ("v6t-left@left", "5: v6t-left@left: <UP>", True),
    ("v6t-left", "5: v6t-left@left: <UP>", True),
    ("2001:db8::/32", "route 2001:db8::/32, metric 5", True),
    ("[2001:db8::1]:53", "UNCONN 0 0 [2001:db8::1]:53 [::]:*", True),
    ('key "rndc-key"', 'key "rndc-key" {', True),
    ("host-left", "host-left.10   3  up  9000/0/0/0", False),
    ("left", "5: v6t-left@left: <UP>", False),
    ("2001:db8::1", "rule psid: 1 ip6-dst 2001:db8::1:5", False),
    ("2001:db8::", "2001:db8::1", False),
    ("198.19.0.1:1024-6553", "snat to 198.19.0.1:1024-65535", False),
    (":1024-65535", "snat to 198.19.0.1:1024-65535", False),
    ("tbf", "qdisc tbf-like 8001: root", False),
    ("one two", "one and two", False),
])  # fmt: skip
def test_only_whole_words_are_found(phrase, line, is_found):
    assert find_line(f"other\r\n{line}\r\n", phrase) == (line if is_found else None)


ABSENT_CHECK = CheckOptions(command="x", absent="10.0.0.0/8").make_check("x")


@pytest.mark.parametrize(("check", "right", "wrong"), [
    (expect_lines("host-left in", "host-right out"), "NAT44:\r\n host-left in\r\n host-right   out\r\n", " host-left in\n"),
    (CheckOptions(command="x", contains="qlen 200").make_check("x"), "mode DEFAULT qlen 200 \n", "mode DEFAULT qlen 2000\n"),
    (ABSENT_CHECK, "192.0.2.0/24", "  10.0.0.0/8  via"),
    (ABSENT_CHECK, "192.0.2.0/24", ""),
    (expect_only_words(["a", "b"]), "b a\na\n", "a\n"),
    (plans.expect_matching_line(r"room: \d+", "room"), "x\n room: 7 \n", "room: 7 left\n"),
])  # fmt: skip
def test_words_and_lines_are_compared_as_a_whole(check, right, wrong):
    assert check.find_problem(right) is None
    assert check.find_problem(wrong) is not None


LINK = read_captured("ip-o-link.txt")


def format_link(name, qlen=1000):
    return LINK.replace("left", name).replace("qlen 1000", f"qlen {qlen}")


HOSTS = ("192.168.18.2", "2001:2:0:f000::2")
NEIGH = "".join(read_captured("ip-neigh.txt").replace("198.18.0.2", host) for host in HOSTS)
VLAN = read_captured("ip-d-o-link-vlan.txt")
CPU = "/sys/devices/system/cpu"
TUNNEL = ("v6t-tunnel: ip/ipv6 remote 2001:db8:6::1 local {local} encaplimit none hoplimit 64 "
          "tclass {tclass} flowlabel 0x00000 (flowinfo 0x00000000)")  # fmt: skip
LWB4, MAPE = "2001:db8:b4:1:0:c612:1:9", "2001:db8:ce:17a9:0:c000:2bd:9"
SNAT = read_captured("iptables-S-postrouting.txt")
FOREIGN_SNAT = (
    "-A POSTROUTING -s 198.18.0.0/24 -o right -p tcp -j MASQUERADE\n"
    "-A POSTROUTING -s 10.0.0.0/8 -o eth9 -p udp -j SNAT --to-source 198.19.0.1:1024-65535\n"
)
MEND = read_captured("nft-list-table-mend.txt")
NAT66 = read_captured("nft-list-table-nat66.txt")
SNAT44 = read_captured("nft-list-table.txt")
SNAT66 = "snat to [2001:2:0:2::1]:1024-65535\n"
NPT = ("-A POSTROUTING -s fd01:203:405::/48 -o {port} -m comment --comment v6t -j SNPT "
       "--src-pfx fd01:203:405::/48 --dst-pfx 2001:db8:1::/48\n")  # fmt: skip

# Recorded plan, words of the read-back's command and of the step's command, output for the right object, and
# output for a similar object, or what is replaced in the first one.
LINUX = [
    ("linux-router-vlan", "ip -d -o link show dev v6t-left", "", VLAN, {"id 100 ": "id 1000 "}),
    ("linux-router-ipv4", "ip -o link show dev left", "mtu", LINK, {"mtu 1500": "mtu 9000", "\n": "\\    alias not mtu 1500 any more\n"}),
    ("linux-router-ipv4", "ip -o link show dev left", " up", LINK, {",UP,LOWER_UP": "", "\n": "\\    alias LOWER_UP\n"}),
    ("linux-router-ipv4", "to 192.168.18.1/32", "",
     "2: left    inet 192.168.18.1/30 scope global left\\       valid_lft forever\n", {"192.168.18.1/30": "192.168.18.2 peer 192.168.18.1/30"}),
    ("linux-router-ipv4", "route show exact 198.18.0.0/24", "", "198.18.0.0/24 via 192.168.18.2 dev left proto 86 \n", {"left": "left2"}),
    ("linux-router-ipv4", "route show exact 198.18.0.0/24", "", "198.18.0.0/24 via 192.168.18.2 dev left proto 86 \n", {"86": "static metric 100"}),
    ("linux-router-ipv4", "ip neigh show dev left", "", NEIGH, {"01:02": "01:03"}),
    ("linux-router-tuned", "rx-flow-hash udp4", "", read_captured("ethtool-rx-flow-hash.txt"), {"\n\n": "\nVLAN tag\n"}),
    ("linux-router-tuned", f"{CPU}/cpu[1-9]*/online", "",
     "".join(f"{CPU}/cpu{n}{'/online' * (n > 0)}\n" for n in range(4)), "".join(f"{CPU}/cpu{n}{'/online' * (n > 0)}\n" for n in (0, 5, 6, 7))),
    ("linux-router-tuned", "scaling_governor", "", "performance\nperformance\n", "performance\npowersave\n"),
    ("jool-nat64-4.1.9", "ls -d /sys/module/jool 2>/dev/null || true", "", "/sys/module/jool\n", "/sys/module/jool_siit\n"),
    ("unbound-dns64", "ls -d /run/v6t/dns", "", "/run/v6t/dns\n", "/run/v6t/dns2\n"),
    # outputs of iproute2 and nft on the machine of tests/tunnelvm
    ("ip6-tunnel-mape-ce", "ip -6 tunnel show v6t-tunnel", "", TUNNEL.format(local=MAPE, tclass="inherit") + " dscp inherit\n", {MAPE: f"{MAPE}9"}),
    ("ip6-tunnel-lwb4", "ip -6 tunnel show v6t-tunnel", "", TUNNEL.format(local=LWB4, tclass="0x00") + "\n", {"\n": " dscp inherit\n"}),
    ("ip6-tunnel-mape-ce", "ip -o link show dev v6t-tunnel", "mtu",
     "9: v6t-tunnel@NONE: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1460 qdisc noqueue state UNKNOWN\\    link/tunnel6\n", {"mtu 1460": "mtu 14600"}),
    ("ip6-tunnel-mape-ce", "ip route show table 8676", "", "default dev v6t-tunnel proto 86 scope link \n", {"v6t-tunnel": "v6t-tunnel2"}),
    ("ip6-tunnel-mape-ce", "ip rule show priority 8676", "", "8676:\tfrom all iif right lookup 8676\n", {"all": "10.0.0.0/8"}),
    ("tayga-siit", "ip -o link show dev v6t-nat64", "--mktun", format_link("v6t-nat64"), {"v6t-nat64": "eth9", "\n": "\\    altname v6t-nat64\n"}),
    ("tayga-siit", "ip -o link show dev v6t-nat64", "txqueuelen", format_link("v6t-nat64", 500), format_link("v6t-nat64", 5000)),
    ("tayga-nftables-nat64", "nft list table inet v6t_mend", "", MEND, {"v6t-nat64": "eth9", "65535\n": '65535\n\t\tiifname "v6t-nat64" accept\n'}),
    ("iptables-nat44", "iptables -t nat -S POSTROUTING", "-p udp", SNAT, FOREIGN_SNAT),
    ("iptables-nat44", "iptables -t nat -S POSTROUTING", "-p udp", SNAT, {"-s 198": "! -s 198"}),
    *(("nftables-nat44", "nft list table ip v6t", "", SNAT44, changes) for changes in (
        {"ip saddr 198.18.0.0/24": "ip saddr != 198.18.0.0/24"}, {"198.18.0.0/24": "198.18.0.0/16"},
        {":1024-65535": ":1024-2047"}, {"hook postrouting": "hook input"}, {" snat to ": " dnat to "},
        {'oifname "right"': 'oifname "left"'}, {"\t\tip saddr": "\t\taccept\n\t\tip saddr"},
    )),
    # a protocol without a name is correct, and so is a rule for other addresses
    ("nftables-nat44", "nft list table ip v6t", "", SNAT44.replace("ip protocol udp", "ip protocol 17"), {"ip protocol 17": "ip protocol 132"}),
    ("nftables-nat44", "nft list table ip v6t", "",
     SNAT44.replace("\t}\n}", '\t\tip saddr 203.0.113.0/24 snat to 198.19.0.1 comment "v6t-beside"\n\t}\n}'), {"\t\tip saddr": "\t\taccept\n\t\tip saddr"}),
    ("nftables66-nat66", "nft list table ip6 v6t", "", NAT66, {SNAT66: f"accept\n\t\tip6 saddr 2001:db8::/32 {SNAT66}"}),
    ("nftables66-nat66", "nft list table ip6 v6t", "", NAT66, {"nat hook postrouting": "filter hook input"}),
    ("nftables-nat44", "head -10", "conntrack -D",
     "conntrack v1.4.7 (conntrack-tools): 0 flow entries have been shown.\n", {"0 flow entries have been shown.": "Operation failed: Operation not permitted"}),
    ("ip6tables-npt-nptv6", "ip6tables -t mangle -S POSTROUTING", "",
     "-P POSTROUTING ACCEPT\n" + NPT.format(port="right"), "-A POSTROUTING -s fd01:203:405::/48 -o right -j ACCEPT\n" + NPT.format(port="eth9")),
    ("bind9-dns64", "cat /run/v6t/dns/rndc.key", "rndc-confgen",
     'key "rndc-key" {\n\talgorithm hmac-sha256;\n\tsecret "YQ==";\n};\n', '# no key "rndc-key" yet\n'),
    ("bind9-dns64", " status", "flush", "version: BIND 9.18.49\nserver is up and running\n", "no server is up and running here\n"),
    ("unbound-dns64", " status", "reload", "version: 1.17.1\nuptime: 2 seconds\nunbound (pid 4711) is running...\n", "nothing is running\n"),
    ("pdns-recursor-dns64", " ping", "wipe-cache", "pong \npong taskThread\n", "no pong\n"),
    ("unbound-dns64", "ss -Hlun src '[2001:2:0:f000::1]:53'", "",
     "unbound\nUNCONN 0      0      [2001:2:0:f000::1]:53              [::]:*\n", {"]:53  ": "]:5353"}),
]  # fmt: skip

GLOBAL = read_captured("jool-nat64-global.txt")
NAT46 = (
    "local.v4 192.0.2.0/24 local.v6 2001:db8:ce::/51 local.style MAP local.ea-len 13 local.psid-offset 6 "
    "remote.v4 0.0.0.0/0 remote.v6 2001:db8:ffff::/64 remote.style RFC6052 remote.ea-len 0 "
    "remote.psid-offset 0 debug 0"
)

# nat46_get_ipair_config (nat46-core.c) cuts a rule after 199 characters
RULES_OF_NAT46 = f"add v6t-nat46\nconfig v6t-nat46 {NAT46[:199]}\n\n"

MODULES = [
    ("jool-nat64-4.1.9", "global display --csv --no-headers", "file handle", GLOBAL, {"lowest-ipv6-mtu,1280": "lowest-ipv6-mtu,12800"}),
    ("jool-nat64-4.1.9", "global display --csv --no-headers", "file handle", GLOBAL, {"pool6,64:ff9b::/96": "pool6,2001:db8::/96"}),
    ("jool-nat64-4.1.9", "pool4 display --tcp --csv --no-headers", "", "0,TCP,198.19.0.1,1024,65535,1024,0\n", {"0,TCP": "7,TCP"}),
    ("jool-mapt-br", "instance display --csv --no-headers", "", "b9a099c0,v6t,netfilter\n", {"v6t": "v6t2"}),
    # print_entry of src/usr/argp/wargp/fmrt.c, print_mapping_rule of src/common/global.c (4.2.0-rc3)
    ("jool-mapt-br", "fmrt display --csv --no-headers", "", "2001:db8:ce::/51,192.0.2.0/24,13,0\n", {",13,0": ",12,6"}),
    ("jool-mapt-ce", "grep '^bmr,'", "", "bmr,2001:db8:ce::/51,192.0.2.0/24,13,6\n", {",13,6": ",13,4"}),
    ("jool-mapt-ce", "grep '^lowest-ipv6-mtu,'", "", "lowest-ipv6-mtu,1280\n", {"1280": "12800"}),
    # nat64_show_all_configs of nat46-netdev.c
    ("nat46-mapt-ce", "grep -x 'add v6t-nat46' /proc/net/nat46/control", "echo add", "add v6t-nat46\n", format_link("v6t-nat46")),
    ("nat46-mapt-ce", "cat /proc/net/nat46/control", "echo config", RULES_OF_NAT46, {"config v6t-nat46": "config others"}),
    ("nat46-mapt-ce", "ip -o link show dev v6t-nat46", "mtu", format_link("v6t-nat46"), {"UP,LOWER_UP": "LOWER_UP"}),
]  # fmt: skip

IFCONFIG = read_captured("openbsd-ifconfig.txt").replace("em0", "left").replace("em1", "right")
NDP = read_captured("openbsd-ndp.txt").replace("  em0", " left")
ARP = read_captured("openbsd-arp.txt").replace("  em1", "right")
ALL = "pass all flags S/SA\n"
ROUTE = "2001:2::/64                        2001:2:0:f000::2               UGS        0        0     -     8 left\n"
TRANSLATE = (
    f"{ALL}pass in on left inet6 from any to 2001:db8:64::/96 flags S/SA af-to inet from 198.19.0.1"
)

OPENBSD = [
    ("openbsd-pf-nat44", "ifconfig left", " up", IFCONFIG, IFCONFIG.replace("left: flags=8843<UP,", "left: flags=8842<", 1) + "\tdescription: <UP\n"),
    ("openbsd-pf-router", "ifconfig left", "eui64", IFCONFIG, {"\tinet6 fe80:": "\tdescription: no inet6 fe80:"}),
    ("openbsd-pf-nat64-purge", "ndp -n 2001:2::2 ", "", NDP, {"permanent R": "23h59m9s R"}),
    ("openbsd-pf-nat44", "arp -n 198.19.0.2 ", "", ARP, {"right": "vio9"}),
    ("openbsd-pf-router", "route -n show -inet6 ", "", ROUTE, {"f000::2 ": "f000::22 "}),
    ("openbsd-pf-router", "route -n show -inet6 ", "", ROUTE, {"::/64": "::/63"}),
    # sbin/pfctl/pfctl_parser.c, print_rule
    ("openbsd-pf-nat44", "pfctl -sr", "",
     f"{ALL}match out on right inet from 198.18.0.0/24 to any nat-to 198.19.0.1 port 1024:65535\n",
     {"right inet from 198.18.0.0/24": "egress inet from 10.0.0.0/8"}),
    ("openbsd-pf-nat64-purge", "pfctl -sr", "", f"{TRANSLATE} port 1024:65535\n", {"2001:db8:64::/96": "64:ff9b::/96", " port 1024:65535": ""}),
    ("openbsd-pf-nat44", "pfctl -si", "", read_captured("openbsd-pfctl-si.txt"), {"Status: Enabled": "Status: EnabledSoon"}),
]  # fmt: skip

SHOW = read_captured("vpp-show-interface.txt").replace("host-left ", "left      ")
SHOW = SHOW.replace("host-right ", "right      ")
HARDWARE = read_captured("vpp-show-hardware.txt")
NEIGHBORS = read_captured("vpp-show-ip-neighbors.txt").replace("host-left", "left")
# ``format_fib_entry`` (fib_entry.c) and ``format_fib_path`` (fib_path.c), the same from v19.08 to
# v26.06.
FIB = """\
ipv{v}-VRF:0, fib_index:0, flow hash:[src dst sport dport proto flowlabel ] epoch:0 flags:none locks:[]\r
{net} fib:{fib} index:24 locks:2\r
  CLI refs:1 src-flags:added,contributing,active,\r
    path-list:[30] locks:2 flags:shared, uPRF-list:26 len:1 itfs:[1, ]\r
      path:[34] pl-index:30 ip{v} weight=1 pref=0 {kind}:  oper-flags:resolved,\r
        {path}\r
      [@0]: ipv{v} via {path}: mtu:1500 next:5 flags:[] 020000000102\r
\r
 forwarding:   unicast-ip{v}-chain\r
  [@0]: dpo-load-balance: [proto:ip{v} index:26 buckets:1 uRPF:26 to:[0:0]]\r
    [0] [@5]: ipv{v} via {path}: mtu:1500 next:5 flags:[] 020000000102\r
"""


def format_fib(net, path, v=6, fib=0, kind="attached-nexthop"):
    return FIB.format(net=net, path=path, v=v, fib=fib, kind=kind)


RULE, VIA = "2001:db8:ce::/51", "2001:db8:6::2 left"
SOFTWIRES = """\
[0] tag {v6t0} ip4-pfx 192.0.2.80/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 0 psid-len 1 mtu 0 \r
 rule psid: 0 ip6-dst 2001:db8:b400::c000:250:0\r
 rule psid: 1 ip6-dst 2001:db8:b400:1:0:c000:250:1\r
[1] tag {v6t1} ip4-pfx 192.0.2.81/32 ip6-pfx ::/0 ip6-src 2001:db8:6::1/128 ea-bits-len 0 psid-offset 0 psid-len 1 mtu 0 \r
 rule psid: 0 ip6-dst 2001:db8:b400:2:0:c000:251:0\r
 rule psid: 1 ip6-dst 2001:db8:b400:3:0:c000:251:1\r
"""
DOMAINS = "".join(line for line in SOFTWIRES.splitlines(keepends=True) if "rule" not in line)
SUMMARY = read_captured("vpp-show-nat44-summary.txt")
# Output of a disabled plugin: no table, no sessions (nat44_show_summary_command_fn).
DISABLED = SUMMARY.partition("\n")[2]
POOL = "NAT44 pool addresses:\r\n{pool}NAT44 twice-nat pool addresses:\r\n{twice}"
ADDRESS = "198.19.0.1\r\n  tenant VRF independent\r\n"
IPIP = "[0] instance 8676 src {src} dst 2001:db8:6::1 table-ID 0 sw-if-idx 5 flags [{flags}] dscp CS0\r\n"

VPP = [
    ("vpp-mape-26.06", "show interface left", "state", SHOW, SHOW.replace("  up  ", " down ", 1)),
    ("vpp-mape-26.06-background", "show interface", "create sub-interfaces left 100",
     SHOW + "left.100                          4      up          1500/0/0/0     \r\n", {"left.100 ": "left.1001"}),
    ("vpp-mape-26.06", "show interface left", "mtu packet", SHOW.replace("9000/", "1500/"), SHOW.replace("9000/0/0/0", "9000/ 1500/", 1)),
    ("vpp-mape-26.06", "show interface address left", "", "left (up):\r\n  L3 2001:db8:6::1/64\r\n", {"2001:": "fd00:2001:"}),
    ("vpp-mape-26.06", "show ip neighbors left", "", NEIGHBORS, {"left": "left.10"}),
    ("vpp-mape-26.06", "show ip neighbors left", "", NEIGHBORS, {"   S    ": "   D    "}),
    ("vpp-mape-26.06", f"show ip6 fib {RULE}", "", format_fib(RULE, VIA), format_fib(RULE, VIA + "00")),
    ("vpp-mape-26.06", f"show ip6 fib {RULE}", "", format_fib(RULE, VIA), format_fib(RULE, VIA.replace("::2 ", "::22 "))),
    ("vpp-mape-26.06", f"show ip6 fib {RULE}", "", format_fib(RULE, VIA), format_fib("::/0", "2001:db8:7::9 eth9") + format_fib(RULE, VIA, fib=1)),
    ("vpp-lwb4-26.06", "show ip fib 0.0.0.0/1", "", format_fib("0.0.0.0/1", "ipip8676", 4, kind="attached"), {"ipip8676": "ipip86760"}),
    ("vpp-lwb4-26.06", "show ip fib 0.0.0.0/1", "",
     format_fib("0.0.0.0/1", "0.0.0.0 ipip8676 (p2p)", 4).replace("        0.0.0.0 ipip", "         ipip"),
     format_fib("0.0.0.0/0", "10.0.0.1 eth9", 4) + "0.0.0.0/1 is not ipip8676\n"),
    ("vpp-ds-lite-26.06", "show ip6 fib 2001:db8:6::/64", "",
     format_fib("2001:db8:6::/64", "host-left", kind="attached"), {"host-left": "host-left.10"}),
    ("vpp-mape-26.06-started", "show version", "", "vpp_main\n" + read_captured("vpp-show-version.txt"), "vpp_main\nno vpp v26 answers\n"),
    ("vpp-mape-26.06-started", "show hardware-interfaces", "name left", HARDWARE, {"01:01": "99:99", "02:01": "01:01"}),
    ("vpp-mape-26.06", "show map domain", "", read_captured("vpp-show-map-domain.txt"), {"psid-len 5": "psid-len 6"}),
    ("vpp-lwaftr-26.06", "show map domain", "exec", DOMAINS, {"192.0.2.8": "192.0.2.9"}),
    ("vpp-lwaftr-26.06", "show map domain", "exec", DOMAINS, {"6::1/128": "6::7/128"}),
    ("vpp-lwaftr-26.06", "show map domain", "exec", DOMAINS, {"psid-offset 0": "psid-offset 4"}),
    ("vpp-lwaftr-26.06", "show map domain", "index_of", SOFTWIRES, {"3:0:c000:251:1": "3:0:c000:251:11"}),
    ("vpp-nat44-26.06", "show nat44 summary", "plugin enable", SUMMARY, DISABLED),
    ("vpp-nat44-26.06", "show nat44 addresses", "", POOL.format(pool=ADDRESS, twice=""), POOL.format(pool="", twice=ADDRESS)),
    ("vpp-nat44-26.06", "show nat44 addresses", "", POOL.format(pool=ADDRESS, twice=""), {" independent": ": 7"}),
    ("vpp-nat44-26.06", "show nat44 interfaces", "",
     "NAT44 interfaces:\r\n left in\r\n right out\r\n", {" left": " host-left", " right": " host-right"}),
    ("vpp-nat44-26.06", "show nat timeouts", "",
     "udp timeout: 3600sec\r\ntcp-established timeout: 7440sec\r\n", "other-udp timeout: 3600sec\r\nudp timeout: 300sec\r\n"),
    ("vpp-nat64-26.06", "show nat64 prefix", "", "NAT64 prefix:\r\n 64:ff9b::/96 tenant-vrf 0\r\n", {"vrf 0": "vrf 7"}),
    ("vpp-nat64-26.06", "show nat64 pool", "", "NAT64 pool:\r\n 198.19.0.1\r\n  0 busy udp ports\r\n", {"198.19.0.1": "198.19.0.10"}),
    ("vpp-ds-lite-26.06", "show dslite pool", "", "DS-Lite pool:\r\n203.0.113.8\r\n", {".8": ".88"}),
    ("vpp-ds-lite-26.06", "aftr-tunnel-endpoint-address", "", "2001:db8:6::1\r\n", "2001:db8:6::10\r\n"),
    ("vpp-npt66-26.06", "show npt66 bindings", "", "[0] internal: fd01:203:405::/48 external: 2001:db8:1::/48\r\n", {"1::/48": "1::/48x"}),
    ("vpp-lwb4-26.06", "show ipip tunnel", "",
     IPIP.format(src=LWB4, flags="encap-copy-dscp "), IPIP.format(src="2001:db8::77", flags="encap-copy-dscp ") + IPIP.format(src=LWB4, flags="none")),
    ("vpp-lwb4-26.06", "show interface address ipip8676", "",
     "ipip8676 (up): \r\n  unnumbered, use right\r\n  L3 192.168.19.1/30\r\n", {"right": "right.10"}),
]  # fmt: skip

TABLE = [*LINUX, *MODULES, *OPENBSD, *VPP]
IDS = [f"{row[0]}-{row[1].split('/')[-1]}-{number}" for number, row in enumerate(TABLE)]


@pytest.mark.parametrize(("case", "command", "step", "correct", "similar"), TABLE, ids=IDS)
def test_check_accepts_object_and_rejects_similar_object(case, command, step, correct, similar):
    check = find_check(case, command, step)
    if isinstance(similar, dict):
        assert all(words in correct for words in similar)
        similar = functools.reduce(
            lambda text, words: text.replace(*words), similar.items(), correct
        )
    assert check.find_problem(read(check, correct)) is None
    assert check.find_problem(read(check, similar)) is not None
    assert check.find_problem("") is not None


@pytest.mark.parametrize(("command", "output", "is_ours"), [
    ("left 2001:db8:6::1/64", "  L3 2001:db8:6::1/64\n", True),
    ("left 2001:db8:6::1/64", "  L3 2001:db8:6::1/64 ip6 table-id 7 fib-idx 1\n", True),
    ("left 2001:db8:6::1/64", "  L3 fd00:2001:db8:6::1/64\n", False),
    ("left 2001:db8:6::1/64", "  unnumbered, use 2001:db8:6::1/64\n", False),
    (f"ip route add {RULE}", format_fib(RULE, VIA), True),
    (f"ip route add {RULE}", format_fib(RULE, VIA, fib=3), False),
])  # fmt: skip
def test_existing_vpp_address_or_route_is_found(command, output, is_ours):
    (step,) = [s for s in plan_case("vpp-mape-26.06")[2].steps if command in s.command]
    text = f"left (up):\r\n{output}" if output.startswith("  ") else output.replace("\r", "")
    result = run_shell(f"vppctl() {{ cat; }}; {{ {step.record_command}; }}", text)
    assert bool(result.stdout.strip()) == is_ours


LISTED = """\
Chain POSTROUTING (policy ACCEPT)
num  target     prot opt source               destination
1    ACCEPT     17   --  203.0.113.0/24       0.0.0.0/0            /* not-v6t-beside */
2    SNAT       17   --  203.0.113.0/24       0.0.0.0/0            /* v6t-beside */ to:198.19.0.1:1024-65535
"""


def test_foreign_iptables_rule_with_a_longer_comment_is_not_removed():
    driver, facts, _ = plan_case("iptables-nat44")
    change = driver.find_live_change(CASE_BY_NAME["iptables-nat44"].intent, facts)
    shell = f'iptables() {{ case $* in *-L*) cat;; *) echo "$@";; esac; }}; {change.remove_command}'
    assert run_shell(shell, LISTED).stdout.split() == ["-w", "-t", "nat", "-D", "POSTROUTING", "2"]


@pytest.mark.parametrize(("written", "printed"), [
    ("198.19.1.0-198.19.1.3:1024-65535", "198.19.1.0/30:1024-65535"),
    ("[2001:db8::]-[2001:db8::3]:1024-65535", "[2001:db8::]/126:1024-65535"),
])  # fmt: skip
def test_nft_range_printed_as_prefix_is_accepted(written, printed):
    rule = 'oifname "right" ip protocol udp counter snat to '
    head = "type nat hook postrouting priority srcnat; policy accept;"
    listing = f"table ip v6t {{\n\tchain post {{\n\t\t{head}\n\t\t{rule}{printed}\n\t}}\n}}\n"
    assert expect_rules("nat hook postrouting", [f"{rule}{written}"]).find_problem(listing) is None


def test_missing_line_is_reported_with_most_similar_line():
    other = "\n".join(f"-A CHAIN -s 2001:db8::{n:x} -j DROP" for n in range(50))
    output = f"{other}\n-A CHAIN -p ipv6-icmp -j SNAT"
    problem = expect_lines("-A CHAIN -p icmpv6 -j SNAT").find_problem(output)
    assert "'-A CHAIN -p ipv6-icmp -j SNAT'" in problem
    assert "DROP" not in problem


NAT44_EI = """\
NAT44 sessions:
-------- thread 0 vpp_main: 0 sessions --------
-------- thread 1 vpp_wk_0: 12 sessions --------
  198.18.0.2: 12 dynamic translations, 0 static translations
-------- thread 2 vpp_wk_1: 30 sessions --------
"""
EMPTY_NAT44_EI = "\n".join(NAT44_EI.splitlines()[:2])
EI = {"nat44": "ei"}
NAT44, NAT64, DSLITE = intents.make_nat44(), intents.make_nat64(), intents.make_dslite()


# Words of the problem, or None without one.
@pytest.mark.parametrize(("driver", "intent", "options", "text", "problem"), [
    ("vpp", NAT44, {}, read_captured("vpp-show-nat44-summary.txt"), "7 sessions"),
    ("vpp", NAT44, EI, NAT44_EI, "42 sessions"),
    ("vpp", NAT44, EI, EMPTY_NAT44_EI, None),
    ("vpp", NAT44, EI, "", ""),
    ("vpp", NAT64, {}, read_captured("vpp-show-nat64-bib-all.txt"), "3 bindings"),
    ("vpp", NAT64, {}, "NAT64 BIB entries:\n", None),
    ("vpp", NAT64, {}, "", ""),
    ("vpp", DSLITE, {}, "B4 2001:db8::1 1 sessions\n  in ...\n", "1 B4s"),
    ("vpp", DSLITE, {}, "", None),
    ("vpp", DSLITE, {}, "connect: No such file or directory", ""),
    ("jool", NAT64, {}, read_captured("jool-nat64-stats.txt"), "3 sessions"),
    ("jool", NAT64, {}, "JSTAT_SESSIONS,0\n", None),
    # --all prints zeros, too, so a missing counter does not mean an empty table
    *(("jool", NAT64, {}, text, "") for text in ("", "Error: There's no instance v6t", "JSTAT_RECEIVED6,5\n")),
])  # fmt: skip
def test_flush_is_confirmed_by_an_empty_table_only(driver, intent, options, text, problem):
    (flush,) = make_plan(driver, intent, **options).flush
    actual = flush.check.find_problem(text)
    assert (actual is None) == (problem is None)
    assert (problem or "") in (actual or "")
