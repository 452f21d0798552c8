"""Files of other testers turned into run.yaml and testbed.yaml; every parameter is accounted for."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, NamedTuple

from v6t.base.errors import UsageError
from v6t.base.files import SETTINGS_OCTETS, read_text
from v6t.base.text import find_similar_names
from v6t.core.config.yaml_file import YamlFile, to_yaml, write_files

# Policies by which a value varies, by their numbers in siitperf and Maptperf.
VARIATION_POLICIES = {"0": "fixed", "1": "inc", "2": "dec", "3": "random"}
NOT_USED = "not used"  # target of a known parameter for which v6t has no setting


class ForeignParameter(NamedTuple):
    """Parameter in a configuration file of another tester."""

    name: str
    value: str
    line: int  # counted from 1


class Migration:
    """Conversion of another tester's configuration file to a run file and a testbed file."""

    def __init__(self, path: Path, known: Iterable[str], aliases: Mapping[str, str]) -> None:
        """Read the file; ``aliases`` are other spellings of known names, in lower case."""
        self.path = path
        self.run: dict[str, Any] = {}  # content of ``run.yaml``
        self.testbed: dict[str, Any] = {}  # content of ``testbed.yaml``
        self.comments: list[str] = []  # choices that the file does not make, and differences
        self._spellings = {name.lower(): name for name in known} | dict(aliases)
        self._parameters: dict[str, ForeignParameter] = {}
        self._targets: dict[str, str] = {}
        self._unknown: list[ForeignParameter] = []
        for parameter in _read_parameters(path):
            if (name := self._spellings.get(parameter.name.lower())) is None:
                self._unknown.append(parameter)
            else:
                self._parameters[name] = parameter
        if not self._parameters:
            problem = f"{path} does not contain a known parameter"
            raise UsageError(problem, "is it the right file?", code="wrong-kind-of-file")

    def has_parameter(self, name: str) -> bool:
        return name in self._parameters

    def read_string(self, name: str, default: str, target: str) -> str:
        """Return the value of a parameter, or ``default``; record ``target`` as its v6t setting."""
        if name not in self._parameters:
            return default
        self._targets[name] = target
        return self._parameters[name].value

    def read_choice(self, name: str, default: str, target: str, values: Iterable[str]) -> str:
        """Return the value of a parameter; refuse one that is not among ``values``."""
        if (value := self.read_string(name, default, target)) not in values:
            raise self.make_error(name, "is not a possible value", "one of " + ", ".join(values))
        return value

    def read_policy(self, name: str, target: str, default: str = "0") -> str:
        """Return a parameter as a variation policy, such as ``random``."""
        return VARIATION_POLICIES[self.read_choice(name, default, target, VARIATION_POLICIES)]

    def read_int(self, name: str, default: int, target: str) -> int:
        """Return a decimal or hexadecimal parameter as an integer; see :meth:`read_string`."""
        try:
            return int(self.read_string(name, str(default), target), 0)
        except ValueError as exc:
            raise self.make_error(name, "is not a number", code="not-a-number") from exc

    def read_address(self, name: str, version: str, default: str, target: str) -> str:
        """Return a parameter as an address of an IP version; see :meth:`read_string`."""
        value = self.read_string(name, default, target)
        try:
            return str(IPv6Address(value) if version == "6" else IPv4Address(value))
        except ValueError as exc:
            problem = f"is not an IPv{version} address"
            raise self.make_error(name, problem, code="not-an-address") from exc

    def read_params(self, table: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
        """Read technology parameters; ``table`` maps each setting to a parameter's name and default."""
        values: dict[str, Any] = {}
        for setting, (name, default) in table.items():
            read = self.read_int if isinstance(default, int) else self.read_string
            values[setting] = read(name, default, f"params.{setting}")
        return values

    def read_prefix(self, setting: str, name: str, default: str, length: int) -> str:
        """Return the prefix of ``NAME-Prefix`` and ``NAME-prefix-length``; both have a default value."""
        target = f"params.{setting}"
        first = self.read_string(f"{name}-Prefix", default, target)
        return f"{first}/{self.read_int(f'{name}-prefix-length', length, target)}"

    def read_ports(
        self, policy: str, name: str, setting: str, low: int, high: int
    ) -> dict[str, Any]:
        """Return a port range: its policy and, unless it is fixed, its bounds."""
        target = f"params.{setting}"
        kind = self.read_policy(policy, f"{target}.policy")
        bounds = self.read_bounds(name, target, low, high)
        return {"policy": kind} if kind == "fixed" else {"policy": kind, **bounds}

    def read_bounds(self, name: str, target: str, low: int, high: int) -> dict[str, int]:
        return {
            end: self.read_int(f"{name}-{end}", default, f"{target}.{end}")
            for end, default in (("min", low), ("max", high))
        }

    def read_modes(self, forward: str, reverse: str) -> list[str]:
        values = [self.read_choice(n, "1", "modes", ("0", "1")) for n in (forward, reverse)]
        if values == ["0", "0"]:
            problem = f"{self.path}: {forward} and {reverse} are both 0: nothing is sent"
            raise UsageError(problem, code="invalid-foreign-file")
        if values == ["1", "1"]:
            return ["bidirectional"]
        return ["forward" if values[0] == "1" else "reverse"]

    def read_mac_addresses(
        self, tester_name: str, device_name: str, side_letters: str = "LR"
    ) -> dict[str, dict[str, str]]:
        """Return the MAC addresses by side and end; ``{}`` in a name is replaced by the side's letter."""
        links: dict[str, dict[str, str]] = {"left": {}, "right": {}}
        ends = (("tester_mac", tester_name, 2), ("dut_mac", device_name, 1))
        for number, (side, letter) in enumerate(zip(links, side_letters, strict=True), 1):
            for end, name, last in ends:
                mac, target = f"02:00:00:00:0{number}:0{last}", f"testbed: links.{side}.{end}"
                links[side][end] = self.read_string(name.format(letter), mac, target)
        return links

    def check_host_range(self, side: str, low: int, high: int) -> None:
        """Raise UsageError unless ``low`` to ``high`` is a range of the 16 bits that vary on a side."""
        if not 0 <= low <= high <= 0xFFFF:
            problem = f"not within {low} to 65535"
            raise self.make_error(f"IP-{side}-max", problem, "correct the range")

    def check_single_network(self, problem: str) -> None:
        """Raise UsageError with this problem if a side has several networks."""
        for name in ("Num-L-Nets", "Num-R-Nets"):
            if self.read_int(name, 1, NOT_USED) > 1:
                hint = "set it to 1, or vary addresses (IP-L-var, IP-R-var)"
                raise self.make_error(name, problem, hint)

    def make_error(
        self, name: str, problem: str, hint: str = "", code: str = "invalid-foreign-file"
    ) -> UsageError:
        """Return an error that names a parameter, its line and its value."""
        text = f"{self.path}: {name} is missing: {problem}"
        if parameter := self._parameters.get(name):
            text = f"{self.path}:{parameter.line}: {parameter.name} {parameter.value}: {problem}"
        return UsageError(text, hint, code=code)

    def rename_parameters(self, rename: Callable[[str], str]) -> None:
        self._parameters = {rename(name): p for name, p in self._parameters.items()}
        self._targets = {rename(name): target for name, target in self._targets.items()}

    @property
    def parameter_targets(self) -> list[tuple[ForeignParameter, str]]:
        """Parameters in the order of the file, each with its target setting or the reason for none."""
        rows = [(p, self._targets.get(name, NOT_USED)) for name, p in self._parameters.items()]
        for parameter in self._unknown:
            similar = find_similar_names(parameter.name.lower(), self._spellings)
            hint = f"; did you mean {self._spellings[similar[0]]}?" if similar else ""
            rows.append((parameter, f"not known to v6t, left out{hint}"))
        return sorted(rows, key=lambda row: row[0].line)

    def render_files(self, tool_name: str) -> dict[str, str]:
        """Return the contents of ``run.yaml``, which names the tool, and ``testbed.yaml`` by name."""
        name = self.path.name
        run = [
            f"# From {tool_name}'s {name}. `v6t run run.yaml --testbed testbed.yaml` measures;",
            "# --dry-run prints the duration and the required configuration of the device.",
            to_yaml(self.run).rstrip(),
            "# Choices that the file leaves open, and differences in behaviour:",
            *(f"#   {remark}" for remark in self.comments),
            "#",
            f"# Settings that the parameters of {name} became:",
            *(f"#   {p.name} {p.value} -> {target}" for p, target in self.parameter_targets),
        ]
        testbed = [
            f"# From {name}. Any tester and device can be named here: `v6t init` writes an example.",
            to_yaml(self.testbed).rstrip(),
        ]
        files = {"run.yaml": run, "testbed.yaml": testbed}
        return {file: "\n".join(lines) + "\n" for file, lines in files.items()}


def migrate(
    source: Path, parse: Callable[[Path], Migration], directory: Path, tool_name: str
) -> Migration:
    """Convert another tester's file, which ``parse`` reads, to run.yaml and testbed.yaml."""
    migration = parse(source)  # before the slow imports: errors in the file come at once
    from v6t.core.config.resolve import resolve_setup
    from v6t.core.runs.plan import plan

    texts = migration.render_files(tool_name)
    try:
        plan(resolve_setup(*(YamlFile(Path(name), text) for name, text in texts.items())))
    except UsageError as exc:
        problem = f"{source} cannot be converted to a run: {exc.message}"
        raise UsageError(problem, exc.hint, code="wrong-kind-of-file") from exc
    write_files({directory / name: text for name, text in texts.items()})
    return migration


def _read_parameters(path: Path) -> Iterable[ForeignParameter]:
    for number, line in enumerate(read_text(path, SETTINGS_OCTETS).splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) == 2:
            yield ForeignParameter(words[0], words[1], number)
        elif words:
            problem = f"expected a parameter and its value, not '{line.strip():.40}'"
            raise UsageError(f"{path}:{number}: {problem}", code="invalid-foreign-file")
