"""The device under test by itself: plan, apply, verify, status, flush, restore."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import DutError, TesterError, TranslationError, UsageError
from v6t.base.log_levels import NOTICE
from v6t.core.config.bound import BoundRun

if TYPE_CHECKING:
    from v6t.drivers.device import DeviceSession
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.duts.plan import Check, Plan
    from v6t.drivers.duts.standing.ssh import LabSsh

_LOG = logging.getLogger(__name__)


def plan_without_device(bound: BoundRun) -> tuple[Driver, Plan]:
    """What the driver would do to a device as it should be, before the first change.

    Raises:
        UsageError: there is no driver, or it cannot be this technology.
    """
    return bound.driver, bound.driver.plan(bound.intent, bound.driver.example(bound.intent))


def plan_text(driver: Driver, plan: Plan) -> str:
    """A plan as one reads it: every command with its reason, its undo and its check."""
    from v6t.drivers.duts.plan import ACTIONS
    from v6t.drivers.duts.undo_record import here_document

    lines = [f"# {driver.title}" + (f", version {plan.version}" if plan.version else "")]
    lines += [f"# executed: {driver.executed}"]
    lines += [f"# note: {note}" for note in plan.notes]
    for number, step in enumerate(plan.steps, 1):
        lines += ["", f"# {number}. {step.why}"]
        lines.append(here_document(step.set, step.text) if step.text else step.set)
        check = step.check
        if step.before and check and check.command == step.before:
            lines += _commented(f"read ({step.existing.value})", f"{step.before}  -> {check.says}")
            check = None
        elif step.before:
            lines.append(f"#    before ({step.existing.value}): {step.before}")
        if step.undo:
            lines += _commented("undo", here_document(step.undo, step.undo_text)
                                if step.undo_text else step.undo)  # fmt: skip
        if check:
            lines += _commented("check", f"{check.command}  -> {check.says}")
    lines += _checked(plan.checks)
    if plan.flush:
        lines += ["", "# between trials"]
        for step in plan.flush:
            lines.append(here_document(step.set, step.text) if step.text else step.set)
            if step.check:
                lines += _commented("check", f"{step.check.command}  -> {step.check.says}")
    else:
        lines += ["", "# between trials: nothing, it keeps no state"]
    if plan.beside is not None:
        lines += [
            "",
            f"# under traffic: {plan.beside.what} beside it"
            + (plan.beside.how and f" ({plan.beside.how})"),
        ]
        for action in ACTIONS:
            lines += [f"#    {action}", plan.beside.command(action)]
        lines += _commented("check", plan.beside.look)
    if plan.updates is not None:
        lines += ["", f"# under traffic, in turn: {plan.updates.what} is moved"]
        lines += [plan.updates.add, plan.updates.change]
        lines += _commented("check", plan.updates.look)
    text = "\n".join(lines)
    return text.replace("{old}", "<as it was>").replace("{words}", "<as it was>")


def plan_json(driver: Driver, plan: Plan) -> dict[str, Any]:
    """The same for programs."""
    from v6t.drivers.duts.plan import ACTIONS

    return {
        "driver": plan.driver,
        "version": plan.version,
        "executed": driver.executed,
        "steps": [
            {
                "command": s.set,
                "why": s.why,
                "text": s.text,
                "undo": s.undo,
                "undo_text": s.undo_text,
                "before": s.before,
                "was": s.existing.value,
                "check": s.check and {"command": s.check.command, "says": s.check.says},
            }
            for s in plan.steps
        ],
        "checks": [{"command": c.command, "says": c.says} for c in plan.checks],
        "flush": [s.set for s in plan.flush],
        **(
            {"beside": {"what": plan.beside.what, **{a: plan.beside.command(a) for a in ACTIONS}}}
            if plan.beside
            else {}
        ),
        **({"updates": [plan.updates.add, plan.updates.change]} if plan.updates else {}),
        "notes": list(plan.notes),
    }


@contextmanager
def session(
    bound: BoundRun, keep: Path | None = None, *, partly: bool = False
) -> Iterator[DeviceSession]:
    """An open session with a device elsewhere, or with a lab device that stands.

    Args:
        bound: whose device.
        keep: local directory for a copy of the undo record.
        partly: machines of the lab that do not stand any more are left out.

    Raises:
        UsageError: this device exists during a run only.
        DutError: it cannot be reached.
    """
    opened = _session(bound, keep, partly=partly)
    opened.open()
    try:
        yield opened
    finally:
        opened.close()


def apply(bound: BoundRun) -> str:
    """Configure, read back; it stays so, or it is put back."""
    done = ""
    try:
        with session(bound) as device:
            device.apply()
            try:
                device.verify()
                device.keep()
            except BaseException:  # Ctrl-C, too
                device.restore()
                raise
            done = f"{device.name} is configured and stays so; `{bound.again}` takes it back"
    except KeyboardInterrupt:
        if done:  # it came too late
            _LOG.log(NOTICE, "%s", done)
        raise
    return done


def verify(bound: BoundRun) -> str:
    """Read everything back and send some frames each way, which must come back translated.

    Raises:
        DutError: something reads back wrongly.
        TranslationError: a frame came back wrong, or not.
    """
    from v6t.core.runs.bench import Bench, compile_point
    from v6t.core.runs.stateful import for_preflight, preflight_mode
    from v6t.procedures.preflight import check_translation

    _check(bound)
    run, plugin = bound.settings, bound.technology
    sizes = plugin.sizes_of(run.frame_sizes[0])
    bench = Bench(bound)
    try:
        bench.load(compile_point(plugin, sizes, run.seed))
        finding = check_translation(
            for_preflight(plugin, bench.measure),
            ipv6_frame_size=sizes.ipv6,
            ipv4_frame_size=sizes.ipv4,
            mix=sizes.mix,
            mode=preflight_mode(plugin),
        )
        if not bench.verify_device():
            raise DutError(
                "the driver did not read back the configuration of the device", code="no-read-back"
            )
    finally:
        bench.close()
    if finding is not None and finding.tester:
        raise TesterError(
            f"the tester cannot even send a few frames: {finding.why}", code="tester-fault"
        )
    if finding is not None:
        raise TranslationError(
            f"the device is configured, but {finding.direction or 'a'} frames are wrong: "
            f"{finding.why}",
            "`v6t run` shows the expected and the received frame side by side",
            code="translation-incorrect",
        )
    if plugin.exchange == "queries":
        return "queries were answered rightly; the device is as it was"
    return "frames came back as the reference translation both ways; the device is as it was"


def status(bound: BoundRun) -> dict[str, Any]:
    """Who configured it, and what it says of itself now."""
    with session(bound) as device:
        answer = device.status()
        now = device.figures()
        return {**answer, "now": now} if now else answer


def flush(bound: BoundRun) -> str:
    """Empty its state."""
    with session(bound) as device:
        device.make_plan()
        device.flush()
        return f"{device.name} keeps no session"


def restore(
    bound: BoundRun,
    *,
    keep: Path | None = None,
    forget: bool = False,
    by_script: bool = False,
) -> list[str]:
    """Put it back as it was, from any host, after whatever happened.

    Args:
        bound: whose device.
        keep: the run's directory, which holds a copy of the undo record.
        forget: drop the undo record even if the device is not as it was.
        by_script: run ``undo.sh`` where the record beside it is damaged.
    """
    labs = _labs(bound)
    gone = [lab.name for lab in labs if not lab.running()]
    elsewhere = [ssh for ssh in bound.driver.logins(bound.intent) if ssh is not None and ssh.host]
    if labs and len(gone) == len(labs) and not elsewhere:
        return ["there is no such lab device; nothing is left of it"]
    for name in gone:
        _LOG.log(NOTICE, "the lab device %s does not stand any more; nothing is left of it", name)
    device = _session(bound, keep, partly=True)
    try:
        if not bound.driver.of_parts:  # of several each is reached by itself, as far as it can be
            device.open()
        told = device.restore(forget=forget, by_script=by_script)
    finally:
        device.close()
    for lab in labs:  # one that is in use, or not as it was, stays
        lab.stop()
    return told


def any_plugin(driver: str) -> str | None:
    """A technology that a driver's device can be, where it does not matter which; None: it does."""
    from v6t.core.config.compatibility import technologies_for
    from v6t.core.config.plugins import names
    from v6t.drivers.duts.registry import driver_type
    from v6t.drivers.duts.registry import names as drivers

    if driver not in drivers() or driver_type(driver).of_parts:
        return None
    possible = technologies_for(driver) or names()
    return next((name for name in possible if name in names()), None)


