"""Strategies: command lines and files, near to what is right or far from it.

Most inputs are right ones with one or two things wrong: what is wrong everywhere is refused by the
first check and never gets far.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st
from v6t.core.benchmarks import registry
from v6t.core.campaigns.file import packaged
from v6t.core.config.files import Flags
from v6t.core.config.lookup import every_setting
from v6t.core.config.plugins import load_plugin, names
from v6t.core.config.resolve import resolve
from v6t.core.config.yaml_document import Document
from v6t.core.migrate import maptperf, siitperf
from v6t.drivers.duts.registry import names as drivers
from v6t.profiles.errors import UsageError

PIPE, ZERO, FOLDER = "a pipe", "/dev/zero", "a folder"
"""Files that are none."""


@dataclass(frozen=True)
class Input:
    """One command with the files it is given.

    Attributes:
        words: of the command line; ``RUN`` in them is a finished run's directory.
        files: by name, in the current directory; a string is one of the odd kinds above.
        damage: files of the finished run that are replaced, by name.
    """

    words: tuple[str, ...]
    files: dict[str, bytes | str] = field(default_factory=dict)
    damage: dict[str, bytes | str] = field(default_factory=dict)


NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        64,
        84,
        1e9,
        0.5,
        -0.5,
        1e-9,
        1e300,
        2**31,
        2**63,
        2**64,
        -(2**63),
        10**40,
    ),
)
ODD = (
    *NUMBERS,
    *(
        None,
        True,
        False,
        "",
        " ",
        "\x00",
        "\x1b[2J",
        "\n",
        "x" * 3000,
        "ä",
        "\u202e",
        "../../x",
        "%s",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "1_000",
        "0x10",
        "1:30",
        "10G",
        "-",
        "--help",
        "{}",
        "[]",
        "*a",
    ),
    *(
        "::",
        "::1",
        "2001:db8::/32",
        "2001:db8::/129",
        "192.0.2.1",
        "192.0.2.0/24",
        "0.0.0.0/0",
        "::/0",
    ),
    *(
        "02:00:00:00:00:01",
        "forward",
        "throughput",
        "mape-br",
        "nat44",
        "reference",
        "sim",
        "1-2",
        "1,2",
    ),
    *(
        [],
        {},
        [[]],
        [{}],
        {"": ""},
        [1, 2, 3],
        ["x"],
        {"a": {"b": []}},
        [1e300],
        {"min": 9, "max": 1},
    ),
)
TEXTS = st.one_of(st.sampled_from([t for t in ODD if isinstance(t, str)]), st.text(max_size=12))
VALUES = st.one_of(st.sampled_from(ODD), st.text(max_size=8), st.integers(), st.floats())
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


@cache
def run_files() -> tuple[dict[str, Any], ...]:
    """Run files of every technology, with its parameters where they have a default."""
    made = []
    for name in names():
        own: dict[str, Any] = {}
        for key, info in load_plugin(name).params_model.model_fields.items():
            if not info.is_required():
                value = info.get_default(call_default_factory=True)
                own[key] = json.loads(json.dumps(value, default=_plain))
        for params in ({}, own):
            run = {
                "plugin": name,
                "params": params,
                "preset": "quick",
                "benchmarks": ["throughput"],
                "modes": ["forward"],
                "frame_sizes": None,
                "procedure": {"repetitions": 1, "connections": {"count": 100}},
                "seed": 1,
                "label": "x",
            }
            try:
                resolve(None, None, Flags(plugin=name))
            except UsageError:
                continue
            made.append({k: v for k, v in run.items() if v not in (None, {})})
    return tuple(made)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


BED: dict[str, Any] = {
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
def beds() -> tuple[dict[str, Any], ...]:
    """Testbed files: the rehearsal's, and those of every driver."""
    made = [BED]
    for name in drivers():
        options: dict[str, Any] = {"ssh": SSH, "left": "eth1", "right": "eth2"}
        if name == "reference":
            options = {"params": {}}
        made.append({**BED, "dut": {"driver": name, "options": options}})
    return tuple(made)


@cache
def campaigns() -> tuple[dict[str, Any], ...]:
    """Campaign files that come with v6t."""
    return tuple(Document(path).data for path in packaged().values())


