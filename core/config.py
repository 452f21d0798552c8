"""From run file, testbed file, preset and flags to one resolved run. Later ones win."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from v6t.core.presets import MODES, PROCEDURES
from v6t.core.registry import load_plugin
from v6t.core.settings import (
    DutSettings,
    LinkSettings,
    Preset,
    ProcedureSettings,
    ResolvedRun,
    TesterSettings,
)
from v6t.core.yamlfile import Document
from v6t.plugins.base import Link, Links, PluginParams, Technology
from v6t.profiles.errors import UsageError
from v6t.profiles.wire import max_frame_rate_fps, parse_line_rate

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULT_LINE_RATE = "10G"
DUT_DRIVERS = ("reference",)
TESTERS = ("auto", "embedded", "sim", "trex")
BENCHMARKS = ("throughput",)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunFile(_Section):
    """What to measure."""

    plugin: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    preset: Preset | None = None
    benchmarks: list[str] | None = None
    modes: list[str] | None = None
    frame_sizes: list[int] | None = None
    procedure: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    label: str | None = None


class LinkFile(_Section):
    """One cable."""

    tester_mac: str | None = None
    dut_mac: str | None = None
    vlan: int | None = None
    mtu: int | None = None


class LinksFile(_Section):
    """Both cables."""

    left: LinkFile = Field(default_factory=LinkFile)
    right: LinkFile = Field(default_factory=LinkFile)


class TesterFile(_Section):
    """Which tester."""

    kind: str = "auto"
    options: dict[str, Any] = Field(default_factory=dict)


class DutFile(_Section):
    """Which device driver."""

    driver: str = "reference"
    options: dict[str, Any] = Field(default_factory=dict)


class TestbedFile(_Section):
    """On what to measure."""

    tester: TesterFile = Field(default_factory=TesterFile)
    dut: DutFile = Field(default_factory=DutFile)
    links: LinksFile = Field(default_factory=LinksFile)
    line_rate: str | None = None


@dataclass(frozen=True)
class Flags:
    """What the command line says; None and empty mean "not given"."""

    plugin: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tester: str | None = None
    tester_options: Mapping[str, str] = field(default_factory=dict)
    dut: str | None = None
    dut_params: Mapping[str, str] = field(default_factory=dict)
    preset: str | None = None
    modes: Sequence[str] = ()
    frame_sizes: Sequence[int] = ()
    procedure: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    label: str | None = None


def resolve(
    run_path: Path | None = None, testbed_path: Path | None = None, flags: Flags | None = None
) -> ResolvedRun:
    """Read, merge and check everything.

    Raises:
        UsageError: the first thing that is wrong, with file and line where it stands.
    """
    flags = flags or Flags()
    run_doc = Document(run_path) if run_path else None
    bed_doc = Document(testbed_path) if testbed_path else None
    run = _read(RunFile, run_doc)
    bed = _read(TestbedFile, bed_doc)
    name = flags.plugin or run.plugin
    if name is None:
        raise UsageError("which technology?", "give --plugin NAME; `v6t plugins` lists them")
    with _within(None if flags.plugin else run_doc, ("plugin",)):
        plugin_type = load_plugin(name)
    links = {
        side: _link(bed_doc, side, getattr(bed.links, side), getattr(Links(), side))
        for side in ("left", "right")
    }
    params = _params(plugin_type, run.params, flags.params, run_doc)
    plugin = plugin_type(params, _links(links["left"], links["right"]))
    preset: Any = flags.preset or run.preset or "quick"
    sizes = _sizes(plugin, preset, flags.frame_sizes, run, run_doc)
    resolved = {
        "plugin": name,
        "params": {**run.params, **_expand(flags.params)},
        "links_left": links["left"],
        "links_right": links["right"],
        "line_rate_bps": _line_rate(bed, bed_doc, plugin, sizes),
        "tester": _tester(bed, flags, bed_doc),
        "dut": _dut(bed, flags, bed_doc),
        "preset": preset,
        "benchmarks": _listed(run_doc, "benchmarks", (), run.benchmarks, BENCHMARKS[:1], BENCHMARKS),
        "modes": _listed(run_doc, "modes", flags.modes, run.modes, MODES, MODES),
        "frame_sizes": sizes,
        "procedure": _procedure(preset, run, flags, run_doc),
        "seed": flags.seed if flags.seed is not None else (run.seed if run.seed is not None else 1),
        "label": flags.label or run.label or "",
    }
    checked: ResolvedRun = _checked(ResolvedRun, resolved, None)
    device_of(checked)  # its own parameters must hold too
    return checked


def technology(run: ResolvedRun) -> Technology:
    """The plugin as the tester sees it."""
    plugin_type = load_plugin(run.plugin)
    params = _params(plugin_type, run.params, {}, None)
    return plugin_type(params, _links(run.links_left, run.links_right))


def device_of(run: ResolvedRun) -> Technology:
    """The plugin as the reference device sees it: the same, but for the device's own overrides."""
    plugin_type = load_plugin(run.plugin)
    given = {**run.params, **run.dut.options.get("params", {})}
    params = _params(plugin_type, given, {}, None)
    return plugin_type(params, _links(run.links_left, run.links_right))


