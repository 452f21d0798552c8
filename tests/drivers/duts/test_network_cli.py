"""The network-cli driver without a device: lines, prompts, telemetry, options and undo."""

import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from v6t.drivers.duts.devices import make_lab_device
from v6t.drivers.duts.kinds.network_cli import options as cli_options
from v6t.drivers.duts.kinds.network_cli.dialogue import CliTransport, remove_echo, render_line
from v6t.drivers.duts.kinds.network_cli.options import CliOptions, get_platform_options
from v6t.drivers.duts.kinds.network_cli.places import Placeholders, collect_placeholders
from v6t.drivers.duts.kinds.network_cli.session import compute_digest, main, undo_record
from v6t.drivers.duts.readings import LossReason
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample, summarize_samples
from v6t.drivers.duts.session.undo_store import UndoEntry
from v6t.drivers.transport.contract import ConnectionLost, Output
from v6t.drivers.transport.redaction import HIDDEN
from v6t.drivers.transport.ssh_client import find_connection_addresses
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.device import LinkIntent
from v6t.tests.expect import expect_error

from . import intents
from .cli_dialects import IOS
from .remote_site import wait_until
from .support import make_plan, make_record, needs_sshd


@pytest.mark.parametrize(("sent", "shown"), [
    ("R1#", "R1#"),
    (" --More-- \b\b\b\b\b\b\b\b\b\b          \b\b\b\b\b\b\b\b\b\bnext\r", "next      "),
    (" --More-- \r          \rnext\r", "next      "),
    ("---(more 45%)---\r\x1b[Knext\r", "next"),
    ("\x1b]0;pwned\x07\x1b[2Jplain\x1b[31m red\x1b[0m\x07!\r", "plain red!"),
    ("\x1bP1$r\x1b\\\\x9b2J\x9b2Jx", "\\x9b2J2Jx"),
    ("abc\x1b[2Kd\x1b[", "   d"),
])  # fmt: skip
def test_rendered_line_equals_terminal_output(sent, shown):
    assert render_line(sent) == shown


PROMPTS = ("R1>", "R1#", "R1(config-if)#", "RP/0/RP0/CPU0:R1#", "me@R1> ", "<R1>", "[~R1]", "R1(config)# ",
           "[*R1-GigabitEthernet0/0/1]", "me@R1:~$ ", "A:admin@R1# ", "*A:R1>config>router# ")  # fmt: skip
NO_PROMPTS = ("", "R1", "Password: ", "####", "R1 has 5 routes #", "x>y", "-->")


def test_prompt_is_recognized():
    options = CliOptions()
    lines = (*PROMPTS, *NO_PROMPTS)
    assert tuple(line for line in lines if options.is_prompt(line, "")) == PROMPTS
    assert [line for line in lines if options.is_prompt(line, "another")] == []


@pytest.mark.parametrize(("first", "later", "same"), [
    ("R1#", "R1(config-if)#", False),
    ("RP/0/RP0/CPU0:R1#", "RP/0/RP0/CPU0:R1(config)#", False),
    ("me@R1>", "me@R1#", False),
    ("<R1>", "[~R1-bgp]", False),
    ("a-very-long-name-of-a-router#", "a-very-long-name-of-(config)#", False),
    ("*A:R1# ", "A:R1#", True),  # marks of unsaved changes
    ("[~R1]", "[*R1]", True),
])  # fmt: skip
def test_prompt_of_another_mode_contains_the_name(first, later, same):
    dialogue = CliTransport(ECHO_LOGIN, CliOptions())
    dialogue._text = first
    dialogue._store_home_prompt()
    assert CliOptions().is_prompt(later, dialogue._stem)
    assert cli_options.is_same_prompt(first, later) is same


@pytest.mark.parametrize(("reply", "line"), [
    ("     ^\n% Invalid input detected at '^' marker.\n", "% Invalid input detected at '^' marker."),
    ("% Incomplete command.", "% Incomplete command."),
    ("% Ambiguous command:  \"sh r\"", "% Ambiguous command:  \"sh r\""),
    ("          ^\nsyntax error, expecting <command>.", "syntax error, expecting <command>."),
    ("error: configuration database locked by:", "error: configuration database locked by:"),
    ("unknown command.", "unknown command."),
    ("MINOR: CLI Invalid parameter.", "MINOR: CLI Invalid parameter."),
    ("Error: Unrecognized command found at '^' position.", "Error: Unrecognized command found at '^' position."),
    ("\n" * 100_000 + "  % Invalid input", "% Invalid input"),
    ("%SYS-5-CONFIG_I: Configured from console by vty0", ""),
    ("% Warning: this is slow\n5 input errors, 0 CRC\nErrors: 0", ""),
])  # fmt: skip
def test_error_names_rejected_line(reply, line):
    assert CliOptions().find_error(reply) == line


