"""The undo record and the rollback timer on a device, with a copy of the record in the run directory.

On the device the record is a directory: ``record.json`` describes the changes, and ``undo.sh`` undoes them
(also by hand). ``progress`` and ``undone`` hold the numbers of steps begun and undone; ``verified`` in
``progress`` shows that the commit has ended and been read back, ``again-N`` in ``undone`` that the undo of
step N succeeded but did not restore its state. ``doing`` and ``undoing`` hold the process that is, or was
last, at work on the device.

A configuration can cut off the session that makes it. The timer, a process on the device, therefore counts
the seconds without a beat of the v6t that holds the lock, and then runs ``undo.sh``. With ``--revert-in``
it counts every second from the end of the commit. Confirming a plan stops the timer.
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
from v6t.drivers.duts.session import shell
from v6t.drivers.duts.session.connection import TIMER_LOCK_HOLDER
from v6t.drivers.transport.contract import Output, Transport

RECORD_SCHEMA = "v6t-undo/1"  # version of the format of undo records
# files in the state directory
RECORD, SCRIPT, PROGRESS, UNDONE = "record.json", "undo.sh", "progress", "undone"
STEP_PATIENCE_S = 5  # time that ``undo.sh`` waits for an interrupted step to end
UNDO_LIMIT_S = 180.0  # time limit for undoing all steps that have the default limit


class DeviceNotRestoredError(DutError):
    """Changes remain on the device; message and hint name them and the commands that undo them."""


@dataclass(frozen=True)
class UndoEntry:
    """Command that undoes one step of a plan, and the state before the step."""

    number: int  # number of the step, from 1
    why: str  # purpose of the step
    command: str  # shell line that undoes the step; empty: there is nothing to undo
    text: str = ""  # standard input of the command
    before: str = ""  # command that prints the state that the step changes
    old: str = ""  # output of the command ``before``, run before the step
    gone: str = ""  # shell line that succeeds if the changed object no longer exists

    @property
    def state_command(self) -> str:
        """Command that prints the current state, or ``old`` if the object no longer exists."""
        if not self.gone:
            return self.before
        old = f"printf '%s\\n' {shlex.quote(self.old)}"
        return f"if {self.gone}; then {old}; else {self.before}\nfi"

    def differs_from(self, state: str) -> bool:
        """Return whether a state differs from the old one; lines added to a non-empty one do not count."""
        if not self.old.strip():
            return bool(state.strip())
        lines = set(state.splitlines())
        names = {line.partition(" = ")[0] for line in lines}
        missing = set(self.old.splitlines()) - lines
        return any(" = " not in line or line.partition(" = ")[0] in names for line in missing)


@dataclass(frozen=True)
class UndoRecord:
    """Record of the changes that one run makes to a device, and of how to undo them."""

    owner: str  # user, host and process that made the changes, and part of a chain
    boot: str  # the device's boot identifier; a reboot undoes everything
    driver: str
    technology: str
    started: str  # start of the commit, in ISO 8601
    directory: str  # state directory on the device
    undo: tuple[UndoEntry, ...] = ()  # one entry for each step
    program: str = ""  # shell line that undoes this record, read from standard input; may be empty
    deadline_s: float = UNDO_LIMIT_S  # time limit for undoing everything
    netns: str = ""  # network namespace that was configured; empty: the machine's own

    def to_json(self) -> str:
        return json.dumps({"schema": RECORD_SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def parse_json(text: str) -> UndoRecord:
        """Parse a record; raise DutError if it is malformed."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("schema") != RECORD_SCHEMA:
                raise ValueError("another schema")
            entries = tuple(UndoEntry(**u) for u in data.pop("undo"))
            return UndoRecord(**data, undo=entries)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            problem = f"cannot read the undo record on the device: {exc}"
            raise DutError(problem, code="unexpected-answer") from exc

    @property
    def undo_command(self) -> str:
        """Command that undoes everything when a user runs it on the device."""
        return f"sh {shlex.quote(self.directory + '/' + SCRIPT)}"


def build_undo_script(record: UndoRecord) -> str:
    """Return ``undo.sh``, which undoes the steps in reverse order and prints ``left N`` if step N fails."""
    lines = [
        "#!/bin/sh",
        _format_comment(
            f"undoes what {record.owner} did for {record.technology} ({record.driver}), begun "
            f"{record.started}; harmless to run twice"
        ),
        shell.format_assignments(
            directory=record.directory, netns=record.netns, patience_s=STEP_PATIENCE_S
        ),
        shell.read_program("process"),
        shell.read_program("undo"),
        "begin_undo",
    ]
    if record.program:
        undo_all = shell.format_here_document(record.program, record.to_json())
        lines += ["undo_all() {", undo_all, "}", "undo_all || failed=1"]
    for entry in (u for u in reversed(record.undo) if u.command and not record.program):
        lines += ["", _format_comment(entry.why)]
        functions = {
            "undo": shell.format_here_document(entry.command, entry.text),
            "is_gone": entry.gone,
            "state": entry.before,
        }
        for name, body in functions.items():
            lines += [f"{name}_{entry.number}() {{", body, "}"] if body else []
        lines.append(f"undo_step {entry.number} {shlex.quote(entry.old.strip(chr(10)))}")
    return "\n".join([*lines, "", "finish_undo", ""])


