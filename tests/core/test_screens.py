"""Screens of commands on a terminal of 80 columns, and the state line of a run.

The screens are kept as snapshots:
`pytest tests/core/test_screens.py --snapshot-update` stores new screens; read the difference.
"""

import itertools
import re
import shlex
import sys
import time

import pytest
from v6t.analysis.sheet import find_terms, make_text_columns, make_text_table
from v6t.benchmarks.registry import load_presentations
from v6t.core.audit_output import AUDIT_FILES, CAPTURE_NAME
from v6t.core.cli.terminal import fit_table, print_table
from v6t.core.runs.doctor import list_drivers
from v6t.core.runs.results import load_run
from v6t.tests.core.support import COMMAND, SIM, WAIT_LIMIT_S, make_all_tables, make_run, v6t
from v6t.tests.core.terminal import Session
from v6t.tests.core.test_audit import WRONG_TABLE

from .test_interrupt import list_trial_keys

MAIN = """
import shutil
programs, which = PROGRAMS, shutil.which
shutil.which = lambda name, **k: programs[name] if name in programs else which(name, **k)
from v6t.core.cli.main import main
main()
"""
VOLATILE = {
    r"  [\d.]+ (?:s|ms|min)$": "  <time>", r"\d{4}-\d\d-\d\d[T ][\d:+]+": "<date>",
    r", \d+ s$": ", <time>", r"Linux \S+, Python [\d.]+": "Linux <version>, Python <version>",
    r"^ok      cores: \d+": "ok      cores: <number>",
    r"below\s+\S+\s+[\d,.]+\s+GiB\s+free": "below <directory>, <size> GiB free",
    r"^(ok  |note|MISSING)    (embedded lab|TRex|frequency|hyper-threading): .*(\n  .*)*\n": "",
}  # fmt: skip
RUN = "run mape-br --tester sim --seed 1"
QUICK = f"{RUN} --mode forward --set-procedure latency.tags=100 --measure throughput,latency -q"
AUDIT = "audit siit --no-variants --clause 5.1-udp,4.1-udp,ttl-1,df-too-big,unreachable -o out"
SCREENS = {
    "run": f"{RUN} --frame-size 104,512,1518 --mode forward,reverse,bidirectional --reps 2 "
    "--measure throughput,latency,frame-loss --set-procedure latency.tags=100 --no-report -o made",
    "dry run": "run nat44 --dut nftables --set subscribers=1000 "
    "--set connections_per_subscriber=200 --dry-run",
    "dry run of sizes": "run mape-br --dut vpp --frame-size 104,512,1518 --dry-run",
    "doctor": "doctor",
    "dut list": "dut list",
}
MOST_LINES = {"run": 75, "dry run": 40, "dry run of sizes": 40}


