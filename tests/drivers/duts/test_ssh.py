"""The SSH transport against a real sshd: logins, deadlines, broken connections, unusual output."""

import subprocess
import threading

import pytest
from v6t.drivers.transport.contract import (
    ConnectionLost,
    DeadlinePassed,
    DeviceTakenOver,
    Output,
    make_shell_line,
)
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.expect import expect_error

from . import sshserver
from .support import over_ssh

pytestmark = over_ssh


def test_commands_run_in_sh_with_input_and_status(login):
    transport = login()
    result = transport.run("cat; echo err >&2; exit 3", "in\n")
    assert (result.status, result.out, result.err) == (3, "in\n", "err\n")


def test_commands_use_system_path_and_c_locale(login):
    assert login().run("command -v ip && echo $LC_ALL").out.splitlines()[-1] == "C"


def test_commands_run_in_a_network_namespace_of_the_machine(server, login):
    with expect_error("lab-failed") as no:
        login(netns="inner")
    assert "ip netns add inner" in no.value.hint
    server.shell(
        "ip netns add inner; ip -n inner link add only-here type veth; echo kept >/run/seen"
    )
    transport = login(netns="inner")
    assert transport.name.endswith(" netns inner")
    result = transport.run("ip -o link show only-here >&2; cat; cat /run/seen; exit 3", "it's in\n")
    assert (result.status, result.out) == (3, "it's in\nkept\n")
    assert "only-here" in result.err
    assert "only-here" not in login().run("ip -o link").out


def test_quotes_and_newlines_arrive_unchanged(login):
    text = "a'b\"c$HOME\\d\n"
    assert login().run("printf '%s' 'x\"y$z'; cat", text).out == 'x"y$z' + text


def test_transfer_one_megabyte_in_each_direction(login):
    text = "0123456789abcdef" * 65536
    assert login().run("cat", text).out == text


def test_invalid_utf8_output_is_escaped_and_reported(login):
    result = login().run("printf 'a\\377b'")
    assert result.out == "a\\xffb"
    assert not result.clean


def test_a_deadline_on_every_command(login):
    transport = login()
    with expect_error("timeout", mentions="0.3", kind=DeadlinePassed):
        transport.run("sleep 60", deadline_s=0.3)
    assert transport.run("echo still here").out == "still here\n"


def test_a_connection_lost_in_the_middle_is_an_error_not_a_status(server, login):
    transport = login()
    threading.Timer(0.5, server.drop).start()
    with expect_error("connection-lost", kind=ConnectionLost):
        transport.run("echo partial; sleep 60")


def test_a_command_killed_on_the_device_has_a_status(login):
    assert login().run("kill -9 $$").status != 0


def test_a_changed_host_key_is_refused(server, login, tmp_path):
    sshserver.generate_key(tmp_path / "other")
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    (tmp_path / "known_hosts").write_text(f"localhost {kind} {key}\n")
    with expect_error("host-key-mismatch") as info:
        login(known_hosts=str(tmp_path / "known_hosts"))
    assert "ssh-keygen -R" in info.value.hint


@pytest.mark.parametrize(
    ("ssh", "code"),
    [
        ({"known_hosts": "{empty}"}, "host-key-mismatch"),
        ({"known_hosts": "", "config": "{config}"}, "host-key-mismatch"),
        ({"identity": ("{id}",)}, "login-refused"),
        ({"identity": ("{none}",)}, "file-not-found"),
        ({"inner_port": 2222}, "unreachable"),
    ],
)
def test_login_that_fails_has_a_code(ssh, code, login, tmp_path):
    files = {name: str(tmp_path / name) for name in ("empty", "config", "id", "none")}
    (tmp_path / "empty").write_text("")
    (tmp_path / "config").write_text(
        "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n"
    )
    sshserver.generate_key(tmp_path / "id")

    def fill(value):
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        return value.format_map(files) if isinstance(value, str) else value

    with expect_error(code):
        login(**{name: fill(value) for name, value in ssh.items()})


def test_a_silent_server(server, login):
    held = server.inside.hold("exec python3 -c \"import socket, sys; s = socket.create_server("
                              "('127.0.0.1', 2223)); print('up', flush=True); sys.stdin.read()\"")  # fmt: skip
    try:
        assert held.line(10) == "up"
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
    """A successful command may print the same line; sudo writes to stderr, too."""
    said = b"sudo: unable to resolve host device\nv6t: this was not run\n"
    with expect_error("device-busy", kind=DeviceTakenOver):
        Output.decode("device", 1, b"", said)
    assert Output.decode("device", 0, b"", said).status == 0
    result = subprocess.run(
        ["sh", "-c", make_shell_line("echo ran", condition="false")],
        capture_output=True,
        check=False,
    )
    with pytest.raises(DeviceTakenOver):
        Output.decode("device", result.returncode, result.stdout, result.stderr)
    assert result.stdout == b""
