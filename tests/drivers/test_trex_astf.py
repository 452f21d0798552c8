"""TCP connections of TRex's stateful engine (ASTF): profiles, counters and faults."""

import base64
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from v6t.core.config.checks import check_benchmark_settings, check_capabilities
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.trex import astf
from v6t.drivers.trex.channel import DEADLINE_S
from v6t.drivers.trex.client.astf import MAX_START_S, AstfWorker
from v6t.drivers.trex.client.service import RequestError
from v6t.drivers.trex.client.stats import PortStats, StepStats, parse_traffic
from v6t.drivers.trex.kind import Trex
from v6t.profiles.tcp.http import REQUEST, build_response
from v6t.tests.expect import expect_error
from v6t.trials.connections import Connections, Tcp

OBJECT = len(build_response(64))


def make_counters(client, server):
    """Make counters as TRex v3.08 reports them, without zeros."""

    def name_counters(counts):
        return {n if n.startswith("err") else f"tcps_{n}": number for n, number in counts.items()}

    return parse_traffic({"client": name_counters(client), "server": name_counters(server)})


# Counters of TRex v3.08 for 1,000 connections at 1,000 per second through nftables' NAT44.
CLEAN = make_counters({"connattempt": 1000, "connects": 1000}, {"accepts": 1000, "connects": 1000})
# Every tenth SYN, including retransmissions, was dropped: 112.
LOST_SYNS = make_counters({"connattempt": 1000, "connects": 999, "conndrops": 1, "keepdrops": 1,
                           "rexmttimeo_syn": 111, "closed": 1},
                          {"accepts": 999, "connects": 999})  # fmt: skip
OUTCOMES = ("established", "reset_refused", "timed_out", "half_open", "wrong")


@pytest.mark.parametrize(("counters", "retransmitted", "outcomes"), [
    (CLEAN, 0, {"established": 1000}),
    # the device dropped all 1,500 SYNs of 500 connections
    (make_counters({"connattempt": 1000, "connects": 500, "conndrops": 500, "keepdrops": 500,
                    "rexmttimeo_syn": 1000, "closed": 500}, {"accepts": 500, "connects": 500}),
     1000, {"established": 500, "timed_out": 500}),
    # connections established by a retransmitted SYN are late
    (LOST_SYNS, 111, {"established": 890, "timed_out": 110}),
    # every tenth SYN was answered by a reset
    (make_counters({"connattempt": 1000, "connects": 900, "conndrops": 100},
                   {"accepts": 900, "connects": 900}), 0,
     {"established": 900, "reset_refused": 100}),
    # every tenth SYN-ACK was dropped, 113; both sides may retransmit because of one lost answer
    (make_counters({"connattempt": 1000, "connects": 1000, "rexmttimeo_syn": 73},
                   {"accepts": 1000, "connects": 1000, "rexmttimeo_syn": 53}), 126,
     {"established": 1000 - 73 - 53, "timed_out": 126}),
    (make_counters({"connattempt": 10, "connects": 9}, {"connects": 7}), 0,
     {"established": 7, "half_open": 2, "timed_out": 1}),
    (make_counters({"connattempt": 1, "connects": 1, "err_l3_cs": 1, "err_l4_cs": 1, "err_len_err": 1},
                   {"connects": 1, "rcvbadsum": 1, "rcvbadoff": 1}), 0,
     {"established": 1, "wrong": 5}),
])  # fmt: skip
def test_each_connection_has_one_outcome_and_losses_are_no_faults(
    counters, retransmitted, outcomes
):
    assert astf.find_faults(make_step(counters), "open", 85.0) == []
    opened = astf.count_opened_connections(counters)
    assert {name: n for name in OUTCOMES if (n := getattr(opened, name))} == outcomes
    assert opened.retransmitted == retransmitted
    assert sum(outcomes.values()) - opened.wrong == opened.attempted
    assert (opened.fastest_s, opened.slowest_s, opened.mean_s, opened.sum_s) == (None,) * 4


