"""Verdicts on devices: of their own figures, of the tester's, and at which rate they were seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from v6t.core.runs.bottleneck import judged, limit_of_tester, lines_of, rate_above
from v6t.drivers.duts.bottleneck import Verdict, verdict_of, verdict_of_all
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.shape import growing, shaped, shares_of
from v6t.drivers.duts.telemetry import Sample
from v6t.procedures.trial import ClassCount, DirectionResult, Trial, TrialResult


def seconds(*idle, drops=(0, 0, 0), name="tx.dropped"):
    """Samples of cores with these shares of idle time [%]; counters of lost frames."""
    made = []
    for second, lost in enumerate(drops):
        cpu = {}
        for core, share in enumerate(idle):
            cpu[f"cpu{core}.idle"] = float(share * second)
            cpu[f"cpu{core}.softirq"] = float((100 - share) * second)
            cpu[f"cpu{core}.total"] = float(100 * second)
        made.append(Sample({"cpu": cpu, "link left": {name: float(lost)}}))
    return made


def test_a_core_without_idle_time_limits_even_if_the_average_has_some():
    found = verdict_of(seconds(0, 60))
    assert found.limited_by == "cpu"
    assert found.says == "cpu0 had no time left (1 of 2 cores)"
    assert "cpu0: idle 0 % at least, 0 % in the middle, softirq up to 100 %" in found.evidence
    assert "cpu1: idle 60 % at least" in " ".join(found.evidence)


def test_idle_time_is_kept_by_core_and_second():
    assert shares_of(seconds(0, 60), "idle") == {"cpu0": [0.0, 0.0], "cpu1": [60.0, 60.0]}


def test_loss_with_time_left_is_contention_and_with_all_the_time_a_queue():
    assert verdict_of(seconds(50, 60, drops=(0, 5, 9))).limited_by == "contention"
    found = verdict_of(seconds(95, 90, drops=(0, 5, 9)))
    assert found.limited_by == "queue"
    assert "link left tx.dropped: 9 more" in found.evidence


def test_an_idle_device_sends_you_elsewhere():
    assert verdict_of(seconds(95, 90)).limited_by == "nothing here"


def test_between_busy_and_idle_nothing_is_claimed():
    assert verdict_of(seconds(30, 60)).limited_by == "unknown"
    assert verdict_of([]).limited_by == "unknown"
    assert verdict_of(seconds(30)[:1]).evidence == ()


def test_a_counter_that_counts_no_loss_is_no_loss():
    assert growing(seconds(50, drops=(0, 5, 9), name="tx.packets")) == {}


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
        made.append(Sample({"runtime": runtime, name: lost}, float(second)))
    return made


def test_a_polling_vpp_is_judged_by_its_vectors():
    full, room = verdict_of(vpp(241)), verdict_of(vpp(44))
    assert full.limited_by == "cpu"
    assert "ip6-map takes 241 vectors per call" in full.says
    assert room.limited_by == "nothing here"
    assert "ip6-map: up to 44 vectors per call" in room.evidence
    lossy = verdict_of(vpp(44, drops=9))
    assert lossy.limited_by == "queue"
    assert "interfaces host-left.rx-miss grew" in lossy.says
    assert verdict_of(vpp(44), lost=9).limited_by == "unknown"


def test_vectors_are_counted_from_second_to_second_of_each_thread():
    """Averages since VPP began hide a load of seconds; an idle thread does not dilute a full one."""
    samples = [
        Sample({"runtime": {
            "thread0.node.ip4-input.calls": 1e4 * n, "thread0.node.ip4-input.vectors": 2e4 * n,
            "thread1.node.ip4-input.calls": 10.0 * n, "thread1.node.ip4-input.vectors": 2500.0 * n,
        }}, n) for n in range(1, 4)
    ]  # fmt: skip
    assert shaped(samples).vectors_per_call == {"ip4-input": 250.0}
    assert shaped(samples[:1]).vectors_per_call == {}
    forgot = [*samples, Sample({"runtime": {
        "thread0.node.ip4-input.calls": 1.0, "thread0.node.ip4-input.vectors": 1.0}}, 4.0)]  # fmt: skip
    assert shaped(forgot).vectors_per_call == {"ip4-input": 250.0}


def test_a_vpp_with_room_behind_a_tester_at_its_limit_is_excused():
    assert verdict_of(vpp(44), TESTER).limited_by == "tester"
    assert verdict_of(vpp(241), TESTER).limited_by == "cpu"
    assert verdict_of(vpp(44, drops=9), TESTER).limited_by == "queue"
    parts = {"CE": verdict_of(vpp(44), TESTER), "PE": verdict_of(seconds(50, 60), TESTER)}
    assert verdict_of_all(parts).startswith("the tester limits")


def test_a_rate_of_drops_is_no_number_of_drops():
    assert growing(vpp(44)) == {}
    assert verdict_of(vpp(44)).limited_by == "nothing here"


def test_a_counter_that_a_device_does_not_show_was_0_where_it_shows_others():
    reason = "nat44-ei-in2out: maximum sessions exceeded"
    silent, told = {}, {"reasons": 4.0, reason: 30.0}
    shown = [
        Sample({"errors": figures}, float(n)) for n, figures in enumerate(({"reasons": 3.0}, told))
    ]
    assert growing(shown) == {f"errors {reason}": 30.0}
    unread = [Sample({"errors": figures}, float(n)) for n, figures in enumerate((silent, told))]
    assert growing(unread) == {}, "it may have been there all the time"


def test_a_vpp_without_ports_or_sessions_has_a_full_table():
    reason = "nat44-ed-in2out: maximum sessions exceeded"
    assert verdict_of(vpp(44, drops=50, reason=reason, name="errors")).limited_by == "table"


def test_two_devices_are_judged_together():
    busy, idle = Verdict("cpu", "busy", ()), Verdict("nothing here", "idle", ())
    stuck = Verdict("contention", "stuck", ())
    assert verdict_of_all({"CE": busy}) == ""
    assert verdict_of_all({"CE": busy, "PE": idle}).startswith("CE limits: it has no time left")
    assert verdict_of_all({"CE": idle, "PE": stuck}).startswith("PE limits: it loses frames")
    assert "CE and PE limit together" in verdict_of_all({"CE": busy, "PE": busy})
    assert "none of them" in verdict_of_all({"CE": idle, "PE": idle})


def test_a_verdict_is_printed_with_its_evidence():
    entry = {
        "device": "ssh dut", "frame_sizes": {"ipv6": 84, "ipv4": 64}, "direction": "forward",
        "rate_fps": 25000.0, "says": "cpu0 had no time left", "evidence": ["cpu0: idle 0 %"],
    }  # fmt: skip
    assert lines_of(entry) == [
        "84/64 octets, forward, 25,000 fps, ssh dut: cpu0 had no time left",
        "  cpu0: idle 0 %",
    ]
    above = {**entry, "judged_at": "above", "judged_fps": 31250.0}
    assert "25,000 fps (judged at 31,250), ssh dut: cpu0" in lines_of(above)[0]


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
        made.append(Sample({"process": told, "cpu": cpu}, float(second)))
    return made


def test_the_busiest_thread_speaks_for_its_process():
    told = shaped(process((10, 5), (40, 30), quota=(10, 4)))
    assert told.process == {"run": 40.0, "wait": 30.0, "throttled": 40.0}
    assert shaped(process()).process == {}


@pytest.mark.parametrize(
    ("shares", "quota", "idle", "limited", "words"),
    [
        ((97, 1), (), 0, "cpu", "one core is all it can use"),
        ((10, 2), (10, 9), 0, "cpu", "in 90 % of its periods"),
        ((10, 85), (), 90, "cpu", "a core was idle meanwhile"),
        ((10, 85), (), 0, "cpu", "others on its cores"),
        ((10, 20), (10, 0), 0, "cpu", "cpu0 had no time left"),
        ((10, 20), (10, 0), 50, "unknown", "no core was busy"),
    ],
)
def test_a_process_is_judged_by_the_time_it_was_given(shares, quota, idle, limited, words):
    found = verdict_of(process(shares, quota=quota, idle=idle))
    assert found.limited_by == limited
    assert words in found.says


def test_a_full_table_is_told_before_all_else():
    samples = seconds(0, 0)
    figures = [{"used": 90.0, "limit": 100.0}, {"used": 100.0, "limit": 100.0}]
    samples = [
        Sample({**s.figures, "conntrack": {"insert_failed": n * 7.0}, "table": figures[n > 0]}, n)
        for n, s in enumerate(samples)
    ]
    found = verdict_of(samples, "the tester: the device was not asked for more")
    assert (found.limited_by, shaped(samples).table["full"]) == ("table", 100.0)
    assert "its table held 100 of 100 connections at most" in found.evidence
    assert "conntrack insert_failed: 14 more" in found.evidence


def conntrack(idle, more, other=0, figure="insert_failed", used=20.0):
    """A kernel's NAT of whose losses so many a second were for want of room, and so many others."""
    return [
        Sample({**s.figures, "conntrack": {figure: float(more * n)},
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
        (conntrack((50, 60), 1), 40_000, "contention", "yet it lost frames"),
        (conntrack((50, 60), 1), 2, "table", "no port was free for them, or two frames"),
        (conntrack((1, 60), 500), 1000, "table", "no port was free for them, or two frames"),
        (conntrack((50, 60), 500, figure="drop"), None, "table", "has no room"),
        (conntrack((1, 60), 50, used=995.0), 40_000, "table", "100 % of it are in use"),
    ],
)
def test_a_table_is_blamed_for_its_share_of_the_losses(samples, lost, limited, words):
    found = verdict_of(samples, lost=lost)
    assert found.limited_by == limited
    assert words in found.says


@pytest.mark.parametrize(
    "reason", ["jool dropped (JSTAT_UNTRANSLATABLE_DST6)", "x memory miss", "x table drop"]
)
def test_words_that_sound_like_a_table_are_none(reason):
    name, _, figure = reason.partition(" ")
    samples = seconds(50, 60)
    samples = [
        Sample({**s.figures, name: {figure: 50.0 * n}}, float(n)) for n, s in enumerate(samples)
    ]
    assert growing(samples) == {reason: 100.0}
    assert verdict_of(samples).limited_by == "contention"


def test_losses_that_the_device_does_not_count_are_not_put_on_it():
    """Nor is it said that nothing was lost."""
    found = verdict_of(seconds(95, 90), lost=7)
    assert found.limited_by == "unknown"
    assert "no counter of this device says that it was here" in found.says
    assert "the tester missed 7 frames in this trial" in found.evidence
    assert verdict_of(seconds(95, 90), lost=0).limited_by == "nothing here"


def test_a_tester_at_its_limit_excuses_the_device_unless_it_loses():
    assert verdict_of(seconds(0, 0), "the tester").limited_by == "tester"
    assert verdict_of(seconds(0, 0, drops=(0, 1, 2)), "the tester").limited_by == "cpu"
    assert limit_of_tester({"tester_limited": False, "upper_bound_hit": False}) == ""
    assert "30,000 fps" in limit_of_tester({"tester_limited": True, "tester_ceiling": 30000.0})


def test_counted_cycles_are_told_per_packet():
    text = "4000000,,cycles,8000000,100.00,,\n<not supported>,,instructions,0,100.00,,\n"
    figures = telemetry.counted(text)
    assert figures == {"cycles_per_s": 2e7}
    samples = [
        Sample({"perf": figures, "link left": {"rx.packets": n * 5e4}}, float(n)) for n in range(3)
    ]
    assert shaped(samples).per_packet == {"cycles": 400.0}
    # what comes out of a translator's own interface has come in before
    inner = [
        Sample({**s.figures, "tun v6t-nat64": {"rx.packets": n * 5e4}}, s.seen_s)
        for n, s in enumerate(samples)
    ]
    assert shaped(inner).per_packet == {"cycles": 400.0}


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
    at = judged(BOTH, {"found": counted(999), "above": above}, seen, 1.01)
    assert (at.when, at.rate_fps, at.lost) == (when, rate_fps, lost)
    assert words in " ".join(at.notes)
    assert bool(at.notes) == bool(words)


def test_a_trial_nobody_watched_or_that_was_not_made_is_told():
    done = {"found": counted(1000), "above": counted(900)}
    at = judged(BOTH, done, {"found": seconds(50), "above": []}, 1.01)
    assert (at.when, at.notes) == ("found", ("at 1,250 fps (above) nothing was read",))
    at = judged({"found": AT}, done, {"found": seconds(50)}, 1.01)
    assert at.when == "found"
    assert "nothing above the found rate was offered" in at.notes[0]
    at = judged({"found": AT}, {"found": counted(1, faults=("late",))}, {"found": []}, 1.01)
    assert at.lost is None
    assert at.notes[-1] == "at 1,000 fps (found) the tester faltered: late"


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
    assert rate_above({"median": 1000.0, **record}) == rate_fps
