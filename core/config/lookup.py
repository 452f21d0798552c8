"""Settings, benchmarks and terms by name, for ``v6t explain``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from v6t.analysis.terms import COMMON, TERMS
from v6t.base.errors import UsageError
from v6t.base.text import did_you_mean
from v6t.core.config.explain import Setting, settings_of


def look_up(name: str, plugin: str | None = None) -> list[Setting]:
    """Find what has this name, or begins or ends with it.

    Args:
        name: with dots.
        plugin: technology whose parameters are looked at, too.

    Raises:
        UsageError: there is none.
    """
    known = [*every_setting(plugin), *_benchmarks(), *_terms(), *_codes()]
    wanted = [part for part in name.lower().split(".") if part]
    exact = [row for row in known if _parts(row) == wanted]
    matches = [row for row in known if _holds(_parts(row), wanted)]
    matches = matches or [row for row in _data_fields() if _holds(_parts(row), wanted)]
    if not matches:
        names = list(dict.fromkeys(part for row in known for part in (row.name, _parts(row)[-1])))
        raise UsageError(
            f"unknown setting, benchmark, term, error code or data field '{name}'",
            did_you_mean(name, names)
            or "`v6t explain` lists all; parameters of a technology: add --plugin NAME",
            code="unknown-name",
        )
    inner = [row for row in matches if row.name.startswith((f"{name}.", f"{name}[]"))]
    return exact[:1] + inner if exact and inner else exact or matches


def list_names(plugin: str | None = None) -> dict[str, list[str]]:
    """List the names that can be looked up, by kind."""
    settings = dict.fromkeys(row.name for row in every_setting(plugin))
    return {
        "benchmarks": [row.name for row in _benchmarks()],
        "words of tables and figures": [row.name for row in _terms()],
        "settings": list(settings),
        "error codes": [row.name for row in _codes()],
    }


def _benchmarks() -> Iterator[Setting]:
    from v6t.benchmarks import registry

    for benchmark in registry.installed():
        keys = ", ".join(f"procedure.{key}" for key in benchmark.sections())
        settings = f" Its settings: {keys}." if keys else ""
        yield Setting(benchmark.name, "benchmark", "", f"{benchmark.summary}{settings}")


def _terms() -> Iterator[Setting]:
    for term, meaning in {**TERMS, **COMMON}.items():
        yield Setting(
            term, "word of tables and figures", "", meaning[0].upper() + meaning[1:] + "."
        )


def _codes() -> Iterator[Setting]:
    from v6t.base.error_codes import ERROR_CODES

    for code, meaning in ERROR_CODES.items():
        yield Setting(code, "error code", "", meaning)


def _data_fields() -> Iterator[Setting]:
    from v6t.core.config.data_dictionary import list_fields

    for field in list_fields():
        unit = f" [{field.unit}]" if field.unit else ""
        yield Setting(field.name, f"{field.file}{unit}", "", field.text)


def every_setting(plugin: str | None = None) -> Iterator[Setting]:
    """Of run file, testbed file, the testers' and every driver's options."""
    from v6t.core.config.files import RunFile, TestbedFile
    from v6t.core.config.settings import procedure_model
    from v6t.drivers.duts.options import DutOptions, LinuxOptions
    from v6t.drivers.duts.registry import DRIVERS
    from v6t.drivers.testers import TESTERS

    yield from settings_of(RunFile)
    if plugin is not None:
        from v6t.core.config.plugins import load_plugin

        yield from settings_of(load_plugin(plugin).params_model, "params.")
    yield from settings_of(procedure_model(), "procedure.")
    yield from settings_of(TestbedFile)
    for tester in TESTERS.list_rows():
        if tester.kind is not None:
            options = settings_of(tester.kind.options_model, "tester.options.")
            yield from _of(f"tester {tester.name}", options)
    seen = set()
    models: list[tuple[str, type[Any]]]
    models = [("every device driver", DutOptions), ("every Linux device", LinuxOptions)]
    for driver in DRIVERS.list_rows():
        if driver.kind is not None:
            models.append((f"device {driver.name}", driver.kind.options_model))
    for what, model in models:
        for row in settings_of(model, "dut.options."):
            if row not in seen:
                seen.add(row)
                yield from _of(what, [row])


def _of(what: str, rows: Iterable[Setting]) -> Iterator[Setting]:
    for row in rows:
        yield Setting(row.name, row.kind, row.default, f"{row.text} ({what})")


def _parts(row: Setting) -> list[str]:
    return row.name.replace("[]", "").lower().split(".")


def _holds(parts: list[str], wanted: list[str]) -> bool:
    return parts[: len(wanted)] == wanted or parts[len(parts) - len(wanted) :] == wanted
