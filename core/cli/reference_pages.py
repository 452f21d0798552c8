"""The reference pages of the documentation, out of the commands and models themselves.

``python -m v6t.core.cli.reference_pages DIR`` writes them; a test compares what is in the repository.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from v6t.core.config.explain import Setting, as_yaml, settings_of, summary_of
from v6t.core.reporting.glossary import KEYS
from v6t.procedures.trial import ABILITIES

HEAD = "<!-- Written by `make docs` from the code: change the code, not this page. -->\n\n"


def pages() -> dict[str, str]:
    """Text by file name."""
    made: dict[str, Callable[[], Iterable[str]]] = {
        "commands.md": _commands,
        "run-file.md": _run_file,
        "testbed-file.md": _testbed_file,
        "campaign-file.md": _campaign_file,
        "results.md": _results,
    }
    return {name: HEAD + "\n".join(make()).rstrip() + "\n" for name, make in made.items()}


def write(directory: Path) -> None:
    """Write all pages."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


# ------------------------------------------------------------------ commands


def _commands() -> Iterator[str]:
    from v6t.core.cli.main import COMMANDS, cli

    yield "# Commands\n"
    yield "`v6t COMMAND --help` says the same. Exit statuses are on [Results](results.md).\n"
    yield from _parameters(cli)
    for name in COMMANDS:
        command = importlib.import_module(f"v6t.core.cli.{name}_command").command
        yield from _command(command, f"v6t {name}", 2)


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
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
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if not options:
        return
    yield "| option | default | what it does |"
    yield "|---|---|---|"
    for option in options:
        flags = ", ".join(f"`{o}`" for o in (*option.opts, *option.secondary_opts))
        value = "" if option.is_flag else f" {_cell(option.metavar or option.type.name.upper())}"
        text = (option.help or "") + (" Required." if option.required else "")
        if option.envvar:
            text += f" Environment: `{option.envvar}`."
        yield f"| {flags}{value} | {_default(option)} | {_cell(text)} |"
    yield ""


