"""Campaigns use the parameters of their papers, except for the listed differences.

The papers' parameters are transcribed here, each with its place in the paper. A value that a paper
does not state is :data:`UNSPECIFIED`. A range of ports or hosts is ``(first, last)`` or
``(None, count)``. Names are those of v6t's settings; ``frame.ipv4`` and ``frame.ipv6`` are the
frame sizes on the two sides.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from v6t.analysis.scaling import count_cores
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.campaign import plan_campaign
from v6t.core.campaigns.file import read_campaign
from v6t.core.config.yaml_file import YamlFile

pytestmark = pytest.mark.slow

UNSPECIFIED = "not specified"
"""Value of a setting that the paper does not state."""
Values = dict[str, Any]
G = 1e9
FIXED = "fixed"

DRIVER, CORES, CLOCK = "dut.driver", "dut.options.cores", "dut.options.clock_khz"
RSS, WORKERS = "dut.options.rss", "dut.options.workers"
BR_CORES, PLAT_CORES = (f"dut.options.parts.{part}.options.cores" for part in ("br", "plat"))
IPV4_SIZE, IPV6_SIZE, LINE_RATE = "frame.ipv4", "frame.ipv6", "line_rate_bps"
DURATION, REPETITIONS = "procedure.trial_duration_s", "procedure.repetitions"
TOLERANCE, COUNT = "procedure.loss_tolerance", "procedure.connections.count"
TIMEOUT, RATES = "procedure.frame_timeout.deadline_ms", "procedure.frame_loss.rates_fps"
INITIATORS, RESPONDERS = "params.initiator_count", "params.responder_count"
IPORTS, RPORTS = "params.initiator_ports", "params.responder_ports"
BY_ADDRESS, BY_PORT = "params.enumerate_ips", "params.enumerate_ports"
LEFT_HOSTS, RIGHT_HOSTS = "params.left_hosts", "params.right_hosts"


def make_axis(name: str, *values: Any) -> list[Values]:
    """Return one settings dictionary for each value of a setting."""
    return [{name: value} for value in values]


def list_runs(common: Values, *axes: list[Values]) -> list[Values]:
    """Return the settings of each run, in all combinations; the last axis changes fastest."""
    return [dict(i for part in parts for i in part.items()) for parts in product([common], *axes)]


def merge_pairs(runs: list[Values], more: list[Values]) -> list[Values]:
    """Add further settings to each run."""
    return [{**run, **other} for run, other in zip(runs, more, strict=True)]


PORTS_FIXED = {f"params.{d}_{e}port.policy": FIXED for d in ("fw", "rv") for e in ("s", "d")}
RFC4814 = {
    **{f"params.{n}": (1024, 65535) for n in ("fw_sport", "rv_sport")},
    **{f"params.{n}": (1, 49151) for n in ("fw_dport", "rv_dport")},
}
"""RFC 4814 section 4.5, which Lencse (2024) names in section 5.3.1."""
RFC2544 = {REPETITIONS: 20, DURATION: 60.0}
BIDIRECTIONAL = {"modes": ["bidirectional"]}
ROUTERS = make_axis("plugin", "ipv4-router", "ipv6-router")
CABLE = {DRIVER: "cable"}

# Lencse and Bazsó (2024): ipv4aas-2024; 20 trials of 60 s (5.3), 10 Gbit/s (4.1), 99.99 % (4.2)
_DUAL = {**RFC2544, **BIDIRECTIONAL, LINE_RATE: 10 * G, TOLERANCE: 0.0001}
_DUAL_SERVER = {**_DUAL, RSS: "sdfn", CLOCK: 2_100_000}  # 4.1, 4.2
_TUPLES = {IPORTS: (1, 4000), RPORTS: (1, 1000), COUNT: 4_000_000}  # 5.2
_XLAT = {
    **_DUAL,
    IPV4_SIZE: 64,  # 5.2
    "params.variant": "464xlat",
    "params.prefix": "64:ff9b::/96",  # 5.1
    "params.public_ipv4": "198.19.0.1",  # Figure 11
    "params.public_ports": (1, 65535),
    "dut.options.parts.clat.options.cores": 32,  # 5.2
}
_MAP_T = {
    **_DUAL,
    IPV4_SIZE: 64,
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
_CORE_COUNTS = (1, 2, 4, 8, 16)
# 5.4
_CONNECTIONS = [{COUNT: 1_000_000 << n, RPORTS: (1, 250 << n), IPORTS: (1, 4000)} for n in range(9)]
_MAP_T_CORES = list_runs({**_MAP_T, **_TUPLES}, make_axis(BR_CORES, *_CORE_COUNTS))
_MAP_T_CONNECTIONS = list_runs({**_MAP_T, BR_CORES: 16}, _CONNECTIONS)

DUAL_DUT = {
    "ipv4-forwarding":  # Table 2
        list_runs({**_DUAL_SERVER, IPV4_SIZE: 64}, make_axis(CORES, *_CORE_COUNTS)),
    "ipv6-forwarding":  # Table 3
        list_runs({**_DUAL_SERVER, IPV6_SIZE: 84}, make_axis(CORES, *_CORE_COUNTS)),
    "464xlat-cores":  # Table 4
        list_runs({**_XLAT, **_TUPLES}, make_axis(PLAT_CORES, *_CORE_COUNTS)),
    "464xlat-connections": list_runs({**_XLAT, PLAT_CORES: 16}, _CONNECTIONS),  # Table 5
    "map-t-cores": _MAP_T_CORES,  # Table 6
    "map-t-connections": _MAP_T_CONNECTIONS,  # Table 7
    "map-t-apart-cores": _MAP_T_CORES,  # Table 8
    "map-t-apart-connections": _MAP_T_CONNECTIONS,  # Table 9
}  # fmt: skip

# Lencse (2024): unbiased-2024; 60.0006 s for sending (5.3.2), X540
_UNBIASED = {**RFC2544, **BIDIRECTIONAL, REPETITIONS: 10, TOLERANCE: 0.0, LINE_RATE: 10 * G}
_V4, _V6 = {**_UNBIASED, IPV4_SIZE: 64}, {**_UNBIASED, IPV6_SIZE: 84}  # 5.3.1
_FOUR_MILLION = {**_UNBIASED, COUNT: 4_000_000}  # 5.4, 7.2
_NAT64 = {**_FOUR_MILLION, IPV6_SIZE: 84, "params.prefix": "64:ff9b::/96"}


def _list_host_variants(first: int, last: int) -> list[Values]:
    """Return the variants of enumeration: nothing, ports, addresses, both."""
    one = {f"{LEFT_HOSTS}.policy": FIXED, f"{RIGHT_HOSTS}.policy": FIXED}
    many = {LEFT_HOSTS: (first, last), RIGHT_HOSTS: (first, last)}
    return [{**ports, **hosts} for hosts in (one, many) for ports in (PORTS_FIXED, RFC4814)]


def _make_four_million(first_address: Values) -> list[Values]:
    """Return the three ways to make four million connections: ports, addresses, both."""
    return [
        {IPORTS: (1, 40_000), RPORTS: (1, 100), BY_ADDRESS: 0, BY_PORT: 3},
        {**first_address, INITIATORS: 4000, RESPONDERS: 1000, BY_ADDRESS: 3, BY_PORT: 0},
        {**first_address, INITIATORS: 10, RESPONDERS: 10, IPORTS: (1, 400), RPORTS: (1, 100),
         BY_ADDRESS: 3, BY_PORT: 3},
    ]  # fmt: skip


_NAT44_RUNS = _make_four_million(  # 5.4: 2-4001, 2-11
    {"params.initiator_ipv4": "198.18.0.2", "params.responder_ipv4": "198.19.0.2"}
)
_NAT64_RUNS = _make_four_million({"params.initiator_ipv6": "2001:2::"})  # 7.2: 0-3999, 0-9
_RSS = make_axis(RSS, "sd", "sdfn", "sd", "sdfn")  # 6.2
_TWO_TABLES: list[Values] = [{}, {}]
_PF = {DRIVER: "openbsd-pf"}

PSEUDORANDOM = {
    "self-test-ipv4": list_runs({**_V4, **CABLE}, _TWO_TABLES, _list_host_variants(2, 65534)),  # Tables 2 and 4
    "self-test-ipv6": list_runs({**_V6, **CABLE}, _TWO_TABLES, _list_host_variants(0, 65535)),  # Tables 3 and 5
    "self-test-connections": list_runs({**_FOUR_MILLION, **CABLE}, _NAT44_RUNS),  # Table 6
    "self-test-forward":  # Table 6, last column
        [{**_UNBIASED, **PORTS_FIXED, **CABLE, "modes": ["forward"]}],
    "ipv4-linux":  # Table 7
        list_runs({**_V4, CLOCK: 3_200_000}, merge_pairs(_list_host_variants(2, 1001), _RSS)),
    "ipv4-linux-100":  # sect. 6.2
        [{**_V4, **PORTS_FIXED, RSS: "sd", LEFT_HOSTS: (2, 101), RIGHT_HOSTS: (2, 101)}],
    "ipv6-linux":  # Table 8
        list_runs({**_V6, CLOCK: 3_200_000}, merge_pairs(_list_host_variants(0, 999), _RSS)),
    "ipv4-openbsd": list_runs({**_V4, **_PF}, _list_host_variants(2, 1001)),  # Table 9
    "ipv6-openbsd": list_runs({**_V6, **_PF}, _list_host_variants(0, 999)),  # Table 10
    "nat64-jool": list_runs({**_NAT64, DRIVER: "jool"}, _NAT64_RUNS),  # Tables 11 and 12
    "nat64-pf-connections":  # Table 13
        list_runs({**_NAT64, **_PF, "dut.options.flush": "reboot"}, _NAT64_RUNS),
    "nat64-pf-throughput": list_runs({**_NAT64, **_PF, TOLERANCE: 0.0001}, _NAT64_RUNS),  # Table 14
}  # fmt: skip

# Al-Hamadani and Lencse (2025): mapperf-2025
_ANY_SIZE = {
    **RFC2544,  # Table 2
    **BIDIRECTIONAL,
    "procedure.pause_s": 10.0,
    TOLERANCE: 0.0,
    "params.rule_ipv6": "2001:db8:ce::/51",  # V-D
    "params.rule_ipv4": "192.0.2.0/24",
    "params.ea_len": 13,
    "params.psid_offset": 0,
    "params.ces": 1000,
    "params.server_ipv4": "203.0.113.56",
    "params.br_address": "2001:db8:6::1",
}
_MAPPERF = {**_ANY_SIZE, IPV4_SIZE: 64, IPV6_SIZE: 104}
_DELAYS = {  # Table 2
    "procedure.latency.tags": 50_000,
    "procedure.latency.first_tag_s": 60.0,
    "procedure.latency.duration_s": 120.0,
    "procedure.delay_variation.duration_s": 60.0,
}
_RULES = ("params.rule_ipv6", "params.rule_ipv4", "params.exclude_network_broadcast")
_TS = [{LINE_RATE: 10 * G, WORKERS: "2"}, {LINE_RATE: 25 * G, WORKERS: "4"}]  # Table 2
_SIZES = [{IPV6_SIZE: s, IPV4_SIZE: s - 40} for s in (104, 168, 296, 552, 808, 1064, 1320, 1518)]
_CES = [{"params.ces": 1_000_000 << n, "params.ea_len": 20 + n} for n in range(5)]


def _list_worker_counts(first: str, *further: int) -> list[Values]:
    """List the numbers of workers; papers name the core of a single worker only."""
    return make_axis(WORKERS, first, *((n, UNSPECIFIED) for n in further))


MAPPERF = {
    "loopback": list_runs({**_MAPPERF, **CABLE}, make_axis(LINE_RATE, 10 * G, 25 * G)),  # Table 3
    "delays": list_runs({**_MAPPERF, **_DELAYS}, _TS),  # Tables 5 and 6
    "workers-ts1": list_runs(_MAPPERF, _list_worker_counts("2", 2, 4)),  # Figure 11.a
    "workers-ts2": list_runs(_MAPPERF, _list_worker_counts("4", 2, 4)),  # Figure 11.a
    "workers-ts1-slow": list_runs(_MAPPERF, _list_worker_counts("2", 2, 4, 6)),  # Figure 11.b
    "workers-ts2-slow": list_runs(_MAPPERF, _list_worker_counts("4", 2, 4, 6, 8)),  # Figure 11.b
    "frame-sizes": list_runs(_ANY_SIZE, _TS, _SIZES),  # Figure 12, Table 4
    "customers":  # Figure 13
        list_runs({**_MAPPERF, **dict.fromkeys(_RULES, UNSPECIFIED)}, _TS, _CES),
    "directions":  # Figure 14
        list_runs(_MAPPERF, _TS, make_axis("modes", ["forward"], ["reverse"], ["bidirectional"])),
    "frame-loss":  # Figure 15
        list_runs({**_MAPPERF, RATES: [2e6 + 2e5 * n for n in range(11)]}, _TS),
}  # fmt: skip

# Lencse and Shima (2020): siit-2020
_SIIT = {**RFC2544, **PORTS_FIXED, TOLERANCE: 0.0, LINE_RATE: 10 * G}  # 3.2 (one flow), 3.5, 3.6.1
_TS1 = {CORES: 8, CLOCK: 2_000_000}  # 3.3
_SYSTEMS = [
    {**_TS1, "params.ipv4_hosts.first": "198.19.0.2"},
    {"dut.options.governor": "performance", "params.ipv4_hosts.first": "198.19.0.3"},
]  # 3.3, appendix
_ALL_SIZES = make_axis(IPV6_SIZE, 84, 128, 256, 512, 768, 1024, 1280, 1518)
_TWO_SIZES = make_axis(IPV6_SIZE, 128, 1280)
_SHARES = make_axis("share", 1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.0)  # 3.7
_IMPLEMENTATIONS = make_axis(DRIVER, "jool", "tayga")
_BOTH_RSS = make_axis(RSS, "sd", "sdfn")
_THREE_WAYS = {"modes": ["forward", "reverse", "bidirectional"]}
_REVERSE_LOSS = {"modes": ["reverse"], RATES: [50_000.0 * n for n in range(1, 11)]}
_DNS = {
    **RFC2544,
    **BIDIRECTIONAL,
    "frame_sizes": UNSPECIFIED,
    "params.rv_sport": (None, 64_000),  # 4.2, eight threads with 8000 each
}
_LATE = {**_DNS, TIMEOUT: 200.0, TOLERANCE: 0.0001}
_ONE_JOOL = {DRIVER: "jool", RSS: "sdfn", CLOCK: 2_000_000}

SIIT = {
    "throughput":  # Figures 3 to 6
        list_runs({**_SIIT, **_THREE_WAYS}, _SYSTEMS, _IMPLEMENTATIONS, _ALL_SIZES),
    "frame-loss":  # Figures 10 to 12
        list_runs({**_SIIT, **_TS1, **_REVERSE_LOSS}, _IMPLEMENTATIONS, _TWO_SIZES),
    "mixtures":  # Figures 13 to 15
        list_runs({**_SIIT, **_TS1, "modes": UNSPECIFIED}, _IMPLEMENTATIONS, _TWO_SIZES, _SHARES),
    "self-test":  # Figure 17
        list_runs({**_DNS, **CABLE}, ROUTERS, make_axis(TIMEOUT, 200, 100, 50, 25)),
    "routing":  # Figure 18
        list_runs({**_DNS, TIMEOUT: 100.0, DRIVER: "linux-router", CORES: 8}, ROUTERS, _BOTH_RSS),
    "acceptance":  # Figure 19
        list_runs({**_LATE, **_TS1, DRIVER: "jool", RSS: UNSPECIFIED},
                  make_axis(TOLERANCE, 0.00001, 0.0001, 0.001)),
    "flows": list_runs({**_LATE, **_TS1}, _IMPLEMENTATIONS, _BOTH_RSS),  # Figure 20
    "frame-timeout":  # Figure 21, Table 3
        list_runs({**_LATE, **_ONE_JOOL}, make_axis(CORES, 1, 2, 4, 8)),
}  # fmt: skip

# Georgescu et al. (2015): ipv6net-2015; 3.2, 4.1 (means), Table 1 (sizes)
_IPV6NET = {
    **RFC2544,
    "procedure.means": True,
    "frame_sizes": [64, 128, 256, 512, 1024, 1280, 1518, 1522, 2048, 4096, 8192, 9216],
}
_LINE_RATES = make_axis(LINE_RATE, 10e6, 100e6)
_VARIANTS = make_axis("params.variant", "map-e", "map-t", "ds-lite", "464xlat")

IPV6NET = {
    "direct": list_runs({**_IPV6NET, **CABLE}, _LINE_RATES),  # Tables 2 and 3, DC
    "closed": list_runs(_IPV6NET, _VARIANTS, _LINE_RATES),  # Tables 2 and 3
}

PAPERS = {
    "dual-dut": DUAL_DUT, "pseudorandom": PSEUDORANDOM, "mapperf": MAPPERF, "siit": SIIT,
    "ipv6net": IPV6NET,
}  # fmt: skip

SETTING = re.compile(r"^(params|procedure|dut|links)\.|^(modes|frame_sizes|line_rate)$")
"""Names of settings; other listed differences are about conditions that v6t does not set."""


def read_setting(run: Mapping[str, Any], name: str) -> Any:
    """Return the run's value by its name in the transcription."""
    if name.startswith("frame."):
        (size,) = {getattr(p, name.partition(".")[2]) for p in run["pairs"]}
        return size
    if name == "frame_sizes":
        return [p.ipv4 for p in run["pairs"]]
    if name == "share":
        return run["params"]["m"] / run["params"]["n"]
    value: Any = run
    for part in name.split("."):
        # a policy given as a word is the value itself
        value = value if isinstance(value, str) else value[part]
    return value


