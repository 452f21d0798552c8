"""Intents as plugins make them, and for technologies whose plugins drivers do not wait for."""

from __future__ import annotations

from dataclasses import replace

from v6t.plugins.base import DutIntent, Links
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mape_params import MapEParams
from v6t.plugins.router.plugins import Ipv4Router, Ipv6Router
from v6t.plugins.siit.siit import Siit

LINKS = Links()
LEFT6 = {
    "addresses": ["2001:2::1/64"],
    "neighbours": {"2001:2::2": LINKS.left.tester_mac},
    "routes": {},
}
RIGHT4 = {
    "addresses": ["198.19.0.1/24"],
    "neighbours": {"198.19.0.2": LINKS.right.tester_mac},
    "routes": {},
}


def paper_mape(psid_offset: int = 0) -> DutIntent:
    """The Mapperf paper's border relay (rule of its Table 2)."""
    return MapEBorderRelay(MapEParams(psid_offset=psid_offset)).dut_intent()


def mapt(rule: str = "2001:db8:ce::/48", dmr: str = "64:ff9b::/64") -> DutIntent:
    mape = paper_mape()
    settings = {**mape.settings, "dmr": dmr, "lowest_ipv6_mtu": 1280}
    settings["rules"] = [{**settings["rules"][0], "ipv6_prefix": rule}]
    del settings["br_address"]
    return replace(
        mape,
        technology="mapt-br",
        settings=settings,
        left={**mape.left, "routes": {rule: "2001:db8:6::2"}},
    )


def lwaftr(softwires: int = 4) -> DutIntent:
    mape = paper_mape()
    table = {
        "softwires": softwires,
        "ipv4_pool": "192.0.2.80/31",
        "b4_prefix": "2001:db8:b400::/40",
        "psid_len": 1,
        "psid_offset": 0,
    }
    return replace(
        mape,
        technology="lwaftr",
        settings={
            "family": "binding-table",
            "table": table,
            "br_address": "2001:db8:6::1",
            "hairpinning": False,
            "mtu": 1500,
        },
        left={**mape.left, "routes": {"2001:db8:b400::/40": "2001:db8:6::2"}},
    )


def nat44(sessions: int = 1000) -> DutIntent:
    return DutIntent(
        technology="nat44",
        settings={
            "family": "nat",
            "inside4": ["198.18.0.0/24"],
            "pool4": ["198.19.0.1"],
            "ports": [1024, 65535],
            "sessions": sessions,
        },
        links=LINKS,
        left={
            "addresses": ["198.18.0.1/24"],
            "neighbours": {"198.18.0.2": LINKS.left.tester_mac},
            "routes": {},
        },
        right=RIGHT4,
    )


def nat64(prefix: str = "2001:db8:64::/96") -> DutIntent:
    return DutIntent(
        technology="nat64",
        settings={
            "family": "nat64",
            "prefix": prefix,
            "pool4": ["198.19.0.1"],
            "ports": [1024, 65535],
            "sessions": 1000,
            "clients": 1,
        },
        links=LINKS,
        left=LEFT6,
        right=RIGHT4,
    )


def dslite() -> DutIntent:
    mape = paper_mape()
    return DutIntent(
        technology="dslite-aftr",
        settings={
            "family": "ds-lite",
            "aftr": "2001:db8:6::1",
            "b4": ["2001:db8:6::2", 1],
            "inside4": ["10.0.0.0/24"],
            "pool4": ["203.0.113.8"],
            "ports": [1024, 65535],
            "mtu": 1500,
        },
        links=LINKS,
        left={**mape.left, "routes": {}},
        right=RIGHT4,
    )


ROUTER4 = Ipv4Router().dut_intent()
ROUTER6 = Ipv6Router().dut_intent()
SIIT = Siit().dut_intent()
