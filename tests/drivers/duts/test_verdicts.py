"""Verdicts on devices: of their own figures, of the tester's, and at which rate they were seen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from v6t.core.runs.bottleneck import (
    choose_trial,
    describe_entry,
    describe_tester_limit,
    find_rate_above,
    split_samples,
)
from v6t.drivers.duts.bottleneck import Verdict, combine_verdicts, judge_device
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.readings import LossReason
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample
from v6t.drivers.duts.telemetry_summary import compute_core_shares, summarize_samples
from v6t.trials.connections import PhaseOneResult
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

from . import intents

KERNEL = {
    **make_driver("jool", {}).get_telemetry_readings(intents.nat64()),
    **make_driver("tayga-nftables", {}).get_telemetry_readings(intents.nat64()),
}
VPP = make_driver("vpp", {}).get_telemetry_readings(intents.nat44())
SNABB = make_driver("snabb-lwaftr", {}).get_telemetry_readings(intents.lwaftr())


def kernel(figures, seen_s=0.0):
    """A sample of a device whose readings are the kernel's, a process's and Jool's."""
    return Sample(figures, seen_s, KERNEL)


def grown(samples):
    return summarize_samples(samples).drops


def seconds(*idle, drops=(0, 0, 0), name="tx.dropped"):
    """Samples of cores with these shares of idle time [%]; counters of lost frames."""
    made = []
    for second, lost in enumerate(drops):
        cpu = {}
        for core, share in enumerate(idle):
            cpu[f"cpu{core}.idle"] = float(share * second)
            cpu[f"cpu{core}.softirq"] = float((100 - share) * second)
            cpu[f"cpu{core}.total"] = float(100 * second)
        made.append(kernel({"cpu": cpu, "link left": {name: float(lost)}}))
    return made


def test_a_core_without_idle_time_limits_even_if_the_average_has_some():
    found = judge_device(seconds(0, 60))
    assert found.limited_by == "cpu"
    assert "1 of 2" in found.says
    assert any(re.fullmatch("cpu0: idle 0 % .* 0 % .* 100 %", line) for line in found.evidence)
    assert "cpu1: idle 60 % at least" in " ".join(found.evidence)


def test_idle_time_is_kept_by_core_and_second():
    assert compute_core_shares(seconds(0, 60), "idle") == {"cpu0": [0.0, 0.0], "cpu1": [60.0, 60.0]}


@pytest.mark.parametrize(
    ("samples", "tester", "lost", "limited"),
    [
        (seconds(50, 60, drops=(0, 5, 90)), "", None, "contention"),
        (seconds(95, 90, drops=(0, 5, 90)), "", None, "queue"),
        (seconds(30, 60), "", None, "unknown"),
        ([], "", None, "unknown"),
        # what the device does not count is not put on it, nor is it said that nothing was lost
        (seconds(95, 90), "", 7, "unknown"),
        (seconds(95, 90), "", 0, "nothing here"),
        (seconds(0, 0), "the tester", None, "tester"),
        (seconds(0, 0, drops=(0, 10, 20)), "the tester", None, "cpu"),
    ],
)
def test_loss_with_time_left_is_contention_and_with_all_the_time_a_queue(
    samples, tester, lost, limited
):
    assert judge_device(samples, tester, lost).limited_by == limited


def test_evidence_names_drops_and_what_the_tester_missed():
    lossy, missed = judge_device(seconds(95, drops=(0, 5, 90))), judge_device(seconds(95), lost=7)
    assert any("tx.dropped: 90" in line for line in lossy.evidence)
    assert any("missed 7 frames" in line for line in missed.evidence)
    assert judge_device(seconds(30)[:1]).evidence == ()


TESTER = "the tester: the device was not asked for more"


def vpp(per_call, drops=0, reason="host-left.rx-miss", name="interfaces"):
    """A VPP that took so many vectors per call, after an hour in which it took one."""
    made = []
    for second in range(4):
        runtime = {
            "thread0.node.ip6-map.calls": 3.6e6 + 1000 * second,
            "thread0.node.ip6-map.vectors": 3.6e6 + 1000 * per_call * second,
            "node.ip6-map.vectors_per_call": 1.0,
            "thread0.vector_rate_drop": 7.0 * second,
        }
        lost = {reason: float(drops * second)}
        made.append(Sample({"runtime": runtime, name: lost}, float(second), VPP))
    return made


