"""Presets: how long and how often, and what a result may be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from v6t.benchmarks import registry
from v6t.benchmarks.base import RFC_DURATION_S, Phase
from v6t.core.config.explain import as_yaml
from v6t.core.config.settings import Preset, ProcedureSettings, ResolvedRun
from v6t.procedures.search import mlr
from v6t.procedures.trial_runner import SHARED_CORES
from v6t.profiles.mixes import parse_mix

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun

RFC_REPETITIONS = 20

_COMMON: dict[Preset, dict[str, Any]] = {
    "quick": {
        "trial_duration_s": 0.7,
        "residual_wait_s": 0.15,
        "pause_s": 0.05,
        "repetitions": 2,
        "resolution_ratio": 1 / 16,
        "sending_time_tolerance": 1.02,
        "invalid_retries": 1,
        # the lowest of the few repetitions, so that the streams meet a device that keeps up
        "rate_from": "p1",
        "connections": {
            "count": 100_000,
            "wait_ms": 150.0,
            "keep": True,
        },
    },
    "rfc": {
        "trial_duration_s": RFC_DURATION_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        # ST-06, and the rate searches on the way to a capacity
        "connections": {"resolution_cps": 1000.0},
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
        "selftest": "cached",
        # reading its load is work for the device that is measured
        "watch_device": False,
    },
}


def procedure_of(preset: Preset) -> dict[str, Any]:
    """Return the settings of a preset, with those of every installed benchmark."""
    return {**_COMMON[preset], **(registry.quick() if preset == "quick" else {})}


MODES: tuple[str, ...] = ("bidirectional", "forward", "reverse")


def is_demonstration(run: ResolvedRun) -> bool:
    """Whether the numbers only show that things work."""
    p = run.procedure
    return max(p.trial_duration_s, p.final_duration_s or 0.0) < RFC_DURATION_S


def caveats(bound: BoundRun) -> list[str]:
    """Return what must be said beside every number of this run."""
    run, p = bound.settings, bound.settings.procedure
    benchmarks = registry.wanted(bound)
    texts = [SHARED_CORES] if bound.tester.in_lab else []
    texts += bound.tester.caveats()
    if bound.driver.absent:
        texts.append(
            "there is no device: the tester's ports are joined, and the numbers are its own"
        )
    if is_demonstration(run):
        texts.append(
            f"DEMONSTRATION: trials of {p.trial_duration_s:g} s, not the "
            f"{RFC_DURATION_S:g} s of RFC 2544 section 24; these are no RFC 8219 results"
        )
    if bound.technology.params.only_background:
        texts.append(
            "0 % foreground: native IPv6 through the device, the reference of a series of "
            "mixtures; nothing of the technology itself is measured"
        )
    if bound.modifier is not None:
        undone = bound.modifier.driven and bound.tester.simulates
        texts.append(
            f"under a modifier: {bound.modifier.words} ({bound.modifier.source})"
            + (": not carried out: the device is simulated" if undone else "")
        )
    texts += _of_mixes(bound)
    texts += bound.technology.warnings
    texts += _of_the_device(bound)
    texts += _of_searches(p)
    texts += dict.fromkeys(text for b in benchmarks for text in b.caveats(bound))
    if run.connects and p.connections.keep and any(b.phase == Phase.STREAMS for b in benchmarks):
        texts.append(
            "connections of one trial serve the next while they are whole: phase 1 is not "
            "repeated for each"
        )
    adaptive = p.adaptive is not None and all("adaptive" in b.heeds for b in benchmarks)
    if p.repetitions < RFC_REPETITIONS and not adaptive:
        texts.append(
            f"{p.repetitions} repetition{'s' * (p.repetitions > 1)}, not the "
            f"{RFC_REPETITIONS} that RFC 8219 asks for"
        )
    if p.loss_tolerance:
        texts.append(f"loss tolerance {p.loss_tolerance:.4%} in each direction, not zero")
    if p.sending_time_tolerance > 1.001:
        texts.append(f"sending may take {p.sending_time_tolerance:g} times the trial")
    if not bound.tester.loops_back:
        texts.append("the tester's own capacity is not measured in this run; see `v6t selftest`")
    return texts


def _of_the_device(bound: BoundRun) -> Iterator[str]:
    run, own = bound.settings, bound.driver.parameter_overrides(bound.technology.name)
    defaults = bound.technology.params_model.model_fields
    for name in run.suited:
        usual = f", not {as_yaml(defaults[name].get_default())}" if name in defaults else ""
        why = f": {own[name].why}" if name in own else ""
        yield f"{name} is {as_yaml(run.params[name])}{usual}{why}"


def _of_mixes(bound: BoundRun) -> Iterator[str]:
    """Describe a mixture of frame sizes where it is not what was written or not all of it."""
    for listed in bound.settings.frame_sizes:
        sizes = bound.technology.sizes_of(listed)
        if isinstance(listed, str):
            moved = [
                size for size, _ in parse_mix(listed) if all(size != p.ipv6 for p, _ in sizes.pairs)
            ]
            if moved:
                yield (
                    f"{listed}: the technology has no frame of {' and '.join(map(str, moved))} octets; "
                    f"what is sent is {sizes.label} (RFC 8219 section 5.1.1)"
                )
            if bound.settings.connects:
                yield (
                    f"{sizes.label}: connections are opened by frames of the first size, and go on "
                    "in all"
                )


def _of_searches(p: ProcedureSettings) -> Iterator[str]:
    """Yield what changes every search of a run against its RFC."""
    if p.search == "mlrsearch":
        yield mlr.LABEL
    if p.adaptive is not None:
        yield (
            f"adaptive repetition: {p.adaptive.fewest} to {p.adaptive.most}, until the median's "
            f"{p.adaptive.confidence:.0%} confidence interval is within {p.adaptive.width:.1%}"
        )
