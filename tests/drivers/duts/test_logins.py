"""Logins to a real sshd: configuration file, agent, password and jump host."""

import os
import shutil
import subprocess

import pytest
from v6t.base.errors import V6tError
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.expect import expect_error

from .field import wait_until
from .support import in_network_of, over_ssh

pytestmark = over_ssh

SECRET = "correct horse"  # noqa: S105
PASSWORDS = """\
Port 2022
ListenAddress 127.0.0.1
HostKey /run/v6t-lab/hostkey
PidFile /run/sshd-passwords.pid
AuthorizedKeysFile none
PasswordAuthentication yes
PermitRootLogin yes
UsePAM no
"""


@pytest.fixture
def config(server, tmp_path):
    """Provide a function that writes an OpenSSH client configuration and returns its path."""
    key, known = server.directory / "id", server.directory / "known_hosts"

    def write(text):
        path = tmp_path / "config"
        path.write_text(text.format(key=key, known=known))
        return str(path)

    return write


def open_on_loopback(server, **options):
    """Log in over TCP from the device's network namespace."""
    transport = SshTransport(SshOptions(**options))
    with in_network_of(server.pid):
        try:
            transport.open()
            return transport.run("echo in; echo $SSH_CONNECTION").out
        except V6tError as exc:
            return f"{type(exc).__name__}: {exc.message} | {exc.hint}"
        finally:
            transport.close()


def make_login_options(server, **changes):
    """Return options with the lab's key and host key."""
    given = {"user": "root", "identity": [str(server.directory / "id")], "config": ""}
    return {
        "host": "127.0.0.1",
        "known_hosts": str(server.directory / "known_hosts"),
        **given,
    } | changes


ONE = """\
Host relay
  HostName 127.0.0.1
  User root
  IdentityFile {key}
  UserKnownHostsFile {known}
"""
TWO = """\
Host relay
  HostName localhost
  ProxyJump 127.0.0.1
Host *
  User root
  IdentityFile {key}
  UserKnownHostsFile {known}
"""


@pytest.mark.parametrize("text", [ONE, TWO], ids=["a host", "a jump"])
def test_login_by_the_configuration_file(text, server, config):
    assert open_on_loopback(server, host="relay", config=config(text)).startswith("in\n")


@pytest.mark.parametrize("options", [{}, {"host": "localhost", "jump": "root@127.0.0.1"}])
def test_login_by_the_testbed_file(options, server):
    assert open_on_loopback(server, **make_login_options(server, **options)).startswith("in\n")


def test_host_key_of_jump_host_is_checked(server, tmp_path):
    known = tmp_path / "known"
    line = (server.directory / "known_hosts").read_text().splitlines()[0]
    assert line.startswith("localhost ")
    known.write_text(line + "\n")
    options = make_login_options(
        server, host="localhost", jump="root@127.0.0.1", known_hosts=str(known)
    )
    text = open_on_loopback(server, **options)
    assert text.startswith("DutError: ssh root@localhost, through root@127.0.0.1: ")


def test_refusing_jump_host_is_named(server):
    text = open_on_loopback(server, **make_login_options(server, jump="nobody@localhost"))
    assert "through nobody@localhost" in text


def test_login_with_agent_key(server, monkeypatch, tmp_path):
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs Debian package openssh-client")
    monkeypatch.setenv("HOME", str(tmp_path))
    socket = tmp_path / "agent"
    with subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL
    ) as agent:
        try:
            wait_until(socket.exists, "the agent")
            monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
            options = make_login_options(server, identity=[])
            assert "login was refused" in open_on_loopback(server, **options)
            added = subprocess.run(
                ["ssh-add", "-q", str(server.directory / "id")], check=False, timeout=20
            )
            assert added.returncode == 0
            assert open_on_loopback(server, **options).startswith("in\n")
        finally:
            agent.terminate()


def test_ordinary_user_becomes_root_and_sees_its_connection(server):
    if shutil.which("sudo") is None:
        pytest.skip("needs Debian package sudo")
    text = open_on_loopback(server, **make_login_options(server, become="sudo -n"))
    assert text.startswith("in\n127.0.0.1 ")


@pytest.fixture(scope="module")
def passwords(server):
    """Start a second sshd on port 2022 that accepts root's password, which is set there only."""
    result = subprocess.run(
        ["openssl", "passwd", "-6", SECRET], capture_output=True, text=True, check=False
    )
    if result.returncode:
        pytest.skip("needs Debian package openssl")
    server.shell("cat >/run/shadow", f"root:{result.stdout.strip()}:19000:0:99999:7:::\n")
    server.shell("chmod 600 /run/shadow; mount --bind /run/shadow /etc/shadow")
    server.shell("cat >/run/passwords_config", PASSWORDS)
    server.shell("/usr/sbin/sshd -f /run/passwords_config -E /run/passwords.log")
    return server


