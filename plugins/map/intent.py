"""MAP rules for a DUT intent, in no vendor's words."""

from __future__ import annotations

from v6t.intent.families import Rule
from v6t.plugins.map.params import MapParams
from v6t.plugins.map_rules import MapRule


def rule_setting(rule: MapRule) -> Rule:
    """A rule."""
    return Rule(
        ipv6_prefix=rule.ipv6_prefix,
        ipv4_prefix=rule.ipv4_prefix,
        ea_len=rule.ea_len,
        psid_offset=rule.psid_offset,
        psid_len=rule.psid_len,
        iid_format=rule.iid_format,
        **({} if rule.psid is None else {"psid": rule.psid}),
    )


def rule_settings(params: MapParams) -> tuple[Rule, ...]:
    """All rules."""
    return tuple(rule_setting(d.rule) for d in params.all_domains)