def _links(left: LinkSettings, right: LinkSettings) -> Links:
    return Links(Link(**left.model_dump()), Link(**right.model_dump()))


def _read(model: type[Any], document: Document | None) -> Any:
    return model() if document is None else _checked(model, document.data, document)


def _params(
    plugin: type[Technology],
    from_file: Mapping[str, Any],
    from_flags: Mapping[str, str],
    document: Document | None,
) -> PluginParams:
    flagged = _expand(from_flags)
    with _within(None if flagged else document, ("params",)):
        checked = _checked(
            plugin.params_model, {**from_file, **flagged}, document, ("params",), flagged
        )
    return checked  # type: ignore[no-any-return]


def _expand(flags: Mapping[str, str]) -> dict[str, Any]:
    """``fw_dport.min=1`` becomes a nested mapping; values starting with [ or { are YAML."""
    out: dict[str, Any] = {}
    for name, value in flags.items():
        *path, last = name.split(".")
        place = out
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise UsageError(f"--set {name}: '{part}' is given as a whole already")
        place[last] = _value(name, value)
    return out


def _value(name: str, text: str) -> Any:
    if not text.startswith(("[", "{")):
        return text
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError) as exc:
        raise UsageError(f"--set {name}: '{text}' is no YAML value") from exc


def _link(document: Document | None, side: str, given: LinkFile, default: Link) -> LinkSettings:
    values = {
        "tester_mac": given.tester_mac or default.tester_mac,
        "dut_mac": given.dut_mac or default.dut_mac,
        "vlan": given.vlan,
        "mtu": default.mtu if given.mtu is None else given.mtu,
    }
    for name in ("tester_mac", "dut_mac"):
        octets = str(values[name]).split(":")
        if len(octets) != 6 or not all(_is_octet(o) for o in octets):
            raise UsageError(
                f"{_at(document, ('links', side, name))}'{values[name]}' is no MAC address",
                "write it as 02:00:00:00:01:02",
            )
    return _checked(LinkSettings, values, document, ("links", side))  # type: ignore[no-any-return]


def _is_octet(text: str) -> bool:
    return len(text) == 2 and all(c in "0123456789abcdefABCDEF" for c in text)


def _sizes(
    plugin: Technology,
    preset: str,
    flagged: Sequence[int],
    run: RunFile,
    document: Document | None,
) -> tuple[int, ...]:
    if flagged:
        chosen, source = list(flagged), None
    elif run.frame_sizes:
        chosen, source = run.frame_sizes, document
    else:
        chosen = list(plugin.rfc_frame_sizes if preset == "rfc" else plugin.default_frame_sizes)
        source = None
    for at, size in enumerate(chosen):
        with _within(source, ("frame_sizes", at)):
            plugin.frame_pair(size)
    with _within(source, ("frame_sizes",)):
        if len(set(chosen)) != len(chosen):
            raise UsageError("a frame size is given twice")
    return tuple(chosen)


def _line_rate(
    bed: TestbedFile, document: Document | None, plugin: Technology, sizes: Sequence[int]
) -> float:
    with _within(document, ("line_rate",)):
        rate_bps = parse_line_rate(bed.line_rate or DEFAULT_LINE_RATE)
        for size in sizes:
            if max_frame_rate_fps(rate_bps, plugin.frame_pair(size).ipv6) < 1:
                raise UsageError(
                    f"a line of {rate_bps:g} bit/s carries no frame of {size} octets in a second",
                    "write for example 10G, 2.5Gbps or 100M",
                )
    return rate_bps


def _tester(bed: TestbedFile, flags: Flags, document: Document | None) -> TesterSettings:
    with _within(None if flags.tester else document, ("tester", "kind")):
        (kind,) = _known([flags.tester or bed.tester.kind], TESTERS, "tester")
    options = {**bed.tester.options, **_expand(flags.tester_options)}
    with _within(None if flags.tester_options else document, ("tester", "options")):
        return _tester_options(kind, options)


def _tester_options(kind: str, options: dict[str, Any]) -> TesterSettings:
    chosen: Any = "embedded" if kind == "auto" else kind
    if chosen == "sim":
        from v6t.drivers.sim import SimOptions

        SimOptions.from_mapping(options)
    elif chosen == "trex":
        from v6t.drivers.trex.options import TrexOptions

        TrexOptions.from_mapping(options)
    elif chosen == "embedded" and options:
        raise UsageError(
            f"the embedded tester has no option '{next(iter(options))}'",
            "options are for --tester sim",
        )
    return TesterSettings(kind=chosen, options=options)


