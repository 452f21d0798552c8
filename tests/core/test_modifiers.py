"""Modifiers of RFC 2544, section 11, and their effect on results."""

import json
import shutil
import threading
from dataclasses import replace
from itertools import pairwise
from time import sleep
from types import SimpleNamespace

import pytest
from v6t.analysis.published.conditions import compare_conditions
from v6t.analysis.published.library import collect_facts
from v6t.analysis.report import compliance
from v6t.analysis.rundata import RunTrial
from v6t.base.errors import DutError
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.modifiers import MODIFIERS
from v6t.core.modifiers.base import repeat_action
from v6t.core.modifiers.rfc2544 import Management, Routing
from v6t.core.reporting import write
from v6t.core.runs import bench as bench_module
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.dut import format_plan
from v6t.core.runs.events import Listener
from v6t.core.runs.results import read_records, read_results
from v6t.core.runs.rundir import make_settings_files
from v6t.core.runs.runner import resume
from v6t.drivers.duts.chain.session import ChainSession
from v6t.drivers.duts.kinds.linux import filters
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.lab.privilege import check_availability
from v6t.intent.device import DeviceRequirements
from v6t.profiles.compiler.schedule import list_classes
from v6t.profiles.expand import Expander
from v6t.tests.core.support import measure_run, read_journal, v6t
from v6t.tests.drivers.duts.bench import open_bed
from v6t.tests.drivers.duts.intents import ROUTER4
from v6t.tests.expect import expect_error
from v6t.trials.codec import decode, encode
from v6t.trials.result import ModifierCounts, TrialResult
from v6t.trials.trial import Trial

LAB, WHY = check_availability()
TRIAL = Trial("throughput", "t", 84, 64, "forward", 100.0, 60.0, 0.5, 0.0)
DRIVEN = ("management", "snmp", "routing", "bgp", "filters-1", "filters-25")


def asked(plugin="siit", tester="sim", bed=None, **more):
    return resolve(None, bed, plugin=plugin, tester=tester, modifier="broadcast", **more)


@pytest.mark.parametrize("vlan", ["", "left: {vlan: 5}, right: {vlan: 6}"])
@pytest.mark.parametrize(
    ("plugin", "params"), [("siit", {}), ("mape-br", {"n": "10", "m": "9"}), ("nat44", {})]
)
def test_every_hundredth_frame_is_a_broadcast(plugin, params, vlan, tmp_path):
    """RFC 2544 section 11.1: 1 %, evenly distributed, and of a type no router processes."""
    (tmp_path / "bed.yaml").write_text(f"links: {{{vlan}}}")
    setup = resolve_setup(
        None,
        tmp_path / "bed.yaml",
        plugin=plugin,
        tester="sim",
        modifier="broadcast",
        params=params,
    )
    (size,) = setup.settings.frame_sizes
    for way, made in compile_streams(setup, setup.technology.make_frame_pair(size)).items():
        *others, last = made.streams
        weights = [s.weight for s in made.streams]
        assert last.weight * 100 == sum(weights)
        places = [
            at for at, which in enumerate(list_classes(weights, 0, 2000)) if which == len(others)
        ]
        gaps = {after - before for before, after in pairwise(places)}
        assert gaps <= {99, 100, 101}
        (frame,) = Expander(last).frames(0, 1)
        tag = 4 if vlan else 0
        assert bytes(frame[:6]) == b"\xff" * 6
        assert bytes(frame[12 + tag : 14 + tag]) == b"\x88\xb5"
        assert frame.shape == Expander(others[0]).frames(0, 1)[0].shape
        assert not setup.technology.expect(way, frame[None, :]).length.any()


