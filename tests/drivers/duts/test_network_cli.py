"""Lines, prompts and figures of devices with a command line, without any."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from v6t.drivers.duts.commands import Lost
from v6t.drivers.duts.console import box as program
from v6t.drivers.duts.console.alone import ends
from v6t.drivers.duts.console.broker import Broker
from v6t.drivers.duts.console.dialogue import HIDDEN, Dialogue
from v6t.drivers.duts.console.manners import Manners, same_mode, stem_of, without_echo
from v6t.drivers.duts.console.screen import Screen
from v6t.drivers.duts.kinds.command import CheckText
from v6t.drivers.duts.kinds.network_cli.places import Places, places_of
from v6t.drivers.duts.kinds.network_cli.platform import definition, manners_in
from v6t.drivers.duts.kinds.network_cli.readings import figures, reading_of
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.shape import shaped
from v6t.drivers.duts.telemetry import Sample
from v6t.drivers.duts.undo_record import undo_deadline_s
from v6t.intent.device import LinkIntent
from v6t.plugins.dns64 import Dns64
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.tests.expect import expect_error

from . import intents, sshserver
from .boxes import IOS, JUNOS
from .field import until

# ---------------------------------------------------------------- what a terminal shows


@pytest.mark.parametrize(
    ("sent", "seen", "last"),
    [
        (b"one\r\ntwo\r\nR1#", ["one", "two"], "R1#"),
        (b" --More-- \b\b\b\b\b\b\b\b\b\b          \b\b\b\b\b\b\b\b\b\bnext\r\n", ["next"], ""),
        (b" --More-- \r          \rnext\r\n", ["next"], ""),
        (b"---(more 45%)---\r\x1b[Knext\r\n", ["next"], ""),
        (b"\x1b]0;pwned\x07\x1b[2Jplain\x1b[31m red\x1b[0m\x07!\r\n", ["plain red!"], ""),
        (b"\x1bP1$r\x1b\\\x9b2J\xc2\x9b2Jx\n", ["\\x9b2J2Jx"], ""),
        (b"caf\xc3\xa9 \xff\n", ["caf\u00e9 \\xff"], ""),
    ],
)
def test_a_terminal_shows_what_is_left_in_the_end(sent, seen, last):
    whole, pieces = Screen(), Screen()
    whole.feed(sent)
    for octet in sent:
        pieces.feed(bytes([octet]))
    for screen in (whole, pieces):
        assert (screen.lines, screen.last) == (seen, last)


def test_a_sequence_without_end_does_not_hold_everything_back():
    screen = Screen()
    screen.feed(b"\x1b]" + b"x" * 5000 + b"\nR1#")
    assert screen.last == "R1#"


# ---------------------------------------------------------------- prompts and refusals


@pytest.mark.parametrize(
    ("last", "is_one"),
    [
        *(
            (text, True)
            for text in ("R1>", "R1#", "R1(config-if)#", "RP/0/RP0/CPU0:R1#", "me@R1> ")
        ),
        *((text, True) for text in ("<R1>", "[~R1]", "[*R1-GigabitEthernet0/0/1]", "me@R1:~$ ")),
        *((text, True) for text in ("A:admin@R1# ", "*A:R1>config>router# ", "R1(config)# ")),
        *(
            (text, False)
            for text in ("", "R1", "Password: ", "####", "R1 has 5 routes #", "x>y", "-->")
        ),
    ],
)
def test_prompts_of_common_command_lines(last, is_one):
    assert Manners().is_prompt(last, "") is is_one
    assert not Manners().is_prompt(last, "another")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("R1#", "R1(config-if)#"),
        ("RP/0/RP0/CPU0:R1#", "RP/0/RP0/CPU0:R1(config)#"),
        ("me@R1>", "me@R1#"),
        ("<R1>", "[~R1-bgp]"),
        ("a-very-long-name-of-a-router#", "a-very-long-name-of-(config)#"),
    ],
)
def test_a_prompt_holds_the_name_that_the_first_one_had(first, later):
    assert Manners().is_prompt(later, stem_of(first))
    assert not same_mode(first, later)


def test_marks_of_unsaved_changes_are_no_other_mode():
    assert same_mode("*A:R1# ", "A:R1#")
    assert same_mode("[~R1]", "[*R1]")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("     ^\n% Invalid input detected at '^' marker.\n", "% Invalid input detected at '^' marker."),
        ("% Incomplete command.", "% Incomplete command."),
        ("% Ambiguous command:  \"sh r\"", "% Ambiguous command:  \"sh r\""),
        ("          ^\nsyntax error, expecting <command>.", "syntax error, expecting <command>."),
        ("error: configuration database locked by:", "error: configuration database locked by:"),
        ("unknown command.", "unknown command."),
        ("MINOR: CLI Invalid parameter.", "MINOR: CLI Invalid parameter."),
        ("Error: Unrecognized command found at '^' position.", "Error: Unrecognized command found at '^' position."),
        ("%SYS-5-CONFIG_I: Configured from console by vty0", ""),
        ("% Warning: this is slow\n5 input errors, 0 CRC\nErrors: 0", ""),
    ],
)  # fmt: skip
def test_what_a_refusal_looks_like(reply, told):
    assert Manners().refusal(reply) == told


@pytest.mark.parametrize("octet", ["-", "#", "a", "password", "["])
def test_a_long_line_is_no_prompt_and_nobody_waits_for_that(speaking, octet):
    """A pattern may take the square of a line's length."""
    dialogue = speaking(enable="enable")
    dialogue._screen.feed((octet * (1 << 20)).encode())
    assert dialogue._next(dialogue._screen.last, "now", opening=True) is None


