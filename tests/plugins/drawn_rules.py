"""Hypothesis strategies for MAP rules and their CEs."""

from ipaddress import IPv4Network, IPv6Network

from hypothesis import strategies as st
from v6t.plugins.map_rules import MapRule


def clear_host_bits(value, length, width):
    """Clear the bits of an address of ``width`` bits that follow its prefix."""
    return value >> width - length << width - length


@st.composite
def rules(draw, *, shared=False, sendable=False):
    """Draw a valid rule: several CEs share an address, and devices forward it, if requested."""
    fixed6, fixed4 = (16, 3) if sendable else (0, 0)
    if not shared and draw(st.booleans()):
        o, r, k = 0, 32, draw(st.integers(0 if sendable else 1, 16))
        explicit = k
    else:
        o = draw(st.integers(1 if shared else 0, 45 if sendable else 48))
        shortest = 32 - o + 1 if shared else fixed4
        r = draw(st.integers(max(0, shortest), min(32, 48 - o)))
        k, explicit = max(0, o - (32 - r)), -1
    n, a = draw(st.integers(fixed6, 64 - o)), draw(st.integers(0, 16 - k if k else 16))
    ipv6, ipv4 = draw(st.integers(0, (1 << 128) - 1)), draw(st.integers(0, (1 << 32) - 1))
    if sendable:
        ipv6, ipv4 = 0x3FFE << 112 | ipv6 >> 16, 0b100 << 29 | ipv4 >> 3
    form = draw(st.sampled_from(["rfc7597", "draft"]))
    ipv6, ipv4 = clear_host_bits(ipv6, n, 128), clear_host_bits(ipv4, r, 32)
    return MapRule(IPv6Network((ipv6, n)), IPv4Network((ipv4, r)), o, a, explicit, form)


@st.composite
def ces(draw):
    """Draw a rule with the EA value and PSID of one of its CEs."""
    rule = draw(rules())
    ea = draw(st.integers(0, rule.ce_count - 1))
    psid = rule.decode_ea(ea)[1] if rule.ea_len else draw(st.integers(0, rule.sharing_ratio - 1))
    return rule, ea, psid


def rule_settings(rule):
    return {
        "rule_ipv6": str(rule.ipv6_prefix), "rule_ipv4": str(rule.ipv4_prefix),
        "ea_len": rule.ea_len, "psid_offset": rule.psid_offset,
        "psid_len": None if rule.ea_len else rule.psid_len, "iid_format": rule.iid_format,
        "server_ipv4": "203.0.113.56",
    }  # fmt: skip


def ce_settings(rule, ea):
    """Return the parameters of the CE with the EA value ``ea``."""
    ipv4, psid = rule.decode_ea(ea) if rule.ea_len else (rule.ipv4_prefix.network_address, 0)
    if rule.psid_len == 16 and not psid:
        psid = 1
    return {**rule_settings(rule), "ce_ipv4": str(ipv4), "ce_psid": psid}
