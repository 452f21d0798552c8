"""The modifiers of RFC 2544, section 11, and reconfiguration of a device under traffic."""

import json
import shutil
import threading
from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise
from time import sleep
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from v6t.analysis.published.conditions import compare_conditions
from v6t.analysis.published.library import collect_facts
from v6t.analysis.report import compliance
from v6t.analysis.rundata import RunTrial
from v6t.base.errors import DutError
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.modifiers.base import repeat_action
from v6t.core.modifiers.rfc2544 import Management, Routing
from v6t.core.reporting import write
from v6t.core.runs import bench as bench_module
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.events import Listener
from v6t.core.runs.results import read_records, read_results
from v6t.core.runs.rundir import make_settings_files
from v6t.core.runs.runner import resume
from v6t.drivers.duts.chain.session import ChainSession
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.linux import filters
from v6t.drivers.duts.plan import ACTIONS, DeviceChange
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.plan_steps import format_plan
from v6t.drivers.duts.session.session import Session
from v6t.intent.device import DeviceRequirements
from v6t.intent.families import Nat44Config
from v6t.profiles.compiler.schedule import list_classes
from v6t.profiles.expand import Expander
from v6t.tests.core.support import measure_run, read_csv, read_journal, v6t, write_report
from v6t.tests.drivers.duts.bench import open_bed
from v6t.tests.drivers.duts.intents import ROUTER4
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab
from v6t.tests.settings import resolve
from v6t.trials.codec import decode, encode
from v6t.trials.result import ModifierCounts, TrialResult
from v6t.trials.trial import Trial

TRIAL = Trial("throughput", "t", 84, 64, "forward", 100.0, 60.0, 0.5, 0.0)
DRIVER_MODIFIERS = ("management", "snmp", "routing", "bgp", "filters-1", "filters-25")


def make_plan(plugin, dut, modifier, **more):
    """Return the plan of an example device under a modifier, and the setup of the run."""
    setup = resolve_setup(plugin=plugin, tester="embedded", dut=dut, modifier=modifier, **more)
    return setup.example_plan, setup


def read_rules(step, side):
    """Return the rules of a filter step for frames that enter on one side."""
    return step.text.partition(f"chain from_{side} {{\n")[2].partition("  }\n")[0].splitlines()


@pytest.mark.parametrize("vlan", ["", "left: {vlan: 5}, right: {vlan: 6}"])
@pytest.mark.parametrize(
    ("plugin", "params"), [("siit", {}), ("mape-br", {"n": "10", "m": "9"}), ("nat44", {})]
)
def test_every_hundredth_frame_is_a_broadcast(plugin, params, vlan, tmp_path):
    """RFC 2544 section 11.1: 1 %, evenly distributed, and of a type no router processes."""
    bed, tag = tmp_path / "bed.yaml", 4 if vlan else 0
    bed.write_text(f"links: {{{vlan}}}")
    setup = resolve_setup(None, bed, plugin=plugin, modifier="broadcast", params=params)
    (size,) = setup.settings.frame_sizes
    pair = setup.technology.make_frame_pair(size)
    for direction, compiled in compile_streams(setup, pair).items():
        *others, last = compiled.streams
        weights = [s.weight for s in compiled.streams]
        assert last.weight * 100 == sum(weights)
        classes = list_classes(weights, 0, 2000)
        places = [place for place, number in enumerate(classes) if number == len(others)]
        assert {after - before for before, after in pairwise(places)} <= {99, 100, 101}
        (frame,) = Expander(last).compute_frames(0, 1)
        assert bytes(frame[:6]) == b"\xff" * 6
        assert bytes(frame[12 + tag : 14 + tag]) == b"\x88\xb5"
        assert frame.shape == Expander(others[0]).compute_frames(0, 1)[0].shape
        assert not setup.technology.expect(direction, frame[None, :]).length.any()