def test_blank_lines_do_not_hide_a_refusal():
    assert Manners().refusal("\n" * 100_000 + "  % Invalid input") == "% Invalid input"


def test_own_patterns_take_the_place_of_the_common_ones():
    own = Manners.model_validate({"errors": ["^NAK"], "prompt": "^ready> $", "pager": "^more$"})
    assert own.refusal("% Invalid input") == ""
    assert own.refusal("nak 5") == "nak 5"
    assert own.is_prompt("ready> ", "")
    assert not own.is_prompt("R1#", "")
    assert own.is_pager("more")


def test_the_line_that_was_typed_is_no_part_of_the_answer():
    assert without_echo(["show version", "x"], "show version") == ["x"]
    assert without_echo(["$ce GigabitEthernet0/0/0/1.100", "x"],
                        "show ipv6 interface GigabitEthernet0/0/0/1.100") == ["x"]  # fmt: skip
    assert without_echo(["x"], "show version") == ["x"]


# ---------------------------------------------------------------- places


def placed(*texts, intent=intents.ROUTER6, left="Gi0/1", right="Gi0/2"):
    return places_of(intent, {"left": left, "right": right}).lines(texts)


def test_lines_are_repeated_for_what_they_name():
    side = intents.ROUTER6.left
    (net, via), *_ = side.routes.items()
    assert placed("interface {left}", "mtu {left.mtu}") == ["interface Gi0/1", "mtu 1500"]
    assert placed("ipv6 route {left.route6} {left.via6}")[0] == f"ipv6 route {net} {via}"
    many = {f"2001:db8::{n}": "02:00:00:00:01:02" for n in range(1, 4)}
    intent = replace(intents.ROUTER6, left=replace(side, neighbors=many))
    told = placed("neighbor {left.host6} {left} {left.mac6:dots}", intent=intent)
    assert told == [f"neighbor 2001:db8::{n} Gi0/1 0200.0000.0102" for n in range(1, 4)]
    assert placed("ip route {left.route4} {left.via4}") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{x:ip}/{x:length}", "198.18.0.1/24"),
        ("{x:ip} {x:mask} {x:wildcard}", "198.18.0.1 255.255.255.0 0.0.0.255"),
        ("{x:network} {x:prefix}", "198.18.0.0 198.18.0.0/24"),
        ("{mac:dots} {mac:dashes}", "02ab.0000.0102 02-ab-00-00-01-02"),
        ("ratio {n:power}", "ratio 32"),
        ("{ literal } {2} {Big}", "{ literal } {2} {Big}"),
    ],
)
def test_forms_of_values(text, line):
    places = Places()
    places.add("", {"x": ["198.18.0.1/24"], "mac": ["02:AB:00:00:01:02"], "n": [5]})
    assert places.lines([text]) == [line]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{nosuch}", "unknown placeholder {nosuch}"),
        ("{left:nosuch}", "unknown form 'nosuch'"),
        ("{left.mtu:dots}", "does not have this form"),
        ("{left.route6:power}", "does not have this form"),
    ],
)
def test_a_place_that_cannot_be_filled_is_named(text, words):
    line = f"say {text}"
    with expect_error("invalid-placeholder") as caught:
        placed("interface {left}", line)
    assert caught.value.message.startswith(f"'{line}': ")
    assert words in caught.value.message