def test_results_name_the_modifier(tmp_path):
    run = asked(benchmarks=("throughput", "frame-loss", "latency"), modes=("forward",))
    measure_run(run, tmp_path / "out")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [r["benchmark"] for r in results["results"]] == ["throughput", "frame-loss", "latency"]
    assert results["conditions"]["modifier"] == "broadcast"
    assert any("broadcast" in said for said in results["caveats"])
    write.write_run_report(tmp_path / "out", formats=["md"])
    assert "section 11.1" in (tmp_path / "out" / "report.md").read_text()
    assert resume(tmp_path / "out", Listener()).status == "complete"
    assert make_settings_files(run)["run.yaml"]["modifier"] == "broadcast"
    plain = resolve(plugin="siit", tester="sim", modes=("forward",))
    assert "modifier" not in make_settings_files(plain)["run.yaml"]
    measure_run(plain, tmp_path / "plain")
    both = (tmp_path / "plain", tmp_path / "out")
    assert v6t("compare", *both).code == "not-comparable"
    assert "None and broadcast" in v6t("compare", "--anyway", *both).out
    facts = collect_facts(run.to_json(), {}, simulated=False)
    record = read_records(tmp_path / "out", results)[0]
    entry = {"dut": "Linux", "technology": "SIIT", "seed": "-", "conditions": {}}
    (odd,) = [c for c in compare_conditions(entry, record, facts) if c.name == "modifier"]
    assert odd.alike is False


def test_a_device_that_forwards_broadcasts_fails(tmp_path):
    done = v6t(
        *("run", "--plugin", "siit", "--tester", "sim", "--modifier", "broadcast"),
        *("--set-tester", "forwards_negative=true", "-o", tmp_path / "out"),
    )
    assert done.status == 6
    assert done.code == "translation-incorrect"


def test_unknown_modifier_is_rejected():
    with expect_error("unknown-name", path=["modifier"]):
        resolve(plugin="siit", tester="sim", modifier="broadcasts")
    assert MODIFIERS.names() == sorted(["broadcast", *DRIVEN])
    with expect_error("unsuitable-modifier", path=["modifier"]):
        resolve(plugin="dns64", tester="sim", modifier="broadcast")


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
def test_a_real_router_under_broadcasts(tmp_path):
    """All test frames pass and no broadcast does, before the kernel's router."""
    bed = tmp_path / "bed.yaml"
    bed.write_text("line_rate: 3M")  # nobody looks for the tester's own limit
    run = asked(
        "ipv4-router", "embedded", bed, dut="linux-router", modes=("bidirectional",), frame_sizes=(128,),
        benchmarks=("frame-loss",),
        procedure={"frame_loss": {"rates_fps": [2000], "duration_s": 0.5},
                   "sending_time_tolerance": 5.0, "invalid_retries": 9},
    )  # fmt: skip
    measure_run(run, tmp_path / "out")
    rows = (tmp_path / "out" / "trials.csv").read_text().splitlines()
    sent = [row for row in rows if "broadcast" in row and "frame-loss/" in row]
    assert len(sent) >= 2
    (record,) = read_results(tmp_path / "out")["results"]
    assert record["conditions"]["modifier"] == "broadcast"


def plan_of(plugin, dut, modifier, testbed=None, **more):
    setup = resolve_setup(
        testbed=testbed, plugin=plugin, tester="embedded", dut=dut, modifier=modifier, **more
    )
    return setup.example_plan, setup


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("nat44", "nftables"),
    ("nat66", "nftables66"), ("nat44", "iptables"),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 25])
def test_filters_pass_only_test_traffic(plugin, dut, count):
    """RFC 2544 section 11.4.1: 12, then the one that forwards, then 12, and denied is the rest."""
    plan, setup = plan_of(plugin, dut, f"filters-{count}")
    step = plan.steps[-1]
    for side in ("left", "right"):  # what the device forwards for others is not looked at
        assert f'iifname "{side}" jump from_{side}\n    iifname "{side}" drop' in step.text
    assert "policy accept" in step.text
    for side in ("left", "right"):
        chain = step.text.partition(f"chain from_{side} {{\n")[2].partition("  }\n")[0]
        rules = chain.splitlines()
        assert [r.split()[-1] for r in rules].index("accept") == count // 2
        allowed, *aside = [r for r in rules if r.endswith("accept")]
        # native IPv6 may be sent along with IPv4 (MIX-01)
        assert all(r.split()[0] == "ip6" != allowed.split()[0] for r in aside) and len(aside) < 2
        assert len(rules) == len(set(rules)) == count + len(aside)
        other = {"left": "right", "right": "left"}[side]
        for at, hosts in (("saddr", side), ("daddr", other)):
            nets = allowed.partition(f"{at} {{ ")[2].partition(" }")[0].split(", ")
            assert set(map(str, getattr(setup.intent, hosts).routes)) <= set(nets)
        assert sum(r.endswith("drop") for r in rules) == count - 1
    body = step.text.replace("    ", "\t")
    assert step.check is not None and step.check.find_problem(body) is None
    denied = body.partition("saddr ")[2].partition(" ")[0] if count > 1 else ""
    permit = next(line for line in body.splitlines() if line.endswith("accept"))
    swapped = permit.replace("saddr", "x").replace("daddr", "saddr").replace("x", "daddr")
    for old, new in {
        "accept": "drop", permit: swapped, 'iifname "left" jump from_left': "",
        'iifname "right" drop': "", **({f"{denied} ": f"{denied}9 "} if denied else {}),
    }.items():  # fmt: skip
        assert body.replace(old, new) != body
        assert "not the" in step.check.find_problem(body.replace(old, new))


