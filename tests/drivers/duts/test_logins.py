"""The SSH transport with a real sshd: logins, deadlines, lost connections and unusual output."""

import os
import shlex
import shutil
import subprocess
import threading
from contextlib import closing
from functools import partial
from unittest.mock import Mock

import pytest
from v6t.base.errors import V6tError
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.transport import contract
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, DeviceTakenOver, Output
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.expect import expect_error

from . import sshserver
from .remote_site import wait_until
from .support import DUMMY, in_network_of, over_ssh, run_shell

pytestmark = over_ssh

SECRET = "correct horse"  # noqa: S105


def open_on_loopback(server, **options):
    """Log in over TCP from the device's network namespace."""
    transport = SshTransport(SshOptions(**options))
    with in_network_of(server.pid), closing(transport):
        try:
            transport.open()
            return transport.run("echo in; echo $SSH_CONNECTION").out
        except V6tError as exc:
            return f"{type(exc).__name__}: {exc.message} | {exc.hint}"


CLIENT = "Host relay\n  HostName localhost\n  ProxyJump 127.0.0.1\nHost *\n  User root\n  IdentityFile {key}\n  UserKnownHostsFile {known}\n"


def test_login_uses_ssh_configuration_file(server, tmp_path):
    config, place = tmp_path / "config", server.directory
    config.write_text(CLIENT.format(key=place / "id", known=place / "known_hosts"))
    assert open_on_loopback(server, host="relay", config=str(config)).startswith("in\n")


needs_sudo = pytest.mark.skipif(shutil.which("sudo") is None, reason="needs Debian package sudo")


@pytest.mark.parametrize(("options", "answer"), [
    ({}, "in\n127.0.0.1 "),
    ({"host": "localhost", "jump": "root@127.0.0.1"}, "in\n"),
    ({"jump": "nobody@localhost"}, "through nobody@localhost"),
    pytest.param({"become": "sudo -n"}, "in\n127.0.0.1 ", marks=needs_sudo),  # as root, with its connection's ends
])  # fmt: skip
def test_login_uses_testbed_options(options, answer, server):
    assert answer in open_on_loopback(server, **server.make_login_options(**options))


def test_host_key_of_jump_host_is_checked(server, tmp_path):
    known = tmp_path / "known"
    line = (server.directory / "known_hosts").read_text().splitlines()[0]
    assert line.startswith("localhost ")
    known.write_text(line + "\n")
    options = {"host": "localhost", "jump": "root@127.0.0.1", "known_hosts": str(known)}
    text = open_on_loopback(server, **server.make_login_options(**options))
    assert text.startswith("DutError: ssh root@localhost, through root@127.0.0.1: ")


