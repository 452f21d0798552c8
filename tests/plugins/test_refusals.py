"""Rejection of impossible parameters of every technology."""

import pytest
from pydantic import ValidationError
from v6t.tests.expect import expect_error

from .support import load_vectors, make_checked

ROWS = [(name, *row) for name, rows in load_vectors("refusals").items() for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_impossible_parameters_are_refused(row):
    technology, params, code, *parameter = row
    with expect_error(code) as refusal:
        make_checked(technology, params)
    if parameter:
        assert f"{parameter[0]}: " in str(refusal.value)


@pytest.mark.parametrize(("name", "value"), [
    ("unknown_name", 1), ("iid_format", "rfc6052"), ("ces", "many"), ("share", 0),
    ("br_address", "192.0.2.1"), ("server_ipv4", "2001:db8::1"), ("tester_left_ipv6", "x"),
    ("fw_sport", "zigzag"), ("fw_dport", {"min": 5, "max": 4}), ("rv_sport", {"min": 1, "max": 65536}),
    ("bg_sport", {"min": -1, "max": 4}), ("bg_dport", {"min": 1, "max": "many"}), ("n", 0), ("m", -1),
    ("negative_percent", 51), ("ttl", 1), ("ttl", 256), ("df", "perhaps"), ("psid", -1),
    ("ea_len", "thirteen"), ("domains", [{"br_address": "2001:db8::1"}]),
])  # fmt: skip
def test_malformed_value_is_refused_with_its_parameter(name, value):
    with pytest.raises(ValidationError) as caught:
        make_checked("mape-br", {name: value})
    assert [error["loc"][0] for error in caught.value.errors()] == [name]
