"""The undo record: on the device and in the run directory before the first change.

On the device it is a directory: ``record.json`` describes the changes, ``undo.sh`` undoes them
(and can be run by hand), ``progress`` and ``undone`` hold the numbers of steps begun and undone
(``verified`` in ``progress``: the commit has ended, and everything has read back rightly),
``doing`` and ``undoing`` the process that is, or was last, at work on the device.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from v6t.base.errors import DutError
from v6t.drivers.duts.session import shell

SCHEMA = "v6t-undo/1"
RECORD, SCRIPT, PROGRESS, UNDONE = "record.json", "undo.sh", "progress", "undone"
DOING, UNDOING = "doing", "undoing"
STEP_PATIENCE_S = 5
"""Time that ``undo.sh`` leaves a step in which v6t was stopped to end [s]."""
UNDO_DEADLINE_S = 180.0
"""Time to undo all steps that have no longer deadline than the default [s]."""


class StillChanged(DutError):
    """A change is left on the device; message and hint name it and how to undo it."""


@dataclass(frozen=True)
class Undo:
    """Inverse of one step.

    Attributes:
        number: of the step, from 1.
        why: of the step.
        command, text: shell line and its standard input; no command: nothing to undo.
        before: command that prints the state.
        old: its output before the step.
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
        return (
            f"if {self.gone}; then printf '%s\\n' {shlex.quote(self.old)}; else {self.before}\nfi"
        )

    def differs(self, state: str) -> bool:
        """Return whether the state is not that before the step.

        A line more may belong to somebody else; a line less, or any line where none was, is ours.
        A kernel setting that no longer exists vanished with its interface.
        """
        if not self.old.strip():
            return bool(state.strip())
        lines = set(state.splitlines())
        names = {line.partition(" = ")[0] for line in lines}
        missing = set(self.old.splitlines()) - lines
        return any(" = " not in line or line.partition(" = ")[0] in names for line in missing)


@dataclass(frozen=True)
class Record:
    """The changes that one run makes to a device.

    Attributes:
        owner: user, host, process and run.
        boot: the device's boot identifier: a reboot undoes everything.
        driver, technology, started: of the run.
        directory: on the device.
        undo: one entry for each step, in the order of the steps.
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
    undo: tuple[Undo, ...] = ()
    program: str = ""
    deadline_s: float = UNDO_DEADLINE_S
    netns: str = ""
    notes_verified: bool = False

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def parse_json(text: str) -> Record:
        """Parse the text of ``record.json``."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            if data.pop("prelude", ""):
                raise ValueError("its commands need a v6t of its time")
            entries = tuple(Undo(**u) for u in data.pop("undo"))
            return Record(**data, undo=entries)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise DutError(
                f"cannot read the undo record on the device: {exc}", code="unexpected-answer"
            ) from exc

    @property
    def undo_command(self) -> str:
        """Command that undoes everything, for a person at the device."""
        return f"sh {shlex.quote(self.directory + '/' + SCRIPT)}"

    def find_left(self, output: str) -> list[Undo]:
        """Return the steps that ``undo.sh`` could not undo, from its output."""
        return [u for u in self.undo if f"left {u.number}" in output.splitlines()]


class Progress(NamedTuple):
    """Progress of a commit: steps begun, and whether everything has been verified since."""

    begun: int
    verified: bool

    def is_finished(self, record: Record) -> bool:
        """Return whether the commit of a record has come to its end."""
        return self.begun >= len(record.undo) and (self.verified or not record.notes_verified)


def undo_script(record: Record) -> str:
    """Return ``undo.sh``: the last step first, each once, ``left N`` for those that fail."""
    lines = [
        "#!/bin/sh",
        _comment(
            f"undoes what {record.owner} did for {record.technology} ({record.driver}), begun "
            f"{record.started}; harmless to run twice"
        ),
        shell.assign(directory=record.directory, netns=record.netns, patience_s=STEP_PATIENCE_S),
        shell.read_program("process"),
        shell.read_program("undo"),
        "begin_undo",
    ]
    if record.program:
        undo_all = here_document(record.program, record.to_json())
        lines += ["undo_all() {", undo_all, "}", "undo_all || failed=1"]
    for entry in reversed(record.undo):
        if not entry.command or record.program:
            continue
        lines += ["", _comment(entry.why)]
        functions = {
            "undo": here_document(entry.command, entry.text),
            "is_gone": entry.gone,
            "state": entry.before,
        }
        for name, body in functions.items():
            lines += [f"{name}_{entry.number}() {{", body, "}"] if body else []
        lines.append(f"undo_step {entry.number} {shlex.quote(entry.old.strip(chr(10)))}")
    return "\n".join([*lines, "", "finish_undo", ""])


def tracked_command(directory: str, command: str) -> str:
    """Return shell lines that run a command whose end ``undo.sh`` waits for."""
    note = shell.call("process", "write_process", f"{directory}/{DOING}")
    return f"{note}\n( {command}\n) || exit $?"


def _comment(text: str) -> str:
    return "# " + " ".join(text.split())


def here_document(command: str, text: str) -> str:
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


def describe_undo(entries: Iterable[Undo]) -> str:
    """Return the commands that undo steps, for a message."""
    return "; ".join(
        f"{u.why}: {here_document(u.command, u.text) if u.text else u.command}" for u in entries
    )