def test_a_polling_vpp_is_judged_by_its_vectors():
    full, room = judge_device(vpp(241)), judge_device(vpp(44))
    assert full.limited_by == "cpu"
    assert "ip6-map takes 241" in full.says
    assert room.limited_by == "nothing here"
    assert any("ip6-map: up to 44" in line for line in room.evidence)
    lossy = judge_device(vpp(44, drops=9))
    assert lossy.limited_by == "queue"
    assert "interfaces host-left.rx-miss grew" in lossy.says
    assert judge_device(vpp(44), lost=9).limited_by == "unknown"


def test_vectors_are_counted_from_second_to_second_of_each_thread():
    """Averages since VPP began hide a load of seconds; an idle thread does not dilute a full one."""
    samples = [
        Sample({"runtime": {
            "thread0.node.ip4-input.calls": 1e4 * n, "thread0.node.ip4-input.vectors": 2e4 * n,
            "thread1.node.ip4-input.calls": 10.0 * n, "thread1.node.ip4-input.vectors": 2500.0 * n,
        }}, n) for n in range(1, 4)
    ]  # fmt: skip
    assert summarize_samples(samples).vectors_per_call == {"ip4-input": 250.0}
    assert summarize_samples(samples[:1]).vectors_per_call == {}
    forgot = [*samples, Sample({"runtime": {
        "thread0.node.ip4-input.calls": 1.0, "thread0.node.ip4-input.vectors": 1.0}}, 4.0)]  # fmt: skip
    assert summarize_samples(forgot).vectors_per_call == {"ip4-input": 250.0}


def test_a_vpp_with_room_behind_a_tester_at_its_limit_is_excused():
    assert judge_device(vpp(44), TESTER).limited_by == "tester"
    assert judge_device(vpp(241), TESTER).limited_by == "cpu"
    assert judge_device(vpp(44, drops=9), TESTER).limited_by == "queue"
    parts = {"CE": judge_device(vpp(44), TESTER), "PE": judge_device(seconds(50, 60), TESTER)}
    assert combine_verdicts(parts).startswith("the tester limits")


def test_a_counter_that_a_device_does_not_show_was_0_where_it_shows_others():
    reason = "nat44-ei-in2out: maximum sessions exceeded"
    silent, told = {}, {"reasons": 4.0, reason: 30.0}
    shown = [
        Sample({"errors": figures}, float(n), VPP)
        for n, figures in enumerate(({"reasons": 3.0}, told))
    ]
    assert grown(shown) == {f"errors {reason}": 30.0}
    unread = [Sample({"errors": f}, float(n), VPP) for n, f in enumerate((silent, told))]
    assert grown(unread) == {}, "it may have been there all the time"


def test_a_vpp_without_ports_or_sessions_has_a_full_table():
    reason = "nat44-ed-in2out: maximum sessions exceeded"
    assert judge_device(vpp(44, drops=50, reason=reason, name="errors")).limited_by == "table"


def test_two_devices_are_judged_together():
    busy, idle = Verdict("cpu", "busy", ()), Verdict("nothing here", "idle", ())
    stuck = Verdict("contention", "stuck", ())
    assert combine_verdicts({"CE": busy}) == ""
    assert combine_verdicts({"CE": busy, "PE": idle}).startswith("CE limits: ")
    assert combine_verdicts({"CE": idle, "PE": stuck}).startswith("PE limits: ")
    assert "CE and PE" in combine_verdicts({"CE": busy, "PE": busy})
    assert "none of them" in combine_verdicts({"CE": idle, "PE": idle})


def test_a_verdict_is_printed_with_its_evidence():
    entry = {
        "device": "ssh dut", "frame_sizes": {"ipv6": 84, "ipv4": 64}, "direction": "forward",
        "rate_fps": 25000.0, "says": "cpu0 had no time left", "evidence": ["cpu0: idle 0 %"],
    }  # fmt: skip
    assert describe_entry(entry) == [
        "84/64 octets, forward, 25,000 fps, ssh dut: cpu0 had no time left",
        "  cpu0: idle 0 %",
    ]
    above = {**entry, "judged_at": "above", "judged_fps": 31250.0}
    assert "25,000 fps" in describe_entry(above)[0]


