"""The command line: start-up time, help, secrets and output errors."""

import errno
import json
import logging
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from unittest.mock import Mock

import click
import pytest
from v6t.base.errors import UsageError
from v6t.base.log_levels import NOTICE
from v6t.core import log
from v6t.core.cli import entry, main
from v6t.core.config import plugins
from v6t.core.runs.events import open_log
from v6t.core.runs.journal import Journal
from v6t.core.runs.manifest import find_commit
from v6t.tests.core.support import COMMAND, RUN_FILES, SIM, read_dir, v6t, v6t_process

HEAVY = ("scapy", "numpy", "matplotlib", "pydantic", "ruamel", "rich")


def walk_commands(command=main.cli, path=()):
    """Yield path and command of each command and of each group."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk_commands(command.get_command(context, name), (*path, name))


CLI_COMMANDS = dict(walk_commands())


def run_in_new_interpreter(*commands):
    """Run commands in a fresh interpreter; return statuses, heavy packages after each, and errors."""
    code = (
        "import json, sys\nfrom v6t.core.cli.main import main\nstatuses, heavy = [], []\n"
        f"for words in {commands!r}:\n    try:\n        main(words)\n"
        "    except SystemExit as exc:\n        statuses.append(exc.code)\n"
        f"    heavy.append([m for m in {HEAVY!r} if m in sys.modules])\n"
        "print(json.dumps([statuses, heavy]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    *stderr, result = done.stderr.splitlines()
    return *json.loads(result), stderr


def test_commands_import_only_what_they_need():
    light = (["--help"], ["--version"], ["compile", "--help"], ["completion", "bash"])
    heavier = (["run", "--help"], [*SIM, "--dry-run"], ["report", "nowhere"])
    statuses, heavy, stderr = run_in_new_interpreter(*light, *heavier)
    assert statuses == [0, 0, 0, 0, 0, 0, 2]
    assert heavy[:5] == [[], [], [], [], ["pydantic"]]
    assert "matplotlib" not in heavy[-1]
    assert stderr[0].startswith("v6t: ")  # of the last command


def test_invalid_file_is_rejected_before_heavy_imports(tmp_path):
    nested, fifo, conf = (str(tmp_path / name) for name in ("nested.yaml", "fifo.yaml", "s.conf"))
    (tmp_path / "nested.yaml").write_text(f"zz: {'{' * 16}{'}' * 16}\n")
    os.mkfifo(fifo)
    (tmp_path / "s.conf").write_text("Stateful 1\nIPv4-R-Real ::\n")
    commands = (
        *(["run", nested], ["run", fifo], ["run", "--plugin", "siit", "--testbed", fifo]),
        *(["selftest", nested], ["campaign", nested], ["campaign", fifo]),
        *(["dut", "plan", nested], ["dut", "commit", "--testbed", fifo]),
        *(["init", "--from-siitperf", fifo], ["init", "--from-siitperf", conf]),
    )
    statuses, heavy, stderr = run_in_new_interpreter(*commands)
    assert statuses == [2] * len(commands)
    assert sum(line.startswith("v6t: ") for line in stderr) == len(commands)
    assert set(heavy[-1]) <= {"ruamel"}


def test_help_names_every_command():
    done = v6t("--help")
    assert (done.status, done.err) == (0, "")
    for name, (_, summary) in main.COMMANDS.items():
        assert f"  {name} " in done.out
        assert summary in done.out
    assert v6t("-h").out == done.out
    assert v6t("--version").out == f"v6t {version('v6t')}\n"


@pytest.mark.parametrize("path", list(CLI_COMMANDS)[1:], ids=" ".join)
def test_help_of_command_describes_its_options(path):
    done = v6t(*path, "--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"Usage: v6t {' '.join(path)} ")
    command = CLI_COMMANDS[path]
    assert command.help.split("\n")[0].split(".")[0][:40] in " ".join(done.out.split())
    for parameter in command.get_params(click.Context(command)):
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} lacks help"
            assert (parameter.opts[-1] in done.out) != parameter.hidden
    assert "..." not in done.out.partition("Commands:")[2]
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert isinstance(command, click.Group) or {"-v", "--verbose", "-q", "--quiet"} <= flags


# Options whose declarations differ between commands, with the reason.
DIFFERENT_OPTIONS = {
    "--dry-run": "the plan of a run, or the commands for a device",
    "--duration": "of dut bottleneck; elsewhere it is a setting, described by its model",
    "--format": "the files of a report, or the one form of compiled traffic",
    "--frame-size": "the sizes of a run, the size or mix of traffic, or octets to calculate with",
    "--output": "a directory, or one file",
    "--rate": "of compiled traffic; elsewhere it is a setting, described by its model",
    "--testbed": "a campaign has several testbeds",
    "-o": "as --output",
}


def test_options_of_same_name_have_one_declaration():
    declarations = {}
    for command in CLI_COMMANDS.values():
        for option in command.get_params(click.Context(command)):
            declared = (option.name, option.type.name, option.metavar, getattr(option, "help", ""))
            for flag in option.opts if isinstance(option, click.Option) else ():
                declarations.setdefault(flag, set()).add(declared)
    different = {flag for flag, declared in declarations.items() if len(declared) > 1}
    assert different == set(DIFFERENT_OPTIONS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_code_for_shell(shell):
    done = v6t("completion", shell)
    assert done.status == 0 and "_V6T_COMPLETE" in done.out


@pytest.mark.slow
def test_shell_completes_the_name_of_a_plugin():
    """Complete in a shell; test_operational.py checks commands and the values of each option."""
    words = {"_V6T_COMPLETE": "bash_complete", "COMP_WORDS": "v6t plugins ma", "COMP_CWORD": "2"}
    stdout = v6t_process(**words).out
    names = [line.partition(",")[2] for line in stdout.splitlines()]
    assert names == [n for n in plugins.list_names() if n.startswith("ma")]


def test_debug_adds_the_traceback(tmp_path):
    done = v6t("--debug", "run", tmp_path / "nope.yaml")
    assert done.status == 2 and "Traceback" in done.err
    assert done.err.splitlines()[-2].startswith("v6t: ")


def test_option_before_the_command_keeps_the_hint(monkeypatch):
    error = UsageError("too many ports", params={"low_ports": True}, code="out-of-range")
    monkeypatch.setattr(main, "_invoke_command", Mock(side_effect=error))
    assert "--set low_ports=true" in v6t("--debug", "run").err


@pytest.mark.slow
def test_full_standard_output_is_reported():
    with open("/dev/full", "w") as full:
        completed = subprocess.run(
            [*COMMAND, "compile", "--plugin", "mape-br"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    first, _ = completed.stderr.splitlines()
    assert completed.returncode == 3
    assert first.endswith("[disk-full]")


def test_full_standard_error_keeps_the_exit_status():
    with open("/dev/full", "w") as full:
        completed = subprocess.run([*COMMAND, "nope"], stderr=full, check=False)
    assert completed.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [
    "compile --plugin mape-br", "explain --help", "calc rate --line-rate 10G --frame-size 64",
])  # fmt: skip
def test_closed_output_pipe_is_not_an_error(words):
    pipe = subprocess.PIPE
    process = subprocess.Popen([*COMMAND, *words.split()], stdout=pipe, stderr=pipe)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.slow
def test_run_with_closed_streams_completes(tmp_path):
    """No file of the run is taken for standard output or error."""
    words = ("run", "--plugin", "siit", "--tester", "sim", "--reps", "1", "--mode", "forward")
    command = shlex.join([*COMMAND, *words, "-o", str(tmp_path / "out"), "--no-report"])
    subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], stderr=subprocess.DEVNULL, check=True)
    assert json.loads((tmp_path / "out/results.json").read_text())["status"] == "complete"
    assert Journal(tmp_path / "out/journal.jsonl").entries


def test_json_of_a_run_is_its_results_file(tmp_path):
    out = tmp_path / "out"
    done = v6t(*SIM, "--reps", 1, "--mode", "forward", "--json", "-o", out)
    assert (done.status, done.out) == (0, (out / "results.json").read_text())
    content = json.loads(done.out)
    assert content["status"] == "complete" and content["conditions"]["demonstration"] is True
    assert any("DEMONSTRATION" in c for c in content["caveats"])


def test_file_modes_follow_umask_except_for_secrets(tmp_path):
    out = tmp_path / "deep" / "out"
    before = os.umask(0o022)
    try:
        assert v6t(*SIM, "--reps", 1, "--mode", "forward", "-o", out).status == 0
    finally:
        os.umask(before)
    assert sorted(p.name for p in out.iterdir()) == RUN_FILES
    assert out.stat().st_mode & 0o777 == 0o755
    private = {path.name for path in out.iterdir() if path.stat().st_mode & 0o777 == 0o600}
    assert private == {".lock", "config.json", "manifest.json", "log.txt"}
    assert {p.stat().st_mode & 0o777 for p in out.iterdir() if p.name not in private} == {0o644}


def test_unnamed_runs_get_unique_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert v6t(*SIM, "--reps", 1, "--mode", "forward", "--label", "../a b/\n").status == 0
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(names) == 2
    assert all(name.split("-mape-br-")[1].startswith("a-b") for name in names)
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_selftest_measures_the_tester_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slow_device = ["--set-tester", "tester_fps=2000000", "--set-tester", "capacity_fps=10"]
    words = ["selftest", "--plugin", "mape-br", "--tester", "sim", *slow_device]
    done = v6t(*words, "--json")
    assert done.status == 0
    rows = json.loads(done.out)
    assert [r["mode"] for r in rows] == ["bidirectional", "forward", "reverse"]
    for row in rows:
        assert row["frame_sizes"] == {"ipv6": 104, "ipv4": 64}
        assert row["convention"] == "per_direction"
        assert 1_000_000 < row["capacity_fps"] <= 2_100_000
        assert row["usable_fps"] == pytest.approx(0.9 * row["capacity_fps"]) and row["trials"] > 1
        assert row["first_fault_above"]
        assert row["bounded_by"] == "tester"
    text = v6t(*words).out
    assert "104/64 octets, reverse: " in text and "line_rate" not in text
    assert read_dir(tmp_path) == {}


def test_selftest_reports_line_rate_bound(tmp_path):
    bed = tmp_path / "bed.yaml"
    bed.write_text("tester: {kind: sim}\nline_rate: 100M\n")
    words = ["selftest", "--plugin", "mape-br", "--testbed", bed, "--mode", "forward"]
    (row,) = json.loads(v6t(*words, "--json").out)
    assert row["capacity_fps"] == row["media_fps"] and row["bounded_by"] == "line_rate"
    assert "0.1G" in v6t(*words).out


def test_environment_is_not_stored(tmp_path, monkeypatch):
    secret = "correct horse battery staple"  # noqa: S105
    for name in ("V6T_PASSWORD", "SSH_AUTH_SOCK", "MY_API_TOKEN"):
        monkeypatch.setenv(name, secret)
    done = v6t("--debug", *SIM, "--reps", "1", "-o", tmp_path / "out")
    assert done.status == 0
    content = b"".join(octets or b"" for octets in read_dir(tmp_path / "out").values())
    assert b'"status": "complete"' in content
    assert secret.encode() not in content and secret not in done.out + done.err


def test_source_commit_without_git_is_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert find_commit.__wrapped__() is None


def test_interrupt_during_the_imports_ends_with_130(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr("builtins.__import__", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(SystemExit) as caught:
            entry.main()
    assert (caught.value.code, capsys.readouterr().err) == (130, "v6t: interrupted\n")


@pytest.mark.parametrize(("command", "measures"), [
    ("show", False), ("list", False), ("run", True), ("resume", True), ("campaign", True),
])  # fmt: skip
@pytest.mark.parametrize(("error", "code"), [
    (OSError(errno.ENOSPC, "No space left on device", "results.json"), "disk-full"),
    (OSError(), None), (MemoryError(), "resource-missing"),
])  # fmt: skip
def test_full_disk_or_memory_is_not_an_internal_error(error, code, command, measures, monkeypatch):
    monkeypatch.setattr(main, "_invoke_command", Mock(side_effect=error))
    done = v6t("--debug", command, "run")
    assert ("trials are saved" in done.err) == measures
    if code:
        assert (done.status, done.code) == (3, code)
    assert ("results.json" in done.err) == (code == "disk-full")


LOGGER = logging.getLogger("v6t.drivers.something")
LEVELS = [logging.DEBUG, logging.INFO, NOTICE, logging.WARNING]


@pytest.fixture(autouse=True)
def _restore_verbosity():
    yield
    log.configure_verbosity(log.NORMAL)


@pytest.mark.parametrize(("verbosity", "printed", "stored"), [
    (log.QUIET, 1, 3), (log.NORMAL, 2, 3), (log.VERBOSE, 3, 3), (log.DEBUG, 4, 4),
])  # fmt: skip
def test_verbosity_selects_printed_and_stored_records(verbosity, printed, stored, capsys, tmp_path):
    log.configure_verbosity(verbosity)
    with open_log(tmp_path):
        for level in LEVELS:
            LOGGER.log(level, "level%d", level)
    path, names = tmp_path / "log.txt", [f"level{level}" for level in LEVELS]
    assert capsys.readouterr().err.split() == names[-printed:]
    assert [line.split()[-1] for line in path.read_text().splitlines()] == names[-stored:]
    assert path.stat().st_mode & 0o777 == 0o600


def test_commands_without_directory_are_not_logged():
    with open_log(None):
        assert not LOGGER.isEnabledFor(logging.INFO)


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
