"""From run file, testbed file, preset and flags to one resolved run. Later ones win."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import max_frame_rate_fps, parse_line_rate
from v6t.base.quantities import is_bit_rate
from v6t.benchmarks import registry
from v6t.benchmarks.settings import flags_in
from v6t.core.config.bound import BoundRun
from v6t.core.config.checks import check_measures, check_modifier, check_ttl
from v6t.core.config.files import Flags, LinkFile, RunFile, TestbedFile
from v6t.core.config.flags import expanded, laid_over
from v6t.core.config.plugins import load_plugin, technology_name
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
from v6t.core.config.technology import links_of, make_technology, on_device, params_of
from v6t.core.config.validation import (
    error_at,
    listed,
    refuse_empty,
    require_known,
    validated,
    within,
)
from v6t.core.config.yaml_document import Document
from v6t.drivers.duts.registry import REFERENCE, driver_type, make_driver
from v6t.drivers.duts.registry import names as driver_names
from v6t.drivers.testers import AUTOMATIC, DEFAULT, TESTERS, kind_of
from v6t.intent.device import BackgroundVlan
from v6t.plugins.base import Link, Links, Technology

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.tester_kind import TesterKind

DEMONSTRATION = "mape-br"
"""What is measured where nothing at all is asked for."""
DEFAULT_LINE_RATE = "10G"


def resolve(
    run_path: Path | Document | None = None,
    testbed_path: Path | Document | None = None,
    flags: Flags | None = None,
) -> ResolvedRun:
    """As :func:`resolve_and_bind`, for whoever needs the settings only."""
    return resolve_and_bind(run_path, testbed_path, flags).settings


def resolve_and_bind(
    run_path: Path | Document | None = None,
    testbed_path: Path | Document | None = None,
    flags: Flags | None = None,
) -> BoundRun:
    """Read, merge and check everything; a document stands for a file that was read already.

    Raises:
        UsageError: the first thing that is wrong, with file and line where it stands.
    """
    flags = flags or Flags()
    run_doc = Document(run_path) if isinstance(run_path, Path) else run_path
    testbed_doc = Document(testbed_path) if isinstance(testbed_path, Path) else testbed_path
    run = _read(RunFile, run_doc)
    testbed = _read(TestbedFile, testbed_doc)
    name = _technology_name(flags, run, asked=bool(run_doc or testbed_doc))
    with within(None if flags.plugin else run_doc, ("plugin",)):
        plugin_type = load_plugin(name)
    links = _links(testbed, testbed_doc)
    benchmarks = listed(
        run_doc, "benchmarks", flags.benchmarks, run.benchmarks, plugin_type.default_benchmarks,
        (*registry.names(), registry.ALL),
    )  # fmt: skip
    notes: tuple[str, ...] = ()
    if registry.ALL in benchmarks:
        benchmarks, notes = registry.everything(plugin_type, benchmarks)
    initiator = _initiator(testbed, flags)
    tester_settings, tester = _tester(testbed, flags, testbed_doc)
    own = plugin_type.default_driver if tester.in_lab else None
    dut_settings, driver = _dut(
        testbed, flags, testbed_doc, own or REFERENCE, swapped=initiator == "right"
    )
    suited = {k: v.value for k, v in driver.parameter_overrides(name).items()}
    own_params = {**suited, **run.params}
    for benchmark in map(registry.load, benchmarks):
        own_params = {**benchmark.parameters(plugin_type), **own_params}
    try:
        params = params_of(plugin_type, own_params, flags.params, run_doc)
    except UsageError as exc:
        if run.plugin is None or technology_name(run.plugin) == name or not run.params:
            raise
        raise UsageError(
            exc.message, f"the parameters of this file are {run.plugin}'s", code=exc.code
        ) from exc
    plugin = make_technology(
        plugin_type,
        params,
        links_of(links["left"], links["right"], initiator),
        None if flags.params else run_doc,
    )
    with within(testbed_doc, ("tester", "options")):
        tester.check_links(plugin.links)
    preset: Any = flags.preset or run.preset or "quick"
    sizes = _sizes(plugin, preset, flags.frame_sizes, run, run_doc)
    resolved = {
        "plugin": name,
        "params": {**own_params, **expanded(flags.params)},
        "suited": [n for n in suited if n not in {*run.params, *expanded(flags.params)}],
        "links_left": links["left"],
        "links_right": links["right"],
        "initiator": initiator,
        "line_rate_bps": _line_rate(testbed, testbed_doc, plugin, sizes),
        "tester": tester_settings,
        "dut": dut_settings,
        "preset": preset,
        "benchmarks": benchmarks,
        "modes": listed(run_doc, "modes", flags.modes, run.modes, plugin_type.modes, MODES),
        "frame_sizes": sizes,
        "procedure": _procedure(preset, run, flags, run_doc, benchmarks),
        "modifier": flags.modifier or run.modifier,
        "seed": flags.seed if flags.seed is not None else (run.seed if run.seed is not None else 1),
        "label": flags.label or run.label or "",
        "connects": plugin.stateful,
    }
    checked: ResolvedRun = validated(ResolvedRun, resolved, None)
    overriding = None if flags.dut_params else testbed_doc
    device = on_device(plugin, checked.params, driver.overrides, overriding)
    with within(None if flags.dut else testbed_doc, ("dut", "driver")):
        driver.check_intent(plugin.dut_intent())
    bound = BoundRun(checked, plugin, device, driver, tester, notes=notes)
    with within(None if flags.params else run_doc, ("params",)):
        check_ttl(bound)
    with within(None if flags.modifier else run_doc, ("modifier",)):
        if bound.modifier is not None:
            check_modifier(bound, bound.modifier)
    with within(None if flags.procedure or flags.procedure_texts else run_doc, ("procedure",)):
        check_measures(bound, single_frames=flags.single_frames)
    return bound


def _technology_name(flags: Flags, run: RunFile, *, asked: bool) -> str:
    """Return the name of the technology; the demonstration's where nothing is asked for.

    Raises:
        UsageError: something is asked for, but no technology.
    """
    name = flags.plugin or run.plugin
    if name is None and flags == Flags() and not asked:
        name = DEMONSTRATION
    if name is None:
        raise UsageError(
            "--plugin is missing",
            "add --plugin NAME; `v6t plugins` lists the names",
            code="missing-setting",
        )
    return technology_name(name)


def tester_of(testbed_path: Path) -> TesterKind:
    """The tester a testbed file names; the rest of the file is checked, too.

    Raises:
        UsageError: what is wrong in the file, with its line.
    """
    document = Document(testbed_path)
    testbed = _read(TestbedFile, document)
    for side in ("left", "right"):
        _link(document, side, getattr(testbed.links, side), getattr(Links(), side))
    with within(document, ("line_rate",)):
        parse_line_rate(testbed.line_rate or DEFAULT_LINE_RATE)
    _dut(testbed, Flags(), document, REFERENCE)
    return _tester(testbed, Flags(), document)[1]


def driver_named(testbed: Path | Document | None) -> str:
    """Return the device driver a testbed file names; the reference device without one.

    Raises:
        UsageError: what is wrong in the file, with its line.
    """
    document = Document(testbed) if isinstance(testbed, Path) else testbed
    return _read(TestbedFile, document).dut.driver or REFERENCE


def _read(model: type[Any], document: Document | None) -> Any:
    if document is None:
        return model()
    keys = set(document.data)
    if keys and model is RunFile and keys <= set(TestbedFile.model_fields):
        raise UsageError(
            f"{document.path} is a testbed file",
            "give it as --testbed FILE",
            code="wrong-kind-of-file",
        )
    if keys and model is TestbedFile and keys <= set(RunFile.model_fields):
        raise UsageError(
            f"{document.path} is a run file", "give it without --testbed", code="wrong-kind-of-file"
        )
    return validated(model, document.data, document)


def _links(testbed: TestbedFile, document: Document | None) -> dict[str, LinkSettings]:
    """Return the settings of both links by side.

    Raises:
        UsageError: only one link has a VLAN for the background.
    """
    links = {
        side: _link(document, side, getattr(testbed.links, side), getattr(Links(), side))
        for side in ("left", "right")
    }
    if (links["left"].background is None) != (links["right"].background is None):
        raise error_at(
            document,
            ("links",),
            "only one of the links has a VLAN for the background",
            "write background: {vlan: ...} within left and right",
            code="missing-setting",
        )
    return links


def _link(document: Document | None, side: str, link: LinkFile, default: Link) -> LinkSettings:
    values = {
        "tester_mac": link.tester_mac or default.tester_mac,
        "dut_mac": link.dut_mac or default.dut_mac,
        "vlan": link.vlan,
        "mtu": default.mtu if link.mtu is None else link.mtu,
        "answers": link.answers,
        "learning": link.learning,
        "background": _aside(document, side, link),
    }
    for name in ("tester_mac", "dut_mac"):
        octets = str(values[name]).split(":")
        if len(octets) != 6 or not all(_is_octet(o) for o in octets):
            raise error_at(
                document,
                ("links", side, name),
                f"'{values[name]}' is not a MAC address",
                "write it as 02:00:00:00:01:02",
                code="not-an-address",
            )
    return validated(LinkSettings, values, document, ("links", side))  # type: ignore[no-any-return]


def _aside(document: Document | None, side: str, link: LinkFile) -> dict[str, Any] | None:
    aside = link.background
    if aside is None:
        return None
    if link.vlan is None or link.vlan == aside.vlan:
        raise error_at(
            document,
            ("links", side, "background"),
            f"the {side} link needs a VLAN that differs from that of the background",
            f"for example links.{side}.vlan: {100 if aside.vlan != 100 else 101}",
            code="missing-setting",
        )
    default = BackgroundVlan.with_default_addresses(
        "left" if side == "left" else "right", aside.vlan
    )
    return {
        "vlan": aside.vlan,
        "device": aside.device or default.device,
        "tester": aside.tester or default.tester,
    }


def _is_octet(text: str) -> bool:
    return len(text) == 2 and all(c in "0123456789abcdefABCDEF" for c in text)


def _sizes(
    plugin: Technology,
    preset: str,
    flagged: Sequence[int | str],
    run: RunFile,
    document: Document | None,
) -> tuple[int | str, ...]:
    with within(document, ("frame_sizes",)):
        refuse_empty("frame_sizes", run.frame_sizes)
    if flagged:
        listed_sizes = plugin.list_rfc_sizes()
        chosen = [size for one in flagged for size in (listed_sizes if one == "rfc" else [one])]
        source = None
    elif run.frame_sizes:
        chosen, source = run.frame_sizes, document
    else:
        quick = plugin.tag_sizes(plugin.default_frame_sizes)
        chosen = list[int | str](plugin.list_rfc_sizes() if preset == "rfc" else quick)
        source = None
    for number, size in enumerate(chosen):
        with within(source, ("frame_sizes", number)):
            plugin.sizes_of(size)
    with within(source, ("frame_sizes",)):
        if len(set(chosen)) != len(chosen):
            raise UsageError("a frame size is given twice", code="duplicate")
    return tuple(chosen)


def _line_rate(
    testbed: TestbedFile, document: Document | None, plugin: Technology, sizes: Sequence[int | str]
) -> float:
    with within(document, ("line_rate",)):
        rate_bps = parse_line_rate(testbed.line_rate or DEFAULT_LINE_RATE)
        for size in sizes:
            if max_frame_rate_fps(rate_bps, plugin.sizes_of(size).longest) < 1:
                raise UsageError(
                    f"a line of {rate_bps:g} bit/s carries no frame of {size} octets in a second",
                    "write for example 10G, 2.5Gbps or 100M",
                    code="out-of-range",
                )
    return rate_bps


def _tester(
    testbed: TestbedFile, flags: Flags, document: Document | None
) -> tuple[TesterSettings, TesterKind]:
    names = (AUTOMATIC, *TESTERS.names())
    with within(None if flags.tester else document, ("tester", "kind")):
        kind = require_known(names, flags.tester or testbed.tester.kind, "tester")
        kind = DEFAULT if kind == AUTOMATIC else kind
    options = laid_over(testbed.tester.options, expanded(flags.tester_options))
    with within(None if flags.tester_options else document, ("tester", "options")):
        return TesterSettings(kind=kind, options=options), kind_of(kind, options)


def _initiator(testbed: TestbedFile, flags: Flags) -> Any:
    """At which port of the tester the technology's left side is."""
    if flags.initiator is None:
        return testbed.initiator
    return require_known(("left", "right"), flags.initiator, "port")


