"""How trials and times are told: in the log, on the terminal, in a campaign's plan."""

from __future__ import annotations

from v6t.procedures.conditions import Progress


def outcome(progress: Progress) -> str:
    """A finished trial in one line."""
    verdict = progress.verdict
    if verdict is None:
        raise ValueError("the trial is not over")
    word = "passed" if verdict.passed else "failed" if verdict.valid else "INVALID"
    if verdict.valid and not progress.searched:
        word = "measured"  # loss is what these look for, or what they put up with
    why = f" ({verdict.reasons[0]})" if verdict.reasons else ""
    return f"{point(progress)}: {progress.rate_fps:,.0f} {progress.unit} {word}{why}"


def duration(seconds: float) -> str:
    """``"1 h 05 min"``, ``"3 min 20 s"`` or ``"45 s"``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole} s"


def point(progress: Progress) -> str:
    """Where the trial belongs, with repetition and step."""
    name = progress.point.removeprefix("throughput/")
    return f"{name} {progress.repetition}/{progress.repetitions} step {progress.step}"
