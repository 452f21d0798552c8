"""A session with a command line, whose state is kept on this machine.

As a program, it undoes the record on its standard input: a person or the rollback timer runs ``undo.sh``,
which runs it.
"""

import hashlib
import json
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from v6t.base.errors import DutError, UsageError, V6tError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.kinds.network_cli.dialogue import CliTransport
from v6t.drivers.duts.kinds.network_cli.options import CliOptions
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.lab.ssh import LabSshServer, find_transport
from v6t.drivers.duts.plan import Intent, Step
from v6t.drivers.duts.session import plan_steps
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.shell import SECTION_HEADING, Section
from v6t.drivers.duts.session.telemetry import WATCH_INTERVAL_S, Sample, TelemetryWatcher
from v6t.drivers.duts.session.undo_store import PROGRESS, UNDONE, UndoEntry, UndoRecord
from v6t.drivers.transport.contract import Output, Transport
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.process import LocalTransport
from v6t.drivers.transport.ssh_client import find_connection_addresses
from v6t.drivers.transport.ssh_options import SshOptions

BUSY_CHECK_REJECTED = "v6t: command rejected"  # text of section ``busy`` after a rejected command


class CliSession(Session):
    """A session with a command line; lock, undo record and rollback timer stay on this machine."""

    def __init__(self, driver: Any, transport: Transport, intent: Intent, *args: Any, **more: Any):
        if not isinstance(transport, SshTransport):
            hint = "give dut.options.ssh.host, and a tester whose cables lead to it"
            problem = "the lab does not contain a device with a vendor command line"
            raise make_unsupported_error(problem, hint)
        self._cli_options: CliOptions = driver.cli_options
        self._cli = CliTransport(transport, self._cli_options)
        compare = driver.options.compare
        self._ignored: tuple[str, ...] = compare.but if compare else ()
        here = LocalTransport(transport.name, passwords=transport.list_passwords)
        super().__init__(driver, self._cli, intent, *args, state_transport=here, **more)

    @property
    def is_lost(self) -> bool:
        return super().is_lost or not self._cli.is_alive

    def find_interruption(self) -> str | None:
        return super().find_interruption() if self._cli.is_alive else "the connection was lost"

    def read_survey(self) -> dict[str, str]:
        commands = self.driver.get_survey_commands()
        sections = self.read_batch(commands.values())
        texts = {name: sections[command].text for name, command in commands.items()}
        if "busy" in commands and sections[commands["busy"]].status:
            texts["busy"] = BUSY_CHECK_REJECTED
        return {**texts, "ends": find_connection_addresses(self.driver.options.ssh)}

    def read_batch(
        self, commands: Iterable[str], binary: Collection[str] = ()
    ) -> dict[str, Section]:
        del binary  # the dialogue decodes all output as text
        outputs = {command: self._cli.run(command) for command in dict.fromkeys(commands)}
        return {command: Section(o.out.strip("\n"), o.status) for command, o in outputs.items()}

    def read_states(self, commands: Iterable[str]) -> dict[str, Section]:
        return {
            command: replace(section, text=compute_digest(section.text, self._ignored))
            for command, section in self.read_batch(commands).items()
        }

    def run_tracked(self, command: str, text: str, deadline_s: float) -> Output:
        return self._type_change(command)

    def _type_change(self, command: str) -> Output:
        """Type lines, each only while this process holds the lock: it may be suspended in between."""
        return self._cli.run(command, before_line=lambda: self.state_transport.run("true"))

    def apply_step(self, number: int, step: Step) -> None:
        progress = shlex.quote(f"{self.directory}/{PROGRESS}")
        done = self.state_transport.run(f"umask 077; echo {number} >>{progress}")
        answer = ""
        if not done.status:
            done = self._type_change(step.command)
        if step.check is not None and not done.status:
            time.sleep(self.driver.options.settle_s)
            answer = self._cli.run(step.check.command).out
        out = f"{done.out}\n{SECTION_HEADING} check\n{answer}"
        plan_steps.check_step_output(step, replace(done, out=out), self.name)

    def undo_steps(self, record: UndoRecord) -> Output:
        return undo_record(record, self._type_change, self._ignored)

    @property
    def undo_program(self) -> str:
        device = {
            "ssh": self.driver.options.ssh.model_dump(mode="json", exclude_defaults=True),
            "cli": self._cli_options.model_dump(mode="json", exclude_defaults=True),
            "ignored": self._ignored,
        }
        words = [sys.executable, "-m", __name__, json.dumps(device)]
        # run in a directory without Python modules
        return f"cd / && exec {shlex.join(words)}"

    def start_watcher(self, *readings: str) -> TelemetryWatcher:
        chosen = self.select_readings(readings)
        stopped = threading.Event()

        def take_samples() -> Iterator[Sample]:
            while not stopped.is_set():
                yield self.read_sample(chosen)
                stopped.wait(WATCH_INTERVAL_S)

        return TelemetryWatcher(take_samples(), stopped.set)


