"""Strategies: commands with flags, settings files, tables and files of other testers."""

from functools import cache
from typing import Any

from hypothesis import strategies as st
from v6t.benchmarks import registry
from v6t.core.config.plugins import list_names
from v6t.core.migrate import maptperf, siitperf

from .inputs import (
    FOLDER,
    NUMBERS,
    PIPE,
    TESTBED,
    TEXTS,
    VALUES,
    ZERO,
    Input,
    documents,
    mutated_octets,
    packaged_campaigns,
    run_files,
    setting_names,
    testbeds,
)


def _optional_flag(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), values.map(lambda v: [name, str(v)]))


ASSIGNMENTS = st.one_of(
    st.tuples(st.deferred(lambda: st.sampled_from(setting_names())), VALUES).map(
        lambda pair: f"{pair[0].split('.', 1)[-1]}={pair[1]}"
    ),
    TEXTS,
)
FLAGS = (
    _optional_flag("--plugin", st.one_of(st.sampled_from(list_names()), TEXTS)),
    _optional_flag("--measure", st.one_of(st.sampled_from(registry.list_names()), TEXTS)),
    _optional_flag("--frame-size", st.sampled_from(NUMBERS)),
    _optional_flag("--mode", st.one_of(st.sampled_from(("forward", "reverse")), TEXTS)),
    _optional_flag("--duration", VALUES), _optional_flag("--resolution", VALUES),
    _optional_flag("--rate", VALUES), _optional_flag("--reps", VALUES),
    _optional_flag("--set", ASSIGNMENTS), _optional_flag("--set-procedure", ASSIGNMENTS),
    _optional_flag("--set-dut", ASSIGNMENTS), _optional_flag("--set-tester", ASSIGNMENTS),
    _optional_flag("--seed", VALUES), _optional_flag("--label", TEXTS),
)  # fmt: skip


INDEX = st.integers(0, len(FLAGS) - 1)
FLAG_INDICES = {most: st.lists(INDEX, max_size=most, unique=True) for most in (1, 3)}


@st.composite
def flags(draw: Any, most: int = 3) -> tuple[str, ...]:
    """Draw some flags of ``v6t run``."""
    results: list[str] = []
    for index in draw(FLAG_INDICES[most]):
        results += draw(FLAGS[index])
    return tuple(results)


@st.composite
def dry_runs(draw: Any) -> Input:
    """Draw ``run --dry-run`` and ``dut plan`` with files and flags."""
    files = {"run.yaml": draw(documents(run_files())), "bed.yaml": draw(documents(testbeds()))}
    heads = ("run", "--dry-run"), ("run", "--dry-run", "--json"), ("dut", "plan")
    head = draw(st.sampled_from(heads))
    tail = draw(flags()) if head[0] == "run" else ()
    return Input((*head, "run.yaml", "--testbed", "bed.yaml", *tail), files)


@st.composite
def flags_without_files(draw: Any) -> Input:
    """Draw ``run`` and ``compile`` with flags and without a file."""
    if draw(st.booleans()):
        plugin = draw(st.sampled_from(list_names()))
        return Input(("run", "--dry-run", "--tester", "sim", "--plugin", plugin, *draw(flags())))
    words = ["compile", "--plugin", draw(st.sampled_from(list_names()))]
    usual = {
        "--direction": ("forward", "reverse"),
        "--format": ("stl-json", "stl-py", "pcap", "text"),
    }
    for name in (*usual, "--frame-size", "--count", "--rate", "--cores", "--seed"):
        if draw(st.integers(0, 3)) == 0:
            words += [name, str(draw(st.one_of(st.sampled_from(usual.get(name, NUMBERS)), VALUES)))]
    if "--count" not in words:
        words += ["--count", "10"]
    return Input((*words, *(("--set", draw(ASSIGNMENTS)) if draw(st.booleans()) else ())))


CALC = {
    "map": ("--rule-ipv6", "--rule-ipv4", "--ea-len", "--psid-offset", "--psid-len", "--psid", "--ipv4",
            "--ipv6", "--port", "--iid-format"),
    "rate": ("--frame-size", "--line-rate", "--overhead"),
    "rfc6052": ("--prefix", "--ipv4", "--ipv6"),
    "eam": ("--map", "--prefix", "--ipv4", "--ipv6"),
}  # fmt: skip
VALID = {
    "--rule-ipv6": "2001:db8::/40", "--rule-ipv4": "192.0.2.0/24", "--ea-len": "16", "--psid": "52",
    "--ipv4": "192.0.2.18", "--ipv6": "2001:db8:12:3400::1", "--frame-size": "84", "--line-rate": "10G",
    "--prefix": "64:ff9b::/96",
}  # fmt: skip


