"""The same traffic with less that varies in it: one pair of hosts, one pair of ports, some flows.

A variable that is held keeps its first value in every field it is bound to, so that what remains
is still the technology's traffic: a held customer keeps an address and ports that belong together.
"""

from __future__ import annotations

import re
from dataclasses import replace

from v6t.base.errors import UsageError
from v6t.profiles.model import Kind, Traffic, TrafficClass, Variable

_ADDRESS = re.compile(r"IP(v6)?(:\d+)?\.(src|dst)")


def varies(traffic: Traffic) -> tuple[bool, bool]:
    """Whether ports alone, and whether addresses vary in the foreground.

    A variable that reaches an address is one of addresses, even if it decides ports, too: the
    port set identifier of a customer is one.
    """
    ports = addresses = False
    for traffic_class in traffic.classes:
        if traffic_class.role.value != "foreground":
            continue
        far = _of_addresses(traffic_class)
        for variable in traffic_class.drawn_variables():
            if variable.first != last_value(variable):
                addresses |= variable.name in far
                ports |= variable.name not in far
    return ports, addresses


def held(traffic: Traffic, *, ports: bool, addresses: bool) -> Traffic:
    """The traffic with constant ports, constant addresses, or both.

    Args:
        traffic: what a plugin describes.
        ports: hold the variables that reach ports alone.
        addresses: hold the variables that reach an address.
    """
    return replace(traffic, classes=tuple(_held(c, ports, addresses) for c in traffic.classes))


def last_value(variable: Variable) -> int:
    """Another value, where it takes more than one."""
    if variable.kind is not Kind.LIST:
        return variable.top
    first = int(variable.values[0])
    return next((int(v) for v in variable.values if int(v) != first), first)


def _held(traffic_class: TrafficClass, ports: bool, addresses: bool) -> TrafficClass:
    far = _of_addresses(traffic_class)
    return traffic_class.map_variables(
        lambda v: _constant(v) if (addresses if v.name in far else ports) else v
    )


def _constant(variable: Variable) -> Variable:
    return Variable(variable.name, variable.width, Kind.LIST, values=(variable.first,))


def _of_addresses(traffic_class: TrafficClass) -> set[str]:
    return {b.variable for b in traffic_class.all_bindings() if _ADDRESS.fullmatch(b.field)}


def flows(traffic: Traffic, count: int) -> Traffic:
    """The traffic reduced to so many flows, each with every ``count``-th frame of its class.

    What tells the flows apart is the first variable of an address with enough values, else one of
    ports; lists that go on together stay together.

    Args:
        traffic: what a plugin describes.
        count: flows of every class (RFC 8219 section 10).

    Raises:
        UsageError: no variable has so many values.
    """
    return replace(traffic, classes=tuple(_flows(c, count) for c in traffic.classes))


def _flows(traffic_class: TrafficClass, count: int) -> TrafficClass:
    far = _of_addresses(traffic_class)
    ranked = sorted(traffic_class.drawn_variables(), key=lambda v: v.name not in far)
    chosen = next((v for v in ranked if _size(v) >= count), None)
    if chosen is None:
        if count == 1:
            return traffic_class
        most = max((_size(v) for v in traffic_class.drawn_variables()), default=1)
        raise UsageError(
            f"the {traffic_name(traffic_class)} frames have at most {most:,} flows, not {count:,}",
            "lower flows.counts, or let more hosts, customers or ports vary",
            code="not-enough-addresses",
        )
    together = {
        v.name
        for v in traffic_class.drawn_variables()
        if v.kind is Kind.LIST is chosen.kind and len(v.values) == len(chosen.values)
    } | {chosen.name}
    return traffic_class.map_variables(
        lambda v: _first(v, count) if v.name in together else _constant(v)
    )


def traffic_name(traffic_class: TrafficClass) -> str:
    """A class in words."""
    return f"{traffic_class.role.value} ({traffic_class.name})"


def _size(variable: Variable) -> int:
    if variable.kind is Kind.LIST:
        return len(variable.values)
    return (variable.top - variable.low) // variable.step + 1


def _first(variable: Variable, count: int) -> Variable:
    if variable.kind is Kind.LIST:
        return replace(variable, values=tuple(int(v) for v in variable.values[:count]))
    high = variable.low + (count - 1) * variable.step
    return replace(variable, kind=Kind.INC, high=high)
