"""Zone identifiers of IPv6 addresses (RFC 4007), which no setting of v6t accepts."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network
from typing import TypeVar

from v6t.base.errors import InvalidValue

Value = TypeVar("Value")


def refuse_zone(value: Value) -> Value:
    """Return a value if no address in it has a zone identifier.

    A zone identifier names an interface of one machine: it means nothing on the device and is not part of
    a frame.

    Raises:
        ValueError: an address has one.
    """
    if isinstance(value, Mapping):
        refuse_zone(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            refuse_zone(each)
    address = value.network_address if isinstance(value, IPv6Network) else value
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise InvalidValue(
            f"{value} has a zone identifier, which is valid on one machine only; delete %{address.scope_id}",
            code="not-an-address",
        )
    return value
