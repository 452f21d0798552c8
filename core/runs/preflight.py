"""Checks of the translation before a run, and the connections or queries that trials need."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from v6t.base.errors import DutError, TesterError, TranslationError
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.benchmarks.resolution import make_selftest_queries
from v6t.core.config.run_setup import RunSetup
from v6t.plugins.base import Technology
from v6t.procedures.preflight import PREFLIGHT_FPS, TranslationCheckFailure, check_translation
from v6t.procedures.stateful.phases import ConnectionPreparer, PhaseOneError
from v6t.profiles.mixes import Sizes
from v6t.trials.connections import Connections
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Queries, Trial

PREFLIGHT_CONNECTIONS, PREFLIGHT_CPS = 200, 2000.0
LOOPBACK_CONNECTIONS = Connections(10_000, 5_000.0, wait_s=0.1, reuse=True)  # of self-tests
_ROW_OCTETS = 8  # octets per line of a frame comparison


def run_preflight(
    setup: RunSetup, sizes: Sizes, measure: Measure
) -> TranslationCheckFailure | None:
    """Check the translation of a few frames of each size; return the first fault, or None.

    The rates are at most half of the medium's, and at most those that the run gives.
    """
    run, plugin = setup.settings, setup.technology
    half_fps = compute_max_frame_rate_fps(run.line_rate_bps, sizes.longest) / 2
    given = run.procedure.connections
    max_cps = given.rate_cps or given.upper_cps or half_fps
    return check_translation(
        with_preflight_setup(measure, plugin, min(half_fps, max_cps)),
        rate_fps=min(PREFLIGHT_FPS, half_fps),
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mix=sizes.mix,
        mode="forward" if plugin.exchange == "queries" else "bidirectional",
    )


def with_preflight_setup(
    measure: Measure, plugin: Technology, max_cps: float = PREFLIGHT_CPS
) -> Measure:
    """Wrap ``measure`` so that each trial also opens connections or sends queries, if required."""
    if plugin.exchange == "queries":
        return _with_queries(measure, Queries())
    if not plugin.stateful:
        return measure
    most = plugin.params.max_sessions or plugin.combinations
    count = min(PREFLIGHT_CONNECTIONS, plugin.combinations, most)
    return ConnectionPreparer(measure, Connections(count, min(PREFLIGHT_CPS, max_cps), wait_s=0.3))


def with_loopback_setup(measure: Measure, setup: RunSetup) -> Measure:
    """Wrap ``measure`` so that, without a device, the tester answers its own frames or queries."""
    plugin = setup.technology
    if plugin.exchange == "queries":
        return _with_queries(measure, make_selftest_queries(setup))
    if not plugin.stateful:
        return measure
    count = min(LOOPBACK_CONNECTIONS.count, plugin.combinations)
    return ConnectionPreparer(measure, replace(LOOPBACK_CONNECTIONS, count=count))


def _with_queries(measure: Measure, queries: Queries) -> Measure:
    return lambda trial: measure(replace(trial, queries=queries))


@contextmanager
def report_phase_one_failure() -> Iterator[None]:
    """Convert a failure of phase 1 to the error of the tester or of the device."""
    try:
        yield
    except PhaseOneError as exc:
        hint = "lower connections.rate_cps or rate_share"
        if exc.tester:
            hint = f"close other programs, or {hint}"
            raise TesterError(str(exc), hint, code="tester-fault") from exc
        hint += ", or check the device's limits"
        raise DutError(str(exc), hint, code="phase-one-lost") from exc


def with_phase_one(measure: Measure) -> Measure:
    """Wrap ``measure`` so that each trial establishes connections, to measure phase 1."""

    def measure_phase_one(trial: Trial) -> TrialResult:
        connections = Connections(
            trial.frames, trial.rate_fps, wait_s=trial.residual_wait_s, purpose="establish"
        )
        return measure(replace(trial, key=f"phase1-{trial.key}", connections=connections))

    return measure_phase_one


def make_mismatch_error(failure: TranslationCheckFailure) -> TesterError | TranslationError:
    """Return the error for a wrong translation, or for a tester that cannot check frames."""
    if failure.tester:
        problem = f"the tester cannot even send a few frames: {failure.why}"
        return TesterError(problem, code="tester-fault")
    frames = dict(failure.frames or {})
    name = frames.get("class")
    where = [failure.direction] * bool(failure.direction) + [f"class {name}"] * bool(name)
    text = ", ".join(["translation incorrect", *where])
    picture = "\n" + format_frame_comparison(frames) if frames else ""
    command = "`v6t run --dry-run -v`, which prints the required configuration"
    hint = f"compare the device's configuration with {command}"
    return TranslationError(f"{text}: {failure.why}{picture}", hint, code="translation-incorrect")


def format_frame_comparison(frames: Mapping[str, str]) -> str:
    """Format two frames side by side in hexadecimal and mark octets that differ."""
    expected = bytes.fromhex(frames.get("expected", ""))
    received = bytes.fromhex(frames.get("received", ""))
    width = 3 * _ROW_OCTETS
    lines = [f"  octet  {'expected':<{width}}   received"]
    for start in range(0, max(len(expected), len(received)), _ROW_OCTETS):
        left, right = (frame[start : start + _ROW_OCTETS] for frame in (expected, received))
        sign = "|" if left == right else "#"
        lines.append(f"  {start:5}  {left.hex(' '):<{width}} {sign} {right.hex(' ')}".rstrip())
        if left != right and right:
            places = range(_ROW_OCTETS)
            marks = " ".join("^^" if left[i : i + 1] != right[i : i + 1] else "  " for i in places)
            lines.append(f"  {'':5}  {'':<{width}}   {marks}".rstrip())
    if not expected:
        lines.append("  (expected: nothing, the device must drop it)")
    if not received:
        lines.append("  (received: nothing)")
    return "\n".join(lines)
