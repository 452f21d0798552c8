"""Warnings of a run: settings that are allowed but probably wrong, and conditions of its results."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.benchmarks import registry
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S, Benchmark, Phase
from v6t.benchmarks.settings import SEARCH_SETTINGS
from v6t.core.config.run_setup import RunSetup
from v6t.core.config.settings import ProcedureSettings, Settings, make_preset_procedure
from v6t.core.config.yaml_file import format_yaml
from v6t.drivers.transport.ssh_client import check_client
from v6t.plugins.translation import WELL_KNOWN
from v6t.procedures.search import mlr
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.profiles.mixes import parse_mix

HIGH_LOSS_TOLERANCE = 0.01  # share of frames; a higher tolerance causes a warning
SHORT_WAIT_S = 0.05  # a shorter wait for late frames causes a warning
# Settings of `procedure` that only benchmarks with these names in `used_settings` use.
_OPTIONAL_SETTINGS = (SEARCH_SETTINGS - {"trial_duration_s"}) | {"rate_from"}
# Clock sources of Linux that are counters of the processor, read without a system call.
TRUSTED_CLOCKS = frozenset({"tsc", "kvm-clock", "arch_sys_counter"})


def list_setting_warnings(setup: RunSetup) -> list[str]:
    """List warnings about the settings of a run, which are shown before it starts."""
    warnings = [
        *setup.resolution_warnings,
        *_list_prefix_warnings(setup),
        *_list_procedure_warnings(setup),
        *_list_link_warnings(setup),
        *_list_device_warnings(setup),
        *_list_rate_warnings(setup),
    ]
    if setup.settings.connects:
        warnings += setup.tester.list_connection_warnings(*setup.connection_needs)
    return warnings


def _list_prefix_warnings(setup: RunSetup) -> Iterator[str]:
    """Yield warnings about private addresses behind the well-known prefix."""
    for name, (prefix, addresses) in setup.technology.params.embedded_addresses.items():
        private = next((a for a in addresses if not a.is_global), None)
        if prefix == WELL_KNOWN and private is not None:
            rule = f"must not stand for {private}, which is not global (RFC 6052, section 3.1)"
            yield f"{name}: {WELL_KNOWN} {rule}; a device may drop it: use another prefix"


def _list_procedure_warnings(setup: RunSetup) -> Iterator[str]:
    """Yield warnings about procedure settings that have no effect or falsify results."""
    run, p = setup.settings, setup.settings.procedure
    preset = make_preset_procedure(run.preset)
    measured = registry.select_benchmarks(setup)
    benchmarks = [*measured, *(part for b in measured for part in b.list_parts(setup))]
    used = {section for b in benchmarks for section in b.list_sections()}
    for name in registry.list_sections():
        if name not in used and getattr(p, name) != getattr(preset, name):
            users = registry.find_by_section(name)
            why = f"{' and '.join(users)} {'is' if len(users) == 1 else 'are'} not measured"
            yield f"procedure.{name} is set, but has no effect: {why}"
    for benchmark in benchmarks:
        yield from benchmark.list_setting_warnings(setup)
    if p.loss_tolerance > HIGH_LOSS_TOLERANCE:
        yield f"a loss tolerance of {p.loss_tolerance:.1%} accepts much loss: 0.01 is 1 %"
    if p.residual_wait_s < SHORT_WAIT_S:
        wait = f"a residual wait of {1000 * p.residual_wait_s:g} ms"
        yield f"{wait} counts frames in transit as lost: RFC 2544 waits 2 s"
    slack_s = p.trial_duration_s * (p.sending_time_tolerance - 1)
    error_s = setup.tester.sending_error_s
    if slack_s < error_s:
        slack = f"{1e6 * slack_s:,.0f} µs longer than a trial of {p.trial_duration_s:g} s"
        error = f"{1e6 * error_s:,.0f} µs only: such trials are invalid"
        yield f"sending may take {slack}, but the tester may measure this time to {error}"
    yield from _list_unused_setting_warnings(setup, benchmarks, preset)


def _list_unused_setting_warnings(
    setup: RunSetup, benchmarks: Sequence[Benchmark[Any, Any]], preset: ProcedureSettings
) -> Iterator[str]:
    p, connects = setup.settings.procedure, setup.settings.connects
    used = {name for b in benchmarks for name in b.used_settings}
    why = "none of the measured benchmarks uses it"
    unused = dict.fromkeys(sorted(_OPTIONAL_SETTINGS - used), why)
    if not connects:
        unused["connections"] = f"{setup.technology.name} is stateless"
    if "final_duration_s" in used and (p.final_duration_s or 0.0) <= p.trial_duration_s:
        unused["final_duration_s"] = "it is not above trial_duration_s"
    is_absolute = p.resolution_fps is not None
    if connects:
        is_absolute = is_absolute and p.connections.resolution_cps is not None
    if is_absolute and setup.technology.exchange == "frames":
        unused["resolution_ratio"] = "resolution_fps is set, which replaces it"
    for name, why in unused.items():
        if getattr(p, name) != getattr(preset, name):
            yield f"procedure.{name} is set, but has no effect: {why}"


def _list_link_warnings(setup: RunSetup) -> Iterator[str]:
    left, right = setup.settings.links.left, setup.settings.links.right
    for side, link in (("left", left), ("right", right)):
        if link.tester_mac.lower() == link.dut_mac.lower():
            yield f"links.{side}: tester and device have the same MAC address {link.dut_mac}"
        for end, mac in (("tester_mac", link.tester_mac), ("dut_mac", link.dut_mac)):
            setting = f"links.{side}.{end}: {mac}"
            if not mac.strip("0:"):
                yield f"{setting} is a placeholder: set the interface's MAC address"
            elif int(mac[:2], 16) & 1:
                text = "is a group address: the second digit of a device's address is even"
                yield f"{setting} {text}"
    if not setup.tester.can_loop_back and left.dut_mac.lower() == right.dut_mac.lower():
        yield f"links: both interfaces of the device have the same dut_mac {left.dut_mac}"


def _list_device_warnings(setup: RunSetup) -> Iterator[str]:
    if setup.has_user_device:
        yield "no driver configures the device: before the run, do so as `--dry-run -v` prints"
    has_login = setup.has_driver and any(setup.driver.get_logins(setup.intent))
    if has_login and (lacking := check_client()) is not None:
        yield f"{lacking.message}, but the device is reached over it: {lacking.hint}"


def _list_rate_warnings(setup: RunSetup) -> Iterator[str]:
    """Yield warnings about benchmarks that the tester cannot measure up to the line rate."""
    run, benchmarks = setup.settings, registry.select_benchmarks(setup)
    longest = (setup.technology.make_sizes(size).longest for size in run.frame_sizes)
    media_fps = max(compute_max_frame_rate_fps(run.line_rate_bps, octets) for octets in longest)
    for benchmark in benchmarks:
        needs = benchmark.list_capabilities(setup)
        max_fps = min(setup.tester.compute_max_rate_fps(needs, mode) for mode in run.modes)
        if max_fps < media_fps:
            limit = f"the {run.tester.kind} tester measures it up to {max_fps:,.0f} fps"
            yield f"{benchmark.name}: {limit} per direction, not above"


def list_tester_warnings(
    run: Settings, tester: Mapping[str, Any], *, in_lab: bool = False
) -> Iterator[str]:
    """Yield warnings about differences of the tester from its specification or the testbed."""
    servers = tester.get("servers") or {}
    share = run.model_copy(update={"line_rate_bps": run.line_rate_bps / max(1, len(servers))})
    for place, (name, own) in enumerate(servers.items()):
        # links hold the addresses of the first server
        for text in list_tester_warnings(share, own, in_lab=in_lab or place > 0):
            yield f"server {name}: {text}"
    if servers:
        return
    for port, owner in (tester.get("displaced") or {}).items():
        yield f"port {port} was taken by force from {owner}"
    if tester.get("fence_failed"):
        yield "any host can control the tester's server (nftables); `v6t doctor` explains why"
    if cores := tester.get("other_cores"):
        option = f"{cores['option']} as in the option cores, for servers that v6t starts"
        yield f"cores of the tester's server per pair of ports: {cores['server']}, not {option}"
    ports = tester.get("ports") or []
    nodes = {p["numa"] for p in ports if isinstance(p.get("numa"), int) and p["numa"] >= 0}
    if len(nodes) > 1:
        places = f"NUMA nodes {' and '.join(map(str, sorted(nodes)))}"
        yield f"the tester's ports are on {places}, which costs rate and adds delay"
    clock = tester.get("clock_source")
    if clock and clock not in TRUSTED_CLOCKS:
        reason = "slow to read or not trusted; compare delays with a loopback run"
        yield f"the kernel's clock source is {clock}: {reason}"
    macs = {link.tester_mac.lower() for link in (run.links.left, run.links.right)}
    foreign = [p for p in ports if str(p.get("hw_mac")).lower() not in macs]
    indexes = [str(p.get("index")) for p in foreign if p.get("prom") == "off"]
    if indexes and not in_lab:
        noun, pronoun = ("ports", "their") if len(indexes) > 1 else ("port", "its")
        which = f"{noun} {' and '.join(indexes)} of the tester: not promiscuous"
        yield f"{which}, and no tester_mac is {pronoun} own: the NIC may drop all returning frames"
    physical = [p for p in ports if not p.get("virtual")]
    for p in physical:
        mac, named = p.get("hw_mac"), p.get("tester_mac")
        if mac and named and mac.lower() != named.lower():
            port = f"port {p['index']} of the tester has the MAC address {mac}"
            yield f"{port}, but tester_mac is {named}: a NIC may drop frames to other addresses"
    slowest = min((p["speed"] * 1e9 for p in physical if p.get("speed")), default=run.line_rate_bps)
    if slowest < run.line_rate_bps:
        rate, port_rate = f"{run.line_rate_bps / 1e9:g} Gbit/s", f"{slowest / 1e9:g} Gbit/s"
        yield f"line_rate is {rate}, but a port of the tester has {port_rate}: use the lower rate"


def list_result_warnings(
    setup: RunSetup, figures: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yield warnings that apply to all results of this run.

    Args:
        figures: the tester's figures of each trial so far; empty in a plan.
    """
    run, p = setup.settings, setup.settings.procedure
    benchmarks = registry.select_benchmarks(setup)
    if setup.tester.in_lab:
        yield SHARED_CORES_WARNING
    yield from setup.tester.list_warnings(figures)
    if setup.driver.is_cable:
        yield "no device: the tester's ports are connected to each other, and it measures itself"
    if short := find_short_trials(setup):
        lengths = (
            f"{' and '.join(f'{s:g} s' for s in short)}, not the {RFC_TRIAL_S:g} s of RFC 2544"
        )
        yield f"DEMONSTRATION: trials of {lengths} section 24; these are not RFC 8219 results"
    if setup.technology.params.is_background_only:
        yield "0 % foreground: native IPv6, the reference of mixtures, not the technology itself"
    if setup.modifier is not None:
        simulated = setup.modifier.needs_driver and setup.tester.simulates
        note = ": not carried out: the device is simulated" if simulated else ""
        yield f"under a modifier: {setup.modifier.description} ({setup.modifier.source}){note}"
    yield from _list_mix_warnings(setup)
    yield from setup.technology.warnings
    yield from _list_driver_default_warnings(setup)
    used = {name for b in benchmarks for name in b.used_settings}
    if p.search == "mlrsearch" and "search" in used:
        yield mlr.RESULT_LABEL
    yield from dict.fromkeys(text for b in benchmarks for text in b.list_deviations(setup))
    if run.connects and p.connections.keep and any(b.phase == Phase.STREAMS for b in benchmarks):
        yield "phase 1 is not repeated: a trial uses the connections of the trial before"
    yield from _list_repetition_warnings(setup, benchmarks)
    if p.loss_tolerance and "loss_tolerance" in used:
        yield f"loss tolerance {p.loss_tolerance:.4%} in each direction, not zero"
    if p.sending_time_tolerance > 1.001:
        late = f"{100 * (p.sending_time_tolerance - 1):.3g} %"
        yield f"the tester may take {late} longer than a trial to send"
    if not setup.tester.can_loop_back:
        yield "the tester's own capacity is not measured in this run; see `v6t selftest`"