def _dut(
    testbed: TestbedFile,
    flags: Flags,
    document: Document | None,
    default: str,
    *,
    swapped: bool = False,
) -> tuple[DutSettings, Driver]:
    driver_name = testbed.dut.driver or default
    with within(None if flags.dut else document, ("dut", "driver")):
        known = (REFERENCE, *(n for n in driver_names() if n != REFERENCE))
        name = require_known(known, flags.dut or driver_name, "device driver")
        kind = driver_type(name)
    options = dict(testbed.dut.options) if name == driver_name else {}
    options = laid_over(options, kind.from_flags(options, expanded(flags.dut_params)))
    with within(None if flags.dut_params else document, ("dut", "options")):
        driver = make_driver(name, options, swapped=swapped)
        return DutSettings(driver=name, options=options), driver


def _procedure(
    preset: Preset,
    run: RunFile,
    flags: Flags,
    document: Document | None,
    benchmarks: Sequence[str],
) -> ProcedureSettings:
    flagged = {k: v for k, v in flags.procedure.items() if v is not None}
    texts = {**_named(flags.of_settings, benchmarks), **flags.procedure_texts}
    flagged = laid_over(flagged, expanded(texts))
    values = laid_over(laid_over(procedure_of(preset), run.procedure), flagged)
    return validated(  # type: ignore[no-any-return]
        procedure_model(),
        values,
        document,
        ("procedure",),
        flagged,
    )


def _named(flags: Mapping[str, str], benchmarks: Sequence[str]) -> dict[str, str]:
    """Return flags as the settings they stand for; those of benchmarks: of what is measured."""
    measured = {key for name in benchmarks for key in registry.load(name).sections()}
    own = dict(flags_in(ProcedureSettings))
    texts: dict[str, str] = {}
    for flag, text in flags.items():
        if flag in own:
            texts[own[flag]] = text
            continue
        known = registry.flags()[flag]
        meant = [setting for setting in known if setting.partition(".")[0] in measured]
        if not meant:
            whose = [name for s in known for name in registry.of_section(s.partition(".")[0])]
            raise UsageError(
                f"{flag} is for {', '.join(whose)}",
                "add one of them to --measure",
                code="setting-without-effect",
            )
        if is_bit_rate(text):
            meant = [re.sub("_fps$", "_bps", setting) for setting in meant]
        texts.update(dict.fromkeys(meant, text))
    return texts