@pytest.fixture
def login(passwords, monkeypatch, tmp_path):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = []

    def connect(**changes):
        transport = passwords.login(identity=(), inner_port=2022, **changes)
        made.append(transport)
        transport.open()
        return transport

    yield connect
    for transport in made:
        transport.close()


def test_login_with_password_from_environment(login, monkeypatch):
    monkeypatch.setenv("V6T_DUT_PASSWORD", SECRET)
    assert login().run("echo in").out == "in\n"


def test_password_is_requested_once_for_all_reconnections(login, monkeypatch):
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or SECRET)
    transport = login(ask_password=True)
    transport.open()
    assert transport.run("echo in").out == "in\n"
    assert asked == [f"password for {transport.name}: "]
    assert transport.name.startswith("ssh root@test-logins")


def test_missing_terminal_refuses_password_login(login, monkeypatch):
    def nobody(prompt):
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody)
    with expect_error("login-refused"):
        login(ask_password=True)


def test_wrong_password_is_not_in_error_message(login, monkeypatch):
    monkeypatch.setenv("V6T_DUT_PASSWORD", "hunter2")
    with expect_error("login-refused") as info:
        login()
    assert "hunter2" not in info.value.message + info.value.hint


def test_login_without_password_is_refused(login):
    with expect_error("login-refused"):
        login()


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "dut;reboot"},
        {"host": "-oProxyCommand=x"},
        {"host": "dut", "user": "a b"},
        {"host": "dut", "user": "$(id)"},
        {"host": "dut", "jump": "a@b@c"},
        {"host": "dut", "jump": "x y"},
        {"host": "dut", "port": 70000},
        {"host": "dut", "become": "sudo sh -c"},
        {"lab": "a", "jump": "b"},
    ],
)
def test_invalid_ssh_options_are_rejected(wrong):
    with pytest.raises(ValueError, match="Value error|pattern|Input"):
        SshOptions(**wrong)


def test_jump_hosts_are_parsed():
    hops = SshOptions(host="dut", jump="alice@bastion:2222,[2001:db8::1]:22").hops
    assert hops == {"alice@bastion:2222": "bastion", "[2001:db8::1]:22": "2001:db8::1"}
    assert SshOptions(host="2001:db8::1").host == "2001:db8::1"


def test_several_jump_hosts_are_left_to_ssh():
    client = SshClient(SshOptions(host="dut", jump="alice@first:2222,second", config=""))
    text = (client.directory / "config").read_text()
    assert "Host dut\n  ProxyJump alice@first:2222,second\n" in text


def test_user_configuration_cannot_weaken_security_options(tmp_path):
    soft = (
        "StrictHostKeyChecking no\nForwardAgent yes\nPermitLocalCommand yes\n"
        "ControlMaster auto\nControlPath /tmp/other-%C\nRemoteCommand tmux\n"
        "NoHostAuthenticationForLocalhost yes\nGSSAPIDelegateCredentials yes\n"
    )
    (tmp_path / "config").write_text(soft)
    client = SshClient(SshOptions(host="dut", config=str(tmp_path / "config")))
    command = [*client.make_command_prefix("-G"), "dut"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    told = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
    assert told["stricthostkeychecking"] in ("true", "yes")
    for name in ("forwardagent", "permitlocalcommand", "gssapidelegatecredentials"):
        assert told.get(name, "no") == "no", name
    assert told["controlmaster"] in ("false", "no")
    assert told["nohostauthenticationforlocalhost"] == "no"
    assert "controlpath" not in told and "remotecommand" not in told
    place = client.directory
    client.remove()
    assert not place.exists()


def test_password_is_hidden_from_configured_programs(monkeypatch, tmp_path):
    """Programs of a ProxyCommand inherit the environment and may ask for a password, too."""
    monkeypatch.setenv("V6T_DUT_PASSWORD", SECRET)
    thief = tmp_path / "thief"
    thief.write_text(f"""#!/bin/sh
{{ "$SSH_ASKPASS" "root@gateway's password: "; echo "V6T=$V6T_DUT_PASSWORD"; }} >{tmp_path}/got 2>&1
exit 1
""")
    thief.chmod(0o700)
    (tmp_path / "config").write_text(f"Host dut\n  ProxyCommand {thief}\n")
    transport = SshTransport(SshOptions(host="dut", config=str(tmp_path / "config")))
    with expect_error("unreachable"):
        transport.open()
    assert (tmp_path / "got").read_text() == "V6T=\n"


def test_password_is_absent_from_representations(monkeypatch):
    monkeypatch.setenv("V6T_DUT_PASSWORD", SECRET)
    options = SshOptions(host="dut", ask_password=True)
    transport = SshTransport(options)
    seen = repr(options) + repr(transport) + options.model_dump_json() + transport.name
    assert SECRET not in seen
    assert os.environ["V6T_DUT_PASSWORD"] == SECRET
