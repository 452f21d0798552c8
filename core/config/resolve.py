"""The settings of one run from preset, run file, testbed file and options; later ones win."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.base.quantities import is_bit_rate
from v6t.benchmarks import registry
from v6t.benchmarks.settings import list_flags
from v6t.core.config import checks, yaml_file
from v6t.core.config import settings as models
from v6t.core.config.plugins import load_technology_type, resolve_alias
from v6t.core.config.run_setup import RunSetup, make_device_view, make_technology, make_tester
from v6t.core.config.settings import DutSettings, Preset, RunFileSettings, Testbed, TesterSettings
from v6t.core.config.yaml_file import SettingsSource, YamlFile, check_name, locate_errors, validate
from v6t.drivers.duts import registry as drivers
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.registry import DEFAULT_DRIVER
from v6t.drivers.tester_kind import TesterKind
from v6t.drivers.testers import AUTOMATIC, DEFAULT, TESTERS, load_kind
from v6t.plugins.base import PluginParams, Technology
from v6t.trials.trial import MODES

DEMONSTRATION_TECHNOLOGY = "mape-br"  # used by a run without any file or flag
_OPTION_SETTINGS = {  # settings of the options that are named otherwise
    "tester": "tester.kind",
    "tester_options": "tester.options",
    "dut": "dut.driver",
    "dut_params": "dut.options",
}

SettingsFile = Path | YamlFile | None  # a settings file; None: not given
F = TypeVar("F", RunFileSettings, Testbed)


def resolve_setup(
    run_file: SettingsFile = None,
    testbed: SettingsFile = None,
    *,
    setting_flags: Mapping[str, str] | None = None,
    single_frames: bool = False,
    **options: Any,
) -> RunSetup:
    """Return a run's checked settings, and the technology, driver and benchmarks that they name.

    Args:
        run_file: file with settings of :class:`RunFileSettings`.
        testbed: file with settings of :class:`Testbed`.
        setting_flags: command line values for settings of ``procedure``, by flag.
        single_frames: send single frames only, without a benchmark.
        options: other settings by name; ``tester`` and ``dut`` are names, and ``tester_options`` and
            ``dut_params`` their options. None or an empty value means not given.
    """
    given = _nest_options(options)
    run, run_source = _read_settings(RunFileSettings, run_file, given)
    bed, bed_source = _read_settings(Testbed, testbed, given)
    is_bare = not (given or setting_flags or single_frames or run_file or testbed)
    name = resolve_alias(run.plugin or (DEMONSTRATION_TECHNOLOGY if is_bare else ""))
    if not name:
        hint = "add --plugin NAME; `v6t plugins` lists the names"
        raise UsageError("--plugin is missing", hint, code="missing-setting")
    with locate_errors(run_source, "plugin"):
        kind = load_technology_type(name)
    known_benchmarks = (*registry.list_names(), registry.ALL_BENCHMARKS)
    with locate_errors(run_source, "benchmarks"):
        wanted = run.benchmarks or kind.default_benchmarks
        named = yaml_file.check_names(wanted, known_benchmarks, "benchmark")
    benchmarks, left_out = named, tuple[str, ...]()
    if registry.ALL_BENCHMARKS in named:
        benchmarks, left_out = registry.expand_all(kind, named)
    with locate_errors(run_source, "modes"):
        modes = yaml_file.check_names(run.modes or kind.modes, MODES, "mode")
    tester_settings, tester = _choose_tester(bed, bed_source)
    default_driver = (tester.in_lab and kind.default_driver) or DEFAULT_DRIVER
    links = bed.technology_links
    dut_settings, driver = _choose_driver(bed, bed_source, default_driver, swapped=links.swapped)
    values, params, driver_defaults = _merge_params(kind, benchmarks, driver, run, run_source)
    technology = make_technology(kind, params, links, run_source)
    with locate_errors(bed_source, "tester", "options"):
        tester.check_links(links)
    sizes = _choose_sizes(technology, run, run_source)
    _check_line_rate(bed, bed_source, technology, sizes)
    if unused := ", ".join(sorted(bed.dut.options.keys() - dut_settings.options.keys())):
        driver_names = f"{bed.dut.driver} are not used for {dut_settings.driver}"
        left_out = (*left_out, f"options {unused} of {driver_names}")
    flagged = _expand_setting_flags(setting_flags or {}, benchmarks)
    resolved = {
        "plugin": name,
        "params": values,
        "benchmarks": benchmarks,
        "modes": modes,
        "frame_sizes": sizes,
        "procedure": _merge_procedure(run.preset, params, run_source, flagged),
        "tester": tester_settings,
        "dut": dut_settings,
        "driver_defaults": driver_defaults,
        "connects": technology.stateful,
    }
    settings = models.Settings.model_construct(None, **{**dict(run), **dict(bed), **resolved})
    device = make_device_view(technology, settings.params, driver.device_params, bed_source)
    with locate_errors(bed_source, "dut", "driver"):
        driver.check_intent(technology.make_dut_intent())
    setup = RunSetup(settings, technology, device, driver, tester, resolution_warnings=left_out)
    setup = _drop_unsupported_benchmarks(setup, {*benchmarks} - {*named})
    with locate_errors(run_source, "params"):
        checks.check_ttl(setup)
    with locate_errors(run_source, "modifier"):
        if setup.modifier is not None:
            checks.check_modifier(setup, setup.modifier)
    if not single_frames:
        with locate_errors(run_source, "procedure"):
            checks.check_benchmark_settings(setup)
    return setup


# Codes of errors for which ``--measure all`` leaves out a benchmark.
_UNSUPPORTED_CODES = ("unsupported-by-device", "unsupported-by-tester", "too-many-for-trex")


def _drop_unsupported_benchmarks(setup: RunSetup, optional: Collection[str]) -> RunSetup:
    """Drop those ``optional`` benchmarks that device or tester cannot measure; add warnings."""
    names, warnings = list(setup.settings.benchmarks), list(setup.resolution_warnings)
    for name in sorted(optional):
        benchmark = registry.load(name)
        try:
            benchmark.check(setup)
            if setup.settings.connects:
                settings = setup.settings.model_copy(update={"benchmarks": (name,)})
                setup.tester.check_connections(*replace(setup, settings=settings).connection_needs)
            checks.check_tester_capabilities(setup, benchmark, make_tester(setup).capabilities)
        except (EnvironmentLacking, UsageError) as exc:
            if exc.code in _UNSUPPORTED_CODES and len(names) > 1:
                names.remove(name)
                warnings.append(f"left out of '{registry.ALL_BENCHMARKS}': {name}: {exc.message}")
    settings = setup.settings.model_copy(update={"benchmarks": tuple(names)})
    return replace(setup, settings=settings, resolution_warnings=tuple(warnings))


def resolve_tester(testbed: Path) -> TesterKind:
    """Return the tester of a testbed file after validating the whole file."""
    bed, source = _read_settings(Testbed, testbed, {})
    _choose_driver(bed, source, DEFAULT_DRIVER)
    return _choose_tester(bed, source)[1]


def find_driver_name(testbed: SettingsFile) -> str:
    """Return the name of the driver in a testbed file, by default the reference device's."""
    return _read_settings(Testbed, testbed, {})[0].dut.driver or DEFAULT_DRIVER