@st.composite
def calculations(draw: Any) -> Input:
    """Draw ``calc``, ``explain``, ``plugins``, ``doctor``, ``completion`` and unknown commands."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Input((*draw(st.lists(TEXTS, max_size=3)),))
    if kind == 1 and draw(st.integers(0, 9)) == 0:  # slow, since an unknown name lists all settings
        return Input(("explain", draw(st.one_of(st.sampled_from(setting_names()), TEXTS))))
    if kind == 2:
        return Input(("plugins", draw(st.one_of(st.sampled_from(list_names()), TEXTS))))
    if kind == 3:
        return Input(("completion", draw(TEXTS)))
    if kind == 4:
        return Input(("doctor", "--testbed", "bed.yaml"), {"bed.yaml": draw(documents((TESTBED,)))})
    name = draw(st.sampled_from(sorted(CALC)))
    words = ["calc", name]
    for option in CALC[name]:
        choice = draw(st.integers(0, 4))
        if option in VALID and choice:
            words += [option, VALID[option]]
        elif choice == 0:
            words += [option, str(draw(VALUES))]
    return Input(tuple(words))


@cache
def _tester_configs(known: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    valid = st.sampled_from(
        ("0", "1", "2", "3", "10", "4", "6", "65535", "198.18.0.2", "2001:2::2", "fe80::1", "::",
         "00:11:22:33:44:55", "64:ff9b::", "0x10")
    )  # fmt: skip
    value = st.one_of(valid, VALUES.map(str))
    rows = st.lists(st.tuples(st.sampled_from(known), value), max_size=12)
    return rows.map(lambda r: "".join(f"{n} {v}\n" for n, v in r).encode(errors="surrogatepass"))


@st.composite
def conversions(draw: Any) -> Input:
    """Draw ``init --from-siitperf`` and ``--from-maptperf``."""
    tool, module = draw(st.sampled_from((("siitperf", siitperf), ("maptperf", maptperf))))
    text = draw(_tester_configs(tuple(module.KNOWN_PARAMETERS)))
    if draw(st.integers(0, 3)) == 0:
        text = draw(mutated_octets(text))
    words = ("init", f"--from-{tool}", "its.conf", "--dir", "made")
    is_special = draw(st.integers(0, 30)) == 0
    return Input(words, {"its.conf": draw(st.sampled_from((PIPE, ZERO))) if is_special else text})


SMALL: dict[str, Any] = {
    "name": "small",
    "title": "x",
    "run": {"plugin": "mape-br", "modes": ["forward"], "procedure": {"repetitions": 1}},
    "testbeds": {"model": {"tester": {"kind": "sim"}}, "other": "bed.yaml"},
    "experiments": [
        {"name": "a", "note": "x", "testbed": "model", "matrix": {"params.ces": [64, 128]}},
        {"name": "b", "testbed": "other", "matrix": {"modes": ["forward"], "frame_sizes": [104, 296]},
         "along": {"modes": {"params.ces": [64]}}, "skip": [{"modes": "forward", "frame_sizes": 296}]},
    ],
}  # fmt: skip


@st.composite
def planned_campaigns(draw: Any) -> Input:
    """Draw ``campaign --dry-run``."""
    # packaged campaigns have many runs
    files = packaged_campaigns() if draw(st.integers(0, 39)) == 0 else (SMALL,)
    return Input(
        ("campaign", "--dry-run", "campaign.yaml", "--tester", "sim"),
        {"campaign.yaml": draw(documents(files)), "bed.yaml": draw(documents((TESTBED,)))},
    )


EAMS = b"198.18.0.0/24 2001:2::/120\n# a comment\n2001:2:0:1000::/120, 198.19.0.0/24\n"
SOFTWIRES = (
    b"192.0.2.1 1 6 6 2001:db8:b400::1\n192.0.2.1, 2, 6, 6, 2001:db8:b400::2 2001:db8:6::1\n"
    b"192.0.2.2 0x3 6 6 2001:db8:b400::3 # a comment\n"
)


@st.composite
def tables(draw: Any) -> Input:
    """Draw tables of address mappings and of softwires."""
    text = draw(mutated_octets(draw(st.sampled_from((EAMS, SOFTWIRES)))))
    if draw(st.integers(0, 2)) == 0:
        words = [str(draw(VALUES)) for _ in range(draw(st.integers(1, 6)))]
        text += " ".join(words).encode(errors="surrogatepass") + b"\n"
    content = draw(st.sampled_from((PIPE, ZERO, FOLDER))) if draw(st.integers(0, 30)) == 0 else text
    plugin, setting, driver = draw(st.sampled_from(
        (("siit", "eam_file", "tayga"), ("lwaftr", "binding_table", "vpp"), ("lwaftr", "binding_table", "snabb"))
    ))  # fmt: skip
    table = ("--plugin", plugin, "--set", f"{setting}=table")
    words = draw(st.sampled_from(
        (("run", "--dry-run", "--tester", "sim"), ("compile", "--count", "10"),
         ("dut", "plan", "--driver", driver))
    ))  # fmt: skip
    return Input((*words, *table), {"table": content})