@cache
def settings() -> tuple[str, ...]:
    """Names of settings."""
    return tuple(sorted({row.name for row in every_setting()}))


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to everything within a value."""
    found = [here] if here else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += paths(inner, (*here, key))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any, how: str) -> Any:
    """The value with another one, or a name, at a place."""
    changed = copy.deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    last = path[-1]
    if how == "remove":
        del place[last]
    elif how == "rename" and isinstance(place, dict):
        place[str(new)] = place.pop(last)
    elif how == "beside" and isinstance(place, dict):
        place[str(new)] = copy.deepcopy(place[last])
    elif how == "wrap":
        place[last] = [place[last]]
    else:
        place[last] = new
    return changed


HOWS = ("replace", "replace", "replace", "remove", "rename", "beside", "wrap")


@st.composite
def changed(draw: Any, values: tuple[Any, ...], most: int = 2) -> Any:
    """One of the values with up to so many changes."""
    value = draw(st.sampled_from(values))
    for _ in range(draw(st.integers(0, most))):
        ways = paths(value)
        if ways:
            value = put(
                value, draw(st.sampled_from(ways)), draw(VALUES), draw(st.sampled_from(HOWS))
            )
    return value


@st.composite
def octets(draw: Any, text: bytes) -> bytes:
    """A text with octets cut, doubled or put in."""
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
def document(draw: Any, values: tuple[dict[str, Any], ...]) -> bytes | str:
    """A YAML file: changed as values, as octets, or none at all."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(st.sampled_from((PIPE, ZERO, FOLDER)))
    if kind == 1:
        return draw(st.binary(max_size=40))
    value = draw(changed(values))
    text = _dump(value)
    if kind in (2, 3):
        return text + draw(st.sampled_from(LINES)).encode(errors="surrogatepass")
    return draw(octets(text)) if kind < 7 else text


def _dump(value: Any) -> bytes:
    """Block style at the top, JSON below: both are YAML."""
    if not isinstance(value, dict):
        return json.dumps(value).encode(errors="surrogatepass")
    lines = [f"{json.dumps(str(k))}: {json.dumps(v)}\n" for k, v in value.items()]
    return "".join(lines).encode(errors="surrogatepass")


def _flag(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), values.map(lambda v: [name, str(v)]))


ASSIGNED = st.one_of(
    st.tuples(st.deferred(lambda: st.sampled_from(settings())), VALUES).map(
        lambda pair: f"{pair[0].split('.', 1)[-1]}={pair[1]}"
    ),
    TEXTS,
)
FLAGS = st.tuples(
    _flag("--plugin", st.one_of(st.sampled_from(names()), TEXTS)),
    _flag("--measure", st.one_of(st.sampled_from(registry.names()), TEXTS)),
    _flag("--frame-size", st.sampled_from(NUMBERS)),
    _flag("--mode", st.one_of(st.sampled_from(("forward", "reverse")), TEXTS)),
    _flag("--duration", VALUES),
    _flag("--resolution", VALUES),
    _flag("--rate", VALUES),
    _flag("--reps", VALUES),
    _flag("--set", ASSIGNED),
    _flag("--set-procedure", ASSIGNED),
    _flag("--set-dut", ASSIGNED),
    _flag("--set-tester", ASSIGNED),
    _flag("--seed", VALUES),
    _flag("--label", TEXTS),
)


@st.composite
def flags(draw: Any, most: int = 3) -> tuple[str, ...]:
    """Some flags of ``v6t run``."""
    found: list[str] = []
    for place in draw(st.lists(st.integers(0, 13), max_size=most, unique=True)):
        found += draw(FLAGS.map(lambda rows, place=place: rows[place]))
    return tuple(found)


@st.composite
def dry_runs(draw: Any) -> Input:
    """``run --dry-run`` and ``dut plan`` with files and flags."""
    files = {"run.yaml": draw(document(run_files())), "bed.yaml": draw(document(beds()))}
    head = draw(
        st.sampled_from((("run", "--dry-run"), ("run", "--dry-run", "--json"), ("dut", "plan")))
    )
    tail = draw(flags()) if head[0] == "run" else ()
    return Input((*head, "run.yaml", "--testbed", "bed.yaml", *tail), files)


@st.composite
def bare(draw: Any) -> Input:
    """Flags alone: ``run``, ``compile``."""
    if draw(st.booleans()):
        plugin = draw(st.sampled_from(names()))
        return Input(("run", "--dry-run", "--tester", "sim", "--plugin", plugin, *draw(flags())))
    words = ["compile", "--plugin", draw(st.sampled_from(names()))]
    for name in (
        "--direction",
        "--frame-size",
        "--format",
        "--count",
        "--rate",
        "--cores",
        "--seed",
    ):
        usual = {
            "--direction": ("forward", "reverse"),
            "--format": ("stl-json", "stl-py", "pcap", "text"),
        }
        if draw(st.integers(0, 3)) == 0:
            words += [name, str(draw(st.one_of(st.sampled_from(usual.get(name, NUMBERS)), VALUES)))]
    if "--count" not in words:
        words += ["--count", "10"]
    return Input((*words, *(("--set", draw(ASSIGNED)) if draw(st.booleans()) else ())))