def test_addresses_read_back_as_nftables_writes_them():
    """In any order, a single one without braces, neighbouring networks as one or as a range."""
    listed = "ip saddr { 10.0.0.0/24, 10.0.1.0/24, 10.9.0.0/16 } ip daddr { 10.8.0.0/16 } accept"
    for same in (
        "ip saddr { 10.9.0.0/16, 10.0.0.0/23 } ip daddr 10.8.0.0/16 accept",
        "ip saddr { 10.0.0.0-10.0.1.255, 10.9.0.0/16 } ip daddr { 10.8.0.0/16 } accept",
    ):
        assert filters._normalize_rules(same) == filters._normalize_rules(listed)
    for other in ("10.0.0.0/24, 10.0.1.0/24", "10.0.0.0/22, 10.9.0.0/16"):
        changed = listed.replace("10.0.0.0/24, 10.0.1.0/24, 10.9.0.0/16", other)
        assert filters._normalize_rules(changed) != filters._normalize_rules(listed)


def test_filters_need_nftables():
    driver = make_driver("linux-router", {})
    intent = replace(ROUTER4, requirements=DeviceRequirements(filters=1))
    with expect_error("missing-program"):
        driver.plan(
            intent, replace(driver.make_example_facts(intent), programs=frozenset({"ip", "sysctl"}))
        )


VLANS = """links:
  left: {vlan: 100, background: {vlan: 200}}
  right: {vlan: 101, background: {vlan: 201}}
"""


@pytest.mark.parametrize("vlans", [False, True])
def test_filters_let_the_background_pass(vlans, tmp_path):
    """Native IPv6 along with NAT44 (MIX-01), on separate VLANs too (MIX-04)."""
    (tmp_path / "bed.yaml").write_text(VLANS if vlans else "{}")
    bed, params = tmp_path / "bed.yaml", {"n": "10", "m": "9"}
    step = plan_of("nat44", "nftables", "filters-25", bed, params=params)[0].steps[-1]
    permits = [line.split() for line in step.text.splitlines() if line.endswith(" accept")]
    assert [words[0] for words in permits] == ["ip", "ip6"] * 2
    assert "2001:2:0:f000::/64" in permits[1] and "2001:2:0:f001::/64" in permits[1]
    ports = ["v6t-left", "v6t-right", "v6t-left-bg", "v6t-right-bg"] if vlans else ["left", "right"]
    sides = ["left", "right"] * (2 if vlans else 1)
    for port, side in zip(ports, sides, strict=True):
        assert f'iifname "{port}" jump from_{side}\n    iifname "{port}" drop' in step.text
    assert step.text.count(" jump ") == len(ports)


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("siit", "tayga"), ("nat44", "nftables"), ("mape-br", "vpp"),
])  # fmt: skip
def test_unused_route_is_moved_and_removed(plugin, dut):
    plan, setup = plan_of(plugin, dut, "routing")
    change = plan.route_update
    assert change is not None and plan.steps[-1].undo == change.remove_command
    assert change.added_words != change.changed_words
    assert change.add_command != change.change_command
    plain = resolve_setup(plugin=plugin, dut=dut).example_plan
    assert plain.route_update is None and len(plain.steps) < len(plan.steps)
    text = format_plan(setup.driver, plan)
    assert change.add_command in text and change.change_command in text


