"""Putting a device back as it was: again and again if need be, and seen to be so at the end.

The undo record lives until the device is as it was, or until somebody says that it may go.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Protocol

from v6t.base.errors import DutError
from v6t.base.log_levels import NOTICE
from v6t.drivers.duts import guard
from v6t.drivers.duts.lock import Busy
from v6t.drivers.duts.plan import shown
from v6t.drivers.duts.store import DamagedRecord, Store
from v6t.drivers.duts.undo_record import SCRIPT, Record, StillChanged, Undo, describe, left_of
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, Transport, Unreachable

_LOG = logging.getLogger(__name__)

BLIND_DEADLINE_S = 3600.0
"""Of a script whose record, which says how long it may take, cannot be read: as long as any step may."""
RETRY_PAUSE_S = 1.0
TIMER_MARGIN_S = 10.0
"""How much longer than its timer's limit a silent device is waited for."""


class Configured(Protocol):
    """What is asked of a session with a device that was configured."""

    transport: Transport
    again: str
    """The command that tries once more."""

    @property
    def name(self) -> str:
        """Of the device, in messages."""

    @property
    def undo_hint(self) -> str:
        """How to undo by hand."""

    @property
    def lost(self) -> bool:
        """Whether the connection is gone as far as is known."""

    @property
    def guarded_s(self) -> int:
        """After how many seconds of silence the device undoes everything by itself; 0: never."""

    def open(self) -> None:
        """Connect."""

    def close(self) -> None:
        """Give the connection back."""

    def guard(self) -> None:
        """Let the device's timer run."""

    def is_others(self, record: Record) -> bool:
        """Whether somebody else has configured the device since this session did."""

    def keep(self) -> None:
        """The configuration stays, whatever becomes of this session."""

    def boot(self) -> str:
        """What tells this boot from others."""

    def differences(self, record: Record) -> dict[Undo, str]:
        """Steps whose state is not what it was."""


def restore(session: Configured, store: Store, *, forget: bool, by_script: bool) -> list[str]:
    """Put everything back, over a new connection if need be.

    Args:
        session: with the device; open.
        store: of its undo record.
        forget: drop the record even if the device is not as it was.
        by_script: run the script where the record is damaged.

    Returns:
        What was done, one line each.

    Raises:
        DutError: something is left; the message says what and how to undo it.
    """

    def once() -> list[str]:
        return _once(session, store, forget=forget, by_script=by_script)

    if not session.lost:
        with contextlib.suppress(ConnectionLost, DeadlinePassed):
            return once()
    session.close()
    guarded_s = session.guarded_s
    end = time.monotonic() + (guarded_s + TIMER_MARGIN_S if guarded_s else 0.0)
    reported = False
    while True:
        try:
            session.open()
            return once()
        except (ConnectionLost, DeadlinePassed, Unreachable, Busy) as exc:
            session.close()
            if time.monotonic() > end:
                raise _lost(exc, session, guarded_s) from exc
            if not reported:
                _LOG.log(
                    NOTICE,
                    "%s: %s; it undoes everything by itself %g s after it last heard of us: "
                    "waiting for that",
                    *(session.name, exc.message, guarded_s),
                )
                reported = True
            time.sleep(RETRY_PAUSE_S)
        except StillChanged:
            raise
        except DutError as exc:
            raise _lost(exc, session, guarded_s) from exc


def _lost(exc: DutError, session: Configured, guarded_s: float) -> DutError:
    by_itself = f"; it undoes that by itself after {guarded_s:g} s of silence" if guarded_s else ""
    return DutError(
        f"{exc.message}; what v6t changed on the device may still be there{by_itself}",
        session.undo_hint,
        code=exc.code,
    )


def _once(session: Configured, store: Store, *, forget: bool, by_script: bool) -> list[str]:
    try:
        record = store.read()
    except DamagedRecord:
        if not by_script:
            raise
        return _by_script_alone(session, store, forget)
    if record is None:
        return ["there is nothing to restore"]
    if record.boot and record.boot != session.boot():
        store.remove()
        return [f"the device was started anew since; nothing of {record.owner} is left"]
    if session.is_others(record):
        raise StillChanged(
            f"{session.name}: {record.owner} has configured it since: what this v6t did is gone, and "
            "the other's is left as it is",
            f"`{session.again}` would undo that",
            code="changed-by-another-owner",
        )
    done = guard.fired(session.transport, record.directory)
    if done:
        _LOG.log(NOTICE, "%s: its own timer was faster: %s", session.name, done)
    session.guard()  # the connection may break in the middle of this, too
    status, out, err = store.undo(record.deadline_s)
    left = left_of(record, out)
    if (status or left) and not forget:
        session.keep()
        raise StillChanged(
            f"{session.name}: some changes could not be undone: "
            + (describe(left) or f"{SCRIPT} ended with status {status}: {shown(err)}"),
            f"{record.by_hand} {session.transport.where}, or `{session.again}`, tries again",
            code="device-not-restored",
        )
    different = session.differences(record)
    if different and not forget:
        _keep(session, store, different)
    store.remove()
    _LOG.log(NOTICE, "%s: what %s did is undone", session.name, record.owner)
    return [
        *(f"{u.why}: undone" for u in reversed(record.undo) if u.command and u not in different),
        *(f"{u.why}: left as it is: {words}" for u, words in different.items()),
    ]


def _keep(session: Configured, store: Store, different: dict[Undo, str]) -> None:
    """The record stays, and what differs is tried again by the next one."""
    session.keep()
    store.redo([u.number for u in different])
    raise StillChanged(
        f"{session.name}: restored, but with differences: "
        + "; ".join(f"{u.why}: {words}" for u, words in different.items()),
        f"the undo record is kept: `{session.again}` tries these steps again; if somebody else "
        "changed them meanwhile, `--forget` with it leaves them as they are",
        code="device-not-restored",
    )


def _by_script_alone(session: Configured, store: Store, forget: bool) -> list[str]:
    status, out, err = store.undo(BLIND_DEADLINE_S)
    if status and not forget:
        output = shown("\n".join(filter(None, (out.strip(), err.strip()))))
        raise StillChanged(
            f"{session.name}: {SCRIPT} could not undo all changes: {output}",
            "`--forget` with it drops what is left of the record",
            code="device-not-restored",
        )
    store.remove()
    return [f"{SCRIPT} has taken back what it could; without a record nothing could be compared"]


def differing(record: Record, now: dict[str, str]) -> dict[Undo, str]:
    """Steps whose state is not what it was, with both.

    Args:
        record: of what was done.
        now: what each step's :attr:`Undo.look` prints, by its number.
    """
    return {
        entry: f"{shown(entry.old)} before, {shown(now[str(entry.number)])} now"
        for entry in record.undo
        if str(entry.number) in now and entry.differs(now[str(entry.number)])
    }
