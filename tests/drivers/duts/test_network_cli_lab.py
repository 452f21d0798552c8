"""The network-cli driver with a fake router over SSH: configuration, rollback, faults and a run."""

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
from .cli_dialects import DIALECTS, FakeRouterServer
from .remote_site import wait_until
from .support import SHORT_RUN, in_lab, over_ssh, run_shell, run_v6t, write_testbed

pytestmark = [*in_lab, *over_ssh, pytest.mark.slow]


@pytest.fixture(scope="module", params=list(DIALECTS))
def server(request):
    server = FakeRouterServer(request.param)
    server.connect_sides(intents.LINKS)
    yield server
    server.stop()


@pytest.fixture
def device(server):
    """Provide the router of the module without configuration; reset it at the end."""
    server.write_file("typed", "")
    assert server.configuration == []
    yield server
    for name in ("cut", "enable", "minute"):
        server.write_file(name, "")
    server.shell("rm -f /run/fakerouter/running /run/fakerouter/timer; "
                 "ip -6 route flush proto boot; ip -6 addr flush scope global")  # fmt: skip


only_ios = pytest.mark.parametrize("server", ["ios"], indirect=True)


def make_options(server, directory, changes):
    login = {"lab": server.name}
    state = str(directory / "state")
    return {**DIALECTS[server.dialect], "ssh": login, "state_dir": state, **changes}


@contextmanager
def open_session(server, directory, **changes):
    driver = NetworkCliDriver(make_options(server, directory, changes))
    with closing(CliSession(driver, server.login(), intents.ROUTER6, directory / "run")) as session:
        session.open()
        yield session


def write_router_testbed(server, directory, **changes):
    options = make_options(server, directory, changes)
    return write_testbed(directory / "testbed.yaml", "network-cli", **options)


def test_device_is_committed_verified_flushed_watched_and_rolled_back(device, tmp_path):
    with open_session(device, tmp_path) as session:
        session.commit()
        assert len(device.configuration) >= 7
        assert len(session.verify()) >= 2
        assert session.describe()["version"] in ("1.2(3)F4", "99.9F1.2")
        figures = session.read_counters()
        assert figures["cpu"] == {"cpu0.idle_percent": 65.0, "cpu1.idle_percent": 95.0}
        assert figures["table"] == {"used": 1200.0, "limit": 4000.0}
        assert figures["drops"] == {"no_route": 7.0}
        assert session.read_sample().figures == figures
        if device.dialect == "ios":
            assert session.count_sessions() == 5
            session.flush()
            assert session.count_sessions() == 0
        assert session.read_status()["driver"] == "network-cli"
        session.check_configured()
        assert_undone(session)
        assert device.configuration == []
        assert session.rollback()[0].startswith("there is nothing")
    assert "2001:" not in device.shell("ip -6 route show proto boot")
    assert not list((tmp_path / "run").glob("*"))
    assert "v6t-before" not in device.shell("ls /run/fakerouter")


def assert_undone(session):
    assert any("undone" in line for line in session.rollback())


@only_ios
def test_no_line_is_sent_without_lock(device, tmp_path):
    """The rollback timer may take the lock while v6t is suspended between two lines."""
    with open_session(device, tmp_path) as session:
        send_line = session.transport._send_line

        def lose_lock(line):
            (tmp_path / "state/lock").unlink(missing_ok=True)
            return send_line(line)

        session.transport._send_line = lose_lock
        count = len(device.received_lines)
        with expect_error("device-busy"):
            session.run_tracked("configure terminal\nipv6 unicast-routing\nend", "", 5)
        assert "ipv6 unicast-routing" not in device.received_lines[count:]


@only_ios
def test_rollback_timer_uses_password_from_environment(device, tmp_path, monkeypatch):
    monkeypatch.setenv("V6T_DUT_ENABLE_PASSWORD", "s3cret-enable")
    device.write_file("enable", "s3cret-enable")
    with open_session(device, tmp_path, undo_after_s=2) as session:
        session.commit()
        assert device.configuration
    wait_until((tmp_path / "state/guard/fired").exists, "the timer")
    wait_until(lambda: not (tmp_path / "state" / "lock").is_symlink(), "the end of the timer")
    assert device.configuration == []
    with open_session(device, tmp_path, undo_after_s=2) as session:
        assert "undid everything" in session.read_status()["timer"]
        assert_undone(session)


@only_ios
@pytest.mark.parametrize("by_script", [True, False])
def test_confirmed_configuration_is_rolled_back_later(device, tmp_path, by_script):
    with open_session(device, tmp_path) as session:
        session.commit()
        session.confirm()
    assert device.configuration
    if by_script:
        run_shell(f"sh {tmp_path}/state/undo.sh")
        assert device.configuration == []
    with open_session(device, tmp_path) as session:
        assert_undone(session)
    assert device.configuration == []