class LabCliDevice(LabDut):
    """A lab device with a command line, which v6t neither creates nor removes."""

    def __init__(self, driver: Any, *args: Any) -> None:
        driver.require_ssh()
        super().__init__(driver, *args)

    def describe_parts(self) -> list[str]:
        login = self.driver.options.ssh
        if not LabSshServer(login.lab).find_pid():
            problem = f"the lab has no device {login.lab} with a command line"
            hint = "the lab cannot make one: give dut.options.ssh.host, and a tester cabled to it"
            raise UsageError(problem, hint, code="missing-device")
        return [self.driver.name]

    def create_namespaces(self) -> int:
        self.describe_parts()
        return super().create_namespaces()

    def close(self) -> None:
        self._server = None
        super().close()


def undo_record(record: UndoRecord, run: Callable[[str], Output], ignored: Iterable[str]) -> Output:
    """Undo the steps of a record from last to first; the output names failed ones as ``left NUMBER``."""
    files = [Path(record.directory, name) for name in (PROGRESS, UNDONE)]
    begun, undone = (set(p.read_text().split()) if p.exists() else set() for p in files)
    problems: dict[str, str] = {}
    with files[1].open("a", buffering=1) as notes:  # the process may be killed after each line
        for entry in reversed(record.undo):
            number = str(entry.number)
            if not entry.command or number not in begun - undone:
                continue
            if problems and not entry.gone:
                problem = "another step needs it"
            else:
                problem = "" if entry.gone in begun else _undo_entry(entry, run, ignored)
            if problem:
                problems[number] = problem
            else:
                notes.write(f"{number}\n")
        if not problems:
            notes.write("all\n")
    remaining = "".join(f"left {number}\n" for number in problems)
    return Output(int(bool(problems)), remaining, "; ".join(problems.values()))


def _undo_entry(entry: UndoEntry, run: Callable[[str], Output], ignored: Iterable[str]) -> str:
    """Undo a step if its state has changed; return the problem, or '' on success."""

    def is_restored() -> bool:
        return compute_digest(run(entry.before).out, ignored) == entry.old

    if entry.before and is_restored():
        return ""
    done = run(entry.command)
    if not entry.before:
        return done.err
    return "" if is_restored() else done.err or f"the answer to '{entry.before}' has changed"


def compute_digest(text: str, ignored: Iterable[str]) -> str:
    """Return a digest of an answer without the lines that match an ignored pattern."""
    patterns = tuple(ignored)
    lines = [t for t in text.strip("\n").split("\n") if not any(re.search(p, t) for p in patterns)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def main(device_json: str, record: UndoRecord) -> int:
    """Undo a record on a device; return the exit status, 3 if the device cannot be reached."""
    device = json.loads(device_json)
    try:
        if (login := find_transport(SshOptions.model_validate(device["ssh"]))) is None:
            raise DutError("the lab's device does not exist", code="missing-device")
        with closing(CliTransport(login, CliOptions.model_validate(device["cli"]))) as transport:
            transport.open()
            done = undo_record(record, transport.run, device["ignored"])
    except V6tError as exc:
        print(exc.message, file=sys.stderr)
        return 3
    print(done.out, end="")
    print(done.err, end="", file=sys.stderr)
    return done.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], UndoRecord.parse_json(sys.stdin.read())))
