"""Flags that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from v6t.base.errors import UsageError
from v6t.benchmarks import registry
from v6t.core.cli import shell_completion
from v6t.core.cli.paths import PATH
from v6t.core.cli.shell_completion import plugin_names
from v6t.core.modifiers.registry import MODIFIERS
from v6t.drivers.testers import AUTOMATIC, TESTERS
from v6t.profiles.mixes import is_mix, normalize_mix

if TYPE_CHECKING:
    from v6t.core.config.yaml_file import YamlFile

__all__ = [
    "FrameSizeOption",
    "NumberRange",
    "assignments",
    "live_flag",
    "names",
    "plugin_names",
    "read_first",
    "report_flag",
    "resolve_flags",
    "run_flags",
]

RFC_SIZES = "rfc"
F = TypeVar("F", bound=Callable[..., Any])


class FrameSizeOption(click.ParamType):  # type: ignore[type-arg]  # generic from 8.2 on
    """Octets of a frame, or a mix of several sizes."""

    name = "octets|imix"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_mix(value):
            return normalize_mix(value)
        return click.INT.convert(value, param, ctx)


def frame_sizes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int | str, ...]:
    """Split lists of frame sizes; the commas within a mix stay."""
    one = FrameSizeOption()
    parts = [t for text in values for t in ([text] if is_mix(text) else text.split(","))]
    return tuple(
        RFC_SIZES if part.strip() == RFC_SIZES else one.convert(part.strip(), param, ctx)
        for part in parts
    )


class NumberRange(click.FloatRange):
    """A number between two: ``nan``, which is neither below nor above any, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid float.", param, ctx)
        return number


def assignments(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """``name=value`` flags as a mapping."""
    del ctx
    out: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"{param.opts[0]} takes name=value, not '{text}'", code="not-name-and-value"
            )
        out[name.strip()] = value
    return out


