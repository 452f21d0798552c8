"""The undo record and the rollback timer on a device, with a copy of the record in the run directory.

On the device the record is a directory: ``record.json`` describes the changes, ``undo.sh`` undoes them
(and can be run by hand), ``progress`` and ``undone`` hold the numbers of steps begun and undone
(``verified`` in ``progress``: the commit has ended, and everything has read back rightly), ``doing`` and
``undoing`` the process that is, or was last, at work on the device.

A configuration can cut off the session that makes it. The timer, a process of the device, counts the
seconds without a beat of the v6t that holds the lock, and then runs ``undo.sh``. With ``--revert-in`` it
counts every second from the end of the commit. To confirm a plan ends the timer.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from v6t.base.errors import DutError
from v6t.base.files import write_atomically
from v6t.drivers.duts.session.connection import TIMER_LOCK_HOLDER
from v6t.drivers.duts.session.shell import build_call, format_assignments, read_program
from v6t.drivers.transport.contract import Output, Transport

RECORD_SCHEMA = "v6t-undo/1"
RECORD, SCRIPT, PROGRESS, UNDONE = "record.json", "undo.sh", "progress", "undone"
STEP_PATIENCE_S = 5  # Time that ``undo.sh`` leaves a step in which v6t was stopped to end [s]
UNDO_DEADLINE_S = 180.0  # Time to undo all steps that have no longer deadline than the default [s]


class DeviceNotRestored(DutError):
    """Changes remain on the device; message and hint name them and the commands that undo them."""


@dataclass(frozen=True)
class UndoEntry:
    """Inverse of one step.

    Attributes:
        command, text: shell line and its standard input; no command: nothing to undo.
        before: command that prints the state, and ``old`` its output before the step.
        gone: succeeds if the object that the step changed no longer exists.
    """

    number: int
    why: str
    command: str
    text: str = ""
    before: str = ""
    old: str = ""
    gone: str = ""

    @property
    def state_command(self) -> str:
        """Command that prints the state; an object that is gone counts as unchanged."""
        if not self.gone:
            return self.before
        old = f"printf '%s\\n' {shlex.quote(self.old)}"
        return f"if {self.gone}; then {old}; else {self.before}\nfi"

    def is_changed(self, state: str) -> bool:
        """Return whether the state from before the step has changed; lines that others added are ignored."""
        if not self.old.strip():
            return bool(state.strip())
        lines = set(state.splitlines())
        names = {line.partition(" = ")[0] for line in lines}
        missing = set(self.old.splitlines()) - lines
        return any(" = " not in line or line.partition(" = ")[0] in names for line in missing)


@dataclass(frozen=True)
class UndoRecord:
    """The changes that one run makes to a device.

    Attributes:
        owner: user, host, process and run.
        boot: the device's boot identifier: a reboot undoes everything.
        directory: on the device.
        program: shell line that undoes a record from its standard input; empty: the commands are the shell's.
        deadline_s: time to undo everything [s].
        netns: network namespace that was configured; empty: the machine's own.
        notes_verified: the end of a verification is noted; False: written before v6t did so.
    """

    owner: str
    boot: str
    driver: str
    technology: str
    started: str
    directory: str
    undo: tuple[UndoEntry, ...] = ()
    program: str = ""
    deadline_s: float = UNDO_DEADLINE_S
    netns: str = ""
    notes_verified: bool = False

    def to_json(self) -> str:
        return json.dumps({"schema": RECORD_SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def parse_json(text: str) -> UndoRecord:
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("schema") != RECORD_SCHEMA:
                raise ValueError("another schema")
            if data.pop("prelude", ""):
                raise ValueError("its commands need a v6t of its time")
            entries = tuple(UndoEntry(**u) for u in data.pop("undo"))
            return UndoRecord(**data, undo=entries)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            problem = f"cannot read the undo record on the device: {exc}"
            raise DutError(problem, code="unexpected-answer") from exc

    @property
    def undo_command(self) -> str:
        """Command that undoes everything, for a person at the device."""
        return f"sh {shlex.quote(self.directory + '/' + SCRIPT)}"


class CommitProgress(NamedTuple):
    """Progress of a commit: steps begun, and whether everything has been verified since."""

    begun: int
    verified: bool

    def is_finished(self, record: UndoRecord) -> bool:
        return self.begun >= len(record.undo) and (self.verified or not record.notes_verified)


def build_undo_script(record: UndoRecord) -> str:
    """Return ``undo.sh``, which undoes each step once, last step first, printing ``left N`` for failures."""
    lines = [
        "#!/bin/sh",
        _format_comment(
            f"undoes what {record.owner} did for {record.technology} ({record.driver}), begun "
            f"{record.started}; harmless to run twice"
        ),
        format_assignments(
            directory=record.directory, netns=record.netns, patience_s=STEP_PATIENCE_S
        ),
        read_program("process"),
        read_program("undo"),
        "begin_undo",
    ]
    if record.program:
        undo_all = format_here_document(record.program, record.to_json())
        lines += ["undo_all() {", undo_all, "}", "undo_all || failed=1"]
    for entry in reversed(record.undo):
        if not entry.command or record.program:
            continue
        lines += ["", _format_comment(entry.why)]
        functions = {
            "undo": format_here_document(entry.command, entry.text),
            "is_gone": entry.gone,
            "state": entry.before,
        }
        for name, body in functions.items():
            lines += [f"{name}_{entry.number}() {{", body, "}"] if body else []
        lines.append(f"undo_step {entry.number} {shlex.quote(entry.old.strip(chr(10)))}")
    return "\n".join([*lines, "", "finish_undo", ""])


def _format_comment(text: str) -> str:
    return "# " + " ".join(text.split())


def format_here_document(command: str, text: str) -> str:
    """Return a command with its standard input, as it is written in a shell."""
    if "\n" in command and not text:
        return command
    if any(c in command for c in "\n;|&"):  # all commands read the text, not the last one only
        command = f"{{ {command}\n}}"
    if not text:
        return f"{command} </dev/null"
    end = "END"
    while f"\n{end}\n" in f"\n{text}\n":
        end += "_"
    body = text if text.endswith("\n") else text + "\n"
    return f"{command} <<'{end}'\n{body}{end}"


def describe_undo(entries: Iterable[UndoEntry]) -> str:
    """Return the commands that undo steps, for a message."""
    return "; ".join(
        f"{u.why}: {format_here_document(u.command, u.text) if u.text else u.command}"
        for u in entries
    )


PART_PREFIX = "part-"
"""Prefix of the directories of further parts of a chain, below a machine's first one."""
LOCAL_RECORD, LOCAL_SCRIPT = "dut-undo.json", "dut-undo.sh"


