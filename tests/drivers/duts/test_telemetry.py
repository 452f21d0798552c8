"""What devices say of themselves: recorded outputs read, watched every second, judged."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bottleneck import check_watchable, limit_of_tester, lines_of
from v6t.drivers.duts.bottleneck import Verdict, growing, idle_by_core, verdict_of, verdict_of_all
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import linux_facts
from v6t.drivers.duts.kinds import jool, openbsd_pf, snabb_lwaftr
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.linux.steps import neighbours
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.shape import shaped
from v6t.drivers.duts.telemetry import Sample, Watcher
from v6t.drivers.transport.process import ProcessHeld
from v6t.profiles.errors import DutError, UsageError

CAPTURED = Path(__file__).parent / "captured"
POOL = nat.Pool(("198.18.0.0/24",), ("198.19.0.1",), 1024, 65535)


def captured(name):
    return (CAPTURED / name).read_text()


def test_cores_of_proc_stat():
    found = telemetry.cpu(captured("proc-stat.txt"))
    assert found["cpu0.idle"] == 1639652 + 1144
    assert found["cpu1.softirq"] == 28756
    assert found["cpu0.total"] == 326019 + 81788 + 74542 + 1639652 + 1144 + 28363 + 581
    assert not any(name.startswith("cpu.") for name in found)


def test_softnet_counters_are_hexadecimal():
    found = telemetry.softnet(captured("softnet_stat.txt"))
    assert found == {"dropped": 0.0, "squeezed": 0x0C + 0x0E}


def test_drops_of_an_interface():
    found = telemetry.link(captured("ip-s-o-link.txt"))
    assert found["rx.packets"] == 3
    assert found["tx.packets"] == 6
    assert found["rx.dropped"] == found["tx.errors"] == 0


def test_conntrack_statistics_are_summed_over_cores():
    text = captured("conntrack-S.txt").replace(" insert_failed=0", " insert_failed=2")
    assert nat.conntrack_statistics(text) == {"insert_failed": 4, "drop": 0, "early_drop": 0}


def test_interfaces_of_a_linux():
    sections = {"system": "Linux 6.1", "links": captured("ip-j-link.json"), "user": "0"}
    facts = linux_facts(sections, "6.1")
    assert facts.interfaces["left"].mac == "02:00:00:00:01:01"
    assert facts.interfaces["right"].carrier
    assert facts.root


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"system": "Darwin 23.1"}, "no Linux"),
        ({"system": "Linux 6.1", "links": "[{"}, "links cannot be read"),
    ],
)
def test_what_is_no_linux_is_refused(sections, words):
    with pytest.raises(DutError, match=words):
        linux_facts(sections, "")


def test_a_permanent_neighbour_reads_back_and_a_stale_one_does_not():
    check = neighbours({"198.18.0.2": "02:00:00:00:01:02"}, "left").check
    text = captured("ip-neigh.txt")
    assert check.checker(text) is None
    assert check.checker(text.replace("01:02", "01:03"))
    assert check.checker("")


def test_a_table_of_nft_reads_back():
    text = captured("nft-list-table.json")
    assert nat.read_nft(text, POOL, "right") is None
    assert nat.read_nft(text, POOL, "eth9") == "no rule translates 198.18.0.0/24 towards eth9"
    assert nat.read_nft(text, replace(POOL, low=2000), "right")
    assert "no table" in nat.read_nft("Error: No such file or directory", POOL, "right")


def test_jools_counters():
    text = "JSTAT_SESSIONS,200\nJSTAT_POOL4_MISMATCH,3\nsomething,else\n"
    assert jool.statistics(text) == {"JSTAT_SESSIONS": 200.0, "JSTAT_POOL4_MISMATCH": 3.0}


def test_snabbs_counters():
    text = (
        "softwire-state {\n  drop-no-source-softwire-ipv6-packets 7;\n"
        "  in-ipv4-packets 100;\n  in-ipv4-bytes 6400;\n}\n"
    )
    assert snabb_lwaftr.state(text) == {
        "drop-no-source-softwire-ipv6-packets": 7.0,
        "in-ipv4-packets": 100.0,
    }


PFCTL = """\
Status: Enabled for 0 days 00:10:00              Debug: err