def test_live_change_and_route_update_differ():
    run = resolve(plugin="ipv4-router", tester="embedded", dut="linux-router", modifier="routing", benchmarks=("reconfiguration",))  # fmt: skip
    plan = make_setup(run).example_plan
    assert plan.live_change is not None and plan.route_update is not None
    assert plan.live_change.show_command != plan.route_update.show_command


@pytest.mark.parametrize(("plugin", "dut", "modifier", "code"), [
    ("siit", "reference", "management", "missing-driver"),
    ("ipv4-router", "command", "management", "unsupported-operation"),
    ("siit", "jool", "filters-25", "unsupported-operation"),
    ("mape-br", "vpp", "filters-1", "unsupported-operation"),
    ("ipv4aas", "chain", "routing", "unsupported-operation"),
    ("mape-br", "vpp", "snmp", "unsupported-operation"),
    ("mape-br", "vpp", "bgp", "unsupported-operation"),
])  # fmt: skip
def test_unsupported_modifier_is_rejected(plugin, dut, modifier, code):
    own = {"base": "false"} if dut == "command" else {}
    with expect_error(code):
        plan_of(plugin, dut, modifier, dut_params=own)


@pytest.mark.parametrize("modifier", ["management", "routing", "snmp", "bgp"])
def test_modifier_rejects_benchmarks_without_stream(modifier):
    for name in ("connection-rate", "teardown"):
        with expect_error("unsuitable-modifier", path=["modifier"]):
            plan_of("nat44", "nftables", modifier, benchmarks=("throughput", name))
    assert plan_of("nat44", "nftables", modifier, benchmarks=("throughput",))
    assert plan_of("nat44", "nftables", "filters-1", benchmarks=("connection-rate",))


def test_chain_does_not_support_route_updates():
    with expect_error("unsupported-operation", kind=DutError):
        ChainSession("chain", []).update_routes()


class Answering:
    """A device that gives a wrong answer every third time."""

    management_check = "show"

    def __init__(self):
        self.asked = 0

    def get_sessions(self):
        return [("it", self)]

    def check_management_query(self):
        self.asked += 1
        if self.asked % 3 == 0:
            raise DutError("it: show: not there", code="command-failed")
        return "show"


def test_queries_are_counted_and_their_answers_checked(monkeypatch):
    monkeypatch.setattr(Management, "interval_s", 0.01)
    device, result = Answering(), TrialResult({})

    def measure(trial):
        while device.asked < 4:
            sleep(0.01)
        return result

    modified = Management().measure(TRIAL, measure, device)
    done = modified.modifier
    assert done.times == device.asked >= 4
    assert done.times - done.right == device.asked // 3
    assert (done.what, done.why) == ("show", "it: show: not there")
    assert decode(TrialResult, encode(modified)).modifier == done
    assert "modifier" not in encode(result)
    said = Management().summarize_actions([done, done])
    assert said.startswith(f"management: {2 * done.right} of {2 * done.times} right")
    assert said.endswith("first trouble: it: show: not there")
    assert Management().summarize_actions([]) == ""


def test_device_without_short_query_is_rejected():
    session = Session(make_driver("linux-router", {}), SimpleNamespace(name="it"), ROUTER4)
    session.plan = session.driver.plan(ROUTER4, session.driver.make_example_facts(ROUTER4))
    with expect_error("unsupported-operation"):
        Management().make_action(TRIAL, SimpleNamespace(get_sessions=lambda: [("it", session)]))


def test_preflight_makes_no_route_change():
    changed = []
    session = SimpleNamespace(update_routes=lambda: changed.append(1) or "it")
    assert Routing().make_action(replace(TRIAL, benchmark="preflight"), session) is None
    assert Routing().make_action(TRIAL, session)() == "it"
    assert changed == [1]