def test_values_of_two_kinds_are_not_multiplied():
    routes = {"2001:db8:2::/64": "2001:db8::2", "2001:db8:3::/64": "2001:db8::2"}
    side = LinkIntent(["2001:db8::1/64", "2001:db8:1::1/64"], routes=routes)
    with expect_error("invalid-placeholder"):
        placed("{left.address6} {left.route6}", intent=replace(intents.ROUTER6, left=side))


@pytest.mark.parametrize(
    "value", ["a\nreload", "a\rreload", "a\x03", "a\x1b[2J", "a\u2028b", "a\tb"]
)
def test_no_value_ends_a_line(value):
    configuration = Dns64().dut_intent().configuration.model_copy(update={"zone": value})
    intent = replace(intents.ROUTER6, configuration=configuration)
    with expect_error("invalid-placeholder", mentions="settings.zone"):
        placed("zone {settings.zone}", intent=intent)


def test_rules_of_a_technology_are_places():
    told = placed("rule {settings.rules.ipv6_prefix} {settings.rules.ipv4_prefix} ratio "
                  "{settings.rules.psid_len:power} br {settings.br_address}",
                  intent=MapEBorderRelay().dut_intent())  # fmt: skip
    assert told == ["rule 2001:db8:ce::/51 192.0.2.0/24 ratio 32 br 2001:db8:6::1"]


# ---------------------------------------------------------------- figures


def test_figures_by_named_groups_make_the_common_shape():
    text = "CPU0: 35%\nCPU1: 5%\n 1,200 of 4,000 in use\nno route drops 7\nqueue drops 2\n"
    busy = r"^CPU(?P<core>\d): (?P<busy>\d+)%"
    table = r"(?P<used>[\d,]+) of (?P<limit>[\d,]+)"
    drops = r"^no route drops (?P<drop_no_route>\d+)|^queue drops (?P<drops>\d+)"
    assert figures([busy], text) == {"cpu0.idle_percent": 65.0, "cpu1.idle_percent": 95.0}
    assert figures([table], text) == {"used": 1200.0, "limit": 4000.0}
    assert figures([drops], text) == {"no_route": 7.0, "all": 2.0}
    later = text.replace("drops 7", "drops 107")
    watched = [{"command": "show x", "pattern": p} for p in (busy, table, drops)]
    readings = made(telemetry=watched).telemetry(intents.ROUTER6)
    samples = [
        Sample(
            {"cpu": figures([busy], t), "table": figures([table], t), "drops": figures([drops], t)},
            n,
            readings,
        )
        for n, t in enumerate((text, text, later))
    ]
    told = shaped(samples)
    assert told.cores == {"cpu0": {"busy": 35.0}, "cpu1": {"busy": 5.0}}
    assert told.drops == {"drops no_route": 100.0}
    assert told.table == {"used": 1200.0, "limit": 4000.0, "full": 30.0}