def _nest_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, as settings nested as in the files."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value or value == 0:
            nested = yaml_file.parse_assignments(value) if isinstance(value, Mapping) else value
            yaml_file.set_value(given, _OPTION_SETTINGS.get(name, name), nested)
    return given


def _read_settings(
    model: type[F], file: SettingsFile, options: Mapping[str, Any]
) -> tuple[F, SettingsSource]:
    """Read a settings file, merge it with the options and validate both; reject a file of the other kind.

    ``procedure`` and ``dut`` of the options are merged later: they depend on other settings.
    """
    document = YamlFile(file) if isinstance(file, Path) else file
    data = {} if document is None else document.data
    other, noun, hint = (RunFileSettings, "a run file", "give it without --testbed")
    if model is RunFileSettings:
        other, noun, hint = (Testbed, "a testbed file", "give it as --testbed FILE")
    if document is not None and data and data.keys() <= {*models.list_file_names(other)}:
        raise UsageError(f"{document.path} is {noun}", hint, code="wrong-kind-of-file")
    fields = RunFileSettings.model_fields
    own = {k: v for k, v in options.items() if (k in fields) == (model is RunFileSettings)}
    source = SettingsSource(document, own)
    values = {name: value for name, value in data.items() if value is not None}
    if isinstance(values.get("procedure"), Mapping):
        del values["procedure"]
    settings = validate(model, values, document)  # its errors count where an option wins, too
    if early := {k: v for k, v in own.items() if k not in ("procedure", "dut")}:
        settings = validate(model, yaml_file.deep_merge(values, early), source)
    return settings, source


def _choose_tester(testbed: Testbed, source: SettingsSource) -> tuple[TesterSettings, TesterKind]:
    with locate_errors(source, "tester", "kind"):
        name = check_name(testbed.tester.kind, (AUTOMATIC, *TESTERS.list_names()), "tester")
    name = DEFAULT if name == AUTOMATIC else name
    options = testbed.tester.options
    with locate_errors(source, "tester", "options"):
        return TesterSettings(kind=name, options=options), load_kind(name, options)


