"""Where the undo record lies: on the device, and a copy in the run directory."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection
from pathlib import Path

from v6t.base.errors import DutError
from v6t.base.storage import write_atomically
from v6t.drivers.duts import guard
from v6t.drivers.duts.lock import HELD_NAMES
from v6t.drivers.duts.undo_record import (
    ALL,
    DOING,
    PROGRESS,
    RECORD,
    SCRIPT,
    UNDOING,
    UNDONE,
    Record,
    StillChanged,
    script,
)
from v6t.drivers.transport.contract import Transport

PART_PREFIX = "part-"
"""How the directories begin, below a machine's first one, of further parts of a chain that are on it."""
LOCAL_RECORD, LOCAL_SCRIPT = "dut-undo.json", "dut-undo.sh"


class DamagedRecord(StillChanged):
    """The device was changed, and the record of it is empty, torn or lost."""


class Store:
    """The record of one device."""

    def __init__(
        self, transport: Transport, directory: str, keep: Path | None = None, again: str = ""
    ) -> None:
        """Remember.

        Args:
            transport: an open connection.
            directory: of v6t's state on the device.
            keep: local directory for a copy.
            again: the command that restores.
        """
        self._transport = transport
        self._directory = directory
        self._place = shlex.quote(directory)
        self._keep = keep
        self._again = again

    def read(self) -> Record | None:
        """The record on the device; None if there is none and nothing else speaks of changes.

        Raises:
            DamagedRecord: it cannot be read; the hint says how everything is undone all the same.
        """
        done = self._transport.run(
            f"cd {self._place} 2>/dev/null || exit 0; "
            f"if [ -s {RECORD} ]; then echo record; cat {RECORD} || exit 1; "
            f"elif [ -s {PROGRESS} ] && ! grep -qx {ALL} {UNDONE} 2>/dev/null; then "
            f"echo lost; [ ! -s {SCRIPT} ] || echo script; fi"
        )
        if done.status:
            raise DutError(f"{self._transport.name}: the undo record cannot be read: {done.words}")
        what, _, text = done.out.partition("\n")
        if what == "record":
            try:
                return Record.of_json(text)
            except DutError as exc:
                raise self._damaged(exc.message, True) from exc
        if what == "lost":
            why = "the undo record on the device is empty or missing, but v6t has changed it"
            raise self._damaged(why, "script" in text)
        return None

    def refuse_parts(self) -> None:
        """A whole device is nothing beside parts of a chain that a lost v6t left on its machine.

        Raises:
            StillChanged: there are some; the hint says how they go.
        """
        done = self._transport.run(
            f"cd {self._place} 2>/dev/null && ls -d {PART_PREFIX}*/{RECORD} 2>/dev/null; true"
        )
        left = [line.rpartition("/")[0] for line in done.out.split()]
        if left:
            by_hand = " && ".join(f"sh {self._place}/{part}/{SCRIPT}" for part in left)
            raise StillChanged(
                f"{self._transport.name}: parts of a chain are configured on it: "
                + ", ".join(part.removeprefix(PART_PREFIX) for part in left),
                "nothing was changed; `v6t dut restore` with the directory or the testbed file of that "
                f"run puts them back, or by hand {self._transport.where}: {by_hand}",
            )

    def _damaged(self, why: str, has_script: bool) -> DamagedRecord:
        by_hand = f"sh {self._place}/{SCRIPT}"
        if has_script:
            how = f"{SCRIPT} beside it takes everything back: `{self._again} --by-script` runs it"
            return DamagedRecord(
                f"{self._transport.name}: {why}", f"{how}, or `{by_hand}` {self._transport.where}"
            )
        return DamagedRecord(
            f"{self._transport.name}: {why}",
            f"{LOCAL_SCRIPT} in the run's directory takes everything back: copy it to the device "
            f"as {self._directory}/{SCRIPT} and run it with sh",
        )

    def write(self, record: Record) -> None:
        """On both sides, read back; the record last, so that its script is there if it is.

        Raises:
            DutError: it cannot be written.
        """
        text, undo = record.to_json(), script(record)
        if self._keep is not None:
            self._keep.mkdir(exist_ok=True)
            write_atomically(self._keep / LOCAL_SCRIPT, undo, durable=True)
            write_atomically(self._keep / LOCAL_RECORD, text, durable=True)
        # what an earlier run did and undid says nothing about this one
        self._transport.run(f"cd {self._place} && rm -f {RECORD} {PROGRESS} {UNDONE}")
        self._put(SCRIPT, undo)
        self._put(RECORD, text)

    def undo(self, deadline_s: float) -> tuple[int, str, str]:
        """Run the script; its status, standard output and error."""
        done = self._transport.run(f"sh {self._place}/{SCRIPT}", deadline_s=deadline_s)
        return done.status, done.out, done.err

    def redo(self, numbers: Collection[int]) -> None:
        """The next undo takes these steps back once more."""
        patterns = " ".join(f"-e {n}" for n in (*sorted(numbers), ALL))
        self._transport.run(
            f"cd {self._place} && (umask 077; grep -vx {patterns} {UNDONE} >{UNDONE}.part; "
            f"mv {UNDONE}.part {UNDONE})"
        )

    def remove(self) -> None:
        """Forget the record, on both sides; what says that all is undone goes last.

        Raises:
            DutError: something of v6t's is left on the device.
        """
        guard.stop(self._transport, self._directory)
        known = " ".join(f"-e {name}" for name in (*HELD_NAMES, f"'{PART_PREFIX}.*'"))
        done = self._transport.run(
            f"cd {self._place} && rm -f {RECORD} {RECORD}.part && rm -f {SCRIPT} {SCRIPT}.part && "
            f"rm -f {PROGRESS} {UNDONE} {UNDOING} {DOING} && "
            f"ls -A | grep -vx {known}; true"
        )
        if done.out.strip():
            raise DutError(
                f"{self._transport.name}: files are left in {self._directory}: "
                + " ".join(done.out.split())
            )
        if self._keep is not None:
            for name in (LOCAL_RECORD, LOCAL_SCRIPT):
                (self._keep / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others' files are in it
                self._keep.rmdir()

    def _put(self, name: str, text: str) -> None:
        path = f"{self._place}/{name}"
        command = f"umask 077; cat >{path}.part && sync && mv {path}.part {path} && cat {path}"
        done = self._transport.run(command, text)
        if done.status or done.out != text:
            raise DutError(
                f"{self._transport.name}: the undo record cannot be written to {self._directory}: "
                f"{done.words if done.status else 'it reads back differently'}",
                "nothing was changed on the device",
            )
