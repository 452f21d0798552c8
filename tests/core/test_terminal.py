"""The state line on a terminal: widths, resizing and Ctrl-C."""

import re
import time

import pytest
from v6t.tests.core.support import COMMAND, SIM
from v6t.tests.core.terminal import Session

from .test_interrupt import trials

pytestmark = pytest.mark.slow

PATIENCE_S = 60
RUN = [*COMMAND, *SIM, "--mode", "forward", "--no-report"]
LONG = ["--reps", "99", "--set-tester", "trial_delay_s=0.15", "--set-tester", "capacity_fps=300000"]
LATENCY = ["--measure", "throughput,latency", "--set-procedure", "latency.tags=100"]
LIMITED = ["--reps", "2", "--set-tester", "tester_fps=400000"]
DRAWN = re.compile(r"trial \d+ of ~\d+ .* left\n.*\d fps", re.DOTALL)


def until(session, seen, what):
    """Look at the screen until something is there."""
    end = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < end, f"{what}:\n{session.screen.text}"
        assert session.read(0.05), f"{what}:\n{session.screen.text}"


def live(session):
    """Return the state line and the activity: the last two lines."""
    return "\n".join([line for line in session.screen.lines if line][-2:])


def test_the_live_line_through_resizing_and_ctrl_c(tmp_path):
    out, columns = tmp_path / "out", 60
    session = Session([*RUN, *LONG, "-o", str(out)], columns)
    until(session, lambda: len(trials(out)) >= 3 and DRAWN.search(live(session)), "a live line")
    assert not session.screen.cursor
    assert max(map(len, session.screen.lines)) <= columns
    for other in (140, 80, columns):  # a window that is dragged larger, smaller, back
        session.resize(other)
        known = len(trials(out))
        until(session, lambda n=known: len(trials(out)) >= n + 2, "the run gets on")
        until(session, lambda: DRAWN.search(live(session)), "a live line")
    session.press("\x03")
    assert session.ended() == 130
    said = " ".join(session.screen.text.split())
    assert "Ctrl-C" in said
    assert "v6t resume" in said
    assert said.endswith("v6t: interrupted")
    assert session.screen.cursor
    assert "Traceback" not in said


def test_complete_run_on_a_terminal(tmp_path):
    """No number is cut, no line is too long, no state line is left behind."""
    out, columns = tmp_path / "out", 60
    session = Session([*RUN, *LIMITED, *LATENCY, "-o", str(out)], columns)
    assert session.ended() == 0
    text = session.screen.text
    assert session.screen.cursor
    assert not DRAWN.search(text)
    assert "…" not in text.partition("warnings")[0]
    assert max(map(len, text.splitlines())) <= columns
    assert re.search(r"400,000 \*", text)
    assert re.search(r"^\* .*tester", text, re.MULTILINE)
    assert text.count("\n\n\n") == 0
    assert text.rpartition("Results: ")[2].replace("\n", "") == str(out)