def test_results_name_the_modifier(tmp_path):
    out, plain = tmp_path / "out", tmp_path / "plain"
    benchmarks = ["throughput", "frame-loss", "latency"]
    simulate = partial(resolve, plugin="siit", tester="sim", modes=("forward",))
    run, plain_run = simulate(modifier="broadcast", benchmarks=benchmarks), simulate()
    measure_run(run, out)
    measure_run(plain_run, plain)
    results = json.loads((out / "results.json").read_text())
    assert [r["benchmark"] for r in results["results"]] == benchmarks
    assert results["conditions"]["modifier"] == "broadcast"
    assert any("broadcast" in warning for warning in results["caveats"])
    assert "section 11.1" in write_report(out)
    assert resume(out, Listener()).status == "complete"
    assert make_settings_files(run)["run.yaml"]["modifier"] == "broadcast"
    assert "modifier" not in make_settings_files(plain_run)["run.yaml"]
    assert v6t("compare", plain, out).code == "not-comparable"
    assert "None and broadcast" in v6t("compare", "--anyway", plain, out).out
    facts = collect_facts(run.to_json(), {}, simulated=False)
    record = read_records(out, results)[0]
    entry = {"dut": "Linux", "technology": "SIIT", "seed": "-", "conditions": {}}
    (modifier,) = [c for c in compare_conditions(entry, record, facts) if c.name == "modifier"]
    assert modifier.alike is False


def test_device_that_forwards_broadcasts_fails(tmp_path):
    run = ("run", "siit", "--tester", "sim", "--modifier", "broadcast", "-o", tmp_path / "out")
    done = v6t(*run, "--set-tester", "forwards_negative=true")
    assert (done.status, done.code) == (6, "translation-incorrect")


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("nat44", "nftables"),
    ("nat66", "nftables66"), ("nat44", "iptables"),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 25])
def test_filters_pass_only_test_traffic(plugin, dut, count):
    """RFC 2544 section 11.4.1: 12 denied, then the one that forwards, then 12 denied."""
    plan, setup = make_plan(plugin, dut, f"filters-{count}")
    step = plan.steps[-1]
    assert "policy accept" in step.text  # other traffic of the device is not filtered
    for side, other in (("left", "right"), ("right", "left")):
        assert f'iifname "{side}" jump from_{side}\n    iifname "{side}" drop' in step.text
        rules = read_rules(step, side)
        assert [r.split()[-1] for r in rules].index("accept") == count // 2
        allowed, *native = [r for r in rules if r.endswith("accept")]
        # native IPv6 may be sent as background traffic of IPv4
        assert all(r.split()[0] == "ip6" != allowed.split()[0] for r in native) and len(native) < 2
        assert len(rules) == len(set(rules)) == count + len(native)
        for field, hosts in (("saddr", side), ("daddr", other)):
            nets = allowed.partition(f"{field} {{ ")[2].partition(" }")[0].split(", ")
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
    """Nft may reorder addresses, omit the braces of a single one, and merge adjacent networks."""
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
    facts = replace(driver.make_example_facts(intent), programs=frozenset({"ip", "sysctl"}))
    with expect_error("missing-program"):
        driver.plan(intent, facts)


VLANS = """links:
  left: {vlan: 100, background: {vlan: 200}}
  right: {vlan: 101, background: {vlan: 201}}
"""


@pytest.mark.parametrize("vlans", [False, True])
def test_filters_let_the_background_pass(vlans, tmp_path):
    """Native IPv6 along with NAT44, also on separate VLANs."""
    bed, params = tmp_path / "bed.yaml", {"n": "10", "m": "9"}
    bed.write_text(VLANS if vlans else "{}")
    step = make_plan("nat44", "nftables", "filters-25", testbed=bed, params=params)[0].steps[-1]
    permits = [line.split() for line in step.text.splitlines() if line.endswith(" accept")]
    assert [words[0] for words in permits] == ["ip", "ip6"] * 2
    assert "2001:2:0:f000::/64" in permits[1] and "2001:2:0:f001::/64" in permits[1]
    ports = ["v6t-left", "v6t-right", "v6t-left-bg", "v6t-right-bg"] if vlans else ["left", "right"]
    for port, side in zip(ports, ["left", "right"] * (2 if vlans else 1), strict=True):
        assert f'iifname "{port}" jump from_{side}\n    iifname "{port}" drop' in step.text
    assert step.text.count(" jump ") == len(ports)


