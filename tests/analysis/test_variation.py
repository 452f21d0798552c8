"""Descriptions of what varies from frame to frame, by which published results are matched."""

import pytest
from v6t.analysis.variation import (
    count_hosts,
    describe_tuples,
    describe_variation,
    has_random_ports,
)

PORTS = ("fw_sport", "fw_dport", "rv_sport", "rv_dport")


def params(ports, *hosts, names=("left_hosts", "right_hosts")):
    return {**{key: {"policy": ports} for key in PORTS}, **dict(zip(names, hosts, strict=True))}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (params("fixed", {"policy": "random"}, {"policy": "random"}), "random IP fixed port"),
        (params("random", {"policy": "fixed"}, {"policy": "fixed"}), "fixed IP random port"),
        (params("random", {"policy": "random"}, {"policy": "fixed"}), None),
        ({**params("random", {}, {}), "fw_sport": {"policy": "fixed"}}, None),
        (params("inc", {"policy": "fixed"}, {"policy": "fixed"}), None),
        (params("fixed", {"policy": "inc"}, {"policy": "inc"}), None),
        ({}, None),
        # a range without an end is one host, regardless of its policy
        (params("fixed", {"last": None, "policy": "random"}, {"policy": "fixed"}),
         "fixed IP fixed port"),
        (params("fixed", {"last": "::9", "policy": "random"}, {"policy": "random"}),
         "random IP fixed port"),
    ],
)  # fmt: skip
def test_variation_is_described_where_both_sides_are_alike(given, words):
    assert describe_variation(given) == words


def test_tuples_of_connections_are_described():
    ports = {
        "initiator_ports": {"min": 1024, "max": 41023},
        "responder_ports": {"min": 1, "max": 100},
    }
    hosts = {"initiator_count": 4000, "responder_count": 1000}
    assert describe_tuples({**ports, **hosts, "enumerate_ports": 3}) == "ports 40000x100"
    assert describe_tuples({**ports, **hosts, "enumerate_ips": 3}) == "IPs 4000x1000"
    both = {**ports, **hosts, "enumerate_ports": 1, "enumerate_ips": 1}
    assert describe_tuples(both) == "IPs 4000x1000 x ports 40000x100"
    assert describe_tuples({**ports, **hosts, "enumerate_ports": 0}) == ""


def test_hosts_where_both_sides_have_as_many():
    two = {"min": 2, "max": 65534}
    assert count_hosts({"left_hosts": two, "right_hosts": two}) == 65533
    assert count_hosts({"left_hosts": two, "right_hosts": {"min": 0, "max": 9}}) is None
    assert count_hosts({"left_hosts": {"policy": "fixed"}}) is None


@pytest.mark.parametrize(
    ("given", "random"),
    [
        ({"enumerate_ports": 3}, True),
        ({"enumerate_ports": 2}, False),
        ({"enumerate_ports": 0}, False),
        ({key: {"policy": "random"} for key in PORTS}, True),
        ({**{key: {"policy": "random"} for key in PORTS}, "rv_dport": {"policy": "inc"}}, False),
        ({}, None),
    ],
)
def test_pseudorandom_ports_are_recognized(given, random):
    assert has_random_ports(given) is random
