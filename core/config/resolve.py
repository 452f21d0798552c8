"""From run file, testbed file, preset and flags to one resolved run. Later ones win."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.base.ethernet import max_frame_rate_fps, parse_line_rate
from v6t.base.quantities import is_bit_rate
from v6t.benchmarks import registry
from v6t.benchmarks.settings import list_flags
from v6t.core.config.bound import (
    BoundRun,
    make_device_view,
    make_links,
    make_technology,
    validate_params,
)
from v6t.core.config.checks import (
    check_benchmark_settings,
    check_modifier,
    check_tester_connections,
    check_ttl,
)
from v6t.core.config.plugins import load_plugin, resolve_alias
from v6t.core.config.settings import (
    PRESETS,
    TRAFFIC_MODES,
    DutSettings,
    Flags,
    Preset,
    ProcedureSettings,
    ResolvedRun,
    RunFile,
    TestbedFile,
    TesterSettings,
    make_preset,
    make_procedure_model,
)
from v6t.core.config.yaml_file import (
    Source,
    YamlFile,
    check_name,
    check_names,
    deep_merge,
    locate_errors,
    parse_assignments,
    validate,
)
from v6t.drivers.duts.registry import (
    DEFAULT_DRIVER,
    list_shared_options,
    load_driver_type,
    make_driver,
)
from v6t.drivers.duts.registry import list_driver_names as driver_names
from v6t.drivers.testers import AUTOMATIC, DEFAULT, TESTERS, load_kind

if TYPE_CHECKING:
    from v6t.benchmarks.base import Benchmark
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.tester_kind import TesterKind
    from v6t.plugins.base import PluginParams, Technology

DEMONSTRATION_TECHNOLOGY = "mape-br"  # used by a run without any file or flag
DEFAULT_LINE_RATE = "10G"

SettingsFile = Path | YamlFile | None  # a settings file; None: not given
F = TypeVar("F", RunFile, TestbedFile)


def resolve(
    run_file: SettingsFile = None, testbed: SettingsFile = None, flags: Flags | None = None
) -> ResolvedRun:
    """Return the resolved settings of a run; see :func:`resolve_and_bind`."""
    return resolve_and_bind(run_file, testbed, flags).settings


def resolve_and_bind(
    run_file: SettingsFile = None, testbed: SettingsFile = None, flags: Flags | None = None
) -> BoundRun:
    """Read, merge and check the settings of a run, and return the run with its objects."""
    flags = flags or Flags()
    run, run_source = _read_run(run_file, flags)
    testbed_file, testbed_source = _read_testbed(testbed, flags)
    is_bare = flags == Flags() and not run_file and not testbed
    name = _choose_technology(run.plugin, DEMONSTRATION_TECHNOLOGY if is_bare else None)
    with locate_errors(run_source, "plugin"):
        kind = load_plugin(name)
    with locate_errors(run_source, "benchmarks"):
        wanted = run.benchmarks or kind.default_benchmarks
        named = check_names(wanted, (*registry.list_names(), registry.ALL_BENCHMARKS), "benchmark")
    benchmarks, left_out = named, tuple[str, ...]()
    if registry.ALL_BENCHMARKS in named:
        benchmarks, left_out = registry.expand_all(kind, named)
    with locate_errors(run_source, "modes"):
        modes = check_names(run.modes or kind.modes, TRAFFIC_MODES, "mode")
    initiator: Any = check_name(
        flags.initiator or testbed_file.initiator, ("left", "right"), "port"
    )
    tester_settings, tester = _choose_tester(testbed_file, testbed_source, flags)
    default_driver = (tester.in_lab and kind.default_driver) or DEFAULT_DRIVER
    dut_settings, driver = _choose_driver(
        testbed_file, testbed_source, flags, default_driver, swapped=initiator == "right"
    )
    given = run.params
    known = {*given, *kind.params_model.derive_params(given)}
    own = driver.get_parameter_overrides(name)
    driver_params = {k: v.value for k, v in own.items() if k in given or k not in known}
    values, params = _merge_params(kind, benchmarks, driver_params, run, run_source)
    links = make_links(testbed_file.links.left, testbed_file.links.right, initiator)
    technology = make_technology(kind, params, links, run_source)
    with locate_errors(testbed_source, "tester", "options"):
        tester.check_links(links)
    with locate_errors(run_source, "preset"):
        preset: Any = check_name(run.preset or "quick", PRESETS, "preset")
    sizes = _choose_sizes(technology, preset, run, run_source)
    settings: ResolvedRun = validate(
        ResolvedRun,
        {
            "plugin": name,
            "params": values,
            "suited": [n for n in driver_params if n not in given],
            "links_left": testbed_file.links.left,
            "links_right": testbed_file.links.right,
            "initiator": initiator,
            "line_rate_bps": _parse_line_rate(testbed_file, testbed_source, technology, sizes),
            "tester": tester_settings,
            "dut": dut_settings,
            "preset": preset,
            "benchmarks": benchmarks,
            "modes": modes,
            "frame_sizes": sizes,
            "procedure": _merge_procedure(preset, params, run, run_source, flags, benchmarks),
            "modifier": run.modifier,
            "seed": 1 if run.seed is None else run.seed,
            "label": run.label or "",
            "connects": technology.stateful,
        },
    )
    device = make_device_view(technology, settings.params, driver.device_params, testbed_source)
    with locate_errors(testbed_source, "dut", "driver"):
        driver.check_intent(technology.make_dut_intent())
    optional = frozenset(benchmarks) - {*named}
    unused = _yield_unused_options(testbed_file.dut, dut_settings)
    bound = BoundRun(
        settings,
        technology,
        device,
        driver,
        tester,
        resolution_warnings=(*left_out, *unused),
        optional_benchmarks=optional,
    )
    bound = drop_rejected_benchmarks(bound, partial(_check_support, bound))
    with locate_errors(run_source, "params"):
        check_ttl(bound)
    with locate_errors(run_source, "modifier"):
        if bound.modifier is not None:
            check_modifier(bound, bound.modifier)
    if not flags.single_frames:
        with locate_errors(run_source, "procedure"):
            check_benchmark_settings(bound)
    return bound


def _check_support(bound: BoundRun, benchmark: Benchmark[Any, Any]) -> None:
    """Raise an error if device or tester cannot measure a benchmark."""
    benchmark.check(bound)
    if bound.settings.connects:
        settings = bound.settings.model_copy(update={"benchmarks": (benchmark.name,)})
        check_tester_connections(replace(bound, settings=settings))


# Codes of errors for which ``--measure all`` leaves out a benchmark.
_UNSUPPORTED_CODES = ("unsupported-by-device", "unsupported-by-tester", "too-many-for-trex")


def drop_rejected_benchmarks(
    bound: BoundRun, check: Callable[[Benchmark[Any, Any]], object]
) -> BoundRun:
    """Drop benchmarks of ``--measure all`` that ``check`` finds unsupported; add warnings."""
    names, warnings = list(bound.settings.benchmarks), list(bound.resolution_warnings)
    for name in sorted(bound.optional_benchmarks.intersection(names)):
        try:
            check(registry.load(name))
        except (EnvironmentLacking, UsageError) as exc:
            if exc.code in _UNSUPPORTED_CODES and len(names) > 1:
                names.remove(name)
                warnings.append(f"left out of '{registry.ALL_BENCHMARKS}': {name}: {exc.message}")
    settings = bound.settings.model_copy(update={"benchmarks": tuple(names)})
    return replace(bound, settings=settings, resolution_warnings=tuple(warnings))


def _choose_technology(name: str | None, default: str | None) -> str:
    """Return the plugin name of the technology; reject a run without one."""
    chosen = name or default
    if chosen is None:
        problem = "--plugin is missing"
        hint = "add --plugin NAME; `v6t plugins` lists the names"
        raise UsageError(problem, hint, code="missing-setting")
    return resolve_alias(chosen)


def resolve_tester(testbed: Path) -> TesterKind:
    """Return the tester of a testbed file after validating the whole file."""
    testbed_file, source = _read_testbed(testbed, Flags())
    with locate_errors(source, "line_rate"):
        parse_line_rate(testbed_file.line_rate or DEFAULT_LINE_RATE)
    _choose_driver(testbed_file, source, Flags(), DEFAULT_DRIVER)
    return _choose_tester(testbed_file, source, Flags())[1]


def find_driver_name(testbed: SettingsFile) -> str:
    """Return the name of the driver in a testbed file, by default the reference device's."""
    return _read_testbed(testbed, Flags())[0].dut.driver or DEFAULT_DRIVER


