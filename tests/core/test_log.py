"""Verbosity and log files."""

import logging

import pytest
from v6t.base.log_levels import NOTICE
from v6t.core import log
from v6t.core.runs.events import open_log
from v6t.tests.core.support import SIM, v6t
from v6t.tests.expect import expect_refusal

LOGGER = logging.getLogger("v6t.drivers.something")
LEVELS = [logging.DEBUG, logging.INFO, NOTICE, logging.WARNING]


@pytest.fixture(autouse=True)
def _normal():
    yield
    log.configure_verbosity(log.NORMAL)


@pytest.mark.parametrize(
    ("verbosity", "printed", "stored"),
    [(log.QUIET, 1, 3), (log.NORMAL, 2, 3), (log.VERBOSE, 3, 3), (log.DEBUG, 4, 4)],
)
def test_verbosity_selects_printed_and_stored_records(verbosity, printed, stored, capsys, tmp_path):
    log.configure_verbosity(verbosity)
    with open_log(tmp_path):
        for level in LEVELS:
            LOGGER.log(level, "level%d", level)
    path, names = tmp_path / "log.txt", [f"level{level}" for level in LEVELS]
    assert capsys.readouterr().err.split() == names[-printed:]
    assert [line.split()[-1] for line in path.read_text().splitlines()] == names[-stored:]
    assert path.stat().st_mode & 0o777 == 0o600


def test_log_file_without_record_is_not_created(tmp_path):
    with open_log(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_secrets_and_control_characters_are_removed_from_logs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("V6T_DUT_PASSWORD", "hunter2")
    log.configure_verbosity(log.NORMAL)
    with open_log(tmp_path):
        LOGGER.warning("password hunter2\x1b[2J")
    for text in (capsys.readouterr().err, (tmp_path / "log.txt").read_text()):
        assert "password ********\\x1b[2J" in text


def test_quiet_run_prints_results_only(tmp_path):
    out = tmp_path / "out"
    words = ("--reps", "1", "--mode", "forward", "--frame-size", "104", "--no-report")
    done = v6t(*SIM, *words, "-q", "-o", out)
    assert (done.status, done.err) == (0, "")
    assert f"Results: {out}" in done.out
    assert (out / "log.txt").read_text().count("\n") > 2


def test_error_of_quiet_command_is_printed():
    expect_refusal(v6t("run", "--plugin", "no-such", "-q"), "unknown-name")


def test_verbose_with_quiet_is_rejected():
    expect_refusal(v6t("explain", "-v", "-q", "throughput"))
