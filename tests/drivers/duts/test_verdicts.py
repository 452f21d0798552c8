"""Verdicts on bottlenecks, derived from figures of the device and the tester."""

from dataclasses import replace

import pytest
from v6t.core.config.settings import ProcedureSettings
from v6t.core.runs import bottleneck
from v6t.drivers.duts.bottleneck import BottleneckVerdict, judge_device, summarize_verdicts
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.readings import LossReason
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample, compute_core_shares, summarize_samples
from v6t.trials.connections import PhaseOneResult
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

from . import intents

KERNEL = {
    **make_driver("jool", {}).get_telemetry_readings(intents.make_nat64()),
    **make_driver("tayga-nftables", {}).get_telemetry_readings(intents.make_nat64()),
}
VPP = make_driver("vpp", {}).get_telemetry_readings(intents.make_nat44())
SNABB = make_driver("snabb-lwaftr", {}).get_telemetry_readings(intents.make_lwaftr())
TESTER = "the tester: the device was not offered more"
FULL = "nat44-ed-in2out: maximum sessions exceeded"


def make_samples(readings, count=3, fixed=None, **growing):
    """Make one sample per second, with fixed figures and counters that grow by these increments."""
    fixed = fixed or {}
    return [
        Sample(
            {name: {**fixed.get(name, {}), **{f: v * n for f, v in growing.get(name, {}).items()}}
             for name in {**fixed, **growing}}, float(n), readings)
        for n in range(count)
    ]  # fmt: skip


def sample_kernel(*idle, dropped=0.0, name="tx.dropped", fixed=None, **growing):
    """Make samples of a kernel with these idle shares of its cores [%] and dropped frames."""
    cpu = {}
    for core, share in enumerate(idle):
        figures = {"idle": share, "softirq": 100 - share, "total": 100}
        cpu |= {f"cpu{core}.{figure}": float(value) for figure, value in figures.items()}
    counters = {"cpu": cpu, "link left": {name: dropped / 2}, **growing}
    return make_samples(KERNEL, fixed=fixed, **counters)


def sample_process(*shares, quota=(), idle=50, dropped=0.0, **growing):
    """Make samples of a process; each thread has shares of running and waiting time [%]."""
    figures = dict(zip(("quota.periods", "quota.throttled"), quota, strict=False))
    for thread, (ran, waited) in enumerate(shares):
        figures |= {f"{thread}.run_ns": ran * 1e7, f"{thread}.wait_ns": waited * 1e7}
    link = {"link left": {"tx.dropped": dropped}} if dropped else {}
    cpu = {"cpu0.idle": float(idle), "cpu0.total": 100.0}
    return make_samples(KERNEL, 4, process=figures, cpu=cpu, **link, **growing)


def sample_conntrack(idle, more, other=0, figure="insert_failed", used=20.0):
    """Make samples of a kernel NAT that drops frames because of a full table and for other reasons."""
    fixed = {"table": {"used": used, "limit": 1000.0}}
    return sample_kernel(*idle, dropped=2 * other, fixed=fixed, conntrack={figure: float(more)})


def sample_vpp(vectors, drops=0, reason="host-left.rx-miss", name="interfaces", fixed=None, **more):
    """Make samples of a VPP with this number of vectors per call."""
    calls = {"calls": 1000.0, "vectors": 1000.0 * vectors}
    runtime = {f"thread0.node.ip6-map.{figure}": value for figure, value in calls.items()}
    return make_samples(VPP, 4, fixed, runtime=runtime, **{name: {reason: float(drops)}, **more})


def sample_polling(readings, **growing):
    """Make samples of a polling device, whose cores always look busy."""
    cpu = {"cpu0.idle": 0.0, "cpu0.softirq": 7.0, "cpu0.total": 100.0}
    return make_samples(readings, 4, cpu=cpu, **growing)


