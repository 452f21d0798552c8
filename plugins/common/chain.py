"""Devices made of several parts one after the other, and how an intent lists them.

Each part is what some driver can make, or what a reference translation can be. A test setup with
two devices (RFC 8219 section 4.2) has parts of both; a device may have several, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from v6t.plugins.base import DutIntent, Link, Part, PluginParams

_Params = TypeVar("_Params", bound=PluginParams)

TAYGA = {"queue_length": 5000, "mend_checksums": True}
"""Options of a TAYGA that is not alone: whatever the next part drops is lost to the connection."""
CHAIN = "chain"
"""The driver that combines the drivers of the parts."""


def chained(
    technology: str,
    parts: Sequence[Part],
    settings: dict[str, Any],
    links: Any,
    wholes: Sequence[Part] = (),
) -> DutIntent:
    """One intent for all parts; its outer sides are those of the outermost ones.

    Args:
        technology: its name.
        parts: from left to right.
        settings: of its own.
        links: both cables.
        wholes: what may stand in the place of several parts.
    """
    listed = {**settings, "parts": [part.listed() for part in parts]}
    if wholes:
        listed["wholes"] = [part.listed() for part in wholes]
    left, right = parts[0].intent.left, parts[-1].intent.right
    return DutIntent(technology, listed, links, left, right)


def shared_names(model: type[PluginParams], whole: PluginParams) -> list[str]:
    """List the parameters of a part that the whole has by the same name."""
    return [name for name in model.model_fields if name in type(whole).model_fields]


def part_params(model: type[_Params], whole: PluginParams, **own: Any) -> _Params:
    """Make the parameters of a part: every one that the whole has by the same name, and its own.

    Args:
        model: of the part.
        whole: parameters of all parts together.
        own: in place of those of the whole, or besides them.
    """
    shared = {name: getattr(whole, name) for name in shared_names(model, whole)}
    return model(**{**shared, **own})


def between(left_mac: str, right_mac: str, mtu: int) -> tuple[Link, Link]:
    """One cable between two parts, as the left one and as the right one sees it."""
    seen = Link(tester_mac=right_mac, dut_mac=left_mac, mtu=mtu)
    return seen, replace(seen, tester_mac=left_mac, dut_mac=right_mac)


def only_ipv4(intent: DutIntent) -> DutIntent:
    """An intent without IPv6 addresses and neighbours."""

    def side(side_intent: Mapping[str, Any]) -> dict[str, Any]:
        neighbours = {a: mac for a, mac in side_intent["neighbours"].items() if ":" not in a}
        addresses = [a for a in side_intent["addresses"] if ":" not in a]
        return {**side_intent, "addresses": addresses, "neighbours": neighbours}

    return replace(intent, left=side(intent.left), right=side(intent.right))
