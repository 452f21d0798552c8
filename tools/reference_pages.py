"""Reference pages of the documentation, generated from commands and models while the site is built."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import click
from v6t.base.error_codes import ERROR_CODES
from v6t.benchmarks.registry import make_results_schema
from v6t.core.config.explain import (
    ReferenceEntry,
    list_fields,
    list_run_settings,
    list_settings,
    summarize_docstring,
)
from v6t.core.config.yaml_file import format_yaml
from v6t.trials.trial import CAPABILITIES


def pages() -> dict[str, str]:
    """Return the text of each page by file name."""
    made: dict[str, Callable[[], Iterable[str]]] = {
        "commands.md": _commands,
        "run-file.md": _run_file,
        "testbed-file.md": _testbed_file,
        "campaign-file.md": _campaign_file,
        "results.md": _results,
        "data-dictionary.md": _data_dictionary,
        "errors.md": _errors,
    }
    texts = {name: "\n".join(make()).rstrip() + "\n" for name, make in made.items()}
    return {**texts, "results-1.json": _lines(make_results_schema())}


def _lines(schema: Mapping[str, Any]) -> str:
    """Print a JSON schema with one line for each definition."""
    plain = {k: v for k, v in schema.items() if k != "$defs"}
    defined = (f"{json.dumps(name)}: {json.dumps(v)}" for name, v in schema["$defs"].items())
    return json.dumps(plain)[:-1] + ', "$defs": {\n' + ",\n".join(defined) + "\n}}\n"


def _errors() -> Iterator[str]:
    yield "# Error codes\n"
    yield "v6t prints the code of an error in brackets after its message."
    yield "`v6t explain CODE` shows its meaning."
    yield "Codes are stable: programs can compare them.\n"
    yield "| code | meaning |"
    yield "|---|---|"
    yield from (f"| `{code}` | {meaning} |" for code, meaning in ERROR_CODES.items())
    yield ""


# ------------------------------------------------------------------ commands


def _commands() -> Iterator[str]:
    from v6t.core.cli.main import COMMANDS, cli

    yield "# Commands\n"
    yield "`v6t COMMAND --help` prints the same text. Exit statuses are on [Results](results.md).\n"
    yield from _parameters(cli)
    for name in COMMANDS:
        if command := cli.get_command(click.Context(cli), name):
            yield from _command(command, f"v6t {name}", 2)


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = _options(command)
    words = [path, *(["[OPTIONS]"] if options else [])]
    if isinstance(command, click.Group):
        words.append("COMMAND")
    words += [_argument(argument) for argument in arguments]
    yield f"{'#' * level} {path}\n"
    yield "<!-- not executed: a form, no command -->"
    yield f"```console\n$ {' '.join(words)}\n```\n"
    yield _paragraphs(command.help or "") + "\n"
    yield from _parameters(command)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _command(inner, f"{path} {name}", level + 1)


def _parameters(command: click.Command) -> Iterator[str]:
    options = _options(command)
    if not options:
        return
    yield "| option | default | description |"
    yield "|---|---|---|"
    for option in options:
        flags = ", ".join(f"`{o}`" for o in (*option.opts, *option.secondary_opts))
        value = "" if option.is_flag else f" {_cell(option.metavar or option.type.name.upper())}"
        text = (option.help or "") + (" Required." if option.required else "")
        if option.envvar:
            text += f" Environment: `{option.envvar}`."
        yield f"| {flags}{value} | {_default(option)} | {_cell(text)} |"
    yield ""


def _options(command: click.Command) -> list[click.Option]:
    """Return all options except ``--help``."""
    context = click.Context(command, help_option_names=[])
    params = command.get_params(context)
    return [p for p in params if isinstance(p, click.Option) and not p.hidden]


def _argument(argument: click.Argument) -> str:
    name = (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _default(option: click.Option) -> str:
    value = option.default
    given = isinstance(value, (str, int, float)) and value not in (False, "")
    return f"`{format_yaml(value)}`" if given else ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


# --------------------------------------------------------------------- files


def _run_file() -> Iterator[str]:
    from v6t.benchmarks import registry
    from v6t.core.config.settings import make_preset_settings, make_procedure_model

    yield "# Run file\n"
    yield "The file for `v6t run run.yaml`: what to measure. `v6t init` writes a commented example. Flags"
    yield "override the file, which overrides the preset. `v6t explain NAME` shows a row of this page.\n"
    yield from _table(list_run_settings())
    yield "Parameters of each technology (`params`): `v6t plugins NAME`, or its page under *Plugins*.\n"
    yield "## benchmarks\n"
    yield "Benchmarks run in this order.\n"
    yield "| name | result | needs |"
    yield "|---|---|---|"
    for benchmark in registry.load_installed():
        needs = ["a stateful technology"] * (benchmark.connection_use == "required")
        able = " and ".join(CAPABILITIES[a] for a in sorted(benchmark.capabilities))
        needs += [f"a tester that {able}"] * bool(able)
        yield f"| `{benchmark.name}` | {benchmark.summary} | {', '.join(needs)} |"
    yield ""
    yield "## procedure\n"
    yield "How trials are run and repeated. The columns `quick` and `rfc` have the values of these presets"
    yield "that differ from the default.\n"
    flat = {preset: dict(_flat(make_preset_settings(preset))) for preset in ("quick", "rfc")}
    yield "| setting | type | default | quick | rfc | description |"
    yield "|---|---|---|---|---|---|"
    for row in list_settings(make_procedure_model()):
        own = [_code(format_yaml(flat[p][row.name])) if row.name in flat[p] else ""
               for p in ("quick", "rfc")]  # fmt: skip
        cells = [
            f"`{row.name}`",
            _cell(_shorten_kind(row.kind)),
            _code(row.default),
            *own,
            _cell(row.text),
        ]
        yield "| " + " | ".join(cells) + " |"


def _testbed_file() -> Iterator[str]:
    from v6t.core.config.settings import Testbed
    from v6t.drivers.duts.options import DutOptions, LinuxOptions
    from v6t.drivers.duts.registry import DEFAULT_DRIVER, list_driver_names, load_driver_type
    from v6t.drivers.testers import TESTERS

    yield "# Testbed file\n"
    yield "The file for `v6t run --testbed testbed.yaml`: tester, device and links. `v6t init` writes an"
    yield "example; `v6t doctor --testbed FILE` checks that tester and device can be used.\n"
    yield from _table(list_settings(Testbed))
    for tester in TESTERS.list_names():
        kind = TESTERS.load(tester)
        yield f"## tester: {tester}\n"
        yield f"{kind.title[0].upper()}{kind.title[1:]}. {summarize_docstring(kind.options_model)}\n"
        yield from _table(list_settings(kind.options_model, "tester.options."))
    as_they_are = [n for n in list_driver_names() if not load_driver_type(n).configures_device]
    for name in sorted(as_they_are, key=lambda n: n != DEFAULT_DRIVER):
        model = load_driver_type(name).options_model
        yield f"## dut: {name}\n"
        yield summarize_docstring(model) + "\n"
        yield from _table(list_settings(model, "dut.options."))
    every, linux = (list(list_settings(m, "dut.options.")) for m in (DutOptions, LinuxOptions))
    yield "\n## dut: every driver\n"
    yield from _table(every)
    yield "## dut: every Linux device\n"
    yield summarize_docstring(LinuxOptions) + "\n"
    yield from _table(row for row in linux if row not in every)
    for name in (n for n in list_driver_names() if load_driver_type(n).configures_device):
        made = load_driver_type(name)
        yield f"## dut: {name}\n"
        is_linux = issubclass(made.options_model, LinuxOptions)
        common, group = (linux, "Linux device") if is_linux else (every, "driver")
        anchor = f"#dut-every-{group.lower().replace(' ', '-')}"
        yield f"[{made.title}](../duts/{name}.md), with the options of [every {group}]({anchor}).\n"
        own = list_settings(made.options_model, "dut.options.")
        yield from _table(row for row in own if row not in common)


def _campaign_file() -> Iterator[str]:
    from v6t.core.campaigns.file import CampaignFile

    yield "# Campaign file\n"
    yield "The file for `v6t campaign FILE -o DIR`: many runs in one file. `v6t campaign --list` lists"
    yield "the campaigns that v6t contains.\n"
    yield from _table(list_settings(CampaignFile))


# ------------------------------------------------------------------- results


def _results() -> Iterator[str]:
    schema = make_results_schema()
    definitions = schema["$defs"]
    common = definitions["Record"]
    branches = common["allOf"]
    yield "# Results\n"
    yield "A run directory contains:\n"
    yield "| file | content |"
    yield "|---|---|"
    for name, text in FILES.items():
        yield f"| `{name}` | {text} |"
    yield "\n## Exit status\n"
    yield "| status | meaning |"
    yield "|---|---|"
    for status, text in STATUSES.items():
        yield f"| {status} | {text} |"
    yield "\n## results.json\n"
    yield "The schema is [results-1.json](results-1.json) (JSON Schema 2020-12), generated from the same"
    yield "models as this page. Installed benchmarks add their records.\n"
    yield from _keys(schema)
    records = {branch["then"]["$ref"].rpartition("/")[2]: branch for branch in branches}
    yield "### Record\n"
    yield common["description"] + " Keys of every record:\n"
    yield from _keys(common)
    for name, branch in records.items():
        benchmarks = branch["if"]["properties"]["benchmark"]["enum"]
        yield f"### {' and '.join(benchmarks)}\n"
        yield _paragraphs(definitions[name]["description"]) + "\n"
        yield from _keys(definitions[name], common)
    for name, part in definitions.items():
        if name not in records and name != "Record":
            yield f"### {name}\n"
            yield part["description"] + "\n"
            yield from _keys(part)


FILES = {
    "results.json": "one record per benchmark, frame size and direction; rewritten after each",
    "results.csv": "one line per repetition of the throughput, in siitperf's column order",
    "BENCHMARK.csv": "one line per repetition, or rate, of each other benchmark",
    "medians.csv": "one line per figure of each benchmark, with median, P1 and P99",
    "flows-degradation.csv": "one line per figure and number of flows, with its degradation",
    "trials.csv": "every trial, one line per direction and class",
    "journal.jsonl": "every trial as it ended, one durable line each, marked with its run: what "
    "`v6t resume` reads",
    "config.json": "all settings of the run; `v6t init --from-run DIR` turns them into files",
    "manifest.json": "versions, machine, tester and device",
    "log.txt": "messages, warnings, errors and the commands sent to the device, with the time",
    "report.html": "tables, figures, validity, compliance; opens without a network",
    "report.md, report.json, junit.xml": "the same for a paper's appendix, for "
    "programs and for CI (JUnit)",
}
STATUSES = {
    0: "done",
    1: "a defect of v6t",
    2: "a file, flag, rule or frame size is invalid; nothing was done",
    3: "this machine lacks a requirement",
    4: "the device under test cannot be driven",
    5: "the tester failed; finished trials are kept",
    6: "the device translates wrongly, or an audit found a MUST or SHOULD it deviates from",
    7: "a result is worse or below `--fail-below`, or `v6t dut compare` found a difference",
    130: "interrupted; `v6t resume DIR` continues",
}


def _data_dictionary() -> Iterator[str]:
    yield "# Data dictionary\n"
    yield "Every column of the CSV files and every field of the journal and of `results.json`, with unit."
    yield "`v6t explain NAME` shows a row of this page. In paths, `*` stands for any name."
    yield "[Results](results.md) shows the types of the fields of `results.json`.\n"
    yield "A line of `journal.jsonl` is a CRC-32 in hexadecimal, a space, and the JSON object it belongs to."
    for file, fields in groupby(list_fields(), lambda field: field.file):
        yield f"\n## {file}\n"
        yield "| field | unit | meaning |"
        yield "|---|---|---|"
        yield from (f"| `{f.name}` | {f.unit} | {_cell(f.text)} |" for f in fields)


def _keys(part: Mapping[str, Any], common: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Print the table of an object's keys, except those it shares with others."""
    required = part.get("required", [])
    yield "| key | type | required | description |"
    yield "|---|---|---|---|"
    for key, known in part["properties"].items():
        if common is None or known != common["properties"].get(key):
            always = "yes" if key in required else ""
            text = _cell(_paragraphs(known["description"]))
            yield f"| `{key}` | {_cell(_json_kind(known))} | {always} | {text} |"
    yield ""


def _json_kind(known: Mapping[str, Any]) -> str:
    if "$ref" in known:
        name = str(known["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in known:
        return str(known["const"])
    if "enum" in known:
        return ", ".join(map(str, known["enum"]))
    if "anyOf" in known:
        return " or ".join(map(_json_kind, known["anyOf"]))
    kind, values = str(known["type"]), known.get("additionalProperties")
    if kind == "array":
        return f"list of {_json_kind(known['items'])}"
    if isinstance(values, Mapping):
        return f"{_json_kind(values)} by name"
    return kind


# ------------------------------------------------------------------- helpers


def _table(rows: Iterable[ReferenceEntry]) -> Iterator[str]:
    rows = list(rows)
    if not rows:
        return
    yield "| setting | type | default | description |"
    yield "|---|---|---|---|"
    for row in rows:
        cells = (
            f"`{row.name}`",
            _cell(_shorten_kind(row.kind)),
            _code(row.default),
            _cell(row.text),
        )
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _shorten_kind(kind: str) -> str:
    """Drop the upper bound that only guards against overflow."""
    return kind.replace(", at most 1,000,000,000,000,000", "")


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
