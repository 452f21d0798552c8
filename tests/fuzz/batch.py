"""Execute batches of drawn inputs and collect their problems."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from . import commands, finished_runs
from .workspace import Workspace

SHARES: dict[str, tuple[Callable[[], Any], float]] = {
    "files": (commands.dry_runs, 0.16), "flags": (commands.flags_without_files, 0.15),
    "words": (commands.calculations, 0.22), "conversions": (commands.conversions, 0.18),
    "tables": (commands.tables, 0.10), "campaigns": (commands.planned_campaigns, 0.03),
    "runs": (lambda: finished_runs.damaged_directories("RUN"), 0.06),
    "runs of queries": (lambda: finished_runs.damaged_directories("QUERIES"), 0.02),
    "modified runs": (lambda: finished_runs.damaged_directories("MODIFIED"), 0.02),
    "audits": (lambda: finished_runs.damaged_directories("AUDIT"), 0.04),
    "finished campaigns": (lambda: finished_runs.damaged_directories("CAMPAIGN"), 0.01),
    "simulated runs": (finished_runs.simulated_runs, 0.01),
}  # fmt: skip
"""Strategy of each kind of input, and the kind's share of all inputs."""
KINDS = {name: strategy for name, (strategy, _) in SHARES.items()}

BATCH_SIZE = 250
MAX_SECONDS, MAX_MIB = 5.0, 200.0  # processor time, and memory added by a command


def run_batch(job: tuple[str, int, int]) -> dict[str, Any]:
    """Execute inputs of a kind, with seed and number; return statistics and distinct problems."""
    kind, number, count = job
    workspace = Workspace()
    result: dict[str, Any] = {
        "kind": kind, "inputs": 0, "slowest": 0.0, "peak": 0.0, "statuses": Counter(), "problems": [],
    }  # fmt: skip
    known = set()

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(KINDS[kind]())
    def execute(command: Any) -> None:
        outcome = workspace.execute(command)
        result["inputs"] += 1
        result["statuses"][outcome.status] += 1
        result["slowest"] = max(result["slowest"], outcome.seconds)
        result["peak"] = max(result["peak"], outcome.peak_mib)
        problem = outcome.problem or ("slow" if outcome.seconds > MAX_SECONDS else "")
        lines = outcome.stderr.strip().splitlines()
        signature = (problem, lines[-2:][0][:60] if lines else "")
        if problem and signature not in known:
            known.add(signature)
            result["problems"].append(
                [problem, outcome.stderr[-600:], round(outcome.seconds, 2), repr(command)[:3000]]
            )

    try:
        execute()
    finally:
        workspace.close()
    return result