def is_equal(name: str, paper: Any, actual: Any) -> bool:
    """Compare a setting with the paper's; ranges with different first values are not equal."""
    if paper == UNSPECIFIED:
        return False
    if name.endswith("workers") and isinstance(paper, tuple):
        assert count_cores(actual) == paper[0], name
        return False
    if isinstance(paper, tuple):
        first, last = paper
        if first is None:
            return bool(actual["max"] - actual["min"] + 1 == last)
        assert actual["max"] - actual["min"] == last - first, f"{name}: wrong count"
        return (actual["min"], actual["max"]) == (first, last)
    return bool(actual == paper)


@pytest.mark.parametrize("name", PAPERS)
def test_campaign_equals_its_paper_except_for_listed_differences(name):
    path = list_packaged_campaigns()[name]
    content, _ = read_campaign(YamlFile(path))
    campaign = plan_campaign(path, tester="sim")
    assert [e.name for e in content.experiments] == list(PAPERS[name])
    for experiment in content.experiments:
        papers_runs = PAPERS[name][experiment.name]
        runs = [run for run in campaign.runs if run.experiment == experiment.name]
        assert len(runs) == len(papers_runs), f"{experiment.name}: wrong count"
        differing = set()
        for run, settings in zip(runs, papers_runs, strict=True):
            technology = run.plan.setup.technology  # with all defaults
            params = technology.params.model_dump(mode="json")
            pairs = [technology.make_frame_pair(size) for size in run.config["frame_sizes"]]
            planned = {**run.config, "params": params, "pairs": pairs}
            actual = {name: read_setting(planned, name) for name in settings}
            differing |= {n for n in settings if not is_equal(n, settings[n], actual[n])}
        named = {setting for setting in experiment.differs if SETTING.match(setting)}
        assert differing == named, experiment.name
        assert differing.isdisjoint(RFC2544)
        for text in experiment.differs.values():
            assert text.rstrip(".") in campaign.notes[experiment.name]
    assert content.differs, "no listed differences"
    for text in content.differs.values():
        assert text.rstrip(".") in campaign.notes[""]