def _dut(bed: TestbedFile, flags: Flags, document: Document | None) -> DutSettings:
    with _within(None if flags.dut else document, ("dut", "driver")):
        (driver,) = _known([flags.dut or bed.dut.driver], DUT_DRIVERS, "device driver")
    options = dict(bed.dut.options)
    for name in options:
        with _within(document, ("dut", "options", name)):
            if name not in ("params", "faults"):
                raise UsageError(f"the reference device has no option '{name}'", "params or faults")
            if not isinstance(options[name], Mapping):
                raise UsageError(f"the reference device's {name} are names with values")
    if flags.dut_params:
        options["params"] = {**options.get("params", {}), **_expand(flags.dut_params)}
    with _within(document, ("dut", "options", "faults")):
        _faults(options.get("faults", {}))
    return DutSettings(driver=driver, options=options)


def _faults(faults: Mapping[str, Any]) -> None:
    smallest = {"drop_every": 0, "duplicate_every": 0, "corrupt_octet": -1}
    for name, value in faults.items():
        if name not in smallest or type(value) is not int or value < smallest[name]:
            raise UsageError(
                f"the reference device cannot have the fault {name}: {value!r:.40}",
                "whole numbers: " + ", ".join(f"{n} from {low} on" for n, low in smallest.items()),
            )


def _procedure(
    preset: Preset, run: RunFile, flags: Flags, document: Document | None
) -> ProcedureSettings:
    values = {**PROCEDURES[preset], **run.procedure}
    values.update({k: v for k, v in flags.procedure.items() if v is not None})
    return _checked(ProcedureSettings, values, document, ("procedure",))  # type: ignore[no-any-return]


def _listed(
    document: Document | None,
    name: str,
    flagged: Sequence[str],
    given: Sequence[str] | None,
    default: Sequence[str],
    known: Sequence[str],
) -> tuple[str, ...]:
    """A list of known names from flag, file or default; ``name`` is the file's key for it."""
    with _within(None if flagged else document, (name,)):
        return _known(flagged or given or default, known, name.removesuffix("s"))


def _known(given: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise UsageError(
                f"there is no {what} '{name}'",
                f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(known),
            )
    if len(set(given)) != len(given):
        raise UsageError(f"a {what} is given twice")
    return tuple(given)


def _checked(
    model: type[BaseModel],
    data: Mapping[str, Any],
    document: Document | None,
    above: tuple[str, ...] = (),
    flagged: Collection[str] = (),
) -> Any:
    """Validate; the first complaint becomes one sentence with its place.

    Args:
        model: what the data should be.
        data: from files and flags.
        document: the file, None if there is none.
        above: where in the file the data stand.
        flagged: names in the data that flags gave: they stand in no file.
    """
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        problems = exc.errors(include_url=False)
        # a misspelt name often leaves another one missing
        problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
        from_flag = str(problem["loc"][0]) in flagged if problem["loc"] else False
        place = "" if from_flag else _at(document, (*above, *problem["loc"]))
        name = ".".join(str(part) for part in (*above, *problem["loc"]))
        if problem["type"] == "extra_forbidden":
            raise UsageError(f"{place}unknown setting '{name}'", _near(model, problem)) from exc
        reason = problem["msg"].removeprefix("Value error, ")
        value = problem["input"]
        shown = "" if isinstance(value, Mapping) else f" ({value!r:.80} given)"
        raise UsageError(f"{place}{name or model.__name__}: {reason}{shown}") from exc


def _at(document: Document | None, keys: Sequence[Any]) -> str:
    return "" if document is None else document.where(keys) + ": "


@contextmanager
def _within(document: Document | None, keys: Sequence[Any]) -> Iterator[None]:
    """Errors from inside say where their cause stands, unless they do so already."""
    try:
        yield
    except UsageError as exc:
        if document is None or exc.message.startswith(str(document.path)):
            raise
        raise UsageError(_at(document, keys) + exc.message, exc.hint) from exc


def _model_in(annotation: Any) -> Any:
    """The model an annotation is, or is a sequence of."""
    for inner in get_args(annotation):
        if hasattr(inner, "model_fields"):
            return inner
    return annotation


def _near(model: type[BaseModel], problem: ErrorDetails) -> str:
    """Known names beside the unknown one."""
    inner: Any = model
    for part in problem["loc"][:-1]:
        known = getattr(inner, "model_fields", {}).get(str(part))
        inner = _model_in(known.annotation) if known else inner
    names = list(getattr(inner, "model_fields", {}))
    near = difflib.get_close_matches(str(problem["loc"][-1]), names, 1)
    if near:
        return f"did you mean '{near[0]}'?"
    return "known: " + ", ".join(names) if names else ""
