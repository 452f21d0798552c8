"""Modifiers: any benchmark runs under them, and every result says so (RFC 2544 section 11)."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from time import sleep

import pytest
from v6t.analysis.published.conditions import conditions
from v6t.analysis.published.library import facts_of
from v6t.core.cli.progress import Silent
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.modifiers import management
from v6t.core.modifiers.base import MODIFIERS
from v6t.core.modifiers.management import Management
from v6t.core.reporting import write
from v6t.core.runs.bench import streams_of
from v6t.core.runs.dut import plan_text, plan_without_device
from v6t.core.runs.export import run_file
from v6t.core.runs.results_file import records_of
from v6t.core.runs.runner import execute, resume
from v6t.drivers.lab.privilege import available
from v6t.procedures.trial import Trial, TrialResult, result_from_json, result_to_json
from v6t.profiles.compiler.schedule import order
from v6t.profiles.errors import DutError, UsageError
from v6t.profiles.expand import Expander

from .support import v6t

LAB, WHY = available()
DRIVEN = ("management", "routing", "filters-1", "filters-25")


def asked(plugin="siit", tester="sim", **more):
    return resolve(flags=Flags(plugin, tester=tester, modifier="broadcast", **more))


@pytest.mark.parametrize("vlan", ["", "left: {vlan: 5}, right: {vlan: 6}"])
@pytest.mark.parametrize(
    ("plugin", "params"), [("siit", {}), ("mape-br", {"n": "10", "m": "9"}), ("nat44", {})]
)
def test_every_hundredth_frame_is_a_broadcast(plugin, params, vlan, tmp_path):
    """RFC 2544 section 11.1: 1 %, evenly distributed, and of a type no router processes."""
    (tmp_path / "bed.yaml").write_text(f"links: {{{vlan}}}")
    flags = Flags(plugin, tester="sim", modifier="broadcast", params=params)
    bound = bind(resolve(None, tmp_path / "bed.yaml", flags))
    (size,) = bound.settings.frame_sizes
    for way, made in streams_of(bound, bound.technology.frame_pair(size)).items():
        *others, last = made.streams
        weights = [s.weight for s in made.streams]
        assert last.weight * 100 == sum(weights)
        places = [at for at, which in enumerate(order(weights, 0, 2000)) if which == len(others)]
        gaps = {after - before for before, after in pairwise(places)}
        assert gaps <= {99, 100, 101}
        (frame,) = Expander(last).frames(0, 1)
        tag = 4 if vlan else 0
        assert bytes(frame[:6]) == b"\xff" * 6
        assert bytes(frame[12 + tag : 14 + tag]) == b"\x88\xb5"
        assert frame.shape == Expander(others[0]).frames(0, 1)[0].shape
        assert not bound.technology.expect(way, frame[None, :]).length.any()


def test_results_say_what_went_on(tmp_path):
    run = asked(benchmarks=("throughput", "frame-loss", "latency"), modes=("forward",))
    execute(bind(run), tmp_path / "out", Silent())
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [r["benchmark"] for r in results["results"]] == ["throughput", "frame-loss", "latency"]
    assert {r["conditions"]["modifier"] for r in results["results"]} == {"broadcast"}
    assert any("1 frame in 100 is a broadcast" in said for said in results["caveats"])
    write.write(tmp_path / "out", formats=["html", "md"])
    assert "RFC 2544 section 11.1" in (tmp_path / "out" / "report.html").read_text()
    assert resume(tmp_path / "out", Silent()).status == "complete"
    assert run_file(run)["modifier"] == "broadcast"
    plain = resolve(flags=Flags("siit", tester="sim", modes=("forward",)))
    assert "modifier" not in run_file(plain)
    execute(bind(plain), tmp_path / "plain", Silent())
    both = (tmp_path / "plain", tmp_path / "out")
    assert "are not alike: modifier: None and broadcast" in v6t("compare", *both).err
    assert "modifier: None and broadcast" in v6t("compare", "--anyway", *both).out
    facts = facts_of(run.model_dump(mode="json"), {}, simulated=False)
    record = records_of(tmp_path / "out", results)[0]
    entry = {"dut": "Linux", "technology": "SIIT", "seed": "-", "conditions": {}}
    (odd,) = [c for c in conditions(entry, record, facts) if c.name == "modifier"]
    assert odd.alike is False


def test_a_device_that_forwards_broadcasts_fails(tmp_path):
    done = v6t(
        *("run", "--plugin", "siit", "--tester", "sim", "--modifier", "broadcast"),
        *("--set-tester", "forwards_negative=true", "-o", tmp_path / "out"),
    )
    assert done.status == 6
    assert "frames of broadcast were forwarded but must be dropped" in done.err


def test_an_unknown_modifier():
    with pytest.raises(UsageError, match="there is no modifier 'broadcasts'"):
        resolve(flags=Flags("siit", tester="sim", modifier="broadcasts"))
    assert MODIFIERS.names() == ["broadcast", *sorted(DRIVEN)]
    with pytest.raises(UsageError, match="dns64 is a technology of queries"):
        resolve(flags=Flags("dns64", tester="sim", modifier="broadcast"))


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
def test_a_real_router_under_broadcasts(tmp_path):
    """All test frames pass and no broadcast does, before the kernel's router."""
    run = asked(
        "ipv4-router", "embedded", dut="linux-router", modes=("bidirectional",), frame_sizes=(128,),
        benchmarks=("frame-loss",),
        procedure={"frame_loss": {"rates_fps": [2000], "duration_s": 0.5},
                   "sending_time_tolerance": 5.0, "invalid_retries": 9},
    )  # fmt: skip
    execute(bind(run), tmp_path / "out", Silent())
    rows = (tmp_path / "out" / "trials.csv").read_text().splitlines()
    sent = [row for row in rows if "broadcast" in row and "frame-loss/" in row]
    assert len(sent) >= 2
    (record,) = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert record["conditions"]["modifier"] == "broadcast"


