"""Several servers as one tester: division of streams and trials, sums, faults and start skew."""

import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from v6t.base.errors import TesterError, UsageError
from v6t.core.runs.bench import compile_directions
from v6t.drivers.several import division
from v6t.drivers.several.tester import SeveralTesters
from v6t.drivers.sim.tester import SimOptions, SimTester
from v6t.drivers.tester import PhaseCounts
from v6t.packets.walker import locate_endpoints
from v6t.profiles.entropy import limit_flows
from v6t.profiles.expand import Expander
from v6t.profiles.streams import StreamSet, compute_period
from v6t.tests.expect import expect_error
from v6t.trials.connections import Connections
from v6t.trials.delays import Distribution
from v6t.trials.result import ClassCount, DirectionResult, Timeline, TrialResult
from v6t.trials.trial import DelayRequest, Queries, Segment, Trial

from .lab_testers import compile_plugin

TRIAL = Trial("throughput", "t", 104, 64, "bidirectional", 10_001.0, 1.0, 0.0, 0.0)
CONNECTIONS = Connections(count=1001, rate_cps=1000.0, alpha=1.0)


def list_flows(stream, count):
    frames = Expander(stream).compute_frames(0, count)
    rows = frames[:, locate_endpoints(frames[0]).tunnel_row]
    return {row.tobytes() for row in np.ascontiguousarray(rows)}


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("plugin", ["mape-br", "siit", "ipv6-router", "nptv6", "lwb4"])
def test_random_flows_of_servers_are_disjoint(plugin, parts):
    _, streams = compile_plugin(plugin, 512, n="10", m="9")
    for stream_set in streams.values():
        shares = [division.divide_streams(stream_set, part, parts).streams for part in range(parts)]
        for streams_of_class in zip(*shares, strict=True):
            flows = [list_flows(stream, 3000) for stream in streams_of_class]
            assert len(set().union(*flows)) == sum(map(len, flows))


