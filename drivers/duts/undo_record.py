"""The undo record: on the device and in the run directory before the first change.

On the device it is a directory: ``record.json`` says who did what, ``undo.sh`` takes it back
(and can be run by hand), ``progress`` and ``undone`` hold the numbers of steps begun and undone,
``doing`` and ``undoing`` the process that is, or was last, at work on it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts.plan import Existing, Step

SCHEMA = "v6t-undo/1"
RECORD, SCRIPT, PROGRESS, UNDONE = "record.json", "undo.sh", "progress", "undone"
DOING, UNDOING = "doing", "undoing"
ALL = "all"
"""What ``undone`` holds when every step is undone."""
PATIENCE_S = 5
"""How long ``undo.sh`` waits at least for the end of what v6t was stopped in [s]."""
QUICK_S = 180.0
"""How long it takes at most to take back all steps that ask for no more time than most."""


class StillChanged(DutError):
    """Something of v6t's is left on the device; message and hint say what, and how to undo it."""


@dataclass(frozen=True)
class Undo:
    """How one step is taken back.

    Attributes:
        number: of the step, from 1.
        why: of the step.
        command, text: shell line and its standard input; no command: nothing to take back.
        before: command that prints the state.
        old: what it printed before the step.
        gone: succeeds if what the step changed no longer exists.
    """

    number: int
    why: str
    command: str
    text: str = ""
    before: str = ""
    old: str = ""
    gone: str = ""

    @property
    def look(self) -> str:
        """Command that prints the state now; what is gone is as it was."""
        if not self.gone:
            return self.before
        return (
            f"if {self.gone}; then printf '%s\\n' {shlex.quote(self.old)}; else {self.before}\nfi"
        )

    def differs(self, now: str) -> bool:
        """Whether the state is not what it was before the step.

        More than before may be somebody else's; less, or something where nothing was, is ours.
        A kernel setting that no longer exists vanished with its interface.
        """
        if not self.old.strip():
            return bool(now.strip())
        lines = set(now.splitlines())
        names = {line.partition(" = ")[0] for line in lines}
        missing = set(self.old.splitlines()) - lines
        return any(" = " not in line or line.partition(" = ")[0] in names for line in missing)


@dataclass(frozen=True)
class Record:
    """What was done to a device by one run.

    Attributes:
        owner: user, host and process that did it, and the run.
        boot: the device's boot identifier then: after a reboot nothing is left.
        driver, technology, started: of the run.
        directory: on the device.
        undo: one entry per step, in the order of the steps.
        prelude: shell lines that their commands take for granted.
        deadline_s: how long it may take to take everything back [s].
        netns: network namespace of the machine that was configured; empty: its own.
    """

    owner: str
    boot: str
    driver: str
    technology: str
    started: str
    directory: str
    undo: tuple[Undo, ...] = field(default=())
    prelude: str = ""
    deadline_s: float = QUICK_S
    netns: str = ""

    def to_json(self) -> str:
        """Text of ``record.json``."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def of_json(text: str) -> Record:
        """Read it back.

        Raises:
            DutError: it is damaged, or of another version.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            entries = tuple(Undo(**u) for u in data.pop("undo"))
            return Record(**data, undo=entries)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise DutError(
                f"the undo record on the device cannot be read: {exc}", code="unexpected-answer"
            ) from exc

    @property
    def by_hand(self) -> str:
        """The command that undoes everything, for a person at the device."""
        return f"sh {shlex.quote(self.directory + '/' + SCRIPT)}"


def undo_of(number: int, step: Step, old: str) -> Undo:
    """How a step is taken back, given what was there before it."""
    command = step.undo
    if step.existing is Existing.KEEP and old.strip():
        command = ""  # it was so already
    put = {
        "{old}": shlex.quote(old.rstrip("\n")),
        "{words}": " ".join(shlex.quote(w) for w in old.split()),
    }
    # at once: what the device said may itself look like a place to fill
    command = re.sub(r"\{old\}|\{words\}", lambda match: put[match.group()], command)
    text = step.undo_text.replace("{old}", old)
    return Undo(number, step.why, command, text if command else "", step.before, old, step.is_gone)


def undo_deadline_s(steps: Iterable[Step]) -> float:
    """How long it may take to take steps back [s]: as long as those that are slow to do, and the rest."""
    return QUICK_S + sum(s.deadline_s for s in steps if s.undo and s.deadline_s > Step.deadline_s)