def plan_of(plugin, dut, modifier):
    bound = bind(resolve(flags=Flags(plugin, tester="embedded", dut=dut, modifier=modifier)))
    return plan_without_device(bound)[1], bound


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("nat44", "nftables"),
    ("nat66", "nftables66"), ("nat44", "iptables"),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 25])
def test_filters_let_the_test_traffic_pass_and_nothing_else(plugin, dut, count):
    """RFC 2544 section 11.4.1: 12, then the one that forwards, then 12, and denied is the rest."""
    plan, bound = plan_of(plugin, dut, f"filters-{count}")
    step = plan.steps[-1]
    assert "policy drop" in step.text
    for side in ("left", "right"):
        chain = step.text.partition(f"chain from_{side} {{\n")[2].partition("  }\n")[0]
        rules = chain.splitlines()
        assert [r.split()[-1] for r in rules].index("accept") == count // 2
        assert len(rules) == len(set(rules)) == count
        other = {"left": "right", "right": "left"}[side]
        (allowed,) = [r for r in rules if r.endswith("accept")]
        for at, hosts in (("saddr", side), ("daddr", other)):
            nets = allowed.partition(f"{at} {{ ")[2].partition(" }")[0].split(", ")
            assert set(getattr(bound.intent, hosts)["routes"]) <= set(nets)
        assert all(r.endswith("drop") for r in rules if r is not allowed)
    body = step.text.replace("    ", "\t")
    assert step.check is not None and step.check.checker(body) is None
    assert "not the" in step.check.checker(body.replace("accept", "drop"))


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("siit", "tayga"), ("nat44", "nftables"), ("mape-br", "vpp"),
])  # fmt: skip
def test_a_route_of_nobody_is_moved_and_taken_back(plugin, dut):
    plan, bound = plan_of(plugin, dut, "routing")
    change = plan.updates
    assert change is not None and plan.steps[-1].undo == change.remove
    assert change.added != change.changed
    assert change.add != change.change
    plain = plan_without_device(bind(resolve(flags=Flags(plugin, dut=dut))))[1]
    assert plain.updates is None and len(plain.steps) < len(plan.steps)
    text = plan_text(bound.driver, plan)
    assert change.add in text and change.change in text


def test_a_route_that_a_benchmark_moves_is_another_one():
    run = resolve(flags=Flags(
        "ipv4-router", tester="embedded", dut="linux-router", modifier="routing",
        benchmarks=("reconfiguration",),
    ))  # fmt: skip
    plan = plan_without_device(bind(run))[1]
    assert plan.beside is not None and plan.updates is not None
    assert plan.beside.look != plan.updates.look


