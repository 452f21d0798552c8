"""VPP in the lab; its program is in PATH or named by V6T_VPP."""

import os
import re
import shutil
from contextlib import closing, contextmanager

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import Bench, compile_directions
from v6t.core.runs.preflight import with_preflight_setup
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.kinds.vpp import process
from v6t.drivers.duts.kinds.vpp.map import MapE
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.telemetry import Sample, summarize_samples
from v6t.drivers.lab.setup import Bed
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error
from v6t.trials.trial import Trial

from . import intents
from .bench import EQUAL_OCTETS, TRANSLATION, Port, measure_traffic_classes, open_bed, open_bench
from .support import in_lab

PROGRAM = os.environ.get("V6T_VPP") or shutil.which("vpp") or ""
needs_vpp = pytest.mark.skipif(not PROGRAM, reason="no vpp in PATH; V6T_VPP may name one")
pytestmark = [*in_lab, pytest.mark.vpp, needs_vpp]

OPTIONS = {"program": PROGRAM}
MAPT = {"rule_ipv6": "2001:db8:ce::/48"}


def check_vpp_translation(plugin, params, testbed=None, **options):
    """Check the translation by VPP; return the finding, the read-backs and the description."""
    flags = {"plugin": plugin, "params": params, "dut": "vpp", "dut_params": {**OPTIONS, **options}}
    setup = resolve_setup(testbed=testbed, **flags)
    with open_bench(setup) as (bench, streams, check):
        bench.load(streams)
        finding = check(with_preflight_setup(bench.measure, setup.technology))
        return finding, bench.session.verify(), bench.describe()["device"]


@pytest.mark.parametrize(("plugin", "params", "options"), [
    ("mape-br", {"psid_offset": "0"}, {}),
    ("mape-br", {"negative_percent": "20"}, {}),
    ("mape-br", {}, {"workers": "1"}),
    ("mapt-br", {"rule_ipv6": "2001:db8:100::/40"}, {}),
    ("lwb4", {"psid_len": "0", "psid": "0"}, {}),
])  # fmt: skip
def test_all_frames_match_reference_translation(plugin, params, options):
    finding, read, described = check_vpp_translation(plugin, params, **options)
    assert finding is None
    assert len(read) > 5
    assert re.match(r"\d\d\.\d\d", described["version"])
    assert ("corelist-workers 1" in str(described["commands"])) == bool(options)


def test_background_traffic_passes_map_e_relay(tmp_path):
    """VPP drops native IPv6 on an interface with MAP-E, but not on a separate VLAN.

    ip6-map drops pairs of frames and forwards single ones, so this needs a trial with load.
    """
    mixed = {"n": "2", "m": "1"}
    setup = resolve_setup(plugin="mape-br", params=mixed, dut="vpp", dut_params=OPTIONS)
    sizes = setup.technology.make_frame_pair(setup.settings.frame_sizes[0])
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, "reverse", 50_000.0, 0.5, 0.3, 0.1)
    with closing(Bench(setup)) as bench:
        bench.load(compile_directions(setup.technology, sizes, setup.settings.seed))
        (counted,) = bench.measure(trial).directions.values()
    lost = {name: c.sent - c.received for name, c in counted.classes.items()}
    assert lost["bg"] > 1000
    assert lost["fg"] < lost["bg"] / 10
    bed = tmp_path / "bed.yaml"
    bed.write_text("links:\n  left: {vlan: 100, background: {vlan: 200}}\n"
                   "  right: {vlan: 101, background: {vlan: 201}}\n")  # fmt: skip
    finding, _, _ = check_vpp_translation("mape-br", mixed, bed)
    assert finding is None


TUNNEL = {f"reverse outer {field}: copied from the inner header" for field in ("DSCP", "ECN")}
# Octets of outer and inner header. VPP's customer side copies the DSCP, but not the ECN.
DIFFERENT = [(0, 0), (0xB8, 0), (0, 0xB8), (0xB8, 0xB9), (2, 2), (1, 2)]


