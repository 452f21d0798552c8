"""Drawn MAP rules and their CEs."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from hypothesis import strategies as st
from v6t.plugins.map_rules import MapRule


def masked(value: int, length: int, width: int) -> int:
    return value >> width - length << width - length


@st.composite
def rules(draw, *, shared: bool | None = None) -> MapRule:
    """Any legal rule: all a, PSID lengths, EA lengths and prefix lengths."""
    explicit = draw(st.booleans()) if shared is None else False
    if explicit:
        o, r, k = 0, 32, draw(st.integers(1, 16))
        n = draw(st.integers(0, 64))
    else:
        o = draw(st.integers(1 if shared else 0, 48))
        least = 32 - o + 1 if shared else 0
        r = draw(st.integers(max(0, least), min(32, 48 - o)))
        n = draw(st.integers(0, 64 - o))
        k = max(0, o - (32 - r))
    a = draw(st.integers(0, 16 - k if k else 16))
    ipv6 = masked(draw(st.integers(0, (1 << 128) - 1)), n, 128)
    ipv4 = masked(draw(st.integers(0, (1 << 32) - 1)), r, 32)
    form = draw(st.sampled_from(["rfc7597", "draft"]))
    return MapRule(
        IPv6Network((ipv6, n)), IPv4Network((ipv4, r)), o, a, k if explicit else -1, form
    )


@st.composite
def ces(draw):
    """A rule, one of its CEs' EA value and PSID."""
    rule = draw(rules())
    ea = draw(st.integers(0, rule.ce_count - 1))
    psid = rule.decode_ea(ea)[1] if rule.ea_len else draw(st.integers(0, rule.sharing_ratio - 1))
    return rule, ea, psid
