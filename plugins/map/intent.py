"""MAP rules for a DUT intent, in no vendor's words."""

from __future__ import annotations

from typing import Any

from v6t.plugins.map.params import MapParams
from v6t.plugins.map.rules import MapRule


def rule_setting(rule: MapRule) -> dict[str, Any]:
    """A rule as JSON-like values."""
    return {
        "ipv6_prefix": str(rule.ipv6_prefix),
        "ipv4_prefix": str(rule.ipv4_prefix),
        "ea_len": rule.ea_len,
        "psid_offset": rule.psid_offset,
        "psid_len": rule.psid_len,
    }


def rule_settings(params: MapParams) -> list[dict[str, Any]]:
    """All rules."""
    return [rule_setting(d.rule) for d in params.all_domains]