def test_configured_patterns_replace_defaults():
    options = CliOptions(errors=["^NAK"], prompt="^ready> $", pager="^more$")
    assert options.find_error("% Invalid input") == ""
    assert options.find_error("nak 5") == "nak 5"
    assert options.is_prompt("ready> ", "")
    assert not options.is_prompt("R1#", "")
    assert options.is_pager("more")


LINE = "show interface GigabitEthernet1.100"


@pytest.mark.parametrize("echo", [[LINE], [f"${LINE[10:]}"], []])
def test_echo_is_removed_from_answer(echo):
    assert remove_echo([*echo, "x"], LINE) == ["x"]


def expand(*texts, intent=intents.ROUTER6):
    return collect_placeholders(intent, {"left": "Gi0/1", "right": "Gi0/2"}).expand(texts)


def test_line_is_repeated_for_each_placeholder_value():
    many = dict.fromkeys(("2001:db8::1", "2001:db8::2"), "02:00:00:00:01:02")
    intent = replace(intents.ROUTER6, left=replace(intents.ROUTER6.left, neighbors=many))
    lines = expand("neighbor {left.host6} {left} {left.mac6:dots} {left.mtu}", intent=intent)
    assert lines == [f"neighbor {host} Gi0/1 0200.0000.0102 1500" for host in many]


@pytest.mark.parametrize(("text", "line"), [
    ("{x:ip}/{x:length}", "198.18.0.1/24"),
    ("{x:ip} {x:mask} {x:wildcard}", "198.18.0.1 255.255.255.0 0.0.0.255"),
    ("{x:network} {x:prefix}", "198.18.0.0 198.18.0.0/24"),
    ("{mac:dots} {mac:dashes}", "02ab.0000.0102 02-ab-00-00-01-02"),
    ("ratio {n:power}", "ratio 32"),
    ("{ literal } {2} {Big}", "{ literal } {2} {Big}"),
])  # fmt: skip
def test_placeholder_value_is_formatted(text, line):
    places = Placeholders()
    places.add("", {"x": ["198.18.0.1/24"], "mac": ["02:AB:00:00:01:02"], "n": [5]})
    assert places.expand([text]) == [line]


ROUTES = {"2001:db8:2::/64": "2001:db8::2", "2001:db8:3::/64": "2001:db8::2"}
SIDE = LinkIntent(["2001:db8::1/64", "2001:db8:1::1/64"], routes=ROUTES)


@pytest.mark.parametrize(("text", "problem"), [
    ("{nosuch}", "unknown placeholder {nosuch}"),
    ("{left:nosuch}", "unknown form 'nosuch'"),
    ("{left.mtu:dots}", "does not have this form"),
    ("{left.route6:power}", "does not have this form"),
    ("{left.address6} {left.route6}", "cannot be combined"),
])  # fmt: skip
def test_unusable_placeholder_is_rejected_with_its_line(text, problem):
    with expect_error("invalid-placeholder", mentions=problem) as caught:
        expand("interface {left}", f"say {text}", intent=replace(intents.ROUTER6, left=SIDE))
    assert caught.value.message.startswith(f"'say {text}': ")


@pytest.mark.parametrize("value", ["a\nreload", "a\rreload", "a\x03", "a\x1b[2J", "a\u2028b", "a\tb"])  # fmt: skip
def test_placeholder_value_with_control_character_is_rejected(value):
    configuration = intents.make_intent("dns64").configuration.model_copy(update={"zone": value})
    intent = replace(intents.ROUTER6, configuration=configuration)
    with expect_error("invalid-placeholder", mentions="settings.zone"):
        expand("zone {settings.zone}", intent=intent)


def test_technology_settings_are_placeholders():
    line = "{settings.rules.ipv6_prefix} {settings.rules.psid_len:power} {settings.br_address}"
    lines = expand(line, intent=intents.make_intent("mape-br"))
    assert lines == ["2001:db8:ce::/51 32 2001:db8:6::1"]