def show(command: str, status: int = 0) -> str:
    """Return the screen of a command, with placeholders for what differs between machines."""
    start = COMMAND
    if command in ("doctor", "dut list"):
        names = {name for driver in list_drivers() for name in driver.programs}
        programs = {name: name if name in {"nft", "conntrack", "tayga"} else None for name in names}
        start = [sys.executable, "-c", MAIN.replace("PROGRAMS", repr(programs))]
    session = Session([*start, *shlex.split(command)], 80)
    assert session.wait() == status, session.screen.text
    text = session.screen.text
    for pattern, placeholder in VOLATILE.items():
        text = re.sub(pattern, placeholder, text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize("name", SCREENS)
def test_screen(name, tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREX_DIR", raising=False)
    text = show(SCREENS[name])
    assert len(text.splitlines()) <= MOST_LINES.get(name, 75)
    assert text == snapshot


def test_screen_of_comparison(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    for name, rate in (("slow", 300_000), ("fast", 600_000)):
        words = f"{QUICK} --set-tester capacity_fps={rate} --no-report --reps 4 -o {name}"
        assert v6t(*shlex.split(words)).status == 0
    assert show("compare fast slow", status=7) == snapshot


@pytest.mark.lab
def test_screen_and_files_of_audit_of_correct_device(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    assert show(AUDIT) == snapshot
    for name in (*AUDIT_FILES.values(), CAPTURE_NAME):
        assert (tmp_path / "out" / name).stat().st_size > 100


@pytest.mark.lab
def test_screen_of_audit_of_wrong_device(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    assert show(f"{AUDIT} --set-dut {shlex.quote(f'eam={WRONG_TABLE}')}", status=6) == snapshot


SIMULATION = [*COMMAND, *SIM, "--mode", "forward", "--no-report"]
LONG = ["--reps", "99", "--set-tester", "trial_delay_s=0.15", "--set-tester", "capacity_fps=300000"]
LATENCY = ["--measure", "throughput,latency", "--set-procedure", "latency.tags=100"]
LIMITED = ["--reps", "2", "--set-tester", "tester_fps=400000"]
DRAWN = re.compile(r"trial \d+ of ~\d+ .* left\n.*\d fps", re.DOTALL)


def wait_until(session, condition, description):
    """Read the screen until a condition holds."""
    end = time.monotonic() + WAIT_LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"{description}:\n{session.screen.text}"
        assert session.read(0.05), f"{description}:\n{session.screen.text}"


def is_live(session):
    """Check that the last two lines are the state line and the activity."""
    return DRAWN.search("\n".join([line for line in session.screen.lines if line][-2:]))


@pytest.mark.slow
def test_state_line_survives_resizing_until_ctrl_c(tmp_path):
    out, columns = tmp_path / "out", 60
    session = Session([*SIMULATION, *LONG, "-o", str(out)], columns)
    wait_until(session, lambda: len(list_trial_keys(out)) >= 3 and is_live(session), "a live line")
    assert not session.screen.cursor
    assert max(map(len, session.screen.lines)) <= columns
    for other in (140, 80, columns):  # a window that is dragged larger, smaller, back
        session.resize(other)
        known = len(list_trial_keys(out))
        wait_until(session, lambda n=known: len(list_trial_keys(out)) >= n + 2, "new trials")
        wait_until(session, lambda: is_live(session), "a live line")
    session.press("\x03")
    assert session.wait() == 130
    text = " ".join(session.screen.text.split())
    assert "Ctrl-C" in text and "v6t resume" in text
    assert text.endswith("v6t: interrupted")
    assert session.screen.cursor
    assert "Traceback" not in text


@pytest.mark.slow
def test_complete_run_leaves_no_state_line(tmp_path):
    """No number is cut, and no line is too long."""
    out, columns = tmp_path / "out", 60
    session = Session([*SIMULATION, *LIMITED, *LATENCY, "-o", str(out)], columns)
    assert session.wait() == 0
    text = session.screen.text
    assert session.screen.cursor
    assert not DRAWN.search(text)
    assert "…" not in text.partition("warnings")[0]
    assert max(map(len, text.splitlines())) <= columns
    assert re.search(r"400,000 \*", text) and re.search(r"^\* .*tester", text, re.MULTILINE)
    assert text.count("\n\n\n") == 0
    assert text.rpartition("Results: ")[2].replace("\n", "") == str(out)


HEADINGS = (
    "IPv6/IPv4\noctets", *make_text_columns("direction"), "median fps\nper direction", "P1",
    "aggregate\nfps",
)  # fmt: skip
ROWS = (
    ("84/104", "bidirectional", "67,812 *", "65,625", "135,625 *"),
    ("84/104", "forward", "15,000", "15,000", "-"),
)


@pytest.mark.parametrize("width", [40, 45, 55, 60, 140])
def test_narrow_table_omits_columns_in_order(width, capsys, snapshot):
    print_table(make_text_table("Throughput", HEADINGS, ROWS), width)
    assert capsys.readouterr().out == snapshot


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Provide the tables of a run that a slow tester limits."""
    directory = tmp_path_factory.mktemp("limited")
    make_run(
        directory, "throughput", "latency", "pdv", "frame-loss", procedure={"repetitions": 2},
        device={"tester_fps": 400_000, "capacity_fps": 2_000_000},
    )  # fmt: skip
    return make_all_tables(load_presentations(), load_run(directory).records)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_printed_figures_are_never_truncated(tables, width, capsys):
    for table in tables:
        print_table(table, width)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        fitting = fit_table(table, width) or table.narrow()
        for cell in itertools.chain(*fitting.rows):
            for number in re.findall(r"[\d,.]+(?: \*)?", cell):
                assert number in text


def test_every_abbreviation_of_a_table_is_explained(tables):
    for table in tables:
        headings = [column.name for column in table.columns]
        words = " ".join(headings).split()
        short = {word for word in words if re.fullmatch(r"[A-Z]+\d*[a-z]*[\d.]*", word)}
        explained = {term for term, _ in find_terms(headings)}
        assert short - {"IPv6", "IPv4"} <= explained


def test_tester_limited_figures_are_marked(tables):
    medians = [row[2] for row in tables[0].rows]
    assert medians and all(cell.endswith(" *") for cell in medians)