def _format_comment(text: str) -> str:
    return "# " + " ".join(text.split())


PART_PREFIX = "part-"  # prefix of the state directories of a chain's further parts on a machine
LOCAL_RECORD, LOCAL_SCRIPT = "dut-undo.json", "dut-undo.sh"  # copies in the run directory


class DamagedRecordError(DeviceNotRestoredError):
    """A device was changed, but its undo record is empty, damaged or missing."""


class TimerNotStartedError(DutError):
    """The rollback timer cannot be started or replaced."""


class DeviceState(NamedTuple):
    """The lock, the rollback timer and the progress of commit and rollback on the device."""

    lock_holder: str  # owner of the lock; empty if the lock is free
    remaining_s: int | None  # time until the timer acts; None if it is not running
    fired_message: str  # what the timer did when it fired; empty if it has not fired
    begun_steps: int  # number of steps of the commit that were begun
    verified: bool  # whether all steps have been read back
    undone_steps: frozenset[int]  # numbers of the steps that were undone


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
        """Return the record; None if the device has not been changed."""
        output = self._call_or_raise("read_record", "read the undo record", "unexpected-answer")
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

    def read_state(self) -> DeviceState:
        rows = [line.partition(" ") for line in self._call("read_state").out.splitlines()]
        facts = {key: text for key, _, text in rows}
        begun, undone = ({t for key, _, t in rows if key == name} for name in ("begun", "undone"))
        return DeviceState(
            lock_holder=facts.get("lock", "").partition(" ")[2],
            remaining_s=int(facts["remaining"] or 0) if "remaining" in facts else None,
            fired_message=facts.get("fired", ""),
            begun_steps=len(begun - {"verified"}),
            verified="verified" in begun,
            undone_steps=frozenset(int(text) for text in undone if text.isdecimal()),
        )

    def record_verification(self) -> None:
        self._call_or_raise("note_verified", "record the end of the commit", "undo-record-failed")

    def check_no_parts(self) -> None:
        """Raise DeviceNotRestoredError if v6t has configured parts of a chain on the machine."""
        if parts := [line.rpartition("/")[0] for line in self._call("list_parts").out.split()]:
            by_hand = " && ".join(f"sh {self._directory}/{part}/{SCRIPT}" for part in parts)
            raise DeviceNotRestoredError(
                f"{self._transport.name}: parts of a chain are configured on it: "
                + ", ".join(part.removeprefix(PART_PREFIX) for part in parts),
                "nothing was changed; `v6t dut rollback` with the directory or the testbed file of "
                f"that run undoes them, or by hand {self._transport.where}: {by_hand}",
                code="device-not-restored",
            )

    def write(self, record: UndoRecord) -> None:
        """Write script and record to the run directory and to the device, where they are read back."""
        self._check_undo_commands(record)
        files = {SCRIPT: build_undo_script(record), RECORD: record.to_json()}
        if self._record_dir is not None:
            self._record_dir.mkdir(exist_ok=True)
            for local, name in ((LOCAL_SCRIPT, SCRIPT), (LOCAL_RECORD, RECORD)):
                write_atomically(self._record_dir / local, files[name], private=True, durable=True)
        self._call_or_raise("clear_progress", "remove an earlier record", "undo-record-failed")
        for name, text in files.items():
            output = self._call("write_file", name, text=text)
            if output.status or output.out != text:
                problem = output.cause if output.status else "it reads back differently"
                device, hint = self._transport.name, "nothing was changed on the device"
                problem = f"{device}: cannot write the undo record to {self._directory}: {problem}"
                raise DutError(problem, hint, code="undo-record-failed")

    def _check_undo_commands(self, record: UndoRecord) -> None:
        """Raise DutError if the shell of the device cannot parse an undo command."""
        entries = {str(u.number): u for u in record.undo if u.command and not record.program}
        script = "\n".join(  # each alone: two unclosed quotes would close each other
            shell.format_here_document(
                f"sh -n || {{ echo {number}; exit 1; }}",
                f"undo() {{\n{shell.format_here_document(entry.command, '')}\n}}",
            )
            for number, entry in entries.items()
        )
        result = self._transport.run("sh", script, record.deadline_s)
        if result.status:
            entry = entries.get(result.out.strip())
            subject = f"undo command of '{entry.why}'" if entry else "undo commands"
            problem = f"the shell cannot parse the {subject}: {result.err.strip()}"
            hint = "correct this command; nothing was changed"
            raise DutError(f"{self._transport.name}: {problem}", hint, code="command-failed")

    def run_script(self, deadline_s: float) -> Output:
        """Run ``undo.sh`` on the device within a time limit [s]."""
        path = shlex.quote(f"{self._directory}/{SCRIPT}")
        return self._transport.run(f"sh {path}", deadline_s=deadline_s)

    def mark_for_undo(self, numbers: Iterable[int]) -> None:
        """Have ``undo.sh`` repeat the undo of steps if their state still differs from the old one."""
        self._call("mark_for_undo", *sorted(numbers))

    def remove(self) -> None:
        """Remove the record from device and run directory; the timer must have been stopped."""
        output = self._call("remove_record")
        if output.status or output.out.strip():
            raise DeviceNotRestoredError(
                f"{self._transport.name}: cannot remove all files in {self._directory}: "
                + (" ".join(output.out.split()) or output.cause),
                code="device-not-restored",
            )
        self.remove_local()

    def read_local(self) -> UndoRecord | None:
        """Return the copy of the record in the run directory; None if it does not exist."""
        path = self._record_dir and self._record_dir / LOCAL_RECORD
        if path is None or not path.exists():
            return None
        try:
            return UndoRecord.parse_json(path.read_text())
        except (DutError, ValueError) as exc:
            problem = f"{path} is damaged: whether {self._transport.name} was restored is unknown"
            hint = f"check the device; then `{self._rollback_command} --forget` removes the file"
            raise DamagedRecordError(problem, hint, code="undo-record-failed") from exc

    def remove_local(self) -> None:
        if self._record_dir is not None:
            remove_local_record(self._record_dir)

    def start_timer(self, limit_s: int, *, absolute: bool = False) -> None:
        """Start or replace the timer that undoes everything after silence, or with ``absolute`` after a time.

        The undo record must be on the device.
        """
        token = secrets.token_hex(8)
        program = build_timer_script(self._directory, token, limit_s, absolute=absolute)
        output = self._call("start_timer", token, text=program)
        if output.status:
            problem = f"{self._transport.name}: cannot start the rollback timer: {output.cause}"
            raise TimerNotStartedError(problem, code="rollback-timer-failed")

    def stop_timer(self) -> None:
        """Stop the rollback timer, so that the configuration stays when the session ends."""
        self._call_or_raise("remove_timer", "stop the rollback timer", "rollback-timer-failed")

    def _call(self, function: str, *arguments: object, text: str = "") -> Output:
        """Call a function of ``state.sh`` on the device, with a text as its standard input."""
        script = shell.build_call("state", function, *arguments, directory=self._directory)
        return self._transport.run(script, text)

    def _call_or_raise(self, function: str, purpose: str, code: str) -> Output:
        """Call a function of ``state.sh``; raise DutError with the purpose and code if it fails."""
        output = self._call(function)
        if output.status:
            raise DutError(f"{self._transport.name}: cannot {purpose}: {output.cause}", code=code)
        return output

    def _make_damage_error(self, problem: str, *, has_script: bool) -> DamagedRecordError:
        """Return the error for a damaged record, with the command that undoes the changes."""
        script = f"{self._directory}/{SCRIPT}"
        by_hand = f"`sh {shlex.quote(script)}` {self._transport.where}"
        hint = (
            f"{SCRIPT} next to it undoes everything: `{self._rollback_command} --by-script` runs it, or "
            + by_hand
            if has_script
            else f"{LOCAL_SCRIPT} in the run's directory undoes everything: copy it to the device as "
            f"{script} and run it with sh"
        )
        text = f"{self._transport.name}: {problem}"
        return DamagedRecordError(text, hint, code="undo-record-failed")


def remove_local_record(record_dir: Path) -> None:
    """Remove the copy of an undo record, and its directory if that has no other files."""
    for name in (LOCAL_RECORD, LOCAL_SCRIPT):
        (record_dir / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        record_dir.rmdir()


def build_timer_script(directory: str, token: str, limit_s: int, *, absolute: bool = False) -> str:
    """Return the program of the rollback timer; ``absolute`` counts all time, not only silence."""
    variables = shell.format_assignments(
        directory=directory,
        token=token,
        limit_s=limit_s,
        holder=TIMER_LOCK_HOLDER,
        counts="time" if absolute else "silence",
    )
    programs = shell.read_program("process") + shell.read_program("timer")
    return f"#!/bin/sh\n{variables}\n{programs}run_timer\n"
