"""Command lines behind a real sshd: configuration, measurement and rollback, with faults."""

import json
import re
from contextlib import closing, contextmanager

import pytest
from v6t.core.runs.events import open_log
from v6t.drivers.duts.kinds.network_cli.driver import NetworkCliDriver
from v6t.drivers.duts.kinds.network_cli.session import CliSession
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.transport.redaction import HIDDEN
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error

from . import intents
from .boxes import DIALECTS, BoxServer
from .field import wait_until
from .support import SHORT_RUN, in_lab, over_ssh, run_shell, run_v6t, write_testbed

pytestmark = [*in_lab, *over_ssh, pytest.mark.slow]
INTENT = intents.ROUTER6


@pytest.fixture(scope="module", params=list(DIALECTS))
def server(request):
    server = BoxServer(request.param)
    server.connect_sides(intents.LINKS)
    yield server
    server.stop()


@pytest.fixture
def box(server):
    server.forget()
    assert server.configuration == []
    yield server
    for name in ("cut", "enable", "minute"):
        server.put(name, "")
    server.shell("rm -f /run/fakebox/running /run/fakebox/timer; "
                 "ip -6 route flush proto boot; ip -6 addr flush scope global")  # fmt: skip


one_is_enough = pytest.mark.parametrize("server", ["ios"], indirect=True)


def make_box_options(server, directory, changes):
    login = {"lab": server.name}
    state = str(directory / "state")
    return {**DIALECTS[server.dialect], "ssh": login, "state_dir": state, **changes}


@contextmanager
def open_box_session(server, directory, **changes):
    driver = NetworkCliDriver(make_box_options(server, directory, changes))
    with closing(CliSession(driver, server.login(), INTENT, directory / "run")) as session:
        session.open()
        yield session


def write_box_testbed(server, directory, **changes):
    options = make_box_options(server, directory, changes)
    return write_testbed(directory / "testbed.yaml", "network-cli", **options)


def test_device_is_committed_verified_flushed_watched_and_rolled_back(box, tmp_path):
    with open_box_session(box, tmp_path) as session:
        session.commit()
        assert len(box.configuration) >= 7
        assert len(session.verify()) >= 2
        facts = session.describe()
        assert facts["version"] in ("1.2(3)F4", "99.9F1.2")
        figures = session.read_counters()
        assert figures["cpu"] == {"cpu0.idle_percent": 65.0, "cpu1.idle_percent": 95.0}
        assert figures["table"] == {"used": 1200.0, "limit": 4000.0}
        assert figures["drops"] == {"no_route": 7.0}
        assert session.read_sample().figures == figures
        if box.dialect == "ios":
            assert session.count_sessions() == 5
            session.flush()
            assert session.count_sessions() == 0
        assert session.read_status()["driver"] == "network-cli"
        session.check_configured()
        assert_undone(session)
        assert box.configuration == []
        assert session.rollback()[0].startswith("there is nothing")
    assert "2001:" not in box.shell("ip -6 route show proto boot")
    assert not list((tmp_path / "run").glob("*"))
    assert "v6t-before" not in box.shell("ls /run/fakebox")


def assert_undone(session):
    assert any("undone" in line for line in session.rollback())


@one_is_enough
def test_no_line_is_sent_without_lock(box, tmp_path):
    """The rollback timer may take the lock while this process is suspended between two lines."""
    with open_box_session(box, tmp_path) as session:
        send_line = session.transport._send_line

        def lose_lock(line):
            (tmp_path / "state/lock").unlink(missing_ok=True)
            return send_line(line)

        session.transport._send_line = lose_lock
        typed = len(box.typed)
        with expect_error("device-busy"):
            session.run_tracked("configure terminal\nipv6 unicast-routing\nend", "", 5)
        assert "ipv6 unicast-routing" not in box.typed[typed:]


@one_is_enough
def test_rollback_timer_uses_password_from_environment(box, tmp_path, monkeypatch):
    monkeypatch.setenv("V6T_DUT_ENABLE_PASSWORD", "s3cret-enable")
    box.put("enable", "s3cret-enable")
    with open_box_session(box, tmp_path, undo_after_s=2) as session:
        session.commit()
        assert box.configuration
    wait_until((tmp_path / "state/guard/fired").exists, "the timer")
    wait_until(lambda: not (tmp_path / "state" / "lock").is_symlink(), "the timer is done")
    assert box.configuration == []
    with open_box_session(box, tmp_path, undo_after_s=2) as session:
        assert "undid everything" in session.read_status()["timer"]
        assert_undone(session)


@one_is_enough
@pytest.mark.parametrize("by_script", [True, False])
def test_confirmed_configuration_is_rolled_back_later(box, tmp_path, by_script):
    with open_box_session(box, tmp_path) as session:
        session.commit()
        session.confirm()
    assert box.configuration
    if by_script:
        run_shell(f"sh {tmp_path}/state/undo.sh")
        assert box.configuration == []
    with open_box_session(box, tmp_path) as session:
        assert_undone(session)
    assert box.configuration == []


