"""Addresses and prefixes out of text, with a sentence for what is none."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeVar

from v6t.base.errors import InvalidValue, UsageError
from v6t.base.zones import refuse_zone
from v6t.plugins.addresses import refuse_unforwarded

Network = TypeVar("Network", IPv4Network, IPv6Network)


def network6(text: str, what: str, setting: str = "") -> IPv6Network:
    """An IPv6 prefix; ``what`` names it in errors, ``setting`` is its parameter if that is another."""
    try:
        network = IPv6Network(text)
    except ValueError as exc:
        raise UsageError(
            f"{what} '{text}' is not an IPv6 prefix: {exc}",
            _masked6(text),
            path=(setting or what,),
            code="not-a-prefix",
        ) from exc
    return _forwarded(network, what, setting, partly=True)


def network4(text: str, what: str, setting: str = "") -> IPv4Network:
    """An IPv4 prefix; ``what`` names it in errors, ``setting`` is its parameter if that is another."""
    try:
        network = IPv4Network(text)
    except ValueError as exc:
        raise UsageError(
            f"{what} '{text}' is not an IPv4 prefix: {exc}",
            _masked4(text),
            path=(setting or what,),
            code="not-a-prefix",
        ) from exc
    return _forwarded(network, what, setting)


def hosts4(text: str, what: str, setting: str = "") -> IPv4Network:
    """An IPv4 prefix all of whose addresses are those of hosts; see :func:`network4`."""
    return _forwarded(network4(text, what, setting), what, setting, partly=True)


def address4(text: str, what: str) -> IPv4Address:
    """An IPv4 address; ``what`` names it in errors."""
    try:
        return IPv4Address(text)
    except ValueError as exc:
        raise UsageError(
            f"{what} '{text}' is not an IPv4 address", path=(what,), code="not-an-address"
        ) from exc


def address6(text: str, what: str) -> IPv6Address:
    """An IPv6 address; ``what`` names it in errors."""
    try:
        return refuse_zone(IPv6Address(text))
    except ValueError as exc:
        raise UsageError(
            f"{what} '{text}' is not an IPv6 address", path=(what,), code="not-an-address"
        ) from exc


def _forwarded(network: Network, what: str, setting: str, *, partly: bool = False) -> Network:
    try:
        refuse_unforwarded(refuse_zone(network), partly=partly)
    except InvalidValue as exc:
        raise UsageError(
            f"{what}: {exc}",
            "choose another prefix",
            path=(setting or what,),
            code=exc.code,
        ) from exc
    return network


def _masked6(text: str) -> str:
    try:
        return f"did you mean {IPv6Network(text, strict=False)}?"
    except ValueError:
        return "write it as 2001:db8::/40"


def _masked4(text: str) -> str:
    try:
        return f"did you mean {IPv4Network(text, strict=False)}?"
    except ValueError:
        return "write it as 192.0.2.0/24"
