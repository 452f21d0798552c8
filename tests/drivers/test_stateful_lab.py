"""Connections of RFC 9693 and of TCP with real frames, through NATs in the lab."""

import re
import subprocess
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace

import pytest
from v6t.core.runs.bench import Bench, compile_streams
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.several.tester import SeveralTesters
from v6t.drivers.trex import connections as trex_connections
from v6t.drivers.trex.astf import SYN_RETRANSMISSIONS
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity
from v6t.procedures.stateful.phases import PhaseOneSettings, judge_connections
from v6t.procedures.stateful.tcp_capacity import TcpCapacitySpec, measure_tcp_capacity
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Connections, Tcp
from v6t.trials.trial import DelayRequest, Trial

from .duts.support import find_missing_package
from .lab_testers import REAL, TRIES, make_tester_setup, measure_passed

EMBEDDED, TREX = REAL
COUNT, TCP_COUNT = 500, 150
ESTABLISH = Connections(COUNT, 3000.0, wait_s=0.3, alpha=1.0, purpose="establish")
USE = replace(ESTABLISH, purpose="prepare", alpha=None, reuse=True)


class StatefulLab(AbstractContextManager):
    """Lab with a stateful device and a tester with loaded streams."""

    def __init__(self, kind, plugin="nat44", *, loopback=False, size=None, **flags):
        settings = {"procedure": {"connections.count": str(COUNT)}, **flags}
        self.kind, setup = kind, make_tester_setup(kind, plugin, **settings)
        # TRex compares only some of the frames
        self.frames = 500 if kind == "embedded" else 1000
        driver = make_driver(setup.settings.dut.driver, {})
        # a chain itself needs no programs
        if not loopback and not driver.is_chain and (package := find_missing_package(driver)):
            pytest.skip(f"needs the Debian package {package}")
        setup.tester.prepare()
        self.sizes = setup.technology.make_sizes(size or setup.settings.frame_sizes[0])
        self.bench = Bench(setup, loopback=loopback)
        self.bench.load(compile_streams(setup, self.sizes))

    def __exit__(self, *_):
        self.bench.close()

    def trial(self, connections, mode="bidirectional", **changes):
        changes = {"rate_fps": 2.0 * self.frames, "duration_s": 0.5, **changes}
        return Trial("test", "k", self.sizes.ipv6, self.sizes.ipv4, mode, residual_wait_s=0.4,
                     pause_s=0.1, connections=connections, **changes)  # fmt: skip

    def establish(self, connections=ESTABLISH):
        """Repeat phase 1 until it passes; return its result."""
        trial = self.trial(connections)
        for _ in range(TRIES):
            result = self.bench.measure(trial)
            verdict = judge_connections(trial, result, sending_time_tolerance=1.5)
            if verdict.passed:
                return result.connections
        pytest.fail(f"no phase 1 passed: {verdict.reasons}")

    def use(self, connections, **changes):
        """Repeat a trial of phase 2 until it passes without loss; return its result."""
        return measure_passed(self.bench, self.trial(connections, **changes), tolerance=1.5,
                              is_good=lambda result: result.connections.is_complete)  # fmt: skip

    def open_tcp(self, tcp, count=TCP_COUNT, rate_cps=500.0, *, retransmits=False, is_slow=False):
        """Open TCP connections and return their outcomes; repeat invalid trials."""
        more = {"wait_s": tcp.max_wait_s, "alpha": 1.0, "purpose": "establish", "tcp": tcp}
        connections = Connections(count, rate_cps, **more)
        changes = {"rate_fps": rate_cps, "duration_s": connections.phase_one_s}
        trial = self.trial(connections, "forward", **changes)
        for _ in range(TRIES):
            result = self.bench.measure(trial)
            tcp_count = result.connections.tcp
            refused = tcp_count.reset_refused + tcp_count.icmp_refused
            unanswered = tcp_count.half_open + tcp_count.timed_out
            assert tcp_count.established + refused + unanswered == tcp_count.attempted <= count
            if is_slow or (not result.faults and (retransmits or not tcp_count.retransmitted)):
                break
        assert bool(result.faults) is is_slow
        return result.connections

    def run_in_device(self, command):
        pid = self.bench.open().list_namespaces()["device"]
        words = ["nsenter", "-t", str(pid), "-n", "sh", "-ec", command]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout

    @contextmanager
    def add_rule(self, hook, rule):
        """Drop or reject frames by a rule; a limit of the table would apply to the whole host."""
        table = f"table ip small {{ chain limits {{ type filter hook {hook}; {rule}; }}; }}"
        self.run_in_device(f"nft '{table}'")
        try:
            yield
        finally:
            self.run_in_device("nft delete table ip small")

    def make_capacity_spec(self, first, most, rate_cps, **more):
        conditions = Conditions(self.sizes.ipv6, self.sizes.ipv4, "forward", residual_wait_s=0.2,
                                pause_s=0.0, loss_tolerance=0.0, sending_time_tolerance=1.5,
                                invalid_retries=TRIES)  # fmt: skip
        return CapacitySpec(conditions, first=first, most=most, upper_bound_cps=rate_cps, beta=0.5,
                            upper_bound_reason="given", resolution_cps=rate_cps / 2, **more)  # fmt: skip