CALC = {
    "map": ("--rule-ipv6", "--rule-ipv4", "--ea-len", "--psid-offset", "--psid-len", "--psid", "--ipv4",
            "--ipv6", "--port", "--iid-format"),
    "rate": ("--frame-size", "--line-rate", "--overhead"),
    "rfc6052": ("--prefix", "--ipv4", "--ipv6"),
    "eam": ("--map", "--prefix", "--ipv4", "--ipv6"),
}  # fmt: skip
RIGHT = {
    "--rule-ipv6": "2001:db8::/40", "--rule-ipv4": "192.0.2.0/24", "--ea-len": "16", "--psid": "52",
    "--ipv4": "192.0.2.18", "--ipv6": "2001:db8:12:3400::1", "--frame-size": "84", "--line-rate": "10G",
    "--prefix": "64:ff9b::/96",
}  # fmt: skip


@st.composite
def calculations(draw: Any) -> Input:
    """``calc``, ``explain``, ``plugins``, ``doctor``, ``completion`` and words that are no command."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Input((*draw(st.lists(TEXTS, max_size=3)),))
    if kind == 1:
        return Input(("explain", draw(st.one_of(st.sampled_from(settings()), TEXTS))))
    if kind == 2:
        return Input(("plugins", draw(st.one_of(st.sampled_from(names()), TEXTS))))
    if kind == 3:
        return Input(("completion", draw(TEXTS)))
    if kind == 4:
        return Input(("doctor", "--testbed", "bed.yaml"), {"bed.yaml": draw(document((BED,)))})
    name = draw(st.sampled_from(sorted(CALC)))
    words = ["calc", name]
    for option in CALC[name]:
        right = draw(st.integers(0, 4))
        if option in RIGHT and right:
            words += [option, RIGHT[option]]
        elif right == 0:
            words += [option, str(draw(VALUES))]
    return Input(tuple(words))


def _conf(known: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    right = st.sampled_from(
        ("0", "1", "2", "3", "10", "4", "6", "65535", "198.18.0.2", "2001:2::2", "fe80::1", "::",
         "00:11:22:33:44:55", "64:ff9b::", "0x10")
    )  # fmt: skip
    value = st.one_of(right, VALUES.map(str))
    rows = st.lists(st.tuples(st.sampled_from(known), value), max_size=12)
    return rows.map(lambda r: "".join(f"{n} {v}\n" for n, v in r).encode(errors="surrogatepass"))


@st.composite
def conversions(draw: Any) -> Input:
    """``init --from-siitperf`` and ``--from-maptperf``."""
    tool, module = draw(st.sampled_from((("siitperf", siitperf), ("maptperf", maptperf))))
    text = draw(_conf(tuple(module.KNOWN)))
    if draw(st.integers(0, 3)) == 0:
        text = draw(octets(text))
    words = ("init", f"--from-{tool}", "its.conf", "--dir", "made")
    content: bytes | str = (
        draw(st.sampled_from((PIPE, ZERO))) if draw(st.integers(0, 30)) == 0 else text
    )
    return Input(words, {"its.conf": content})


@st.composite
def planned_campaigns(draw: Any) -> Input:
    """``campaign --dry-run``."""
    return Input(
        ("campaign", "--dry-run", "campaign.yaml", "--tester", "sim"),
        {"campaign.yaml": draw(document(campaigns()))},
    )


HELD = ("results.json", "manifest.json", "config.json", "journal.jsonl", "results.csv")
READERS = (
    ("resume", "RUN", "--no-report"), ("resume", "RUN", "--no-report", "--json"),
    ("report", "RUN", "--format", "md"), ("report", "RUN", "--format", "json,junit,csv"),
    ("trend", "RUN", "WHOLE", "--json"), ("compare", "RUN", "WHOLE"), ("compare", "WHOLE", "RUN", "--json"),
    ("init", "--from-run", "RUN", "--dir", "made"), ("dut", "plan", "RUN"),
)  # fmt: skip


@st.composite
def damaged_runs(draw: Any, whole: dict[str, bytes]) -> Input:
    """Commands that read a run's directory, in which a file was edited by hand."""
    name = draw(st.sampled_from(HELD))
    return Input(draw(st.sampled_from(READERS)), {}, {name: draw(edited(name, whole[name]))})


@st.composite
def edited(draw: Any, name: str, text: bytes) -> bytes | str:
    """A file of a run's, changed by hand; a journal's lines keep their checksums."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from((PIPE, ZERO, FOLDER)))
    if kind < 3 or name.endswith("csv"):
        return draw(octets(text))
    if name.endswith(".jsonl"):
        return draw(_journal(text))
    value = draw(changed((json.loads(text),), 2))
    return json.dumps(value).encode(errors="surrogatepass")


@st.composite
def _journal(draw: Any, text: bytes) -> bytes:
    import zlib

    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        entry = json.loads(lines[at].split(b" ", 1)[1])
        body = json.dumps(draw(changed((entry,), 2))).encode(errors="surrogatepass")
        lines[at] = f"{zlib.crc32(body):08x} ".encode() + body
    return b"\n".join(lines) + b"\n"
