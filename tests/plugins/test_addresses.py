"""Addresses and ports that no test frame may have (RFC 1812 section 5.2.2, RFC 4291, RFC 6335)."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from v6t.plugins.addresses import refuse_unforwarded
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error, expect_refusal


@pytest.mark.parametrize(
    "value",
    [
        ip_address("224.0.0.5"),
        ip_address("255.255.255.255"),
        ip_address("127.0.0.1"),
        ip_address("0.0.0.0"),  # noqa: S104
        ip_interface("239.1.1.1/24"),
        ip_network("239.1.1.0/24"),
        ip_address("::"),
        ip_address("::1"),
        ip_address("ff02::1"),
        ip_address("240.0.0.1"),
        ip_network("240.0.0.0/5"),
        ip_address("fe80::1"),
    ],
)
def test_what_no_device_forwards(value):
    with expect_error("not-forwarded"):
        refuse_unforwarded(value)


@pytest.mark.parametrize(
    "value",
    [
        *(ip_address(a) for a in ("198.18.0.2", "100.64.0.1", "2001:db8::1")),
        *(
            ip_network(n)
            for n in ("192.0.2.0/24", "64.0.0.0/2", "0.0.0.0/0", "64:ff9b::/96", "::/3")
        ),
        *("255.255.255.255", None, 7, ["127.0.0.1"]),
    ],
)
def test_what_is_let_through(value):
    refuse_unforwarded(value)


@pytest.mark.parametrize(
    ("plugin", "given", "says"),
    [
        ("mape-br", "rule_ipv4=239.1.1.0/24", "multicast"),
        ("mape-br", "rule_ipv4=127.0.0.0/24", "loopback"),
        ("mape-br", "server_ipv4=255.255.255.255", "broadcast"),
        ("lwaftr", "ipv4_pool=224.0.0.0/15", "multicast"),
        ("ipv4-router", "left_ipv4=224.0.0.5", "multicast"),
        ("nat44", "responder_ports.min=0", "at least 1"),
        ("siit", "fw_dport={policy: random, min: 0, max: 100}", "at least 1"),
    ],
)
def test_they_are_refused_with_their_parameter(plugin, given, says):
    done = v6t("compile", "--plugin", plugin, "--set", given, "--count", "8")
    told = expect_refusal(done)
    assert says in told