# ------------------------------------------------------------------ one shape


def process(*shares, quota=(), idle=50):
    """A second after the other in which the threads of a process ran and waited so much [%]."""
    made = []
    for second in range(4):
        told = {}
        for thread, (ran, waited) in enumerate(shares):
            told[f"{thread}.run_ns"] = ran * 1e7 * second
            told[f"{thread}.wait_ns"] = waited * 1e7 * second
        told |= dict(
            zip(("quota.periods", "quota.throttled"), (q * second for q in quota), strict=False)
        )
        cpu = {"cpu0.idle": float(idle * second), "cpu0.total": 100.0 * second}
        made.append(kernel({"process": told, "cpu": cpu}, float(second)))
    return made


def test_the_busiest_thread_speaks_for_its_process():
    told = summarize_samples(process((10, 5), (40, 30), quota=(10, 4)))
    assert told.process == {"run": 40.0, "wait": 30.0, "throttled": 40.0}
    assert summarize_samples(process()).process == {}


@pytest.mark.parametrize(
    ("shares", "quota", "idle", "limited", "words"),
    [
        ((97, 1), (), 0, "cpu", "one core is all it can use"),
        ((10, 2), (10, 9), 0, "cpu", "in 90 % of its periods"),
        ((10, 85), (), 90, "cpu", "a core was idle meanwhile"),
        ((10, 85), (), 0, "cpu", "no core was idle, so others were on its cores"),
        ((10, 85), (10, 1), 0, "cpu", "%: others were on its cores"),
        ((10, 20), (10, 0), 0, "cpu", "cpu0 had no time left"),
        ((10, 20), (10, 0), 50, "unknown", "no core was busy"),
    ],
)
def test_a_process_is_judged_by_the_time_it_was_given(shares, quota, idle, limited, words):
    found = judge_device(process(shares, quota=quota, idle=idle))
    assert found.limited_by == limited
    assert words in found.says


def dropping(shares, idle, figure="tx.dropped", quota=()):
    """The same process, and a queue in front of it that overflows all the time."""
    return [
        kernel({**s.figures, "link left": {figure: 50.0 * n}}, s.seen_s)
        for n, s in enumerate(process(shares, idle=idle, quota=quota))
    ]


@pytest.mark.parametrize(
    ("shares", "idle", "limited", "words"),
    [
        ((22, 58), 0, "cpu", "ran 22 % of the time and waited for a core for 58 %: no core was idle, so others"),
        ((22, 58), 60, "cpu", "a core was idle meanwhile, so a quota held it back or it is bound"),
        ((22, 5), 60, "queue", "although it had time left, 73 % of it: link left tx.dropped grew"),
        ((22, 24), 0, "queue", "although it had time left, 54 % of it"),
    ],
)  # fmt: skip
def test_who_waits_for_a_core_has_no_time_left_whatever_its_queues_say(
    shares, idle, limited, words
):
    found = judge_device(dropping(shares, idle), lost=150)
    assert found.limited_by == limited, found
    assert words in found.says
    assert "link left tx.dropped" in found.says


def test_waiting_fills_no_table():
    """What a table has no room for is not lost for want of time."""
    samples = [
        kernel({**s.figures, "conntrack": {"insert_failed": 50.0 * n}, "link left": {"tx.packets": 9.0 * n}}, s.seen_s)
        for n, s in enumerate(process((22, 58), idle=0))
    ]  # fmt: skip
    assert judge_device(samples, lost=150).limited_by == "table"


def test_what_is_said_of_several_devices_rests_on_each_verdict():
    """None has time left, or room, of which only its losses are known."""
    full, short = Verdict("cpu", "", ()), Verdict("table", "", ())
    idle, untold = Verdict("nothing here", "", ()), Verdict("unknown", "", ())
    told = {
        (short, idle): "CE limits: it loses frames (table); the others have room",
        (short, untold): "CE limits: it loses frames (table); PE: unknown",
        (full, short): "CE limits: it has no time left; PE: table",
        (short, short): "CE and PE limit together: give each what it is short of and repeat",
        (full, full): "CE and PE limit together: give one of them more cores and repeat",
    }
    for (ce, pe), words in told.items():
        assert combine_verdicts({"CE": ce, "PE": pe}) == words