@pytest.mark.parametrize(("plugin", "dut", "into"), [
    ("siit", "tayga", ["2001:2:0:1000::/120", "198.18.0.0/24"]),
    ("nat64", "tayga-nftables", ["2001:db8:64::/96", "192.168.255.0/24"]),
])  # fmt: skip
def test_filters_before_translator_match_untranslated_addresses(plugin, dut, into):
    plan, setup = plan_of(plugin, dut, "filters-1")
    for side, version, to in zip(("left", "right"), ("ip6", "ip"), into, strict=True):
        chain = plan.steps[-1].text.partition(f"chain from_{side} {{\n")[2].partition("  }\n")[0]
        first = chain.splitlines()[0].split()
        assert first[:2] == [version, "saddr"] and first[-1] == "accept"
        sources, _, destinations = chain.splitlines()[0].partition("daddr")
        assert to in destinations
        own = [
            n
            for n in getattr(setup.intent, side).routes
            if n.version == (6 if version == "ip6" else 4)
        ]
        assert all(str(net) in sources for net in own)
    assert plan.steps[-1].check.find_problem(plan.steps[-1].text) is None


@pytest.mark.parametrize(("times", "right", "verdict", "said"), [
    ((1, 2), (1, 2), "follows", "3 of 3 right, in 2 of 2 trials"),
    ((1, 2), (1, 1), "deviates", "2 of 3 right, in 2 of 2 trials"),
    ((1, 0), (1, 0), "deviates", "1 of 1 right, in 1 of 2 trials"),
    ((1, None), (1, None), "deviates", "1 of 1 right, in 1 of 2 trials"),
    ((0, 0), (0, 0), "deviates", "0 of 0 right, in 0 of 2 trials"),
])  # fmt: skip
def test_trials_without_modifier_are_counted(times, right, verdict, said):
    counts = [
        None if t is None else ModifierCounts(t, r, 0.0, "", "")
        for t, r in zip(times, right, strict=True)
    ]
    trials = [RunTrial({"key": "t"}, TrialResult({}, modifier=count)) for count in counts]
    (clause,) = compliance._check_modifier(
        SimpleNamespace(config={"modifier": "management"}), trials
    )
    assert (clause.practice, clause.verdict) == (f"management: {said}", verdict)


def begun(act, pause_s=0.0):
    return repeat_action(replace(TRIAL, pause_s=pause_s), act, 0.01)


def test_query_ending_after_trial_is_not_counted():
    going, go_on = threading.Event(), threading.Event()

    def slow():
        going.set()
        go_on.wait(60)
        return "it"

    with begun(slow) as counts:
        assert going.wait(60)
        threading.Timer(0.2, go_on.set).start()
    assert counts.times == 0
    with begun(slow, pause_s=60.0) as counts:
        pass
    assert counts.times == 0


def test_unexpected_error_ends_the_trial():
    called = threading.Event()

    def odd():
        called.set()
        raise ZeroDivisionError("odd")

    with pytest.raises(ZeroDivisionError), begun(odd):
        assert called.wait(60)
    with pytest.raises(KeyError, match="its own"), begun(odd):
        raise KeyError("its own")


class Sending(Answering):
    """A tester, and its device's session, that only say in which order they are called."""

    def __init__(self, session=True):
        super().__init__()
        self.log, self.session = [], session

    def open(self):
        self.log.append("open")

    def load(self, streams, oracle):
        self.log.append("load")

    def device_session(self):
        return self if self.session else None

    def check_management_query(self):
        self.log.append("query")
        return "show"

    def check_configured(self):
        pass

    def measure(self, trial):
        self.log.append("measure")
        while self.session and "query" not in self.log and not trial.pause_s:
            sleep(0.001)
        return TrialResult({})


def bench_of(monkeypatch, tester, **more):
    monkeypatch.setattr(bench_module, "make_tester", lambda *_, **__: tester)
    monkeypatch.setattr("v6t.drivers.duts.devices.make_session", lambda *_: None)
    return Bench(plan_of("ipv4-router", "linux-router", "management")[1], **more)


def test_device_is_queried_during_stream_only(monkeypatch):
    tester = Sending()
    found = bench_of(monkeypatch, tester).measure(TRIAL)
    assert tester.log[:2] == ["open", "load"]
    assert {"measure", "query"} == set(tester.log[2:])
    assert found.modifier.right == found.modifier.times > 0
    alone = Sending(session=False)
    assert not bench_of(monkeypatch, alone, loopback=True).measure(TRIAL).modifier
    assert alone.log == ["open", "load", "measure"]
    with expect_error("missing-driver"):
        bench_of(monkeypatch, Sending(session=False)).measure(TRIAL)