State Table                          Total             Rate
  current entries                     4200
  searches                          123456          205.8/s
Counters
  memory                                 3            0.0/s
  state-limit                            5            0.0/s
  congestion                             0            0.0/s
"""


def test_pfs_counters():
    found = openbsd_pf.info(PFCTL)
    assert found == {"sessions": 4200.0, "memory": 3.0, "state_limit": 5.0, "congestion": 0.0}


RUNTIME = """\
Time 10.0, 10 sec internal node vector rate 201.00 loops/sec 1234.00
  vector rates in 2.0e5, out 2.0e5, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
ip6-map                          active              100           24100               0          1.00e2          241.00
unix-epoll-input                 polling            1000               0               0          1.00e2            0.00
"""


def test_vectors_per_call_of_a_vpp():
    found = syntax.runtime(RUNTIME)
    assert found["node.ip6-map.vectors_per_call"] == 241.0


# ------------------------------------------------------------------ verdict


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
    assert idle_by_core(seconds(0, 60)) == {"cpu0": [0.0, 0.0], "cpu1": [60.0, 60.0]}


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


def test_a_polling_vpp_is_judged_by_its_vectors():
    def vpp(vectors):
        return [
            *seconds(0)[:2],
            Sample({"runtime": {"node.ip6-map.vectors_per_call": vectors}}),
        ]

    full, room = verdict_of(vpp(241.0)), verdict_of(vpp(44.0))
    assert full.limited_by == "cpu"
    assert "ip6-map takes 241 vectors per call" in full.says
    assert room.limited_by == "nothing here"
    assert "ip6-map: up to 44 vectors per call" in room.evidence


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


def test_a_device_without_driver_cannot_be_watched():
    with pytest.raises(UsageError, match="no device driver"):
        check_watchable(bind(resolve(flags=Flags("siit"))))


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


def test_threads_and_quota_are_read():
    text = "12 1000 200 3\n13 5 6 7\nnr_periods 9\nnr_throttled 4\nthrottled_time 3\n"
    assert telemetry.schedstat(text) == {
        **{"12.run_ns": 1000.0, "12.wait_ns": 200.0, "13.run_ns": 5.0, "13.wait_ns": 6.0},
        **{"quota.periods": 9.0, "quota.throttled": 4.0},
    }


# ------------------------------------------------------------------ watcher


class Here:
    """The transport of this machine's own shell."""

    name = "here"

    def hold(self, command):
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return ProcessHeld(self.name, process)


def test_a_watcher_takes_a_sample_each_interval_and_ends_its_loop(tmp_path):
    counter = tmp_path / "n"
    counter.write_text("0\n")
    seen = tmp_path / "seen"
    command = f"n=$(($(cat {counter}) + 1)); echo $n | tee {counter}; echo $n >>{seen}"
    readings = {"count": Reading(command, lambda text: {"n": float(text or "nan")})}
    watcher = Watcher(Here(), readings, interval_s=0.01)
    while len(seen.read_text().split() if seen.exists() else []) < 4:
        pass
    samples = watcher.stop()
    values = [s.figures["count"]["n"] for s in samples]
    assert values[:3] == [1.0, 2.0, 3.0]
    after = seen.read_text()
    assert json.loads(after.split()[-1]) >= len(values)


def test_a_watcher_whose_loop_dies_keeps_what_it_saw(tmp_path, monkeypatch):
    monkeypatch.setattr("v6t.drivers.duts.telemetry.PATIENCE_S", 0.5)
    counter = tmp_path / "n"
    counter.write_text("0\n")
    command = (
        f"n=$(($(cat {counter}) + 1)); echo $n >{counter}; [ $n -lt 4 ] || kill -9 $$; echo $n"
    )
    readings = {"count": Reading(command, lambda text: {"n": float(text or "nan")})}
    watcher = Watcher(Here(), readings, interval_s=0.01)
    watcher._thread.join()
    assert [s.figures["count"]["n"] for s in watcher.stop()] == [1.0, 2.0, 3.0]