def test_a_full_table_is_told_before_all_else():
    samples = seconds(0, 0)
    figures = [{"used": 90.0, "limit": 100.0}, {"used": 100.0, "limit": 100.0}]
    samples = [
        kernel({**s.figures, "conntrack": {"insert_failed": n * 7.0}, "table": figures[n > 0]}, n)
        for n, s in enumerate(samples)
    ]
    found = judge_device(samples, "the tester: the device was not asked for more")
    assert (found.limited_by, summarize_samples(samples).table["full"]) == ("table", 100.0)
    assert any("100 of 100" in line for line in found.evidence)
    assert "conntrack insert_failed: 14 more" in found.evidence


def conntrack(idle, more, other=0, figure="insert_failed", used=20.0):
    """A kernel's NAT of whose losses so many a second were for want of room, and so many others."""
    return [
        kernel({**s.figures, "conntrack": {figure: float(more * n)},
                "table": {"used": used, "limit": 1000.0}}, float(n))
        for n, s in enumerate(seconds(*idle, drops=(0, other, 2 * other)))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "lost", "limited", "words"),
    [
        # two packets that raced do not excuse a core without time
        (conntrack((1, 60), 1), None, "cpu", "cpu0 had no time left"),
        (conntrack((1, 60), 50), 40_000, "cpu", "cpu0 had no time left"),
        (conntrack((1, 60), 50, other=4000), None, "cpu", "cpu0 had no time left"),
        (conntrack((50, 60), 1), 40_000, "unknown", "no counter of this device says"),
        (conntrack((50, 60), 1, other=4000), 8000, "contention", "yet it lost frames"),
        (conntrack((50, 60), 1), 2, "table", "no port was free for them, or two frames"),
        (conntrack((1, 60), 500), 1000, "table", "no port was free for them, or two frames"),
        (conntrack((50, 60), 500, figure="drop"), None, "table", "has no room"),
        (conntrack((1, 60), 50, used=995.0), 40_000, "table", "100 % of it are in use"),
    ],
)
def test_a_table_is_blamed_for_its_share_of_the_losses(samples, lost, limited, words):
    found = judge_device(samples, lost=lost)
    assert found.limited_by == limited
    assert words in found.says


@pytest.mark.parametrize(
    ("reason", "limited"),
    [
        ("jool dropped: an IPv6 address without translation (JSTAT_UNTRANSLATABLE_DST6)", "rules"),
        ("jool dropped: no memory (JSTAT_ENOMEM)", "contention"),
        ("jool dropped (JSTAT_OF_A_LATER_ONE)", "contention"),
        ("jool not translated (JSTAT46_DST)", None),
        ("softnet squeezed", None),
        ("table drop", None),
        ("cpu cpu0.drop", None),
        ("made up drop", None),
    ],
)
def test_what_a_reading_does_not_declare_is_no_loss_whatever_its_name(reason, limited):
    name, _, figure = reason.partition(" ")
    samples = [
        kernel({**s.figures, name: {figure: 50.0 * n}}, float(n))
        for n, s in enumerate(seconds(50, 60))
    ]
    assert grown(samples) == ({reason: 100.0} if limited else {})
    assert judge_device(samples, lost=100).limited_by == (limited or "unknown")


@pytest.mark.parametrize(
    ("drops", "lost", "limited"),
    [
        ((0, 0, 1), 0, "tester"),  # a router solicitation of somebody's
        ((0, 0, 2), 400, "tester"),
        ((0, 5, 9), None, "tester"),
        ((0, 50, 90), 100, "cpu"),
        ((0, 50, 90), None, "cpu"),
    ],
)
def test_a_stray_does_not_put_a_testers_limit_on_the_device(drops, lost, limited):
    samples = seconds(0, 0, drops=drops, name="rx.dropped")
    assert judge_device(samples, TESTER, lost).limited_by == limited