@pytest.mark.parametrize(("plugin", "params", "octets", "behaviour"), [
    ("mape-br", {}, EQUAL_OCTETS, TUNNEL), ("lwaftr", {}, EQUAL_OCTETS, TUNNEL),
    ("mapt-br", MAPT, EQUAL_OCTETS, TRANSLATION), ("nat64", {}, EQUAL_OCTETS, TRANSLATION),
    ("lwb4", {}, DIFFERENT, None), ("mape-ce", {}, DIFFERENT, None),
])  # fmt: skip
def test_traffic_classes_follow_rfcs(plugin, params, octets, behaviour):
    measured = measure_traffic_classes(plugin, octets, params=params, dut="vpp", **OPTIONS)
    assert {pair: why for pair, (why, _) in measured.items() if why} == {}
    seen = set().union(*(behaviours for _, behaviours in measured.values()))
    words = ("DSCP", "ECN", "TOS", "traffic class")
    if behaviour is not None:
        assert {s for s in seen if any(w in s for w in words)} == behaviour


@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
def test_missing_ce_propagation_of_tunnel_is_detected(plugin):
    """CE in the outer header must be propagated (RFC 6040, section 4.2); VPP ignores it."""
    measured = measure_traffic_classes(plugin, [(3, 2), (2, 2), (2, 0)], dut="vpp", **OPTIONS)
    assert re.findall(r"\d+", measured[3, 2][0])[:2] == ["2", "3"]
    assert (measured[2, 2][0], measured[2, 0][0]) == ("", "")


@contextmanager
def start_bare_device(intent):
    """Start a device's namespace and interfaces without configuration; yield its shell and the lab."""
    dut = LabDut(make_driver("linux-router", {}), intent)
    dut.start_in_namespace = lambda pid: None
    with closing(Bed(intent.links, dut)) as bed:
        lab = bed.open()
        yield dut._make_transport(), lab


def test_printed_plan_produces_frame_of_mapperf_paper():
    """A shell runs the printed commands; the frame is that of the paper's figure 8."""
    words = ("--plugin", "mape-br", "--driver", "vpp", "--set", "psid_offset=0")
    result = v6t("dut", "plan", *words, "--set-dut", f"program={PROGRAM}")
    assert result.status == 0, result.err
    lines = result.out.partition("# between trials")[0].splitlines()
    commands = "\n".join(line for line in lines if not line.startswith("#"))
    with start_bare_device(intents.make_paper_mape()) as (shell, lab):
        assert shell.run("mkdir -p /run/v6t; cat >/run/plan", commands).status == 0
        plan = shell.run("sh /run/plan")
        assert (plan.status, plan.err) == (0, "")
        left, right = Port(lab.tester.pid, "left"), Port(lab.tester.pid, "right")
        link = intents.LINKS.right
        packet = IP(src="203.0.113.56", dst="192.0.2.80") / UDP(sport=41999, dport=35336)
        right.send(bytes(Ether(src=link.tester_mac, dst=link.dut_mac) / packet / b"of the paper"))
        out = left.await_udp(b"of the paper")
        shell.run("kill $(cat /run/v6t/vpp.pid)")
    assert out is not None, "frame dropped"
    assert (out[IPv6].src, out[IPv6].dst) == ("2001:db8:6::1", "2001:db8:ce:a11:0:c000:250:11")
    assert (out[IPv6].nh, out[IP].dst, out[UDP].dport) == (4, "192.0.2.80", 35336)


def test_nat44_ei_has_one_session_per_port_and_flush_frees_it():
    """VPP's `clear nat44 ei sessions` does not free ports, so the driver does not use it."""
    with open_bed("vpp", intents.make_nat44(), **OPTIONS, nat44="ei") as bed:

        def send(port, server_port):
            payload = b"from %d to %d" % (port, server_port)
            return bed.forward("forward", "198.18.0.2", "198.19.0.2", port, server_port, payload)

        def cli(words):
            return bed.session.transport.run(bed.session.driver.cli(words)).out

        assert len({send(5000, 53 + n)[UDP].sport for n in range(5)}) == 1
        assert bed.session.count_sessions() == 1
        assert bed.session.counts_endpoints
        cli("clear nat44 ei sessions")
        assert "1 busy udp ports" in cli("show nat44 ei addresses")
        assert send(5001, 53) is not None
        assert "2 busy udp ports" in cli("show nat44 ei addresses")
        bed.session.flush()
        assert " 0 busy udp ports" in cli("show nat44 ei addresses")