@pytest.mark.parametrize("ports", [64_512, 3])
def test_random_shares_cover_whole_range(ports):
    (stream,) = compile_plugin("ipv4-router", 512)[1]["forward"].streams
    whole = {**stream.program[0], "min_value": 1024 << 5, "max_value": (1024 + ports << 5) - 1}
    stream = stream.with_program([whole, *stream.program[1:]], random_seed=1)
    streams = StreamSet("forward", (stream,))
    shares = [division.divide_streams(streams, part, 3).streams[0] for part in range(3)]
    ranges = [(s.program[0]["min_value"], s.program[0]["max_value"]) for s in shares]
    first, second, third, end = (1024 + ports * n // 3 << 5 for n in range(4))
    assert ranges == [(first, second - 1), (second, third - 1), (third, end - 1)]
    assert [s.trex["random_seed"] for s in shares] == [1, 0x9E3779B2, 0x3C6EF363]


def compile_few_flows(flows):
    technology, _ = compile_plugin("ipv4-router", 512)
    sizes = technology.make_frame_pair(512)
    return compile_directions(technology, sizes, 1, partial(limit_flows, count=flows))["forward"]


@pytest.mark.parametrize(("flows", "parts"), [(7, 3), (1000, 8)])
def test_few_flows_are_divided_exactly(flows, parts):
    whole = compile_few_flows(flows)
    shares = [division.divide_streams(whole, part, parts).streams[0] for part in range(parts)]
    parts_of_flows = [list_flows(share, compute_period(share)) for share in shares]
    assert sum(map(len, parts_of_flows)) == flows
    assert set().union(*parts_of_flows) == list_flows(whole.streams[0], flows)


def test_fewer_flows_or_connections_than_servers_are_rejected():
    with expect_error("flows-not-divisible", kind=UsageError):
        division.divide_streams(compile_few_flows(1), 0, 2)
    with expect_error("flows-not-divisible", kind=UsageError):
        division.divide_connections(replace(CONNECTIONS, count=2), 0, 3)


@pytest.mark.parametrize(("step", "values"), [(1, 256), (2, 6)])
def test_large_enumeration_is_interleaved(step, values):
    (stream,) = compile_plugin("nat44", 512)[1]["forward"].streams
    bits, *program = stream.program
    bits = {**bits, "step": step, "value_list": bits["value_list"][:values]}
    streams = StreamSet("forward", (stream.with_program([bits, *program]),))
    whole = Expander(streams.streams[0]).compute_frames(0, 4000)
    for part in range(4):
        share = division.divide_streams(streams, part, 4).streams[0]
        assert (Expander(share).compute_frames(0, 1000) == whole[part::4]).all()


def test_connections_of_servers_equal_those_of_one():
    streams, frames = compile_plugin("nat44", 512)[1]["forward"], []
    for part in range(3):
        share = division.divide_enumeration(streams, 1001, part, 3).streams[0]
        count = division.divide_connections(CONNECTIONS, part, 3).count
        frames.append(Expander(share).compute_frames(0, count))
    whole = Expander(streams.streams[0]).compute_frames(0, 1001)
    assert (np.concatenate(frames) == whole).all()


def test_shares_of_a_trial_add_up():
    second = {"second_segment": Segment(501.0, 2.0), "search_limit_fps": 3e4}
    trial = replace(TRIAL, delays=DelayRequest(tags=500), **second)
    shares = [division.divide_trial(trial, part, 3) for part in range(3)]
    assert sum(s.frames for s in shares) == trial.frames == 11_003
    assert sum(s.rate_fps for s in shares) == pytest.approx(10_001.0)
    assert sum(s.delays.tags for s in shares) == 500
    assert {s.search_limit_fps for s in shares} == {1e4}


def test_server_without_frames_gets_no_trial():
    shares = [division.divide_trial(replace(TRIAL, rate_fps=1.0), part, 2) for part in range(2)]
    assert [s and s.frames for s in shares] == [None, 1]


def simulate(*servers, plugin="mape-br"):
    """Return a loaded tester of simulated servers with these options."""
    params = {"n": "10", "m": "9"} if plugin == "mape-br" else {}
    technology, streams = compile_plugin(plugin, 512, **params)
    options = [SimOptions(tester_fps=1e9, **server) for server in servers]
    members = {f"s{n}": SimTester(one, n) for n, one in enumerate(options)}
    tester = SeveralTesters("sim", members)
    tester.open()
    tester.load(streams, technology)
    return tester


def test_counts_of_all_servers_are_summed():
    result = simulate(*({"capacity_fps": fps} for fps in (3000.0, 3000.0, 1e6))).measure(TRIAL)
    assert not result.faults
    for counted in result.directions.values():
        assert counted.count_frames("required") == counted.count_frames("sent") == 10_001
        assert counted.count_frames("received") == 10_001 - 333 - 334
        assert set(counted.classes) == {"fg", "bg"}
    lost = {name: figures["lost"]["forward"] for name, figures in result.tester["servers"].items()}
    assert lost == {"s0": 333, "s1": 334, "s2": 0}


def test_capabilities_are_common_to_all_servers():
    members = {"a": SimpleNamespace(capabilities=frozenset({"tags", "tcp", "ipdv"})),
               "b": SimpleNamespace(capabilities=frozenset({"tags", "connections", "ipdv"}))}  # fmt: skip
    assert SeveralTesters("sim", members).capabilities == {"tags", "tcp"}


@pytest.mark.parametrize("alpha", [None, 1.0])
def test_connections_are_learned_and_validated_by_all_servers(alpha):
    tester = simulate({}, {}, {}, plugin="nat44")
    connections = replace(CONNECTIONS, alpha=alpha)
    phase = tester.establish(TRIAL, connections)
    validation = tester.validate(TRIAL, connections)
    assert [c.received for c in phase.result.classes.values()] == [1001]
    assert [c.received for c in validation.result.classes.values()] == [1001]
    result = tester.measure(replace(TRIAL, connections=connections))
    assert result.directions["reverse"].count_frames("received") == 10_001


@pytest.mark.parametrize(("plugin", "connections", "flows"), [
    ("ipv4-router", None, 3000), ("nat44", CONNECTIONS, 500),
])  # fmt: skip
def test_each_server_sends_its_own_flows_or_connections(plugin, connections, flows):
    tester = simulate({}, {}, plugin=plugin)
    tester.measure(replace(TRIAL, connections=connections))
    members = tester._members.values()
    first, second = (list_flows(m._streams["forward"].streams[0], flows) for m in members)
    assert first.isdisjoint(second)
    assert connections is None or len(first) == len(second) == flows


class FakeMember:
    """Tester that logs its trials, installations of streams and starts of traffic."""

    capabilities = frozenset({"queries"})

    def __init__(self, started="2026-01-01T00:00:00.000+00:00", faults=(), error=None, **counts):
        self.started, self.faults, self.error, self.counts = started, faults, error, counts
        self.trials, self.events, self.may_install = [], [], None
        self.open, self.load, self.close = Mock(side_effect=error), Mock(), Mock()
        self.before_start = Mock()

    def measure(self, trial):
        self.trials.append(trial)
        if self.error:
            raise self.error
        assert self.may_install is None or self.may_install.wait(5)
        self.events.append("installed")
        self.before_start()
        self.events.append("started")
        counted = ClassCount("foreground", trial.frames, trial.frames, trial.frames)
        direction = DirectionResult({"fg": counted}, 1.0, **self.counts)
        return TrialResult({"forward": direction}, self.faults, self.started)

    def describe(self):
        return {"kind": "fake", "version": "v3", "ports": [id(self)]}


def combine(*members):
    tester = SeveralTesters("fake", dict(zip("abc", members, strict=False)))
    tester.load({}, object())
    return tester


def test_fault_names_its_server():
    result = combine(FakeMember(), FakeMember(faults=("queue full",))).measure(TRIAL)
    assert result.faults == ("server b: queue full",)
    assert not result.is_disturbed


@pytest.mark.parametrize(("late_ms", "valid"), [(20, True), (21, False)])
def test_skew_of_starts_is_limited(late_ms, valid):
    late = FakeMember(f"2026-01-01T00:00:00.{late_ms:03}+00:00")
    result = combine(FakeMember(), late).measure(TRIAL)
    assert result.tester["start_skew_s"] == late_ms / 1000
    assert (not result.faults) is valid
    assert result.is_disturbed is not valid


@pytest.mark.parametrize(("phase", "valid"), [("establish", False), ("validate", True)])
def test_skew_limit_is_share_of_phase(phase, valid):
    """Phase 1 takes 1 s and the validation 2 s; the limit is 2 % of the respective phase."""
    counts = [PhaseCounts(DirectionResult({}, 1.0), start_s) for start_s in (1.0, 1.03)]
    members = [Mock(capabilities=frozenset(), **{f"{phase}.return_value": c}) for c in counts]
    counted = getattr(combine(*members), phase)(TRIAL, replace(CONNECTIONS, alpha=0.5))
    assert counted.health["start_skew_s"] == 0.03
    assert (not counted.faults) is valid


def test_failed_open_closes_all_servers():
    healthy, broken = FakeMember(), FakeMember(error=TesterError("no port", code="tester-fault"))
    with expect_error("tester-fault", kind=TesterError):
        combine(healthy, broken).open()
    healthy.close.assert_called_once()
    broken.close.assert_called_once()


def test_queries_go_to_the_first_server():
    first, second = FakeMember(), FakeMember()
    combine(first, second).measure(replace(TRIAL, queries=Queries()))
    assert [t.rate_fps for t in first.trials] == [10_001.0]
    assert not second.trials


def test_figures_of_servers_are_merged():
    one = FakeMember(checked=5, matched=5, control=1, longest_gap_s=0.2, first_lost_s=0.5,
                     delay_us={"min": 1.0, "max": 5.0}, behaviour={"x": 2},
                     delays={"fg": Distribution((1, 2), (3, 4))},
                     timeline=Timeline(0.5, (1, 2), (0, 1)))  # fmt: skip
    two = FakeMember(checked=6, matched=4, control=2, longest_gap_s=0.1, mismatch={"why": "y"},
                     delay_us={"min": 2.0, "max": 9.0}, behaviour={"x": 1},
                     delays={"fg": Distribution((2,), (1,), lost=1)},
                     timeline=Timeline(0.5, (1, 2, 3), (0, 0, 1)))  # fmt: skip
    result = combine(one, two).measure(TRIAL).directions["forward"]
    assert (result.checked, result.matched, result.control) == (11, 9, 3)
    assert (result.longest_gap_s, result.first_lost_s, result.last_lost_s) == (0.2, 0.5, None)
    assert (result.mismatch, result.behaviour) == ({"why": "y"}, {"x": 3})
    assert result.delay_us == {"min": 1.0, "max": 9.0}
    assert result.delays == {"fg": Distribution((1, 2), (3, 5), lost=1)}
    assert result.timeline == Timeline(0.5, (2, 4, 3), (0, 1, 1))


def test_description_has_common_and_server_facts():
    facts = combine(FakeMember(), FakeMember()).describe()
    assert facts["version"] == "v3"
    assert "ports" not in facts
    assert set(facts["servers"]) == {"a", "b"}


def test_no_server_starts_before_all_have_installed_their_streams():
    first, second = FakeMember(), FakeMember()
    second.events, second.may_install = first.events, threading.Event()
    threading.Timer(0.2, second.may_install.set).start()
    combine(first, second).measure(TRIAL)
    assert first.events == ["installed"] * 2 + ["started"] * 2


def test_waiting_server_ends_if_another_fails():
    waiting, broken = FakeMember(), FakeMember(error=TesterError("gone", code="tester-fault"))
    with expect_error("tester-fault", kind=TesterError) as caught:
        combine(waiting, broken).measure(TRIAL)
    assert caught.value.message == "server b: gone"
    assert waiting.events == ["installed"]