@pytest.mark.parametrize(("plugin", "dut"), [
    ("ipv4-router", "linux-router"), ("siit", "tayga"), ("nat44", "nftables"), ("mape-br", "vpp"),
])  # fmt: skip
def test_unused_route_is_moved_and_removed(plugin, dut):
    plan, setup = make_plan(plugin, dut, "routing")
    change = plan.route_update
    assert change is not None and plan.steps[-1].undo == change.remove_command
    assert change.added_words != change.changed_words
    assert change.add_command != change.change_command
    plain = resolve_setup(plugin=plugin, dut=dut).example_plan
    assert plain.route_update is None and len(plain.steps) < len(plan.steps)
    text = format_plan(setup.driver, plan)
    assert change.add_command in text and change.change_command in text


def test_live_change_and_route_update_differ():
    plan, _ = make_plan("ipv4-router", "linux-router", "routing", benchmarks=("reconfiguration",))
    assert plan.live_change is not None and plan.route_update is not None
    assert plan.live_change.show_command != plan.route_update.show_command


@pytest.mark.parametrize("modifier", ["management", "routing", "snmp", "bgp"])
def test_modifier_accepts_benchmarks_with_a_stream(modifier):
    assert make_plan("nat44", "nftables", modifier, benchmarks=("throughput",))
    assert make_plan("nat44", "nftables", "filters-1", benchmarks=("connection-rate",))


def test_chain_does_not_support_route_updates():
    with expect_error("unsupported-operation", kind=DutError):
        ChainSession("chain", []).update_routes()


def make_session(*answers):
    """Return a session whose device repeats these answers to queries."""
    session = Mock(management_check="show")
    session.get_sessions.return_value = [("it", session)]
    session.check_management_query.side_effect = cycle(answers)
    return session


def test_queries_are_counted_and_their_answers_checked(monkeypatch):
    monkeypatch.setattr(Management, "interval_s", 0.01)
    wrong = DutError("it: show: not there", code="command-failed")
    session, result = make_session("show", "show", wrong), TrialResult({})
    query = session.check_management_query

    def measure(trial):
        while query.call_count < 4:
            sleep(0.01)
        return result

    modified = Management().measure(TRIAL, measure, session)
    counts = modified.modifier
    assert counts.times == query.call_count >= 4
    assert counts.times - counts.right == query.call_count // 3
    assert (counts.what, counts.why) == ("show", "it: show: not there")
    assert decode(TrialResult, encode(modified)).modifier == counts
    assert "modifier" not in encode(result)
    summary = Management().summarize_actions([counts, counts])
    assert summary.startswith(f"management: {2 * counts.right} of {2 * counts.times} right")
    assert summary.endswith("first error: it: show: not there")
    assert Management().summarize_actions([]) == ""


def test_device_without_short_query_is_rejected():
    session = Session(make_driver("linux-router", {}), SimpleNamespace(name="it"), ROUTER4)
    session.plan = session.driver.plan(ROUTER4, session.driver.make_example_facts(ROUTER4))
    with expect_error("unsupported-operation"):
        Management().make_action(TRIAL, SimpleNamespace(get_sessions=lambda: [("it", session)]))


def test_preflight_makes_no_route_change():
    session = Mock(**{"update_routes.return_value": "it"})
    assert Routing().make_action(replace(TRIAL, benchmark="preflight"), session) is None
    session.update_routes.assert_not_called()
    assert Routing().make_action(TRIAL, session)() == "it"
    session.update_routes.assert_called_once_with()


@pytest.mark.parametrize(("plugin", "dut", "into"), [
    ("siit", "tayga", ["2001:2:0:1000::/120", "198.18.0.0/24"]),
    ("nat64", "tayga-nftables", ["2001:db8:64::/96", "192.168.255.0/24"]),
])  # fmt: skip
def test_filters_before_translator_match_untranslated_addresses(plugin, dut, into):
    plan, setup = make_plan(plugin, dut, "filters-1")
    for side, version, net in zip(("left", "right"), (6, 4), into, strict=True):
        rule = read_rules(plan.steps[-1], side)[0]
        assert rule.split()[:2] == ["ip6" if version == 6 else "ip", "saddr"]
        assert rule.split()[-1] == "accept"
        sources, _, destinations = rule.partition("daddr")
        assert net in destinations
        routes = [n for n in getattr(setup.intent, side).routes if n.version == version]
        assert all(str(route) in sources for route in routes)
    assert plan.steps[-1].check.find_problem(plan.steps[-1].text) is None


