"""MAP rules in the form of a device intent."""

from __future__ import annotations

from v6t.intent.families import MapRuleConfig
from v6t.plugins.map.params import MapParams
from v6t.plugins.map_rules import MapRule


def rule_config(rule: MapRule) -> MapRuleConfig:
    """Convert a rule for a device intent."""
    return MapRuleConfig(
        ipv6_prefix=rule.ipv6_prefix,
        ipv4_prefix=rule.ipv4_prefix,
        ea_len=rule.ea_len,
        psid_offset=rule.psid_offset,
        psid_len=rule.psid_len,
        iid_format=rule.iid_format,
        **({} if rule.psid is None else {"psid": rule.psid}),
    )


def rule_configs(params: MapParams) -> tuple[MapRuleConfig, ...]:
    """Convert the rules of all domains."""
    return tuple(rule_config(d.rule) for d in params.all_domains)
