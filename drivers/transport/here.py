"""Commands for a shell of this machine, or of some of its namespaces."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence

from v6t.drivers.transport.command_log import log_start, run_logged
from v6t.drivers.transport.contract import (
    DEADLINE_S,
    ConnectionLost,
    DeadlinePassed,
    Output,
    for_shell,
)
from v6t.drivers.transport.process import ProcessHeld, begin, finish


class HereTransport:
    """Commands run as this user on this machine."""

    where = "on this machine"
    log_level = logging.INFO
    """Level of the log records of its commands."""

    def __init__(self, name: str, before: Sequence[str] = ()) -> None:
        self.name = name
        self.condition = ""
        self._before = list(before)
        self._prelude = ""

    def open(self) -> None:
        """Nothing to connect to."""

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        limit = deadline_s or DEADLINE_S
        return run_logged(
            self.name, command, text, self.log_level, lambda: self._run(command, text, limit)
        )

    def _run(self, command: str, text: str, limit: float) -> Output:
        process = begin(self._words(command, self.condition))
        outputs = finish(process, text, limit)
        if outputs is None:
            raise DeadlinePassed(
                f"{self.name}: a command did not end within {limit:g} s: {command[:120]}",
                code="timeout",
            )
        if process.returncode == -signal.SIGKILL:
            raise ConnectionLost(
                f"{self.name}: it vanished during: {command[:120]}", code="connection-lost"
            )
        return Output.of(self.name, process.returncode, *outputs)

    def hold(self, command: str) -> ProcessHeld:
        log_start(self.name, command, self.log_level)
        return ProcessHeld(self.name, begin(self._words(command)), self._gone)

    def close(self) -> None:
        """Nothing to give back."""

    def _gone(self) -> bool:
        """Whether the carrier of held commands has ended; a machine's own never does."""
        return False

    def _words(self, command: str, condition: str = "") -> list[str]:
        whole = f"{self._prelude}\n{command}" if self._prelude else command
        return [*self._before, "sh", "-c", for_shell(whole, condition=condition)]
