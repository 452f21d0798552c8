"""Telemetry: parsers of outputs, sampling, and reasons of loss figures."""

import os
import signal
import subprocess
from functools import partial

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bottleneck import check_has_driver
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.facts import parse_linux_facts
from v6t.drivers.duts.kinds import jool, nat46, openbsd_pf, snabb_lwaftr
from v6t.drivers.duts.kinds.command import parse_numbers
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.netfilter import conntrack
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.os import openbsd
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session import telemetry as session_telemetry
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.expect import expect_error

from . import intents
from .cases import CASES
from .remote_site import wait_until
from .support import read_captured, run_shell

PFCTL_INFO = read_captured("openbsd-pfctl-si.txt")
JOOL = "JSTAT_SESSIONS,200\nJSTAT64_TTL,3\nJSTAT_NEVER_SEEN,1\nsomething,else\n"
SNABB = """softwire-state {
  drop-all-ipv6-iface-packets 7; drop-no-source-softwire-ipv6-packets 7;
  drop-no-source-softwire-ipv6-bytes 700; drop-ipv4-frag-disabled 0; in-ipv4-packets 100;
  ingress-packet-drops 5;
}
"""
# output of ss (iproute2 6.1), also with packet sockets of other programs
SOCKETS = read_captured("ss-packet-sockets.txt")

# with a counter above zero on each core
CONNTRACK = read_captured("conntrack-S.txt").replace(" insert_failed=0", " insert_failed=2")

CP_TIME = "kern.cp_time=1,0,2,3,4,90\n"
TWO_KINDS = ("1000000,,cpu_core/cycles/,1,100.00,,\n3000000,,cpu_atom/cycles/u,1,100.00,,\n"
             "7,,cycles-ct,1,100.00,,\n9,,bus-cycles,1,100.00,,\n")  # fmt: skip


def parse_links(text):
    facts = parse_linux_facts({"system": "Linux 6.1", "links": text, "user": "0"}, "6.1")
    return facts.is_root, facts.interfaces


# Parser and its input, which is a file in ``captured`` or a text.
PARSED = {
    "cpu": (telemetry.parse_cpu_ticks, "proc-stat.txt"),
    "softnet": (telemetry.parse_softnet, "softnet_stat.txt"),
    "link": (telemetry.parse_link, "ip-s-o-link.txt"),
    "interfaces": (parse_links, "ip-j-link.json"),
    "conntrack": (conntrack.parse_conntrack_statistics, CONNTRACK),
    "process": (telemetry.parse_schedstat, "12 1000 200 3\n13 5 6 7\nnr_periods 9\nnr_throttled 4\nthrottled_time 3\n"),
    "jool counters": (jool.parse_statistics, JOOL),
    "jool packets": (jool.parse_packet_counters, JOOL),
    "jool table": (jool.parse_occupancy, JOOL),
    "jool statistics": (jool.parse_statistics, "jool-nat64-stats.txt"),
    "snabb sockets": (snabb_lwaftr.parse_socket_drops, SOCKETS),
    "snabb counters": (snabb_lwaftr.parse_counters, SNABB),
    "vpp interfaces": (vpp_outputs.parse_interface_counters, "vpp-show-interface.txt"),
    "vpp errors": (vpp_outputs.parse_errors, "vpp-show-errors.txt"),
    "vpp runtime": (vpp_outputs.parse_runtime, "vpp-show-runtime.txt"),
    "vpp sessions": (vpp_outputs.parse_nat44_sessions, "vpp-show-nat44-summary.txt"),
    "pf": (openbsd_pf.parse_info, "openbsd-pfctl-si.txt"),
    "pf limits": (openbsd_pf.parse_limits, "openbsd-pfctl-sm.txt"),
    "pf without limits": (openbsd_pf.parse_limits, "states        unlimited\n"),
    "openbsd interfaces": (openbsd.parse_ifconfig, "openbsd-ifconfig.txt"),
    "openbsd routing domains": (openbsd.parse_ifconfig, "openbsd-ifconfig-A.txt"),
    "openbsd cpu": (openbsd.parse_cpu_ticks, "openbsd-sysctl.txt"),
    # kern.cp_time is the mean over all cores (kern_sysctl.c), in the order of sys/sys/sched.h
    "openbsd cpu of one core": (openbsd.parse_cpu_ticks, f"hw.ncpuonline=1\n{CP_TIME}"),
    "openbsd cpu, mean of four": (openbsd.parse_cpu_ticks, f"hw.ncpuonline=4\n{CP_TIME}"),
    "openbsd cpu, incomplete": (openbsd.parse_cpu_ticks, "hw.ncpuonline=1\nkern.cp_time=1,0,2,"),
    "openbsd cpu, error": (openbsd.parse_cpu_ticks, "sysctl: third level name cp_time2 is invalid"),
    "softnet, error": (telemetry.parse_softnet, "cat: /proc/net/softnet_stat: No such file or directory"),
    "no finite number": (partial(parse_numbers, "sessions"), "nan inf"),
    "perf": (telemetry.parse_perf, "4000000,,cycles:u,8000000,100.00,,\n<not supported>,,instructions,0,100.00,,\n"),
    "perf, two kinds of cores": (telemetry.parse_perf, TWO_KINDS),
}  # fmt: skip