@pytest.mark.parametrize("lost", [0, 400])
def test_a_stray_makes_no_queue_and_no_contention(lost):
    one = seconds(95, 90, drops=(0, 0, 1))
    assert judge_device(one, lost=lost).limited_by == ("unknown" if lost else "nothing here")
    worker = [kernel({**s.figures, "link left": {"rx.dropped": float(n > 1)}}, s.seen_s)
              for n, s in enumerate(process((10, 2)))]  # fmt: skip
    assert judge_device(worker, lost=lost).limited_by == "unknown"
    lossy = judge_device(vpp(44, drops=1), lost=lost)
    assert lossy.limited_by == ("unknown" if lost else "nothing here")


def test_cores_that_a_tester_at_its_limit_shares_are_not_the_devices():
    lossy = seconds(0, 60, drops=(0, 50, 90))
    found = judge_device(lossy, TESTER, 100, shared=True)
    assert found.limited_by == "unknown"
    assert "cpu0" in found.says
    assert judge_device(lossy, TESTER, 100).limited_by == "cpu"
    assert judge_device(lossy, "", 100, shared=True).limited_by == "cpu"
    own = process((97, 1), idle=0)  # a process is judged by its own time
    assert judge_device(own, TESTER, 100, shared=True).limited_by == "cpu"


# ------------------------------------------------------------------ devices that poll


def test_every_reason_that_vpp_is_read_for_is_a_loss_and_of_its_kind():
    """PSID drops are no queue's; the interface's own count of them is not counted again."""
    expected = {
        LossReason.ROOM: "table",
        LossReason.UNKNOWN: "rules",
        LossReason.RULE: "rules",
        LossReason.QUEUE: "queue",
    }
    for words, kind in vpp_outputs.ERROR_TEXT_REASONS.items():
        line = f"        80         ip4-map                 {words} of some kind        error\n"
        head = "   Count                  Node              Reason               Severity\n"
        told = (
            vpp_outputs.parse_errors(head + line),
            vpp_outputs.parse_errors(head + line.replace("80", "2", 1)),
        )
        ((reason, grew),) = [item for item in told[0].items() if item[0] != "reasons"]
        assert grew == 80 and VPP["errors"].find_loss_reason(reason) == kind
        assert VPP["errors"].find_loss_reason("reasons") is None
        samples = [
            Sample({**s.figures, "errors": errors,
                    "interfaces": {"host-left.drops": errors[reason]}}, s.seen_s, VPP)
            for s, errors in zip(vpp(44)[::3], told[::-1], strict=True)
        ]  # fmt: skip
        found = judge_device(samples, lost=78)
        assert (words, found.limited_by) == (words, expected[kind])
        assert reason in found.says


def test_drops_of_an_interface_alone_are_no_queue():
    found = judge_device(vpp(44, drops=90, reason="host-left.drops"), lost=270)
    assert found.limited_by == "unknown"
    assert found.says


@pytest.mark.parametrize(
    ("figure", "limited"),
    [("rx-miss", "queue"), ("rx-error", "queue"), ("tx-error", "queue"), ("punt", "rules")],
)
def test_every_counter_of_vpps_interfaces_counts(figure, limited):
    samples = vpp(44, drops=90, reason=f"host-left.{figure}")
    assert grown(samples) == {f"interfaces host-left.{figure}": 270.0}
    assert judge_device(samples, lost=270).limited_by == limited
    assert grown(vpp(44, drops=90, reason="host-left.rx_packets")) == {}


def test_what_follows_a_full_table_is_not_held_against_it():
    """Answers to connections that were refused are of none that the NAT knows."""

    def at(n, used):
        errors = {"reasons": 2.0, "nat44-ed-in2out: out of ports": 100.0 * n,
                  "nat44-ed-out2in: no translation": 400.0 * n}  # fmt: skip
        return Sample({**vpp(44)[n].figures, "errors": errors,
                       "table": {"used": used, "limit": 100.0}}, float(n), VPP)  # fmt: skip

    assert judge_device([at(0, 50.0), at(1, 50.0)], lost=500).limited_by == "table"
    errors = {"reasons": 1.0, "nat64-in2out: no translation": 90.0}
    full = [Sample({"errors": {**errors, "nat64-in2out: no translation": 90.0 * n},
                    "table": {"used": 100.0, "limit": 100.0}}, float(n), VPP)
            for n in (0, 1)]  # fmt: skip
    assert judge_device(full, lost=90).limited_by == "table"


