"""Addresses, ports and enumeration follow from a number of subscribers."""

from __future__ import annotations

import pytest
from v6t.core.config.plugins import load_plugin
from v6t.plugins import four_tuples
from v6t.tests.expect import expect_error


def params(name="nat44", **given):
    return load_plugin(name).params_model(**given)


@pytest.mark.parametrize("name", ["nat44", "nat64", "dslite-aftr"])
def test_subscribers_share_one_server(name):
    p = params(name, subscribers=1000, connections_per_subscriber=200)
    assert p.combinations == p.subscribed == 200_000
    assert (p.initiator_count, p.initiator_ports.count) == (1000, 200)
    assert (p.responder_count, p.responder_ports.count) == (1, 1)
    assert p.endpoints <= p.pool_count * p.pool_ports.count


@pytest.mark.parametrize(
    ("block", "pool"), [(0, 4), (200, 4), (512, 8), (64512, 1000)], ids="block {}".format
)
def test_pool_has_a_block_for_each_subscriber(block, pool):
    p = params(subscribers=1000, connections_per_subscriber=200, port_block=block)
    assert p.pool_count == pool
    assert str(p.pool_first) == "198.19.1.0"


def test_text_of_the_command_line_is_read():
    p = params(subscribers="8", connections_per_subscriber="16")
    assert p.combinations == 128


def test_connections_that_cannot_be_enumerated_name_the_next_number_that_can():
    p = params(subscribers=24_000, connections_per_subscriber=180)
    with expect_error("beyond-trex") as info:
        p.enumerate_tuples(fields(p), 1)
    assert "181" in info.value.hint
    p = params(subscribers=24_000, connections_per_subscriber=181)
    p.enumerate_tuples(fields(p), 1)


def fields(p):
    return [four_tuples.describe_addresses("initiators", "IP.src", p.initiator, p.initiator_count)]


@pytest.mark.parametrize("servers", [1, 2])
def test_several_clients_need_enumerated_addresses_only(servers):
    few = {"min": 1024, "max": 1031}
    p = params(
        initiator_count=4, responder_count=servers, enumerate_ips=3,
        initiator_ports=few, responder_ports={"min": 1, "max": 1},
    )  # fmt: skip
    assert p.combinations == 4 * servers * 8
