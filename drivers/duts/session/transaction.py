"""A plan on a device: make it, compare, commit, verify, confirm, roll back."""

import contextlib
import itertools
import logging
import shlex
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from v6t.base.errors import DutError, V6tError
from v6t.base.log_levels import NOTICE
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, shorten_output
from v6t.drivers.duts.session import plan_steps, undo_store
from v6t.drivers.duts.session.connection import Connection, DeviceBusyError
from v6t.drivers.duts.session.plan_steps import StepComparison
from v6t.drivers.duts.session.shell import Section, fit_argument, format_command
from v6t.drivers.transport.contract import (
    ConnectionLost,
    DeadlinePassed,
    Output,
    Transport,
    Unreachable,
)

_LOG = logging.getLogger(__name__)

DAMAGED_RECORD_UNDO_LIMIT_S = 3600.0  # time limit for ``undo.sh`` if the record is damaged
COPY_LIMIT_S = 120.0  # time limit for copying a file from the device
RETRY_PAUSE_S = 1.0  # time between two attempts to connect for a rollback
TIMER_MARGIN_S = 10.0  # time to wait for a silent device beyond the rollback timer's limit
MIN_SILENCE_S = 15  # shortest limit of silence that the beats of the lock's owner can keep
MAX_QUERY_OCTETS = 1400  # longest output of a management query, which must fit into one frame
RESTORED_HINT = "the device is as it was before"


def build_rollback_command(record_dir: Path | None) -> str:
    """Return the ``v6t`` command that rolls back the run with this record directory."""
    return "v6t dut rollback" + ("" if record_dir is None else f" {shlex.quote(str(record_dir))}")


