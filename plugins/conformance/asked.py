"""What a technology of queries says of its zone: names, addresses and records that fit together."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.unique import sort_unique

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

NAMES = 1000


def asked(plugin: Technology) -> Iterator[str]:
    """What is wrong with its zone."""
    zone = plugin.zone
    if zone is None:
        yield "it is of queries, and has no zone"
        return
    numbers = np.arange(0, zone.count, max(1, zone.count // NAMES))
    addresses = zone.addresses(numbers)
    if len(sort_unique(addresses)) != len(numbers):
        yield "two names spell the same address"
    records, own = zone.answers(addresses, 0.0), zone.answers(addresses, 1.0)
    if (records == own).all(axis=1).any():
        yield "a record of a name's own is the one the device makes: nobody could tell them apart"
    for record in records:
        record_address = IPv6Address(record.tobytes())
        if record_address.is_multicast or record_address.is_unspecified:
            yield f"{record_address} is no address of a host"
            break
    other = pickle.loads(pickle.dumps(plugin))  # noqa: S301  (made here)
    if other.zone != zone:
        yield "its zone is another one after pickling"
    intent = plugin.dut_intent()
    for side, address in (("left", zone.resolver), ("right", zone.asker)):
        if address not in [own.ip for own in getattr(intent, side).addresses]:
            yield f"the device has no address {address} on the {side}, where the zone has it"