FULL_TABLE = {"used": 100.0, "limit": 100.0}
# answers to refused connections match no session
WITHOUT_PORTS = make_samples(
    VPP, 2, {"table": {"used": 50.0, "limit": 100.0}, "errors": {"reasons": 2.0}},
    errors={"nat44-ed-in2out: out of ports": 100.0, "nat44-ed-out2in: no translation": 400.0},
)  # fmt: skip
WITHOUT_SESSIONS = make_samples(
    VPP, 2, {"table": FULL_TABLE, "errors": {"reasons": 1.0}},
    errors={"nat64-in2out: no translation": 90.0},
)  # fmt: skip
SNABB_RULES = {"drop-no-source-softwire-ipv6-packets": 90.0, "drop-all-ipv6-iface-packets": 90.0}
# Expected limit, samples, and further arguments of judge_device.
VERDICTS = {
    "one core of two is busy": ("cpu", sample_kernel(0, 60), {}),
    "losses with idle time": ("contention", sample_kernel(50, 60, dropped=90), {}),
    "losses with much idle time": ("queue", sample_kernel(95, 90, dropped=90), {}),
    "no samples": ("unknown", [], {}),
    "one sample": ("unknown", sample_kernel(30)[:1], {}),
    "no losses": ("nothing here", sample_kernel(95, 90), {"lost": 0}),
    "tester at its limit": ("tester", sample_kernel(0, 0), {"tester_limit": TESTER}),
    "tester at its limit, many losses": ("cpu", sample_kernel(0, 0, dropped=20), {"tester_limit": TESTER}),
    # a polling VPP is judged by its vectors per call
    "full vectors, tester at its limit": ("cpu", sample_vpp(241), {"tester_limit": TESTER}),
    "small vectors": ("nothing here", sample_vpp(44), {}),
    "small vectors, losses": ("queue", sample_vpp(44, drops=9), {}),
    "small vectors, tester at its limit": ("tester", sample_vpp(44), {"tester_limit": TESTER}),
    "VPP without sessions": ("table", sample_vpp(44, drops=50, reason=FULL, name="errors"), {}),
    "VPP without ports": ("table", WITHOUT_PORTS, {"lost": 500}),
    "VPP with a full table": ("table", WITHOUT_SESSIONS, {"lost": 90}),
    "drops of a VPP interface alone": ("unknown", sample_vpp(44, 90, "host-left.drops"), {"lost": 270}),
    "rx-error": ("queue", sample_vpp(44, 90, "host-left.rx-error"), {"lost": 270}),
    "tx-error": ("queue", sample_vpp(44, 90, "host-left.tx-error"), {"lost": 270}),
    "received packets": ("unknown", sample_vpp(44, 90, "host-left.rx_packets"), {"lost": 270}),
    "punt": ("rules", sample_vpp(44, 90, "host-left.punt"), {"lost": 270}),
    # a process is judged by its running and waiting time
    "thread that takes a core": ("cpu", sample_process((97, 1), idle=0), {}),
    "throttled process": ("cpu", sample_process((10, 2), quota=(10, 9), idle=0), {}),
    "waiting process, hardly throttled": ("cpu", sample_process((10, 85), quota=(10, 1), idle=0), {}),
    "process with idle time": ("unknown", sample_process((10, 20), quota=(10, 0)), {}),
    # regardless of the queue counters
    "waiting process that drops": ("cpu", sample_process((22, 58), idle=0, dropped=50.0), {"lost": 150}),
    "waiting process that drops, idle core": ("cpu", sample_process((22, 58), idle=60, dropped=50.0), {"lost": 150}),
    "half-idle process that drops": ("queue", sample_process((22, 24), idle=0, dropped=50.0), {"lost": 150}),
    # a table is named if it explains a large share of the losses
    "full table": ("table", sample_kernel(0, 0, fixed={"table": FULL_TABLE}, conntrack={"insert_failed": 7.0}), {"tester_limit": TESTER}),
    "insertion race of two packets": ("cpu", sample_conntrack((1, 60), 1), {}),
    "many other losses": ("cpu", sample_conntrack((1, 60), 50, other=4000), {}),
    "insertion race and uncounted losses": ("unknown", sample_conntrack((50, 60), 1), {"lost": 40_000}),
    "insertion race and counted losses": ("contention", sample_conntrack((50, 60), 1, other=4000), {"lost": 8000}),
    "all losses because of a full table": ("table", sample_conntrack((50, 60), 1), {"lost": 2}),
    "half of the losses because of a full table": ("table", sample_conntrack((1, 60), 500), {"lost": 1000}),
    "table that drops": ("table", sample_conntrack((50, 60), 500, figure="drop"), {}),
    "table nearly full": ("table", sample_conntrack((1, 60), 50, used=995.0), {"lost": 40_000}),
    # single frames that do not belong to the test
    "stray frame": ("tester", sample_kernel(0, 0, dropped=1, name="rx.dropped"), {"tester_limit": TESTER, "lost": 0}),
    "few stray frames": ("tester", sample_kernel(0, 0, dropped=9, name="rx.dropped"), {"tester_limit": TESTER}),
    "too many drops for stray frames": ("cpu", sample_kernel(0, 0, dropped=90, name="rx.dropped"), {"tester_limit": TESTER, "lost": 100}),
    # the tester may run on the device's cores
    "shared cores": ("unknown", sample_kernel(0, 60, dropped=90), {"tester_limit": TESTER, "lost": 100, "shares_cores": True}),
    # cores that poll
    "polling Snabb": ("unknown", sample_polling(SNABB), {"lost": 0}),
    "Snabb ingress drops": ("cpu", sample_polling(SNABB, snabb={"ingress-packet-drops": 90.0}), {"lost": 270}),
    "Snabb socket drops": ("cpu", sample_polling(SNABB, sockets={"dropped": 90.0}), {"lost": 270}),
    "Snabb rules": ("rules", sample_polling(SNABB, snabb=SNABB_RULES), {"lost": 270}),
    "Snabb packets": ("unknown", sample_polling(SNABB, snabb={"in-ipv4-packets": 90.0}), {"lost": 270}),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict_depends_on_figures(name, snapshot):
    limited_by, samples, arguments = VERDICTS[name]
    verdict = judge_device(samples, **arguments)
    assert verdict.limited_by == limited_by
    assert "\n".join([verdict.explanation, *verdict.evidence]) == snapshot


LIMITS = {
    LossReason.TABLE_FULL: "table", LossReason.NO_CONNECTION: "rules", LossReason.RULE: "rules",
    LossReason.QUEUE: "queue",
}  # fmt: skip


@pytest.mark.parametrize("words", vpp_outputs.ERROR_TEXT_REASONS)
def test_vpp_error_is_counted_once_with_its_reason(words):
    """The interface also counts these frames; the counter is not added."""
    kind = vpp_outputs.ERROR_TEXT_REASONS[words]
    head = "   Count         Node          Reason            Severity\n"
    table = vpp_outputs.parse_errors(f"{head}   26    ip4-map     {words} of some kind     error\n")
    ((reason, count),) = [item for item in table.items() if item[0] != "reasons"]
    assert (count, VPP["errors"].find_loss_reason(reason)) == (26, kind)
    assert VPP["errors"].find_loss_reason("reasons") is None
    counters = {"errors": {reason: count}, "interfaces": {"host-left.drops": count}}
    verdict = judge_device(sample_vpp(44, fixed={"errors": {"reasons": 1.0}}, **counters), lost=78)
    assert verdict.limited_by == LIMITS[kind]
    assert reason in verdict.explanation


def test_idle_time_is_kept_by_core_and_second():
    shares = compute_core_shares(sample_kernel(0, 60), "idle")
    assert shares == {"cpu0": [0.0, 0.0], "cpu1": [60.0, 60.0]}


def test_vectors_are_counted_from_second_to_second_of_each_thread():
    """Averages since VPP's start would hide short loads, and idle threads a busy one."""
    samples = [
        Sample({"runtime": {
            "thread0.node.ip4-input.calls": 1e4 * n, "thread0.node.ip4-input.vectors": 2e4 * n,
            "thread1.node.ip4-input.calls": 10.0 * n, "thread1.node.ip4-input.vectors": 2500.0 * n,
        }}, n) for n in range(1, 4)
    ]  # fmt: skip
    restarted = Sample({"runtime": {
        "thread0.node.ip4-input.calls": 1.0, "thread0.node.ip4-input.vectors": 1.0}}, 4.0)  # fmt: skip
    assert summarize_samples(samples).vectors_per_call == {"ip4-input": 250.0}
    assert summarize_samples([*samples, restarted]).vectors_per_call == {"ip4-input": 250.0}
    assert summarize_samples(samples[:1]).vectors_per_call == {}


def test_missing_vpp_error_was_zero_if_others_were_shown():
    after = {"reasons": 4.0, FULL: 30.0}
    for before, grown in (({"reasons": 3.0}, {f"errors {FULL}": 30.0}), ({}, {})):
        samples = [Sample({"errors": f}, float(n), VPP) for n, f in enumerate((before, after))]
        assert summarize_samples(samples).drops == grown


def test_summary_has_busiest_thread_and_marks_polling_devices():
    busy = sample_process((10, 5), (40, 30), quota=(10, 4))
    assert summarize_samples(busy).process == {"run": 40.0, "wait": 30.0, "throttled": 40.0}
    assert summarize_samples(sample_process()).process == {}
    summary = summarize_samples(sample_polling(SNABB)).to_json()
    assert summary["polls"] and summary["cores"]["cpu0"]["busy"] == 100.0
    assert "polls" not in summarize_samples(sample_kernel(50)).to_json()


def test_vpp_clocks_are_per_packet_where_rounding_allows():
    def at(n, calls):
        return Sample({
            "runtime": {"thread0.node.ip6-map.clocks": 3e2 * calls, "thread1.node.ip6-map.clocks": 1e2 * calls,
                        "thread0.node.ip6-map.vectors": calls},
            "interfaces": {"rx.packets": 2 * calls, "host-left.rx_packets": calls},
        }, float(n), VPP)  # fmt: skip

    assert summarize_samples([at(0, 1000.0), at(1, 9000.0)]).per_packet == {"clocks": 200.0}
    # after an hour, rounding to three digits is coarser than a second's increment
    assert summarize_samples([at(0, 1e9), at(1, 1e9 + 8000.0)]).per_packet == {}


@pytest.mark.parametrize("inner", [{}, {"tun v6t-nat64": {"rx.packets": 5e4}}])
def test_cycles_are_per_packet_of_the_links(inner):
    """Frames of a translator's internal interface were already counted on a link."""
    link, perf = {"rx.packets": 5e4}, {"cycles_per_s": 2e7}
    samples = make_samples(KERNEL, 3, {"perf": perf}, **{"link left": link}, **inner)
    assert summarize_samples(samples).per_packet == {"cycles": 400.0}


CE_PE = ("cpu", "table", "contention", "nothing here", "unknown", "tester")


def test_verdicts_on_two_devices_are_combined(snapshot):
    def summarize(**limits):
        return summarize_verdicts(
            {name: BottleneckVerdict(by, name.lower(), ()) for name, by in limits.items()}
        )

    assert summarize(CE="cpu") == ""
    assert {f"{ce}, {pe}": summarize(CE=ce, PE=pe) for ce in CE_PE for pe in CE_PE} == snapshot


def test_bottleneck_is_described_with_its_evidence():
    entry = {
        "device": "ssh dut", "frame_sizes": {"ipv6": 84, "ipv4": 64}, "direction": "forward",
        "rate_fps": 25000.0, "says": "cpu0 had no time left", "evidence": ["cpu0: idle 0 %"],
    }  # fmt: skip
    title = "84/64 octets, forward, 25,000 fps, ssh dut: cpu0 had no time left"
    assert bottleneck.describe_entry(entry) == [title, "  cpu0: idle 0 %"]
    above = {**entry, "judged_at": "above", "judged_fps": 31250.0}
    assert bottleneck.describe_entry(above)[1:] == ["  cpu0: idle 0 %"]
    describe = bottleneck.describe_tester_limit
    assert describe({"tester_limited": False, "upper_bound_hit": False}) == ""
    assert "30,000 fps" in describe({"tester_limited": True, "tester_ceiling": 30000.0})


def make_result(received, faults=(), sending_s=1.0):
    count = ClassCount("foreground", 1000, 1000, received)
    return TrialResult({"forward": DirectionResult({"f": count}, sending_s)}, faults)


FOUND = Trial("bottleneck", "k", 84, 64, "forward", rate_fps=1000.0, duration_s=1.0)
BOTH = {"found": FOUND, "above": replace(FOUND, key="k/above", rate_fps=1250.0)}
INCOMPLETE = TrialResult({}, connections=PhaseOneResult(required=300, sent=300, learned=50))

ONE, GOOD = {"found": FOUND}, make_result(1000)
IDLE, BUSY = sample_kernel(50), sample_kernel(0)


@pytest.mark.parametrize(("trials", "results", "samples", "name", "lost", "words"), [
    # the trial above the result, if the tester kept up
    (BOTH, [make_result(999), make_result(900)], [IDLE, BUSY], "above", 100, None),
    (BOTH, [make_result(999), make_result(900, sending_s=1.3)], [IDLE, BUSY], "found", 1, "sending took 1.3"),
    (BOTH, [make_result(999), TrialResult({})], [IDLE, BUSY], "found", 1, "reported no counters"),
    (BOTH, [GOOD, make_result(900)], [IDLE, []], "found", 0, "1,250 fps (above)"),
    # the device's table is full before the first frame: not a tester fault
    (ONE, [INCOMPLETE], [IDLE], "found", 250, "50 of 300 connections"),
    (ONE, [replace(INCOMPLETE, faults=("late",))], [IDLE], "found", None, ""),
    (ONE, [GOOD, make_result(900)], [IDLE], "found", 0, ""),
    (ONE, [make_result(1, faults=("late",))], [[]], "found", None, "1,000 fps"),
])  # fmt: skip
def test_trial_above_result_is_chosen_if_it_is_usable(trials, results, samples, name, lost, words):
    """Rows without words (None) expect no notes."""
    by_name = (dict(zip(BOTH, values, strict=False)) for values in (results, samples))
    trial = bottleneck.choose_trial(trials, *by_name, 1.01)
    assert (trial.name, trial.rate_fps, trial.lost) == (name, BOTH[name].rate_fps, lost)
    assert bool(trial.notes) == (words is not None)
    assert words is None or any(words in note for note in trial.notes)


@pytest.mark.parametrize(("learned", "found_s", "before", "found"), [
    (50, 2.9, [1.0, 2.0], [2.0, 3.0]), (300, 6.5, [1.0, 2.0], [3.0, 4.0, 5.0])])  # fmt: skip
def test_rejected_trial_gets_samples_around_it(learned, found_s, before, found):
    samples = [Sample({}, float(n)) for n in range(10)]
    ends = [("before", 2.5), ("found", found_s), ("after", 9.0)]
    results = {"found": TrialResult({}, connections=PhaseOneResult(300, 300, learned))}
    parts = bottleneck.group_samples(samples, ends, results)
    assert [s.time_s for s in parts["before"]] == before
    assert [s.time_s for s in parts["found"]] == found


@pytest.mark.parametrize(("record", "rate_fps"), [
    ({"upper_bound": 9e9, "usable_fps": 9e9}, 1250.0),
    ({"upper_bound": 1100.0, "usable_fps": 9e9}, 1100.0),
    ({"upper_bound": 9e9, "usable_fps": 1200.0}, 1200.0),
    ({"upper_bound": 1001.0, "usable_fps": None}, None),
    ({"upper_bound": 9e9, "tester_limited": True}, None),
    ({}, 1250.0),
])  # fmt: skip
def test_higher_rate_respects_medium_and_tester_limits(record, rate_fps):
    assert bottleneck.choose_higher_rate({"median": 1000.0, **record}) == rate_fps


def test_rate_with_loss_in_longer_trial_is_not_sustained():
    procedure = ProcedureSettings.model_construct(loss_tolerance=0.0, sending_time_tolerance=1.01)
    describe = bottleneck.describe_unsustained_rate
    assert describe(FOUND, make_result(1000), procedure) == ""
    assert describe(FOUND, make_result(999), procedure).startswith("not sustained for")
    assert describe(FOUND, make_result(1000, faults=("late",)), procedure) == ""
