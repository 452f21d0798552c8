"""Places in a user's lines, and what a test puts into them. Nothing that is put there ends a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from v6t.base.errors import UsageError
from v6t.drivers.duts.console.manners import one_line
from v6t.drivers.duts.plan import Intent
from v6t.intent.device import LinkIntent

_PLACE = re.compile(r"\{([a-z][a-z0-9_.]*)(?::([a-z]+))?\}")
_FORMATS: Mapping[str, Callable[[str], str]] = {
    "ip": lambda v: str(ip_interface(v).ip),
    "length": lambda v: str(ip_interface(v).network.prefixlen),
    "mask": lambda v: str(ip_interface(v).netmask),
    "wildcard": lambda v: str(ip_interface(v).hostmask),
    "network": lambda v: str(ip_interface(v).network.network_address),
    "prefix": lambda v: str(ip_interface(v).network),
    "power": lambda v: str(1 << int(v)) if int(v) <= 128 else _no(v),
    "dots": lambda v: ".".join(_digits(v)[n : n + 4] for n in (0, 4, 8)),
    "dashes": lambda v: "-".join(_digits(v)[n : n + 2] for n in range(0, 12, 2)),
}
Values = Sequence[str]


class Places:
    """Values by name; a line is repeated for each of a name's, and those of a group go together."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}
        self._groups: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._values)

    def add(self, group: str, columns: Mapping[str, Iterable[object]]) -> None:
        """Add names whose values belong together, one line for each.

        Raises:
            UsageError: a value would end a line.
        """
        for name, values in columns.items():
            texts = tuple(map(str, values))
            for text in texts:
                try:
                    one_line(text)
                except ValueError as exc:
                    raise UsageError(
                        f"the value of {{{name}}} is not typed: {exc}", code="invalid-placeholder"
                    ) from exc
            self._values[name], self._groups[name] = texts, group

    def lines(self, texts: Iterable[str]) -> list[str]:
        """Lines with everything in its place."""
        return [row[0] for text in texts for row in self.rows([text])]

    def rows(
        self, texts: Sequence[str], quoted: Callable[[str], str] = lambda value: value
    ) -> Iterator[tuple[str, ...]]:
        """Texts that are repeated together for the values they name; not at all where there is none.

        Args:
            texts: of one row.
            quoted: what is done to values.

        Raises:
            UsageError: a place has no name that is known, or two belong to different groups; naming
                the first text.
        """
        try:
            yield from self._rows(texts, quoted)
        except UsageError as exc:
            raise UsageError(f"'{texts[0]:.200}': {exc.message}", exc.hint, code=exc.code) from exc

    def _rows(
        self, texts: Sequence[str], quoted: Callable[[str], str]
    ) -> Iterator[tuple[str, ...]]:
        names = [name for text in texts for name, _ in _PLACE.findall(text)]
        unknown = next((name for name in names if name not in self._values), None)
        if unknown is not None:
            raise UsageError(
                f"unknown placeholder {{{unknown}}} for this technology",
                f"known are {', '.join(self._values)}",
                code="invalid-placeholder",
            )
        several = {self._groups[name]: name for name in names if len(self._values[name]) > 1}
        if len(several) > 1:
            places = " and ".join(f"{{{name}}}" for name in several.values())
            raise UsageError(
                f"{places} cannot be combined in one line: each has several values",
                "a line is repeated for the values of one kind",
                code="invalid-placeholder",
            )
        counts = [len(self._values[name]) for name in names]
        for number in range(0 if 0 in counts else max(counts, default=1)):
            yield tuple(_PLACE.sub(lambda m, n=number: quoted(self._value(m, n)), t) for t in texts)

    def _value(self, match: re.Match[str], number: int) -> str:
        name, form = match.groups()
        values = self._values[name]
        value = values[number if len(values) > 1 else 0]
        if not form:
            return value
        if form not in _FORMATS:
            raise UsageError(
                f"{match[0]}: unknown form '{form}'",
                f"forms are {', '.join(_FORMATS)}",
                code="invalid-placeholder",
            )
        try:
            return _FORMATS[form](value)
        except ValueError as exc:
            raise UsageError(
                f"{match[0]}: {value} does not have this form: {exc}", code="invalid-placeholder"
            ) from exc


def places_of(intent: Intent, interfaces: Mapping[str, str]) -> Places:
    """Return the values that a test can put into lines.

    Args:
        intent: what the device shall be.
        interfaces: its own names of them, by side.
    """
    places = Places()
    places.add("", {"technology": [intent.technology]})
    for side in ("left", "right"):
        link, of = getattr(intent.links, side), getattr(intent, side)
        single = {"": interfaces[side], ".dut_mac": link.dut_mac, ".tester_mac": link.tester_mac,
                  ".mtu": link.mtu, ".vlan": link.vlan or 0}  # fmt: skip
        places.add("", {f"{side}{name}": [value] for name, value in single.items()})
        for version in (4, 6):
            for group, columns in _of_version(of, version).items():
                named = {f"{side}.{n}{version}": values for n, values in columns.items()}
                places.add(f"{side}.{group}{version}", named)
    sessions = intent.requirements.sessions
    settings = {**intent.configuration.to_json(), **({"sessions": sessions} if sessions else {})}
    for group, name, values in _settings("settings", settings):
        places.add(group, {name: values})
    return places


def _of_version(side: LinkIntent, version: int) -> dict[str, dict[str, Sequence[object]]]:
    hosts = {a: mac for a, mac in side.neighbors.items() if a.version == version}
    routes = {net: via for net, via in side.routes.items() if net.version == version}
    return {
        "address": {"address": [a for a in side.addresses if a.version == version]},
        "host": {"host": list(hosts), "mac": list(hosts.values())},
        "route": {"route": list(routes), "via": list(routes.values())},
    }


def _settings(name: str, value: Any) -> Iterator[tuple[str, str, list[object]]]:
    """Group, name and values of everything that a technology says."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _settings(f"{name}.{key}", inner)
    elif isinstance(value, (list, tuple)) and all(isinstance(v, Mapping) for v in value):
        for key in dict.fromkeys(key for each in value for key in each):
            column = [v.get(key, "") for v in value]
            if not any(isinstance(v, (Mapping, list, tuple)) for v in column):
                yield name, f"{name}.{key}", column
    elif isinstance(value, (list, tuple)):
        if not any(isinstance(v, (Mapping, list, tuple)) for v in value):
            yield name, name, list(value)
    elif value is not None:
        yield "", name, [value]


def _digits(mac: str) -> str:
    digits = re.sub(r"[^0-9a-f]", "", mac.lower())
    return digits if len(digits) == 12 else _no(mac)


def _no(value: str) -> str:
    raise ValueError(f"'{value}'")