def test_simulated_device_is_not_queried(tmp_path):
    run = resolve(plugin="siit", tester="sim", modifier="management", benchmarks=("frame-loss",), modes=("forward",))  # fmt: skip
    outcome = measure_run(run, tmp_path / "out")
    assert outcome.status == "complete"
    assert not any(said.startswith("management:") for said in outcome.caveats)
    (words,) = [said for said in outcome.caveats if said.startswith("under a modifier")]
    assert words.endswith("simulated")


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
@pytest.mark.parametrize("modifier", [name for name in DRIVEN if name != "filters-25"])
def test_a_real_router_under_each(modifier, tmp_path):
    """The kernel's: it is asked and changed while frames pass, none of which is lost.

    The test of denied frames below has 25 filters.
    """
    programs = {"filters-1": ["nft"], "snmp": ["snmpd", "snmpget"], "bgp": ["bird"]}
    for program in programs.get(modifier, ()):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    run = resolve(plugin="ipv4-router", tester="embedded", dut="linux-router", modes=("bidirectional",), frame_sizes=(128,), benchmarks=("frame-loss",), modifier=modifier, procedure={"frame_loss": {"rates_fps": [1000], "duration_s": 1.2, "repetitions": 2}, "selftest": "cached",
                   "sending_time_tolerance": 5.0, "invalid_retries": 9})  # fmt: skip
    outcome = measure_run(run, tmp_path / "out")
    write.write_run_report(tmp_path / "out", formats=["md"])
    report = (tmp_path / "out" / "report.md").read_text()
    (record,) = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert record["rates"][0]["loss_percent"]["sum"]["median"] == 0
    if modifier.startswith("filters"):
        assert "jump from_left" in report
        return
    trials = read_journal(tmp_path / "out")
    beside = [t for t in trials if "modifier" in t["result"]]
    done = [t["result"]["modifier"] for t in beside if t["trial"]["benchmark"] != "preflight"]
    assert all(each["times"] == each["right"] for each in done)
    measured = [t["result"]["modifier"] for t in trials if "frame-loss/" in t["trial"]["key"]]
    assert measured and all(
        m["times"] == (1 if modifier in ("routing", "bgp") else 2) for m in measured
    )
    (said,) = [said for said in outcome.caveats if said.startswith(f"{modifier}: ")]
    assert f"{sum(m['times'] for m in done):,} right" in said
    assert said in resume(tmp_path / "out", Listener()).caveats
    if modifier in ("routing", "bgp"):
        ways = [t["result"]["modifier"]["what"] for t in beside]
        assert len(set(ways)) == 2 and all(a != b for a, b in pairwise(ways))


@pytest.mark.lab
@pytest.mark.skipif(not LAB or shutil.which("nft") is None, reason="needs a lab and nft")
def test_denied_frames_are_dropped_and_rollback_is_complete():
    """Frames of hosts to whom the device has a route, but which the filters deny or do not know."""
    requirements = DeviceRequirements(filters=25, route_updates=True)
    with open_bed("linux-router", replace(ROUTER4, requirements=requirements)) as bed:
        session, net = bed.session, "203.0.113"
        first, second = session.update_routes(), session.update_routes()
        assert first != second and session.update_routes() == first

        def passes(src, dst, payload):
            return bed.forward("forward", src, dst, 5000, 53, payload) is not None

        assert passes("198.18.0.2", "198.19.0.2", b"permitted")
        for number, (src, dst) in enumerate([(1, 101), (50, 150)]):
            assert not passes(f"{net}.{src}", f"{net}.{dst}", b"denied %d" % number)
        session.transport.run("nft flush chain inet v6t_filters forward")
        with expect_error("check-failed", mentions="25"):
            session.verify()
        assert passes(f"{net}.1", f"{net}.101", b"without the filters")
        session.rollback()
        left = session.transport.run("nft list tables; ip route show proto 86").out
        assert "v6t_filters" not in left and net not in left
        session.transport.run(f"ip route add blackhole {net}.0/24")
        with expect_error("foreign-configuration"):
            session.commit()
        assert "blackhole" in session.transport.run(f"ip route show {net}.0/24").out