@pytest.mark.parametrize(("actions", "verdict", "practice"), [
    ([(1, 1), (2, 2)], "follows", "3 of 3 right, in 2 of 2 trials"),
    ([(1, 1), (2, 1)], "deviates", "2 of 3 right, in 2 of 2 trials"),
    ([(1, 1), (0, 0)], "deviates", "1 of 1 right, in 1 of 2 trials"),
    ([(1, 1), None], "deviates", "1 of 1 right, in 1 of 2 trials"),
    ([(0, 0), (0, 0)], "deviates", "0 of 0 right, in 0 of 2 trials"),
])  # fmt: skip
def test_modifier_clause_requires_actions_in_every_trial(actions, verdict, practice):
    counts = [times and ModifierCounts(*times, 0.0, "", "") for times in actions]
    trials = [RunTrial({"key": "t"}, TrialResult({}, modifier=count)) for count in counts]
    data = SimpleNamespace(config={"modifier": "management"})
    (clause,) = compliance._check_modifier(data, trials)
    assert (clause.practice, clause.verdict) == (f"management: {practice}", verdict)


def repeat(action, pause_s=0.0):
    return repeat_action(replace(TRIAL, pause_s=pause_s), action, 0.01)


def test_query_ending_after_trial_is_not_counted():
    started, may_end = threading.Event(), threading.Event()

    def query():
        started.set()
        may_end.wait(60)
        return "it"

    with repeat(query) as counts:
        assert started.wait(60)
        threading.Timer(0.2, may_end.set).start()
    assert counts.times == 0
    with repeat(query, pause_s=60.0) as counts:
        pass
    assert counts.times == 0


def test_unexpected_error_ends_the_trial():
    called = threading.Event()

    def fail():
        called.set()
        raise ZeroDivisionError("odd")

    with pytest.raises(ZeroDivisionError), repeat(fail):
        assert called.wait(60)
    with pytest.raises(KeyError, match="its own"), repeat(fail):
        raise KeyError("its own")


def test_device_is_queried_during_stream_only(monkeypatch):
    calls = Mock()

    def wait_for_query(trial):
        while calls.session and not calls.session.check_management_query.called:
            sleep(0.001)
        return TrialResult({})

    def measure(session, **more):
        calls.reset_mock()
        calls.session = session
        calls.tester.device_session = lambda: session
        calls.tester.measure.side_effect = wait_for_query
        monkeypatch.setattr(bench_module, "make_tester", lambda *_, **__: calls.tester)
        monkeypatch.setattr("v6t.drivers.duts.devices.make_session", lambda *_: None)
        setup = make_plan("ipv4-router", "linux-router", "management")[1]
        return Bench(setup, **more).measure(TRIAL), [name for name, *_ in calls.mock_calls]

    result, names = measure(make_session("show"))
    assert names[:2] == ["tester.open", "tester.load"]
    assert names.count("tester.open") == names.count("tester.load") == 1
    assert {"tester.measure", "session.check_management_query"} <= {*names[2:]}
    assert result.modifier.right == result.modifier.times > 0
    result, names = measure(None, loopback=True)
    assert not result.modifier
    assert names == ["tester.open", "tester.load", "tester.measure"]
    with expect_error("missing-driver"):
        measure(None)


