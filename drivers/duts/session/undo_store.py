"""The places of the undo record: a directory of the device, and a copy in the run directory."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable
from pathlib import Path

from v6t.base.errors import DutError
from v6t.base.files import write_atomically
from v6t.drivers.duts.session.shell import call
from v6t.drivers.duts.session.undo_record import (
    RECORD,
    SCRIPT,
    Progress,
    Record,
    StillChanged,
    undo_script,
)
from v6t.drivers.transport.contract import Output, Transport

PART_PREFIX = "part-"
"""Prefix of the directories of further parts of a chain, below a machine's first one."""
LOCAL_RECORD, LOCAL_SCRIPT = "dut-undo.json", "dut-undo.sh"


class DamagedRecord(StillChanged):
    """The device was changed, and its undo record is empty, damaged or lost."""


class UndoStore:
    """The undo record of one device.

    Args:
        transport: an open connection.
        directory: of v6t's state on the device.
        record_dir: local directory for a copy.
        rollback_command: the command that rolls back.
    """

    def __init__(
        self,
        transport: Transport,
        directory: str,
        record_dir: Path | None = None,
        rollback_command: str = "",
    ) -> None:
        self._transport = transport
        self._directory = directory
        self._record_dir = record_dir
        self._rollback_command = rollback_command

    def read(self) -> Record | None:
        """Return the record, or None if there is none and no other file tells of changes.

        Raises:
            DamagedRecord: it cannot be read; the hint says how to undo everything.
        """
        done = self._call("read_record")
        if done.status:
            raise DutError(
                f"{self._transport.name}: cannot read the undo record: {done.words}",
                code="unexpected-answer",
            )
        kind, _, text = done.out.partition("\n")
        if kind == "record":
            try:
                return Record.parse_json(text)
            except DutError as exc:
                raise self._damage_error(exc.message, has_script=True) from exc
        if kind == "lost":
            problem = "the undo record on the device is empty or missing, but v6t has changed it"
            raise self._damage_error(problem, has_script="script" in text)
        return None

    def read_progress(self) -> Progress:
        """Return how far the commit has come whose record is on the device."""
        lines = set(self._call("read_progress").out.split())
        return Progress(len(lines - {"verified"}), "verified" in lines)

    def read_undone(self) -> frozenset[int]:
        """Return the numbers of the steps that were undone."""
        lines = self._call("read_undone").out.split()
        return frozenset(int(line) for line in lines if line.isdecimal())

    def note_verified(self) -> None:
        """Note that the commit has ended, and everything has read back rightly."""
        done = self._call("note_verified")
        if done.status:
            raise DutError(
                f"{self._transport.name}: cannot note the end of the commit: {done.words}",
                code="undo-record-failed",
            )

    def check_no_parts(self) -> None:
        """Refuse to configure a machine as one device while it is configured as parts of a chain.

        Raises:
            StillChanged: parts are configured; the hint says how to roll them back.
        """
        parts = [line.rpartition("/")[0] for line in self._call("list_parts").out.split()]
        if parts:
            by_hand = " && ".join(f"sh {self._directory}/{part}/{SCRIPT}" for part in parts)
            raise StillChanged(
                f"{self._transport.name}: parts of a chain are configured on it: "
                + ", ".join(part.removeprefix(PART_PREFIX) for part in parts),
                "nothing was changed; `v6t dut rollback` with the directory or the testbed file of "
                f"that run undoes them, or by hand {self._transport.where}: {by_hand}",
                code="device-not-restored",
            )

    def write(self, record: Record) -> None:
        """Store the record at both places and read it back; the script is stored first.

        Raises:
            DutError: it cannot be written.
        """
        files = {SCRIPT: undo_script(record), RECORD: record.to_json()}
        if self._record_dir is not None:
            self._record_dir.mkdir(exist_ok=True)
            write_atomically(self._record_dir / LOCAL_SCRIPT, files[SCRIPT], durable=True)
            write_atomically(self._record_dir / LOCAL_RECORD, files[RECORD], durable=True)
        self._call("clear_progress")
        for name, text in files.items():
            done = self._call("write_file", name, text=text)
            if done.status or done.out != text:
                problem = done.words if done.status else "it reads back differently"
                raise DutError(
                    f"{self._transport.name}: cannot write the undo record to {self._directory}: "
                    f"{problem}",
                    "nothing was changed on the device",
                    code="undo-record-failed",
                )

    def run_script(self, deadline_s: float) -> Output:
        """Run ``undo.sh``."""
        path = shlex.quote(f"{self._directory}/{SCRIPT}")
        return self._transport.run(f"sh {path}", deadline_s=deadline_s)

    def repeat_steps(self, numbers: Iterable[int]) -> None:
        """Have the next rollback undo these steps once more."""
        self._call("repeat_steps", *sorted(numbers))

    def remove(self) -> None:
        """Remove the record from both places, after the timer was stopped.

        Raises:
            DutError: a file of v6t's is left on the device.
        """
        done = self._call("remove_record")
        if done.status or done.out.strip():
            raise DutError(
                f"{self._transport.name}: cannot remove all files in {self._directory}: "
                + (" ".join(done.out.split()) or done.words),
                code="device-not-restored",
            )
        if self._record_dir is not None:
            for name in (LOCAL_RECORD, LOCAL_SCRIPT):
                (self._record_dir / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # files of somebody else are in it
                self._record_dir.rmdir()

    def _call(self, function: str, *arguments: object, text: str = "") -> Output:
        return self._transport.run(
            call("state", function, *arguments, directory=self._directory), text
        )

    def _damage_error(self, problem: str, *, has_script: bool) -> DamagedRecord:
        script = f"{self._directory}/{SCRIPT}"
        by_hand = f"`sh {shlex.quote(script)}` {self._transport.where}"
        hint = (
            f"{SCRIPT} beside it undoes everything: `{self._rollback_command} --by-script` runs it, or "
            + by_hand
            if has_script
            else f"{LOCAL_SCRIPT} in the run's directory undoes everything: copy it to the device as "
            f"{script} and run it with sh"
        )
        return DamagedRecord(f"{self._transport.name}: {problem}", hint, code="undo-record-failed")
