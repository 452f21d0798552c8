"""Every reading of every driver, and which of its figures it declares to count lost frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.kinds import nat46, snabb_lwaftr
from v6t.drivers.duts.readings import LossReason
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample

from . import intents
from .cases import CASES
from .test_openbsd import PFCTL_SI

CAPTURED = Path(__file__).parent / "captured"

LINK = {"rx.errors", "rx.dropped", "rx.missed", "tx.errors", "tx.dropped"}
SNMP6 = "Udp6InDatagrams 90\nUdp6InErrors 3\nUdp6RcvbufErrors 2\n"
SNABB = """softwire-state {
  drop-all-ipv6-iface-packets 7; drop-no-source-softwire-ipv6-packets 7;
  drop-no-source-softwire-ipv6-bytes 700; drop-ipv4-frag-disabled 0; in-ipv4-packets 100;
  ingress-packet-drops 5;
}
"""
# iproute2 6.1, beside programs with packet sockets that they did not read
SOCKETS = """Netid Recv-Q Send-Q Local Address:Port Peer Address:PortProcess
p_raw 8960   0                  *:lo               *     skmem:(r8960,rb8192,t0,tb212992,f0,w0,o0,bl0,d1193)
p_raw 0      0                  *:left             *     skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d7)
"""
TOLD = {
    # by the first word of the reading: what is printed, and the figures that are losses
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
    "pf": (PFCTL_SI, {
        "bad_offset", "fragment", "short", "normalize", "memory", "bad_timestamp", "congestion",
        "ip_option", "proto_cksum", "state_mismatch", "state_insert", "state_limit", "src_limit",
        "translate", "no_route",
    }),
    "runtime": ("vpp-show-runtime.txt", set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_reading_says_which_of_its_figures_are_losses(case):
    for name, reading in (
        make_driver(case.driver, case.options).get_telemetry_readings(case.intent).items()
    ):
        kind = name.partition(" ")[0]
        if kind in ("interfaces", "errors", "jool", "drops"):
            continue  # by reason, below and in test_verdicts
        text, losses = TOLD[kind]
        text = (CAPTURED / text).read_text() if text.endswith(".txt") else text
        figures = dict(reading.parse(text))
        other_words = kind == "table" or case.driver in ("openbsd-pf", "network-cli")
        assert figures or other_words, (name, "is not read")
        own = {nat46.UNSENT_FIGURE} if case.driver == "nat46" and kind == "device" else set()
        assert {f for f in figures if reading.find_loss_reason(f)} == losses | own, name


def readings_of(name, intent, **options):
    return make_driver(name, options).get_telemetry_readings(intent)


def judged(readings, name, *texts, lost):
    """The verdict where a reading printed one text and then another."""
    samples = [Sample({name: dict(readings[name].parse(text))}, float(n), readings)
               for n, text in enumerate(texts)]  # fmt: skip
    return judge_device(samples, lost=lost)


def test_every_reason_of_jools_is_of_a_kind():
    reading = readings_of("jool", intents.nat64())["jool"]
    kinds = {
        "JSTAT_BIB6_NOT_FOUND": LossReason.ROOM, "JSTAT_BIB4_NOT_FOUND": LossReason.UNKNOWN,
        "JSTAT_ENOMEM": LossReason.QUEUE, "JSTAT_UNKNOWN": LossReason.QUEUE, "JSTAT_DST_OUTPUT": LossReason.QUEUE,
        "JSTAT_OF_A_LATER_ONE": LossReason.QUEUE, "JSTAT_FAILED_ROUTES": LossReason.RULE, "JSTAT64_TTL": LossReason.RULE,
        "JSTAT46_DST": None, "JSTAT_SESSIONS": None, "JSTAT_RECEIVED6": None,
    }  # fmt: skip
    for name, kind in kinds.items():
        (figure,) = reading.parse(f"{name},1\n")
        assert reading.find_loss_reason(figure) == kind, figure


@pytest.mark.parametrize(
    ("counter", "limited", "words"),
    [
        ("translate  ", "table", "or no port: pf translate grew"),
        ("state-limit", "table", "pf state_limit grew"),
        ("state-insert", "table", "connections were not entered into its table"),
        ("state-mismatch", "rules", "pf state_mismatch grew"),
    ],
)
def test_what_pf_drops_for_want_of_a_port_is_a_tables(counter, limited, words):
    readings = readings_of("openbsd-pf", intents.nat44())
    later = "\n".join(
        line[:35] + f"{int(line[35:50]) + 900:>9}" + line[44:] if counter.strip() in line else line
        for line in PFCTL_SI.splitlines()
    )
    assert later != PFCTL_SI.rstrip("\n")
    found = judged(readings, "pf", PFCTL_SI, later, lost=900)
    assert (found.limited_by, words in found.says) == (limited, True), found


def link_text(received, sent, errors=0):
    return (
        "7: x: <UP> mtu 1500\\    link/none \\    RX:  bytes packets errors dropped  missed   mcast           \\"
        f"      9  {received}  0  0  0  0 \\    TX:  bytes packets errors dropped carrier collsns           \\"
        f"      9  {sent}  {errors}  0  0  0 "
    )


def test_what_nat46_does_not_send_is_counted():
    readings = readings_of("nat46", intents.SIIT)
    (name,) = [n for n in readings if n.startswith("device ")]
    found = judged(readings, name, link_text(100, 97), link_text(1100, 697), lost=400)
    assert found.limited_by == "rules"
    assert f"{name} not sent: 400 more" in found.evidence
    assert nat46.parse_counters(link_text(5, 7))["not sent"] == 0.0, "fragments"
    (line,) = judged(readings, name, link_text(9, 9), link_text(99, 99), lost=0).evidence
    assert "0 frames were lost" in line


def test_what_a_tunnel_could_not_send_is_counted():
    case = next(c for c in CASES if c.driver == "ip6-tunnel")
    readings = readings_of("ip6-tunnel", case.intent)
    (name,) = [n for n in readings if n.startswith("tunnel ")]
    found = judged(readings, name, link_text(9, 9), link_text(9, 9, errors=90), lost=90)
    assert f"{name} tx.errors: 90 more" in found.evidence


def test_drops_of_packet_sockets_are_added_up():
    assert snabb_lwaftr.parse_socket_drops(SOCKETS) == {"dropped": 1200.0}
    assert snabb_lwaftr.parse_socket_drops("Netid Recv-Q\n") == {}
    assert snabb_lwaftr.parse_state(SNABB)["ingress-packet-drops"] == 5.0


def test_a_users_own_names_say_what_they_count():
    watch = {"ring": "echo drops=7 refused_ports=2 missed=3", "dropped": "echo 5"}
    readings = readings_of("command", intents.ROUTER4, watch=watch)
    ring, one = readings["ring"], readings["dropped"]
    figures = ring.parse("drops=7 refused_ports=2 missed=3")
    assert [ring.find_loss_reason(f) for f in figures] == [LossReason.QUEUE, LossReason.ROOM, None]
    assert [one.find_loss_reason(f) for f in one.parse("5")] == [LossReason.QUEUE]
