"""Settings of MAP rules and translators that an implementation cannot be told."""

from __future__ import annotations

from collections.abc import Iterable

from v6t.base.errors import UsageError
from v6t.intent.families import MapRuleConfig

DEFAULT_LOWEST_MTU = 1280


def refuse_draft(rules: Iterable[MapRuleConfig], name: str) -> None:
    """Refuse interface identifiers of the drafts before RFC 7597.

    Args:
        rules: that the device is to have.
        name: of the implementation, which knows the format of RFC 7597 only.

    Raises:
        UsageError: a rule has the other format.
    """
    for rule in rules:
        if rule.iid_format != "rfc7597":
            raise UsageError(
                f"{name} supports only the interface identifier of RFC 7597, but the rule {rule.ipv6_prefix} "
                f"has iid_format {rule.iid_format}",
                "set iid_format to rfc7597, or take another driver",
                params={"iid_format": "rfc7597"},
                code="unsupported-by-device",
            )


def refuse_psid(rules: Iterable[MapRuleConfig], name: str) -> None:
    """Refuse PSIDs of rules without EA bits (RFC 7597, section 5.2).

    Args:
        rules: that the device is to have.
        name: of the implementation, which derives PSIDs from EA bits only.

    Raises:
        UsageError: a rule has a PSID of its own.
    """
    for rule in rules:
        if rule.psid is not None:
            raise UsageError(
                f"{name} cannot configure a PSID, but the rule of {rule.ipv4_prefix} without EA bits has "
                f"psid {rule.psid}",
                "use a rule with EA bits, or take another driver",
                code="unsupported-by-device",
            )


def refuse_lowest_mtu(value: int, why: str, own: int) -> None:
    """Refuse a ``lowest_ipv6_mtu`` that an implementation cannot be told.

    The default is let through: a test then sends no IPv4 packet without DF that would be longer.

    Args:
        value: that the technology asks for [octets].
        why: the implementation cannot.
        own: the value that it has [octets].

    Raises:
        UsageError: naming the value.
    """
    if value not in (own, DEFAULT_LOWEST_MTU):
        raise UsageError(
            f"lowest_ipv6_mtu {value} cannot be configured: {why}",
            f"set lowest_ipv6_mtu to {own}, or take another driver",
            params={"lowest_ipv6_mtu": own},
            code="setting-untellable",
        )