def test_objects_are_counted_by_their_octets():
    """Late connections and retransmissions do not count."""
    tcp, opened = Tcp(), astf.count_opened_connections(LOST_SYNS)
    bytes_of = {"sndbyte": 999 * len(REQUEST), "rcvbyte": 999 * OBJECT}
    whole = make_counters({**bytes_of, "connects": 999}, {"connects": 999})
    answered = astf.add_answered_requests(opened, whole, LOST_SYNS, tcp)
    assert (answered.requested, answered.answered, answered.reset_later) == (890, 890, 0)
    incomplete = make_counters({**bytes_of, "rcvbyte": 999 * OBJECT - 1}, {})
    assert astf.add_answered_requests(opened, incomplete, LOST_SYNS, tcp).answered == 889
    retransmitted = make_counters(bytes_of, {"sndrexmitpack": 3, "rexmttimeo": 2})
    assert astf.add_answered_requests(opened, retransmitted, LOST_SYNS, tcp).answered == 885
    assert astf.add_answered_requests(opened, make_counters({}, {}), LOST_SYNS, tcp).answered == 0


@pytest.mark.parametrize(("closing", "client", "server", "closed"), [
    ("rst", {"drops": 1000, "closed": 1000}, {"drops": 1000, "closed": 1000}, 1000),
    ("rst", {"drops": 1000, "closed": 1000}, {"drops": 990, "closed": 990}, 990),
    ("fin", {"closed": 1000}, {"closed": 1000}, 1000),
    ("fin", {"closed": 990}, {"closed": 1000}, 990),
    ("fin", {"closed": 1000, "drops": 7}, {"closed": 1000, "conndrops": 2}, 993),
])  # fmt: skip
def test_connection_is_closed_if_both_sides_agree(closing, client, server, closed):
    opened, counters = astf.count_opened_connections(CLEAN), make_counters(client, server)
    assert astf.add_closed_connections(opened, counters, Tcp(closing=closing)).closed == closed


def make_step(counted=CLEAN, **more):
    defaults = {"ports": {0: PortStats(0, 0, 0, 0)}, "cpu": [9.0], "initial_count": 0}
    return StepStats(counted, **{**defaults, **more})


@pytest.mark.parametrize(("stats", "text"), [
    (make_step(make_counters({"err_c_tuple_err": 3}, {})), "too few addresses and ports"),
    (make_step(make_counters({}, {"err_no_memory": 3})), "no memory for connections"),
    (make_step(make_counters({"keepdrops": 5, "rexmttimeo_syn": 9}, {})), "timers were late"),
    (make_step(make_counters({"keepprobe": 1}, {})), "sent keepalive probes"),
    (make_step(ports={0: PortStats(0, 0, 0, 2)}), "2 errors at TRex's port 0"),
    (make_step(queue_full_count=4), "queue was full 4 times"),
    (make_step(cpu=[20.0, 97.0]), "97% busy"),
    (make_step(initial_count=12), "12 objects were requested before"),
])  # fmt: skip
def test_trex_errors_are_tester_faults(stats, text):
    of_reset_connections = make_step(make_counters({"keepdrops": 92}, {}))
    assert astf.find_faults(of_reset_connections, "end", 85.0) == []
    faults = [f for step in ("open", "ask") for f in astf.find_faults(stats, step, 85.0)]
    assert any(text in fault for fault in faults)


def make_technology(name):
    return resolve_setup(plugin=name).technology


PORTS = {"initiator_ports.min": "1024", "initiator_ports.max": "2047",
         "responder_ports.min": "7", "responder_ports.max": "9"}  # fmt: skip
HOSTS = {"responder_ipv4": "198.19.1.0", "initiator_count": "16", "responder_count": "4",
         "enumerate_ips": "3"}  # fmt: skip
HOST_2 = ("0.0.0.2", "0.0.0.2")  # the last four octets of an IPv6 address


