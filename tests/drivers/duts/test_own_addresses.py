"""Addresses that a driver chooses for its own parts: none that the test uses."""

from __future__ import annotations

import pytest
from v6t.tests.core.support import v6t

SIIT = ("--plugin", "siit", "--set", "prefix=2001:db8:64::/96", "--set")


def plan(driver, *words):
    return v6t("dut", "plan", "--driver", driver, *words)


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        ("ipv4_hosts={first: 198.19.0.2}", "192.168.255.9"),
        ("ipv4_hosts={first: 192.168.255.9}", "10.255.255.9"),
        ("ipv6_hosts={first: 192.168.255.9}", "10.255.255.9"),
    ],
)
def test_tayga_gets_an_ipv4_address_that_no_host_has(hosts, own):
    done = plan("tayga", *SIIT, hosts)
    assert f"\nipv4-addr {own}\n" in done.out


def test_tayga_gets_an_ipv6_address_outside_the_links():
    link = ("--set", "dut_left_ipv6=fd76:3674::1/64", "--set", "tester_left_ipv6=fd76:3674::2")
    done = plan("tayga-nftables", "--plugin", "nat64", *link)
    assert "\nipv6-addr fd76:3675::9\n" in done.out


def test_given_address_of_a_host_is_refused():
    done = plan("tayga", *SIIT, "ipv4_hosts={first: 10.9.9.9}", "--set-dut", "ipv4_addr=10.9.9.9")
    assert done.status == 2


@pytest.mark.parametrize(
    "given",
    [
        ("responder_ipv4=192.168.255.2",),
        ("pool_first=192.168.255.2",),
        ("dut_right_ipv4=192.168.255.1/30", "tester_right_ipv4=192.168.255.2"),
    ],
)
def test_inner_network_that_the_test_uses_is_refused(given):
    words = [word for text in given for word in ("--set", text)]
    done = plan("tayga-nftables", "--plugin", "nat64", *words)
    assert done.status == 2
    assert "10.255.255.0/" in done.err


def test_address_that_a_chain_chooses_is_refused_as_a_hosts():
    done = plan("chain", "--plugin", "dslite-aftr", "--set", "responder_ipv4=192.168.20.2")
    assert done.status == 2


@pytest.mark.parametrize(
    ("driver", "plugin"), [("vpp", "mape-br"), ("vpp", "lwaftr"), ("command", "mape-br")]
)
def test_tunnel_address_outside_the_link_is_a_host_address_of_the_device(driver, plugin):
    done = plan(driver, "--plugin", plugin, "--set", "br_address=2404:9200:225:100::64")
    assert "2404:9200:225:100::64/128" in done.out
    assert "2001:db8:6::1/64" in done.out


def test_snabb_has_its_link_address_beside_the_tunnel_address():
    far = "br_address=2404:9200:225:100::64"
    done = plan("snabb-lwaftr", "--plugin", "lwaftr", "--set", far, "--set", "softwires=1")
    assert "internal-interface { ip 2001:db8:6::1;" in done.out
    assert "br-address 2404:9200:225:100::64;" in done.out
