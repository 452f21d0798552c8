"""Addresses that a driver chooses for its own parts: none that the test uses."""

from __future__ import annotations

import pytest
from v6t.tests.core.support import v6t

SIIT = ("--plugin", "siit", "--set", "prefix=2001:db8:64::/96", "--set")
NAT64 = ("--plugin", "nat64", "--set")
RELAY = ("--set", "br_address=2404:9200:225:100::64")
HOST = ("2404:9200:225:100::64/128", "2001:db8:6::1/64")
"""The tunnel's address is a host address of the device."""


@pytest.mark.parametrize(
    ("driver", "words", "own"),
    [
        ("tayga", (*SIIT, "ipv4_hosts={first: 198.19.0.2}"), ["\nipv4-addr 192.168.255.9\n"]),
        ("tayga", (*SIIT, "ipv4_hosts={first: 192.168.255.9}"), ["\nipv4-addr 10.255.255.9\n"]),
        ("tayga", (*SIIT, "ipv6_hosts={first: 192.168.255.9}"), ["\nipv4-addr 10.255.255.9\n"]),
        (
            "tayga-nftables",
            (*NAT64, "dut_left_ipv6=fd76:3674::1/64", "--set", "tester_left_ipv6=fd76:3674::2"),
            ["\nipv6-addr fd76:3675::9\n"],
        ),
        ("vpp", ("--plugin", "mape-br", *RELAY), HOST),
        ("vpp", ("--plugin", "lwaftr", *RELAY), HOST),
        ("command", ("--plugin", "mape-br", *RELAY), HOST),
        (
            "snabb-lwaftr",
            ("--plugin", "lwaftr", *RELAY, "--set", "softwires=1"),
            ["internal-interface { ip 2001:db8:6::1;", "br-address 2404:9200:225:100::64;"],
        ),
    ],
)
def test_device_has_addresses_that_the_test_does_not_use(driver, words, own):
    plan = v6t("dut", "plan", "--driver", driver, *words).out
    assert [text for text in own if text not in plan] == []


@pytest.mark.parametrize(
    ("driver", "words", "hint"),
    [
        ("tayga", (*SIIT, "ipv4_hosts={first: 10.9.9.9}", "--set-dut", "ipv4_addr=10.9.9.9"), ""),
        ("chain", ("--plugin", "dslite-aftr", "--set", "responder_ipv4=192.168.20.2"), ""),
        ("tayga-nftables", (*NAT64, "responder_ipv4=192.168.255.2"), "10.255.255.0/"),
        ("tayga-nftables", (*NAT64, "pool_first=192.168.255.2"), "10.255.255.0/"),
        (
            "tayga-nftables",
            (*NAT64, "dut_right_ipv4=192.168.255.1/30", "--set", "tester_right_ipv4=192.168.255.2"),
            "10.255.255.0/",
        ),
    ],
)
def test_address_of_the_test_is_refused_for_the_device(driver, words, hint):
    done = v6t("dut", "plan", "--driver", driver, *words)
    assert done.status == 2
    assert hint in done.err
