"""What can be known to be impossible before any traffic: one sentence each."""

from __future__ import annotations

from v6t.core.config.connection_checks import check_connections
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs
from v6t.core.runs.variants import check_flows, check_probe
from v6t.drivers.tester import abilities_of
from v6t.procedures.latency import misfit
from v6t.procedures.reset import HOOKS
from v6t.procedures.search import mlr
from v6t.procedures.trial import Ability
from v6t.profiles.errors import EnvironmentLacking, UsageError
from v6t.profiles.wire import max_frame_rate_fps

_NEEDS: dict[str, frozenset[Ability]] = {
    specs.WITH_TIMEOUT: frozenset({"frame-timeout"}),
    specs.LOSS_WITH_TIMEOUT: frozenset({"frame-timeout"}),
    specs.LATENCY: frozenset({"tags"}),
    specs.PDV: frozenset({"every-frame"}),
    specs.IPDV: frozenset({"every-frame", "ipdv"}),
    specs.RECOVERY: frozenset({"two-rates", "loss-times"}),
    specs.RESET: frozenset({"loss-times"}),
    specs.FLOWS: frozenset({"flow-starts"}),
}


def check_measures(run: ResolvedRun) -> None:
    """Refuse settings of benchmarks that cannot work.

    Raises:
        UsageError: the first that cannot.
    """
    from v6t.core.config.resolve import technology

    check_connections(run, technology(run))
    for mode in run.modes:
        check_probe(technology(run), run.benchmarks, mode, run.frame_sizes[0])
    if specs.FLOWS in run.benchmarks:
        check_flows(technology(run), run)
    p = run.procedure
    asked = set(run.benchmarks)
    dated = [name for name in (specs.WITH_TIMEOUT, specs.LOSS_WITH_TIMEOUT) if name in asked]
    if dated:
        _check_timeout(run, dated[0])
    elif p.frame_timeout_ms is not None:
        raise UsageError(
            "a deadline for frames is a benchmark of its own",
            f"add {specs.WITH_TIMEOUT} or {specs.LOSS_WITH_TIMEOUT} to --measure",
        )
    timed = [name for name in specs.TIMED if name in asked]
    if p.adaptive is not None:
        if timed:
            raise UsageError(
                f"adaptive repetition is for throughput and frame loss, not for {timed[0]}: "
                "RFC 8219 asks for at least 20 repetitions there",
                f"measure {', '.join(timed)} in a run of their own",
            )
        if p.adaptive.most < p.adaptive.fewest:
            raise UsageError("adaptive repetition: the most repetitions are below the fewest")
    if p.rate_fps is not None:
        _check_rate(run, p.rate_fps)
    if specs.LATENCY in asked:
        _check_tags(run)
    if specs.RESET in asked:
        _check_reset(run)
    if p.frame_loss.rates_fps is not None and (
        not p.frame_loss.rates_fps or min(p.frame_loss.rates_fps) <= 0
    ):
        raise UsageError("frame_loss.rates_fps are no rates", "write for example [1e5, 2e5, 3e5]")


def check_abilities(run: ResolvedRun) -> None:
    """Refuse benchmarks this tester or installation cannot measure.

    Raises:
        EnvironmentLacking: the tester lacks an ability, or a library is missing.
    """
    from v6t.core.runs.bench import make_tester

    if run.procedure.search == "mlrsearch" and not mlr.available():
        raise EnvironmentLacking(
            "the search 'mlrsearch' needs the MLRsearch library",
            "pip install 'v6t[mlrsearch]', or --search binary or fast",
        )
    wanted = [name for name in run.benchmarks if name in _NEEDS]
    if not wanted and not run.connects:
        return
    able = abilities_of(make_tester(run))
    if run.connects and "connections" not in able:
        raise EnvironmentLacking(
            f"the {run.tester.kind} tester cannot learn connections, which {run.plugin} needs",
            "use --tester embedded or sim",
        )
    for name in wanted:
        if name == specs.FLOWS and "successive" not in run.procedure.flows.starts:
            continue
        if not _NEEDS[name] <= able:
            what = name if name != specs.FLOWS else "flows that begin one after the other"
            raise EnvironmentLacking(
                f"the {run.tester.kind} tester cannot measure {what}",
                "leave it out of --measure, or choose another tester",
            )


def _check_timeout(run: ResolvedRun, benchmark: str) -> None:
    timeout = run.procedure.frame_timeout_ms
    if timeout is None:
        raise UsageError(f"{benchmark} needs a deadline", "give --frame-timeout in milliseconds")
    loss_s = run.procedure.frame_loss.duration_s
    trial_s = run.procedure.trial_duration_s
    if benchmark == specs.LOSS_WITH_TIMEOUT and loss_s is not None:
        trial_s = loss_s
    longest = 1000 * (trial_s + run.procedure.residual_wait_s)
    if timeout >= longest:
        raise UsageError(
            f"a deadline of {timeout:g} ms never ends before the trial: "
            f"it must be below {longest:g} ms"
        )


def _check_rate(run: ResolvedRun, rate_fps: float) -> None:
    from v6t.core.config.resolve import technology

    if not set(specs.TIMED) & set(run.benchmarks):
        raise UsageError(
            "a given rate is for latency, pdv and ipdv", "add one of them to --measure"
        )
    plugin = technology(run)
    for size in run.frame_sizes:
        media = max_frame_rate_fps(run.line_rate_bps, plugin.frame_pair(size).ipv6)
        if rate_fps > media:
            raise UsageError(
                f"{rate_fps:,.0f} fps of {size} octets are more than the {media:,} fps that the "
                "medium carries"
            )


def _check_tags(run: ResolvedRun) -> None:
    """No device forwards more than the medium carries: tags that do not fit that never fit."""
    from v6t.core.config.resolve import technology

    p = run.procedure
    plugin = technology(run)
    for size in run.frame_sizes:
        media = max_frame_rate_fps(run.line_rate_bps, plugin.frame_pair(size).ipv6)
        rate = media if p.rate_fps is None else min(p.rate_fps, media)
        problem = misfit(p.latency.tags, p.latency.first_tag_s, p.latency.duration_s, rate)
        if problem:
            raise UsageError(
                f"latency at {size} octets: {problem}",
                "fewer --tags, a longer latency.duration_s or an earlier latency.first_tag_s",
            )


def _check_reset(run: ResolvedRun) -> None:
    r = run.procedure.reset
    if r.hook not in HOOKS:
        raise UsageError(f"there is no reset '{r.hook}'", "one of " + ", ".join(HOOKS))
    if r.at_s >= r.duration_s:
        raise UsageError(
            f"a reset at {r.at_s:g} s is not within a stream of {r.duration_s:g} s",
            "raise reset.duration_s",
        )
    hooks = run.dut.options.get("hooks", {})
    if run.tester.kind != "sim" and r.hook not in hooks:
        raise UsageError(
            f"the device has no hook '{r.hook}'",
            "give its command in the testbed file: dut.options.hooks",
        )
