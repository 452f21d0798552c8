"""Placeholders in a user's lines, and the values that a test puts there."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_interface, ip_network
from typing import Any

from v6t.base.errors import InvalidValue, UsageError
from v6t.drivers.duts.kinds.network_cli.options import check_one_line
from v6t.drivers.duts.plan import Intent

_PLACEHOLDER_PATTERN = re.compile(r"\{([a-z][a-z0-9_.]*)(?::([a-z]+))?\}")


def _format_mac(mac: str, group_size: int, separator: str) -> str:
    digits = re.sub(r"[^0-9a-f]", "", mac.lower())
    if len(digits) != 12:
        raise InvalidValue(f"'{mac}'", code="wrong-form")
    return separator.join(digits[n : n + group_size] for n in range(0, 12, group_size))


# formatters by the name of a form, as in ``{left.address4:mask}``
_FORMATTERS: Mapping[str, Callable[[str], str]] = {
    "ip": lambda v: str(ip_interface(v).ip),
    "length": lambda v: str(ip_interface(v).network.prefixlen),
    "mask": lambda v: str(ip_interface(v).netmask),
    "wildcard": lambda v: str(ip_interface(v).hostmask),
    "network": lambda v: str(ip_interface(v).network.network_address),
    "prefix": lambda v: str(ip_interface(v).network),
    "power": lambda v: str(1 << int(ip_network(f"::/{v}").prefixlen)),  # of up to 128
    "dots": lambda v: _format_mac(v, 4, "."),
    "dashes": lambda v: _format_mac(v, 2, "-"),
}


class Placeholders:
    """Placeholders and their values; a line is repeated for each row of a group of values."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, Sequence[str]]] = {}

    def add(self, group: str, columns: Mapping[str, Iterable[object]]) -> None:
        """Add placeholders to a group, each with its column of values."""
        for name, values in columns.items():
            try:
                self._values[name] = group, [check_one_line(str(value)) for value in values]
            except ValueError as exc:
                problem = f"the value of {{{name}}} is not typed: {exc}"
                raise UsageError(problem, code="invalid-placeholder") from exc

    def expand(self, texts: Iterable[str]) -> list[str]:
        """Return the lines that result from replacing the placeholders by values."""
        return [line for text in texts for (line,) in self.expand_rows([text], [str])]

    def expand_rows(
        self, texts: Sequence[str], quotes: Sequence[Callable[[str], str]]
    ) -> Iterator[tuple[str, ...]]:
        """Yield the texts with quoted values in place of placeholders, once for each row of values."""
        try:
            for row in range(self._count_rows(texts)):
                yield tuple(map(partial(self._fill_in, row), texts, quotes))
        except UsageError as exc:
            raise UsageError(f"'{texts[0]:.200}': {exc.message}", exc.hint, code=exc.code) from exc

    def _fill_in(self, row: int, text: str, quote: Callable[[str], str]) -> str:
        return _PLACEHOLDER_PATTERN.sub(lambda match: quote(self._get_value(match, row)), text)

    def _count_rows(self, texts: Sequence[str]) -> int:
        names = [name for text in texts for name, _ in _PLACEHOLDER_PATTERN.findall(text)]
        for name in names:
            if name not in self._values:
                problem = f"unknown placeholder {{{name}}} for this technology"
                hint = f"known are {', '.join(self._values)}"
                raise UsageError(problem, hint, code="invalid-placeholder")
        counts = {name: len(self._values[name][1]) for name in names}
        several = {self._values[name][0]: name for name in names if counts[name] > 1}
        if len(several) > 1:
            places = " and ".join(f"{{{name}}}" for name in several.values())
            problem = f"{places} cannot be combined in one line: each has several values"
            hint = "a line is repeated for the values of one kind"
            raise UsageError(problem, hint, code="invalid-placeholder")
        return 0 if 0 in counts.values() else max(counts.values(), default=1)

    def _get_value(self, match: re.Match[str], row: int) -> str:
        name, form = match.groups()
        values = self._values[name][1]
        value = values[row if len(values) > 1 else 0]
        if form and form not in _FORMATTERS:
            hint = f"forms are {', '.join(_FORMATTERS)}"
            raise UsageError(f"{match[0]}: unknown form '{form}'", hint, code="invalid-placeholder")
        try:
            return _FORMATTERS[form](value) if form else value
        except ValueError as exc:
            problem = f"{match[0]}: {value} does not have this form: {exc}"
            raise UsageError(problem, code="invalid-placeholder") from exc


def collect_placeholders(intent: Intent, interfaces: Mapping[str, str]) -> Placeholders:
    """Return the placeholders for an intent's addresses, hosts, routes and settings."""
    places = Placeholders()
    places.add("", {"technology": [intent.technology]})
    for side in ("left", "right"):
        link, ends = getattr(intent.links, side), getattr(intent, side)
        single = {"": interfaces[side], ".dut_mac": link.dut_mac, ".tester_mac": link.tester_mac,
                  ".mtu": link.mtu, ".vlan": link.vlan or 0}  # fmt: skip
        places.add("", {f"{side}{name}": [value] for name, value in single.items()})
        for n in (4, 6):
            hosts = {a: mac for a, mac in ends.neighbors.items() if a.version == n}
            routes = {net: via for net, via in ends.routes.items() if net.version == n}
            groups: list[dict[str, Iterable[object]]] = [
                {"address": [a for a in ends.addresses if a.version == n]},
                {"host": hosts, "mac": hosts.values()},
                {"route": routes, "via": routes.values()},
            ]
            for group in groups:
                columns = {f"{side}.{name}{n}": values for name, values in group.items()}
                places.add(next(iter(columns)), columns)
    _add_settings(places, "settings", intent.configuration.to_json())
    if sessions := intent.requirements.sessions:
        places.add("", {"settings.sessions": [sessions]})
    return places


def _add_settings(placeholders: Placeholders, name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _add_settings(placeholders, f"{name}.{key}", inner)
    elif isinstance(value, list):
        columns = {name: value}
        if all(isinstance(row, dict) for row in value):
            keys = dict.fromkeys(key for row in value for key in row)
            columns = {f"{name}.{key}": [row.get(key, "") for row in value] for key in keys}
        for column, values in columns.items():
            if not any(isinstance(v, (dict, list)) for v in values):
                placeholders.add(name, {column: values})
    elif value is not None:
        placeholders.add("", {name: [value]})
