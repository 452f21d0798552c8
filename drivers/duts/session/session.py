"""A session with one device, and its actions during a measurement."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from v6t.base.errors import DutError, UsageError
from v6t.base.log_levels import NOTICE
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.plan import Action, Check, DeviceChange, Intent, Step
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.session import telemetry
from v6t.drivers.duts.session.telemetry import Sample, TelemetryWatcher
from v6t.drivers.duts.session.transaction import Transaction
from v6t.drivers.transport import contract

_LOG = logging.getLogger(__name__)

FLUSH_TRIES = 100  # maximum number of read-backs after a flush
FLUSH_PAUSE_S = 0.1  # time between two read-backs after a flush
READS_PER_FLUSH = 10  # unsuccessful read-backs after which the state is flushed again
QUERY_LIMIT_S = 5.0  # time limit for a management query or a route update
REBOOT_COMMAND_DEADLINE_S = 10.0  # time limit for the command itself, not for the reboot
REBOOT_PAUSE_S = 1.0  # time between two attempts to log in after a reboot


class Session(Transaction, DeviceSession):
    """A session with one device; closing it does not roll back."""

    _route_update_count = 0  # number of route updates so far in this session

    def flush(self) -> None:
        with self.advise_rollback():
            for step in self.require_plan().flush:
                if step.reboots:
                    self._reboot_device(step)
                    continue
                self._empty_state(step)

    def reconfigure(self, action: Action) -> None:
        with self.advise_rollback():
            self._apply_change(self._live_change, action)

    def prepare_reconfiguration(self, action: Action) -> None:
        exists = bool(self.transport.run(self._live_change.show_command).out.strip())
        if exists and action != "remove":
            self.reconfigure("remove")
        if action == "change" or (action == "remove" and not exists):
            self.reconfigure("add")

    def update_routes(self) -> str:
        """Add the route of the plan or, on every second call, change it; return the command."""
        if (change := self.require_plan().route_update) is None:
            raise self._make_unsupported_error("change routes")
        self._route_update_count += 1
        action: Action = "add" if self._route_update_count % 2 else "change"
        return self._apply_change(replace(change, deadline_s=QUERY_LIMIT_S), action)

    @property
    def management_check(self) -> Check:
        """Management query of the plan or, if it has none, the read-back with the shortest answer."""
        if (query := self.require_plan().management_query or self.shortest_check) is None:
            problem = f"{self.name}: the answer of every read-back is longer than a frame"
            raise UsageError(problem, "leave the modifier out", code="unsupported-operation")
        return query

    def check_management_query(self) -> str:
        """Run the management query, check its output and return the command that was run."""
        check = self.management_check
        problem = check.find_problem(self.transport.run(check.command, "", QUERY_LIMIT_S).out)
        if problem is not None:
            raise DutError(f"{self.name}: {check.command}: {problem}", code="check-failed")
        return check.command

    def check_configured(self) -> None:
        if reason := self.find_interruption():
            text = f"{self.name}: {reason} while it was measured: it may no longer be configured"
            _LOG.log(NOTICE, "%s", text)  # the rollback may raise another error
            raise contract.ConnectionLost(text, self.undo_hint, code="check-failed")

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = {"kind": self.driver.name}
        if (facts := self.facts) is not None:
            before, after = facts.sections, self.configured_facts
            changed = {name: text for name, text in after.items() if text != before.get(name)}
            description |= {"system": facts.system, "version": facts.version}
            description |= {"facts": dict(before), "while_measured": changed}
        if (plan := self.plan) is not None:
            description["commands"] = [
                f"{s.command} <<< {s.text!r}" if s.text else s.command for s in plan.steps
            ]
            description["notes"] = list(plan.notes)
        description["profile"] = asdict(self.driver.get_header_profile(self.intent))
        return {**description, "device": self.name}

    def read_status(self) -> dict[str, Any]:
        record, state = self.read_record(), self._store.read_state()
        configured: dict[str, Any] | None = None
        if record is not None:
            begun = record.undo[: state.begun_steps]
            configured = {
                "owner": record.owner,
                "started": record.started,
                "steps": len(record.undo),
                "to_undo": sum(1 for entry in begun if entry.command),
                "begun": state.begun_steps,
                "verified": state.verified,
                "undone": len(state.undone_steps),
                "finished": state.verified and len(begun) == len(record.undo),
            }
        return {
            "device": self.name,
            "lock": state.lock_holder,
            "timer": state.fired_message if record else "",
            "rollback_in_s": state.remaining_s,
            "configured": configured,
            "driver": record and record.driver,
            "technology": record and record.technology,
            "undo": record.undo_command if record else "",
        }

    def read_counters(self) -> dict[str, dict[str, float]]:
        if self.read_status()["driver"] != self.driver.name:
            return {}
        self.survey()
        return self.read_telemetry()

    def read_telemetry(self) -> dict[str, dict[str, float]]:
        """Read all telemetry once; return the values by reading name and figure name."""
        readings = self.driver.get_telemetry_readings(self.intent)
        return {name: self._read_figures(reading) for name, reading in readings.items()}

    def _read_figures(self, reading: Reading | None) -> dict[str, float]:
        """Run the command of a reading and return its figures; empty without a reading."""
        return dict(reading.parse(self.transport.run(reading.command).out)) if reading else {}

    @property
    def timeout_s(self) -> float | None:
        return self.driver.get_timeout_s(self.intent)

    @property
    def counts_endpoints(self) -> bool:
        return self.driver.has_endpoint_independent_mapping(self.intent)

    def count_sessions(self) -> int | None:
        figures = self._read_figures(self.driver.get_session_reading(self.intent))
        return int(figures["sessions"]) if "sessions" in figures else None

    def read_limits(self) -> dict[str, float]:
        return self._read_figures(self.driver.get_table_limits_reading(self.intent))

    def get_sessions(self) -> list[tuple[str, Session]]:
        return [(self.name, self)]

    def start_watcher(self, *readings: str) -> TelemetryWatcher:
        """Start sampling the named readings, or all readings if none is named, once a second."""
        chosen = self.select_readings(readings)
        script = telemetry.build_watch_script(chosen, telemetry.WATCH_INTERVAL_S)
        process = self.transport.hold(script)
        return TelemetryWatcher(telemetry.read_samples(process, chosen), process.release)

    def select_readings(self, names: Sequence[str]) -> dict[str, Reading]:
        """Return the telemetry readings with these names, or all readings if there are no names."""
        readings = self.driver.get_telemetry_readings(self.intent)
        return {n: r for n, r in readings.items() if not names or n in names}

    def read_sample(self, readings: Mapping[str, Reading] | None = None) -> Sample:
        """Read one sample of readings, by default of all whose commands return at once."""
        if readings is None:
            known = self.driver.get_telemetry_readings(self.intent)
            readings = {name: reading for name, reading in known.items() if not reading.duration_s}
        commands = [reading.command for reading in readings.values()]
        return telemetry.parse_sample(self.read_batch(commands, binary=commands), readings)

    @property
    def _live_change(self) -> DeviceChange:
        """Change of the plan for use under traffic; raises DutError if the plan has none."""
        if (change := self.require_plan().live_change) is None:
            raise self._make_unsupported_error("change its configuration")
        return change

    def _apply_change(self, change: DeviceChange, action: Action) -> str:
        """Run the command of an action, check its effect and return the command."""
        result = self.run_tracked(change.get_command(action), "", change.deadline_s)
        if result.status:
            problem = f"{self.name}: {action} {change.description} failed: {result.cause}"
            raise DutError(problem, code="command-failed")
        output = self.transport.run(change.show_command, "", change.deadline_s).out
        if (problem := change.find_problem(action, output)) is not None:
            problem = f"{self.name}: {action} {change.description}: {problem}"
            raise DutError(problem, code="check-failed")
        return change.get_command(action)

    def _empty_state(self, step: Step) -> None:
        """Run a flush step until its check succeeds; raise DutError if it never does.

        Frames that wait in a device's queues open connections again after the first flush.
        """
        cause = ""
        for number in range(FLUSH_TRIES):
            if number % READS_PER_FLUSH == 0:
                result = self.run_tracked(step.command, step.text, step.deadline_s)
                if result.status or (step.silent and (result.out + result.err).strip()):
                    problem = f"{self.name}: {step.why}: '{step.command}' failed: {result.cause}"
                    raise DutError(problem, code="command-failed")
            if step.check is None:
                return
            output = self.transport.run(step.check.command).out
            if (mismatch := step.check.find_problem(output)) is None:
                return
            cause = f"{step.check.command}: {mismatch}"
            time.sleep(FLUSH_PAUSE_S)
        raise DutError(f"{self.name}: the state was not emptied: {cause}", code="check-failed")

    def _reboot_device(self, step: Step) -> None:
        boot = self.read_boot_id()
        try:
            self.transport.run(step.command, step.text, REBOOT_COMMAND_DEADLINE_S)
        except contract.DeviceTakenOver:
            raise
        except (contract.ConnectionLost, contract.DeadlinePassed):
            pass
        end = time.monotonic() + step.deadline_s
        cause: DutError | None = None
        while True:
            self.close()
            try:
                self.open()
                if self.read_boot_id() != boot:
                    break
                cause = None
            except DutError as exc:
                cause = exc
            if time.monotonic() > end:
                self.close()
                reason = "no login is possible" if cause else "it did not reboot"
                problem = f"{self.name}: {reason} within {step.deadline_s:g} s of the command"
                raise DutError(problem, "check its console", code="not-rebooted") from cause
            time.sleep(REBOOT_PAUSE_S)
        self.commit()


def make_device_session(
    driver: Driver, transport: contract.Transport, intent: Intent, *args: Any, **kwargs: Any
) -> Session:
    """Return an unopened session of the driver's session type; see :class:`Transaction`."""
    session: Session = (driver.session_type or Session)(driver, transport, intent, *args, **kwargs)
    return session
