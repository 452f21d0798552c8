"""Connections of TCP by a real TRex's stateful engine, through nftables' NAT44 in the lab."""

from __future__ import annotations

import subprocess

import pytest
from v6t.core.config.resolve import Flags, resolve_and_bind
from v6t.core.runs.bench import Bench, compile_streams
from v6t.drivers.trex.astf import RETRANSMISSIONS
from v6t.procedures.stateful.capacity import CapacitySpec
from v6t.procedures.stateful.phases import PhaseOneSettings
from v6t.procedures.stateful.tcp_capacity import TcpCapacitySpec, measure_tcp_capacity
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Connections
from v6t.trials.tcp import Tcp
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]

COUNT, RATE_CPS, TRIES = 300, 500.0, 6


class Opened:
    """Trials of one plugin on TRex."""

    def __init__(self, plugin: str, *, loopback: bool = False) -> None:
        flags = Flags(
            plugin=plugin, tester="trex", tester_options={"lab": "true"}, benchmarks=("tcp-rate",),
            procedure_texts={"connections.count": "1000"},
        )  # fmt: skip
        bound = resolve_and_bind(flags=flags)
        bound.tester.prepare()
        self.sizes = bound.technology.make_sizes(bound.settings.frame_sizes[0])
        self.bench = Bench(bound, loopback=loopback)
        self.bench.load(compile_streams(bound, self.sizes))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bench.close()

    def trial(
        self, tcp: Tcp, count: int = COUNT, *, rate_cps: float = RATE_CPS, again: bool = False
    ):
        """What became of so many connections; a busy machine may spoil the first trials."""
        asked = Connections(
            count, rate_cps, wait_s=tcp.max_wait_s, alpha=1.0, purpose="establish", tcp=tcp
        )
        trial = Trial("tcp-rate", "k", 74, 74, "forward", rate_cps, asked.phase_one_s, 0.2, 0.0,
                      connections=asked)  # fmt: skip
        for _ in range(TRIES):
            result = self.bench.measure(trial)
            found = result.connections.tcp
            assert found.classified == found.attempted <= count
            if not result.faults and (again or not found.retransmitted):
                break
        assert not result.faults
        return result, result.connections

    def inside(self, command: str) -> None:
        """Run a command where the device is."""
        pid = self.bench.open().namespaces()["device"]
        subprocess.run(["nsenter", "-t", str(pid), "-n", "sh", "-ec", command], check=True)


@pytest.fixture(scope="module")
def nat():
    with Opened("nat44") as made:
        yield made


@pytest.mark.parametrize("tcp", [Tcp(closing="rst"), Tcp(object_octets=3000, closing="fin")])
def test_trex_opens_tries_and_ends_connections(nat, tcp):
    result, found = nat.trial(tcp)
    counted = found.tcp
    assert counted.established == counted.requested == counted.answered == COUNT
    assert counted.closed == found.sessions == found.learned == found.validated == COUNT
    assert counted.wrong == counted.retransmitted == counted.reset_later == 0
    assert set(result.directions) == {"forward", "reverse"}
    for way in result.directions.values():
        assert way.sending_time_s > 0


def test_streams_go_on_after_connections(nat):
    """The other engine is started again, and has its streams."""
    nat.trial(Tcp(), count=50)
    trial = Trial("throughput", "t", nat.sizes.ipv6, nat.sizes.ipv4, "forward", 500.0, 1.0, 0.4, 0.2,
                  connections=Connections(500, 500.0))  # fmt: skip
    for _ in range(TRIES):
        result = nat.bench.measure(trial)
        if assess_trial(trial, result, sending_time_tolerance=1.5).passed:
            break
    assert result.directions["forward"].count_frames("received") == 500


def test_without_a_device_the_tester_opens_connections_with_itself():
    with Opened("nat44", loopback=True) as made:
        _, found = made.trial(Tcp())
        assert found.tcp.established == found.tcp.answered == found.tcp.closed == COUNT


def test_trex_finds_the_tcp_capacity_of_a_limited_table_exactly(nat):
    """The limit is a rule of the firewall's: that of the kernel's table is the whole host's."""
    limit = 203
    nat.inside(
        "nft add table ip small; "
        "nft 'add chain ip small forward { type filter hook forward priority 0; }'; "
        f"nft add rule ip small forward ct state new ct count over {limit} counter drop"
    )
    try:
        conditions = Conditions(
            nat.sizes.ipv6, nat.sizes.ipv4, "forward", residual_wait_s=0.2, pause_s=0.0,
            loss_tolerance=0.0, sending_time_tolerance=1.5, invalid_retries=TRIES,
        )  # fmt: skip
        search = CapacitySpec(
            conditions, first=199, most=207, upper_bound_cps=RATE_CPS, upper_bound_reason="given",
            resolution_cps=RATE_CPS / 2, beta=0.5, benchmark="tcp-capacity", fixed=True,
            phase_one=PhaseOneSettings(wait_s=Tcp().max_wait_s, tcp=Tcp()),
        )  # fmt: skip
        result = measure_tcp_capacity(TcpCapacitySpec(search), nat.bench.measure)
        assert result.search.capacity == limit
        assert result.search.first_failed == limit + 1
    finally:
        nat.inside("nft delete table ip small")


def test_connections_that_nobody_answers_are_told_from_the_others_to_the_last(nat):
    """Every eighth source port is never answered; TRex takes ports one after the other."""
    nat.inside(
        "nft add table inet v6tdrop; nft add chain inet v6tdrop pre "
        "'{ type filter hook prerouting priority -300; }'; "
        "nft add rule inet v6tdrop pre iifname left tcp sport '&' 7 == 0 drop"
    )
    try:
        _, found = nat.trial(Tcp(), count=320, again=True)
    finally:
        nat.inside("nft delete table inet v6tdrop")
    assert (found.tcp.established, found.tcp.timed_out) == (280, 40)
    assert found.tcp.answered == found.tcp.closed == 280
    assert found.tcp.retransmitted == 40 * RETRANSMISSIONS


@pytest.mark.parametrize("plugin", ["nat64", "nat66", "nat46", "ipv4aas"])
def test_clients_and_servers_may_speak_ipv6(plugin):
    with Opened(plugin) as made:
        _, found = made.trial(Tcp())
    assert found.tcp.established == found.tcp.answered == found.tcp.closed == COUNT
    assert found.tcp.wrong == 0


def test_connections_that_wait_are_left_alone(nat):
    """TRex by itself asks each every five seconds whether it still stands."""
    _, found = nat.trial(Tcp(), count=100, rate_cps=20.0)  # it would do that in 5 s of opening
    assert found.tcp.established == found.tcp.closed == 100
