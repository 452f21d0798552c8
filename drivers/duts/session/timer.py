"""The rollback timer: a process of the device that undoes everything if its owner is silent.

A configuration can cut off the session that makes it. The timer counts the seconds without a beat of
the v6t that holds the lock, and then runs ``undo.sh``. With ``--revert-in`` it counts every second
from the end of the commit. To confirm a plan ends the timer.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from v6t.base.errors import DutError
from v6t.drivers.duts.session.lock import TIMER
from v6t.drivers.duts.session.shell import assign, call, read_program
from v6t.drivers.transport.contract import Transport


@dataclass(frozen=True)
class TimerStatus:
    """What the device knows without an owner.

    Attributes:
        lock_holder: who holds the lock, empty: nobody.
        remaining_s: until the timer acts [s]; None: no timer runs.
        fired: what the timer has done; empty: nothing.
    """

    lock_holder: str = ""
    remaining_s: int | None = None
    fired: str = ""


class RollbackTimer:
    """The timer of one device."""

    def __init__(self, transport: Transport, directory: str) -> None:
        self._transport = transport
        self._directory = directory

    def start(self, limit_s: int, *, deadline: bool = False) -> None:
        """Start the timer, in place of one that runs; the undo record must be on the device.

        Args:
            limit_s: undo everything after this time of silence [s].
            deadline: count all the time from now on, not only silence.
        """
        token = secrets.token_hex(8)
        command = call("state", "start_timer", token, directory=self._directory)
        script = timer_script(self._directory, token, limit_s, deadline=deadline)
        done = self._transport.run(command, script)
        if done.status:
            raise DutError(
                f"{self._transport.name}: cannot start the rollback timer: {done.words}",
                "nothing was changed; dut.options.undo_after_s: 0 works without a timer",
                code="rollback-timer-failed",
            )

    def stop(self) -> None:
        """Stop the timer: the configuration stays when the session ends."""
        done = self._transport.run(call("state", "remove_timer", directory=self._directory))
        if done.status:
            raise DutError(
                f"{self._transport.name}: cannot stop the rollback timer: {done.words}",
                code="rollback-timer-failed",
            )

    def read(self) -> TimerStatus:
        """Read lock and timer."""
        out = self._transport.run(call("state", "read_timer", directory=self._directory)).out
        facts = {key: text for key, _, text in (line.partition(" ") for line in out.splitlines())}
        remaining = facts.get("remaining")
        return TimerStatus(
            lock_holder=facts.get("lock", "").partition(" ")[2],
            remaining_s=None if remaining is None else int(remaining or 0),
            fired=facts.get("fired", ""),
        )


def timer_script(directory: str, token: str, limit_s: int, *, deadline: bool = False) -> str:
    """Return the program of the timer."""
    counts = "time" if deadline else "silence"
    variables = assign(
        directory=directory, token=token, limit_s=limit_s, holder=TIMER, counts=counts
    )
    return f"#!/bin/sh\n{variables}\n{read_program('timer')}run_timer\n"
