"""No audit reports a deviation of a correct device, for any parameters.

``V6T_AUDIT_EXAMPLES=1000`` draws more parameters of each technology than the few of ``make test``.
"""

import hashlib
import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from v6t.audit.self_check import find_deviations
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_technology_type
from v6t.tests.plugins.drawn_rules import ce_settings, rule_settings, rules

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("V6T_AUDIT_EXAMPLES", "2"))
POOLS = ("192.0.2.0", "198.51.100.0", "10.64.0.0", "198.18.0.0", "100.64.0.0", "8.8.4.0")
PREFIX_LENGTHS = (32, 40, 48, 56, 64, 96)
SETTINGS = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
    phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
)  # fmt: skip
Params = Mapping[str, Any]


one_of, integers, composite = st.sampled_from, st.integers, st.composite


def make_params_strategy(**strategies):
    """Return a strategy of parameters; other values are constants."""
    values = {
        n: s if isinstance(s, st.SearchStrategy) else st.just(s) for n, s in strategies.items()
    }
    return st.fixed_dictionaries(values)


def draw_network4(draw, length):
    """Draw a prefix that contains an address of one of the usual pools."""
    base = int(IPv4Address(draw(one_of(POOLS)))) + draw(one_of((0, 77, 255)))
    return IPv4Network((base, length), strict=False)


def make_network6(base, length):
    return str(IPv6Network((int(IPv6Address(base)), length), strict=False))


@composite
def port_sets(draw):
    """Draw PSID offset and length, including unshared addresses and ranges of one port."""
    length = draw(one_of((0, 1, 3, 6, 8, 12, 15, 16)))
    return draw(integers(0, 16 - length)), length


@composite
def relays(draw):
    """Draw one or two mapping rules: for shared or unshared addresses, prefixes, or no EA bits."""
    first, *others = (
        {**rule_settings(rule), "ces": 1}
        for rule in draw(st.lists(rules(sendable=True), min_size=1, max_size=2))
    )
    return first | {"domains": [{n: r[n] for n in r if n != "server_ipv4"} for r in others]}


@composite
def customer_edges(draw):
    rule = draw(rules(sendable=True))
    return ce_settings(rule, draw(integers(0, rule.ce_count - 1)))


LOCAL_PREFIXES = (make_network6("2001:dba:64ff:ab00::", n) for n in PREFIX_LENGTHS)
PREFIXES = one_of((*LOCAL_PREFIXES, "64:ff9b::/96"))


@composite
def lwaftrs(draw):
    """Draw a generated table, or a file with several rows of addresses and lwB4s."""
    offset, psid_len = draw(port_sets())
    if draw(st.booleans()):
        pool, softwires = str(draw_network4(draw, 20)), draw(one_of((1, 2, 3, 5, 64, 300)))
        sizes = {"psid_offset": offset, "psid_len": psid_len}
        return {**sizes, "softwires": softwires, "ipv4_pool": pool}
    base, rows = int(IPv4Address(draw(one_of(POOLS)))), []
    for number in range(draw(integers(1, 3))):
        offset, length = draw(port_sets())
        psids = integers(0, (1 << length) - 1)
        for psid in draw(st.lists(psids, min_size=1, max_size=4, unique=True)):
            share = f"{IPv4Address(base + number * 7)} {psid} {length} {offset}"
            br = draw(one_of(("", "", "2001:db8:6::1")))
            rows.append(f"{share} 2001:db8:b400:{draw(integers(1, 3))}::1 {br}")
    return {"binding_table": "\n".join(draw(st.permutations(rows))), "simulated": "all"}


@composite
def siits(draw):
    """Draw a prefix, explicit mappings of several lengths, or both, and hosts within them."""
    params: dict[str, Any] = {"orientation": draw(one_of(("nat64", "nat46")))}
    hosts = [IPv4Address("198.18.0.2"), IPv4Address("198.19.0.2")]
    mapped = {"prefix": [], "eam": hosts, "both": hosts[:1]}
    kind = draw(one_of(tuple(mapped)))
    if kind != "eam":
        params["prefix"] = draw(PREFIXES)
    params["eam"] = table = []

    def add(host, length, six, free):
        ipv4 = str(IPv4Network((int(host), length), strict=False))
        table.append({"ipv4": ipv4, "ipv6": make_network6(six, 128 - max(free, 32 - length))})

    for number, host in enumerate(mapped[kind]):
        length, six = draw(integers(16, 32)), int(IPv6Address("2001:db8:8:8::")) + (number << 80)
        add(host, length, six, draw(one_of((32 - length, 32 - length, 64, 80))))
        if draw(st.booleans()) and length < 30:
            add(host, draw(integers(length + 1, 32)), six | 5 << 64, 0)
    params["lowest_ipv6_mtu"] = draw(one_of((1280, 1400, 1500)))
    names = ["ipv6_hosts", "ipv4_hosts"]
    if params["orientation"] == "nat46" and draw(st.booleans()):
        names.reverse()
    for name, host in zip(names, hosts, strict=True):
        params[name] = {"first": str(host), "last": str(host + draw(integers(0, 3)))}
    return params


