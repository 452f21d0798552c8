"""Devices made of several parts one after the other, and how an intent lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any, TypeVar

from v6t.intent.families import ChainConfig, DeviceConfig
from v6t.plugins.base import DeviceIntent, Link, Links, Part, PluginParams

_Params = TypeVar("_Params", bound=PluginParams)

TAYGA = {"queue_length": 5000, "mend_checksums": True}
"""Options of a TAYGA that is followed by a stateful part, which drops packets with a wrong checksum."""

CHAIN = "chain"  # the driver that combines the drivers of the parts
CONFIGURATION = ChainConfig()
INNER_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
INNER_LEFT, INNER_RIGHT = IPv4Interface("192.168.20.1/30"), IPv4Interface("192.168.20.2/30")
"""The cable between two parts of one device."""


def chain_intent(
    technology: str,
    parts: Sequence[Part],
    links: Links,
    alternatives: Sequence[Part] = (),
    configuration: DeviceConfig = CONFIGURATION,
) -> DeviceIntent:
    """Build the intent of a chain; ``alternatives`` are parts that can each stand for several others.

    ``configuration`` is that of a single device in place of the chain.
    """
    return DeviceIntent(
        technology,
        configuration,
        links,
        parts[0].intent.left,
        parts[-1].intent.right,
        tuple(part.part_intent for part in parts),
        tuple(part.part_intent for part in alternatives),
    )


def part_params(model: type[_Params], whole: PluginParams, **own: Any) -> _Params:
    """Make the parameters of a part: all that the whole has by the same name, and its ``own``."""
    shared = type(whole).model_fields.keys() & model.model_fields.keys()
    return model(**{**{name: getattr(whole, name) for name in shared}, **own})


def describe_cable(left_mac: str, right_mac: str, mtu: int) -> tuple[Link, Link]:
    """Describe one cable between two parts, as the left one and as the right one sees it."""
    seen = Link(tester_mac=right_mac, dut_mac=left_mac, mtu=mtu)
    return seen, replace(seen, tester_mac=left_mac, dut_mac=right_mac)