def _read_run(file: SettingsFile, flags: Flags) -> tuple[RunFile, Source]:
    """Return the run file and the source of its settings, flags included."""
    params = parse_assignments(flags.params)
    names = ("plugin", "preset", "benchmarks", "modes", "frame_sizes", "modifier", "seed", "label")
    flag_values = {name: getattr(flags, name) for name in names}
    refusal = TestbedFile, "a testbed file", "give it as --testbed FILE"
    run, source = _read_file(RunFile, file, {**flag_values, "params": params}, *refusal)
    merged = {**source.flag_values, "params": {**run.params, **params}}
    return run.model_copy(update=merged), source


def _read_testbed(file: SettingsFile, flags: Flags) -> tuple[TestbedFile, Source]:
    """Return the testbed file and the source of its settings, flags included."""
    tester = {"kind": flags.tester, "options": parse_assignments(flags.tester_options)}
    flag_values = {"tester": {name: value for name, value in tester.items() if value}}
    refusal = RunFile, "a run file", "give it without --testbed"
    return _read_file(TestbedFile, file, flag_values, *refusal)


def _read_file(
    model: type[F],
    file: SettingsFile,
    flag_values: dict[str, Any],
    other_model: type[BaseModel],
    other_noun: str,
    hint: str,
) -> tuple[F, Source]:
    """Read and validate a settings file; reject a file of the other kind."""
    document = YamlFile(file) if isinstance(file, Path) else file
    given = {name: value for name, value in flag_values.items() if value or value == 0}
    source = Source(document, given)
    if document is None:
        return model(), source
    if document.data and document.data.keys() <= other_model.model_fields.keys():
        raise UsageError(f"{document.path} is {other_noun}", hint, code="wrong-kind-of-file")
    return validate(model, document.data, document), source