@pytest.mark.parametrize(("name", "params", "clients", "servers", "port", "prefixes"), [
    ("nat44", PORTS | HOSTS, ("198.18.0.2", "198.18.0.17"), ("198.19.1.0", "198.19.1.3"), 7, None),
    ("nat46", {}, ("198.18.0.2", "198.18.0.2"), ("198.19.0.2", "198.19.0.2"), 1, None),
    ("nat64", {}, HOST_2, ("198.19.0.2", "198.19.0.2"), 1, ("2001:2::", "2001:db8:64::")),
    ("nat66", {}, HOST_2, HOST_2, 1, ("2001:2::", "2001:2:0:1::")),
])  # fmt: skip
def test_endpoints_are_first_and_last_addresses(name, params, clients, servers, port, prefixes):
    """ASTF increments the last four octets of addresses only, so IPv6 clients share a prefix."""
    ends = {"clients": clients, "servers": servers, "port": port, "prefixes": prefixes}
    assert astf.find_endpoints(resolve_setup(plugin=name, params=params).technology) == ends


@pytest.mark.parametrize(("name", "tcp", "most", "alpha", "code"), [
    ("dslite-aftr", Tcp(), 10, 1.0, "unsupported-by-tester"),
    ("siit", Tcp(), 10, 1.0, "unsupported-by-tester"),
    ("nat44", Tcp(retransmissions=1), 10, 1.0, "unsupported-by-tester"),
    ("nat44", Tcp(timeout_s=2.0), 10, 1.0, "unsupported-by-tester"),
    ("nat44", Tcp(), 10, 0.5, "unsupported-by-tester"),
    ("nat44", Tcp(), 10, None, "unsupported-by-tester"),
    ("nat44", Tcp(), 60_001, 1.0, "too-many-for-trex"),
])  # fmt: skip
def test_unsupported_astf_connections_are_rejected(name, tcp, most, alpha, code):
    astf.check_connections(make_technology("nat44"), 60_000, Tcp(), 1.0)
    with expect_error(code):
        astf.check_connections(make_technology(name), most, tcp, alpha)


def test_each_step_waits_for_previous_step():
    schedule = astf.Schedule(Connections(1000, 500.0, wait_s=1.0, tcp=Tcp()))
    assert schedule.duration_s == 2.0
    for step, next_step in (("open", "ask"), ("ask", "end")):
        end_s = schedule.begin_s(step) + schedule.duration_s + schedule.wait_s
        assert schedule.begin_s(next_step) > end_s
    # the opening timeout of the last connection, and the time to count sessions
    timeout_s = schedule.duration_s + astf.OPENING_TIMEOUT_S
    assert schedule.begin_s("ask") - timeout_s == astf._TIMER_DELAY_S + astf._COUNTING_S


def test_server_of_the_lab_supports_tcp_up_to_a_limit():
    def resolve(count):
        return resolve_setup(plugin="nat44", tester="trex", tester_options={"lab": "true"},
                             benchmarks=("tcp-rate",), procedure={"connections.count": count})  # fmt: skip

    setup = resolve("1000")
    check_benchmark_settings(setup)
    check_capabilities(setup)
    with expect_error("too-many-for-trex"):
        check_benchmark_settings(resolve("100000"))


LINUX = {"interfaces": ("eth1", "eth2")}


@pytest.mark.parametrize("options", [
    {"lab": True}, {"start": "always", **LINUX}, {"start": "auto", **LINUX},
    {"start": "never"}, {"start": "always", "interfaces": ("03:00.0", "03:00.1")},
    {"start": "always", **LINUX, "ports": (1, 0)},
])  # fmt: skip
def test_only_a_server_of_the_lab_is_restarted_for_tcp(options):
    kind, is_supported = Trex(options), "lab" in options
    tester = kind.make(make_technology("nat44").links, None, loopback=False, delays=False, seed=1)
    assert ("tcp" in tester.capabilities) == is_supported
    with nullcontext() if is_supported else expect_error("unsupported-by-tester"):
        (warning,) = kind.check_tcp_connections(make_technology("nat44"), 10, Tcp(), 1.0)
        assert "SYN" in warning


def test_deadlines_of_requests_are_longer_than_their_waits():
    deadlines = {}

    def ask(op, deadline_s=DEADLINE_S, **arguments):
        deadlines[op] = deadline_s
        return make_step(make_counters({}, {}))

    attachment = SimpleNamespace(ask=ask, check_server=None, cpu_limit=100.0)
    connections = Connections(10, 10.0, tcp=Tcp())
    trial = astf.TcpTrial(attachment, make_technology("nat44"), connections, Tcp())
    trial.establish()
    trial.disconnect()
    assert deadlines["stop_connections"] > MAX_START_S
    assert deadlines["start_connections"] > 2 * MAX_START_S