def test_frames_refused_for_want_of_room_have_a_name_of_their_own():
    lines = [
        {"command": "show nat", "pattern": r"no port (?P<refused_port>\d+)|lost (?P<drops>\d+)"}
    ]
    reading = made(telemetry=lines).telemetry(intents.ROUTER6)["drops"]
    told = reading.parse("no port 5\nlost 2\n")
    assert told == {"refused port": 5.0, "all": 2.0}
    assert [reading.lost(figure) for figure in told] == [Lost.ROOM, Lost.QUEUE]


def test_one_reading_may_need_two_lines():
    telemetry = [
        {"command": "show sessions", "pattern": r"active: (?P<used>\d+)"},
        {"command": "show limits", "pattern": r"most: (?P<limit>\d+)"},
        {"command": "show drops", "pattern": r"queue (?P<drops>\d+)"},
        {"command": "show more drops", "pattern": r"route (?P<drops>\d+)"},
    ]
    readings = made(telemetry=telemetry).telemetry(intents.ROUTER6)
    assert set(readings) == {"table", "drops"}
    assert readings["table"].command == "box 'show sessions' 'show limits'"
    assert readings["table"].parse("active: 5\nmost: 9\n") == {"used": 5.0, "limit": 9.0}
    assert readings["drops"].parse("queue 5\nroute 2\n") == {"all": 7.0}


def test_what_is_no_number_is_no_figure():
    assert figures([r"(?P<used>\S+) of (?P<limit>\S+)"], "nan of inf") == {}


@pytest.mark.parametrize(
    ("groups", "reading"),
    [
        (["busy"], "cpu"), (["core", "idle"], "cpu"), (["used"], "table"), (["rx_left"], "link left"),
        (["drops"], "drops"), (["drop_no_map", "drop_ttl"], "drops"),
    ],
)  # fmt: skip
def test_the_groups_say_which_reading_it_is(groups, reading):
    assert reading_of(dict.fromkeys(groups, 1)) == reading


@pytest.mark.parametrize("groups", [[], ["load"], ["core"], ["busy", "used"]])
def test_groups_that_mean_nothing_are_refused(groups):
    with expect_error("wrong-form"):
        reading_of(dict.fromkeys(groups, 1))
    pattern = "".join(f"(?P<{name}>x)" for name in groups) or "x"
    with expect_error("wrong-form", path=["telemetry", 0]):
        make_driver("network-cli", {"telemetry": [{"command": "show x", "pattern": pattern}]})


def test_of_silence_nothing_is_concluded():
    check = CheckText(command="x", absent="10.0.0.0/8").of("box x")
    assert check.checker("192.0.2.0/24") is None
    assert "'10.0.0.0/8'" in check.checker("  10.0.0.0/8  via")
    assert check.checker("") is not None


# ---------------------------------------------------------------- options and plans


def made(options=IOS, **changes):
    return make_driver("network-cli", {"ssh": {"host": "192.0.2.9"}, **options, **changes})


def plan_of(driver, intent=intents.ROUTER6):
    return driver.plan(intent, driver.example(intent))


@pytest.mark.parametrize("name", ["configure", "verify", "restore"])
def test_without_lines_nothing_is_guessed(name):
    with expect_error("missing-setting"):
        plan_of(made(**{name: []}))


@pytest.mark.parametrize("line", ["a\x1b[2J", "a\tb", "a\u2028b"])
@pytest.mark.parametrize("name", ["configure", "restore", "version_command"])
def test_a_line_is_one_line_of_plain_text(name, line):
    given = line if name == "version_command" else [line]
    with expect_error("wrong-form"):
        made(**{name: given})


def test_a_block_of_text_is_its_lines():
    driver = made(configure="one\n\n  two  \n")
    assert driver.options.configure == ("one", "  two")


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("cli", {"prompt": "("}, "wrong-form"),
        ("version_pattern", "(", "wrong-form"),
        ("compare", {"command": "x", "but": ["("]}, "wrong-form"),
        ("verify", [{"command": "x", "matches": "("}], "wrong-form"),
        ("verify", [{"command": "x"}], "missing-setting"),
        ("verify", [{"command": "x", "contains": "a", "absent": "b"}], "missing-setting"),
        ("ssh", {"host": "192.0.2.9", "become": "sudo -n"}, "conflict"),
    ],
)
def test_what_is_wrong_is_said_before_any_login(option, value, code):
    with expect_error(code) as caught:
        made(**{option: value})
    assert caught.value.path[0] == option


