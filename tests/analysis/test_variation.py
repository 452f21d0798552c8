"""Descriptions of varying fields, which must match those of published results."""

import pytest
from v6t.analysis import variation

PORTS = ("fw_sport", "fw_dport", "rv_sport", "rv_dport")
FIXED, INC, RANDOM = ({"policy": policy} for policy in ("fixed", "inc", "random"))


def make_params(ports, left_hosts, right_hosts):
    return {**dict.fromkeys(PORTS, ports), "left_hosts": left_hosts, "right_hosts": right_hosts}


@pytest.mark.parametrize(("params", "words"), [
    (make_params(FIXED, RANDOM, RANDOM), "random IP fixed port"),
    (make_params(RANDOM, FIXED, FIXED), "fixed IP random port"),
    (make_params(RANDOM, RANDOM, FIXED), None),
    ({**make_params(RANDOM, {}, {}), "fw_sport": FIXED}, None),
    (make_params(INC, FIXED, FIXED), None),
    (make_params(FIXED, INC, INC), None),
    ({}, None),
    # a range without an end is one host, regardless of its policy
    (make_params(FIXED, {"last": None, **RANDOM}, FIXED), "fixed IP fixed port"),
    (make_params(FIXED, {"last": "::9", **RANDOM}, RANDOM), "random IP fixed port"),
])  # fmt: skip
def test_equal_variation_of_both_sides_is_described(params, words):
    assert variation.describe_variation(params) == words


def test_connection_tuples_are_described():
    ports = {
        "initiator_ports": {"min": 1024, "max": 41023},
        "responder_ports": {"min": 1, "max": 100},
    }
    hosts = {"initiator_count": 4000, "responder_count": 1000}
    assert variation.describe_tuples({**ports, **hosts, "enumerate_ports": 3}) == "ports 40000x100"
    assert variation.describe_tuples({**ports, **hosts, "enumerate_ips": 3}) == "IPs 4000x1000"
    both = {**ports, **hosts, "enumerate_ports": 1, "enumerate_ips": 1}
    assert variation.describe_tuples(both) == "IPs 4000x1000 x ports 40000x100"
    assert variation.describe_tuples({**ports, **hosts, "enumerate_ports": 0}) == ""


def test_equal_numbers_of_hosts_are_counted():
    two = {"min": 2, "max": 65534}
    assert variation.count_hosts({"left_hosts": two, "right_hosts": two}) == 65533
    assert variation.count_hosts({"left_hosts": two, "right_hosts": {"min": 0, "max": 9}}) is None
    assert variation.count_hosts({"left_hosts": {"policy": "fixed"}}) is None


@pytest.mark.parametrize(("params", "random"), [
    ({"enumerate_ports": 3}, True), ({"enumerate_ports": 2}, False),
    ({"enumerate_ports": 0}, False), (dict.fromkeys(PORTS, RANDOM), True),
    ({**dict.fromkeys(PORTS, RANDOM), "rv_dport": INC}, False), ({}, None),
])  # fmt: skip
def test_pseudorandom_ports_are_recognized(params, random):
    assert variation.has_random_ports(params) is random