def test_astf_programs_open_request_and_close():
    worker, client, server = AstfWorker(), Mock(), Mock()
    worker.api = Mock(**{"ASTFProgram.side_effect": [client, server, Mock(), Mock()]})
    global_info, client_info = worker.api.ASTFGlobalInfo(), worker.api.ASTFGlobalInfoPerTemplate()
    client_info.ipv6 = SimpleNamespace()
    connections = Connections(100, 50.0, wait_s=1.0, tcp=Tcp())
    ends = [astf.find_endpoints(make_technology(name)) for name in ("nat44", "nat64")]
    profiles = [astf.make_profile(one, connections, Tcp()) for one in ends]
    worker._make_profile(profiles[0])
    assert client.mock_calls == [call.connect(), call.delay(6_750_000), call.send(REQUEST),
                                 call.recv(OBJECT), call.delay(5_750_000), call.reset()]  # fmt: skip
    answered = [call.accept(), call.recv(len(REQUEST)), call.send(build_response(64))]
    assert server.mock_calls == [*answered, call.wait_for_peer_close()]
    template = worker.api.ASTFTCPClientTemplate.call_args.kwargs
    assert (template["cps"], template["limit"], template["port"]) == (50.0, 100, 1)
    # TRex ignores all settings after an invalid one
    timers = global_info.tcp
    assert 2 <= timers.keepinit < timers.keepidle == timers.keepintvl <= 65_533
    assert base64.b64decode(profiles[0]["request"]) == REQUEST
    assert not vars(client_info.ipv6)
    worker._make_profile(profiles[1])
    prefixes = {"src_msb": "2001:2::", "dst_msb": "2001:db8:64::"}
    assert vars(client_info.ipv6) == {"enable": 1, **prefixes}


class CountingClient(Mock):
    """Client whose connections open after the third reading; ignores a stop before the start."""

    STATE_TX = "transmitting"
    reads = stopped = 0
    state = "idle"

    def wait_for_profile_state(self, profile, state, timeout):
        assert (profile, timeout > 0) == ("_", True)
        self.state = state

    def get_traffic_stats(self):
        self.reads += 1
        opened = 5 if self.reads > 3 else 0
        counters = {"tcps_connattempt": opened, "tcps_connects": opened}
        return {"client": counters, "server": {"tcps_connects": opened}}

    def get_stats(self, ports):
        total = {"cpu_util_raw": 12.5, "rx_cpu_util": 0.0, "queue_full": 0}
        zeros = dict.fromkeys(("opackets", "ipackets", "oerrors", "ierrors"), 0)
        return {"global": total, **dict.fromkeys(ports, zeros)}

    def stop(self):
        self.stopped += self.state == self.STATE_TX


@pytest.fixture
def worker(monkeypatch):
    worker = AstfWorker()
    worker.client, worker.ports = CountingClient(), [0, 1]
    monkeypatch.setattr(worker, "_make_profile", lambda profile: profile)
    return worker


def test_worker_polls_until_all_connections_are_open(worker):
    worker.start_connections({"a": "profile"})
    all_open = {side: {"opened": 5} for side in ("client", "server")}
    stats = worker.watch("attempts", 1, 5, 0.0, 0.1, 5.0, all_open)
    units = [reading.sent[0] for reading in stats.counter_readings]
    assert (units[0], units[-1]) == (0, 5)
    assert stats.counters["server"].record == {"tcps_connects": 5}
    assert 0 <= stats.began_ago_s < 5
    worker.stop_connections()
    worker.stop_connections()
    assert worker.client.stopped == 1


def test_watch_ends_at_its_time_limit(worker):
    unreachable = {"client": {"opened": 6}}
    assert worker.watch("attempts", 1, 6, 0.0, 0.0, 0.0, unreachable).initial_count == 0


def test_missing_connection_attempts_are_an_error(worker, monkeypatch):
    worker.client.reads = -1_000_000
    monkeypatch.setattr("v6t.drivers.trex.client.astf.MAX_START_S", 0.01)
    with pytest.raises(RequestError, match="opened no connection"):
        worker.start_connections({})
