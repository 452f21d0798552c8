"""The way to a device over SSH (asyncssh, whose event loop runs in a thread of its own)."""

from __future__ import annotations

import asyncio
import getpass
import os
import queue
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from v6t.drivers.duts.ssh_options import SshOptions
from v6t.drivers.duts.transport import (
    ConnectionLost,
    DeadlinePassed,
    Output,
    Unreachable,
    for_shell,
)
from v6t.profiles.errors import DutError, UsageError

if TYPE_CHECKING:
    import asyncssh

T = TypeVar("T")
GRACE_S = 5.0
"""How much later than asyncssh itself this side gives up waiting."""


class SshTransport:
    """One connection, many commands."""

    def __init__(self, options: SshOptions, sock: socket.socket | None = None) -> None:
        """Remember; nothing is opened.

        Args:
            options: where and how.
            sock: a connection to the server that exists already.
        """
        self._options = options
        self._sock = sock
        user = f"{options.user}@" if options.user else ""
        port = f":{options.port}" if options.port else ""
        self.name = f"ssh {user}{options.host or options.lab}{port}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._hops: list[asyncssh.SSHClientConnection] = []
        self._secret: str | None = None

    def open(self) -> None:
        """Connect and log in; the host key must be known."""
        self.close()
        settings = self._settings()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="v6t-ssh", daemon=True)
        self._thread.start()
        try:
            self._connection = self._await(
                self._connect(settings), self._options.connect_deadline_s + GRACE_S
            )
        except BaseException:
            self.close()
            raise

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        """See :class:`v6t.drivers.duts.transport.Transport`."""
        limit = deadline_s or self._options.command_deadline_s
        return self._await(self._run(command, text, limit), limit + GRACE_S)

    def hold(self, command: str) -> SshHeld:
        """See :class:`v6t.drivers.duts.transport.Transport`."""
        return SshHeld(self, self._await(self._start(command), self._options.command_deadline_s))

    def close(self) -> None:
        """Disconnect and end the thread."""
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        connection, self._connection = self._connection, None
        hops, self._hops = self._hops, []
        for each in (connection, *reversed(hops)):
            if each is not None:
                loop.call_soon_threadsafe(each.abort)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(GRACE_S)
        if not self._thread.is_alive():
            loop.run_until_complete(_cancel_all())
            loop.close()

    def _await(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        if self._loop is None:
            work.close()
            raise ConnectionLost(f"{self.name}: there is no connection")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(limit_s)
        except FutureTimeout as exc:
            future.cancel()
            raise DeadlinePassed(f"{self.name} did not answer within {limit_s:g} s") from exc
        except BaseException:
            future.cancel()
            raise

    async def _connect(self, settings: Any) -> asyncssh.SSHClientConnection:
        import asyncssh

        where = [self.name]
        try:
            return await asyncio.wait_for(
                self._connected(settings, where), self._options.connect_deadline_s
            )
        except asyncssh.HostKeyNotVerifiable as exc:
            raise DutError(
                f"{where[-1]}: the host key is not the known one: {exc.reason}",
                "compare its fingerprint on the device's console, then correct known_hosts "
                "(ssh-keygen -R, ssh-keyscan); v6t never accepts a key by itself",
            ) from exc
        except asyncssh.PermissionDenied as exc:
            raise DutError(
                f"{where[-1]}: the login was refused: {exc.reason}",
                "check user and key (`ssh -v` shows which are tried)",
            ) from exc
        except (asyncio.TimeoutError, TimeoutError) as exc:
            raise Unreachable(
                f"{where[-1]}: no login within {self._options.connect_deadline_s:g} s",
                "is the device up, and is port 22 open?",
            ) from exc
        except (OSError, asyncssh.Error) as exc:
            text = getattr(exc, "reason", "") or getattr(exc, "strerror", "") or str(exc)
            raise Unreachable(
                f"{where[-1]}: cannot be reached: {text}", "check address, port and sshd"
            ) from exc

    async def _connected(self, settings: Any, where: list[str]) -> asyncssh.SSHClientConnection:
        """Hosts on the way one through the other, then the device; ``where`` grows meanwhile."""
        import asyncssh

        through: Any = ()
        for hop in self._options.hops:
            where.append(f"{self.name}, through {hop.text}")
            own = {"username": hop.user, "port": hop.port}
            given = {**self._given(), **{k: v for k, v in own.items() if v}}
            options = asyncssh.SSHClientConnectionOptions(host=hop.host, **given)
            self._refuse_unchecked(options)
            through = await asyncssh.connect(hop.host, options=options, tunnel=through)
            self._hops.append(through)
        where.append(self.name)
        host = self._options.host or "localhost"
        # the configuration once more: asyncssh looks for the hosts of its ProxyJump in it
        return await asyncssh.connect(
            host,
            options=settings,
            config=_files(self._options.config) or None,
            sock=self._sock,
            tunnel=through,
        )

    def _given(self) -> dict[str, Any]:
        """What the device's host and those on the way to it have in common."""
        o = self._options
        given: dict[str, Any] = {
            "connect_timeout": o.connect_deadline_s,
            "login_timeout": o.connect_deadline_s,
            "keepalive_interval": 5,
            "keepalive_count_max": 3,
            "config": _files(o.config) or None,
            "client_keys": [str(Path(k).expanduser()) for k in o.identity] or (),
            "agent_forwarding": False,
            "request_pty": False,
        }
        if o.identity:
            given["agent_path"] = None
        if o.known_hosts:
            given["known_hosts"] = _files(o.known_hosts, must=True)
        return given

    def _settings(self) -> Any:
        try:
            import asyncssh
        except ImportError as exc:
            raise UsageError(
                "SSH needs the Python package asyncssh", "pip install asyncssh"
            ) from exc
        o = self._options
        given = self._given()
        if o.user:
            given["username"] = o.user
        if o.port:
            given["port"] = o.port
        password = self._password()
        given["password"] = password
        if not password:
            given["password_auth"] = given["kbdint_auth"] = False
        try:
            settings = asyncssh.SSHClientConnectionOptions(host=o.host or "localhost", **given)
        except (OSError, ValueError, asyncssh.Error) as exc:
            text = getattr(exc, "reason", "") or getattr(exc, "strerror", "") or str(exc)
            name = f" {exc.filename}" if isinstance(exc, OSError) and exc.filename else ""
            raise UsageError(f"{self.name}: the SSH settings cannot be used:{name} {text}") from exc
        self._refuse_unchecked(settings)
        return settings

    def _refuse_unchecked(self, settings: Any) -> None:
        if settings.known_hosts is None:
            raise UsageError(
                f"{self.name}: the SSH configuration switches the check of host keys off",
                "give ssh.known_hosts in the testbed file",
            )

    def _password(self) -> str | None:
        """Asked for once: a connection is made again without anybody at the terminal."""
        from_environment = os.environ.get("V6T_DUT_PASSWORD")
        if from_environment or not self._options.ask_password:
            return from_environment
        if self._secret is None:
            try:
                self._secret = getpass.getpass(f"password for {self.name}: ")
            except EOFError as exc:
                raise UsageError(
                    f"{self.name}: there is no terminal to ask for the password",
                    "set V6T_DUT_PASSWORD, or better use a key",
                ) from exc
        return self._secret

    async def _run(self, command: str, text: str, limit_s: float) -> Output:
        import asyncssh

        line = for_shell(command, self._options.become)
        try:
            done = await asyncio.wait_for(
                self._live().run(line, input=text.encode(), encoding=None), limit_s
            )
        except (asyncio.TimeoutError, TimeoutError) as exc:
            raise DeadlinePassed(
                f"{self.name}: no end of a command after {limit_s:g} s: {command[:120]}",
                "it may still be running on the device",
            ) from exc
        except (OSError, asyncssh.Error) as exc:
            raise self._lost(command, exc) from exc
        if done.exit_status is None or done.exit_status < 0:
            signal = done.exit_signal[0] if done.exit_signal else ""
            if signal:
                return Output.of(128, _octets(done.stdout), f"killed by {signal}".encode())
            raise self._lost(command, None)
        return Output.of(done.exit_status, _octets(done.stdout), _octets(done.stderr))

    async def _start(self, command: str) -> Any:
        import asyncssh

        line = for_shell(command, self._options.become)
        try:
            return await self._live().create_process(line, encoding=None)
        except (OSError, asyncssh.Error) as exc:
            raise self._lost(command, exc) from exc

    def _live(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise ConnectionLost(f"{self.name}: there is no connection")
        return self._connection

    def _lost(self, command: str, cause: BaseException | None) -> ConnectionLost:
        text = getattr(cause, "reason", "") or (str(cause) if cause else "no exit status came")
        return ConnectionLost(
            f"{self.name}: the connection broke ({text}) during: {command[:120]}",
            "what the command did is unknown",
        )


class SshHeld:
    """A running command on the device; a task collects its lines."""

    def __init__(self, transport: SshTransport, process: Any) -> None:
        self._transport = transport
        self._process = process
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        loop = transport._loop
        if loop is not None:
            self._task = asyncio.run_coroutine_threadsafe(self._collect(), loop)

    def line(self, deadline_s: float) -> str:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        try:
            line = self._lines.get(timeout=deadline_s)
        except queue.Empty as exc:
            raise DeadlinePassed(
                f"{self._transport.name}: nothing came within {deadline_s:g} s"
            ) from exc
        if line is None:
            self._lines.put(None)
            raise ConnectionLost(f"{self._transport.name}: a watching command ended by itself")
        return line.decode(errors="backslashreplace").rstrip("\n")

    def send(self, text: str) -> None:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        loop = self._transport._loop
        try:
            if loop is not None and not self.ended:
                loop.call_soon_threadsafe(self._process.stdin.write, text.encode())
                return
        except RuntimeError:  # the loop was closed meanwhile
            pass
        raise ConnectionLost(f"{self._transport.name}: a watching command ended by itself")

    @property
    def ended(self) -> bool:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        return self._ended.is_set() or self._transport._loop is None

    def release(self) -> None:
        """See :class:`v6t.drivers.duts.transport.Held`."""
        loop = self._transport._loop
        if loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result(GRACE_S)
        except (FutureTimeout, RuntimeError):
            return

    async def _collect(self) -> None:
        import asyncssh

        try:
            while True:
                line = await self._process.stdout.readline()
                if not line:
                    break
                self._lines.put(line)
        except (OSError, asyncssh.Error):
            pass
        self._ended.set()
        self._lines.put(None)

    async def _end(self) -> None:
        import asyncssh

        try:
            self._process.stdin.write_eof()
            await asyncio.wait_for(self._process.wait_closed(), GRACE_S / 2)
        except (OSError, asyncio.TimeoutError, TimeoutError, asyncssh.Error):
            self._process.close()


def _files(paths: str, *, must: bool = False) -> list[str]:
    """Existing files of a list separated by spaces."""
    found = []
    for text in paths.split():
        path = Path(text).expanduser()
        if path.is_file():
            found.append(str(path))
        elif must:
            raise UsageError(f"there is no file {text} of known hosts")
    return found


def _octets(value: Any) -> bytes:
    return bytes(value or b"") if not isinstance(value, str) else value.encode()


async def _cancel_all() -> None:
    tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