def with_marks(param, *values):
    """Return a test parameter with further values and the same marks."""
    return pytest.param(*param.values, *values, marks=param.marks)


@pytest.mark.parametrize(("kind", "plugin", "initiator"), [
    with_marks(EMBEDDED, "nat44", "left"), with_marks(EMBEDDED, "nat44", "right"),
    with_marks(EMBEDDED, "nat64", "left"), with_marks(TREX, "nat44", "left"),
])  # fmt: skip
def test_connections_are_counted_validated_used_and_torn_down(kind, plugin, initiator):
    with StatefulLab(kind, plugin, initiator=initiator) as lab:
        opened = lab.establish()
        assert opened.learned == opened.sessions == opened.validated == COUNT
        assert (opened.sessions_before, opened.duplicate_tuples, opened.surplus) == (0, 0, 0)
        assert opened.inside_endpoints is not None
        assert opened.outside_endpoints >= opened.inside_endpoints * 0.9
        use = replace(USE, gap_s=0.1)
        one_way = ("forward", "reverse") if (plugin, initiator) == ("nat44", "left") else ()
        for mode in ("bidirectional", *one_way):
            result = lab.use(use, mode=mode)
            assert result.connections.sessions == COUNT
            assert result.connections.age_s >= result.connections.gap_s >= 0.1
            for counted in result.directions.values():
                assert counted.checked == counted.matched > 50
                assert counted.count_frames("received") == lab.frames
        # the connections of the last trial are reused
        assert lab.bench.measure(lab.trial(use)).connections.reused
        torn_down = lab.bench.measure(lab.trial(replace(use, purpose="tear-down", reuse=False)))
        assert min(torn_down.connections.flush_s, torn_down.connections.idle_flush_s) > 0
        assert lab.bench.open().device_state().count_sessions() == 0


@pytest.fixture(scope="module", params=REAL)
def nat44(request):
    with StatefulLab(request.param) as lab:
        yield lab


def test_responder_reads_its_table_in_every_order(nat44):
    for reading, entries in (("linear", 10), ("pseudorandom", 250), ("fixed", 1)):
        use = replace(USE, entries=entries, reading=reading)
        counted = nat44.use(use, mode="reverse").directions["reverse"]
        assert counted.matched == counted.checked > 50
        assert counted.count_frames("received") == nat44.frames


@pytest.mark.parametrize("kind", [EMBEDDED])
def test_connections_are_used_with_delays_and_background(kind):
    params = {"initiator_count": "16", "responder_count": "4", "enumerate_ips": "3",
              "initiator_ports.min": "1024", "initiator_ports.max": "2047",
              "responder_ports.min": "1", "responder_ports.max": "4", "n": "10", "m": "9",
              "responder_ipv4": "198.19.1.0"}  # fmt: skip
    with StatefulLab(kind, size=84, params=params) as lab:
        assert lab.establish().sessions == COUNT
        for counted in lab.use(USE, delays=DelayRequest(tags=100)).directions.values():
            assert counted.classes["bg"].received == 50
            assert sum(d.frames for d in counted.delays.values()) == 100


@pytest.mark.parametrize("nat44", [EMBEDDED], indirect=True)
def test_capacity_of_limited_table_is_found_exactly(nat44):
    with nat44.add_rule("forward priority 0", "ct state new ct count over 201 drop"):
        result = measure_capacity(nat44.make_capacity_spec(199, 204, 5000.0), nat44.bench.measure)
        assert (result.capacity, result.first_failed) == (201, 202)