def script(record: Record) -> str:
    """Text of ``undo.sh``: last step first, each once, ``left N`` for those that fail."""
    lines = [
        "#!/bin/sh",
        _comment(
            f"takes back what {record.owner} did for {record.technology} ({record.driver}), begun "
            f"{record.started}; harmless to run twice"
        ),
        "trap '' HUP PIPE",
        "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL",
        *([_in_namespace(record.netns)] if record.netns else []),
        f"cd {shlex.quote(record.directory)} || exit 1",
        # /proc first: not every ps knows -p, or says that it does not
        "args() { tr '\\0' ' ' </proc/$1/cmdline || ps -ww -o args= -p \"$1\"; } 2>/dev/null",
        # from above, a stopped process starts no other; not ourselves, nor those under us
        "under() { [ $1 = $$ ] || { kill -STOP $1; echo $1; ps -Ao pid,ppid | "
        'while read c q; do [ "$q" != $1 ] || under $c; done; }; }',
        "ended() { kill -9 $(under $1); } 2>/dev/null",
        # one that hangs, or that the device's timer has begun: this one goes on in its place
        f'p=$(cat {UNDOING} 2>/dev/null || echo none); case "$(args "$p")" in *{SCRIPT}*) ended $p;; esac',
        f"(umask 077; touch {PROGRESS} {UNDONE}; echo $$ >{UNDOING})",
        f"trap '[ \"$(cat {UNDOING} 2>/dev/null)\" != $$ ] || rm -f {UNDOING}' EXIT",
        # what v6t was stopped in goes on here, and would have its effect behind what undoes it
        f"p=$(cat {DOING} 2>/dev/null || echo none); n=0",
        f'while case "$(args "$p")" in *{shlex.quote(_noted(record.directory))}*) ;; *) false;; esac; do',
        f"[ $n -lt {PATIENCE_S * 10} ] || {{ ended $p; break; }}; n=$((n + 1)); sleep 0.1; done",
        f"rm -f {DOING}",
        "todo() { grep -qx $1 progress && ! grep -qx $1 undone; }",
        'took() { if [ "$2" = 0 ]; then echo $1 >>undone; else echo "left $1"; failed=1; fi; }',
        "failed=0",
        *([record.prelude] if record.prelude else []),
    ]
    for entry in reversed(record.undo):
        if not entry.command:
            continue
        lines += ["", _comment(entry.why), f"if todo {entry.number}; then"]
        lines += [f"if {entry.gone}; then s=0; else ("] if entry.gone else ["("]
        lines.append(here_document(entry.command, entry.text))
        lines.append("); s=$?" + ("; fi" if entry.gone else ""))
        if entry.before:  # it may have vanished with something else: what counts is the state
            was = shlex.quote(entry.old.strip("\n"))
            lines.append(f'[ $s = 0 ] || [ "$( ({entry.before}\n) 2>/dev/null )" = {was} ] && s=0')
        lines += [f"took {entry.number} $s", "fi"]
    lines += ["", f"[ $failed != 0 ] || grep -qx {ALL} undone || echo {ALL} >>undone"]
    lines += ["exit $failed", ""]
    return "\n".join(lines)


def doing(directory: str, command: str) -> str:
    """Shell lines that run a command with an effect, whose end ``undo.sh`` will see to.

    Args:
        directory: on the device.
        command: shell lines.
    """
    return f"(umask 077; echo $$ {_noted(directory)} 2>/dev/null\n( {command}\n) || exit $?"


def _noted(directory: str) -> str:
    """What tells the process of :func:`doing` from any other that has its number later."""
    return f">{shlex.quote(f'{directory}/{DOING}')})"


def _in_namespace(netns: str) -> str:
    """Whoever starts the script, and wherever: it is about this network namespace."""
    again = f'V6T_NETNS=1; export V6T_NETNS; exec ip netns exec {netns} sh "$0"'
    return f'[ -n "$V6T_NETNS" ] || {{ {again}; }}'


def _comment(text: str) -> str:
    """One line, whatever is in the text."""
    return "# " + " ".join(text.split())


def here_document(command: str, text: str) -> str:
    """A command with its standard input, as one writes it in a shell."""
    if not text:
        if "\n" in command:
            return command
        if any(c in command for c in ";|&"):  # else the last command of a pipeline reads nothing
            command = f"{{ {command}\n}}"
        return f"{command} </dev/null"
    mark = "END"
    while f"\n{mark}\n" in f"\n{text}\n":
        mark += "_"
    body = text if text.endswith("\n") else text + "\n"
    if any(c in command for c in "\n;|&"):  # all of it reads the text, not its last part alone
        command = f"{{ {command}\n}}"
    return f"{command} <<'{mark}'\n{body}{mark}"


def left_of(record: Record, output: str) -> list[Undo]:
    """The steps that ``undo.sh`` could not take back, from what it printed."""
    numbers = {
        int(words[1])
        for words in (line.split() for line in output.splitlines())
        if len(words) == 2 and words[0] == "left" and words[1].isdigit()
    }
    return [u for u in record.undo if u.number in numbers]


def describe(entries: Sequence[Undo]) -> str:
    """What is left and the commands that take it back, for a message."""
    return "; ".join(f"{u.why}: {here_document(u.command, u.text)}" for u in entries)


def summary(record: Record) -> Mapping[str, Any]:
    """Facts for the manifest."""
    return {"owner": record.owner, "started": record.started, "steps": len(record.undo)}
