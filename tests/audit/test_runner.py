from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from v6t.audit.auditor import TRIES, Listening, carry_out
from v6t.audit.clause import Clause, Frame, Judgement, ProbeUnable, Send, Steps, Verdict
from v6t.audit.self_check import DeviceProbe


class Recorder(DeviceProbe):
    """A device that answers its third exchange only."""

    def __init__(self) -> None:
        super().__init__(None)
        self.quiet: list[float] = []

    def exchange(self, frames: Sequence[Frame], wait_s: float, quiet_s: float) -> list[Frame]:
        self.quiet.append(quiet_s)
        return [Frame("left", b"")] if len(self.quiet) == TRIES else []

    def flush(self) -> None:
        raise ProbeUnable("no way")


def clause_with(verdicts: Iterable[Verdict], level: str = "MUST", lasts_s: float = 0.0) -> Clause:
    answers = iter(verdicts)

    def steps() -> Steps:
        yield Send(())
        return Judgement(next(answers), "", "")

    return Clause("RFC 1", "1", "c", level, "it does", steps, lasts_s=lasts_s)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "tries", "verdict"),
    [
        (["conforms"], 1, "conforms"),
        (["deviates", "conforms"], 2, "conforms"),
        (["deviates"] * 3, 3, "deviates"),
        (["not testable", "deviates", "deviates"], 3, "deviates"),
        (["deviates", "not testable", "not testable"], 3, "deviates"),
        (["deviates", "not testable", "conforms"], 3, "conforms"),
    ],
)
def test_clause_that_does_not_conform_is_repeated(
    verdicts: list[Verdict], tries: int, verdict: str
) -> None:
    outcome = carry_out(clause_with(verdicts), Recorder(), Listening())
    assert (outcome.tries, outcome.judgement.verdict) == (tries, verdict)


def test_clause_that_lasts_long_is_tried_once() -> None:
    outcome = carry_out(clause_with(["deviates"], lasts_s=60), Recorder(), Listening())
    assert outcome.tries == 1


def test_may_that_is_not_followed_is_information() -> None:
    outcome = carry_out(clause_with(["deviates"] * 3, "MAY"), Recorder(), Listening())
    assert outcome.judgement.verdict == "information"


def test_each_try_listens_longer_after_a_frame() -> None:
    def steps() -> Steps:
        heard = yield Send(())
        return Judgement("conforms" if heard else "deviates", "a frame", "nothing")

    probe = Recorder()
    clause = Clause("RFC 1", "1", "late", "MUST", "it comes late", steps)
    assert carry_out(clause, probe, Listening(1, 1)).judgement.verdict == "conforms"
    assert probe.quiet == [1, 3, 9]


def test_probe_that_cannot_flush_makes_clause_untestable() -> None:
    def steps() -> Steps:
        yield Send((), before="flush")
        return Judgement("conforms", "", "")

    outcome = carry_out(
        Clause("RFC 1", "1", "c", "MUST", "it does", steps), Recorder(), Listening()
    )
    assert (outcome.judgement.verdict, outcome.judgement.got) == ("not testable", "no way")