def _choose_tester(
    testbed_file: TestbedFile, source: Source, flags: Flags
) -> tuple[TesterSettings, TesterKind]:
    """Return the settings and the kind of the tester."""
    with locate_errors(source, "tester", "kind"):
        known = (AUTOMATIC, *TESTERS.names())
        name = check_name(flags.tester or testbed_file.tester.kind, known, "tester")
    name = DEFAULT if name == AUTOMATIC else name
    options = deep_merge(testbed_file.tester.options, parse_assignments(flags.tester_options))
    with locate_errors(source, "tester", "options"):
        return TesterSettings(kind=name, options=options), load_kind(name, options)


def _choose_driver(
    testbed_file: TestbedFile, source: Source, flags: Flags, default: str, *, swapped: bool = False
) -> tuple[DutSettings, Driver]:
    """Return the settings and the driver of the device."""
    if flags.dut:
        source.flag_values["dut"] = {"driver": flags.dut}
    named = testbed_file.dut.driver or flags.dut or default
    with locate_errors(source, "dut", "driver"):
        known = (DEFAULT_DRIVER, *(n for n in driver_names() if n != DEFAULT_DRIVER))
        name = check_name(flags.dut or named, known, "device driver")
        kind = load_driver_type(name)
    options = dict(testbed_file.dut.options)
    if options and name != named:
        shared = list_shared_options(check_name(named, known, "device driver"), name)
        options = {option: value for option, value in options.items() if option in shared}
    given = kind.convert_flags(options, parse_assignments(flags.dut_params))
    if given:
        source.flag_values.setdefault("dut", {})["options"] = given
    options = deep_merge(options, given)
    with locate_errors(source, "dut", "options"):
        driver = make_driver(name, options, swapped=swapped)
    return DutSettings(driver=name, options=options), driver


def _yield_unused_options(given: DutSettings, used: DutSettings) -> Iterator[str]:
    """Yield a warning if options of the testbed file are not used for another driver."""
    unused = given.options.keys() - used.options.keys()
    if unused:
        yield f"options {', '.join(sorted(unused))} of {given.driver} are not used for {used.driver}"


