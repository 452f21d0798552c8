"""From run file, testbed file, preset and flags to one resolved run. Later ones win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from v6t.core.benchmarks import registry
from v6t.core.config.checks import check_measures
from v6t.core.config.files import Flags, LinkFile, RunFile, TestbedFile
from v6t.core.config.plugins import load_plugin
from v6t.core.config.presets import MODES, procedure_of
from v6t.core.config.settings import (
    DutSettings,
    LinkSettings,
    Preset,
    ProcedureSettings,
    ResolvedRun,
    TesterSettings,
    procedure_model,
)
from v6t.core.config.validation import (
    among,
    listed,
    place_of,
    refuse_empty,
    refuse_mistyped,
    validated,
    within,
)
from v6t.core.config.yaml_document import Document
from v6t.core.runs.chained import check_parts
from v6t.drivers.duts.registry import driver_type, make_driver
from v6t.drivers.duts.registry import names as driver_names
from v6t.plugins.base import Link, Links, PluginParams, Technology
from v6t.plugins.common.sizes import rfc_sizes
from v6t.profiles.errors import UsageError
from v6t.profiles.wire import max_frame_rate_fps, parse_line_rate

__all__ = [
    "Flags",
    "RunFile",
    "TestbedFile",
    "device_of",
    "driver_named",
    "resolve",
    "technology",
    "tester_of",
]

DEFAULT_LINE_RATE = "10G"
TESTERS = ("auto", "embedded", "sim", "trex")


def resolve(
    run_path: Path | Document | None = None,
    testbed_path: Path | Document | None = None,
    flags: Flags | None = None,
) -> ResolvedRun:
    """Read, merge and check everything; a document stands for a file that was read already.

    Raises:
        UsageError: the first thing that is wrong, with file and line where it stands.
    """
    flags = flags or Flags()
    run_doc = Document(run_path) if isinstance(run_path, Path) else run_path
    bed_doc = Document(testbed_path) if isinstance(testbed_path, Path) else testbed_path
    run = _read(RunFile, run_doc)
    bed = _read(TestbedFile, bed_doc)
    name = flags.plugin or run.plugin
    if name is None:
        raise UsageError("which technology?", "give --plugin NAME; `v6t plugins` lists them")
    with within(None if flags.plugin else run_doc, ("plugin",)):
        plugin_type = load_plugin(name)
    links = {
        side: _link(bed_doc, side, getattr(bed.links, side), getattr(Links(), side))
        for side in ("left", "right")
    }
    benchmarks = listed(
        run_doc, "benchmarks", flags.benchmarks, run.benchmarks, ("throughput",), registry.names()
    )
    given = dict(run.params)
    for benchmark in map(registry.load, benchmarks):
        given = {**benchmark.parameters(plugin_type), **given}
    try:
        params = _params(plugin_type, given, flags.params, run_doc)
    except UsageError as exc:
        if run.plugin in (None, name) or not run.params:
            raise
        raise UsageError(exc.message, f"the parameters of this file are {run.plugin}'s") from exc
    plugin = plugin_type(params, _links(links["left"], links["right"]))
    preset: Any = flags.preset or run.preset or "quick"
    sizes = _sizes(plugin, preset, flags.frame_sizes, run, run_doc)
    resolved = {
        "plugin": name,
        "params": {**given, **_expand(flags.params)},
        "links_left": links["left"],
        "links_right": links["right"],
        "line_rate_bps": _line_rate(bed, bed_doc, plugin, sizes),
        "tester": _tester(bed, flags, bed_doc),
        "dut": _dut(bed, flags, bed_doc, _default_driver(plugin, bed, flags)),
        "preset": preset,
        "benchmarks": benchmarks,
        "modes": listed(run_doc, "modes", flags.modes, run.modes, MODES, MODES),
        "frame_sizes": sizes,
        "procedure": _procedure(preset, run, flags, run_doc),
        "seed": flags.seed if flags.seed is not None else (run.seed if run.seed is not None else 1),
        "label": flags.label or run.label or "",
        "connects": plugin.stateful,
    }
    checked: ResolvedRun = validated(ResolvedRun, resolved, None)
    with within(None if flags.dut_params else bed_doc, ("dut", "options", "params")):
        device = device_of(checked)  # its own parameters must hold too
    if checked.dut.driver != "reference":
        with within(None if flags.dut else bed_doc, ("dut", "driver")):
            driver_type(checked.dut.driver).check_technology(name)
            if checked.dut.driver == "chain":
                check_parts(checked.dut.options, plugin)
    with within(None if flags.procedure or flags.procedure_texts else run_doc, ("procedure",)):
        from v6t.core.config.bound import BoundRun

        check_measures(BoundRun(checked, plugin, device))
    return checked


def tester_of(testbed_path: Path) -> TesterSettings:
    """The tester a testbed file names; the rest of the file is checked, too.

    Raises:
        UsageError: what is wrong in the file, with its line.
    """
    document = Document(testbed_path)
    bed = _read(TestbedFile, document)
    for side in ("left", "right"):
        _link(document, side, getattr(bed.links, side), getattr(Links(), side))
    with within(document, ("line_rate",)):
        parse_line_rate(bed.line_rate or DEFAULT_LINE_RATE)
    _dut(bed, Flags(), document, "reference")
    return _tester(bed, Flags(), document)


def driver_named(testbed_path: Path | None) -> str:
    """The device driver a testbed file names; ``reference`` without one.

    Raises:
        UsageError: what is wrong in the file, with its line.
    """
    document = Document(testbed_path) if testbed_path is not None else None
    return _read(TestbedFile, document).dut.driver or "reference"


def technology(run: ResolvedRun) -> Technology:
    """The plugin as the tester sees it."""
    plugin_type = load_plugin(run.plugin)
    params = _params(plugin_type, run.params, {}, None)
    return plugin_type(params, _links(run.links_left, run.links_right))


def device_of(run: ResolvedRun) -> Technology:
    """The plugin as the reference device sees it: the same, but for the device's own overrides."""
    plugin_type = load_plugin(run.plugin)
    own = run.dut.options.get("params", {}) if run.dut.driver == "reference" else {}
    given = {**run.params, **own}
    params = _params(plugin_type, given, {}, None)
    return plugin_type(params, _links(run.links_left, run.links_right))