@pytest.mark.parametrize("name", PARSED)
def test_output_is_parsed(name, snapshot):
    parse, text = PARSED[name]
    assert parse(read_captured(text) if text.endswith((".txt", ".json")) else text) == snapshot


def test_device_that_is_unknown_is_rejected():
    with expect_error("missing-driver"):
        check_has_driver(resolve_setup(plugin="siit"))
    with expect_error("wrong-system"):
        parse_linux_facts({"system": "Darwin 23.1"}, "")
    with expect_error("unexpected-answer"):
        parse_linux_facts({"system": "Linux 6.1", "links": "[{"}, "")


def test_process_reading_includes_children(tmp_path):
    """A resolver forks a process per core, and its first process may be the idlest."""
    script = f"echo $$ >{tmp_path}/pid; sleep 60 & sleep 60 & echo $! ready; wait"
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    reading = telemetry.make_process_reading(f"{tmp_path}/pid")
    with subprocess.Popen(["sh", "-c", script], **options) as leader:
        try:
            child = leader.stdout.readline().split()[0]
            output = run_shell(reading.command).stdout
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
    threads = {name.partition(".")[0] for name in reading.parse(output)} - {"quota"}
    assert {str(leader.pid), child} < threads
    assert len(threads) == 3


@pytest.mark.parametrize("is_killed", [False, True])
def test_watcher_takes_samples_until_loop_ends(is_killed, tmp_path, monkeypatch):
    monkeypatch.setattr(session_telemetry, "LINE_DEADLINE_S", 0.5)
    log = tmp_path / "log"
    kill = "[ $(wc -l <log) -lt 4 ] || kill -9 $$" if is_killed else "true"
    command = f"cd {tmp_path}; echo >>log; {kill}; wc -l <log"
    readings = {"count": Reading(command, lambda text: {"n": float(text or "nan")})}
    process = LocalTransport("here").hold(session_telemetry.build_watch_script(readings, 0.01))
    samples = session_telemetry.read_samples(process, readings)
    watcher = session_telemetry.TelemetryWatcher(samples, process.release)
    wait_until(lambda: log.exists() and log.read_text().count("\n") > 3, "four samples")
    if is_killed:
        watcher._thread.join()
    values = [sample.figures["count"]["n"] for sample in watcher.stop()]
    assert values[:3] == [1.0, 2.0, 3.0]
    assert len(values) == 3 or not is_killed