@pytest.mark.parametrize("plugin", ["ed", "ei"])
def test_full_table_is_named_as_bottleneck(plugin):
    intent = intents.with_values(intents.make_nat44(), session_limit=50)
    link = intent.links.left
    with open_bed("vpp", intent, **OPTIONS, nat44=plugin) as bed:
        readings = bed.dut.driver.get_telemetry_readings(intent)
        empty = Sample(bed.dut.report(), 0.0, readings)
        packet = IP(src="198.18.0.2", dst="198.19.0.2")
        frame = Ether(src=link.tester_mac, dst=link.dut_mac) / packet
        for n in range(80):
            bed.left.send(bytes(frame / UDP(sport=2000 + n, dport=53) / b"many"))
        bed.forward("forward", "198.18.0.2", "198.19.0.2", 2000, 53, b"once more")
        samples = [empty, Sample(bed.dut.report(), 1.0, readings)]
    verdict = judge_device(samples, lost=30)
    assert summarize_samples(samples).table == {"used": 50, "limit": 50, "full": 100}
    assert verdict.limited_by == "table", verdict
    assert any("maximum sessions exceeded" in line for line in verdict.evidence)


def test_frames_of_other_psid_have_a_drop_reason():
    """The drops (RFC 7597, section 8.1) are not counted again as queue drops."""
    intent = intents.make_paper_mape()
    link = intent.links.left
    with open_bed("vpp", intent, **OPTIONS) as bed:
        payload = b"not its own"
        inner = IP(src="192.0.2.80", dst="203.0.113.56") / UDP(sport=1234, dport=53) / payload
        outer = IPv6(src="2001:db8:ce:a11:0:c000:250:11", dst="2001:db8:6::1")
        frame = bytes(Ether(src=link.tester_mac, dst=link.dut_mac) / outer / inner)
        bed.left.send(frame)
        assert bed.right.await_udp(payload) is None
        samples = [bed.session.read_sample()]
        for _ in range(40):
            bed.left.send(frame)
        assert bed.right.await_udp(payload) is None
        samples.append(bed.session.read_sample())
    verdict = judge_device(samples, lost=40)
    assert verdict.limited_by == "rules", verdict
    assert "security check failed" in verdict.explanation
    summary = summarize_samples(samples)
    assert set(summary.drops.values()) == {40.0}
    assert {why.value for why in summary.lost_for.values()} == {"rule", "all"}
    assert sum(summary.distinct_drops.values()) == 40


def test_silently_rejected_domain_is_detected(monkeypatch):
    """VPP ignores EA bits beyond bit 64; the driver's check of the rule is disabled."""
    mape = intents.make_paper_mape()
    (rule,) = mape.configuration.rules
    beyond = {**rule.model_dump(), "ipv6_prefix": "2001:db8:ce::/56"}
    intent = intents.with_values(mape, rules=[beyond])
    monkeypatch.setattr(MapE, "check_supported", lambda relay, version: None)
    with expect_error("check-failed", mentions="v6t0"), open_bed("vpp", intent, **OPTIONS):
        pass


def test_vpp_telemetry_is_read():
    with open_bed("vpp", intents.ROUTER4, **OPTIONS) as bed:
        samples = []
        for first in (0, 20):
            for n in range(first, first + 20):
                assert bed.forward("forward", "198.18.0.2", "198.19.0.2", 5000, 53, b"frame %d" % n)
            samples.append(bed.session.read_sample())
        summary = summarize_samples(samples)
        assert summary.polls and summary.cores
        assert summary.per_packet["clocks"] > 0
        assert summary.drops == {}
        report = bed.dut.report()
        assert report["interfaces"]["rx.packets"] >= 40
        assert report["interfaces"]["host-left.rx_packets"] >= 20
        assert report["interfaces"]["host-right.tx_packets"] >= 20
        assert report["runtime"]["node.ip4-lookup.vectors_per_call"] >= 1
        assert "thread0.vector_rate_in" in report["runtime"]
        bed.session.rollback()
        assert bed.session.transport.run("ls -A /run/v6t; ls /proc/*/exe -l | grep -c /vpp$").out \
            .split() == ["beat", "lock", "0"]  # fmt: skip


STARTUP = """unix {{ cli-listen /run/theirs/cli.sock runtime-dir /run/theirs pidfile /run/theirs/pid
  log /run/theirs/log poll-sleep-usec 50 }}
socksvr {{ socket-name /run/theirs/api.sock }}
statseg {{ socket-name /run/theirs/stats.sock }}
memory {{ main-heap-size 512M main-heap-page-size 4K }}
buffers {{ page-size 4K }}
plugins {{ plugin default {{ disable }} {plugins} }}
"""
SHOW_COMMANDS = (
    "show interface", "show interface address", "show map domain", "show ip neighbors",
    "show ip fib", "show ip6 fib", "show interface features host-left",
    "show interface features host-right", "show nat44 addresses", "show nat64 pool",
    "show nat44 ei addresses", "show nat44 ei interfaces", "show npt66 bindings", "show ipip tunnel",
)  # fmt: skip