def test_rejected_line_rolls_configuration_back(box, tmp_path):
    lines = list(make_driver("network-cli", DIALECTS[box.dialect]).options.configure)
    lines.insert(-2, "frobnicate {left}")
    with open_box_session(box, tmp_path, configure=lines) as session:
        with expect_error("command-failed"):
            session.commit()
        assert box.configuration == []
        typed = box.typed
        after = typed[typed.index("frobnicate left") + 1 :]
        assert not any(line.startswith(("ipv6 route", "commit confirmed")) for line in after)
        assert session.rollback()[0].startswith("there is nothing")


@one_is_enough
@pytest.mark.parametrize("line", ["ipv6 route", "configure confirm"])
def test_lost_connection_is_reopened_for_rollback(box, tmp_path, line):
    box.put("cut", line)
    with open_box_session(box, tmp_path) as session, expect_error("connection-lost"):
        session.commit()
    assert box.configuration == []


@one_is_enough
@pytest.mark.parametrize("timer_expires", [True, False])
def test_unreachable_device_is_rolled_back_by_timer_or_later(box, tmp_path, timer_expires):
    box.put("minute", "1" if timer_expires else "")
    box.put("cut", "ipv6 route")
    with open_box_session(box, tmp_path, undo_after_s=0) as session:
        box.stop_listening()
        with expect_error("unreachable") as info:
            session.commit()
    box.listen()
    assert "v6t dut rollback" in info.value.hint
    assert f"sh {tmp_path}/state/undo.sh" in info.value.hint
    assert (tmp_path / "state" / "record.json").exists()
    if timer_expires:
        wait_until(lambda: box.configuration == [], "the device's own timer takes it back")
    assert bool(box.configuration) is not timer_expires
    with open_box_session(box, tmp_path, undo_after_s=0) as session:
        box.forget()
        assert_undone(session)
    assert ("configure replace flash:v6t-before force" in box.typed) is not timer_expires
    assert box.configuration == []


@pytest.fixture
def router():
    """Provide a fake router that v6t itself stops after its last command on it."""
    router = BoxServer("ios", "single-use")
    yield router
    router.stop()


def test_secrets_are_hidden_in_logs_records_and_output(router, tmp_path, monkeypatch):
    for name, value in (
        ("V6T_DUT_ENABLE_PASSWORD", "s3cret-enable"),
        ("V6T_DUT_PASSWORD", "s3cret-login"),
        ("BOX_ANSWER", "s3cret-answer"),
        ("BOX_USER", "s3cret-line"),
    ):
        monkeypatch.setenv(name, value)
    ios = DIALECTS["ios"]
    cli = {**ios["cli"], "answers": {**ios["cli"]["answers"], "[Ss]ecret: $": "{env:BOX_ANSWER}"}}
    refused = ios["configure"].replace("end\n", "username admin password {env:BOX_USER}\nend\n")
    printed = ""
    (tmp_path / "run").mkdir()
    router.connect_sides(intents.LINKS)
    router.put("enable", "s3cret-enable")
    path = write_box_testbed(router, tmp_path, configure="hostname {env:V6T_NOT_SET}\n")
    result = v6t("dut", "commit", "--plugin", "ipv6-router", "--testbed", path)
    assert (result.status, "V6T_NOT_SET" in result.err) == (4, True)
    assert not any(line.startswith("hostname") for line in router.typed)
    for command, configure, status in (
        ("commit", refused, 4),
        ("commit", ios["configure"], 0),
        ("rollback", ios["configure"], 0),
    ):
        path = write_box_testbed(router, tmp_path, cli=cli, configure=configure)
        with open_log(tmp_path / "run"):
            result = v6t("dut", command, "--plugin", "ipv6-router", "--testbed", path, "-vv")
        assert result.status == status, result.err
        printed += result.out + result.err
        # logs, undo record and testbed file
        files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        assert b"s3cret" not in b"".join(files)
        if configure is refused:
            assert "username admin password s3cret-line" in router.typed
    assert "s3cret" not in printed
    assert f"\n$ username admin password {HIDDEN}\n" in printed


QUICK = ("--plugin", "ipv6-router", "--mode", "forward", "--frame-size", "84", *SHORT_RUN)


def test_run_measures_device_with_command_line(router, tmp_path):
    path, out = write_box_testbed(router, tmp_path), tmp_path / "out"
    run_v6t("run", *QUICK, "--testbed", path, "-o", out)
    log = (out / "log.txt").read_text()
    assert re.search(r" ssh \S+: answered after \d+\.\d{3} s\n\$ show version\n\| ", log)
    record = json.loads((out / "results.json").read_text())["results"][0]
    assert record["benchmark"] == "throughput"
    assert record["median"] > 0
    assert record["matched"] == 1.0
    device = json.loads((out / "manifest.json").read_text())["tester"]["device"]
    assert device["kind"] == "network-cli"
    assert not (out / "dut-undo.json").exists()
    assert not list((tmp_path / "state").glob("*"))
    assert router.configuration == []
    assert router.find_pid(), "server is still running"