def _links(left: LinkSettings, right: LinkSettings) -> Links:
    return Links(Link(**left.model_dump()), Link(**right.model_dump()))


def _read(model: type[Any], document: Document | None) -> Any:
    if document is None:
        return model()
    given = set(document.data)
    if given and model is RunFile and given <= set(TestbedFile.model_fields):
        raise UsageError(f"{document.path} is a testbed file", "give it as --testbed FILE")
    if given and model is TestbedFile and given <= set(RunFile.model_fields):
        raise UsageError(f"{document.path} is a run file", "give it without --testbed")
    return validated(model, document.data, document)


def _params(
    plugin: type[Technology],
    from_file: Mapping[str, Any],
    from_flags: Mapping[str, str],
    document: Document | None,
) -> PluginParams:
    flagged = _expand(from_flags)
    with within(None if flagged else document, ("params",)):
        checked = validated(
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

    try:
        return YAML(typ="safe", pure=True).load(text)
    except Exception as exc:  # the parser fails in many ways on odd scalars
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
                f"{place_of(document, ('links', side, name))}'{values[name]}' is no MAC address",
                "write it as 02:00:00:00:01:02",
            )
    return validated(LinkSettings, values, document, ("links", side))  # type: ignore[no-any-return]


def _is_octet(text: str) -> bool:
    return len(text) == 2 and all(c in "0123456789abcdefABCDEF" for c in text)


def _sizes(
    plugin: Technology,
    preset: str,
    flagged: Sequence[int],
    run: RunFile,
    document: Document | None,
) -> tuple[int, ...]:
    with within(document, ("frame_sizes",)):
        refuse_empty("frame_sizes", run.frame_sizes)
    if flagged:
        chosen, source = list(flagged), None
    elif run.frame_sizes:
        chosen, source = run.frame_sizes, document
    else:
        chosen = list(rfc_sizes(plugin) if preset == "rfc" else plugin.default_frame_sizes)
        source = None
    for number, size in enumerate(chosen):
        with within(source, ("frame_sizes", number)):
            plugin.frame_pair(size)
    with within(source, ("frame_sizes",)):
        if len(set(chosen)) != len(chosen):
            raise UsageError("a frame size is given twice")
    return tuple(chosen)


def _line_rate(
    bed: TestbedFile, document: Document | None, plugin: Technology, sizes: Sequence[int]
) -> float:
    with within(document, ("line_rate",)):
        rate_bps = parse_line_rate(bed.line_rate or DEFAULT_LINE_RATE)
        for size in sizes:
            if max_frame_rate_fps(rate_bps, plugin.frame_pair(size).ipv6) < 1:
                raise UsageError(
                    f"a line of {rate_bps:g} bit/s carries no frame of {size} octets in a second",
                    "write for example 10G, 2.5Gbps or 100M",
                )
    return rate_bps