def test_read_backs_about_what_the_technology_does_not_have_are_left_out():
    four = {"command": "show ip route {left.route4}", "contains": "{left.via4}"}
    six = {"command": "show ipv6 route {left.route6:ip}", "matches": "via {left.via6}$"}
    plan = plan_of(made(verify=[four, six]))
    (check,) = plan.all_checks
    (net, via), *_ = intents.ROUTER6.left.routes.items()
    assert check.command == f"box 'show ipv6 route {net.network_address}'"
    assert check.checker(f" via {via}\n") is None
    with expect_error("no-read-back", mentions="dut.options.verify"):
        plan_of(made(verify=[four]))


def test_putting_back_may_take_as_long_as_each_of_its_lines():
    """One line may take minutes, `commit` for example; so may the look before and the one after."""
    own = {**JUNOS["cli"], "line_deadline_s": 120}
    changes = {"compare": {"command": "show configuration"}, "restore": ["a", "b", "c"] * 3}
    *_, configured, _ = plan_of(made(JUNOS, cli=own, **changes)).steps
    assert len(configured.undo_text.splitlines()) == 9
    assert undo_deadline_s([configured]) > (9 + 2) * 120


def test_a_pattern_that_begins_as_an_option_does_is_none():
    compare = {"command": "show run", "but": ["-- saved", "--digest"]}
    *_, configured, _ = plan_of(made(compare=compare)).steps
    assert configured.before == "box --digest '--but=-- saved' --but=--digest 'show run'"


def test_the_devices_own_timer_is_stopped_last_and_cancelled_only_before():
    plan = plan_of(made())
    *_, arm, configure, keep = plan.steps
    assert arm.text.startswith("configure terminal revert timer 5")
    assert arm.undo == "grep -qx 4 progress || box"
    assert configure.check is not None
    assert keep.text == "configure confirm\n"
    assert len(plan_of(made(JUNOS)).steps) == 3


