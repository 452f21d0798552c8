"""Traffic with less variation: one pair of hosts, one pair of ports, or a few flows."""

import re
from dataclasses import replace

from v6t.base.errors import UsageError
from v6t.profiles.model import Kind, Role, Traffic, TrafficClass, Variable

_ADDRESS = re.compile(r"IP(v6)?(:\d+)?\.(src|dst)")


def find_variation(traffic: Traffic) -> tuple[bool, bool]:
    """Return whether the foreground has variables of ports only, and variables of addresses."""
    varying = set()
    for traffic_class in (c for c in traffic.classes if c.role is Role.FOREGROUND):
        far = _find_address_variables(traffic_class)
        for variable in traffic_class.list_drawn_variables():
            values = variable.values if variable.kind is Kind.LIST else (variable.top,)
            if any(int(value) != variable.first for value in values):
                varying.add(variable.name in far)
    return False in varying, True in varying


def hold_variables(traffic: Traffic, *, ports: bool, addresses: bool) -> Traffic:
    """Return the traffic with constant addresses, or with constants for variables of ports only."""

    def hold_class(traffic_class: TrafficClass) -> TrafficClass:
        far = _find_address_variables(traffic_class)
        return traffic_class.map_variables(
            lambda v: _make_constant(v) if (addresses if v.name in far else ports) else v
        )

    return replace(traffic, classes=tuple(map(hold_class, traffic.classes)))


def limit_flows(traffic: Traffic, count: int) -> Traffic:
    """Return the traffic limited to ``count`` flows per class.

    The first address variable with enough values distinguishes the flows, else a port variable; lists of
    equal length stay together. Raises UsageError if no variable has enough values.
    """
    return replace(traffic, classes=tuple(_reduce_flows(c, count) for c in traffic.classes))


def _reduce_flows(traffic_class: TrafficClass, count: int) -> TrafficClass:
    far, variables = _find_address_variables(traffic_class), traffic_class.list_drawn_variables()
    ranked = sorted(variables, key=lambda v: v.name not in far)
    chosen = next((v for v in ranked if _count_values(v) >= count), None)
    if chosen is None:
        if count == 1:
            return traffic_class
        most = max(map(_count_values, variables), default=1)
        name = f"{traffic_class.role.value} ({traffic_class.name})"
        problem = f"the {name} frames have at most {most:,} flows, not {count:,}"
        hint = "lower flows.counts, or let more hosts, customers or ports vary"
        raise UsageError(problem, hint, code="not-enough-addresses")
    varying = {chosen.name}
    if chosen.kind is Kind.LIST:
        varying |= {v.name for v in variables if len(v.values) == len(chosen.values)}
    return traffic_class.map_variables(
        lambda v: _take_first_values(v, count) if v.name in varying else _make_constant(v)
    )


def _find_address_variables(traffic_class: TrafficClass) -> set[str]:
    copied = traffic_class.copied_bits
    return {bits.variable.name for path, bits in copied if _ADDRESS.fullmatch(path)}


def _make_constant(variable: Variable) -> Variable:
    return Variable(variable.name, variable.width, Kind.LIST, values=(variable.first,))


def _count_values(variable: Variable) -> int:
    steps = (variable.top - variable.low) // variable.step
    return len(variable.values) if variable.kind is Kind.LIST else steps + 1


def _take_first_values(variable: Variable, count: int) -> Variable:
    if variable.kind is Kind.LIST:
        return replace(variable, values=tuple(int(v) for v in variable.values[:count]))
    return replace(variable, kind=Kind.INC, high=variable.low + (count - 1) * variable.step)