class Transaction(Connection):
    """A connection that commits a plan to a device and rolls it back.

    Args:
        record_dir: local directory for a copy of the undo record.
        rollback_command: the command that rolls back later; empty: by ``record_dir``.
        state_transport: transport to the machine with v6t's state; None: the device itself.
    """

    def __init__(
        self,
        driver: Driver,
        transport: Transport,
        intent: Intent,
        record_dir: Path | None = None,
        rollback_command: str = "",
        part: str = "",
        state_transport: Transport | None = None,
    ) -> None:
        options = driver.options
        limit_s = options.undo_after_s if options.ssh is not None else 0
        super().__init__(transport, options.state_dir, limit_s, part, state_transport)
        self.driver, self.intent = driver, intent
        self.rollback_command = rollback_command or build_rollback_command(record_dir)
        self.facts: Facts | None = None
        self.plan: Plan | None = None
        self.configured_facts: dict[str, str] = {}
        self.shortest_check: Check | None = None
        self._record: undo_store.UndoRecord | None = None
        self._advised: DutError | None = None  # has the hint that the device is still configured
        self._record_dir = record_dir
        self._timer_runs = False
        place = self.state_transport, self.directory
        self._store = undo_store.UndoStore(*place, record_dir, self.rollback_command)

    def survey(self) -> Facts:
        self.facts = self.driver.parse_facts(self.read_survey())
        return self.facts

    def read_survey(self) -> dict[str, str]:
        """Return the outputs of the driver's survey commands by section name."""
        commands = self.driver.get_survey_commands()
        sections = self.read_batch(commands.values(), binary=commands.values())
        return {name: sections[command].text for name, command in commands.items()}

    def make_plan(self) -> Plan:
        self.plan = self.driver.plan(self.intent, self.survey())
        return self.plan

    def require_plan(self) -> Plan:
        """Return the plan; make it first if necessary."""
        return self.plan or self.make_plan()

    def read_record(self) -> undo_store.UndoRecord | None:
        """Return the undo record on the device; None if the device has not been changed."""
        return self._store.read()

    def compare(self) -> list[StepComparison]:
        plan, record = self.require_plan(), self.read_record()
        identity = (self.driver.name, self.intent.technology)
        is_own = record is not None and (record.driver, record.technology) == identity
        entries = record.undo if record and is_own else ()
        return plan_steps.compare_plan(plan, self.read_batch, entries)

    def commit(self, revert_in: int | None = None) -> Plan:
        if revert_in is not None:
            self.limit_s = max(revert_in, MIN_SILENCE_S)  # until the rollback is scheduled
        if not self.part:
            self._store.check_no_parts()
        if (previous := self.read_record()) is not None:
            _LOG.log(NOTICE, "%s: rolling back the changes of %s", self.name, previous.owner)
            self.rollback()
        facts = self.survey()
        plan = self.plan = self.driver.plan(self.intent, facts)
        try:
            states = self.read_states(filter(None, (s.record_command for s in plan.steps)))
        except DutError as exc:
            exc.add_hint("nothing was changed")
            raise
        record = undo_store.UndoRecord(
            owner=self.owner,
            boot=facts.boot_id,
            driver=self.driver.name,
            technology=self.intent.technology,
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            directory=self.directory,
            undo=plan_steps.make_undo_entries(plan, states, self.name),
            program=self.undo_program,
            deadline_s=plan_steps.compute_undo_limit_s(plan.steps),
            netns=self._netns,
        )
        try:
            self._store.write(record)
            self._start_timer()
        except BaseException as exc:  # also Ctrl-C: nothing was changed yet, so remove the record
            if isinstance(exc, undo_store.TimerNotStartedError):
                hint = "nothing was changed; dut.options.undo_after_s: 0 works without a timer"
                exc.add_hint(hint)
            with contextlib.suppress(DutError):
                self._remove_record()
            raise
        try:
            self._record = record
            for number, step in enumerate(plan.steps, 1):
                self.apply_step(number, step)
            technology, count = self.intent.technology, len(plan.steps)
            _LOG.log(NOTICE, "%s: configured as %s in %d steps", self.name, technology, count)
        except BaseException as cause:
            self._rollback_failed_commit(cause)
            raise
        return plan

    def apply_step(self, number: int, step: Step) -> None:
        script = plan_steps.build_step_script(step, number, self.directory)
        result = self.transport.run(*fit_argument(script, step.text), step.deadline_s)
        plan_steps.check_step_output(step, result, self.name)

    def read_states(self, commands: Iterable[str]) -> dict[str, Section]:
        """Return the outputs of commands that print the states of steps."""
        return self.read_batch(commands)

    def undo_steps(self, record: undo_store.UndoRecord) -> Output:
        """Undo the steps of a record; the output has a line ``left NUMBER`` for each step that failed."""
        return self._store.run_script(record.deadline_s)

    @property
    def undo_program(self) -> str:
        """Shell line that undoes the record on its standard input; empty if undo commands are shell lines."""
        return ""

    def verify(self) -> list[str]:
        with self.advise_rollback():
            checks = self.require_plan().all_checks
            sections = self.read_batch(check.command for check in checks)
            self.configured_facts = self.read_survey()
            octets = {check: len(sections[check.command].text) for check in checks}
            for check in checks:
                if (problem := check.find_problem(sections[check.command].text)) is not None:
                    raise DutError(f"{self.name}: {check.command}: {problem}", code="check-failed")
            short = [check for check in checks if 0 < octets[check] <= MAX_QUERY_OCTETS]
            self.shortest_check = min(short, key=octets.__getitem__, default=None)
            if self._record is not None:
                self._store.record_verification()
        _LOG.log(NOTICE, "%s: %d read-backs agree", self.name, len(checks))
        return [f"{c.command}: {' '.join(c.expected.description.split())}" for c in checks]

    def confirm(self) -> None:
        self._store.stop_timer()
        self._timer_runs = False

    def schedule_rollback(self, limit_s: int) -> None:
        self._store.start_timer(limit_s, absolute=True)

    def rollback(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        attempt = partial(self._rollback_once, forget=forget, by_script=by_script)
        try:
            if self._record is not None:  # not the configuration of another run
                self._save_artefacts()
            result = self._roll_back_or_advise(attempt)
        except KeyboardInterrupt:  # a rollback is never left half done
            self._roll_back_or_advise(attempt)
            raise
        self._timer_runs = False
        self._record = None
        if self._advised is not None:
            self._advised.hint = self._advised.hint.replace(self._configured_hint, RESTORED_HINT)
            self._advised = None
        return result

    def _save_artefacts(self) -> None:
        """Save compressed copies of the device files that the options name in the run directory."""
        if self._record_dir is None:
            return
        for name, path in self.driver.options.artefact_paths.items():
            command = f"gzip -c {shlex.quote(path)} | base64"
            try:
                output = self.transport.run(command, deadline_s=COPY_LIMIT_S)
                copy = b64decode(output.out)
                if output.status or not copy:
                    raise ValueError(output.cause)
                # a number for each resumed run
                numbers = itertools.chain([""], (f"-{n}" for n in itertools.count(2)))
                files = (self._record_dir / f"{name}{number}.gz" for number in numbers)
                next(file for file in files if not file.exists()).write_bytes(copy)
            except (V6tError, OSError, ValueError) as exc:  # the device is restored anyway
                _LOG.warning("%s: %s is not kept: %s", self.name, path, exc)

    def read_boot_id(self) -> str:
        """Return the boot identifier of the device; empty if the driver does not read it."""
        if (command := self.driver.get_survey_commands().get("boot")) is None:
            return ""
        result = self.transport.run(command)
        if result.status or not result.out.strip():
            problem = f"{self.name}: cannot read the boot identifier: {result.cause}"
            raise DutError(problem, code="unexpected-answer")
        return result.out.strip()

    @property
    def undo_hint(self) -> str:
        """Hint for messages: the commands that undo everything."""
        by_hand = f"by hand {self.state_transport.where}: sh {self.directory}/{undo_store.SCRIPT}"
        return f"`{self.rollback_command}`, or {by_hand}"

    @contextmanager
    def advise_rollback(self) -> Iterator[None]:
        """Add the hint that the device is still configured, with the undo commands, to any DutError."""
        try:
            yield
        except DutError as exc:
            if RESTORED_HINT not in exc.hint:  # a commit after a reboot was rolled back
                self._advised = exc
                exc.add_hint(self._configured_hint)
            raise

    @property
    def _configured_hint(self) -> str:
        return f"the device is still configured: {self.undo_hint}"

    @property
    def _netns(self) -> str:
        """Network namespace of the session on the device; empty: the machine's own."""
        return "" if (ssh := self.driver.options.ssh) is None else ssh.netns

    def _start_timer(self) -> None:
        if self.limit_s:
            self._store.start_timer(self.limit_s)
            self._timer_runs = True

    def _remove_record(self) -> None:
        self._store.stop_timer()
        self._store.remove()

    def _roll_back_or_advise(self, attempt: Callable[[], list[str]]) -> list[str]:
        """Roll back; raise DutError with the undo commands if changes may be left."""
        limit_s = self.limit_s if self._timer_runs else 0
        try:
            return self._retry_rollback(attempt, limit_s)
        except undo_store.DeviceNotRestoredError:
            raise
        except (V6tError, OSError) as exc:
            unreachable = DutError(f"{self.name}: {exc}", code="unreachable")
            cause = exc if isinstance(exc, V6tError) else unreachable
            timer = f"; its rollback timer acts after {limit_s:g} s of silence" if limit_s else ""
            problem = f"{cause.message}; changes of v6t may still be on the device{timer}"
            raise DutError(problem, self.undo_hint, code=cause.code) from exc

    def _retry_rollback(self, attempt: Callable[[], list[str]], limit_s: int) -> list[str]:
        """Roll back; after a lost connection, retry until the rollback timer must have acted."""
        if not self.is_lost:
            with contextlib.suppress(ConnectionLost, DeadlinePassed):
                return attempt()
        self.close()
        end = time.monotonic() + (limit_s + TIMER_MARGIN_S if limit_s else 0.0)
        reported = False
        while True:
            try:
                self.open()
                return attempt()
            except (ConnectionLost, DeadlinePassed, Unreachable, DeviceBusyError) as exc:
                self.close()
                if time.monotonic() > end:
                    raise
                if not reported:
                    text = "%s: %s; waiting for its rollback timer (after %g s of silence)"
                    _LOG.log(NOTICE, text, self.name, exc.message, limit_s)
                    reported = True
                time.sleep(RETRY_PAUSE_S)

    def _rollback_once(self, *, forget: bool, by_script: bool) -> list[str]:
        """Roll back over the open connection; see :meth:`rollback`."""
        try:
            record = self._store.read()
        except undo_store.DamagedRecordError:
            if not by_script:
                raise
            return self._rollback_by_script(forget=forget)
        if record is None:
            if not forget:
                self._check_restored()
            self._store.remove_local()
            return ["there is nothing to roll back"]
        if self._is_rebooted(record):
            self._remove_record()
            return [f"the device was rebooted since; no change of {record.owner} remains"]
        self._check_undoable(record)
        state = self._store.read_state()
        by_timer = ""
        if state.fired_message:
            _LOG.log(NOTICE, "%s: %s", self.name, state.fired_message)
            by_timer = " by the rollback timer"
        try:
            self._start_timer()  # the connection may also break during the rollback
        except undo_store.TimerNotStartedError as exc:
            _LOG.warning("%s; the rollback goes on", exc.message)
        result = self.undo_steps(record)
        left = [u for u in record.undo if f"left {u.number}" in result.out.splitlines()]
        if (result.status or left) and not forget:
            self.confirm()
            failed = "; ".join(f"{u.why}: {format_command(u.command, u.text)}" for u in left)
            failed = failed or f"status {result.status} of {undo_store.SCRIPT}"
            raise undo_store.DeviceNotRestoredError(
                f"{self.name}: some changes could not be undone: {failed}; the device reports "
                f"{shorten_output(result.err)}",
                f"{record.undo_command} {self.state_transport.where}, or `{self.rollback_command}`, tries "
                "again; `--forget` with it drops the undo record and leaves them as they are",
                code="device-not-restored",
            )
        try:
            different = self._find_differences(record)
        except DutError as exc:  # if the connection is lost, so is the next command
            if not forget:
                raise
            _LOG.warning("%s; the states are not compared", exc.message)
            different = {}
        if different and not forget:
            self.confirm()
            self._store.mark_for_undo(u.number for u in different)
            raise undo_store.DeviceNotRestoredError(
                f"{self.name}: rolled back, but with differences: "
                + "; ".join(f"{u.why}: {text}" for u, text in different.items()),
                f"the undo record stays: `{self.rollback_command}` tries these steps again; if "
                "another user changed them in the meantime, add `--forget` to leave them unchanged",
                code="device-not-restored",
            )
        self._remove_record()
        _LOG.log(NOTICE, "%s: rolled back the changes of %s", self.name, record.owner)
        lines = []
        for u in reversed(record.undo):
            outcome = f"undone{by_timer if u.number in state.undone_steps else ''}"
            outcome = "not undone" if u in left else outcome if u.command else "nothing to undo"
            lines += [] if u in different else [f"{u.why}: {outcome}"]
        return lines + [f"{u.why}: left unchanged: {text}" for u, text in different.items()]

    def _check_undoable(self, record: undo_store.UndoRecord) -> None:
        """Raise DeviceNotRestoredError if a record has another owner or network namespace."""
        if self._record is not None and record != self._record:
            problem = (
                f"{self.name}: {record.owner} has configured it since: the changes of this v6t "
            )
            problem += "are gone, and those of the other remain"
            hint = f"`{self.rollback_command}` would undo them"
            raise undo_store.DeviceNotRestoredError(problem, hint, code="changed-by-another-owner")
        if record.netns != self._netns:
            there, here = (
                f"network namespace '{netns}'" if netns else "the machine's own network namespace"
                for netns in (record.netns, self._netns)
            )
            problem = f"{self.name}: the changes are in {there}, but this session works in {here}"
            by_hand = f"{self.state_transport.where}: {record.undo_command}"
            hint = f"nothing was undone; correct dut.options.ssh.netns and repeat, or by hand {by_hand}"
            raise undo_store.DeviceNotRestoredError(problem, hint, code="device-not-restored")

    def _find_differences(self, record: undo_store.UndoRecord) -> dict[undo_store.UndoEntry, str]:
        """Return the steps whose state is not the old one, each with both states."""
        undone = [u for u in record.undo if u.before and u.command]
        states = self.read_states(u.state_command for u in undone)
        return {
            u: f"{shorten_output(u.old)} before, {shorten_output(text)} now"
            for u in undone
            if u.differs_from(text := states[u.state_command].text)
        }

    def _check_restored(self) -> None:
        """Raise DeviceNotRestoredError if changes of this run stay without a record on the device."""
        record = self._record or self._store.read_local()
        if record is None or self._is_rebooted(record):
            return
        if different := self._find_differences(record):
            script = f"{self.directory}/{undo_store.SCRIPT}"
            commands = "; ".join(format_command(u.command, u.text) for u in different)
            hint = f"undo them by hand: {commands}"
            if self._record_dir is not None:
                hint = (
                    f"copy {self._record_dir / undo_store.LOCAL_SCRIPT} to {script} "
                    f"{self.state_transport.where}, then run there: cd {self.directory} && "
                    f"seq {len(record.undo)} >{undo_store.PROGRESS} && sh {script}"
                )
            raise undo_store.DeviceNotRestoredError(
                f"{self.name}: the undo record is gone, but changes remain: "
                + "; ".join(f"{u.why}: {text}" for u, text in different.items()),
                f"{hint}; if another user changed them in the meantime, `{self.rollback_command} "
                "--forget` leaves them unchanged",
                code="device-not-restored",
            )

    def _is_rebooted(self, record: undo_store.UndoRecord) -> bool:
        """Return whether the device was rebooted since the commit, which undoes everything."""
        return bool(record.boot) and self.read_boot_id() not in ("", record.boot)

    def _rollback_by_script(self, *, forget: bool) -> list[str]:
        """Roll back with ``undo.sh`` if the record is damaged, without comparing states."""
        result = self._store.run_script(DAMAGED_RECORD_UNDO_LIMIT_S)
        if result.status and not forget:
            output = shorten_output(f"{result.out}\n{result.err}")
            problem = f"{self.name}: {undo_store.SCRIPT} could not undo all changes: {output}"
            hint = "`--forget` with it drops what is left of the record"
            raise undo_store.DeviceNotRestoredError(problem, hint, code="device-not-restored")
        self._remove_record()
        return [
            f"{undo_store.SCRIPT} has undone what it could; without a record nothing could be compared"
        ]

    def _rollback_failed_commit(self, cause: BaseException) -> None:
        """Roll back a failed commit, and add the outcome to the error of the commit."""
        try:
            self.rollback()
        except V6tError as exc:
            text = cause.message if isinstance(cause, V6tError) else f"{cause!r}"
            problem = f"{text}; and the device is not rolled back: {exc.message}"
            raise DutError(problem, exc.hint, code=exc.code) from cause
        if isinstance(cause, V6tError):
            cause.add_hint(RESTORED_HINT)