def _merge_params(
    kind: type[Technology],
    benchmarks: Sequence[str],
    driver_params: Mapping[str, Any],
    run: RunFile,
    source: Source,
) -> tuple[dict[str, Any], PluginParams]:
    """Merge the parameters of driver, benchmarks, file and flags; return them raw and validated."""
    values = {**driver_params, **run.params}
    for benchmark in map(registry.load, benchmarks):
        values = {**benchmark.suggest_parameters(kind), **values}
    try:
        return values, validate_params(kind, values, source)
    except UsageError as exc:
        file = {} if source.document is None else source.document.data
        named = file.get("plugin")
        if named is None or resolve_alias(named) == kind.name or not file.get("params"):
            raise
        hint = f"the parameters of this file are {named}'s"
        raise UsageError(exc.message, hint, code=exc.code) from exc


def _choose_sizes(
    technology: Technology, preset: str, run: RunFile, source: Source
) -> tuple[int | str, ...]:
    """Return the frame sizes of flags, file or preset; reject impossible and duplicate ones."""
    default: Sequence[int | str] = ("rfc",)
    if preset != "rfc":
        default = technology.enlarge_tagged_sizes(technology.default_frame_sizes)
    chosen: list[int | str] = []
    for size in run.frame_sizes or default:
        chosen += technology.list_rfc_sizes() if size == "rfc" else [size]
    origin = source if run.frame_sizes else None
    for number, size in enumerate(chosen):
        with locate_errors(origin, "frame_sizes", number):
            technology.make_sizes(size)
    with locate_errors(origin, "frame_sizes"):
        if len(set(chosen)) != len(chosen):
            raise UsageError("a frame size is given twice", code="duplicate")
    return tuple(chosen)


def _parse_line_rate(
    testbed_file: TestbedFile, source: Source, technology: Technology, sizes: Sequence[int | str]
) -> float:
    """Return the line rate [bit/s]; reject a rate too low for one frame per second."""
    with locate_errors(source, "line_rate"):
        rate_bps = parse_line_rate(testbed_file.line_rate or DEFAULT_LINE_RATE)
        for size in sizes:
            if max_frame_rate_fps(rate_bps, technology.make_sizes(size).longest) < 1:
                raise UsageError(
                    f"a line of {rate_bps:g} bit/s carries no frame of {size} octets in a second",
                    "write for example 10G, 2.5Gbps or 100M",
                    code="out-of-range",
                )
    return rate_bps


def _merge_procedure(
    preset: Preset,
    params: PluginParams,
    run: RunFile,
    source: Source,
    flags: Flags,
    benchmarks: Sequence[str],
) -> ProcedureSettings:
    """Merge the procedure settings of preset, file and flags; later ones win."""
    texts = {**_expand_setting_flags(flags.settings, benchmarks), **flags.procedure_texts}
    flag_values = {name: value for name, value in flags.procedure.items() if value is not None}
    flag_values = deep_merge(flag_values, parse_assignments(texts))
    if flag_values:
        source.flag_values["procedure"] = flag_values
    values = make_preset(preset)
    if params.subscriber_connections:
        values = deep_merge(values, {"connections": {"count": params.subscriber_connections}})
    values = deep_merge(deep_merge(values, run.procedure), flag_values)
    return validate(make_procedure_model(), values, source, ("procedure",))  # type: ignore[no-any-return]


def _expand_setting_flags(flags: Mapping[str, str], benchmarks: Sequence[str]) -> dict[str, str]:
    """Return setting texts by name; a flag that benchmarks share sets each measured one's."""
    measured = {key for name in benchmarks for key in registry.load(name).list_sections()}
    general = dict(list_flags(ProcedureSettings))
    texts: dict[str, str] = {}
    for flag, text in flags.items():
        if flag in general:
            texts[general[flag]] = text
            continue
        known = registry.list_flags()[flag]
        settings = [setting for setting in known if setting.partition(".")[0] in measured]
        if not settings:
            users = [name for s in known for name in registry.find_by_section(s.partition(".")[0])]
            problem = f"{flag} is for {', '.join(users)}"
            raise UsageError(problem, "add one of them to --measure", code="setting-without-effect")
        if is_bit_rate(text):
            settings = [re.sub("_fps$", "_bps", setting) for setting in settings]
        texts.update(dict.fromkeys(settings, text))
    return texts
