"""Verbosity and log files."""

import logging

import pytest
from v6t.base.log_levels import NOTICE
from v6t.core import log
from v6t.core.runs.events import open_log
from v6t.tests.core.support import SIM, v6t

SHORT = (*SIM, "--reps", "1", "--mode", "forward", "--frame-size", "104", "--no-report")
LOGGER = logging.getLogger("v6t.drivers.something")


@pytest.fixture(autouse=True)
def _normal():
    yield
    log.configure_verbosity(log.NORMAL)


def test_verbose_with_quiet_is_rejected():
    done = v6t("explain", "-v", "-q", "throughput")
    assert (done.status, done.out) == (2, "")


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [
        (log.QUIET, ["warning"]),
        (log.NORMAL, ["notice", "warning"]),
        (log.VERBOSE, ["info", "notice", "warning"]),
        (log.DEBUG, ["debug", "info", "notice", "warning"]),
    ],
)
def test_verbosity_selects_records(verbosity, expected, capsys):
    log.configure_verbosity(verbosity)
    for level, text in (
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (NOTICE, "notice"),
        (logging.WARNING, "warning"),
    ):
        LOGGER.log(level, text)
    assert capsys.readouterr().err.split() == expected


@pytest.mark.parametrize(("verbosity", "lines"), [(log.QUIET, 2), (log.VERBOSE, 2), (log.DEBUG, 3)])
def test_log_file_holds_commands_whatever_is_shown(verbosity, lines, tmp_path):
    log.configure_verbosity(verbosity)
    with open_log(tmp_path):
        for level in (logging.DEBUG, logging.INFO, NOTICE):
            LOGGER.log(level, "text")
    assert len((tmp_path / "log.txt").read_text().splitlines()) == lines
    assert (tmp_path / "log.txt").stat().st_mode & 0o777 == 0o600


def test_log_file_without_record_is_not_made(tmp_path):
    with open_log(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_secrets_and_control_characters_are_removed_from_logs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("V6T_DUT_PASSWORD", "hunter2")
    log.configure_verbosity(log.NORMAL)
    with open_log(tmp_path):
        LOGGER.warning("it was hunter2\x1b[2J")
    for text in (capsys.readouterr().err, (tmp_path / "log.txt").read_text()):
        assert "it was ********\\x1b[2J" in text


def test_quiet_run_prints_results_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t(*SHORT, "-q", "-o", "out")
    assert (done.status, done.err) == (0, "")
    assert "Results: out" in done.out
    assert (tmp_path / "out" / "log.txt").read_text().count("\n") > 2


def test_error_of_quiet_command_is_printed():
    done = v6t("run", "--plugin", "no-such", "-q")
    assert done.status == 2
    assert done.err
