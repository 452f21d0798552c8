"""Strategies: command lines and files, valid and invalid.

Most inputs are valid except for one or two changes, because the first check would reject any other.
"""

import copy
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st
from v6t.base.errors import UsageError
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.config.explain import list_all_settings
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.core.config.yaml_file import YamlFile
from v6t.drivers.duts.registry import list_driver_names as drivers
from v6t.tests.settings import resolve

PIPE, ZERO, FOLDER = "a pipe", "/dev/zero", "a folder"
"""Kinds of special files."""


@dataclass(frozen=True)
class Input:
    """Command with its files."""

    words: tuple[str, ...]
    """Command line; ``RUN``, ``AUDIT`` and ``CAMPAIGN`` stand for directories with ``damage``,
    ``OTHER_RUN`` and ``OTHER_AUDIT`` for undamaged ones."""
    files: dict[str, bytes | str] = field(default_factory=dict)
    """Files in the current directory; a string is a kind of special file."""
    damage: dict[str, bytes | str] = field(default_factory=dict)
    """Files that replace those of the directories, by name."""


NUMBERS = (
    0, 1, -1, 2, 3, 7, 64, 84, 1e9, 0.5, -0.5, 1e-9, 1e300, 2**31, 2**63, 2**64, -(2**63), 10**40,
)  # fmt: skip
ODD_VALUES = (
    *NUMBERS, None, True, False, "", " ", "\x00", "\x1b[2J", "\n", "x" * 3000, "ä", "\u202e", "../../x", "%s",
    "nan", "inf", "-inf", "1e999", "1_000", "0x10", "1:30", "10G", "-", "--help", "{}", "[]", "*a",
    "::", "::1", "2001:db8::/32", "2001:db8::/129", "192.0.2.1", "192.0.2.0/24", "0.0.0.0/0", "::/0",
    "02:00:00:00:00:01", "forward", "throughput", "mape-br", "nat44", "reference", "sim", "1-2", "1,2",
    [], {}, [[]], [{}], {"": ""}, [1, 2, 3], ["x"], {"a": {"b": []}}, [1e300], {"min": 9, "max": 1},
)  # fmt: skip
ODD_TEXTS = [text for text in ODD_VALUES if isinstance(text, str)]
TEXTS = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=12))
VALUES = st.one_of(st.sampled_from(ODD_VALUES), st.text(max_size=8), st.integers(), st.floats())
LINES = (
    "zz: " + "{" * 16 + "}" * 16,
    "zz: " + "[" * 3000,
    "zz: " + "{a: " * 300 + "}" * 300,
    "? [a, b]\n: 1",
    "a: &a [*a]",
    "a: &a [1, 2]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
    "d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n"
    "f: &f [*e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f]",
    "seed: " + "9" * 5000,
    "seed: 0x" + "f" * 5000,
    "seed: .nan",
    "seed: 1e999",
    "seed: 2026-11-22",
    "seed: !!binary aGFsbG8=",
    "seed: !!python/object/apply:os.system [id]",
    "<<: {plugin: nat44}",
    "plugin: nat44\nplugin: nat44",
    "\ttab: 1",
    "--- 1\n--- 2",
    "%YAML 9.9\n---\na: 1",
)


PARAMETERS_PER_FILE = 6


@cache
def run_files() -> tuple[dict[str, Any], ...]:
    """Return short run files of every technology, each with some parameters that have defaults."""
    items = []
    for name in list_names():
        try:
            resolve(None, None, plugin=name)
        except UsageError:
            continue
        fields = load_technology_type(name).params_model.model_fields.items()
        optional = {key: info for key, info in fields if not info.is_required()}
        values = {k: info.get_default(call_default_factory=True) for k, info in optional.items()}
        defaults = [*json.loads(json.dumps(values, default=_convert_to_json)).items()]
        starts = range(0, len(defaults), PARAMETERS_PER_FILE)
        groups = [dict(defaults[n : n + PARAMETERS_PER_FILE]) for n in starts]
        for params in ({}, *groups):
            run = {
                "plugin": name, "params": params, "preset": "quick", "benchmarks": ["throughput"],
                "modes": ["forward"], "procedure": {"repetitions": 1, "connections": {"count": 100}},
                "seed": 1, "label": "x",
            }  # fmt: skip
            items.append({k: v for k, v in run.items() if v != {}})
    return tuple(items)