@pytest.mark.parametrize(("plugin", "dut", "modifier", "why"), [
    ("siit", "reference", "management", "needs a device driver"),
    ("siit", "tayga", "filters-25", "makes no filters for siit"),
    ("mape-br", "vpp", "filters-1", "makes no filters"),
    ("ipv4aas", "chain", "routing", "changes no routes"),
])  # fmt: skip
def test_a_device_to_which_it_cannot_be_done(plugin, dut, modifier, why):
    with pytest.raises(UsageError, match=why):
        plan_of(plugin, dut, modifier)


class Answering:
    """A device that gives a wrong answer every third time."""

    def __init__(self):
        self.asked = 0

    def devices(self):
        return [("it", self)]

    def query(self):
        self.asked += 1
        if self.asked % 3 == 0:
            raise DutError("it: show: not there")
        return "show"


def test_queries_are_counted_and_their_answers_checked(monkeypatch):
    monkeypatch.setattr(management, "INTERVAL_S", 0.01)
    trial = Trial("throughput", "t", 84, 64, "forward", 100.0, 60.0, 0.5, 0.0)
    device, result = Answering(), TrialResult({})
    with Management().during(trial, device) as repeated:
        while device.asked < 4:
            sleep(0.01)
    done = repeated.added_to(result).modifier
    assert done["times"] == device.asked >= 4
    assert done["times"] - done["right"] == device.asked // 3
    assert (done["what"], done["why"]) == ("show", "it: show: not there")
    assert result_from_json(result_to_json(repeated.added_to(result))).modifier == done
    assert "modifier" not in result_to_json(result)
    (said,) = Management().summary([done, done])
    assert said.startswith(f"management: {2 * done['right']} of {2 * done['times']} right")
    assert said.endswith("first trouble: it: show: not there")
    assert Management().summary([]) == []


def test_a_simulated_device_is_asked_nothing(tmp_path):
    run = resolve(flags=Flags(
        "siit", tester="sim", modifier="management", benchmarks=("frame-loss",), modes=("forward",)
    ))  # fmt: skip
    outcome = execute(bind(run), tmp_path / "out", Silent())
    assert outcome.status == "complete"
    assert not any(said.startswith("management:") for said in outcome.caveats)


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
@pytest.mark.parametrize("modifier", DRIVEN)
def test_a_real_router_under_each(modifier, tmp_path):
    """The kernel's: it is asked and changed while frames pass, and is as before when the run ends."""
    if modifier.startswith("filters") and shutil.which("nft") is None:
        pytest.skip("needs nft")
    run = resolve(flags=Flags(
        "ipv4-router", tester="embedded", dut="linux-router", modes=("bidirectional",),
        frame_sizes=(128,), benchmarks=("frame-loss",), modifier=modifier,
        procedure={"frame_loss": {"rates_fps": [1000], "duration_s": 1.2}, "selftest": "cached",
                   "sending_time_tolerance": 5.0, "invalid_retries": 9},
    ))  # fmt: skip
    outcome = execute(bind(run), tmp_path / "out", Silent())
    write.write(tmp_path / "out", formats=["md"])
    report = (tmp_path / "out" / "report.md").read_text()
    if modifier.startswith("filters"):
        assert "policy drop" in report
        return
    trials = [
        json.loads(line.partition(" ")[2])
        for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    ]
    done = [t["result"]["modifier"] for t in trials if "modifier" in t["result"]]
    assert all(each["times"] == each["right"] for each in done)
    measured = [t["result"]["modifier"] for t in trials if "frame-loss/" in t["trial"]["key"]]
    assert measured and all(m["times"] == (2 if modifier == "management" else 1) for m in measured)
    (said,) = [said for said in outcome.caveats if said.startswith(f"{modifier}: ")]
    assert f"{sum(m['times'] for m in done):,} right" in said
    assert "what goes on beside the traffic is verified" in report
    if modifier == "routing":
        ways = [each["what"] for each in done]
        assert len(set(ways)) == 2 and all(a != b for a, b in pairwise(ways))
