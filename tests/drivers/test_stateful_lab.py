"""RFC 9693 with real frames: the embedded tester against the kernel's NAT and TAYGA in the lab."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import Bench, compile_point
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity
from v6t.procedures.stateful.phases import PhaseOneSettings, judge_connections
from v6t.procedures.stateful.tcp_capacity import TcpCapacitySpec, measure_tcp_capacity
from v6t.tests.expect import expect_error
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Connections
from v6t.trials.tcp import Tcp
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

LAB, WHY = available()
pytestmark = [pytest.mark.lab, pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")]
COUNT = 1000
TRIES = 6
"""A busy machine may spoil some trials."""


def needed(driver):
    """Skip where a Debian package is missing."""
    for program, package in make_driver(driver, {}).programs.items():
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            pytest.skip(f"needs the Debian package {package}")


class Standing:
    """A device in the lab, the tester around it, streams loaded."""

    def __init__(self, plugin, size=None, initiator=None, **params):
        sizes = () if size is None else (size,)
        asked = Flags(plugin=plugin, params=params, frame_sizes=sizes, initiator=initiator)
        run = resolve(flags=asked)
        needed(run.dut.driver)
        self.run = run
        self.plugin = bind(run).technology
        self.sizes = self.plugin.make_frame_pair(run.frame_sizes[0])
        self.bench = Bench(bind(run))
        self.bench.load(compile_point(self.plugin, self.sizes, run.seed))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bench.close()

    def trial(self, connections, mode="bidirectional", **changes):
        given = {"rate_fps": 2000.0, "duration_s": 1.0, "residual_wait_s": 0.3, "pause_s": 0.0}
        return Trial(
            "test", "k", self.sizes.ipv6, self.sizes.ipv4, mode, **{**given, **changes},
            connections=connections,
        )  # fmt: skip

    def established(self, **changes):
        """A validated phase 1 that passed."""
        asked = Connections(COUNT, 3000.0, wait_s=0.3, alpha=1.0, purpose="establish")
        trial = self.trial(replace(asked, **changes))
        for _ in range(TRIES):
            result = self.bench.measure(trial)
            verdict = judge_connections(trial, result, sending_time_tolerance=1.5)
            if verdict.passed:
                return result
        pytest.fail(f"no phase 1 passed: {verdict.reasons}")

    def passed(self, connections, **changes):
        """A trial of phase 2 without loss."""
        trial = self.trial(connections, **changes)
        for _ in range(TRIES):
            result = self.bench.measure(trial)
            if result.connections.is_complete:
                verdict = assess_trial(trial, result, sending_time_tolerance=1.5)
                if verdict.passed:
                    return result
        pytest.fail("no trial of phase 2 passed")

    def inside(self, command):
        """A command in the device's namespace."""
        pid = self.bench.open().namespaces()["device"]
        done = subprocess.run(
            ["nsenter", "-t", str(pid), "-n", "sh", "-ec", command],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout


@pytest.mark.parametrize(
    ("plugin", "initiator"), [("nat44", "left"), ("nat44", "right"), ("nat64", "left")]
)
def test_every_connection_is_counted_validated_used_and_torn_down(plugin, initiator):
    with Standing(plugin, initiator=initiator) as lab:
        found = lab.established().connections
        assert found.learned == found.sessions == found.validated == COUNT
        assert (found.sessions_before, found.duplicate_tuples, found.surplus) == (0, 0, 0)
        assert found.inside_endpoints is not None
        assert found.outside_endpoints >= found.inside_endpoints * 0.9
        asked = Connections(COUNT, 3000.0, wait_s=0.3, gap_s=0.1, reuse=True)
        for mode in ("bidirectional", "forward", "reverse"):
            result = lab.passed(asked, mode=mode)
            used = result.connections
            assert used.sessions == COUNT
            for counted in result.directions.values():
                assert counted.checked == counted.matched > 900
                assert counted.count_frames("received") == 2000
            assert used.age_s >= used.gap_s >= 0.1
        # those of the last trial serve again: nothing was made anew
        assert lab.bench.measure(lab.trial(asked)).connections.reused
        torn = lab.bench.measure(lab.trial(replace(asked, purpose="tear-down", reuse=False)))
        assert torn.connections.flush_s > 0
        assert torn.connections.idle_flush_s > 0
        state = lab.bench.open().device_state()
        assert state.sessions() == 0


def test_the_responder_reads_its_table_in_every_order():
    with Standing("nat44") as lab:
        for reading, entries in (("linear", 500), ("pseudorandom", 500), ("fixed", 1)):
            asked = Connections(
                COUNT, 3000.0, wait_s=0.3, entries=entries, reading=reading, reuse=True
            )
            counted = lab.passed(asked, mode="reverse").directions["reverse"]
            assert counted.matched == counted.checked > 900


def test_addresses_and_ports_together_and_delays_of_both_directions():
    given = {"initiator_count": "16", "responder_count": "4", "enumerate_ips": "3",
             "initiator_ports.min": "1024", "initiator_ports.max": "2047",
             "responder_ports.min": "1", "responder_ports.max": "4", "n": "10", "m": "9",
             "responder_ipv4": "198.19.1.0"}  # fmt: skip
    with Standing("nat44", 84, **given) as lab:
        found = lab.established().connections
        assert found.sessions == COUNT
        asked = Connections(COUNT, 3000.0, wait_s=0.3, reuse=True)
        result = lab.passed(asked, delays=DelayRequest(tags=100))
        for counted in result.directions.values():
            assert counted.classes["bg"].received == 200
            assert sum(d.frames for d in counted.delays.values()) == 100


def test_the_capacity_of_a_limited_table_is_found_exactly():
    """The limit is a rule of the firewall's: that of the kernel's table is the whole host's."""
    limit = 501
    with Standing("nat44") as lab:
        lab.bench.open()
        lab.inside(
            "nft add table ip small; "
            "nft 'add chain ip small forward { type filter hook forward priority 0; }'; "
            f"nft add rule ip small forward ct state new ct count over {limit} counter drop"
        )
        conditions = Conditions(
            lab.sizes.ipv6, lab.sizes.ipv4, "forward", residual_wait_s=0.2, pause_s=0.0,
            loss_tolerance=0.0, sending_time_tolerance=1.5, invalid_retries=TRIES,
        )  # fmt: skip
        result = measure_capacity(
            CapacitySpec(
                conditions, first=400, most=600, upper_bound_cps=5000.0,
                upper_bound_reason="given", resolution_cps=2500.0, beta=0.5,
            ),
            lab.bench.measure,
        )  # fmt: skip
        assert result.capacity == limit
        assert result.first_failed == limit + 1


def test_the_tcp_capacity_of_a_limited_table_is_found_exactly():
    """As above; what is beyond the limit is refused by resets."""
    limit = 401
    with Standing("nat44") as lab:
        lab.bench.open()
        lab.inside(
            "nft add table ip small; "
            "nft 'add chain ip small forward { type filter hook forward priority 0; }'; "
            f"nft add rule ip small forward ct state new ct count over {limit} counter "
            "reject with tcp reset"
        )
        conditions = Conditions(
            lab.sizes.ipv6, lab.sizes.ipv4, "forward", residual_wait_s=0.2, pause_s=0.0,
            loss_tolerance=0.0, sending_time_tolerance=1.5, invalid_retries=TRIES,
        )  # fmt: skip
        tcp = Tcp(timeout_s=0.5)
        search = CapacitySpec(
            conditions, first=390, most=420, upper_bound_cps=1500.0, upper_bound_reason="given",
            resolution_cps=750.0, beta=0.5, benchmark="tcp-capacity", fixed=True,
            phase_one=PhaseOneSettings(wait_s=tcp.max_wait_s, tcp=tcp),
        )  # fmt: skip
        result = measure_tcp_capacity(TcpCapacitySpec(search), lab.bench.measure)
        assert (result.search.capacity, result.search.first_failed) == (limit, limit + 1)
        asked = search.phase_one.connections(420, 1500.0)
        found = lab.bench.measure(lab.trial(replace(asked, purpose="establish"))).connections.tcp
        assert (found.established, found.answered) == (limit, limit)
        assert found.reset_refused == 420 - limit


def test_a_connection_that_is_none_of_ours_ends_the_run_with_both_numbers():
    with Standing("nat44") as lab:
        lab.established()
        state = lab.bench.open().device_state()
        told = state.sessions

        class Another:
            timeout_s = state.timeout_s
            by_endpoint = state.by_endpoint
            flush = staticmethod(state.flush)
            sessions = staticmethod(lambda: told() + (7 if told() else 0))

        lab.bench._two_phase.__self__._device = Another()
        asked = Connections(COUNT, 3000.0, wait_s=0.3, alpha=1.0)
        with expect_error("phase-one-lost"):
            lab.passed(asked)


def test_the_devices_timeout_is_checked_before_phase_one():
    run = resolve(flags=Flags(plugin="nat44", dut_params={"timeout_s": "40"}))
    needed(run.dut.driver)
    with expect_error("idle-timeout", path=["procedure"]):
        resolve(
            flags=Flags(
                plugin="nat44",
                dut_params={"timeout_s": "40"},
                procedure_texts={"connections.rate_cps": "1000"},
            )
        )


def test_a_loopback_learns_and_replays_its_own_frames():
    run = resolve(flags=Flags(plugin="nat64"))
    plugin = bind(run).technology
    sizes = plugin.make_frame_pair(84)
    bench = Bench(bind(run), loopback=True)
    bench.load(compile_point(plugin, sizes, 1))
    trial = Trial(
        "test", "k", sizes.ipv6, sizes.ipv4, "bidirectional", 2000.0, 0.5, 0.2, 0.0,
        connections=Connections(1000, 5000.0, wait_s=0.2),
    )  # fmt: skip
    try:
        for _ in range(TRIES):
            result = bench.measure(trial)
            passed = assess_trial(trial, result, sending_time_tolerance=1.5).passed
            if result.connections.is_complete and passed:
                break
        assert result.connections.learned == 1000
        assert result.connections.sessions is None
        for counted in result.directions.values():
            assert counted.count_frames("received") == 1000
    finally:
        bench.close()