LINK = {"rx.errors", "rx.dropped", "rx.missed", "tx.errors", "tx.dropped"}
SNMP6 = "Udp6InDatagrams 90\nUdp6InErrors 3\nUdp6RcvbufErrors 2\n"
OUTPUTS = {
    # output and loss figures, by the first word of a reading's name
    "cpu": ("proc-stat.txt", set()),
    "process": ("12 1000 200 3\nnr_periods 9\nnr_throttled 4\n", set()),
    "perf": ("4000000,,cycles,8000000,100.00,,\n", set()),
    "sessions": ("200\n", set()),
    "table": ("200\n1000\n", set()),
    "load": ("0.5\n", set()),
    "softnet": ("softnet_stat.txt", {"dropped"}),
    **dict.fromkeys(("link", "tun", "tunnel", "device"), ("ip-s-o-link.txt", LINK)),
    "conntrack": ("conntrack-S.txt", {"insert_failed", "drop", "early_drop", "chaintoolong"}),
    "udp": (SNMP6, {"Udp6InErrors", "Udp6RcvbufErrors"}),
    "snabb": (SNABB, {
        "drop-all-ipv6-iface-packets", "drop-no-source-softwire-ipv6-packets",
        "drop-ipv4-frag-disabled", "ingress-packet-drops",
    }),
    "sockets": (SOCKETS, {"dropped"}),
    "pf": (PFCTL_INFO, {
        "bad_offset", "fragment", "short", "normalize", "memory", "bad_timestamp", "congestion",
        "ip_option", "proto_cksum", "state_mismatch", "state_insert", "state_limit", "src_limit",
        "translate", "no_route",
    }),
    "runtime": ("vpp-show-runtime.txt", set()),
}  # fmt: skip


def get_readings(name, intent, **options):
    return make_driver(name, options).get_telemetry_readings(intent)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reading_declares_its_loss_figures(case):
    """Other readings are tested below and in test_verdicts.py."""
    for name, reading in get_readings(case.driver, case.intent, **case.options).items():
        kind = name.partition(" ")[0]
        if kind in ("interfaces", "errors", "jool", "drops"):
            continue
        text, losses = OUTPUTS[kind]
        figures = dict(reading.parse(read_captured(text) if text.endswith(".txt") else text))
        has_other_output = kind == "table" or case.driver in ("openbsd-pf", "network-cli")
        assert figures or has_other_output, f"{name} is not read"
        extra = {nat46.UNSENT_FIGURE} if case.driver == "nat46" and kind == "device" else set()
        assert {f for f in figures if reading.find_loss_reason(f)} == losses | extra, name


def judge_texts(readings, name, *texts, lost):
    """Judge a device from the outputs of one reading, one per second."""
    figures = [{name: dict(readings[name].parse(text))} for text in texts]
    samples = [session_telemetry.Sample(f, float(n), readings) for n, f in enumerate(figures)]
    return judge_device(samples, lost=lost)


def test_every_jool_counter_has_a_loss_reason():
    reading = get_readings("jool", intents.make_nat64())["jool"]
    kinds = {
        "JSTAT_BIB6_NOT_FOUND": LossReason.TABLE_FULL, "JSTAT_BIB4_NOT_FOUND": LossReason.NO_CONNECTION,
        "JSTAT_ENOMEM": LossReason.QUEUE, "JSTAT_UNKNOWN": LossReason.QUEUE, "JSTAT_DST_OUTPUT": LossReason.QUEUE,
        "JSTAT_OF_A_LATER_ONE": LossReason.QUEUE, "JSTAT_FAILED_ROUTES": LossReason.RULE, "JSTAT64_TTL": LossReason.RULE,
        "JSTAT46_DST": None, "JSTAT_SESSIONS": None, "JSTAT_RECEIVED6": None,
    }  # fmt: skip
    for name, kind in kinds.items():
        (figure,) = reading.parse(f"{name},1\n")
        assert reading.find_loss_reason(figure) == kind, figure
    assert reading.parse("JSTAT_JOOLD_MISSING_ACK,5\n") == {}


