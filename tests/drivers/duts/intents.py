"""Device intents of technologies, for tests of drivers."""

from dataclasses import replace
from typing import Any

from v6t.core.config.plugins import load_technology_type
from v6t.intent import families
from v6t.intent.device import DeviceIntent, DeviceRequirements, LinkIntent
from v6t.plugins.base import Links

LINKS = Links()
LEFT4 = LinkIntent(["198.18.0.1/24"], {"198.18.0.2": LINKS.left.tester_mac})
LEFT6 = LinkIntent(["2001:2::1/64"], {"2001:2::2": LINKS.left.tester_mac})
RIGHT4 = LinkIntent(["198.19.0.1/24"], {"198.19.0.2": LINKS.right.tester_mac})
NAT_POOL = {"pool4": ["198.19.0.1"], "ports": (1024, 65535)}


def make_intent(plugin: str, links: Links = LINKS, **params: Any) -> DeviceIntent:
    kind = load_technology_type(plugin)
    return kind(kind.params_model(**params), links).make_dut_intent()


def with_values(intent: DeviceIntent, **values: Any) -> DeviceIntent:
    old = intent.configuration
    values = {**{name: getattr(old, name) for name in old.model_fields_set}, **values}
    return replace(intent, configuration=type(old)(**values))


def with_requirements(intent: DeviceIntent, **values: Any) -> DeviceIntent:
    return replace(intent, requirements=DeviceRequirements(**values))


def make_paper_mape() -> DeviceIntent:
    """Return the Mapperf paper's border relay (rule of its Table 2)."""
    return make_intent("mape-br", psid_offset=0)


def make_mapt(rule: str = "2001:db8:ce::/48", dmr: str = "64:ff9b::/64") -> DeviceIntent:
    return make_intent("mapt-br", psid_offset=0, rule_ipv6=rule, dmr=dmr)


def make_lwaftr() -> DeviceIntent:
    shares = {"ipv4_pool": "192.0.2.80/31", "psid_len": 1, "psid_offset": 0}
    return make_intent("lwaftr", softwires=4, **shares)


def make_nat44() -> DeviceIntent:
    configuration = families.Nat44Config(inside4=["198.18.0.0/24"], **NAT_POOL)
    intent = DeviceIntent("nat44", configuration, LINKS, LEFT4, RIGHT4)
    return with_requirements(intent, sessions=1000)


def make_nat64(prefix: str = "2001:db8:64::/96") -> DeviceIntent:
    configuration = families.Nat64Config(prefix=prefix, clients=1, **NAT_POOL)
    intent = DeviceIntent("nat64", configuration, LINKS, LEFT6, RIGHT4)
    return with_requirements(intent, sessions=1000)


def make_dslite() -> DeviceIntent:
    configuration = families.DsLiteAftrConfig(
        aftr="2001:db8:6::1", first_b4="2001:db8:6::2", b4_count=1,
        inside4=["10.0.0.0/24"], pool4=["203.0.113.8"], ports=(1024, 65535),
    )  # fmt: skip
    left = replace(make_paper_mape().left, routes={})
    return DeviceIntent("dslite-aftr", configuration, LINKS, left, RIGHT4)


ROUTER4, ROUTER6, SIIT = (make_intent(name) for name in ("ipv4-router", "ipv6-router", "siit"))
B4 = make_intent("ipv4aas", variant="ds-lite").parts[0].intent