def polling(readings, **figures):
    """Four seconds of a device whose cores have no idle time, whatever it does."""
    return [
        Sample({"cpu": {"cpu0.idle": 0.0, "cpu0.softirq": 7.0 * n, "cpu0.total": 100.0 * n},
                **{name: {f: v * n for f, v in told.items()} for name, told in figures.items()}},
               float(n), readings) for n in range(4)
    ]  # fmt: skip


def test_cores_that_poll_are_told_and_not_judged():
    for readings in (VPP, SNABB):
        found = judge_device(polling(readings), lost=0)
        assert found.limited_by == "unknown", found
        assert "it polls" in found.says
        assert "polls" in found.evidence[1]
        assert "softirq up to 7 %" in found.evidence[1]
        assert judge_device(polling(readings), TESTER, 0).limited_by == "tester"
        told = summarize_samples(polling(readings)).to_json()
        assert told["polls"] and told["cores"]["cpu0"]["busy"] == 100.0
    assert "polls" not in summarize_samples(seconds(50)).to_json()


@pytest.mark.parametrize(
    ("reading", "figures", "limited"),
    [
        ("snabb", {"ingress-packet-drops": 90.0}, "cpu"),
        ("sockets", {"dropped": 90.0}, "cpu"),
        ("snabb", {"drop-no-source-softwire-ipv6-packets": 90.0,
                   "drop-all-ipv6-iface-packets": 90.0}, "rules"),
        ("snabb", {"in-ipv4-packets": 90.0}, "unknown"),
    ],
)  # fmt: skip
def test_snabb_is_judged_by_what_it_did_not_fetch(reading, figures, limited):
    found = judge_device(polling(SNABB, **{reading: figures}), lost=270)
    assert found.limited_by == limited, found
    if limited != "unknown":
        assert next(iter(figures)) in found.says


def test_a_vpps_clocks_are_told_per_packet_where_rounding_allows():
    def at(n, calls):
        return Sample({
            "runtime": {"thread0.node.ip6-map.clocks": 3e2 * calls, "thread1.node.ip6-map.clocks": 1e2 * calls,
                        "thread0.node.ip6-map.vectors": calls},
            "interfaces": {"rx.packets": 2 * calls, "host-left.rx_packets": calls},
        }, float(n), VPP)  # fmt: skip

    assert summarize_samples([at(0, 1000.0), at(1, 9000.0)]).per_packet == {"clocks": 200.0}
    # an hour before: three digits of all that do not tell the last second
    assert summarize_samples([at(0, 1e9), at(1, 1e9 + 8000.0)]).per_packet == {}


def test_tester_limit_is_described_by_its_rate():
    assert describe_tester_limit({"tester_limited": False, "upper_bound_hit": False}) == ""
    assert "30,000 fps" in describe_tester_limit(
        {"tester_limited": True, "tester_ceiling": 30000.0}
    )


def test_counted_cycles_are_told_per_packet():
    text = "4000000,,cycles:u,8000000,100.00,,\n<not supported>,,instructions,0,100.00,,\n"
    figures = telemetry.parse_perf(text)
    assert figures == {"cycles_per_s": 2e7}
    kinds = "1000000,,cpu_core/cycles/,1,100.00,,\n3000000,,cpu_atom/cycles/u,1,100.00,,\n"
    noise = "7,,cycles-ct,1,100.00,,\n9,,bus-cycles,1,100.00,,\n"
    assert telemetry.parse_perf(kinds + noise) == figures
    samples = [
        kernel({"perf": figures, "link left": {"rx.packets": n * 5e4}}, float(n)) for n in range(3)
    ]
    assert summarize_samples(samples).per_packet == {"cycles": 400.0}
    # what comes out of a translator's own interface has come in before
    inner = [
        kernel({**s.figures, "tun v6t-nat64": {"rx.packets": n * 5e4}}, s.seen_s)
        for n, s in enumerate(samples)
    ]
    assert summarize_samples(inner).per_packet == {"cycles": 400.0}


# ------------------------------------------------------------------ found and above