@pytest.mark.parametrize("kind", [TREX])
def test_connections_are_divided_among_two_servers(kind):
    with StatefulLab(kind) as lab, StatefulLab(kind) as other:
        members = {"a": lab.bench.open(), "b": other.bench.open()}
        several, both = SeveralTesters("trex", members, max_skew_share=0.5), copy(lab)
        setup = make_tester_setup(kind, "nat44")
        several.load(compile_streams(setup, lab.sizes), setup.technology)
        both.bench = TwoPhaseTester(several, None)
        opened = both.establish(replace(ESTABLISH, rate_cps=250.0))
        assert opened.sent == opened.learned == opened.validated == COUNT
        assert [b.device_state().count_sessions() for b in members.values()] == [COUNT / 2] * 2
        use = replace(USE, rate_cps=250.0)
        for counted in both.use(use, duration_s=2.0).directions.values():
            assert counted.checked == counted.matched > 50
            assert counted.count_frames("received") == 4000


@pytest.fixture(scope="module", params=REAL)
def tcp_nat(request):
    with StatefulLab(request.param, benchmarks=("tcp-rate",)) as lab:
        yield lab


@pytest.mark.parametrize("tcp", [Tcp(closing="rst"), Tcp(object_octets=3000, closing="fin")])
def test_tcp_connections_are_opened_used_and_closed(tcp_nat, tcp):
    """The objects have one and three segments."""
    opened = tcp_nat.open_tcp(tcp)
    counted = opened.tcp
    assert counted.established == counted.requested == counted.answered == TCP_COUNT
    assert counted.closed == opened.sessions == opened.learned == TCP_COUNT
    assert opened.validated == TCP_COUNT
    assert counted.wrong == counted.retransmitted == counted.reset_later == 0
    assert opened.duplicate_tuples == 0
    if tcp_nat.kind == "embedded":  # TRex does not report the endpoints of its connections
        assert opened.outside_endpoints > 1


@pytest.mark.parametrize(("kind", "plugin", "tcp"), [
    with_marks(EMBEDDED, "dslite-aftr", Tcp(object_octets=3000, closing="fin")),
    with_marks(EMBEDDED, "dslite-aftr", Tcp(retransmissions=1)),
    with_marks(TREX, "nat44", Tcp()),
])  # fmt: skip
def test_selftest_opens_tcp_connections(kind, plugin, tcp):
    with StatefulLab(kind, plugin, loopback=True, benchmarks=("tcp-rate",)) as lab:
        counted = lab.open_tcp(tcp).tcp
        assert counted.established == counted.answered == counted.closed == TCP_COUNT
        assert counted.wrong == counted.reset_later == counted.reset_refused == 0
        if kind == "embedded":
            assert 0 < counted.fastest_s <= counted.mean_s <= counted.slowest_s
            assert counted.sum_s == pytest.approx(counted.mean_s * TCP_COUNT)
            # no connection is established in time, but one end may open
            late = lab.open_tcp(Tcp(timeout_s=1e-6), is_slow=True).tcp
            assert (late.established, late.timed_out + late.half_open) == (0, TCP_COUNT)
            assert late.timed_out > TCP_COUNT / 2


def test_tcp_capacity_of_limited_table_is_found_exactly(tcp_nat):
    """The device resets connections above the limit."""
    embedded, limit = tcp_nat.kind == "embedded", 203
    tcp, rate_cps = (Tcp(timeout_s=0.5), 1500.0) if embedded else (Tcp(), 500.0)
    rule = f"ct state new ct count over {limit} reject with tcp reset"
    with tcp_nat.add_rule("forward priority 0", rule):
        more = {"benchmark": "tcp-capacity", "fixed": True}
        phase_one = PhaseOneSettings(wait_s=tcp.max_wait_s, tcp=tcp)
        search = tcp_nat.make_capacity_spec(202, 205, rate_cps, phase_one=phase_one, **more)
        result = measure_tcp_capacity(TcpCapacitySpec(search), tcp_nat.bench.measure)
        assert (result.search.capacity, result.search.first_failed) == (limit, limit + 1)
        counted = tcp_nat.open_tcp(tcp, 220, rate_cps).tcp
        assert (counted.established, counted.answered) == (limit, limit)
        assert counted.reset_refused == 220 - limit


