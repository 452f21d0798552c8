"""Hints of stateful technologies: following each hint gives a valid run."""

import shlex

import pytest
from v6t.tests.core.support import v6t

MOST_HINTS = 4
TECHNOLOGIES = ("nat44", "nat64", "nat66", "dslite-aftr")
REFUSED = [
    ["subscribers=1000"],
    ["connections_per_subscriber=200"],
    ["initiator_count=1000"],
    ["initiator_count=1", "responder_count=1", "enumerate_ips=3"],
    ["initiator_count=8", "enumerate_ips=1"],
    ["enumerate_ports=0", "enumerate_ips=0", "initiator_count=1", "responder_count=1"],
    ["initiator_ports={min: 1000, max: 2000}"],
    ["subscribers=24000", "connections_per_subscriber=180"],
    ["subscribers=30000", "connections_per_subscriber=60"],
    ["enumerate_ports=1", "enumerate_ips=1", "initiator_count=3", "responder_count=3"],
    ["subscribers=1000", "connections_per_subscriber=200", "pool_count=1"],
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", REFUSED, ids=" ".join)
@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_hints_that_are_followed_end_in_a_run(technology, settings):
    command = ["run", technology, "--tester", "sim", "--dry-run"]
    command += [word for setting in settings for word in ("--set", setting)]
    for _ in range(MOST_HINTS):
        done = v6t(*command)
        if done.status == 0:
            return
        assert "try: " in done.err, done.err
        command += shlex.split(done.err.partition("try: ")[2].splitlines()[0])
    pytest.fail(f"hints lead in a circle: {done.err}")


@pytest.mark.slow
def test_hint_for_rule_that_contains_the_default_addresses_ends_in_a_run():
    rule = ("rule_ipv6=2001:db8::/31", "rule_ipv4=198.18.0.0/15", "ea_len=25")
    words = [word for setting in rule for word in ("--set", setting)]
    command = ("run", "mape-br", "--tester", "sim", "--dry-run", *words)
    options = shlex.split(v6t(*command).err.partition("try: ")[2].splitlines()[0])
    assert v6t(*command, *options).status == 0