LOSSES = r"^no route drops (?P<drop_no_route>\d+)|^queue drops (?P<drops>\d+)|no port (?P<refused_port>\d+)"
LOAD = """CPU0: 35%
CPU1: 5%
 1,200 of 4,000 in use, nan of inf
no route drops 7
queue drops 2
no port 5
in 5
in 2
"""


def test_telemetry_figures_are_normalized():
    received = r"in (?P<rx_left>\d+)"
    busy = r"^CPU(?P<core>\d): (?P<busy>\d+)%"
    patterns = (busy, r"(?P<used>[\d,]+|nan) of", r"of (?P<limit>[\d,]+|inf)", LOSSES, received)
    telemetry = [{"command": f"show {n}", "pattern": p} for n, p in enumerate(patterns)]
    readings = make_cli_driver(telemetry=telemetry).get_telemetry_readings(intents.ROUTER6)
    assert readings["table"].command == "show 1\nshow 2"
    assert readings["link left"].command == "show 4"
    texts = (LOAD, LOAD, LOAD.replace("drops 7", "drops 107"))
    figures = [{name: r.parse(text) for name, r in readings.items()} for text in texts]
    assert figures[0] == {
        "cpu": {"cpu0.idle_percent": 65.0, "cpu1.idle_percent": 95.0},
        "table": {"used": 1200.0, "limit": 4000.0},
        "drops": {"no_route": 7.0, "all": 2.0, "refused port": 5.0},
        "link left": {"rx.packets": 7.0},
    }
    summary = summarize_samples([Sample(f, at, readings) for at, f in enumerate(figures)])
    assert summary.cores == {"cpu0": {"busy": 35.0}, "cpu1": {"busy": 5.0}}
    assert summary.drops == {"drops no_route": 100.0}
    assert summary.table == {"used": 1200.0, "limit": 4000.0, "full": 30.0}
    reasons = {name: readings["drops"].find_loss_reason(name) for name in ("refused port", "all")}
    assert reasons == {"refused port": LossReason.TABLE_FULL, "all": LossReason.QUEUE}


@pytest.mark.parametrize(("pattern", "expected"), [
    (r"active: (\d+)", 5), (r"\d+", 5), (r"idle: (\d+)", None)])  # fmt: skip
def test_session_count_is_first_group_or_whole_match(pattern, expected):
    sessions = {"command": "show sessions", "pattern": pattern}
    reading = make_cli_driver(sessions=sessions).get_session_reading(intents.ROUTER6)
    assert reading.parse("active: 5\nactive: 6").get("sessions") == expected


def make_cli_driver(options=IOS, **changes):
    return make_driver("network-cli", {"ssh": {"host": "192.0.2.9"}, **options, **changes})


@pytest.mark.parametrize(("option", "value", "code"), [
    ("cli", {"prompt": "("}, "wrong-form"),
    ("version_pattern", "(", "wrong-form"),
    ("compare", {"command": "x", "but": ["("]}, "wrong-form"),
    ("verify", [{"command": "x", "matches": "("}], "wrong-form"),
    ("verify", [{"command": "x"}], "missing-setting"),
    *(("verify", [{"command": "x", name: " "}], "wrong-length") for name in ("contains", "matches", "absent")),
    ("verify", [{"command": "x", "contains": "a", "absent": "b"}], "missing-setting"),
    ("ssh", {"host": "192.0.2.9", "become": "sudo -n"}, "conflict"),
    ("ssh", {"host": "192.0.2.9", "netns": "x"}, "conflict"),
    ("cli", {"answers": {"[Pp]assword: $": "s3cret"}}, "secret-in-file"),
    ("configure", "a\x1b[2J", "wrong-form"),
    ("restore", "a\tb", "wrong-form"),
    ("version_command", "a\u2028b", "wrong-form"),
    *(("telemetry", [{"command": "show x", "pattern": groups}], "wrong-form")
      for groups in ("x", "(?P<load>x)", "(?P<core>x)", "(?P<busy>x)(?P<used>x)")),
])  # fmt: skip
def test_invalid_option_is_rejected_before_any_login(option, value, code):
    with expect_error(code) as caught:
        make_cli_driver(**{option: value})
    assert caught.value.path[0] == option


