"""Files of other testers turned into run.yaml and testbed.yaml, every parameter accounted for."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.files import SETTINGS_OCTETS, explain_read_error, read_text
from v6t.base.text import find_similar_names
from v6t.core.config.examples import write_files
from v6t.core.config.yaml_file import to_yaml

POLICIES = {"0": "fixed", "1": "inc", "2": "dec", "3": "random"}
"""How a value varies, in the numbers of siitperf and Mapperf."""


@dataclass(frozen=True)
class Given:
    """One line of a foreign file.

    Attributes:
        name: of the parameter, as it is spelt there.
        value: its text.
        line: number, from 1.
    """

    name: str
    value: str
    line: int


@dataclass
class Imported:
    """What a foreign file becomes.

    Attributes:
        run: ``run.yaml`` as values.
        testbed: ``testbed.yaml`` as values.
        became: parameter and what became of it, in the order of the file.
        remarks: what the file does not say and was chosen, and what works differently here.
    """

    run: dict[str, Any] = field(default_factory=dict)
    testbed: dict[str, Any] = field(default_factory=dict)
    became: list[tuple[Given, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Parameters:
    """The parameters of a foreign file; asking for one notes what became of it."""

    def __init__(self, path: Path, known: Iterable[str], aliases: Mapping[str, str]) -> None:
        """Read the file.

        Args:
            path: the file.
            known: names of all parameters.
            aliases: other spellings, lower case, and the names they stand for.

        Raises:
            UsageError: it cannot be read, or holds none of the parameters.
        """
        self.path = path
        self._given: dict[str, Given] = {}
        self._became: dict[str, str] = {}
        self.unknown: list[Given] = []
        spelt = {name.lower(): name for name in known} | dict(aliases)
        for given in _lines(path):
            name = spelt.get(given.name.lower())
            if name is None:
                self.unknown.append(given)
            else:
                self._given[name] = given
        if not self._given:
            raise UsageError(
                f"{path} does not contain a known parameter",
                "is it the right file?",
                code="wrong-kind-of-file",
            )
        self._spelt = spelt

    def text(self, name: str, default: str, became: str) -> str:
        """Read the value of a parameter.

        Args:
            name: of the parameter.
            default: where the file does not give it.
            became: what it is here, for the list at the end of ``run.yaml``.
        """
        given = self._given.get(name)
        if given is None:
            return default
        self._became[name] = became
        return given.value

    def address(self, name: str, version: str, default: str, became: str) -> str:
        """Read an address of one IP version.

        Raises:
            UsageError: it is none.
        """
        value = self.text(name, default, became)
        try:
            return str(IPv6Address(value) if version == "6" else IPv4Address(value))
        except ValueError as exc:
            given = self._given[name]
            where = f"{self.path}:{given.line}"
            raise UsageError(
                f"{where}: {given.name} is not an IPv{version} address: {value}",
                code="not-an-address",
            ) from exc

    def refuse(self, name: str, reason: str, hint: str) -> UsageError:
        """Make the error for a parameter of the file whose value cannot be converted."""
        given = self._given[name]
        return UsageError(
            f"{self.path}:{given.line}: {given.name} {given.value}: {reason}",
            hint,
            code="invalid-foreign-file",
        )

    def choice(self, name: str, default: str, became: str, values: Iterable[str]) -> str:
        """Read a parameter that is one of few values.

        Raises:
            UsageError: it is another one.
        """
        value = self.text(name, default, became)
        if value not in values:
            given = self._given[name]
            raise UsageError(
                f"{self.path}:{given.line}: {given.name} cannot be {value}",
                "one of " + ", ".join(values),
                code="invalid-foreign-file",
            )
        return value

    def number(self, name: str, default: int, became: str) -> int:
        """Read a whole number, decimal or hexadecimal.

        Raises:
            UsageError: it is none.
        """
        value = self.text(name, str(default), became)
        try:
            return int(value, 0)
        except ValueError as exc:
            given = self._given[name]
            raise UsageError(
                f"{self.path}:{given.line}: {given.name} is not a number: {value}",
                code="not-a-number",
            ) from exc

    def turned(self, others: Mapping[str, str]) -> Parameters:
        """Return the same file with the values of these names exchanged.

        Args:
            others: name and the one in its place.
        """
        made = copy.copy(self)
        made._given = {others.get(name, name): given for name, given in self._given.items()}
        made._became = {others.get(name, name): what for name, what in self._became.items()}
        return made

    def has(self, name: str) -> bool:
        """Whether the file gives the parameter."""
        return name in self._given

    def explain(self, names: Iterable[str], why: str) -> None:
        """Parameters that have nothing that stands for them here."""
        for name in names:
            if name in self._given:
                self._became.setdefault(name, why)

    def became(self) -> list[tuple[Given, str]]:
        """Every parameter of the file and what became of it.

        Raises:
            UsageError: one was forgotten, which would be a defect of this program.
        """
        found = [(g, self._became.get(name, "")) for name, g in self._given.items()]
        for given in self.unknown:
            near = find_similar_names(given.name.lower(), self._spelt)
            hint = f"; did you mean {self._spelt[near[0]]}?" if near else ""
            found.append((given, f"not known to v6t, left out{hint}"))
        return sorted(found, key=lambda pair: pair[0].line)


def migrate(source: Path, read: Callable[[Path], Imported], directory: Path, tool: str) -> Imported:
    """Turn a foreign file into run.yaml and testbed.yaml; nothing is overwritten.

    Args:
        source: the foreign file.
        read: what reads it.
        directory: where to write.
        tool: whose file it is.

    Raises:
        UsageError: the file makes no run, or a target exists.
    """
    found = read(source)  # before anything is imported that takes long: a bad file is told at once
    from v6t.core.config.resolve import resolve_and_bind
    from v6t.core.runs.plan import plan

    texts = {"run.yaml": _run_text(found, source, tool), "testbed.yaml": _bed_text(found, source)}
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in texts.items():
            (Path(scratch) / name).write_text(text, encoding="utf-8")
        try:
            plan(resolve_and_bind(Path(scratch) / "run.yaml", Path(scratch) / "testbed.yaml"))
        except UsageError as exc:
            message = exc.message.replace(f"{scratch}/", "")
            raise UsageError(
                f"{source} cannot be converted to a run: {message}",
                exc.hint,
                code="wrong-kind-of-file",
            ) from exc
    write_files({directory / name: text for name, text in texts.items()})
    return found


def ports(
    parameters: Parameters, policy: str, prefix: str, here: str, bounds: tuple[int, int]
) -> Any:
    """Read a range of ports: how it varies, smallest, largest."""
    kind = POLICIES[parameters.choice(policy, "0", f"params.{here}.policy", POLICIES)]
    low = parameters.number(f"{prefix}-min", bounds[0], f"params.{here}.min")
    high = parameters.number(f"{prefix}-max", bounds[1], f"params.{here}.max")
    return {"policy": kind} if kind == "fixed" else {"policy": kind, "min": low, "max": high}


def modes(parameters: Parameters, forward: str, reverse: str) -> list[str]:
    """Directions under load.

    Raises:
        UsageError: none is.
    """
    ways = [parameters.choice(name, "1", "modes", ("0", "1")) == "1" for name in (forward, reverse)]
    if not any(ways):
        raise UsageError(
            f"{parameters.path}: {forward} and {reverse} are both 0: nothing is sent",
            code="invalid-foreign-file",
        )
    return ["bidirectional"] if all(ways) else ["forward" if ways[0] else "reverse"]


def _lines(path: Path) -> list[Given]:
    try:
        text = read_text(path, SETTINGS_OCTETS)
    except OSError as exc:
        raise explain_read_error(path, exc) from exc
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise UsageError(
                f"{path}:{number}: expected a parameter and its value, not '{line.strip():.40}'",
                code="invalid-foreign-file",
            )
        found.append(Given(words[0], words[1], number))
    return found


def _run_text(found: Imported, source: Path, tool: str) -> str:
    lines = [
        f"# From {tool}'s {source.name}. `v6t run run.yaml --testbed testbed.yaml` measures;",
        "# with --dry-run it says how long that takes and what the device must be.",
        to_yaml(found.run).rstrip(),
        "# What the file does not say, and what is different here:",
        *(f"#   {remark}" for remark in found.remarks),
        "#",
        f"# What became of each parameter of {source.name}:",
        *(f"#   {g.name} {g.value} -> {what}" for g, what in found.became),
    ]
    return "\n".join(lines) + "\n"


def _bed_text(found: Imported, source: Path) -> str:
    lines = [
        f"# From {source.name}. Any tester and device can be named here: `v6t init` writes an example.",
        to_yaml(found.testbed).rstrip(),
    ]
    return "\n".join(lines) + "\n"