def find_short_trials(setup: RunSetup) -> list[float]:
    """Return the lengths [s] of trials that are too short for their numbers to count as results."""
    lengths = {b.find_trial_s(setup) for b in registry.select_benchmarks(setup)} - {None}
    lengths = lengths or {setup.settings.procedure.trial_duration_s}
    return sorted(s for s in lengths if s is not None and s < RFC_TRIAL_S)


def _list_driver_default_warnings(setup: RunSetup) -> Iterator[str]:
    own = setup.driver.get_parameter_overrides(setup.technology.name)
    defaults = setup.technology.params_model.model_fields
    for name in setup.settings.driver_defaults:
        usual = f", not {format_yaml(defaults[name].get_default())}" if name in defaults else ""
        why = f": {own[name].reason}" if name in own else ""
        yield f"{name} is {format_yaml(setup.settings.params[name])}{usual}{why}"


def _list_mix_warnings(setup: RunSetup) -> Iterator[str]:
    for mix in setup.settings.frame_sizes:
        if not isinstance(mix, str):
            continue
        sizes = setup.technology.make_sizes(mix)
        sent = {pair.ipv6 for pair, _ in sizes.pair_counts}
        if missing := [size for size, _ in parse_mix(mix) if size not in sent]:
            lacking = f"the technology has no frame of {' and '.join(map(str, missing))} octets"
            yield f"{mix}: {lacking}; {sizes.label} is sent instead (RFC 8219 section 5.1.1)"
        if setup.settings.connects:
            yield f"{sizes.label}: frames of the first size open connections that all sizes use"


def _list_repetition_warnings(
    setup: RunSetup, benchmarks: Sequence[Benchmark[Any, Any]]
) -> Iterator[str]:
    limits = setup.settings.procedure.adaptive
    adaptive = [b.name for b in benchmarks if limits is not None and "adaptive" in b.used_settings]
    counts = {b.name: b.find_repetitions(setup) for b in benchmarks if b.name not in adaptive}
    few = {name: count for name, count in counts.items() if count < RFC_REPETITIONS}

    def name_some(names: Collection[str]) -> str:
        return "" if len(names) == len(benchmarks) else f"{', '.join(names)}: "

    if adaptive and limits is not None:
        limit = f"median's {limits.confidence:.0%} confidence interval is within {limits.width:.1%}"
        count = f"adaptive repetition: {limits.fewest} to {limits.most}"
        yield f"{name_some(adaptive)}{count}, until the {limit}"
    if few:
        numbers = sorted({*few.values()})
        count = f"{' or '.join(map(str, numbers))} repetition{'s' * (numbers[-1] > 1)}"
        yield f"{name_some(few)}{count}, not the {RFC_REPETITIONS} of RFC 8219"