def names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one or separated by commas."""
    del ctx
    found = tuple(name.strip() for text in values for name in text.split(","))
    if not all(found):
        raise UsageError(
            f"{param.opts[0]} takes names separated by commas", code="not-name-and-value"
        )
    return found


def report_flag(command: F) -> F:
    """Whether a finished run is reported on."""
    return click.option(
        "--report/--no-report",
        default=True,
        envvar="V6T_REPORT",
        help="Write report.html and its companions at the end (default).",
    )(command)


def live_flag(command: F) -> F:
    """Whether a run can be watched from a browser."""
    return click.option(
        "--live",
        is_flag=False,
        flag_value="",
        metavar="[ADDRESS:PORT]",
        help="Serve the report so far as a page that updates itself, on this "
        "machine alone unless an address is given.",
    )(command)


def run_flags(command: F) -> F:
    """Everything that shapes a run."""
    decorators = [
        click.argument("run_file", required=False, type=PATH, metavar="[TECHNOLOGY|RUN_FILE]"),
        click.option("--plugin", shell_complete=plugin_names, help="Technology to measure."),
        click.option(
            "--variant", help="Variant of a technology that has some: --set variant=NAME, shorter."
        ),
        click.option("--testbed", type=PATH, help="Testbed file."),
        click.option(
            "--tester",
            shell_complete=shell_completion.testers,
            help=f"{AUTOMATIC}, {', '.join(TESTERS.names())}.",
        ),
        click.option(
            "--initiator",
            metavar="PORT",
            help="left or right: the tester's port that plays the Initiator, or the technology's "
            "left side; what the testbed file says, else left.",
        ),
        click.option(
            "--preset",
            shell_complete=shell_completion.presets,
            help="quick (a demonstration) or rfc.",
        ),
        click.option(
            "--measure",
            "benchmarks",
            multiple=True,
            callback=names,
            metavar="NAMES",
            shell_complete=shell_completion.benchmarks,
            help=f"What to measure, separated by commas: {', '.join(registry.names())}; "
            f"{registry.ALL}: everything that suits the technology.",
        ),
        click.option(
            "--frame-size",
            "frame_sizes",
            multiple=True,
            callback=frame_sizes,
            metavar="SIZES",
            help="IPv6 frame sizes, octets with FCS, separated by commas; rfc: those that RFC 8219 "
            "lists; or a mix: imix, imix:64x28,570x16,1518x4.",
        ),
        click.option(
            "--mode",
            "modes",
            multiple=True,
            callback=names,
            metavar="NAMES",
            shell_complete=shell_completion.modes,
            help="forward, reverse, bidirectional; separated by commas.",
        ),
        click.option(
            "--adaptive",
            is_flag=True,
            help="Repeat until the median is known to 1 %; throughput and frame loss only.",
        ),
        click.option(
            "--set-procedure",
            multiple=True,
            callback=assignments,
            metavar="NAME=VALUE",
            shell_complete=shell_completion.procedure,
            help="Any other setting, for example latency.duration_s=120; repeatable.",
        ),
        click.option(
            "--set",
            "params",
            multiple=True,
            callback=assignments,
            metavar="NAME=VALUE",
            shell_complete=shell_completion.parameters,
            help="Plugin parameter; repeatable.",
        ),
        click.option(
            "--dut",
            "--driver",
            "dut",
            shell_complete=shell_completion.drivers,
            help="Device driver.",
        ),
        click.option(
            "--set-dut",
            multiple=True,
            callback=assignments,
            metavar="NAME=VALUE",
            help="Parameter of the reference device, or option of the device driver.",
        ),
        click.option(
            "--set-tester",
            multiple=True,
            callback=assignments,
            metavar="NAME=VALUE",
            shell_complete=shell_completion.tester_options,
            help="Tester option.",
        ),
        click.option(
            "--force",
            is_flag=True,
            help="Take TRex's ports from their owner, and say who that was.",
        ),
        click.option(
            "--modifier",
            metavar="NAME",
            help=f"Beside the test traffic, with all benchmarks: {', '.join(MODIFIERS.names())} "
            "(RFC 2544 section 11).",
        ),
        click.option("--seed", type=int, help="Seed of all pseudorandom numbers."),
        click.option("--label", help="Words for the directory name and the results."),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def resolve_flags(given: dict[str, Any]) -> Any:
    """Resolve the run behind :func:`run_flags`; takes its flags out of ``given``.

    In place of a run file a technology can be named; an existing file wins.
    """
    accept_technology(given)
    run_file, testbed = read_first(given.pop("run_file")), read_first(given.pop("testbed"))
    from v6t.core.config.resolve import resolve_and_bind
    from v6t.core.config.settings import Flags

    force = given.pop("force")
    flags = Flags(
        plugin=given.pop("plugin"),
        params=_with_variant(given.pop("params"), given.pop("variant")),
        tester=given.pop("tester"),
        tester_options={**given.pop("set_tester"), **({"force": "true"} if force else {})},
        dut=given.pop("dut"),
        dut_params=given.pop("set_dut"),
        initiator=given.pop("initiator"),
        preset=_preset(given.pop("preset")),
        benchmarks=given.pop("benchmarks"),
        modes=given.pop("modes"),
        frame_sizes=given.pop("frame_sizes"),
        procedure={"adaptive": {}} if given.pop("adaptive") else {},
        procedure_texts=given.pop("set_procedure"),
        settings=given.pop("settings"),
        modifier=given.pop("modifier"),
        seed=given.pop("seed"),
        label=given.pop("label"),
    )
    return resolve_and_bind(run_file, testbed, flags)


def accept_technology(given: dict[str, Any]) -> None:
    """Turn a run file that does not exist and names a technology into ``plugin``.

    Raises:
        UsageError: ``--plugin`` names another technology.
    """
    from v6t.core.config.plugins import is_technology, technology_name

    path = given["run_file"]
    if path is None or path.exists() or not is_technology(str(path)):
        return
    if given["plugin"] not in (None, str(path), technology_name(str(path))):
        raise UsageError(
            f"{path} and --plugin {given['plugin']} name different technologies",
            "leave out one of them",
            code="conflicting-options",
        )
    given["plugin"], given["run_file"] = str(path), None


def read_first(path: Path | None) -> YamlFile | None:
    """Read a file of settings before slow imports, so that a bad one is reported at once.

    Raises:
        UsageError: what is wrong.
    """
    from v6t.core.config.yaml_file import YamlFile

    return None if path is None else YamlFile(path)


def _preset(name: str | None) -> str | None:
    if name not in (None, "quick", "rfc"):
        raise UsageError(f"unknown preset '{name}'", "quick or rfc", code="unknown-name")
    return name


def _with_variant(params: dict[str, str], variant: str | None) -> dict[str, str]:
    if variant is None:
        return params
    if params.get("variant", variant) != variant:
        raise UsageError(
            f"--variant {variant} and --set variant={params['variant']} contradict each other",
            "give one of them",
            code="conflicting-options",
        )
    return {**params, "variant": variant}
