"""One device from the first look to the last: survey, apply, verify, flush, restore."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import platform
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from v6t.base.errors import DutError, UsageError, V6tError
from v6t.base.log_levels import NOTICE
from v6t.drivers.duts import batch, guard, restoring
from v6t.drivers.duts.commands import Commands
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.lock import BEAT_S, PART, SILENCE_S, Lock, held_by
from v6t.drivers.duts.manifest import described, standing
from v6t.drivers.duts.plan import Action, Change, Check, Existing, Intent, Plan, Step, shown
from v6t.drivers.duts.store import Store
from v6t.drivers.duts.telemetry import Sample, Watcher, round_script, sample_of
from v6t.drivers.duts.undo_record import (
    PROGRESS,
    SCRIPT,
    Record,
    Undo,
    doing,
    undo_deadline_s,
    undo_of,
)
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, TakenOver, Transport

_LOG = logging.getLogger(__name__)

FLUSH_TRIES = 100
FLUSH_PAUSE_S = 0.1
ONE_FRAME = 1400
"""Octets that the answer to a management query may have."""
QUERY_DEADLINE_S = 5.0
REBOOT_PAUSE_S = 1.0


def restore_command(keep: Path | None) -> str:
    """The command that restores what a run with this directory has configured."""
    return "v6t dut restore" if keep is None else f"v6t dut restore {shlex.quote(str(keep))}"


class Session:
    """A device being driven. Opened once, closed always; closing restores nothing by itself."""

    def __init__(
        self,
        driver: Commands,
        transport: Transport,
        intent: Intent,
        keep: Path | None = None,
        again: str = "",
        part: str = "",
    ) -> None:
        """Remember; nothing is opened.

        Args:
            driver: what the device is.
            transport: the way to it.
            intent: what it shall be.
            keep: local directory for a copy of the undo record.
            again: the command that restores later; empty: by ``keep``.
            part: which of a chain it is; empty: the whole device.
        """
        self.driver = driver
        self.transport = driver.carried(transport)
        self.intent = intent
        self._keep = keep
        self._part = part
        self.again = again or restore_command(keep)
        self._directory: str = driver.options.state_dir
        self._lock: Lock | None = None
        self._limit_s: int = driver.options.undo_after_s if driver.options.ssh is not None else 0
        self._guarded = False
        self.facts: Facts | None = None
        self.plan: Plan | None = None
        self._configured: dict[str, str] = {}
        self._query: Check | None = None
        self._updates = 0
        self._record: Record | None = None

    @property
    def name(self) -> str:
        """Of the device, in messages."""
        return self.transport.name

    def open(self) -> None:
        """Connect and take the lock; from then on no command is run without it, but for what only watches."""
        self.transport.condition = ""
        self.transport.open()
        try:
            beat_s = min(BEAT_S, self._limit_s / 4 or BEAT_S)
            self._lock = Lock(self.transport, self._directory, self._owner(), beat_s)
            self.transport.condition = held_by(self._directory, self._owner())
        except BaseException:
            self.transport.close()
            raise

    def close(self) -> None:
        """Give lock and connection back. May be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self.transport.condition = ""
        self.transport.close()

    def survey(self) -> Facts:
        """Read what the device is."""
        read = self._read(self.driver.survey(), noted="")
        self.facts = self.driver.facts({name: part.text for name, part in read.items()})
        return self.facts

    def make_plan(self) -> Plan:
        """Survey, refuse or plan."""
        self.plan = self.driver.plan(self.intent, self.survey())
        return self.plan

    def pending(self) -> Record | None:
        """The record another run left, if any."""
        return self._store().read()

    def apply(self) -> Plan:
        """Make the device what the intent says; restore it if that fails.

        Raises:
            DutError: with what is left on the device, if anything, and how to undo it.
        """
        before = self.pending()
        if before is not None:
            _LOG.log(NOTICE, "%s: restoring what %s left", self.name, before.owner)
            self.restore()
        if not self._part:
            self._store().refuse_parts()
        facts = self.survey()
        plan = self.plan = self.driver.plan(self.intent, facts)
        old = self._before(plan)
        entries = [
            undo_of(number, step, old.get(number, "")) for number, step in enumerate(plan.steps, 1)
        ]
        record = Record(
            owner=self._owner(),
            boot=facts.boot,
            driver=self.driver.name,
            technology=self.intent.technology,
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            directory=self._directory,
            undo=tuple(entries),
            prelude=self.driver.prelude,
            deadline_s=undo_deadline_s(plan.steps),
            netns="" if self.driver.options.ssh is None else self.driver.options.ssh.netns,
        )
        self._record = record
        try:
            self._store().write(record)
            self.guard()
        except BaseException:  # Ctrl-C, too: nothing was changed yet, and no record shall say so
            with contextlib.suppress(DutError):
                self._store().remove()
            raise
        try:
            for number, step in enumerate(plan.steps, 1):
                self._do(step, number)
            technology = self.intent.technology
            _LOG.log(
                NOTICE, "%s: configured as %s in %d steps", self.name, technology, len(entries)
            )
        except BaseException as cause:
            self._undo_after(cause)
            raise
        return plan

    def verify(self) -> list[str]:
        """Read everything back.

        Returns:
            One line per check.

        Raises:
            DutError: the first thing that is not as it should be.
        """
        with self._telling():
            readbacks = self._verify()
        _LOG.log(NOTICE, "%s: %d read-backs agree", self.name, len(readbacks))
        return readbacks

    def _verify(self) -> list[str]:
        plan = self.plan or self.make_plan()
        checks = dict(enumerate(plan.all_checks))
        read = self._read(
            {
                **{str(n): check.command for n, check in checks.items()},
                **{f"now-{name}": command for name, command in self.driver.survey().items()},
            },
            noted="now-",
        )
        self._configured = {
            name.removeprefix("now-"): part.text for name, part in read.items() if name[0] == "n"
        }
        readbacks = []
        for number, check in checks.items():
            trouble = check.checker(read[str(number)].text)
            if trouble is not None:
                raise DutError(f"{self.name}: {check.command}: {trouble}", code="check-failed")
            readbacks.append(f"{check.command}: {' '.join(check.says.split())}")
        answers = {number: len(read[str(number)].text) for number in checks}
        short = [number for number, octets in answers.items() if 0 < octets <= ONE_FRAME]
        self._query = checks[min(short, key=answers.__getitem__)] if short else None
        return readbacks

    def flush(self) -> None:
        """Empty the device's state, and see that it is empty.

        Raises:
            DutError: it could not be emptied.
        """
        with self._telling():
            self._flush()

    def _flush(self) -> None:
        plan = self.plan or self.make_plan()
        for step in plan.flush:
            if step.reboots:
                self._reboot(step)
                continue
            command = doing(self._directory, step.set)
            done = self.transport.run(command, step.text, step.deadline_s)
            if done.status or (step.silent and (done.out + done.err).strip()):
                raise DutError(
                    f"{self.name}: {step.why}: '{step.set}' failed: {done.words}",
                    code="command-failed",
                )
            if step.check is not None:
                self._await(step.check)

    def reconfigure(self, action: Action) -> None:
        """Add, change or remove what the plan has beside the traffic, and read it back.

        Raises:
            DutError: it could not be done, or is not as it should be.
        """
        with self._telling():
            self._change(self._beside, action)

    def _change(self, change: Change, action: Action) -> str:
        command = doing(self._directory, change.command(action))
        done = self.transport.run(command, "", change.deadline_s)
        if done.status:
            raise DutError(
                f"{self.name}: {action} {change.what} failed: {done.words}", code="command-failed"
            )
        looked = self.transport.run(change.look, "", change.deadline_s)
        trouble = change.wrong(action, looked.out)
        if trouble is not None:
            raise DutError(f"{self.name}: {action} {change.what}: {trouble}", code="check-failed")
        return change.command(action)

    def update_routes(self) -> str:
        """Bring the routing table into its other state, and read it back.

        Raises:
            DutError: it could not be done, or is not as it should be.
        """
        change = (self.plan or self.make_plan()).updates
        if change is None:
            raise DutError(
                f"{self.name}: the driver cannot change routes under traffic",
                code="unsupported-operation",
            )
        self._updates += 1
        soon = replace(change, deadline_s=QUERY_DEADLINE_S)
        return self._change(soon, "add" if self._updates % 2 else "change")

    @property
    def question(self) -> Check:
        """The read-back with the shortest answer, as :meth:`verify` found it.

        Raises:
            UsageError: none fits into one frame.
        """
        query = (self.plan or self.make_plan()).asked
        if query is not None:
            return query
        if self._query is None:
            raise UsageError(
                f"{self.name}: no read-back's answer fits into one frame",
                "leave the modifier out",
                code="unsupported-operation",
            )
        return self._query

    def query(self) -> str:
        """Ask that, and check the answer (RFC 2544 section 11.2).

        Raises:
            DutError: the answer is wrong, or none came.
        """
        check = self.question
        trouble = check.checker(self.transport.run(check.command, "", QUERY_DEADLINE_S).out)
        if trouble is not None:
            raise DutError(f"{self.name}: {check.command}: {trouble}", code="check-failed")
        return check.command

    def ready_for(self, action: Action) -> None:
        """Make the device what it must be before an action, whatever was done to it before."""
        there = bool(self.transport.run(self._beside.look).out.strip())
        if there and action != "remove":
            self.reconfigure("remove")
        if action == "change" or (action == "remove" and not there):
            self.reconfigure("add")

    @property
    def _beside(self) -> Change:
        change = (self.plan or self.make_plan()).beside
        if change is None:
            raise DutError(
                f"{self.name}: the driver cannot change the device under traffic",
                code="unsupported-operation",
            )
        return change

    def _reboot(self, step: Step) -> None:
        """Start the device anew, wait for a login, configure it again."""
        before = self.boot()
        try:
            self.transport.run(step.set, step.text, 10.0)
        except TakenOver:
            raise
        except (ConnectionLost, DeadlinePassed):
            pass
        self.close()
        end = time.monotonic() + step.deadline_s
        while True:
            try:
                self.open()
                if self.boot() != before:
                    break
                self.close()
            except DutError as exc:
                self.close()
                if time.monotonic() > end:
                    raise DutError(
                        f"{self.name}: no login within {step.deadline_s:g} s of its reboot",
                        "look at its console",
                        code="not-rebooted",
                    ) from exc
            if time.monotonic() > end:
                raise DutError(
                    f"{self.name}: it did not reboot within {step.deadline_s:g} s",
                    code="not-rebooted",
                )
            time.sleep(REBOOT_PAUSE_S)
        self.apply()

    def guard(self) -> None:
        """From now on the device undoes everything when it has not heard of us for long."""
        if self._limit_s:
            guard.start(self.transport, self._directory, self._limit_s)
            self._guarded = True

    @property
    def guarded_s(self) -> int:
        """After how many seconds of silence the device undoes everything by itself; 0: never."""
        return self._limit_s if self._guarded else 0

    @property
    def lost(self) -> bool:
        """Whether the lock, and with it the connection, is gone as far as is known."""
        return self._lock is None or self._lock.silent_s == float("inf")

    def is_others(self, record: Record) -> bool:
        """Whether somebody else has configured the device since this session did."""
        return self._record is not None and record != self._record

    def keep(self) -> None:
        """The configuration stays, whatever becomes of this session."""
        guard.stop(self.transport, self._directory)
        self._guarded = False

    def check_held(self) -> None:
        """See that the device can still be what it was made.

        Raises:
            DutError: nobody was heard of for so long that it may have undone everything, or the
                connection is lost, or it does not answer now: what was measured may be of a device
                that has been started anew.
        """
        silent, heard = float("inf"), False
        if self._lock is not None:
            heard = self._lock.await_sign(self._limit_s or SILENCE_S)
            silent = self._lock.silent_s
        if heard and silent < (self._limit_s or float("inf")):
            return
        why = "the connection was lost" if silent == float("inf") else f"{silent:.0f} s of silence"
        text = f"{self.name}: {why} while it was measured: it may no longer be configured"
        _LOG.log(NOTICE, "%s", text)  # restoring it may raise an error of its own
        raise ConnectionLost(text, self.undo_hint, code="check-failed")

    def restore(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        """Put everything back, over a new connection if need be; nothing to do is fine.

        Args:
            forget: drop the undo record even if the device is not as it was.
            by_script: run ``undo.sh`` where the record beside it is damaged.

        Returns:
            What was done, one line each.

        Raises:
            DutError: something is left; the message says what and how to undo it.
        """
        again = partial(restoring.restore, self, self._store(), forget=forget, by_script=by_script)
        try:
            done = again()
        except KeyboardInterrupt:  # whoever stops the work does not want half of this
            again()
            raise
        self._guarded = False
        return done

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        description = described(self.driver, self.intent, self.facts, self.plan, self._configured)
        return {**description, "device": self.name}

    def status(self) -> dict[str, Any]:
        """Who holds it and what is configured."""
        record = self.pending()
        timer = guard.fired(self.transport, self._directory) if record is not None else ""
        return {"device": self.name, "timer": timer, **standing(record)}

    def figures(self) -> dict[str, dict[str, float]]:
        """What it says of itself now, by reading; empty where this driver has not configured it."""
        if self.status()["driver"] != self.driver.name:
            return {}
        self.survey()
        readings = self.driver.telemetry(self.intent)
        return {n: dict(r.parse(self.transport.run(r.command).out)) for n, r in readings.items()}

    def state(self) -> SessionState:
        """How its connections are emptied and counted."""
        return SessionState(self)

    def devices(self) -> list[tuple[str, Session]]:
        """This one."""
        return [(self.name, self)]

    def watcher(self, *readings: str) -> Watcher:
        """Watch it once a second, from now on."""
        known = self.driver.telemetry(self.intent)
        chosen = {name: known[name] for name in readings if name in known} if readings else known
        return Watcher(self.transport, chosen)

    def read(self) -> Sample:
        """Read it once, now."""
        known = self.driver.telemetry(self.intent)
        brief = {name: reading for name, reading in known.items() if not reading.lasts_s}
        return sample_of(self.transport.run(round_script(brief)).out, brief)

    def _store(self) -> Store:
        return Store(self.transport, self._directory, self._keep, self.again)

    def _owner(self) -> str:
        part = f"{PART}{self._part}" if self._part else ""
        return f"{getpass.getuser()}@{platform.node()} process {os.getpid()}{part}"

    def _read(
        self, commands: Mapping[str, str], noted: str | None = None
    ) -> dict[str, batch.Section]:
        """Run commands that change nothing, all in one round trip.

        Args:
            commands: by name.
            noted: how names of those begin whose answers may hold any octets; None: no answer may.
        """
        if not commands:
            return {}
        done = self.transport.run(batch.script(commands))
        sections = batch.read(done.out)
        for name, command in commands.items():
            if name not in sections or sections[name].status is None:
                raise ConnectionLost(
                    f"{self.name}: an answer is incomplete: {command[:160]}: {done.words}",
                    code="connection-lost",
                )
            odd = "\\x" in sections[name].text and not done.clean
            if odd and (noted is None or not name.startswith(noted)):
                raise DutError(
                    f"{self.name}: the answer to '{command[:160]}' is no plain text: "
                    f"{shown(sections[name].text)}",
                    code="unexpected-answer",
                )
        return sections

    def _before(self, plan: Plan) -> dict[int, str]:
        """What is to be restored, by step."""
        steps = {n: step for n, step in enumerate(plan.steps, 1) if step.before}
        read = self._read({str(n): step.before for n, step in steps.items()})
        for number, step in steps.items():
            part = read[str(number)]
            if part.status:
                raise DutError(
                    f"{self.name}: cannot read the state to restore (status {part.status})",
                    f"nothing was changed; the command was: {step.before}",
                    code="command-failed",
                )
            if step.existing is Existing.REFUSE and part.text.strip():
                raise DutError(
                    f"{self.name}: not v6t's own, in the way of '{step.why}': {shown(part.text)}",
                    "nothing was changed; remove it yourself if it is not needed",
                    code="foreign-configuration",
                )
        return {n: read[str(n)].text for n in steps}

    def _do(self, step: Step, number: int) -> None:
        place = shlex.quote(f"{self._directory}/{PROGRESS}")
        lines = [
            f"(umask 077; echo {number} >>{place}) || exit 125",
            doing(self._directory, step.set),
        ]
        if step.check is not None:
            lines += [f"echo; echo '{batch.MARK} check'", f"( {step.check.command}", ")", "true"]
        done = self.transport.run("\n".join(lines), step.text, step.deadline_s)
        output, _, answer = done.out.partition(f"\n{batch.MARK} check\n")
        text = (output + done.err).strip()
        if done.status or (step.silent and text):
            words = text.splitlines()[-1] if text else f"status {done.status}"
            command = step.set.splitlines()[0][:160]
            raise DutError(
                f"{self.name}: {step.why}: '{command}' failed: {words}", code="command-failed"
            )
        trouble = step.check.checker(answer) if step.check else None
        if step.check and trouble is not None:
            raise DutError(
                f"{self.name}: {step.why}: {step.check.command}: {trouble}",
                done.err.strip().splitlines()[-1] if done.err.strip() else "",
                code="check-failed",
            )

    def _await(self, check: Check) -> None:
        trouble: str | None = ""
        for _ in range(FLUSH_TRIES):
            trouble = check.checker(self.transport.run(check.command).out)
            if trouble is None:
                return
            time.sleep(FLUSH_PAUSE_S)
        raise DutError(
            f"{self.name}: the state was not emptied: {check.command}: {trouble}",
            code="check-failed",
        )

    def boot(self) -> str:
        """Identifier of the device's present boot."""
        sections = self.driver.survey()
        return self.transport.run(sections["boot"]).out.strip() if "boot" in sections else ""

    def differences(self, record: Record) -> dict[Undo, str]:
        """Steps whose state is not what it was, with both."""
        commands = {str(u.number): u.look for u in record.undo if u.before and u.command}
        read = self._read(commands)
        return restoring.differing(record, {number: read[number].text for number in commands})

    @property
    def undo_hint(self) -> str:
        """How everything is undone."""
        by_hand = f"by hand {self.transport.where}: sh {self._directory}/{SCRIPT}"
        return f"`{self.again}`, or {by_hand}"

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Errors say that the device is still configured, and how that ends."""
        try:
            yield
        except DutError as exc:
            exc.advise(f"the device is still configured: {self.undo_hint}")
            raise

    def _undo_after(self, cause: BaseException) -> None:
        """Restore after a failure; or say what is left."""
        try:
            self.restore()
        except V6tError as exc:
            text = cause.message if isinstance(cause, V6tError) else f"{cause!r}"
            raise DutError(
                f"{text}; and the device is not restored: {exc.message}", exc.hint, code=exc.code
            ) from cause
        if isinstance(cause, V6tError):
            cause.advise("the device is as it was before")


class SessionState:
    """See :class:`v6t.drivers.device.StateDevice`."""

    def __init__(self, session: Session) -> None:
        """Combine.

        Args:
            session: open and applied.
        """
        self._session = session
        self.timeout_s: float | None = session.driver.timeout_s(session.intent)
        self.by_endpoint: bool = session.driver.by_endpoint(session.intent)

    def flush(self) -> None:
        """Empty the table; the driver sees that it is empty."""
        self._session.flush()

    def sessions(self) -> int | None:
        """The device's own count."""
        reading = self._session.driver.sessions(self._session.intent)
        if reading is None:
            return None
        counters = reading.parse(self._session.transport.run(reading.command).out)
        count = counters.get("sessions")
        return None if count is None else int(count)

    def table(self) -> dict[str, float]:
        """What limits the table, by the device's own names; empty: it does not tell."""
        session = self._session
        reading = session.driver.table(session.intent)
        if reading is None:
            return {}
        return dict(reading.parse(session.transport.run(reading.command).out))