@pytest.mark.parametrize(("counter", "limited", "words"), [
    ("translate  ", "table", "or no port: pf translate grew"),
    ("state-limit", "table", "pf state_limit grew"),
    ("state-insert", "table", "connections were not entered into its table"),
    ("state-mismatch", "rules", "pf state_mismatch grew"),
])  # fmt: skip
def test_pf_drops_without_free_port_are_table_losses(counter, limited, words):
    readings = get_readings("openbsd-pf", intents.make_nat44())
    later = "\n".join(
        line[:35] + f"{int(line[35:50]) + 900:>9}" + line[44:] if counter.strip() in line else line
        for line in PFCTL_INFO.splitlines()
    )
    assert later != PFCTL_INFO.rstrip("\n")
    verdict = judge_texts(readings, "pf", PFCTL_INFO, later, lost=900)
    assert verdict.limited_by == limited
    assert words in verdict.explanation


def format_link(received, sent, errors=0):
    return (
        "7: x: <UP> mtu 1500\\    link/none \\    RX:  bytes packets errors dropped  missed   mcast           \\"
        f"      9  {received}  0  0  0  0 \\    TX:  bytes packets errors dropped carrier collsns           \\"
        f"      9  {sent}  {errors}  0  0  0 "
    )


def test_packets_not_sent_by_nat46_are_counted():
    readings = get_readings("nat46", intents.SIIT)
    (name,) = [n for n in readings if n.startswith("device ")]
    verdict = judge_texts(readings, name, format_link(100, 97), format_link(1100, 697), lost=400)
    assert verdict.limited_by == "rules"
    assert f"{name} not sent: 400 more" in verdict.evidence
    assert nat46.parse_counters(format_link(5, 7))["not sent"] == 0.0, "fragments"
    (line,) = judge_texts(readings, name, format_link(9, 9), format_link(99, 99), lost=0).evidence
    assert "0 frames were lost" in line


def test_user_figure_names_set_loss_reason():
    readings = get_readings("command", intents.ROUTER4, watch={"ring": "x", "dropped": "x"})
    for name, text, reasons in (
        (
            "ring",
            "drops=7 refused_ports=2 missed=3",
            [LossReason.QUEUE, LossReason.TABLE_FULL, None],
        ),
        ("dropped", "5", [LossReason.QUEUE]),
    ):
        figures = readings[name].parse(text)
        assert [readings[name].find_loss_reason(figure) for figure in figures] == reasons


def test_vpp_figures_of_several_threads_are_read():
    runtime = read_captured("vpp-show-runtime.txt")
    two = vpp_outputs.parse_runtime(f"Thread 0 vpp_main\n{runtime}Thread 1 vpp_wk_0\n{runtime}")
    assert two["thread1.node.ip4-map.calls"] == two["thread1.node.ip4-map.vectors"] == 30
    line = "[0 @ {}]: {} packets /nat44-ei/total-sessions\n"
    dumped = "".join(line.format(*row) for row in enumerate((0, 12, 30)))
    reading = get_readings("vpp", intents.make_nat44(), nat44="ei")["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}


@pytest.mark.parametrize(("name", "siit", "nat64"), [
    ("JSTAT_UNKNOWN_ICMP6_TYPE", "dropped", "not translated"),
    ("JSTAT_UNKNOWN_L4_PROTO", "not translated", "not translated"),
    ("JSTAT64_6791_ENOENT", "dropped: no IPv4 address for the source", "dropped: no IPv4 address for"),
    ("JSTAT_UNTRANSLATABLE_DST6", "dropped: an IPv6 address", "dropped: an IPv6 address"),
    ("JSTAT_A_LATER_ONE", "dropped (", "dropped ("),
])  # fmt: skip
def test_meaning_of_counter_depends_on_translator(name, siit, nat64):
    for intent, words in ((intents.SIIT, siit), (intents.make_nat64(), nat64)):
        (figure,) = get_readings("jool", intent)["jool"].parse(f"{name},1\n")
        assert figure.startswith(words)
        assert figure.endswith(f"({name})")
