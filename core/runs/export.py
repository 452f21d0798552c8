"""Turn a run's resolved configuration back into run.yaml and testbed.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from v6t.core.config.examples import write_files
from v6t.core.config.presets import procedure_of
from v6t.core.config.settings import ResolvedRun, procedure_model
from v6t.core.config.yaml_file import YamlFile, to_yaml
from v6t.core.runs.rundir import CONFIG, read_config


def restore(source: Path, directory: Path) -> list[Path]:
    """Write the files with which a run can be repeated."""
    run = read_config(source)
    files = {"run.yaml": make_run_file(run), "testbed.yaml": make_testbed_file(run)}
    head = f"# The configuration of {source}, in full.\n"
    return write_files({directory / name: head + to_yaml(v) for name, v in files.items()})


def read_files(source: Path) -> tuple[YamlFile, YamlFile]:
    """Return run file and testbed file of a run, to repeat it with other options."""
    run, path = read_config(source), source / CONFIG
    return (
        YamlFile(path, to_yaml(make_run_file(run))),
        YamlFile(path, to_yaml(make_testbed_file(run))),
    )


def make_run_file(run: ResolvedRun) -> dict[str, Any]:
    """Return the content of a run file: the preset, and what differs from it."""
    preset = procedure_model().model_validate(procedure_of(run.preset)).model_dump(mode="json")
    return {
        "plugin": run.plugin,
        "params": dict(run.params),
        "preset": run.preset,
        "benchmarks": list(run.benchmarks),
        "modes": list(run.modes),
        "frame_sizes": list(run.frame_sizes),
        "procedure": _subtract(run.procedure.model_dump(mode="json"), preset),
        **({"modifier": run.modifier} if run.modifier else {}),
        "seed": run.seed,
        "label": run.label,
    }


def make_testbed_file(run: ResolvedRun) -> dict[str, Any]:
    """Return the content of a testbed file."""
    return {
        "tester": {"kind": run.tester.kind, "options": dict(run.tester.options)},
        "dut": {"driver": run.dut.driver, "options": dict(run.dut.options)},
        "links": {
            "left": run.links_left.model_dump(mode="json"),
            "right": run.links_right.model_dump(mode="json"),
        },
        "initiator": run.initiator,
        "line_rate": _format_rate(run.line_rate_bps),
    }


def _format_rate(rate_bps: float) -> str:
    for letter, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if (rate_bps / factor).is_integer():
            return f"{rate_bps / factor:.0f}{letter}"
    return f"{rate_bps:.17g}"


def _subtract(settings: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from a preset, at any depth."""
    differences: dict[str, Any] = {}
    for name, value in settings.items():
        known = preset.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := _subtract(value, known):
                differences[name] = inner
        elif value != known:
            differences[name] = value
    return differences
