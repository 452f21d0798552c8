"""A run's resolved configuration turned back into run.yaml and testbed.yaml."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.files import explain_read_error, read_json
from v6t.core.config.examples import write_files
from v6t.core.config.presets import procedure_of
from v6t.core.config.settings import ResolvedRun, procedure_model, saved_run
from v6t.core.runs.rundir import CONFIG


def restore(source: Path, directory: Path) -> list[Path]:
    """Write the files with which a run can be repeated.

    Args:
        source: a run directory, or its config.json.
        directory: where to write; nothing is overwritten.

    Raises:
        UsageError: there is no configuration, or a file exists.
    """
    run = configuration(source)
    head = f"# The configuration of {source}, in full.\n"
    return write_files(
        {
            directory / "run.yaml": head + _yaml(run_file(run)),
            directory / "testbed.yaml": head + _yaml(testbed_file(run)),
        }
    )


def configuration(source: Path) -> ResolvedRun:
    """Read the resolved run of a directory, even of one that is going on.

    Raises:
        UsageError: there is none.
    """
    from pydantic import ValidationError

    path = source / CONFIG if source.is_dir() else source
    try:
        return saved_run(read_json(path))
    except OSError as exc:
        raise explain_read_error(path, exc) from exc
    except ValidationError as exc:
        raise UsageError(
            f"{path} is not a configuration of this version of v6t", code="damaged-file"
        ) from exc


def run_file(run: ResolvedRun) -> dict[str, Any]:
    """Write a run file: the preset, and what differs from it."""
    preset = procedure_model().model_validate(procedure_of(run.preset)).model_dump(mode="json")
    own = run.procedure.model_dump(mode="json")
    return {
        "plugin": run.plugin,
        "params": dict(run.params),
        "preset": run.preset,
        "benchmarks": list(run.benchmarks),
        "modes": list(run.modes),
        "frame_sizes": list(run.frame_sizes),
        "procedure": _differing(own, preset),
        **({"modifier": run.modifier} if run.modifier else {}),
        "seed": run.seed,
        "label": run.label,
    }


def testbed_file(run: ResolvedRun) -> dict[str, Any]:
    """On what to measure."""
    return {
        "tester": {"kind": run.tester.kind, "options": dict(run.tester.options)},
        "dut": {"driver": run.dut.driver, "options": dict(run.dut.options)},
        "links": {
            "left": run.links_left.model_dump(mode="json"),
            "right": run.links_right.model_dump(mode="json"),
        },
        "initiator": run.initiator,
        "line_rate": _rate(run.line_rate_bps),
    }


def _rate(rate_bps: float) -> str:
    for letter, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if (rate_bps / factor).is_integer():
            return f"{rate_bps / factor:.0f}{letter}"
    return f"{rate_bps:.17g}"


def _differing(own: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings whose value differs, at any depth."""
    differences: dict[str, Any] = {}
    for name, value in own.items():
        known = preset.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            inner = _differing(value, known)
            if inner:
                differences[name] = inner
        elif value != known:
            differences[name] = value
    return differences


def _yaml(values: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    out = io.StringIO()
    yaml.dump(dict(values), out)
    return out.getvalue()
