"""Where the undo record lies: on the device, and a copy in the run directory."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from v6t.drivers.duts.transport import Transport
from v6t.drivers.duts.undo_record import HELD_FILES, RECORD, SCRIPT, Record, script
from v6t.profiles.errors import DutError

LOCAL_RECORD, LOCAL_SCRIPT = "dut-undo.json", "dut-undo.sh"


class Store:
    """The record of one device."""

    def __init__(self, transport: Transport, directory: str, keep: Path | None = None) -> None:
        """Remember.

        Args:
            transport: an open connection.
            directory: of v6t's state on the device.
            keep: local directory for a copy.
        """
        self._transport = transport
        self._directory = directory
        self._place = shlex.quote(directory)
        self._keep = keep

    def read(self) -> Record | None:
        """The record on the device; None if there is none.

        Raises:
            DutError: it cannot be read.
        """
        path = f"{self._place}/{RECORD}"
        done = self._transport.run(f"if [ -e {path} ]; then cat {path}; fi")
        if done.status:
            raise DutError(f"{self._transport.name}: the undo record cannot be read: {done.words}")
        return Record.of_json(done.out) if done.out.strip() else None

    def write(self, record: Record) -> None:
        """On both sides, read back; the record last, so that its script is there if it is.

        Raises:
            DutError: it cannot be written.
        """
        text, undo = record.to_json(), script(record)
        if self._keep is not None:
            self._keep.mkdir(exist_ok=True)
            _write(self._keep / LOCAL_SCRIPT, undo)
            _write(self._keep / LOCAL_RECORD, text)
        self._put(SCRIPT, undo)
        self._put(RECORD, text)

    def undo(self, deadline_s: float) -> tuple[int, str, str]:
        """Run the script; its status, standard output and error."""
        done = self._transport.run(f"sh {self._place}/{SCRIPT}", deadline_s=deadline_s)
        return done.status, done.out, done.err

    def remove(self) -> None:
        """Forget the record, on both sides.

        Raises:
            DutError: something of v6t's is left on the device.
        """
        names = " ".join(HELD_FILES)
        done = self._transport.run(
            f"cd {self._place} && rm -f {names} && ls -A | grep -vx lock; true"
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


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), 0o600)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, path)
