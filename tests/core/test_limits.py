"""Limits of the device, compared with the connections that benchmarks open."""

from dataclasses import replace

import pytest
from v6t.base.errors import UsageError
from v6t.core.runs.preflight import with_preflight_setup
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import DeviceRequirements
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve
from v6t.trials.trial import Trial

TWO_CLIENTS = {
    "initiator_count": 2, "responder_count": 2, "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 2023}, "responder_ports": {"min": 1, "max": 1},
}  # fmt: skip
PROCEDURE = {"connections.count": "4000", "capacity.first": "1000", "tcp_capacity.first": "1000"}
SLOW = {"connections.rate_cps": "1000"}
FILLING = ("throughput", "frame-loss", "connection-rate", "teardown", "tcp-rate")
SEARCHING = ("capacity", "tcp-capacity")


def resolve_run(plugin, *names, procedure=None, dut=None, **params):
    params = {k: str(v) for k, v in {**TWO_CLIENTS, **params}.items()}
    procedure = {**PROCEDURE, **(procedure or {})}
    return resolve(plugin=plugin, params=params, dut=dut, benchmarks=names, procedure=procedure)


def expect_limit(*run, **settings):
    """Expect that a run is rejected; return the parameters that its error proposes."""
    with pytest.raises(UsageError) as caught:
        resolve_run(*run, **settings)
    return caught.value.params


@pytest.mark.parametrize("plugin", ["nat44", "nat64", "dslite-aftr"])
@pytest.mark.parametrize("benchmark", [*FILLING, *SEARCHING])
def test_port_block_below_the_ports_of_a_client_is_rejected(plugin, benchmark):
    dut = "tayga-nftables" if plugin == "nat64" else None
    assert expect_limit(plugin, benchmark, dut=dut, port_block=999) == {"port_block": 1000}


@pytest.mark.parametrize("params", [
    {"port_block": 1000},
    {"port_block": 1, "initiator_count": 40, "responder_count": 100, "enumerate_ports": 0},
])  # fmt: skip
def test_port_block_for_all_ports_of_a_client_is_accepted(params):
    resolve_run("nat44", "connection-rate", **params)


@pytest.mark.parametrize(
    ("benchmark", "least"), [*((b, 4000) for b in FILLING), *((b, 1000) for b in SEARCHING)]
)
def test_session_limit_below_the_connections_or_the_first_table_is_rejected(benchmark, least):
    proposal = expect_limit("nat44", benchmark, dut="vpp", session_limit=least - 1)
    assert proposal == {"session_limit": least}
    resolve_run("nat44", benchmark, dut="vpp", **proposal)


def test_preflight_respects_session_limit():
    nat, opened = Nat44(Nat44Params(session_limit=20)), []

    def measure(trial):
        opened.append(trial.connections.count)
        raise InterruptedError

    trial = Trial("preflight", "preflight", 84, 64, "forward", 1000.0, 0.1)
    with pytest.raises(InterruptedError):
        with_preflight_setup(measure, nat)(trial)
    assert opened == [20]


@pytest.mark.parametrize("plugin", ["nat44", "nat64", "nat46", "nat66", "dslite-aftr"])
def test_pool_below_the_source_ports_of_all_clients_is_rejected(plugin):
    ports = {"min": 2000, "max": 3998}
    expect_limit(plugin, "connection-rate", pool_ports=ports)
    many = {"enumerate_ports": 0, "initiator_count": 2000}
    count = {"connections.count": "1000"}
    expect_limit(plugin, "connection-rate", pool_ports=ports, procedure=count, **many)


@pytest.mark.parametrize("driver", ["nftables", "iptables", "openbsd-pf"])
def test_sessions_option_below_the_connections_is_rejected(driver):
    device = make_driver(driver, {"sessions": 999})
    intent = replace(Nat44().make_dut_intent(), requirements=DeviceRequirements(sessions=1000))
    with expect_error("out-of-range") as caught:
        device.plan(intent, device.make_example_facts(intent))
    assert caught.value.dut_params == {"sessions": 1000}


def test_udp_timeout_below_the_trial_is_rejected_without_a_driver(tmp_path):
    testbed = tmp_path / "testbed.yaml"
    testbed.write_text("dut: {driver: reference, options: {hooks: {flush: {command: 'true'}}}}\n")
    settings = {
        **{"testbed": testbed, "plugin": "nat44", "tester": "trex", "benchmarks": ["throughput"]},
        "procedure": {**PROCEDURE, **SLOW},
    }
    resolve(**settings)
    with expect_error("idle-timeout", path=["procedure"], mentions="5 s"):
        resolve(**settings, params={"udp_timeout_s": "5"})


def test_udp_timeout_proposed_by_error_is_accepted():
    proposal = expect_limit("nat44", "throughput", udp_timeout_s=1)
    assert proposal == {"udp_timeout_s": 2}
    resolve_run("nat44", "throughput", **proposal)


def test_udp_timeout_does_not_limit_tcp():
    resolve_run("nat44", "tcp-rate", procedure=SLOW, udp_timeout_s=1)