@composite
def clats(draw):
    suffix = draw(integers(1, 12))
    customer = draw_network4(draw, 32 - suffix)
    first = draw(integers(0, customer.num_addresses - 1))
    last = draw(integers(first, customer.num_addresses - 1))
    return {
        "plat_prefix": draw(PREFIXES),
        "clat_ipv4": str(customer),
        "clat_ipv6": make_network6("2001:2:0:2::", 128 - draw(integers(suffix, 64))),
        "ipv4_hosts": {"first": str(customer[first]), "last": str(customer[last])},
        "lowest_ipv6_mtu": draw(one_of((1280, 1400, 1500))),
    }


@composite
def lwb4s(draw):
    offset, length = draw(port_sets())
    return {"psid_offset": offset, "psid_len": length, "psid": draw(integers(0, (1 << length) - 1))}


@composite
def nats(draw, **own):
    """Draw pools, ports and numbers of hosts, and a NAT's own parameters."""
    hosts, ports = draw(one_of(((2, 4000), (3, 9000), (16, 64))))
    low, first = draw(one_of((1024, 1025, 20000))), draw(one_of((1024, 20000)))
    public = draw(one_of((64512, 32768, 4 * ports)))
    params: dict[str, Any] = {
        "pool_first": draw(one_of(("198.19.0.1", "203.0.113.9", "192.0.2.254"))),
        "pool_count": draw(integers(hosts // 3 + 1, hosts + 3)),
        "pool_ports": {"min": low, "max": min(65535, low + public - 1)},
        "initiator_ports": {"min": first, "max": first + ports - 1},
        "responder_ports": {"min": 1, "max": 100},
        "responder_ipv4": draw(one_of(("198.19.0.99", "198.19.7.255", "8.8.4.4"))),
        "initiator_count": hosts, "responder_count": draw(integers(2, 4)), "enumerate_ips": 3,
    }  # fmt: skip
    if draw(integers(0, 2)) == 0:
        params["port_block"] = draw(one_of((1, 8, 64, 256)))
    if draw(integers(0, 2)) == 0:
        params["session_limit"] = draw(one_of((8, 1000, 40000)))
    return {**params, **draw(make_params_strategy(**own))}


def remove_nat44_params(params):
    dropped = ("port_block", "session_limit", "responder_ipv4")
    return {name: value for name, value in params.items() if name not in dropped}


ROUTERS = make_params_strategy(left_networks=integers(1, 5), right_networks=integers(1, 5))
STRATEGIES: Mapping[str, st.SearchStrategy[Params]] = {
    "mape-br": relays(),
    "mapt-br": st.builds(lambda params, dmr: {**params, "dmr": dmr}, relays(), PREFIXES),
    "lwaftr": lwaftrs(),
    "siit": siits(),
    "clat": clats(),
    "mapt-ce": st.builds(lambda params, dmr: {**params, "dmr": dmr}, customer_edges(), PREFIXES),
    "nat44": nats(initiator_ipv4=one_of(("198.18.0.2", "198.18.0.255", "10.0.0.0"))),
    "nat64": nats(
        prefix=PREFIXES,
        initiator_ipv6=one_of(("2001:2::2", "2001:2::ff00", "2001:2:0:1:2:3:4:fffe")),
    ),
    "dslite-aftr": nats(
        b4_ipv6=one_of(("2001:db8:b4::1:0", "2001:db8:b4::fffe", "2001:db8:b4:1:2:3:4:0")),
        initiator_ipv4=one_of(("192.168.1.2", "10.0.0.0", "192.0.0.2")),
    ),
    "mape-ce": customer_edges(),
    "lwb4": lwb4s(),
    "nat66": nats(
        pool_first="2001:2:0:2::fffe",
        responder_ipv6="2001:2:0:1::ffff",
        initiator_ipv6=one_of(("2001:2::2", "2001:2::ff00", "2001:2:0:1:2:3:4:0")),
    ).map(remove_nat44_params),
    # prefixes whose adjustments are small, large and zero
    "nptv6": make_params_strategy(
        internal=one_of(("fd01:203:405::/48", "fd00::/48", "fdff:ffff:fffe::/48")),
        external=one_of(("2001:db8:1::/48", "2001:dba::/48", "2a00:1450:ffff::/48")),
    ),
    "ipv4-router": ROUTERS,
    "ipv6-router": ROUTERS,
}


def accusations(plugin, params, folder):
    """Audit a correct device and describe each deviation."""
    values = dict(params)
    if "binding_table" in values:
        table = values["binding_table"]
        values["binding_table"] = folder / hashlib.sha256(table.encode()).hexdigest()
        values["binding_table"].write_text(table)
    technology = load_technology_type(plugin)
    return find_deviations(technology(technology.params_model(**values)))


@pytest.mark.parametrize("plugin", STRATEGIES)
def test_audit_of_correct_device_reports_no_deviation(plugin, tmp_path):
    @SETTINGS
    @given(STRATEGIES[plugin])
    def check(params):
        try:
            result = accusations(plugin, params, tmp_path)
        except UsageError:
            assume(False)
        assert result == []

    check()


KNOWN = yaml.safe_load((Path(__file__).parent / "vectors" / "configurations.yaml").read_text())


@pytest.mark.parametrize("case", KNOWN)
def test_audit_of_known_parameters_reports_no_deviation(case, tmp_path):
    plugin, params = KNOWN[case]
    assert accusations(plugin, params, tmp_path) == []