class DamagedRecord(DeviceNotRestored):
    """The device was changed, and its undo record is empty, damaged or lost."""


class TimerStatus(NamedTuple):
    """State of lock and rollback timer on the device; what is empty or None does not exist."""

    lock_holder: str
    remaining_s: int | None
    fired: str


class UndoStore:
    """The undo record and the rollback timer of one device."""

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

    def read(self) -> UndoRecord | None:
        """Return the record; None if no file on the device records changes."""
        output = self._require("read_record", "read the undo record", "unexpected-answer")
        kind, _, text = output.out.partition("\n")
        if kind == "record":
            try:
                return UndoRecord.parse_json(text)
            except DutError as exc:
                raise self._make_damage_error(exc.message, has_script=True) from exc
        if kind == "lost":
            problem = "the undo record on the device is empty or missing, but v6t has changed it"
            raise self._make_damage_error(problem, has_script="script" in text)
        return None

    def read_progress(self) -> CommitProgress:
        lines = set(self._call("read_progress").out.split())
        return CommitProgress(len(lines - {"verified"}), "verified" in lines)

    def read_undone(self) -> frozenset[int]:
        lines = self._call("read_undone").out.split()
        return frozenset(int(line) for line in lines if line.isdecimal())

    def note_verified(self) -> None:
        self._require("note_verified", "note the end of the commit", "undo-record-failed")

    def check_no_parts(self) -> None:
        """Refuse to configure a machine as one device while it is configured as parts of a chain."""
        parts = [line.rpartition("/")[0] for line in self._call("list_parts").out.split()]
        if parts:
            by_hand = " && ".join(f"sh {self._directory}/{part}/{SCRIPT}" for part in parts)
            raise DeviceNotRestored(
                f"{self._transport.name}: parts of a chain are configured on it: "
                + ", ".join(part.removeprefix(PART_PREFIX) for part in parts),
                "nothing was changed; `v6t dut rollback` with the directory or the testbed file of "
                f"that run undoes them, or by hand {self._transport.where}: {by_hand}",
                code="device-not-restored",
            )

    def write(self, record: UndoRecord) -> None:
        """Store the record at both places and read it back; the script is stored first."""
        files = {SCRIPT: build_undo_script(record), RECORD: record.to_json()}
        if self._record_dir is not None:
            self._record_dir.mkdir(exist_ok=True)
            for local, name in ((LOCAL_SCRIPT, SCRIPT), (LOCAL_RECORD, RECORD)):
                path = self._record_dir / local
                write_atomically(path, files[name], private=True, durable=True)
        self._call("clear_progress")
        for name, text in files.items():
            output = self._call("write_file", name, text=text)
            if output.status or output.out != text:
                problem = output.words if output.status else "it reads back differently"
                raise DutError(
                    f"{self._transport.name}: cannot write the undo record to {self._directory}: {problem}",
                    "nothing was changed on the device",
                    code="undo-record-failed",
                )

    def run_script(self, deadline_s: float) -> Output:
        path = shlex.quote(f"{self._directory}/{SCRIPT}")
        return self._transport.run(f"sh {path}", deadline_s=deadline_s)

    def repeat_steps(self, numbers: Iterable[int]) -> None:
        """Mark steps that the next rollback must undo again."""
        self._call("repeat_steps", *sorted(numbers))

    def remove(self) -> None:
        """Remove the record from both places, after the timer was stopped."""
        output = self._call("remove_record")
        if output.status or output.out.strip():
            raise DutError(
                f"{self._transport.name}: cannot remove all files in {self._directory}: "
                + (" ".join(output.out.split()) or output.words),
                code="device-not-restored",
            )
        if self._record_dir is not None:
            for name in (LOCAL_RECORD, LOCAL_SCRIPT):
                (self._record_dir / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # files of somebody else are in it
                self._record_dir.rmdir()

    def start_timer(self, limit_s: int, *, deadline: bool = False) -> None:
        """Start the timer, in place of one that runs; the undo record must be on the device.

        Args:
            limit_s: undo everything after this time of silence [s].
            deadline: count all the time from now on, not only silence.
        """
        token = secrets.token_hex(8)
        program = build_timer_script(self._directory, token, limit_s, deadline=deadline)
        output = self._call("start_timer", token, text=program)
        if output.status:
            problem = f"{self._transport.name}: cannot start the rollback timer: {output.words}"
            hint = "nothing was changed; dut.options.undo_after_s: 0 works without a timer"
            raise DutError(problem, hint, code="rollback-timer-failed")

    def stop_timer(self) -> None:
        """Stop the timer: the configuration stays when the session ends."""
        self._require("remove_timer", "stop the rollback timer", "rollback-timer-failed")

    def read_timer(self) -> TimerStatus:
        out = self._call("read_timer").out
        facts = {key: text for key, _, text in (line.partition(" ") for line in out.splitlines())}
        remaining_s = int(facts["remaining"] or 0) if "remaining" in facts else None
        holder = facts.get("lock", "").partition(" ")[2]
        return TimerStatus(holder, remaining_s, facts.get("fired", ""))

    def _call(self, function: str, *arguments: object, text: str = "") -> Output:
        script = build_call("state", function, *arguments, directory=self._directory)
        return self._transport.run(script, text)

    def _require(self, function: str, purpose: str, code: str) -> Output:
        output = self._call(function)
        if output.status:
            raise DutError(f"{self._transport.name}: cannot {purpose}: {output.words}", code=code)
        return output

    def _make_damage_error(self, problem: str, *, has_script: bool) -> DamagedRecord:
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


def build_timer_script(directory: str, token: str, limit_s: int, *, deadline: bool = False) -> str:
    """Return the program of the timer."""
    values = {
        "directory": directory,
        "token": token,
        "limit_s": limit_s,
        "holder": TIMER_LOCK_HOLDER,
    }
    variables = format_assignments(**values, counts="time" if deadline else "silence")
    return f"#!/bin/sh\n{variables}\n{read_program('timer')}run_timer\n"