def _convert_to_json(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


TESTBED: dict[str, Any] = {
    "tester": {"kind": "sim", "options": {"capacity_fps": 100000, "delay_us": 10}},
    "dut": {"driver": "reference", "options": {}},
    "links": {
        side: {"tester_mac": f"02:00:00:00:0{n}:01", "dut_mac": f"02:00:00:00:0{n}:02", "mtu": 1500}
        for n, side in enumerate(("left", "right"))
    },
    "line_rate": "10G",
}
SSH = {"host": "dut.example.net", "user": "root", "port": 22, "jump": "a@b:22"}


@cache
def testbeds() -> tuple[dict[str, Any], ...]:
    """Return testbed files: one with the simulated tester only, and one for every driver."""
    files = [TESTBED]
    for name in drivers():
        options: dict[str, Any] = {"ssh": SSH, "left": "eth1", "right": "eth2"}
        if name == "reference":
            options = {"params": {}}
        files.append({**TESTBED, "dut": {"driver": name, "options": options}})
    return tuple(files)


@cache
def packaged_campaigns() -> tuple[dict[str, Any], ...]:
    return tuple(YamlFile(path).data for path in list_packaged_campaigns().values())


@cache
def setting_names() -> tuple[str, ...]:
    return tuple(sorted({row.name for row in list_all_settings()}))


def list_paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all members of a value."""
    results = [prefix] if prefix else []
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        results += list_paths(inner, (*prefix, key))
    return results


def apply_change(value: Any, path: tuple[Any, ...], new: Any, change: str) -> Any:
    """Return a copy with one change at a path."""
    result = copy.deepcopy(value)
    parent = result
    for key in path[:-1]:
        parent = parent[key]
    last = path[-1]
    if change == "remove":
        del parent[last]
    elif change == "rename" and isinstance(parent, dict):
        parent[str(new)] = parent.pop(last)
    elif change == "copy" and isinstance(parent, dict):
        parent[str(new)] = copy.deepcopy(parent[last])
    elif change == "wrap":
        parent[last] = [parent[last]]
    else:
        parent[last] = new
    return result


CHANGES = ("replace", "replace", "replace", "remove", "rename", "copy", "wrap")


@st.composite
def mutated_values(draw: Any, values: tuple[Any, ...], most: int = 2) -> Any:
    """Draw one of the values with up to ``most`` changes."""
    value = draw(st.sampled_from(values))
    for _ in range(draw(st.integers(0, most))):
        paths = list_paths(value)
        if paths:
            value = apply_change(
                value, draw(st.sampled_from(paths)), draw(VALUES), draw(st.sampled_from(CHANGES))
            )
    return value


@st.composite
def mutated_octets(draw: Any, text: bytes) -> bytes:
    """Draw a text with octets removed, repeated or inserted."""
    for _ in range(draw(st.integers(1, 3))):
        a, b = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        kind = draw(st.sampled_from(("cut", "double", "insert", "break off")))
        if kind == "cut":
            text = text[:a] + text[min(b, a + 40) :]
        elif kind == "double":
            text = text[:b] + text[a : min(b, a + 400)] + text[b:]
        elif kind == "insert":
            text = text[:a] + draw(st.one_of(st.binary(max_size=8), st.sampled_from(
                (b"\x00", b"\xff\xfe", b"\r", b"\t", b"&a ", b"*a", b"{" * 60, b"[" * 60, b"\x1b]0;x\x07")
            ))) + text[a:]  # fmt: skip
        else:
            text = text[:a]
    return text


@st.composite
def documents(draw: Any, values: tuple[dict[str, Any], ...]) -> bytes | str:
    """Draw a YAML file with changed values or octets, a file of random octets, or a special file."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(st.sampled_from((PIPE, ZERO, FOLDER)))
    if kind == 1:
        return draw(st.binary(max_size=40))
    text = _dump_yaml(draw(mutated_values(values)))
    if kind in (2, 3):
        return text + draw(st.sampled_from(LINES)).encode(errors="surrogatepass")
    return draw(mutated_octets(text)) if kind < 7 else text


def _dump_yaml(value: Any) -> bytes:
    """Format the top level in block style and the rest as JSON, which is valid YAML."""
    if not isinstance(value, dict):
        return json.dumps(value).encode(errors="surrogatepass")
    lines = [f"{json.dumps(str(k))}: {json.dumps(v)}\n" for k, v in value.items()]
    return "".join(lines).encode(errors="surrogatepass")