def _tester(bed: TestbedFile, flags: Flags, document: Document | None) -> TesterSettings:
    with within(None if flags.tester else document, ("tester", "kind")):
        (kind,) = among(TESTERS, [flags.tester or bed.tester.kind], "tester")
    options = {**bed.tester.options, **_expand(flags.tester_options)}
    with within(None if flags.tester_options else document, ("tester", "options")):
        return _tester_options(kind, options)


def _tester_options(kind: str, options: dict[str, Any]) -> TesterSettings:
    chosen: Any = "embedded" if kind == "auto" else kind
    if chosen == "sim":
        from v6t.drivers.sim.tester import SimOptions

        SimOptions.from_mapping(options)
    elif chosen == "trex":
        from v6t.drivers.trex.options import TrexOptions

        refuse_mistyped(TrexOptions, options, None)
        TrexOptions.from_mapping(options)
    elif chosen == "embedded" and options:
        raise UsageError(
            f"the embedded tester has no option '{next(iter(options))}'",
            "options are for --tester sim and --tester trex",
        )
    return TesterSettings(kind=chosen, options=options)


def _default_driver(plugin: Technology, bed: TestbedFile, flags: Flags) -> str:
    """The reference device; a stateful technology has none, but one of its own in the lab."""
    own = plugin.default_driver
    kind = flags.tester or bed.tester.kind
    options = {**bed.tester.options, **flags.tester_options}
    in_lab = kind in ("auto", "embedded") or str(options.get("lab", "")).lower() == "true"
    return own if own is not None and in_lab else "reference"


def _dut(bed: TestbedFile, flags: Flags, document: Document | None, default: str) -> DutSettings:
    given = bed.dut.driver or default
    with within(None if flags.dut else document, ("dut", "driver")):
        (driver,) = among(("reference", *driver_names()), [flags.dut or given], "device driver")
    options = dict(bed.dut.options) if driver == given else {}
    if driver != "reference":
        options.update(_expand(flags.dut_params))
        with within(None if flags.dut_params else document, ("dut", "options")):
            refuse_mistyped(driver_type(driver).options_model, options, None)
            make_driver(driver, options)
        return DutSettings(driver=driver, options=options)
    for name, value in options.items():
        with within(document, ("dut", "options", name)):
            if name not in ("params", "faults", "hooks"):
                raise UsageError(
                    f"the reference device has no option '{name}'", "params, faults or hooks"
                )
            if not isinstance(value, Mapping):
                raise UsageError(f"the reference device's {name} are names with values")
    if flags.dut_params:
        options["params"] = {**options.get("params", {}), **_expand(flags.dut_params)}
    with within(document, ("dut", "options", "faults")):
        _faults(options.get("faults", {}))
    with within(document, ("dut", "options", "hooks")):
        _hooks(options.get("hooks", {}))
    return DutSettings(driver=driver, options=options)


def _hooks(hooks: Mapping[str, Any]) -> None:
    for name, command in hooks.items():
        if not isinstance(command, str) or not command.strip():
            raise UsageError(f"the hook {name} is no command", "write the command as one line")


def _faults(faults: Mapping[str, Any]) -> None:
    smallest = {"drop_every": 0, "duplicate_every": 0, "corrupt_octet": -1, "slow_ns": 0}
    for name, value in faults.items():
        if name not in smallest or type(value) is not int or value < smallest[name]:
            raise UsageError(
                f"the reference device cannot have the fault {name}: {value!r:.40}",
                "whole numbers: " + ", ".join(f"{n} from {low} on" for n, low in smallest.items()),
            )


def _procedure(
    preset: Preset, run: RunFile, flags: Flags, document: Document | None
) -> ProcedureSettings:
    flagged = {k: v for k, v in flags.procedure.items() if v is not None}
    flagged = _laid_over(flagged, _expand(flags.procedure_texts))
    values = _laid_over(_laid_over(procedure_of(preset), run.procedure), flagged)
    return validated(  # type: ignore[no-any-return]
        procedure_model(), values, document, ("procedure",), flagged
    )


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, mappings within them alike."""
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = _laid_over(under, value)
        else:
            merged[name] = value
    return merged
