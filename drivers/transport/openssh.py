"""Transport over SSH: one connection that OpenSSH's client keeps, many commands through it."""

import contextlib
import getpass
import logging
import os
import re
import secrets
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import DutError, UsageError
from v6t.drivers.transport.command_log import log_start, run_logged
from v6t.drivers.transport.contract import (
    ON_DEVICE,
    ConnectionLost,
    HeldCommand,
    Output,
    Unreachable,
    decode_output,
    make_shell_line,
)
from v6t.drivers.transport.process import (
    Process,
    build_clean_environment,
    kill,
    run_program,
    start_process,
)
from v6t.drivers.transport.redaction import (
    ENABLE_PASSWORD,
    LOGIN_PASSWORD,
    redact,
    register_secret,
    shorten_command,
)
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions

_LOG = logging.getLogger(__name__)
_POLL_S = 0.02  # Interval of checks for the connection
_PID_VARIABLE = "V6T_SSH_PID"
_ASKPASS = f"""\
#!/bin/sh
# only our own ssh, about the device's password: not one that a configuration starts on the way
[ "$PPID" = "${_PID_VARIABLE}" ] || exit 1
case $1 in *assword*) exec cat "${{0%/*}}/secret" ;; *) exit 1 ;; esac
"""
_START_SCRIPT = f'{_PID_VARIABLE}=$$; export {_PID_VARIABLE}; exec "$@"'
_KEY_REFUSED = re.compile(
    r"Host key verification failed|host key is known for|IDENTIFICATION HAS CHANGED"
)
_LOGIN_REFUSED = re.compile(r"Permission denied|Too many authentication failures")
_BOUND_SCRIPT = f"""\
place=$1; shift; exec 3<&0
sh -c '{_START_SCRIPT}' sh "$@" </dev/null 3<&- & master=$!
(cat <&3 >/dev/null; kill $master; rm -rf "$place") & watch=$!
wait $master; s=$?; kill $watch; exit $s
"""
"""Runs a program that ends with v6t, because v6t's end of its standard input is then closed."""
_TIMED_OUT = re.compile(r"timed out", re.IGNORECASE)