@contextmanager
def start_foreign_vpp(intent, **more):
    """Start a VPP like an operator would; yield a driver session with it, the lab and a CLI function."""
    control = f"{PROGRAM.rpartition('/')[0] or '/usr/bin'}/vppctl"
    sides = {"left": "host-left", "right": "host-right"}
    options = {"start": False, "socket": "/run/theirs/cli.sock", "vppctl": control, **sides, **more}
    with start_bare_device(intent) as (shell, lab):

        def cli(command):
            return shell.run(f"{control} -s /run/theirs/cli.sock {command}").out

        names = (*process.PLUGINS, "ipip", "npt66")
        plugins = "".join(f"plugin {name}_plugin.so {{ enable }} " for name in names)
        shell.run("mkdir -p /run/theirs; cat >/run/theirs/conf", STARTUP.format(plugins=plugins))
        try:
            assert shell.run(f"{PROGRAM} -c /run/theirs/conf").status == 0
            shell.run("for i in $(seq 10); do [ -S /run/theirs/cli.sock ] && break; sleep .5; done")
            for side in ("left", "right"):
                mac = getattr(intent.links, side).dut_mac
                cli(f"create host-interface name {side} hw-addr {mac} cksum-gso-disable")
            session = Session(make_driver("vpp", options), shell, intent)
            session.open()
            yield session, lab, cli
            session.close()
        finally:
            shell.run("kill $(cat /run/theirs/pid)")


COUNTER_LINE = re.compile(r"^ +[rt]x (packets|bytes)|^ +(drops|punts?|ip[46]) +\d+$|locks:|^ *$")


def read_vpp_state(cli):
    """Return the state that the driver may change and VPP can remove, without counters."""
    rows = [row for command in SHOW_COMMANDS for row in cli(command).splitlines()]
    rows = [re.sub(r" [a-z46-]+( [a-z]+)? +\d+$", "", r) if "/0/0/0" in r else r for r in rows]
    # an interface that once had an address keeps a node that rejects ARP
    rows = [row.replace("arp-disabled", "none configured") for row in rows]
    return [" ".join(row.split()) for row in rows if not COUNTER_LINE.search(" " * 9 + row)]


@pytest.mark.parametrize(("intent", "options"), [
    (intents.ROUTER4, {}), (intents.make_paper_mape(), {}), (intents.make_mapt(), {}),
    (intents.make_lwaftr(), {}), (intents.make_nat44(), {}), (intents.make_nat44(), {"nat44": "ei"}),
    (intents.make_nat64("64:ff9b::/96"), {}), (intents.make_intent("nptv6"), {}), (intents.make_intent("lwb4"), {}),
    (intents.B4, {}),
])  # fmt: skip
def test_running_vpp_is_restored(intent, options):
    with start_foreign_vpp(intent, **options) as (session, _, cli):
        before = read_vpp_state(cli)
        session.commit()
        assert session.verify()
        assert read_vpp_state(cli) != before
        if session.plan.flush:
            session.flush()
        assert any("undone" in line for line in session.rollback())
        assert read_vpp_state(cli) == before


OTHER_MAC = "02:00:00:00:00:99"


@pytest.mark.parametrize(("entry", "after"), [
    (f"{OTHER_MAC} static", [OTHER_MAC]),
    (f"{intents.LINKS.left.tester_mac} static", [intents.LINKS.left.tester_mac]),
    # VPP relearns dynamic entries
    (f"{OTHER_MAC}", []),
    (f"{intents.LINKS.left.tester_mac}", []),
])  # fmt: skip
@pytest.mark.parametrize("intent", [intents.ROUTER4, intents.ROUTER6], ids=lambda i: i.technology)
def test_existing_neighbor_entry_is_restored(intent, entry, after):
    host = str(next(iter(intent.left.neighbors)))
    with start_foreign_vpp(intent) as (session, _, cli):
        cli("set interface state host-left up")
        for address in intent.left.addresses:
            cli(f"set interface ip address host-left {address}")
        cli(f"set ip neighbor host-left {host} {entry}")

        def list_static_neighbors():
            rows = [row.split() for row in cli("show ip neighbors host-left").splitlines()]
            return [row[3] for row in rows if row[1:2] == [host] and row[2].startswith("S")]

        before = cli("show interface address host-left")
        session.commit()
        assert session.verify()
        assert list_static_neighbors() == [intents.LINKS.left.tester_mac]
        session.rollback()
        assert list_static_neighbors() == after
        assert cli("show interface address host-left") == before