def test_somebody_else_at_work_is_told():
    driver = made(busy={"command": "show users", "pattern": "vty 1.*"})
    facts = driver.example(intents.ROUTER6)
    driver.plan(intents.ROUTER6, replace(facts, sections={"busy": "vty 0 root"}))
    with expect_error("device-busy"):
        driver.plan(intents.ROUTER6, replace(facts, sections={"busy": "vty 1 eve"}))
    asked = subprocess.run(
        ["sh", "-c", f"box() {{ return 1; }}; {driver.survey()['busy']}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    with expect_error("device-busy"):
        driver.plan(intents.ROUTER6, replace(facts, sections={"busy": asked.stdout}))


def test_the_way_to_the_device_is_not_taken():
    driver = made()
    facts = driver.facts(
        {"version": "Version 1.2", "ends": "server 2001:db8::9\nclient 2001:2::5\n"}
    )
    assert facts.version == "1.2"
    with expect_error("operator-path-in-use", mentions="2001:2::5"):
        driver.plan(intents.ROUTER6, facts)
    driver.plan(intents.ROUTER6, driver.facts({"version": "Version 1.2", "ends": ""}))


def test_a_version_that_is_not_said_is_an_error():
    with expect_error("unexpected-answer", mentions="hello"):
        made().facts({"version": "hello"})
    assert made(version_command="").facts({"version": ""}).version == ""


def test_each_device_has_a_directory_of_its_own_here():
    one, other = made(), made(ssh={"host": "192.0.2.9", "port": 2222, "user": "me"})
    assert one.options.state_dir != other.options.state_dir
    assert one.options.state_dir.endswith("/192.0.2.9")
    assert made(state_dir="/run/mine").options.state_dir == "/run/mine"


def test_what_box_is_holds_no_password(monkeypatch):
    monkeypatch.setenv("V6T_DUT_PASSWORD", "s3cret")
    monkeypatch.setenv("V6T_DUT_ENABLE_PASSWORD", "s3cret2")
    driver = made(ssh={"host": "192.0.2.9", "ask_password": True})
    assert "s3cret" not in driver.prelude + str(driver.options)
    subprocess.run(["sh", "-n"], input=driver.prelude, text=True, check=True)


def test_a_lab_without_such_a_device_is_refused():
    driver = make_driver("network-cli", IOS)
    with expect_error("missing-setting"):
        driver.lab_device(None, intents.ROUTER6)


@pytest.mark.skipif(sshserver.lacking() is not None, reason=f"needs {sshserver.lacking()}")
def test_one_that_does_not_stand_in_the_lab_is_not_made():
    device = made(ssh={"lab": "v6t-test-no-such-lab"}).lab_device(None, intents.ROUTER6)
    for begun in (device.look, device.namespace):
        with expect_error("missing-device"):
            begun()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs Debian package openssh-client")
def test_where_the_connection_comes_from_is_known_without_one():
    at = {"ssh": {"host": "127.0.0.1", "config": ""}, "cli": {}}
    assert ends(json.dumps(at)) == "server 127.0.0.1\nclient 127.0.0.1\n"
    at["ssh"]["jump"] = "me@bastion.example.net"
    assert ends(json.dumps(at)) == "server 127.0.0.1\n"
    assert ends(json.dumps({"ssh": {"lab": "x"}, "cli": {}})) == ""


# ---------------------------------------------------------------- platforms of scrapli

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


def test_a_platforms_habits_hold_where_nothing_else_is_said(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(DEFINITION)
    manners = made({**IOS, "cli": {"abort": ["end"]}}, platform=str(path)).manners
    assert (manners.enable, manners.open, manners.abort) == ("enable", ("term len 0",), ("end",))
    assert manners.is_prompt("R1#", "R1")
    assert manners.refusal("% invalid input (sic) here")
    assert made({**IOS, "cli": {"open": ["x"]}}, platform=str(path)).manners.open == ("x",)


def test_platforms_by_name_are_those_that_are_installed(tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda name: None)
        with expect_error("unknown-platform") as info:
            definition("no_such")
    assert "network-cli" in info.value.hint
    place = tmp_path / "scrapli" / "definitions"
    place.mkdir(parents=True)
    (tmp_path / "scrapli" / "__init__.py").write_text("raise RuntimeError('not imported')\n")
    (place / "fake_os.yaml").write_text(DEFINITION)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert manners_in(definition("fake_os"))["open"] == ["term len 0"]
    with expect_error("unknown-platform", mentions="no_such") as unknown:
        definition("no_such")
    assert "fake_os" in unknown.value.hint


def test_every_platform_of_scrapli_is_understood():
    """Where it is installed."""
    scrapli = importlib.util.find_spec("scrapli")
    if scrapli is None:
        pytest.skip("needs scrapli: pip install 'v6t[network-cli]'")
    (place,) = scrapli.submodule_search_locations
    platforms = [path.stem for path in (Path(place) / "definitions").glob("*.yaml")]
    assert len(platforms) > 40
    for platform in platforms:
        manners = made({**IOS, "cli": {}}, platform=platform).manners
        assert manners.prompt
    ios = made({**IOS, "cli": {}}, platform="cisco_iosxe").manners
    assert ios.enable == "enable"
    assert "term len 0" in ios.open
    assert ios.is_prompt("R1(config-if)#", "R1")
    assert ios.refusal("% Invalid input detected at '^' marker.")


def test_a_definition_with_a_pattern_that_is_none(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("prompt_pattern: '('")
    with expect_error("wrong-form", path=["prompt"]):
        plan_of(made({**IOS, "cli": {}}, platform=str(path)))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "unknown-platform"),
        ("x: [", "file-unreadable"),
        ("prompt_pattern: 5", "unknown-platform"),
    ],
)
def test_a_file_that_is_no_definition(text, code, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with expect_error(code, mentions="mine.yaml"):
        definition(str(path))


# ---------------------------------------------------------------- a dialogue with a program

ECHO = r"""
import sys
print("login banner\n####", flush=True)
sys.stdout.write("R1>"); sys.stdout.flush()
for line in sys.stdin:
    word = line.strip()
    if word != "silent": sys.stdout.write(word + "\n")
    if word == "silent": sys.stdout.write("no such line: silent\n")
    if word == "enable":
        sys.stdout.write("Password: "); sys.stdout.flush()
        sys.stdout.write("\nit was " + sys.stdin.readline())
    if word == "bad": sys.stdout.write("  ^\n% Invalid input detected\n")
    if word == "sure": sys.stdout.write("Proceed? [confirm]"); sys.stdout.flush(); sys.stdin.readline(); print()
    if word == "deeper": sys.stdout.write("R1(config)#"); sys.stdout.flush(); continue
    if word == "bye": break
    if word == "twice": sys.stdout.write("Password: "); sys.stdout.flush(); sys.stdin.readline(); sys.stdout.write("\nPassword: "); sys.stdout.flush(); sys.stdin.readline()
    if word == "stuck": sys.stdout.write("thinking"); sys.stdout.flush(); sys.stdin.read()
    sys.stdout.write("R1#"); sys.stdout.flush()
"""


@pytest.fixture
def speaking(monkeypatch):
    monkeypatch.setenv("V6T_DUT_ENABLE_PASSWORD", "s3cret")
    begun = []

    def start(**manners):
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", ECHO],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        dialogue = Dialogue("R1", process, Manners.model_validate(manners))
        begun.append(dialogue)
        dialogue.begin()
        return dialogue

    yield start
    for dialogue in begun:
        dialogue.close()


def test_lines_are_typed_and_answers_read(speaking):
    said = speaking(enable="enable", answers={r"\[confirm\]$": ""}).reply(["sure", "x"])
    assert (said.status, said.err) == (0, "")
    assert "Proceed? [confirm]" in said.out


def test_the_first_refusal_is_the_end(speaking):
    dialogue = speaking(enable="enable")
    said = dialogue.reply(["x", "bad", "y"])
    assert said.status == 1
    assert "% Invalid input detected" in said.err
    assert dialogue.reply(["x"]).status == 0


def test_a_prompt_that_never_comes(speaking):
    dialogue = speaking(enable="enable", line_deadline_s=1)
    said = dialogue.reply(["stuck"])
    assert said.status == 3
    assert "'stuck thinking'" in said.err
    assert not dialogue.alive


def test_lines_that_end_elsewhere_are_an_error(speaking):
    dialogue = speaking(enable="enable", abort=["back"])
    said = dialogue.reply(["deeper"])
    assert said.status == 1
    assert "'R1(config)#'" in said.err
    assert dialogue.alive
    assert not speaking(enable="enable", abort=["deeper"]).reply(["deeper"]).out


def test_an_abort_without_an_end_is_the_end(speaking):
    dialogue = speaking(enable="enable", abort=["stuck"], line_deadline_s=1)
    said = dialogue.reply(["bad"])
    assert "the device rejected 'bad'" in said.err
    assert (said.status, dialogue.alive) == (3, False)


def test_a_refusal_that_ends_with_the_line_is_one(speaking):
    dialogue = speaking(enable="enable", errors=["^no such line:"])
    dialogue._screen.clear()
    assert without_echo(["no such line: frob"], "frob") == []
    said = dialogue.reply(["silent"])
    assert said.status == 1
    assert "'silent'" in said.err


def test_a_password_is_tried_once(speaking):
    with expect_error("login-refused", mentions="twice"):
        speaking(open=["twice"])


def test_the_password_of_the_login_is_not_enables(speaking, monkeypatch):
    monkeypatch.delenv("V6T_DUT_ENABLE_PASSWORD")
    monkeypatch.setenv("V6T_DUT_PASSWORD", "s3cret")
    with expect_error("console-prompt", mentions="enable"):
        speaking(enable="enable")


def standing_at(dialogue, text):
    """More has come than the first prompt."""
    dialogue._screen.clear()
    dialogue._screen.feed(text.encode())


def test_a_login_at_which_nothing_is_typed_is_kept_by_an_empty_line(speaking, tmp_path):
    dialogue = speaking(enable="enable")
    typed = []
    send = dialogue._send
    dialogue._send = lambda text: (typed.append(text), send(text))
    broker = Broker(dialogue, tmp_path / "s", idle_s=0.05)
    try:
        until(lambda: len(typed) > 2, "three empty lines")
        with broker._turn:
            assert set(typed) == {"\n"}
            assert dialogue.reply(["x"]).status == 0  # each answer belongs to its line
            standing_at(dialogue, "R1(config)#")
            typed.clear()
            dialogue.stay()
            standing_at(dialogue, "Erase all of it? [confirm]")
            dialogue.stay()
            assert typed == []
    finally:
        broker.close()
    assert dialogue.alive


def test_a_login_whose_prompt_does_not_come_again_is_none(speaking):
    """Nobody knows what it would take for an answer; without a request nothing else is typed."""
    dialogue = speaking(enable="enable", line_deadline_s=1, abort=["reload"])
    typed = []
    dialogue._send = typed.append
    dialogue.stay()
    assert not dialogue.alive
    assert typed == ["\n"]


def test_a_place_too_long_for_a_socket_is_said(speaking, tmp_path):
    with expect_error("socket-failed") as raised:
        Broker(speaking(enable="enable"), tmp_path / ("x" * 120))
    assert "TMPDIR" in raised.value.hint


def test_a_connection_that_breaks(speaking):
    said = speaking(enable="enable").reply(["bye"])
    assert said.status == 3
    assert "'bye'" in said.err


def test_a_password_that_a_device_repeats_is_not_shown(speaking):
    dialogue = speaking(open=["enable"])
    assert dialogue.reply(["x"]).status == 0
    assert dialogue._hidden("it was s3cret") == f"it was {HIDDEN}"


def test_no_line_smuggles_a_key(speaking):
    dialogue = speaking(enable="enable")
    said = dialogue.reply(["x\nreload"])
    assert said.status == 1


# ---------------------------------------------------------------- the program box


def test_box_asks_whoever_has_the_device(speaking, tmp_path, monkeypatch, capsys):
    broker = Broker(speaking(enable="enable"), tmp_path / "s")
    monkeypatch.setenv(program.SOCKET, str(tmp_path / "s"))
    try:
        assert program.main(["sure?"]) == 0
        assert program.main(["bad"]) == 1
        assert "the device rejected 'bad'" in capsys.readouterr().err
        assert program.main(["--digest", "--but=-never", "x"]) == 0
        one = capsys.readouterr().out
        assert program.main(["--digest", "x"]) == 0
        assert capsys.readouterr().out == one
        assert len(one.strip()) == 32
        monkeypatch.setattr("sys.stdin", io.StringIO("bad\n"))
        assert program.main(["--back-to", one.strip(), "x"]) == 0  # nothing need be typed
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert program.main(["--back-to", "another", "x"]) == 1
        assert "'x'" in capsys.readouterr().err
    finally:
        broker.close()


def test_box_tells_nothing_to_a_socket_of_another_users(tmp_path, monkeypatch):
    import socket

    with socket.socket(socket.AF_UNIX) as others:
        others.bind(str(tmp_path / "s"))
        others.listen()
        monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
        assert program._by_session(str(tmp_path / "s"), ["x"]) is None
        others.setblocking(False)
        with pytest.raises(BlockingIOError):
            others.accept()


def test_box_goes_its_own_way_where_nobody_listens(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(program.SOCKET, str(tmp_path / "nobody"))
    at = {"ssh": {"lab": "v6t-test-no-such-lab"}, "cli": {}}
    if package := sshserver.lacking():
        pytest.skip(f"needs {package}")
    assert program.main(["--at", json.dumps(at), "x"]) == 3
    assert "does not stand" in capsys.readouterr().err
