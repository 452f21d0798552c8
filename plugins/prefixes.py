"""Prefixes and addresses: read them from text, and find the longest prefix of arrays of addresses."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import refuse_zone
from v6t.packets.arrays import U8
from v6t.plugins.addresses import refuse_unforwarded

Network = TypeVar("Network", IPv4Network, IPv6Network)
Address = TypeVar("Address", IPv4Address, IPv6Address)


def network6(text: str, what: str, setting: str = "") -> IPv6Network:
    """Read an IPv6 prefix; ``what`` names it in messages, ``setting`` is its parameter if that differs.

    Raises:
        UsageError: it is not a prefix, or it contains addresses that no device forwards.
    """
    return _read_network(IPv6Network, text, what, setting, partly=True)


def network4(text: str, what: str, setting: str = "") -> IPv4Network:
    """Read an IPv4 prefix, which may contain addresses that no device forwards; see :func:`network6`."""
    return _read_network(IPv4Network, text, what, setting, partly=False)


def hosts4(text: str, what: str, setting: str = "") -> IPv4Network:
    """Read an IPv4 prefix whose addresses are all those of hosts; see :func:`network6`."""
    return _read_network(IPv4Network, text, what, setting, partly=True)


def _read_network(
    kind: type[Network], text: str, what: str, setting: str, *, partly: bool
) -> Network:
    path = (setting or what,)
    try:
        network = kind(text)
    except ValueError as exc:
        version, example = (4, "192.0.2.0/24") if kind is IPv4Network else (6, "2001:db8::/40")
        hint = f"write it as {example}"
        with contextlib.suppress(ValueError):
            hint = f"did you mean {kind(text, strict=False)}?"
        problem = f"{what} '{text}' is not an IPv{version} prefix: {exc}"
        raise UsageError(problem, hint, path=path, code="not-a-prefix") from exc
    try:
        refuse_unforwarded(refuse_zone(network), partly=partly)
    except InvalidValue as exc:
        hint = "choose another prefix"
        raise UsageError(f"{what}: {exc}", hint, path=path, code=exc.code) from exc
    return network


def address4(text: str, what: str) -> IPv4Address:
    """Read an IPv4 address; ``what`` names it in messages."""
    return _read_address(IPv4Address, text, what)


def address6(text: str, what: str) -> IPv6Address:
    """Read an IPv6 address; ``what`` names it in messages."""
    return _read_address(IPv6Address, text, what)


def _read_address(kind: type[Address], text: str, what: str) -> Address:
    try:
        return refuse_zone(kind(text))
    except ValueError as exc:
        version = 4 if kind is IPv4Address else 6
        problem = f"{what} '{text}' is not an IPv{version} address"
        raise UsageError(problem, path=(what,), code="not-an-address") from exc


class LongestMatch:
    """Prefixes of one IP version, ready to be looked up."""

    def __init__(self, prefixes: Sequence[IPv4Network | IPv6Network]) -> None:
        """Sort distinct prefixes by length; :meth:`find` returns positions in them."""
        by_length: dict[int, list[int]] = {}
        for number, prefix in enumerate(prefixes):
            by_length.setdefault(prefix.prefixlen, []).append(number)
        self._levels: list[tuple[U8, NDArray[np.bytes_], NDArray[np.int64]]] = []
        for length in sorted(by_length):
            numbers = by_length[length]
            packed = b"".join(prefixes[n].network_address.packed for n in numbers)
            octets = prefixes[numbers[0]].max_prefixlen // 8
            # fixed-length strings compare like big-endian numbers, of 128 bits too
            keys = np.frombuffer(packed, dtype=f"S{octets}")
            order = np.argsort(keys, kind="stable")
            mask = np.frombuffer(prefixes[numbers[0]].netmask.packed, dtype=np.uint8)
            self._levels.append((mask, keys[order], np.array(numbers, dtype=np.int64)[order]))

    def find(self, addresses: U8) -> NDArray[np.int64]:
        """Find the longest prefix that contains each address ``(n, 4 or 16)``: its position, -1 for none."""
        indices = np.full(len(addresses), -1, dtype=np.int64)
        for mask, keys, numbers in self._levels:
            wanted = np.ascontiguousarray(addresses & mask).view(keys.dtype)[:, 0]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            np.copyto(indices, numbers[place], where=hit)
        return indices