def _argument(argument: click.Argument) -> str:
    name = (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _default(option: click.Option) -> str:
    value = option.default
    given = isinstance(value, (str, int, float)) and value not in (False, "")
    return f"`{as_yaml(value)}`" if given else ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


# --------------------------------------------------------------------- files


def _run_file() -> Iterator[str]:
    from v6t.core.benchmarks import registry
    from v6t.core.config.files import RunFile
    from v6t.core.config.presets import procedure_of
    from v6t.core.config.settings import procedure_model

    yield "# Run file\n"
    yield "`v6t run run.yaml`: what to measure. `v6t init` writes a commented example. Flags win over"
    yield "the file, the file wins over the preset. `v6t explain NAME` shows any row of this page.\n"
    yield from _table(settings_of(RunFile))
    yield "Parameters of each technology (`params`): `v6t plugins NAME`, or its page under *Plugins*.\n"
    yield "## benchmarks\n"
    yield "In the order in which they are measured.\n"
    yield "| name | what it finds out | needs |"
    yield "|---|---|---|"
    for benchmark in registry.installed():
        needs = ["a stateful technology"] * (benchmark.connections == "only")
        able = " and ".join(ABILITIES[a] for a in sorted(benchmark.abilities))
        needs += [f"a tester that {able}"] * bool(able)
        yield f"| `{benchmark.name}` | {benchmark.summary} | {', '.join(needs)} |"
    yield ""
    yield "## procedure\n"
    yield "How trials are run and repeated. Where a preset says something else than the default,"
    yield "its value stands in its own column.\n"
    flat = {preset: dict(_flat(procedure_of(preset))) for preset in ("quick", "rfc")}
    yield "| setting | kind | default | quick | rfc | what it is |"
    yield "|---|---|---|---|---|---|"
    for row in settings_of(procedure_model()):
        own = [_code(as_yaml(flat[p][row.name])) if row.name in flat[p] else ""
               for p in ("quick", "rfc")]  # fmt: skip
        cells = [f"`{row.name}`", _cell(row.kind), _code(row.default), *own, _cell(row.text)]
        yield "| " + " | ".join(cells) + " |"


def _testbed_file() -> Iterator[str]:
    from v6t.core.config.files import TestbedFile
    from v6t.drivers.duts.options import DutOptions, LinuxOptions
    from v6t.drivers.duts.registry import driver_type, names
    from v6t.drivers.lab.reference_device import Faults
    from v6t.drivers.sim.device import SimOptions
    from v6t.drivers.trex.options import TrexOptions

    yield "# Testbed file\n"
    yield "`v6t run --testbed testbed.yaml`: on what to measure. `v6t init` writes a commented"
    yield "example; `v6t doctor --testbed FILE` checks what it names.\n"
    yield from _table(settings_of(TestbedFile))
    yield "## tester: trex\n"
    yield summary_of(TrexOptions) + " [TRex owner's guide](../trex.md)\n"
    yield from _table(settings_of(TrexOptions, "tester.options."))
    yield "## tester: sim\n"
    yield "The simulated device and the faults of device and tester; rates and times are virtual.\n"
    yield from _table(settings_of(SimOptions, "tester.options."))
    yield "## tester: embedded\n"
    yield "No options: it builds its lab itself.\n"
    yield "## dut: reference\n"
    yield "The plugin's own reference translation behind two interfaces of the lab.\n"
    faults = settings_of(Faults, "dut.options.faults.")
    yield from _table([*REFERENCE, *faults])
    every, linux = (list(settings_of(m, "dut.options.")) for m in (DutOptions, LinuxOptions))
    yield "\n## dut: every driver\n"
    yield from _table(every)
    yield "## dut: every Linux device\n"
    yield summary_of(LinuxOptions) + "\n"
    yield from _table(row for row in linux if row not in every)
    for name in names():
        made = driver_type(name)
        yield f"## dut: {name}\n"
        yield f"{made.title}. [Its page](../duts/{name}.md)\n"
        also = issubclass(made.options_model, LinuxOptions)
        yield f"As every {'Linux device' if also else 'driver'}.\n"
        common = linux if also else every
        own = [row for row in settings_of(made.options_model, "dut.options.") if row not in common]
        yield from _table(own) if own else ()


REFERENCE = (
    Setting("dut.options.params", "names with values", "", "plugin parameters that the device "
            "alone believes: a wrong device, to see it caught"),
    Setting("dut.options.hooks", "names with commands", "", "shell commands for the reset "
            "benchmark, by name"),
)  # fmt: skip


def _campaign_file() -> Iterator[str]:
    from v6t.core.campaigns.file import CampaignFile

    yield "# Campaign file\n"
    yield "`v6t campaign FILE -o DIR`: many runs described by one file. `v6t campaign --list` names"
    yield "those that come with v6t.\n"
    yield from _table(settings_of(CampaignFile))


# ------------------------------------------------------------------- results


def _results() -> Iterator[str]:
    schema = json.loads(
        files("v6t.analysis").joinpath("schema/results-1.json").read_text(encoding="utf-8")
    )
    yield "# Results\n"
    yield "What a run directory holds:\n"
    yield "| file | what it is |"
    yield "|---|---|"
    for name, text in FILES.items():
        yield f"| `{name}` | {text} |"
    yield "\n## Exit status\n"
    yield "| status | meaning |"
    yield "|---|---|"
    for status, text in STATUSES.items():
        yield f"| {status} | {text} |"
    yield "\n## results.json\n"
    yield "Its schema comes with v6t: `analysis/schema/results-1.json` (JSON Schema 2020-12).\n"
    yield from _schema(schema)
    for name, part in schema["$defs"].items():
        if part.get("properties"):
            yield f"### {name}\n"
            if part.get("description"):
                yield part["description"] + "\n"
            yield from _schema(part)
    for branch in schema["$defs"]["record"]["allOf"]:
        name = branch["if"]["properties"]["benchmark"]
        yield f"### record: {', '.join(name.get('enum', [name.get('const')]))}\n"
        yield from _schema(branch["then"])


FILES = {
    "results.json": "one record per benchmark, frame size and direction; written anew after each",
    "results.csv": "one line per repetition of the throughput, in siitperf's column order",
    "BENCHMARK.csv": "one line per repetition, or rate, of each other benchmark",
    "trials.csv": "every trial, one line per direction and class",
    "journal.jsonl": "every trial as it ended, one durable line each, marked with its run: what "
    "`v6t resume` reads",
    "config.json": "everything decided: the run, resolved; `v6t init --from-run DIR` makes it files",
    "manifest.json": "on what it was measured: versions, machine, tester, device",
    "log.txt": "what the run said, errors and warnings included, with the time",
    "report.html": "tables, figures, validity, compliance; opens without a network",
    "report.md, report.json, junit.xml": "the same for a paper's appendix, for "
    "programs, for CI (JUnit)",
}
STATUSES = {
    0: "done",
    1: "a defect of v6t",
    2: "a file, flag, rule or frame size is wrong; nothing was done",
    3: "this machine lacks something",
    4: "the device under test cannot be driven",
    5: "the tester failed; what was measured is kept",
    6: "the device translates wrongly",
    130: "interrupted; `v6t resume DIR` continues",
}


def _schema(part: Mapping[str, Any]) -> Iterator[str]:
    required = part.get("required", [])
    yield "| key | kind | always there | what it is |"
    yield "|---|---|---|---|"
    for key, known in part["properties"].items():
        always = "yes" if key in required else ""
        text = _cell(known.get("description") or KEYS.get(key, ""))
        yield f"| `{key}` | {_cell(_json_kind(known))} | {always} | {text} |"
    yield ""


def _json_kind(known: Mapping[str, Any]) -> str:
    if "$ref" in known:
        return str(known["$ref"]).rpartition("/")[2]
    if "enum" in known:
        return ", ".join(map(str, known["enum"]))
    if "const" in known:
        return str(known["const"])
    kind = known.get("type", "")
    if kind == "array":
        return f"list of {_json_kind(known.get('items', {})) or 'values'}"
    if isinstance(kind, list):
        return " or ".join(kind)
    choices = known.get("oneOf") or known.get("anyOf")
    return " or ".join(_json_kind(c) for c in choices) if choices else str(kind)


# ------------------------------------------------------------------- helpers


def _table(rows: Iterable[Setting]) -> Iterator[str]:
    yield "| setting | kind | default | what it is |"
    yield "|---|---|---|---|"
    for row in rows:
        cells = (f"`{row.name}`", _cell(row.kind), _code(row.default), _cell(row.text))
        yield "| " + " | ".join(cells) + " |"
    yield ""


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


if __name__ == "__main__":
    write(Path(sys.argv[1]))