def test_read_back_without_values_is_omitted():
    def plan(*checks):
        options = {**IOS, "ssh": {"host": "192.0.2.9"}, "verify": checks}
        return make_plan("network-cli", intents.ROUTER6, **options)

    ipv4 = {"command": "show ip route {left.route4}", "contains": "{left.via4}"}
    ipv6 = {"command": "show ipv6 route {left.route6:ip}", "matches": "via {left.via6}$"}
    (check,) = plan(ipv4, ipv6).all_checks
    (net, via), *_ = intents.ROUTER6.left.routes.items()
    assert check.command == f"show ipv6 route {net.network_address}"
    assert check.find_problem(f" via {via}\n") is None
    with expect_error("no-read-back", mentions="dut.options.verify"):
        plan(ipv4)


def test_text_block_is_split_into_lines():
    assert make_cli_driver(configure="one\n\n  two  \n").options.configure == ("one", "  two")


def test_device_without_version_or_safe_session_is_rejected():
    driver = make_cli_driver()
    ends = "server 2001:db8::9\nclient 2001:2::5\n"
    facts = driver.parse_facts({"version": "Version 1.2", "ends": ends})
    assert facts.version == "1.2"
    with expect_error("operator-path-in-use", mentions="2001:2::5"):
        driver.plan(intents.ROUTER6, facts)
    with expect_error("operator-path-unknown"):
        driver.plan(intents.ROUTER6, driver.parse_facts({"version": "Version 1.2", "ends": ""}))
    with expect_error("unexpected-answer", mentions="hello"):
        driver.parse_facts({"version": "hello"})
    assert make_cli_driver(version_command="").parse_facts({"version": ""}).version == ""


def test_each_device_has_a_state_directory():
    logins = [
        {"host": "192.0.2.9"}, {"host": "192.0.2.9", "port": 2222, "user": "me"},
        {"host": "192.0.2.9", "jump": "one"}, {"host": "192.0.2.9", "jump": "two"},
        {"host": "b-c", "user": "a"}, {"host": "c", "user": "a-b"},
    ]  # fmt: skip
    places = [make_cli_driver(ssh=login).options.state_dir for login in logins]
    assert len(set(places)) == len(logins)
    assert "/192.0.2.9-" in places[0]
    assert make_cli_driver().options.state_dir == places[0]
    assert make_cli_driver(state_dir="/run/mine").options.state_dir == "/run/mine"


@needs_sshd
def test_missing_lab_device_or_login_is_rejected():
    with expect_error("missing-setting"):
        make_lab_device(make_driver("network-cli", IOS), None, intents.ROUTER6)
    driver = make_cli_driver(ssh={"lab": "v6t-test-no-such-lab"})
    with expect_error("missing-device"):
        make_lab_device(driver, None, intents.ROUTER6).create_namespaces()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs Debian package openssh-client")
@pytest.mark.parametrize(("ssh", "ends"), [
    ({"host": "127.0.0.1", "config": ""}, "server 127.0.0.1\nclient 127.0.0.1\n"),
    ({"host": "127.0.0.1", "config": "", "jump": "me@bastion.example.net"}, "server 127.0.0.1\n"),
    ({"lab": "x"}, ""),
])  # fmt: skip
def test_connection_ends_are_found_before_connecting(ssh, ends):
    assert find_connection_addresses(SshOptions.model_validate(ssh)) == ends


DEFINITION = r"""
prompt_pattern: '^\S{1,63}[>#$]\s?+$'
default_mode: 'privileged_exec'
modes:
  - name: 'exec'
    accessible_modes:
      - name: 'privileged_exec'
        instructions: [{send_prompted_input: {input: 'enable', response: '__lookup::enable'}}]
failure_indicators: ['% Invalid input (sic)']
on_open_instructions:
  - enter_mode: {requested_mode: 'privileged_exec'}
  - send_input: {input: 'term len 0'}
"""