class SshTransport:
    """Transport over one connection for many commands.

    A line of v6t's own behind its standard error marks a command's end: OpenSSH's status 255 is also that
    of a broken connection.
    """

    where = ON_DEVICE

    def __init__(self, options: SshOptions, before: Sequence[str] = ()) -> None:
        self._options = options
        self._before = before
        user = f"{options.user}@" if options.user else ""
        port = f":{options.port}" if options.port else ""
        self.name = f"ssh {user}{options.host or options.lab}{port}{options.suffix}"
        self.condition = ""
        self._client: SshClient | None = None
        self._master: Process | None = None
        self._secret: str | None = None

    def open(self) -> None:
        """Connect and log in; the host key must be known."""
        self.close()
        began = time.monotonic()
        self._client = SshClient(self._options, self._before)
        try:
            self._connect(self._client)
            self._check_namespace()
        except BaseException:
            self.close()
            raise
        _LOG.info("%s: logged in after %.3f s", self.name, time.monotonic() - began)

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        limit = deadline_s or self._options.command_deadline_s
        return run_logged(self.name, command, text, lambda: self._run(command, text, limit))

    def _run(self, command: str, text: str, limit: float) -> Output:
        mark = f"v6t-{secrets.token_hex(8)}"
        # the command has a shell of its own: it may exit, be killed, or replace itself
        whole = make_shell_line(command, self._options.become, self.condition, self._options.netns)
        line = f"{whole}; echo {mark} $? >&2"
        program = [*self._make_command(), f"sh -c {shlex.quote(line)}"]
        hint = "it may still be running on the device"
        _, out, err = run_program(program, text, limit, self.name, command, hint)
        before, marked, after = err.rpartition(mark.encode())
        status = after.split()[:1] if marked else []
        if not status:  # the mark, or the status behind it, never came
            cause = _find_last_line(err) or "no exit status arrived"
            problem = (
                f"{self.name}: the connection broke ({cause}) during: {shorten_command(command)}"
            )
            hint = "the effect of the command is unknown"
            raise ConnectionLost(problem, hint, code="connection-lost")
        return Output.decode(self.name, int(status[0]), out, before)

    def hold(self, command: str) -> HeldCommand:
        log_start(self.name, command)
        line = make_shell_line(command, self._options.become, netns=self._options.netns)
        process = start_process([*self._make_command(), line])
        return HeldCommand(self.name, process, lambda: not self._alive)

    @property
    def terminal_command(self) -> list[str]:
        """Program that connects its standard input and output to a login on a terminal."""
        # ssh does not interpret lines of input: it has no escape character
        return self._make_command("-tt", "-e", "none")

    def close(self) -> None:
        master, self._master = self._master, None
        client, self._client = self._client, None
        if master is not None:
            kill(master)
        if client is not None:
            client.remove()

    @property
    def _alive(self) -> bool:
        return self._master is not None and self._master.poll() is None

    def _make_command(self, *options: str) -> list[str]:
        """Return a command line that uses the one connection and never makes another."""
        if self._client is None or not self._alive:
            raise ConnectionLost(f"{self.name}: not connected", code="connection-lost")
        socket = f"ControlPath={self._client.directory / 'mux'}"
        never = ("-o", "ControlMaster=no", "-o", socket, "-o", "ProxyCommand=false")
        return [*self._client.make_command_prefix(*never, *options), "--", self._client.host]

    def _connect(self, client: SshClient) -> None:
        password = self._get_password()
        socket = client.directory / "mux"
        words = client.make_command_prefix(
            *("-N", "-o", "ControlMaster=yes", "-o", f"ControlPath={socket}"),
            *("-o", "ControlPersist=no"),
            password=bool(password),
        )
        _LOG.debug("%s: logging in: %s", self.name, redact(shlex.join(words)))
        self._master = subprocess.Popen(
            ["sh", "-c", _BOUND_SCRIPT, "sh", str(client.directory), *words, "--", client.host],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(client.directory / "log").open("wb"),
            env=_make_environment(client, password),
            start_new_session=True,
        )
        until = time.monotonic() + self._options.connect_deadline_s
        while not socket.is_socket():
            if password:
                _offer_password(client.directory / "secret", password)
            if self._master.poll() is not None:
                raise self._make_refusal(decode_output((client.directory / "log").read_bytes())[0])
            if time.monotonic() > until:
                raise self._make_timeout_error(self.name)
            time.sleep(_POLL_S)

    def _check_namespace(self) -> None:
        if (netns := self._options.netns) and (done := self.run("true")).status:
            problem = f"{self.name}: its network namespace cannot be entered: {done.cause}"
            hint = f"`ip netns add {netns}` {ON_DEVICE} makes one; its interfaces must be in it"
            raise DutError(problem, hint, code="lab-failed")

    def _make_refusal(self, stderr: str) -> DutError:
        """Return the error of a failed login; it names the first host that refused."""
        where = self._find_refusing_host(stderr)
        text = _find_last_line(stderr.encode())
        if _KEY_REFUSED.search(stderr):
            return DutError(
                f"{where}: the host key differs from the known one: {text}",
                "compare its fingerprint on the device's console, then correct known_hosts "
                "(ssh-keygen -R, ssh-keyscan); v6t never accepts a key by itself",
                code="host-key-mismatch",
            )
        if _LOGIN_REFUSED.search(stderr):
            problem = f"{where}: the login was refused: {text}"
            hint = "check user and key (`ssh -v` shows which are tried)"
            return DutError(problem, hint, code="login-refused")
        if _TIMED_OUT.search(stderr):
            return self._make_timeout_error(where)
        problem = f"{where}: cannot be reached: {text}"
        return Unreachable(problem, "check address, port and sshd", code="unreachable")

    def _make_timeout_error(self, where: str) -> Unreachable:
        problem = f"{where}: no login within {self._options.connect_deadline_s:g} s"
        return Unreachable(problem, "is the device up, and is port 22 open?", code="timeout")

    def _find_refusing_host(self, stderr: str) -> str:
        """Return the device, or the host on the way to it that ssh names."""
        message = stderr.partition("Connection closed by UNKNOWN")[0]
        for text, host in self._options.hops.items():
            known = rf"(^|[\s@\[]){re.escape(host)}([\s:\]]|$)"
            if re.search(known, message, re.MULTILINE) and host != self._options.host:
                return f"{self.name}, through {text}"
        return self.name

    def list_passwords(self) -> dict[str, str]:
        """Return the environment variables with which another process can log in like this one."""
        names = (LOGIN_PASSWORD, ENABLE_PASSWORD)
        asked = {LOGIN_PASSWORD: self._secret} if self._secret else {}
        return {**asked, **{name: os.environ[name] for name in names if name in os.environ}}

    def _get_password(self) -> str | None:
        """Return the password; ask for it once: a later connection has no terminal."""
        if (from_environment := os.environ.get(LOGIN_PASSWORD)) or not self._options.ask_password:
            return from_environment
        if self._secret is None:
            try:
                self._secret = getpass.getpass(f"password for {self.name}: ")
                register_secret(self._secret)
            except EOFError as exc:
                problem = f"{self.name}: the password cannot be read: stdin is not a terminal"
                hint = "set V6T_DUT_PASSWORD, or better use a key"
                raise UsageError(problem, hint, code="login-refused") from exc
        return self._secret


def _make_environment(client: SshClient, password: str | None) -> dict[str, str]:
    """Return the master's environment, in which a program prints the password for ssh."""
    environment = {**build_clean_environment(), "LC_ALL": "C"}
    if password:
        ask = client.directory / "ask"
        ask.write_text(_ASKPASS, encoding="utf-8")
        ask.chmod(0o700)
        os.mkfifo(client.directory / "secret", 0o600)
        environment |= {"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
    return environment


def _offer_password(fifo: Path, password: str) -> None:
    """Write the password if ssh asks for it: programs that ssh starts would inherit a variable."""
    with contextlib.suppress(OSError):  # ssh does not read
        handle = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, f"{password}\n".encode())
        finally:
            os.close(handle)


def _find_last_line(stderr: bytes) -> str:
    """Return the last line of standard error that says something about the failure."""
    lines = [line.strip() for line in decode_output(stderr)[0].splitlines()]
    lines = [line for line in lines if line and "Connection closed by UNKNOWN" not in line]
    return lines[-1][:300] if lines else ""