def _check(bound: BoundRun) -> None:
    if not bound.driver.configures:
        raise UsageError(
            "the reference device needs no configuration",
            "name a driver with --driver",
            code="missing-driver",
        )


def _labs(bound: BoundRun) -> list[LabSsh]:
    """The lab's devices that have an sshd of their own, whether they stand or not."""
    _check(bound)
    logins = bound.driver.logins(bound.intent)
    names = dict.fromkeys(ssh.lab for ssh in logins if ssh is not None and ssh.lab)
    if not names:
        return []
    from v6t.drivers.duts.standing.ssh import LabSsh

    return [LabSsh(name) for name in names]


def _session(bound: BoundRun, keep: Path | None, *, partly: bool) -> DeviceSession:
    from v6t.drivers.duts.standing.ssh import standing

    driver, labs = bound.driver, _labs(bound)
    if bound.tester.in_lab and all(ssh is None for ssh in driver.logins(bound.intent)):
        raise UsageError(
            "the lab's device exists during a run only",
            "`v6t dut verify` makes one and proves it; a device elsewhere needs dut.options.ssh",
            code="missing-device",
        )
    gone = [lab.name for lab in labs if not lab.running()]
    if gone and not partly:
        raise UsageError(
            f"the lab device {' and '.join(gone)} does not stand",
            "it stands while a run uses it",
            code="missing-device",
        )
    session = driver.session(bound.intent, keep, bound.again, standing)
    if session is None:
        raise UsageError(
            "no driver is configured for this device",
            "name a driver with --driver",
            code="missing-driver",
        )
    return session


def as_json(value: Any) -> str:
    """For ``--json``."""
    return json.dumps(value, indent=1, sort_keys=True)


def _checked(checks: Sequence[Check]) -> list[str]:
    """Read-backs that belong to no step."""
    lines = ["", "# besides, when it is configured"] if checks else []
    for check in checks:
        lines += _commented("check", f"{check.command}  -> {check.says}")
    return lines


def _commented(what: str, text: str) -> list[str]:
    first, *more = text.splitlines()
    return [f"#    {what}: {first}", *(f"#      {line}" for line in more)]