def test_simulated_device_is_not_queried(tmp_path):
    run = resolve(plugin="siit", tester="sim", modifier="management", benchmarks=("frame-loss",), modes=("forward",))  # fmt: skip
    outcome = measure_run(run, tmp_path)
    assert outcome.status == "complete"
    assert not any(warning.startswith("management:") for warning in outcome.caveats)
    (text,) = [warning for warning in outcome.caveats if warning.startswith("under a modifier")]
    assert text.endswith("simulated")


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize("modifier", ["broadcast", *sorted({*DRIVER_MODIFIERS} - {"filters-25"})])
def test_kernel_router_loses_no_frames_under_each_modifier(modifier, tmp_path):
    """The router is changed while frames pass; the next test has 25 filters."""
    programs = {"filters-1": ["nft"], "snmp": ["snmpd", "snmpget"], "bgp": ["bird"]}
    for program in programs.get(modifier, ()):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    out = tmp_path / "out"
    loss = {"rates_fps": [250], "duration_s": 1.2, "repetitions": 2}
    procedure = {"frame_loss": loss, "selftest": "cached", "sending_time_tolerance": 5.0, "invalid_retries": 9}  # fmt: skip
    outcome = measure_run(
        resolve(
            plugin="ipv4-router", tester="embedded", dut="linux-router", modes=("bidirectional",),
            frame_sizes=(128,), benchmarks=("frame-loss",), modifier=modifier, procedure=procedure,
        ),
        out,
    )  # fmt: skip
    (record,) = read_results(out)["results"]
    assert record["rates"][0]["loss_percent"]["sum"]["median"] == 0
    assert record["conditions"]["modifier"] == modifier
    write.write_run_report(out, formats=["md"])
    if modifier == "broadcast":
        rows = [row for row in read_csv(out / "trials.csv") if row["class"] == "broadcast"]
        assert sum("frame-loss/" in row["key"] for row in rows) >= 2
        return
    if modifier == "filters-1":
        assert "jump from_left" in (out / "report.md").read_text()
        return
    trials = [t for t in read_journal(out) if "modifier" in t["result"]]
    counts = [t["result"]["modifier"] for t in trials if t["trial"]["benchmark"] != "preflight"]
    assert all(each["times"] == each["right"] for each in counts)
    measured = [
        t["result"]["modifier"] for t in read_journal(out) if "frame-loss/" in t["trial"]["key"]
    ]
    times = 1 if modifier in ("routing", "bgp") else 2
    assert measured and all(m["times"] == times for m in measured)
    (summary,) = [text for text in outcome.caveats if text.startswith(f"{modifier}: ")]
    assert f"{sum(m['times'] for m in counts):,} right" in summary
    assert summary in resume(out, Listener()).caveats
    if modifier in ("routing", "bgp"):
        changes = [t["result"]["modifier"]["what"] for t in trials]
        assert len(set(changes)) == 2 and all(a != b for a, b in pairwise(changes))


@pytest.mark.lab
@needs_lab
@pytest.mark.skipif(shutil.which("nft") is None, reason="needs nft")
def test_denied_frames_are_dropped_and_rollback_is_complete():
    """The device has a route to the hosts of the denied frames."""
    requirements = DeviceRequirements(filters=25, route_updates=True)
    with open_bed("linux-router", replace(ROUTER4, requirements=requirements)) as bed:
        session, net = bed.session, "203.0.113"
        first, second = session.update_routes(), session.update_routes()
        assert first != second and session.update_routes() == first

        def is_forwarded(src, dst, payload):
            return bed.forward("forward", src, dst, 5000, 53, payload) is not None

        assert is_forwarded("198.18.0.2", "198.19.0.2", b"permitted")
        for number, (src, dst) in enumerate([(1, 101), (50, 150)]):
            assert not is_forwarded(f"{net}.{src}", f"{net}.{dst}", b"denied %d" % number)
        session.transport.run("nft flush chain inet v6t_filters forward")
        with expect_error("check-failed", mentions="25"):
            session.verify()
        assert is_forwarded(f"{net}.1", f"{net}.101", b"without the filters")
        session.rollback()
        state = session.transport.run("nft list tables; ip route show proto 86").out
        assert "v6t_filters" not in state and net not in state
        session.transport.run(f"ip route add blackhole {net}.0/24")
        with expect_error("foreign-configuration"):
            session.commit()
        assert "blackhole" in session.transport.run(f"ip route show {net}.0/24").out


DEVICES = [("ipv4-router", "linux-router"), ("ipv6-router", "linux-router"), ("nat44", "nftables"),
           ("nat44", "iptables"), ("nat44", "vpp"), ("mape-br", "vpp"),
           ("lwaftr", "vpp")]  # fmt: skip


def resolve_reconfiguration(plugin="siit", dut=None, tester="sim", options=None, **reconfiguration):
    return resolve(
        plugin=plugin, tester=tester, dut=dut, benchmarks=("reconfiguration",),
        tester_options=options or {}, modes=("bidirectional",),
        procedure={"reconfiguration": {"rate_fps": 5000, **reconfiguration}},
    )  # fmt: skip