def test_login_with_agent_key(server, monkeypatch, tmp_path):
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs Debian package openssh-client")
    monkeypatch.setenv("HOME", str(tmp_path))
    socket = tmp_path / "agent"
    command = ["ssh-agent", "-D", "-a", str(socket)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(socket.exists, "the agent")
            monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
            options = server.make_login_options(identity=[])
            assert "login was refused" in open_on_loopback(server, **options)
            run_shell(f"ssh-add -q {server.directory}/id")
            assert open_on_loopback(server, **options).startswith("in\n")
        finally:
            agent.terminate()


@pytest.fixture(scope="module")
def passwords(server):
    """Start a second sshd on port 2022 that accepts root's password, which is set there only."""
    result = run_shell(f"openssl passwd -6 '{SECRET}'", check=False)
    if result.returncode:
        pytest.skip("needs Debian package openssl")
    server.shell("cat >/run/shadow", f"root:{result.stdout.strip()}:19000:0:99999:7:::\n")
    server.shell("chmod 600 /run/shadow; mount --bind /run/shadow /etc/shadow")
    options = "-o PidFile=none -o AuthorizedKeysFile=none -o PasswordAuthentication=yes -o PermitRootLogin=yes"
    server.shell(f"/usr/sbin/sshd -f /run/v6t-lab/sshd_config -p 2022 {options} -E /run/sshd2.log")
    return server


@pytest.fixture
def password_login(passwords, login, monkeypatch, tmp_path):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return partial(login, identity=(), inner_port=2022)


def test_password_is_read_from_environment_or_requested_once(password_login, monkeypatch):
    with monkeypatch.context() as environment:
        environment.setenv("V6T_DUT_PASSWORD", SECRET)
        assert password_login().run("echo in").out == "in\n"
    getpass = Mock(return_value=SECRET)
    monkeypatch.setattr("getpass.getpass", getpass)
    transport = password_login(ask_password=True)
    transport.open()
    assert transport.run("echo in").out == "in\n"
    getpass.assert_called_once_with(f"password for {transport.name}: ")
    assert transport.name.startswith("ssh root@test-logins")
    monkeypatch.setattr("getpass.getpass", Mock(side_effect=EOFError))
    with expect_error("login-refused"):
        password_login(ask_password=True)


@pytest.mark.parametrize("password", ["hunter2", ""])
def test_wrong_or_missing_password_is_refused(password_login, monkeypatch, password):
    monkeypatch.setenv("V6T_DUT_PASSWORD", password)
    with expect_error("login-refused") as info:
        password_login()
    assert "hunter2" not in info.value.message + info.value.hint


@pytest.mark.parametrize("wrong", [
    {"host": "dut;reboot"}, {"host": "-oProxyCommand=x"}, {"host": "dut", "user": "a b"},
    {"host": "dut", "user": "$(id)"}, {"host": "dut", "jump": "a@b@c"},
    {"host": "dut", "jump": "x y"}, {"host": "dut", "port": 70000},
    {"host": "dut", "become": "sudo sh -c"}, {"lab": "a", "jump": "b"},
])  # fmt: skip
def test_invalid_ssh_options_are_rejected(wrong):
    with pytest.raises(ValueError, match="Value error|pattern|Input"):
        SshOptions(**wrong)


def test_short_form_of_ssh_option_is_parsed():
    options = make_driver("tayga", {"ssh": "root@2001:db8::1"}).options
    assert options.ssh == SshOptions(host="2001:db8::1", user="root")


def test_several_jump_hosts_are_left_to_ssh():
    options = SshOptions(host="dut", jump="alice@first:2222,[2001:db8::1]:22", config="")
    assert options.hops == {"alice@first:2222": "first", "[2001:db8::1]:22": "2001:db8::1"}
    client = SshClient(options)
    text = (client.directory / "config").read_text()
    assert f"Host dut\n  ProxyJump {options.jump}\n" in text


def test_user_configuration_cannot_weaken_security_options(tmp_path):
    weak_options = ("StrictHostKeyChecking no\nForwardAgent yes\nPermitLocalCommand yes\n"
                    "ControlMaster auto\nControlPath /tmp/other-%C\nRemoteCommand tmux\n"
                    "NoHostAuthenticationForLocalhost yes\nGSSAPIDelegateCredentials yes\n")  # fmt: skip
    (tmp_path / "config").write_text(weak_options)
    client = SshClient(SshOptions(host="dut", config=str(tmp_path / "config")))
    result = run_shell(shlex.join([*client.make_command_prefix("-G"), "dut"]))
    options = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
    assert options["stricthostkeychecking"] in ("true", "yes")
    for name in ("forwardagent", "permitlocalcommand", "gssapidelegatecredentials"):
        assert options.get(name, "no") == "no", name
    assert options["controlmaster"] in ("false", "no")
    assert options["nohostauthenticationforlocalhost"] == "no"
    assert "controlpath" not in options and "remotecommand" not in options
    client.remove()
    assert not client.directory.exists()


def test_password_is_hidden_from_configured_programs(monkeypatch, tmp_path):
    """A ProxyCommand inherits the environment and may request a password, too."""
    monkeypatch.setenv("V6T_DUT_PASSWORD", SECRET)
    program = tmp_path / "program"
    program.write_text(f"""#!/bin/sh
{{ "$SSH_ASKPASS" "root@gateway's password: "; env; }} >{tmp_path}/output 2>&1
exit 1
""")
    program.chmod(0o700)
    (tmp_path / "config").write_text(f"Host dut\n  ProxyCommand {program}\n")
    transport = SshTransport(SshOptions(host="dut", config=str(tmp_path / "config")))
    with expect_error("unreachable"):
        transport.open()
    environment = (tmp_path / "output").read_text()
    assert "SSH_ASKPASS" in environment
    assert SECRET not in environment


MEGABYTE = "0123456789abcdef" * 65536


@pytest.mark.parametrize(("command", "text", "result"), [
    ("cat", MEGABYTE, Output(0, MEGABYTE, "")),
    ("printf '%s' 'x\"y$z'; cat", "a'b\"c$HOME\\d\n", Output(0, 'x"y$za\'b"c$HOME\\d\n', "")),
    ("command -v ip >/dev/null && echo $LC_ALL", "", Output(0, "C\n", "")),  # ip is in /sbin
    ("cat; echo err >&2; exit 3", "in\n", Output(3, "in\n", "err\n")),
    ("printf 'a\\377b'", "", Output(0, "a\\xffb", "", clean=False)),
    # control sequences that rename a terminal's window and clear it
    ("printf '\\033]0;x\\007\\033[2J\\302\\2332J' >&2", "", Output(0, "", "\\x1b]0;x\\x07\\x1b[2J\\x9b2J")),
], ids=["a megabyte", "quotes", "environment", "status", "no UTF-8", "control characters"])  # fmt: skip
def test_command_has_its_input_outputs_and_status(login, command, text, result):
    assert login().run(command, text) == result


def test_commands_run_in_network_namespace_of_machine(server, login):
    with expect_error("lab-failed", hint="ip netns add inner"):
        login(netns="inner")
    server.shell("ip netns add inner; ip -n inner link add only-here type veth")
    server.shell("echo kept >/run/seen")
    transport = login(netns="inner")
    assert transport.name.endswith(" netns inner")
    result = transport.run("ip -o link show only-here >&2; cat; cat /run/seen; exit 3", "it's in\n")
    assert (result.status, result.out) == (3, "it's in\nkept\n")
    assert "only-here" in result.err
    assert "only-here" not in login().run("ip -o link").out


def test_undo_script_finds_the_network_namespace_of_its_session(server, make_session):
    server.shell("ip netns add behind")
    ssh = {"host": "device", "netns": "behind"}
    session = make_session({"steps": [DUMMY], "ssh": ssh}, netns="behind")
    session.open()
    session.commit()
    assert "v6tdummy" in server.shell("ip -o -n behind link")
    server.shell("sh /run/v6t/undo.sh")
    assert "v6tdummy" not in server.shell("ip -o -n behind link")
    assert session.rollback() == ["an interface: undone"]


def test_slow_killed_and_endless_commands_are_errors(login):
    transport = login()
    with expect_error("timeout", mentions="0.3", kind=DeadlinePassed):
        transport.run("sleep 60", deadline_s=0.3)
    assert transport.run("echo still here").out == "still here\n"
    assert transport.run("kill -9 $$").status != 0
    with expect_error("too-much-output"):
        transport.run("yes", deadline_s=60)


def test_connection_lost_during_command_is_an_error(server, login):
    transport = login()
    threading.Timer(0.5, server.kill_sessions).start()
    with expect_error("connection-lost", kind=ConnectionLost):
        transport.run("echo partial; sleep 60")


@pytest.mark.parametrize(("make_options", "code"), [
    (lambda file: {"known_hosts": file("empty")}, "host-key-mismatch"),
    (lambda file: {"known_hosts": file("changed")}, "host-key-mismatch"),
    (lambda file: {"known_hosts": "", "config": file("config")}, "host-key-mismatch"),
    (lambda file: {"identity": (file("id"),)}, "login-refused"),
    (lambda file: {"identity": (file("none"),)}, "file-not-found"),
    (lambda file: {"inner_port": 2222}, "unreachable"),
])  # fmt: skip
def test_failed_login_has_error_code(make_options, code, login, tmp_path):
    (tmp_path / "empty").write_text("")
    config = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n"
    (tmp_path / "config").write_text(config)
    run_shell(f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/id")
    (tmp_path / "changed").write_text(f"localhost {(tmp_path / 'id.pub').read_text()}")
    with expect_error(code) as info:
        login(**make_options(lambda name: str(tmp_path / name)))
    assert ("ssh-keygen -R" in info.value.hint) is (code == "host-key-mismatch")


def test_login_to_silent_server_times_out(server, login):
    held = server.console.hold("exec python3 -c \"import socket, sys; s = socket.create_server("
                              "('127.0.0.1', 2223)); print('up', flush=True); sys.stdin.read()\"")  # fmt: skip
    try:
        assert held.read_line(10) == "up"
        with expect_error("timeout", mentions="0.5"):
            login(inner_port=2223, connect_deadline_s=0.5)
    finally:
        held.release()


def test_close_is_idempotent():
    transport = SshTransport(SshOptions(host="nowhere.invalid", config=""))
    transport.close()
    transport.close()
    with expect_error("connection-lost", kind=ConnectionLost):
        transport.run("true")


def test_refused_command_is_recognized_among_other_messages():
    """Successful commands may print the same line, and sudo may print other lines."""
    stderr = b"sudo: unable to resolve host device\nv6t: this was not run\n"
    with expect_error("device-busy", kind=DeviceTakenOver):
        Output.decode("device", 1, b"", stderr)
    assert Output.decode("device", 0, b"", stderr).status == 0
    result = run_shell(contract.make_shell_line("echo ran", condition="false"), check=False)
    assert result.stdout == ""
    with pytest.raises(DeviceTakenOver):
        Output.decode("device", result.returncode, b"", result.stderr.encode())


def test_sshd_starts_where_new_directories_are_writable_by_the_group():
    before = os.umask(0o002)
    try:
        sshserver.Server("umask").stop()
    finally:
        os.umask(before)
