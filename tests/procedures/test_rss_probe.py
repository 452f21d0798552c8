"""Which entropy the probe recommends for devices whose hash is known."""

import pytest
from v6t.procedures.rss_probe import CASES, advise


def device(cores, *, ports=False, addresses=False):
    """Throughput by case of a device that spreads flows by these fields."""

    def throughput(case):
        spread = (ports and case in ("ports", "both")) or (
            addresses and case in ("addresses", "both")
        )
        return 1e6 * (cores if spread else 1)

    return throughput


@pytest.mark.parametrize(
    ("fields", "use"),
    [
        ({"ports": True, "addresses": True}, "ports"),
        ({"ports": True}, "ports"),
        ({"addresses": True}, "addresses"),
        ({}, "ports"),
    ],
)
def test_addresses_only_where_ports_do_not_help(fields, use):
    advice = advise({case: device(8, **fields)(case) for case in CASES})
    assert advice.use == use
    assert set(advice.rates_fps) == set(CASES)


def test_a_hash_that_needs_both():
    rates = {"fixed": 1.0, "ports": 2.0, "addresses": 2.0, "both": 8.0}
    assert advise(rates).use == "both"


def test_random_addresses_that_cost_the_tester_are_not_recommended():
    rates = {"fixed": 1.0, "ports": 7.0, "addresses": 6.0, "both": 7.5}
    assert advise(rates).use == "ports"


def test_one_core_is_said():
    assert "one core" in advise({case: device(1, ports=True)(case) for case in CASES}).why
