"""The connection to a device: login, lock, and commands in batches."""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Mapping

from v6t.base.errors import DutError
from v6t.drivers.duts.plan import shorten
from v6t.drivers.duts.session.lock import BEAT_PERIOD_S, PART, SILENCE_S, Lock, lock_condition
from v6t.drivers.duts.session.shell import Section, batch_script, parse_sections
from v6t.drivers.duts.session.undo_record import tracked_command
from v6t.drivers.transport.contract import ConnectionLost, Output, Transport


class Connection:
    """A connection that runs commands while it holds the lock of the device."""

    def __init__(
        self,
        transport: Transport,
        directory: str,
        limit_s: int,
        part: str = "",
        state_transport: Transport | None = None,
    ) -> None:
        self.transport = transport
        self.state_transport = state_transport or transport
        self.directory = directory
        self.limit_s = limit_s
        self.part = part
        suffix = f"{PART}{part}" if part else ""
        self.owner = f"{getpass.getuser()}@{platform.node()} process {os.getpid()}{suffix}"
        self._lock: Lock | None = None

    @property
    def name(self) -> str:
        return self.transport.name

    def open(self, *, lock: bool = True) -> None:
        """Connect and take the lock; commands are run only while it is held."""
        self.state_transport.condition = ""
        self.transport.open()
        if not lock:
            return
        try:
            beat_period_s = min(BEAT_PERIOD_S, self.limit_s / 4 or BEAT_PERIOD_S)
            self._lock = Lock(self.state_transport, self.directory, self.owner, beat_period_s)
            self.state_transport.condition = lock_condition(self.directory, self.owner)
        except BaseException:
            self.transport.close()
            raise

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self.state_transport.condition = ""
        self.transport.close()

    @property
    def lost(self) -> bool:
        """Whether the lock, and with it the connection, is known to be lost."""
        return self._lock is None or self._lock.silence_s == float("inf")

    def find_interruption(self) -> str:
        """Return why the device may have undone everything; empty if it answers and was never silent."""
        if self._lock is not None:
            answers = self._lock.await_answer(self.limit_s or SILENCE_S)
            silence_s = self._lock.silence_s
            if answers and silence_s < (self.limit_s or float("inf")):
                return ""
            if silence_s < float("inf"):
                return f"{silence_s:.0f} s of silence"
        return "the connection was lost"

    def run_tracked(self, command: str, text: str, deadline_s: float) -> Output:
        """Run a command with an effect, whose end ``undo.sh`` waits for."""
        return self.transport.run(tracked_command(self.directory, command), text, deadline_s)

    def read_batch(
        self, commands: Mapping[str, str], any_octets: str | None = None
    ) -> dict[str, Section]:
        """Run commands that change nothing in one round trip.

        Args:
            commands: by name.
            any_octets: prefix of the names whose answers need not be text; None: no answer.

        Raises:
            ConnectionLost: an answer is incomplete.
            DutError: an answer is not text.
        """
        if not commands:
            return {}
        done = self.transport.run(batch_script(commands))
        sections = parse_sections(done.out)
        for name, command in commands.items():
            if name not in sections or sections[name].status is None:
                raise ConnectionLost(
                    f"{self.name}: an answer is incomplete: {command[:160]}: {done.words}",
                    code="connection-lost",
                )
            is_text = done.clean or "\\x" not in sections[name].text
            if not is_text and (any_octets is None or not name.startswith(any_octets)):
                raise DutError(
                    f"{self.name}: the answer to '{command[:160]}' is not plain text: "
                    f"{shorten(sections[name].text)}",
                    code="unexpected-answer",
                )
        return sections
