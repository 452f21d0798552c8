"""The papers' parameters, transcribed: what was set in which table or figure, with its place.

Facts and figures only. A value that a paper does not give is :data:`NOT_SAID`; a range of ports or
hosts is ``(first, last)``, or ``(None, how many)``. Names are those of v6t's settings, ``frame.ipv4`` and ``frame.ipv6`` those of
the frame sizes on either side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

UNSPECIFIED = "not said"
"""Value of a setting that the paper does not state."""
Values = dict[str, Any]
G = 1e9
FIXED = "fixed"


@dataclass(frozen=True)
class Series:
    """Measurements of one table or figure.

    Attributes:
        source: table, figure or section.
        same: what holds for all of them.
        runs: what changes, in order.
    """

    source: str
    same: Values
    runs: list[Values] = field(default_factory=lambda: [{}])


def make_axis(name: str, *values: Any) -> list[Values]:
    """Return one settings dictionary for each value of a setting."""
    return [{name: value} for value in values]


def combine_axes(*axes: list[Values]) -> list[Values]:
    """List all combinations; the last axis changes fastest."""
    merged: list[Values] = []
    for chosen in product(*axes):
        values: Values = {}
        for part in chosen:
            values |= part
        merged.append(values)
    return merged


CORES = "dut.options.cores"
COUNT = "procedure.connections.count"
IPORTS, RPORTS = "params.initiator_ports", "params.responder_ports"
PORTS_FIXED = dict.fromkeys(
    [f"params.{n}.policy" for n in ("fw_sport", "fw_dport", "rv_sport", "rv_dport")], FIXED
)
RFC4814 = {
    **{f"params.{n}": (1024, 65535) for n in ("fw_sport", "rv_sport")},
    **{f"params.{n}": (1, 49151) for n in ("fw_dport", "rv_dport")},
}
"""RFC 4814 section 4.5, which Lencse (2024) names in section 5.3.1."""


# Lencse and Bazsó (2024): ipv4aas-2024

_DUAL = {
    "frame.ipv4": 64,  # 5.2
    "modes": ["bidirectional"],  # 4.2
    "procedure.loss_tolerance": 0.0001,  # 4.2: 99.99 %
    "procedure.repetitions": 20,
    "procedure.trial_duration_s": 60.0,  # 5.3
    "line_rate_bps": 10 * G,  # 4.1
}
_DUAL_SERVER = {"dut.options.rss": "sdfn", "dut.options.clock_khz": 2_100_000}  # 4.1, 4.2
_TUPLES = {IPORTS: (1, 4000), RPORTS: (1, 1000), COUNT: 4_000_000}  # 5.2
_XLAT = {
    **_DUAL,
    "params.variant": "464xlat",
    "params.prefix": "64:ff9b::/96",  # 5.1
    "params.public_ipv4": "198.19.0.1",  # Figure 11
    "params.public_ports": (1, 65535),
    "dut.options.parts.clat.options.cores": 32,  # 5.2
}
_MAP_T = {
    **_DUAL,
    "params.variant": "map-t",
    "params.rule_ipv6": "2001:db8:ce::/53",  # 6.1
    "params.rule_ipv4": "192.0.2.0/24",
    "params.ea_len": 11,
    "params.psid": 3,
    "params.public_ipv4": "192.0.2.35",
    "params.dmr": "64:ff9b::/96",
    "dut.options.parts.napt.options.cores": 32,  # 3.2.3, limitation 4
    "dut.options.parts.ce.options.cores": 32,
}
_OF_BR = make_axis("dut.options.parts.br.options.cores", 1, 2, 4, 8, 16)
_CONNECTIONS = [
    {COUNT: 1_000_000 << n, RPORTS: (1, 250 << n), IPORTS: (1, 4000)} for n in range(9)
]  # 5.4
_16_BR = {"dut.options.parts.br.options.cores": 16}

DUAL_DUT = {
    "ipv4-forwarding": Series(
        "Table 2", {**_DUAL, **_DUAL_SERVER}, make_axis(CORES, 1, 2, 4, 8, 16)
    ),
    "ipv6-forwarding": Series(
        "Table 3",
        {**{k: v for k, v in _DUAL.items() if k != "frame.ipv4"}, **_DUAL_SERVER, "frame.ipv6": 84},
        make_axis(CORES, 1, 2, 4, 8, 16),
    ),
    "464xlat-cores": Series(
        "Table 4",
        {**_XLAT, **_TUPLES},
        make_axis("dut.options.parts.plat.options.cores", 1, 2, 4, 8, 16),
    ),
    "464xlat-connections": Series(
        "Table 5", {**_XLAT, "dut.options.parts.plat.options.cores": 16}, _CONNECTIONS
    ),
    "map-t-cores": Series("Table 6", {**_MAP_T, **_TUPLES}, _OF_BR),
    "map-t-connections": Series("Table 7", {**_MAP_T, **_16_BR}, _CONNECTIONS),
    "map-t-apart-cores": Series("Table 8", {**_MAP_T, **_TUPLES}, _OF_BR),
    "map-t-apart-connections": Series("Table 9", {**_MAP_T, **_16_BR}, _CONNECTIONS),
}


# Lencse (2024): unbiased-2024

_UNBIASED = {
    "modes": ["bidirectional"],
    "procedure.repetitions": 10,
    "procedure.loss_tolerance": 0.0,
    "procedure.trial_duration_s": 60.0,  # 5.3.2: 60.0006 s for sending
    "line_rate_bps": 10 * G,  # X540
}


def _hosts(first: int, last: int) -> list[Values]:
    """Return the variants of enumeration: nothing, ports, addresses, both."""
    hosts = {"params.left_hosts": (first, last), "params.right_hosts": (first, last)}
    none = {"params.left_hosts.policy": FIXED, "params.right_hosts.policy": FIXED}
    return [{**PORTS_FIXED, **none}, {**RFC4814, **none}, {**PORTS_FIXED, **hosts},
            {**RFC4814, **hosts}]  # fmt: skip


_RSS = make_axis("dut.options.rss", "sd", "sdfn", "sd", "sdfn")  # 6.2
_BSD = {"dut.driver": "openbsd-pf"}
_V4, _V6 = {"frame.ipv4": 64}, {"frame.ipv6": 84}  # 5.3.1
_FOUR_MILLION = {**_UNBIASED, COUNT: 4_000_000}  # 5.4, 7.2
_STATEFUL = [
    {IPORTS: (1, 40_000), RPORTS: (1, 100), "params.enumerate_ips": 0, "params.enumerate_ports": 3},
    {
        "params.initiator_count": 4000,
        "params.responder_count": 1000,
        "params.enumerate_ips": 3,
        "params.enumerate_ports": 0,
    },
    {
        "params.initiator_count": 10,
        "params.responder_count": 10,
        IPORTS: (1, 400),
        RPORTS: (1, 100),
        "params.enumerate_ips": 3,
        "params.enumerate_ports": 3,
    },
]


def _merge_settings(runs: list[Values], *more: Values) -> list[Values]:
    return [{**run, **other} for run, other in zip(runs, more, strict=True)]


_NAT44 = _merge_settings(
    _STATEFUL,
    {},
    {"params.initiator_ipv4": "198.18.0.2", "params.responder_ipv4": "198.19.0.2"},  # 5.4: 2-4001
    {"params.initiator_ipv4": "198.18.0.2", "params.responder_ipv4": "198.19.0.2"},  # 2-11
)
_NAT64_RUNS = _merge_settings(
    _STATEFUL,
    {},
    {"params.initiator_ipv6": "2001:2::"},  # 7.2: 0-3999
    {"params.initiator_ipv6": "2001:2::"},  # 0-9
)
_NAT64 = {**_FOUR_MILLION, "params.prefix": "64:ff9b::/96", "frame.ipv6": 84}

PSEUDORANDOM = {
    "self-test-ipv4": Series(
        "Tables 2 and 4",
        {**_UNBIASED, **_V4, "dut.driver": "cable"},
        combine_axes([{}, {}], _hosts(2, 65534)),
    ),
    "self-test-ipv6": Series(
        "Tables 3 and 5",
        {**_UNBIASED, **_V6, "dut.driver": "cable"},
        combine_axes([{}, {}], _hosts(0, 65535)),
    ),
    "self-test-connections": Series("Table 6", {**_FOUR_MILLION, "dut.driver": "cable"}, _NAT44),
    "self-test-forward": Series(
        "Table 6, last column",
        {**_UNBIASED, **PORTS_FIXED, "modes": ["forward"], "dut.driver": "cable"},
    ),
    "ipv4-linux": Series(
        "Table 7",
        {**_UNBIASED, **_V4, "dut.options.clock_khz": 3_200_000},
        _merge_settings(_hosts(2, 1001), *_RSS),
    ),
    "ipv4-linux-100": Series(
        "sect. 6.2",
        {**_UNBIASED, **_V4, "dut.options.rss": "sd"},
        [{**PORTS_FIXED, "params.left_hosts": (2, 101), "params.right_hosts": (2, 101)}],
    ),
    "ipv6-linux": Series(
        "Table 8",
        {**_UNBIASED, **_V6, "dut.options.clock_khz": 3_200_000},
        _merge_settings(_hosts(0, 999), *_RSS),
    ),
    "ipv4-openbsd": Series("Table 9", {**_UNBIASED, **_V4, **_BSD}, _hosts(2, 1001)),
    "ipv6-openbsd": Series("Table 10", {**_UNBIASED, **_V6, **_BSD}, _hosts(0, 999)),
    "nat64-jool": Series("Tables 11, 12", {**_NAT64, "dut.driver": "jool"}, _NAT64_RUNS),
    "nat64-pf-connections": Series(
        "Table 13",
        {**_NAT64, "dut.driver": "openbsd-pf", "dut.options.flush": "reboot"},
        _NAT64_RUNS,
    ),
    "nat64-pf-throughput": Series(
        "Table 14",
        {**_NAT64, "dut.driver": "openbsd-pf", "procedure.loss_tolerance": 0.0001},
        _NAT64_RUNS,
    ),
}


# Al-Hamadani and Lencse (2025): mapperf-2025

_MAPPERF = {
    "modes": ["bidirectional"],  # Table 2
    "frame.ipv4": 64,
    "frame.ipv6": 104,
    "procedure.trial_duration_s": 60.0,
    "procedure.pause_s": 10.0,
    "procedure.loss_tolerance": 0.0,
    "procedure.repetitions": 20,
    "params.rule_ipv6": "2001:db8:ce::/51",  # V-D
    "params.rule_ipv4": "192.0.2.0/24",
    "params.ea_len": 13,
    "params.psid_offset": 0,
    "params.ces": 1000,
    "params.server_ipv4": "203.0.113.56",
    "params.br_address": "2001:db8:6::1",
}
_WORKERS = "dut.options.workers"
_TS = [
    {"line_rate_bps": 10 * G, _WORKERS: "2"},  # Table 2
    {"line_rate_bps": 25 * G, _WORKERS: "4"},
]


def _workers(first: str, *further: int) -> list[Values]:
    """List the numbers of workers; papers name the core of a single worker only."""
    return [{_WORKERS: first}, *({_WORKERS: (n, UNSPECIFIED)} for n in further)]


MAPPERF = {
    "loopback": Series(
        "Table 3", {**_MAPPERF, "dut.driver": "cable"}, make_axis("line_rate_bps", 10 * G, 25 * G)
    ),
    "delays": Series(
        "Tables 5 and 6",
        {
            **_MAPPERF,
            "procedure.latency.tags": 50_000,
            "procedure.latency.first_tag_s": 60.0,
            "procedure.latency.duration_s": 120.0,  # Table 2
            "procedure.delay_variation.duration_s": 60.0,
        },
        _TS,
    ),
    "workers-ts1": Series("Figure 11.a", _MAPPERF, _workers("2", 2, 4)),
    "workers-ts2": Series("Figure 11.a", _MAPPERF, _workers("4", 2, 4)),
    "workers-ts1-slow": Series("Figure 11.b", _MAPPERF, _workers("2", 2, 4, 6)),
    "workers-ts2-slow": Series("Figure 11.b", _MAPPERF, _workers("4", 2, 4, 6, 8)),
    "frame-sizes": Series(
        "Figure 12, Table 4",
        {k: v for k, v in _MAPPERF.items() if not k.startswith("frame.")},
        combine_axes(
            _TS,
            [
                {"frame.ipv6": s, "frame.ipv4": s - 40}
                for s in (104, 168, 296, 552, 808, 1064, 1320, 1518)
            ],
        ),
    ),
    "customers": Series(
        "Figure 13",
        {
            **_MAPPERF,
            "params.rule_ipv6": UNSPECIFIED,
            "params.rule_ipv4": UNSPECIFIED,
            "params.exclude_network_broadcast": UNSPECIFIED,
        },
        combine_axes(
            _TS, [{"params.ces": 1_000_000 << n, "params.ea_len": 20 + n} for n in range(5)]
        ),
    ),
    "directions": Series(
        "Figure 14",
        _MAPPERF,
        combine_axes(_TS, make_axis("modes", ["forward"], ["reverse"], ["bidirectional"])),
    ),
    "frame-loss": Series(
        "Figure 15",
        {
            **_MAPPERF,
            "procedure.frame_loss.rates_fps": [2_000_000.0 + 200_000 * n for n in range(11)],
        },
        _TS,
    ),
}


# Lencse and Shima (2020): siit-2020

_SIIT = {
    "procedure.repetitions": 20,  # 3.5
    "procedure.trial_duration_s": 60.0,  # 3.6.1
    "procedure.loss_tolerance": 0.0,
    "line_rate_bps": 10 * G,
    **PORTS_FIXED,  # 3.2: a single flow
}
_TS1 = {CORES: 8, "dut.options.clock_khz": 2_000_000}  # 3.3
_P_NODES = {"dut.options.governor": "performance"}
_SYSTEMS = [
    {**_TS1, "params.ipv4_hosts.first": "198.19.0.2"},
    {**_P_NODES, "params.ipv4_hosts.first": "198.19.0.3"},  # 3.3, appendix
]
_ALL_SIZES = make_axis("frame.ipv6", 84, 128, 256, 512, 768, 1024, 1280, 1518)
_TWO_SIZES = make_axis("frame.ipv6", 128, 1280)
_DNS = {
    "procedure.repetitions": 20,
    "procedure.trial_duration_s": 60.0,
    "modes": ["bidirectional"],
    "frame_sizes": UNSPECIFIED,
    "params.rv_sport": (None, 64_000),  # 4.2, eight threads with 8000 each
}
_TIMEOUT = "procedure.frame_timeout.deadline_ms"
_IMPLEMENTATIONS = make_axis("dut.driver", "jool", "tayga")
_THREE_WAYS = {"modes": ["forward", "reverse", "bidirectional"]}
_BACK = {"modes": ["reverse"]}

SIIT = {
    "throughput": Series(
        "Figures 3 to 6",
        {**_SIIT, **_THREE_WAYS},
        combine_axes(_SYSTEMS, make_axis("dut.driver", "jool", "tayga"), _ALL_SIZES),
    ),
    "frame-loss": Series(
        "Figures 10 to 12",
        {
            **_SIIT,
            **_BACK,
            **_TS1,
            "procedure.frame_loss.rates_fps": [50_000.0 * n for n in range(1, 11)],
        },
        combine_axes(_IMPLEMENTATIONS, _TWO_SIZES),
    ),
    "mixtures": Series(
        "Figures 13 to 15",
        {**_SIIT, **_TS1, "modes": UNSPECIFIED},
        combine_axes(
            _IMPLEMENTATIONS, _TWO_SIZES, make_axis("share", 1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.0)
        ),  # 3.7
    ),
    "self-test": Series(
        "Figure 17",
        {**_DNS, "dut.driver": "cable"},
        combine_axes(
            make_axis("plugin", "ipv4-router", "ipv6-router"), make_axis(_TIMEOUT, 200, 100, 50, 25)
        ),
    ),
    "routing": Series(
        "Figure 18",
        {**_DNS, _TIMEOUT: 100.0, "dut.driver": "linux-router", CORES: 8},
        combine_axes(
            make_axis("plugin", "ipv4-router", "ipv6-router"),
            make_axis("dut.options.rss", "sd", "sdfn"),
        ),
    ),
    "acceptance": Series(
        "Figure 19",
        {**_DNS, _TIMEOUT: 200.0, "dut.driver": "jool", "dut.options.rss": UNSPECIFIED, **_TS1},
        make_axis("procedure.loss_tolerance", 0.00001, 0.0001, 0.001),
    ),
    "flows": Series(
        "Figure 20",
        {**_DNS, _TIMEOUT: 200.0, "procedure.loss_tolerance": 0.0001, **_TS1},
        combine_axes(_IMPLEMENTATIONS, make_axis("dut.options.rss", "sd", "sdfn")),
    ),
    "frame-timeout": Series(
        "Figure 21, Table 3",
        {
            **_DNS,
            _TIMEOUT: 200.0,
            "procedure.loss_tolerance": 0.0001,
            "dut.driver": "jool",
            "dut.options.rss": "sdfn",
            "dut.options.clock_khz": 2_000_000,
        },
        make_axis(CORES, 1, 2, 4, 8),
    ),
}


# Georgescu et al. (2015): ipv6net-2015

_IPV6NET = {
    "procedure.repetitions": 20,  # 3.2
    "procedure.trial_duration_s": 60.0,
    "procedure.means": True,  # 4.1
}
_SIZES = [64, 128, 256, 512, 1024, 1280, 1518, 1522, 2048, 4096, 8192, 9216]  # Table 1
_RATES = make_axis("line_rate_bps", 10e6, 100e6)

IPV6NET = {
    "direct": Series(
        "Tables 2 and 3, DC", {**_IPV6NET, "dut.driver": "cable", "frame_sizes": _SIZES}, _RATES
    ),
    "closed": Series(
        "Tables 2 and 3",
        {**_IPV6NET, "frame_sizes": _SIZES},
        combine_axes(make_axis("params.variant", "map-e", "map-t", "ds-lite", "464xlat"), _RATES),
    ),
}

PAPERS = {
    "dual-dut": DUAL_DUT,
    "pseudorandom": PSEUDORANDOM,
    "mapperf": MAPPERF,
    "siit": SIIT,
    "ipv6net": IPV6NET,
}