@pytest.mark.parametrize("tcp_nat", [EMBEDDED], indirect=True)
def test_expiry_of_connections_is_measured(tcp_nat):
    """The kernel keeps reset connections for ten seconds, longer than the test waits."""
    counted = tcp_nat.open_tcp(Tcp(aging_s=1.0)).tcp
    assert counted.expiry_s is None
    assert counted.sessions_after >= TCP_COUNT - 10


@pytest.mark.parametrize("tcp_nat", [TREX], indirect=True)
def test_streams_work_after_tcp_connections(tcp_nat):
    """TRex's stateless engine is started again with its streams."""
    tcp_nat.open_tcp(Tcp(), 50)
    result = tcp_nat.use(Connections(500, 500.0), mode="forward", rate_fps=1000.0)
    assert result.directions["forward"].count_frames("received") == 500


@pytest.mark.parametrize("tcp_nat", [TREX], indirect=True)
def test_connections_without_an_answer_are_counted_exactly(tcp_nat):
    """SYNs of every eighth source port are dropped; TRex uses the ports in turn."""
    rule = "iifname left tcp sport & 7 == 0 drop"
    with tcp_nat.add_rule("prerouting priority -300", rule):
        counted = tcp_nat.open_tcp(Tcp(), 320, retransmits=True).tcp
    assert (counted.established, counted.timed_out) == (280, 40)
    assert counted.answered == counted.closed == 280
    assert counted.retransmitted == 40 * SYN_RETRANSMISSIONS


@pytest.mark.parametrize("kind", [TREX])
@pytest.mark.parametrize("plugin", ["nat64", "ipv4aas"])
def test_tcp_clients_and_servers_may_use_ipv6(kind, plugin):
    with StatefulLab(kind, plugin, benchmarks=("tcp-rate",)) as lab:
        counted = lab.open_tcp(Tcp()).tcp
    assert counted.established == counted.answered == counted.closed == TCP_COUNT
    assert counted.wrong == 0


@pytest.mark.parametrize("kind", [TREX])
@pytest.mark.parametrize("rows", [32_768, 50])
def test_many_connections_are_established_and_used(kind, rows, monkeypatch):
    """With many blocks, some are stamped and timed and the others marked; all are validated."""
    monkeypatch.setattr(trex_connections, "MAX_ROWS", rows)
    with StatefulLab(kind) as lab:
        many = {"count": 3000, "rate_cps": 2000.0}
        opened = lab.establish(replace(ESTABLISH, **many))
        assert opened.sent == opened.learned == opened.validated == opened.sessions == 3000
        assert opened.sessions_before == opened.duplicate_tuples == 0
        use = replace(USE, **many)
        stamped = 125 * trex_connections.IDS_PER_DIRECTION if rows == 50 else 7500
        for delays in (None, DelayRequest(tags=100), DelayRequest(tags=0)):
            # the Initiator uses each four-tuple more than twice
            result = lab.use(use, rate_fps=3000.0, duration_s=2.5, delays=delays)
            for counted in result.directions.values():
                assert list(counted.classes) == ["fg"]
                assert counted.count_frames("sent") == counted.count_frames("received") == 7500
                assert (counted.control, counted.checked) == (0, counted.matched)
                assert counted.checked > 50
                if delays is not None:
                    timed = counted.delays["fg"]
                    assert (timed.frames, timed.lost) == (delays.tags or stamped, 0)


@pytest.mark.parametrize("kind", [TREX])
def test_deleted_connection_is_missing_in_the_validation(kind, monkeypatch):
    monkeypatch.setattr(trex_connections, "MAX_ROWS", 50)
    with StatefulLab(kind) as lab:
        tester, trial = lab.bench.prepare(), lab.trial(ESTABLISH, duration_s=ESTABLISH.phase_one_s)
        tester.establish(trial, ESTABLISH)
        listed = lab.run_in_device("conntrack -L").splitlines()
        ports = sorted({re.search(r"sport=(\d+)", line)[1] for line in listed})[:5]
        outputs = [lab.run_in_device(f"conntrack -D -p udp --orig-port-src {p}") for p in ports]
        deleted = sum(len(output.splitlines()) for output in outputs)
        (count,) = tester.validate(trial, ESTABLISH).result.classes.values()
        assert deleted >= 5
        assert (count.sent, count.received, count.surplus) == (COUNT, COUNT - deleted, 0)
