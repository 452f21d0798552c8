"""Files of other testers turned into run.yaml and testbed.yaml; every parameter is accounted for."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, NamedTuple

from v6t.base.errors import UsageError
from v6t.base.files import SETTINGS_OCTETS, explain_read_error, read_text
from v6t.base.text import find_similar_names
from v6t.core.config.yaml_file import to_yaml, write_files

POLICIES = {"0": "fixed", "1": "inc", "2": "dec", "3": "random"}
"""How a value varies, in the numbers of siitperf and Mapperf."""
ABSENT = {
    "core_list": "none: tester.options.core_list in the testbed file",
    "memory": "none: TRex configures its memory itself",
    "promiscuous": "none: the tester always receives promiscuously",
}
"""What became of parameters that have no counterpart here."""


class Given(NamedTuple):
    """One line of a foreign file, with its number from 1."""

    name: str
    value: str
    line: int


class Migration:
    """A foreign file that becomes a run; reading a parameter notes what became of it.

    Attributes:
        path: the file.
        run, testbed: content of ``run.yaml`` and of ``testbed.yaml``.
        remarks: choices that the file does not make, and differences of behaviour.
    """

    def __init__(self, path: Path, known: Iterable[str], aliases: Mapping[str, str]) -> None:
        """Read the file; ``aliases`` are other spellings of known names, in lower case."""
        self.path = path
        self.run: dict[str, Any] = {}
        self.testbed: dict[str, Any] = {}
        self.remarks: list[str] = []
        self._spelt = {name.lower(): name for name in known} | dict(aliases)
        self._given: dict[str, Given] = {}
        self._targets: dict[str, str] = {}
        self._unknown: list[Given] = []
        for given in _read_lines(path):
            name = self._spelt.get(given.name.lower())
            if name is None:
                self._unknown.append(given)
            else:
                self._given[name] = given
        if not self._given:
            problem = f"{path} does not contain a known parameter"
            raise UsageError(problem, "is it the right file?", code="wrong-kind-of-file")

    def has(self, name: str) -> bool:
        """Whether the file gives the parameter."""
        return name in self._given

    def text(self, name: str, default: str, target: str) -> str:
        """Read a parameter, which becomes the setting ``target``."""
        if name not in self._given:
            return default
        self._targets[name] = target
        return self._given[name].value

    def choice(self, name: str, default: str, target: str, values: Iterable[str]) -> str:
        """Read a parameter that is one of few values."""
        value = self.text(name, default, target)
        if value not in values:
            raise self.refuse(name, "is not a possible value", "one of " + ", ".join(values))
        return value

    def number(self, name: str, default: int, target: str) -> int:
        """Read a whole number, decimal or hexadecimal."""
        try:
            return int(self.text(name, str(default), target), 0)
        except ValueError as exc:
            raise self.refuse(name, "is not a number", code="not-a-number") from exc

    def address(self, name: str, version: str, default: str, target: str) -> str:
        """Read an address of an IP version."""
        value = self.text(name, default, target)
        try:
            return str(IPv6Address(value) if version == "6" else IPv4Address(value))
        except ValueError as exc:
            problem = f"is not an IPv{version} address"
            raise self.refuse(name, problem, code="not-an-address") from exc

    def params(self, table: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
        """Read parameters of the technology: by setting, their names and defaults, texts or numbers."""
        return {
            setting: (self.number if isinstance(default, int) else self.text)(
                name, default, f"params.{setting}"
            )
            for setting, (name, default) in table.items()
        }

    def prefix(self, setting: str, name: str, default: str, length: int) -> str:
        """Read a prefix, whose length is another parameter."""
        target = f"params.{setting}"
        first = self.text(f"{name}-Prefix", default, target)
        return f"{first}/{self.number(f'{name}-prefix-length', length, target)}"

    def ports(self, policy: str, name: str, setting: str, low: int, high: int) -> dict[str, Any]:
        """Read a range of ports: how it varies, and its bounds."""
        target = f"params.{setting}"
        kind = POLICIES[self.choice(policy, "0", f"{target}.policy", POLICIES)]
        bounds = self.bounds(name, target, low, high)
        return {"policy": kind} if kind == "fixed" else {"policy": kind, **bounds}

    def bounds(self, name: str, target: str, low: int, high: int) -> dict[str, int]:
        """Read the smallest and the largest value of a range."""
        return {
            end: self.number(f"{name}-{end}", default, f"{target}.{end}")
            for end, default in (("min", low), ("max", high))
        }

    def modes(self, forward: str, reverse: str) -> list[str]:
        """Read the directions under load."""
        loaded = [self.choice(name, "1", "modes", ("0", "1")) == "1" for name in (forward, reverse)]
        if not any(loaded):
            problem = f"{self.path}: {forward} and {reverse} are both 0: nothing is sent"
            raise UsageError(problem, code="invalid-foreign-file")
        return ["bidirectional"] if all(loaded) else ["forward" if loaded[0] else "reverse"]

    def links(self, tester: str, device: str, letters: str = "LR") -> dict[str, dict[str, str]]:
        """Read the MAC addresses; the names have ``{}`` where the letter of the side stands."""
        return {
            side: {
                end: self.text(
                    name.format(letter),
                    f"02:00:00:00:0{number}:0{last}",
                    f"testbed: links.{side}.{end}",
                )
                for end, name, last in (("tester_mac", tester, 2), ("dut_mac", device, 1))
            }
            for number, (side, letter) in enumerate(zip(("left", "right"), letters, strict=True), 1)
        }

    def refuse(
        self, name: str, problem: str, hint: str = "", code: str = "invalid-foreign-file"
    ) -> UsageError:
        """Make the error for a parameter of the file whose value cannot be converted."""
        given = self._given[name]
        text = f"{self.path}:{given.line}: {given.name} {given.value}: {problem}"
        return UsageError(text, hint, code=code)

    def swap(self, exchange: Callable[[str], str]) -> Migration:
        """Return the same file with the values of names exchanged."""
        swapped = copy.copy(self)
        swapped._given = {exchange(name): given for name, given in self._given.items()}
        swapped._targets = {exchange(name): what for name, what in self._targets.items()}
        return swapped

    def explain(self, why: str, *names: str) -> None:
        """Note why parameters have no counterpart, unless they became something."""
        for name in names:
            if name in self._given:
                self._targets.setdefault(name, why)

    @property
    def became(self) -> list[tuple[Given, str]]:
        """Every parameter of the file and what became of it, in the order of the file."""
        rows = [(given, self._targets.get(name, "")) for name, given in self._given.items()]
        for given in self._unknown:
            near = find_similar_names(given.name.lower(), self._spelt)
            hint = f"; did you mean {self._spelt[near[0]]}?" if near else ""
            rows.append((given, f"not known to v6t, left out{hint}"))
        return sorted(rows, key=lambda row: row[0].line)

    def to_texts(self, tool: str) -> dict[str, str]:
        """Return both files as texts."""
        name = self.path.name
        run = [
            f"# From {tool}'s {name}. `v6t run run.yaml --testbed testbed.yaml` measures;",
            "# with --dry-run it says how long that takes and what the device must be.",
            to_yaml(self.run).rstrip(),
            "# What the file does not say, and what is different here:",
            *(f"#   {remark}" for remark in self.remarks),
            "#",
            f"# What became of each parameter of {name}:",
            *(f"#   {g.name} {g.value} -> {what}" for g, what in self.became),
        ]
        testbed = [
            f"# From {name}. Any tester and device can be named here: `v6t init` writes an example.",
            to_yaml(self.testbed).rstrip(),
        ]
        files = {"run.yaml": run, "testbed.yaml": testbed}
        return {file: "\n".join(lines) + "\n" for file, lines in files.items()}


def migrate(
    source: Path, read: Callable[[Path], Migration], directory: Path, tool: str
) -> Migration:
    """Turn a tool's file into run.yaml and testbed.yaml; nothing is overwritten."""
    migration = read(source)  # before the slow imports: errors in the file come at once
    from v6t.core.config.resolve import resolve_and_bind
    from v6t.core.runs.plan import plan

    texts = migration.to_texts(tool)
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
    return migration


def _read_lines(path: Path) -> Iterable[Given]:
    try:
        text = read_text(path, SETTINGS_OCTETS)
    except OSError as exc:
        raise explain_read_error(path, exc) from exc
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) == 2:
            yield Given(words[0], words[1], number)
        elif words:
            raise UsageError(
                f"{path}:{number}: expected a parameter and its value, not '{line.strip():.40}'",
                code="invalid-foreign-file",
            )