def counted(received, sent=1000, faults=(), sending_s=1.0):
    """What a tester says of a trial of a thousand frames a direction."""
    one = DirectionResult({"f": ClassCount("foreground", 1000, sent, received)}, sending_s)
    return TrialResult({"forward": one}, faults)


AT = Trial("bottleneck", "k", 84, 64, "forward", rate_fps=1000.0, duration_s=1.0)
BOTH = {"found": AT, "above": replace(AT, key="k/above", rate_fps=1250.0)}


@pytest.mark.parametrize(
    ("above", "when", "rate_fps", "lost", "words"),
    [
        (counted(900), "above", 1250.0, 100, ""),
        (counted(900, faults=("a worker died",)), "found", 1000.0, 1, "a worker died"),
        (counted(800, sent=900), "found", 1000.0, 1, "sent 900 of 1000 frames"),
        (counted(900, sending_s=1.3), "found", 1000.0, 1, "sending took 1.3"),
        (TrialResult({}), "found", 1000.0, 1, "reported nothing"),
    ],
)
def test_the_verdict_is_above_the_found_rate_if_the_tester_did_its_part(
    above, when, rate_fps, lost, words
):
    seen = {"found": seconds(50), "above": seconds(0)}
    at = choose_trial(BOTH, {"found": counted(999), "above": above}, seen, 1.01)
    assert (at.when, at.rate_fps, at.lost) == (when, rate_fps, lost)
    assert words in " ".join(at.notes)
    assert bool(at.notes) == bool(words)


def test_connections_that_do_not_come_about_are_lost_and_no_fault_of_the_testers():
    """The table of the device is full before a frame is sent in them."""
    refused = TrialResult({}, connections=PhaseOneResult(required=300, sent=300, learned=50))
    seen = {"found": seconds(50)}
    at = choose_trial({"found": AT}, {"found": refused}, seen, 1.01)
    assert (at.when, at.lost) == ("found", 250)
    assert "300 connections 50" in at.notes[-1]
    assert (
        choose_trial({"found": AT}, {"found": replace(refused, faults=("late",))}, seen, 1.01).lost
        is None
    )


def test_a_refused_trial_has_the_samples_around_it_too():
    samples = [Sample({}, float(n)) for n in range(10)]
    ends = [("before", 2.5), ("found", 2.9), ("after", 9.0)]
    refused = {"found": TrialResult({}, connections=PhaseOneResult(300, 300, 50))}
    times = {
        name: [s.seen_s for s in part]
        for name, part in split_samples(samples, ends, refused).items()
    }
    assert times["before"] == [1.0, 2.0]
    assert times["found"] == [2.0, 3.0]
    ends[1] = ("found", 6.5)
    loaded = {"found": TrialResult({}, connections=PhaseOneResult(300, 300, 300))}
    assert [s.seen_s for s in split_samples(samples, ends, loaded)["found"]] == [3.0, 4.0, 5.0]


def test_a_trial_nobody_watched_or_that_was_not_made_is_told():
    done = {"found": counted(1000), "above": counted(900)}
    at = choose_trial(BOTH, done, {"found": seconds(50), "above": []}, 1.01)
    assert at.when == "found"
    assert "1,250 fps (above)" in at.notes[0]
    at = choose_trial({"found": AT}, done, {"found": seconds(50)}, 1.01)
    assert at.when == "found"
    assert at.notes[0]
    at = choose_trial({"found": AT}, {"found": counted(1, faults=("late",))}, {"found": []}, 1.01)
    assert at.lost is None
    assert "1,000 fps" in at.notes[-1]


@pytest.mark.parametrize(
    ("record", "rate_fps"),
    [
        ({"upper_bound": 9e9, "usable_fps": 9e9}, 1250.0),
        ({"upper_bound": 1100.0, "usable_fps": 9e9}, 1100.0),
        ({"upper_bound": 9e9, "usable_fps": 1200.0}, 1200.0),
        ({"upper_bound": 1001.0, "usable_fps": None}, None),
        ({"upper_bound": 9e9, "tester_limited": True}, None),
        ({}, 1250.0),
    ],
)
def test_the_rate_above_is_one_that_medium_and_tester_carry(record, rate_fps):
    assert find_rate_above({"median": 1000.0, **record}) == rate_fps
