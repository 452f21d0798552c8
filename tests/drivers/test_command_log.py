"""Content of the command log; no secrets in it and in reports."""

import json
import logging
import shlex

import pytest
from v6t.drivers.transport import redaction
from v6t.drivers.transport.command_log import ANSWER_LIMIT
from v6t.drivers.transport.contract import DeadlinePassed
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.core.support import SIM, v6t

LOGGER = "v6t.drivers.transport"


@pytest.fixture
def no_secrets(monkeypatch):
    monkeypatch.setattr(redaction, "_secrets", set())


def run_logged(caplog, command, text="", level=logging.INFO):
    """Run a command on this machine and return its log messages."""
    with caplog.at_level(level, LOGGER):
        LocalTransport("a machine").run(command, text)
    return [record.getMessage() for record in caplog.records]


def test_command_record_holds_command_status_duration_and_answer(caplog):
    (message,) = run_logged(caplog, "echo one; echo two >&2; exit 3")
    first, *rest = message.split("\n")
    assert first.startswith("a machine: exit status 3 after 0.")
    assert rest == ["$ echo one; echo two >&2; exit 3", "| one", "! two"]


def test_logged_command_of_several_lines_can_be_executed(caplog, tmp_path):
    target = tmp_path / "copy"
    (message,) = run_logged(caplog, f"cat >{target}\nprintf '\\n'", "a\tb\n$c\n")
    command = message.split("\n$ ")[1].partition("\n| ")[0]
    target.unlink()
    assert LocalTransport("a machine").run(command).status == 0
    assert target.read_text() == "a\tb\n$c\n"


@pytest.mark.parametrize(("command", "answer"), [
    (r"printf 'a\033[2Jb\rc\342\200\256d'", r"| a\x1b[2Jb\rc\u202ed"),
    ("printf 'x%.0s' $(seq 5000)", f"| {'x' * ANSWER_LIMIT}\n| [cut: 5000 characters]"),
])  # fmt: skip
def test_answer_is_cut_and_control_characters_are_visible(caplog, command, answer):
    (message,) = run_logged(caplog, command)
    assert message.partition("\n$ ")[2] == f"{command}\n{answer}"


def test_failed_command_is_logged(caplog):
    with caplog.at_level(logging.INFO, LOGGER), pytest.raises(DeadlinePassed):
        LocalTransport("a machine").run("sleep 5", deadline_s=0.1)
    (record,) = caplog.records
    assert record.getMessage().startswith("a machine: failed (")
    assert record.getMessage().endswith("\n$ sleep 5")


def test_held_command_is_logged_when_it_starts_and_its_lines_at_level_debug(caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        held = LocalTransport("a machine").hold("cat")
        held.send("hello\n")
        held.read_line(5.0)
        held.release()
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.INFO, logging.DEBUG, logging.DEBUG]


def test_command_is_not_logged_above_debug_level(caplog):
    assert run_logged(caplog, "true", level=logging.WARNING) == []


@pytest.mark.parametrize("line", [
    "snmp-server community hunter2 RO",
    "rocommunity hunter2 192.0.2.0/24",
    "enable secret 5 hunter2",
    "username admin secret sha512 hunter2",
    "neighbor 192.0.2.1 password 7 hunter2",
    'encrypted-password "hunter2";',
    "tacacs-server host 192.0.2.1 key 7 hunter2",
    "snmp-server user u g v3 auth sha hunter2 priv aes 128 hunter2",
    "snmpget -v 2c -c hunter2 192.0.2.1 1.3.6",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----",
])  # fmt: skip
def test_secret_after_keyword_is_hidden(line, no_secrets):
    assert "hunter2" not in redaction.redact(line)
    assert redaction.HIDDEN in redaction.redact(line)


def test_secrets_of_json_are_hidden_without_other_changes(no_secrets):
    value = {"commands": ["set password hunter2", "show"], "community": "public", "tries": 3}
    expected = {**value, "commands": [f"set password {redaction.HIDDEN}", "show"]}
    assert redaction.redact_json(value) == {**expected, "community": redaction.HIDDEN}


@pytest.mark.parametrize("secret", ["hunter2", "it's", "a\"b'c", "p\u00e4ss"])
def test_secret_of_options_is_hidden_in_every_form(secret, no_secrets):
    redaction.register_secrets({"lines": [f"username admin password {secret}"]})
    command = f"router 'username admin {secret}'"
    assert redaction.redact_values(command) == f"router 'username admin {redaction.HIDDEN}'"
    assert secret not in redaction.redact_values(json.dumps([secret], ensure_ascii=False))
    quoted = shlex.quote(json.dumps(["x " + secret]))
    assert redaction.redact_values(quoted) == shlex.quote(json.dumps(["x " + redaction.HIDDEN]))


@pytest.mark.parametrize("name", ["V6T_DUT_PASSWORD", "V6T_DUT_ENABLE_PASSWORD"])
def test_password_of_environment_is_hidden(name, monkeypatch):
    monkeypatch.setenv(name, "hunter2")
    assert redaction.redact_values("it was hunter2") == f"it was {redaction.HIDDEN}"


@pytest.mark.parametrize(("pattern", "expected"), [
    ("[Pp]ass(word|phrase): $", True), ("(?i)secret", True), (r"\[confirm\]$", False),
])  # fmt: skip
def test_question_for_secret_is_recognized_by_its_pattern(pattern, expected):
    assert redaction.expects_secret(pattern) is expected


def test_report_hides_secrets_of_options(tmp_path):
    """Other users may read a report, but not ``config.json``."""
    hooks = {"flush": {"command": "snmpset -c hunter2 dut"}}
    (tmp_path / "bed.yaml").write_text(json.dumps({"dut": {"options": {"hooks": hooks}}}))
    words = ("--measure", "throughput", "--mode", "forward", "--reps", "1", "--report")
    result = v6t(*SIM, *words, "--testbed", tmp_path / "bed.yaml", "-o", tmp_path / "run")
    assert result.status == 0, result.err
    files = {path.name: path.read_text() for path in (tmp_path / "run").iterdir()}
    assert {name for name, text in files.items() if "hunter2" in text} == {"config.json"}
    assert "snmpset -c ********" in files["report.html"]