KERNEL_IP = ("ip -o -6 addr | sed 's/ tentative//'; ip -6 route show table all; ip -o link; "
             "sysctl net.ipv6.conf net.ipv4.conf")  # fmt: skip


def test_kernel_ip_configuration_is_restored():
    """Addresses, routes, forwarding and the state of a link are restored."""
    with start_bare_device(intents.ROUTER4) as (shell, _):
        result = shell.run(
            "set -e; sysctl -q -w net.ipv6.conf.left.disable_ipv6=0 net.ipv6.conf.right.disable_ipv6=0; "
            "sysctl -q -w net.ipv4.conf.left.forwarding=1 net.ipv4.conf.right.forwarding=0; "
            "ip -6 addr add 2001:db8:77::1/64 dev left nodad; "
            "ip -6 addr add 2001:db8:78::1/64 dev left noprefixroute preferred_lft 0 nodad; "
            "ip -6 addr add fe80::77/64 dev left nodad; "
            "ip -6 route add 2001:db8:79::/48 via 2001:db8:77::9 dev left metric 55; "
            "ip -6 route add 2001:db8:7a::/48 dev left table 77; "
            "ip -6 route add 2001:db8:7c::/48 nexthop via 2001:db8:77::9 dev left "
            "nexthop via 2001:db8:77::8 dev left; "
            "ip link set right down; ip -6 addr add 2001:db8:7b::1/64 dev right"
        )
        assert result.status == 0, result
        before = shell.run(KERNEL_IP).out
        assert "2001:db8:79::/48 via 2001:db8:77::9 dev left" in before
        with closing(Session(make_driver("vpp", OPTIONS), shell, intents.ROUTER4)) as session:
            session.open()
            session.commit()
            assert session.verify()
            during = shell.run(KERNEL_IP).out
            assert "2001:db8:7" not in during
            # otherwise the kernel would forward test frames, too
            assert "net.ipv4.conf.left.forwarding = 0" in during
            assert any("undone" in line for line in session.rollback())
        assert sorted(shell.run(KERNEL_IP).out.splitlines()) == sorted(before.splitlines())


@pytest.mark.parametrize(("intent", "options", "noun"), [
    (intents.make_nat44(), {}, "nat44"),
    (intents.make_nat44(), {"nat44": "ei"}, "nat44 ei"),
    (intents.make_nat64(), {}, "nat64"),
])  # fmt: skip
def test_enabled_plugin_stays_enabled_after_rollback(intent, options, noun):
    """The failed step's undo must not disable the plugin, which no table shows while it is unused."""
    with start_foreign_vpp(intent, **options) as (session, _, cli):
        cli(f"{noun} plugin enable")
        with expect_error("command-failed"):
            session.commit()
        session.rollback()
        assert cli(f"{noun} plugin enable").strip()


DOMAIN = ("map add domain tag theirs ip4-pfx 198.51.100.0/24 ip6-pfx 2001:db8:99::/48 "
          "ip6-src 2001:db8:9::1 ea-bits-len 8 psid-offset 6 psid-len 0")  # fmt: skip
MAPPING = "nat44 add static mapping local 10.9.9.1 external 203.0.113.9"
EI = "set interface nat44 ei in host-left"
NAT64 = "nat64 add prefix 2001:db8:77::/96"


@pytest.mark.parametrize(("intent", "options", "lines", "shown"), [
    (intents.make_paper_mape(), {}, [DOMAIN], "show map domain"),
    (intents.make_nat44(), {}, ["nat44 plugin enable sessions 100", MAPPING], "show nat44 static mappings"),
    (intents.make_nat44(), {"nat44": "ei"}, ["nat44 ei plugin enable sessions 100", EI], "show nat44 ei interfaces"),
    (intents.make_nat64(), {}, ["nat64 plugin enable", NAT64], "show nat64 prefix"),
], ids=["MAP", "NAT44", "NAT44-EI", "NAT64"])  # fmt: skip
def test_foreign_vpp_configuration_is_rejected(intent, options, lines, shown):
    """Otherwise enabling the NAT would fail, and the undo would remove the foreign NAT."""
    with start_foreign_vpp(intent, **options) as (session, _, cli):
        for line in lines:
            assert cli(line).strip() in ("", "0")
        before = cli(shown)
        assert before.strip()
        with expect_error("foreign-configuration"):
            session.commit()
        assert cli(shown) == before