def test_rejected_line_rolls_configuration_back(device, tmp_path):
    lines = list(make_driver("network-cli", DIALECTS[device.dialect]).options.configure)
    lines.insert(-2, "frobnicate {left}")
    with open_session(device, tmp_path, configure=lines) as session:
        with expect_error("command-failed"):
            session.commit()
        assert device.configuration == []
        received = device.received_lines
        after = received[received.index("frobnicate left") + 1 :]
        assert not any(line.startswith(("ipv6 route", "commit confirmed")) for line in after)
        assert session.rollback()[0].startswith("there is nothing")


@only_ios
@pytest.mark.parametrize("line", ["ipv6 route", "configure confirm"])
def test_lost_connection_is_reopened_for_rollback(device, tmp_path, line):
    device.write_file("cut", line)
    with open_session(device, tmp_path) as session, expect_error("connection-lost"):
        session.commit()
    assert device.configuration == []


@only_ios
@pytest.mark.parametrize("timer_expires", [True, False])
def test_unreachable_device_is_rolled_back_by_timer_or_later(device, tmp_path, timer_expires):
    device.write_file("minute", "1" if timer_expires else "")
    device.write_file("cut", "ipv6 route")
    with open_session(device, tmp_path, undo_after_s=0) as session:
        device.stop_listening()
        with expect_error("unreachable", hint="v6t dut rollback") as info:
            session.commit()
    device.listen()
    assert f"sh {tmp_path}/state/undo.sh" in info.value.hint
    assert (tmp_path / "state" / "record.json").exists()
    if timer_expires:
        wait_until(lambda: device.configuration == [], "the rollback by the device's timer")
    assert bool(device.configuration) is not timer_expires
    with open_session(device, tmp_path, undo_after_s=0) as session:
        device.write_file("typed", "")
        assert_undone(session)
    is_replaced = "configure replace flash:v6t-before force" in device.received_lines
    assert is_replaced is not timer_expires
    assert device.configuration == []


@pytest.fixture
def router():
    """Provide a fake router that v6t stops after its last command."""
    router = FakeRouterServer("ios", "single-use")
    yield router
    router.stop()


def test_secrets_are_hidden_in_logs_records_and_output(router, tmp_path, monkeypatch):
    logins = {"V6T_DUT_ENABLE_PASSWORD": "s3cret-enable", "V6T_DUT_PASSWORD": "s3cret-login"}
    values = {"ROUTER_ANSWER": "s3cret-answer", "ROUTER_USER": "s3cret-line"}
    for name, value in (logins | values).items():
        monkeypatch.setenv(name, value)
    ios = DIALECTS["ios"]
    answers = {**ios["cli"]["answers"], "[Ss]ecret: $": "{env:ROUTER_ANSWER}"}
    cli, valid = {**ios["cli"], "answers": answers}, ios["configure"]
    refused = valid.replace("end\n", "username admin password {env:ROUTER_USER}\nend\n")
    printed = ""
    (tmp_path / "run").mkdir()
    router.connect_sides(intents.LINKS)
    router.write_file("enable", "s3cret-enable")
    path = write_router_testbed(router, tmp_path, configure="hostname {env:V6T_NOT_SET}\n")
    result = v6t("dut", "commit", "--plugin", "ipv6-router", "--testbed", path)
    assert (result.status, "V6T_NOT_SET" in result.err) == (4, True)
    assert not any(line.startswith("hostname") for line in router.received_lines)
    actions = (("commit", refused, 4), ("commit", valid, 0), ("rollback", valid, 0))
    for command, configure, status in actions:
        path = write_router_testbed(router, tmp_path, cli=cli, configure=configure)
        with open_log(tmp_path / "run"):
            result = v6t("dut", command, "--plugin", "ipv6-router", "--testbed", path, "-vv")
        assert result.status == status, result.err
        printed += result.out + result.err
        # logs, undo record and testbed file
        files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        assert b"s3cret" not in b"".join(files)
        if configure is refused:
            assert "username admin password s3cret-line" in router.received_lines
    assert "s3cret" not in printed
    assert f"\n$ username admin password {HIDDEN}\n" in printed


QUICK = ("--plugin", "ipv6-router", "--mode", "forward", "--frame-size", "84", *SHORT_RUN)


def test_run_measures_device_with_command_line(router, tmp_path):
    path, out = write_router_testbed(router, tmp_path), tmp_path / "out"
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