def _choose_driver(
    testbed: Testbed, source: SettingsSource, default: str, *, swapped: bool = False
) -> tuple[DutSettings, Driver]:
    """Return the settings and the driver of the device; options of the command line win."""
    given = source.flag_values.get("dut", {})
    validate(DutSettings, given, source, ("dut",))
    named = testbed.dut.driver or given.get("driver") or default
    with locate_errors(source, "dut", "driver"):
        known = (DEFAULT_DRIVER, *(n for n in drivers.list_driver_names() if n != DEFAULT_DRIVER))
        name = check_name(given.get("driver") or named, known, "device driver")
        kind = drivers.load_driver_type(name)
    options = dict(testbed.dut.options)
    if options and name != named:
        shared = drivers.list_shared_options(check_name(named, known, "device driver"), name)
        options = {option: value for option, value in options.items() if option in shared}
    if converted := kind.convert_flags(options, given.get("options", {})):
        given["options"] = converted
    options = yaml_file.deep_merge(options, converted)
    with locate_errors(source, "dut", "options"):
        driver = drivers.make_driver(name, options, swapped=swapped)
    return DutSettings(driver=name, options=options), driver


def _merge_params(
    kind: type[Technology],
    benchmarks: Sequence[str],
    driver: Driver,
    run: RunFileSettings,
    source: SettingsSource,
) -> tuple[dict[str, Any], PluginParams, tuple[str, ...]]:
    """Merge the parameters of driver, benchmarks, file and flags.

    Returns:
        The parameters, raw and validated, and the names of those with the driver's own default.
    """
    known = {*run.params, *kind.params_model.derive_params(run.params)}
    own = driver.get_parameter_overrides(kind.name)
    defaults = {name: override.value for name, override in own.items() if name not in known}
    values = {**defaults, **run.params}
    for benchmark in map(registry.load, benchmarks):
        values = {**benchmark.suggest_parameters(kind), **values}
    try:
        return values, validate(kind.params_model, values, source, ("params",)), tuple(defaults)
    except UsageError as exc:
        if (
            exc.code == "unknown-setting"
            and exc.path[-1] in models.make_procedure_model().model_fields
        ):
            exc.hint = f"{exc.path[-1]} is a setting of the procedure: use --set-procedure"
        file = {} if source.document is None else source.document.data
        named = file.get("plugin")
        if named is None or resolve_alias(named) == kind.name or not file.get("params"):
            raise
        hint = f"the parameters of this file are {named}'s"
        raise UsageError(exc.message, hint, code=exc.code) from exc


def _choose_sizes(
    technology: Technology, run: RunFileSettings, source: SettingsSource
) -> tuple[int | str, ...]:
    """Return the frame sizes of the run or its preset; reject impossible and duplicate ones."""
    default: Sequence[int | str] = (models.RFC_SIZES,)
    if run.preset != "rfc":
        default = technology.enlarge_tagged_sizes(technology.default_frame_sizes)
    chosen: list[int | str] = []
    for size in run.frame_sizes or default:
        chosen += technology.list_rfc_sizes() if size == models.RFC_SIZES else [size]
    origin = source if run.frame_sizes else None
    labels = set[str]()
    for number, size in enumerate(chosen):
        with locate_errors(origin, "frame_sizes", number):
            label = technology.make_sizes(size).label
        with locate_errors(origin, "frame_sizes"):
            if label in labels:
                raise UsageError(f"the frame sizes {label} are given twice", code="duplicate")
        labels.add(label)
    return tuple(chosen)


def _check_line_rate(
    testbed: Testbed, source: SettingsSource, technology: Technology, sizes: Sequence[int | str]
) -> None:
    rate_bps, hint = testbed.line_rate_bps, "write for example 10G, 2.5Gbps or 100M"
    for size in sizes:
        if compute_max_frame_rate_fps(rate_bps, technology.make_sizes(size).longest) < 1:
            problem = f"a line of {rate_bps:g} bit/s carries no frame of {size} octets in a second"
            with locate_errors(source, "line_rate"):
                raise UsageError(problem, hint, code="out-of-range")


def _merge_procedure(
    preset: Preset, params: PluginParams, source: SettingsSource, setting_flags: Mapping[str, Any]
) -> models.ProcedureSettings:
    """Merge the procedure settings of preset, technology, file and options; later ones win."""
    values = models.make_preset_settings(preset)
    if params.subscriber_connections:
        connections = {"count": params.subscriber_connections}
        values = yaml_file.deep_merge(values, {"connections": connections})
    if source.document is not None:
        values = yaml_file.deep_merge(values, source.document.data.get("procedure") or {})
    given = yaml_file.deep_merge(setting_flags, source.flag_values.get("procedure", {}))
    source.flag_values["procedure"] = given
    return validate(  # type: ignore[no-any-return]
        models.make_procedure_model(), yaml_file.deep_merge(values, given), source, ("procedure",)
    )


def _expand_setting_flags(flags: Mapping[str, str], benchmarks: Sequence[str]) -> dict[str, Any]:
    """Return the procedure settings of flags; a shared flag sets those of each measured benchmark."""
    measured = {key for name in benchmarks for key in registry.load(name).list_sections()}
    general = dict(list_flags(models.ProcedureSettings))
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
    return yaml_file.parse_assignments(texts)
