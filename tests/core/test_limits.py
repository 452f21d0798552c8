"""Limits of the device, compared with the connections that benchmarks open."""

from dataclasses import replace

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.resolve import resolve
from v6t.core.runs.preflight import with_preflight_setup
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import DeviceRequirements
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.tests.expect import expect_error
from v6t.trials.trial import Trial

TWO_CLIENTS = {
    "initiator_count": 2,
    "responder_count": 2,
    "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 2023},
    "responder_ports": {"min": 1, "max": 1},
}
PROCEDURE = {"connections.count": "4000", "capacity.first": "1000", "tcp_capacity.first": "1000"}
FILLING = ("throughput", "frame-loss", "connection-rate", "teardown", "tcp-rate")
SEARCHING = ("capacity", "tcp-capacity")


def run(plugin, *benchmarks, procedure=None, options=None, dut=None, tester="embedded", **params):
    return resolve(
        plugin=plugin,
        params={k: str(v) for k, v in {**TWO_CLIENTS, **params}.items()},
        tester=tester,
        dut=dut,
        dut_params={k: str(v) for k, v in (options or {}).items()},
        benchmarks=benchmarks,
        procedure={**PROCEDURE, **(procedure or {})},
    )


def refusal(*args, **given):
    with pytest.raises(UsageError) as caught:
        run(*args, **given)
    return caught.value


@pytest.mark.parametrize("plugin", ["nat44", "nat64", "dslite-aftr"])
@pytest.mark.parametrize("benchmark", [*FILLING, *SEARCHING])
def test_port_block_below_the_ports_of_a_client_is_refused(plugin, benchmark):
    dut = "tayga-nftables" if plugin == "nat64" else None
    error = refusal(plugin, benchmark, dut=dut, port_block=999)
    assert error.params == {"port_block": 1000}


def test_port_block_of_the_ports_of_a_client_is_accepted():
    run("nat44", "connection-rate", port_block=1000)


def test_port_block_of_clients_with_one_port_is_accepted():
    params = {"initiator_count": 40, "responder_count": 100, "enumerate_ports": 0}
    run("nat44", "connection-rate", **params, port_block=1)


@pytest.mark.parametrize("benchmark", FILLING)
def test_session_limit_below_the_connections_is_refused(benchmark):
    error = refusal("nat44", benchmark, dut="vpp", session_limit=3999)
    assert error.params == {"session_limit": 4000}


@pytest.mark.parametrize("benchmark", SEARCHING)
def test_session_limit_below_the_first_table_of_a_search_is_refused(benchmark):
    error = refusal("nat44", benchmark, dut="vpp", session_limit=999)
    assert error.params == {"session_limit": 1000}
    run("nat44", benchmark, dut="vpp", session_limit=1000)


def test_preflight_respects_session_limit():
    nat = Nat44(Nat44Params(session_limit=20))
    opened = []

    def measure(trial):
        opened.append(trial.connections.count)
        raise InterruptedError

    trial = Trial("preflight", "preflight", 84, 64, "forward", 1000.0, 0.1)
    with pytest.raises(InterruptedError):
        with_preflight_setup(measure, nat)(trial)
    assert opened == [20]


@pytest.mark.parametrize("plugin", ["nat44", "nat64", "nat46", "nat66", "dslite-aftr"])
def test_pool_below_the_source_ports_of_all_clients_is_refused(plugin):
    ports = {"min": 2000, "max": 3998}
    refusal(plugin, "connection-rate", pool_ports=ports)
    refusal(
        plugin,
        "connection-rate",
        enumerate_ports=0,
        initiator_count=2000,
        pool_ports=ports,
        procedure={"connections.count": "1000"},
    )


@pytest.mark.parametrize("driver", ["nftables", "iptables", "openbsd-pf"])
def test_sessions_option_below_the_connections_is_refused(driver):
    device = make_driver(driver, {"sessions": 999})
    told = replace(Nat44().make_dut_intent(), requirements=DeviceRequirements(sessions=1000))
    with expect_error("out-of-range") as caught:
        device.plan(told, device.make_example_facts(told))
    assert caught.value.dut_params == {"sessions": 1000}


def test_udp_timeout_below_the_trial_is_refused_without_a_driver(tmp_path):
    testbed = tmp_path / "testbed.yaml"
    testbed.write_text("dut: {driver: reference, options: {hooks: {flush: {command: 'true'}}}}\n")
    slow = {"connections.rate_cps": "1000"}

    def by_hand(**params):
        return resolve(
            testbed=testbed,
            plugin="nat44",
            params=params,
            tester="trex",
            benchmarks=["throughput"],
            procedure={**PROCEDURE, **slow},
        )

    by_hand()
    with expect_error("idle-timeout", path=["procedure"]) as caught:
        by_hand(udp_timeout_s="5")
    assert "5 s" in caught.value.message


def test_refused_udp_timeout_is_accepted_as_its_hint_sets_it():
    error = refusal("nat44", "throughput", udp_timeout_s=1)
    assert error.params == {"udp_timeout_s": 2}
    run("nat44", "throughput", **error.params)


def test_udp_timeout_does_not_limit_tcp():
    slow = {"connections.rate_cps": "1000"}
    run("nat44", "tcp-rate", procedure=slow, udp_timeout_s=1)