def test_options_take_precedence_over_the_platform(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(DEFINITION)
    options = make_cli_driver(cli={"abort": ["end"]}, platform=str(path)).cli_options
    assert (options.enable, options.open, options.abort) == ("enable", ("term len 0",), ("end",))
    assert options.is_prompt("R1#", "R1")
    assert options.find_error("% invalid input (sic) here")
    assert make_cli_driver(cli={"open": ["x"]}, platform=str(path)).cli_options.open == ("x",)


def test_unknown_platform_is_rejected(tmp_path, monkeypatch):
    place = tmp_path / "scrapli" / "definitions"
    place.mkdir(parents=True)
    (tmp_path / "scrapli" / "__init__.py").write_text("raise RuntimeError('not imported')\n")
    (place / "fake_os.yaml").write_text(DEFINITION)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert get_platform_options("fake_os")["open"] == ["term len 0"]
    with expect_error("unknown-platform", mentions="no_such", hint="fake_os"):
        get_platform_options("no_such")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with expect_error("unknown-platform", hint="network-cli"):
        get_platform_options("no_such")


def test_every_installed_platform_is_supported():
    if (scrapli := importlib.util.find_spec("scrapli")) is None:
        pytest.skip("needs scrapli: pip install 'v6t[network-cli]'")
    (place,) = scrapli.submodule_search_locations
    platforms = [path.stem for path in (Path(place) / "definitions").glob("*.yaml")]
    assert len(platforms) > 40
    assert all(make_cli_driver(cli={}, platform=p).cli_options.prompt for p in platforms)
    ios = make_cli_driver(cli={}, platform="cisco_iosxe").cli_options
    assert (ios.enable, "term len 0" in ios.open) == ("enable", True)
    assert ios.is_prompt("R1(config-if)#", "R1")
    assert ios.find_error("% Invalid input detected at '^' marker.")


@pytest.mark.parametrize(("text", "code"), [
    ("[]", "unknown-platform"),
    ("x: [", "file-unreadable"),
    ("prompt_pattern: 5", "unknown-platform"),
    ("prompt_pattern: '('", "wrong-form"),
])  # fmt: skip
def test_invalid_definition_is_rejected(text, code, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with expect_error(code):
        make_cli_driver(cli={}, platform=str(path)).cli_options  # noqa: B018


ECHO = r"""
import sys
def say(text): sys.stdout.write(text); sys.stdout.flush()
say("login banner\n####\nR1>")
for line in sys.stdin:
    word = line.strip()
    say("no such line: silent\n" if word == "silent" else word + "\n")
    if word == "enable": say("Password: "); say("\nit was " + sys.stdin.readline())
    if word == "bad": say("  ^\n% Invalid input detected\n")
    if word == "sure": say("Proceed? [confirm]"); sys.stdin.readline(); say("\n")
    if word == "pages": say(" --More-- "); sys.stdin.read(1); say("\r          \rlast\n")
    if word == "deeper": say("R1(config)#"); continue
    if word == "bye": break
    if word == "twice": say("Password: "); sys.stdin.readline(); say("\nPassword: "); sys.stdin.readline()
    if word == "stuck": say("thinking"); sys.stdin.read()
    say("R1#")
"""


# Login to the program ECHO, which echoes lines and answers some words specially.
ECHO_LOGIN = SimpleNamespace(
    name="R1", terminal_command=(sys.executable, "-u", "-c", ECHO), open=Mock(), close=Mock()
)


@pytest.fixture
def log_in(monkeypatch, request):
    """Return a function that starts a dialogue with ``ECHO``."""
    monkeypatch.setenv("V6T_DUT_ENABLE_PASSWORD", "s3cret")

    def start(**options):
        dialogue = CliTransport(ECHO_LOGIN, CliOptions(**{"enable": "enable", **options}))
        request.addfinalizer(dialogue.close)
        dialogue.open()
        return dialogue

    return start


@pytest.mark.parametrize(("options", "command", "answer", "error"), [
    ({"answers": {r"\[confirm\]$": ""}}, "sure\nx", "Proceed? [confirm]\n\n", ""),
    ({}, "pages", "last\n", ""),
    ({}, "x\nbad\ny", "", "% Invalid input detected"),
    ({"errors": ["^no such line:"]}, "silent", "", "'silent'"),  # the error follows the echo
    ({"abort": ["back"]}, "deeper", "", "'R1(config)#'"),
])  # fmt: skip
def test_answer_or_error_ends_at_first_prompt(log_in, options, command, answer, error):
    dialogue = log_in(**options)
    output = dialogue.run(command)
    assert (output.status, output.out) == (bool(error), answer)
    assert error in output.err
    assert dialogue.run("x").status == 0


@pytest.mark.parametrize(("line", "abort"), [
    ("stuck", []), ("bad", ["stuck"]), ("bye", []), ("deeper", ["deeper"])])  # fmt: skip
def test_unknown_prompt_lost_connection_or_interrupt_ends_login(log_in, line, abort):
    dialogue = log_in(line_deadline_s=1, abort=abort)
    with expect_error("connection-lost", kind=ConnectionLost, mentions=line):
        dialogue.run(line)
    assert not dialogue.is_alive
    with expect_error("connection-lost"):
        dialogue.run("x")
    interrupted = log_in()
    interrupted._read = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run("x")
    assert not interrupted.is_alive


def test_enable_password_is_tried_once_hidden_and_not_that_of_the_login(log_in, monkeypatch):
    with expect_error("login-refused", mentions="twice") as caught:
        log_in(enable="", open=["twice"])
    assert "s3cret" not in str(caught.value)
    # the device repeats the password
    with expect_error("command-rejected", mentions=f"it was {HIDDEN}"):
        log_in(errors=["^it was"])
    monkeypatch.delenv("V6T_DUT_ENABLE_PASSWORD")
    monkeypatch.setenv("V6T_DUT_PASSWORD", "s3cret")
    with expect_error("console-prompt", mentions="enable"):
        log_in()


@pytest.mark.parametrize("octet", ["-", "#", "a", "password", "["])
def test_long_line_is_quickly_recognized_as_no_prompt(log_in, octet):
    """Regular expressions may take quadratic time."""
    dialogue = log_in()
    dialogue._text = octet * (1 << 20)
    assert dialogue._find_answer(dialogue._last_line, "now", at_login=True) is None


def test_idle_login_is_kept_alive_by_empty_lines(log_in, monkeypatch):
    dialogue = log_in(idle_s=0.05)
    sent = []
    send = dialogue._send
    monkeypatch.setattr(dialogue, "_send", lambda text: (sent.append(text), send(text)))
    wait_until(lambda: len(sent) > 2, "three empty lines")
    with dialogue._turn:
        assert set(sent) == {"\n"}
        assert dialogue.run("x").status == 0  # answers to empty lines are not taken for this one
        sent.clear()
        for last in ("R1(config)#", "Erase all of it? [confirm]"):
            dialogue._text = last
            dialogue._press_enter()
        assert sent == []
    assert dialogue.is_alive


def test_idle_login_without_prompt_is_closed(log_in, monkeypatch):
    dialogue = log_in(line_deadline_s=1, abort=["reload"])
    sent = []
    monkeypatch.setattr(dialogue, "_send", sent.append)
    dialogue._press_enter()
    assert not dialogue.is_alive
    assert sent == ["\n"]


STEPS = (
    UndoEntry(1, "save", "delete saved"),
    UndoEntry(2, "start the timer", "revert now", gone="4"),
    UndoEntry(3, "configure", "replace", before="show run", old=compute_digest("old", ())),
    UndoEntry(4, "stop the timer", ""),
)


def undo(tmp_path, begun, answers, undone=""):
    """Return the output of a rollback, and the lines sent to the device."""
    (tmp_path / "progress").write_text(begun)
    (tmp_path / "undone").write_text(undone)
    record = make_record(tmp_path, *STEPS)
    sent = []
    replies = iter(answers)

    def run(command):
        sent.append(command)
        reply = next(replies, "")
        return Output(1, "", "refused") if reply is None else Output(0, reply, "")

    return undo_record(record, run, ["^! time"]), sent


@pytest.mark.parametrize(("begun", "answers", "lines"), [
    ("1\n2\n3\n", ["new", "", "old"], ["show run", "replace", "show run", "revert now", "delete saved"]),
    ("1\n2\n3\n4\n", ["new", "", "! time 5\nold"], ["show run", "replace", "show run", "delete saved"]),
    ("1\n2\n3\n4\n", ["old"], ["show run", "delete saved"]),
    ("1\n2\n", [], ["revert now", "delete saved"]),
])  # fmt: skip
def test_undo_sends_only_remaining_steps(tmp_path, begun, answers, lines):
    assert undo(tmp_path, begun, answers) == (Output(0, "", ""), lines)
    assert "all" in (tmp_path / "undone").read_text()


def test_failed_undo_keeps_restore_files(tmp_path):
    output, lines = undo(tmp_path, "1\n2\n3\n", ["new", None, "new"])
    assert (output.status, output.out, lines[-1]) == (1, "left 3\nleft 1\n", "revert now")
    output, lines = undo(tmp_path, "1\n2\n3\n", ["old"], undone="2\n")
    assert (output.status, lines) == (0, ["show run", "delete saved"])


@needs_sshd
def test_undo_program_without_device_exits_with_status_3(tmp_path, capsys):
    record = make_record(tmp_path, *STEPS)
    assert main('{"ssh": {"lab": "v6t-test-no-such-lab"}, "cli": {}, "ignored": []}', record) == 3
    assert "does not exist" in capsys.readouterr().err