@pytest.mark.parametrize(("plugin", "dut"), DEVICES)
def test_plan_contains_live_change_and_its_removal(plugin, dut):
    """The change is in the undo record from the start and differs from the run's configuration."""
    setup = make_setup(resolve_reconfiguration(plugin, dut, "embedded"))
    driver, plan = setup.driver, setup.example_plan
    assert isinstance(plan.live_change, DeviceChange)
    assert plan.steps[-1].undo == plan.live_change.remove_command
    text = format_plan(driver, plan)
    for action in ACTIONS:
        assert plan.live_change.get_command(action) in text
    bare = resolve_setup(plugin=plugin, dut=dut).example_plan
    assert bare.live_change is None
    if plugin != "nat44":  # room for the run's connections
        assert replace(plan, live_change=None, steps=plan.steps[:-1]) == bare


def test_spare_networks_do_not_overlap_test_networks():
    intent = resolve_setup(plugin="mape-br").technology.make_dut_intent()
    documentation = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")
    assert str(find_spare_network(intent, 4)) in documentation
    pool = Nat44Config(inside4=["203.0.113.0/24", "192.0.2.0/25"], pool4=["198.51.100.7"])
    assert str(find_spare_network(replace(intent, configuration=pool), 4)) == "100.64.113.0/24"
    left = replace(intent.left, addresses=["2001:db8:fffe::1/64"])
    assert str(find_spare_network(replace(intent, left=left), 6)) == "2001:db8:fffd::/48"
    full = Nat44Config(inside4=[*documentation, "100.64.0.0/10", "192.88.99.0/24"], pool4=[])
    with expect_error("address-conflict"):
        find_spare_network(replace(intent, configuration=full), 4)


def test_change_with_unexpected_output_is_a_problem():
    words = {"added_words": "via one", "changed_words": "via two"}
    change = DeviceChange("a route", "a", "c", "r", "l", **words)
    assert change.find_problem("add", "x  via   one y") is None
    assert change.find_problem("change", "x via two") is None
    assert "'via one'" in change.find_problem("add", "")
    assert "'via one'" in change.find_problem("add", "x via one2")
    assert "'via two'" in change.find_problem("change", "x via one")
    assert "still exists" in change.find_problem("remove", "x via one")
    assert change.find_problem("remove", " \n") is None


def measure_changes(path, run):
    (record,) = measure_run(run, path).records
    assert record.changes.keys() == {"nothing", "add", "change", "remove"}
    return record.to_json()["changes"]


def test_blocked_time_of_a_simulated_device_is_measured(tmp_path):
    """The device forwards nothing for 40 ms after each change, and every frame otherwise."""
    out = tmp_path / "out"
    run = resolve_reconfiguration(options={"reconfigure_s": "0.04"}, repetitions=3)
    for change, directions in measure_changes(out, run).items():
        blocked_s = 0.0 if change == "nothing" else 0.04
        for result in directions.values():
            assert result["values"] == pytest.approx([blocked_s] * 3)
            assert result["lost"] == [round(5000 * blocked_s)] * 3
    assert len(read_csv(out / "reconfiguration.csv")) == 3 * 4 * 2
    assert "Reconfiguration under traffic" in write_report(out)
    assert resume(out, Listener()).status == "complete"


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(("plugin", "dut", "program"), [
    ("ipv4-router", "linux-router", "ip"), ("nat44", "nftables", "nft"),
    ("nat44", "iptables", "iptables"),
])  # fmt: skip
def test_kernel_devices_are_changed_under_traffic(plugin, dut, program, tmp_path):
    """The driver reads each change back, and the run fails if the device is not restored."""
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    procedure = {
        "reconfiguration": {"rate_fps": 100, "duration_s": 1.0, "at_s": 0.4, "repetitions": 1},
        "selftest": "cached", "sending_time_tolerance": 5, "pause_s": 0, "invalid_retries": 8,
        "connections": {"count": 20, "rate_cps": 200},
    }  # fmt: skip
    run = resolve(plugin=plugin, tester="embedded", dut=dut, benchmarks=("reconfiguration",),
                  modes=("forward",), procedure=procedure)  # fmt: skip
    changes = measure_changes(tmp_path / "out", run)
    assert all(directions["forward"]["frames"] == [100] for directions in changes.values())
    lines = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    assert sum('"hook":"reconfiguration-' in line for line in lines) >= 3
