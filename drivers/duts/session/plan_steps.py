"""Steps of a plan in a session: their scripts, undo entries, comparison and display."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.plan import ACTIONS, Check, Expectation, IfExists, Plan, Step, shorten_output
from v6t.drivers.duts.session import shell
from v6t.drivers.duts.session.undo_store import PROGRESS, UNDO_LIMIT_S, UndoEntry
from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.redaction import shorten_command


class StepState(str, Enum):
    """Whether a step of a plan is already in effect on the device."""

    PRESENT = "present"
    PENDING = "to change"
    FOREIGN = "belongs to another owner"
    UNKNOWN = "has no read-back"


@dataclass(frozen=True)
class StepComparison:
    """Result of comparing the device with a step of the plan, or with a check outside the steps."""

    number: int  # number of the step from 1; 0 for a check outside the steps
    why: str  # purpose of the step or check
    state: StepState
    found: str = ""  # part of the output that differs from the expectation
    wanted: str = ""  # text that is expected in place of ``found``

    @property
    def differs(self) -> bool:
        """Whether a commit would change the device or be refused."""
        return self.state in (StepState.PENDING, StepState.FOREIGN)


def make_undo_entries(
    plan: Plan, states: Mapping[str, shell.Section], device: str
) -> tuple[UndoEntry, ...]:
    """Return the undo entries of all steps; raise DutError if a state is unreadable or foreign."""
    entries = []
    for number, step in enumerate(plan.steps, 1):
        section = states.get(step.record_command, shell.Section("", 0))
        if section.status:
            problem = f"{device}: cannot read the state to restore (status {section.status})"
            hint = (
                f"nothing was changed; the command was: {step.record_command}; "
                "it must exit with 0 also if the object does not exist"
            )
            raise DutError(problem, hint, code="command-failed")
        if step.existing is IfExists.REFUSE and section.text.strip():
            old = shorten_output(section.text)
            problem = f"{device}: configuration that v6t did not make prevents '{step.why}': {old}"
            hint = "nothing was changed; remove it yourself if it is not needed"
            raise DutError(problem, hint, code="foreign-configuration")
        entries.append(make_undo_entry(number, step, section.text))
    return tuple(entries)


def make_undo_entry(number: int, step: Step, old: str) -> UndoEntry:
    """Return the undo entry of a step, given the state before the step is run."""
    # an object that is as expected is not changed by the step
    command = "" if step.existing is IfExists.KEEP and old.strip() else step.undo
    words = " ".join(map(shlex.quote, old.split()))
    values = {"{old}": shlex.quote(old.rstrip("\n")), "{words}": words}
    # in one pass: the old state may contain a placeholder
    command = re.sub(r"\{old\}|\{words\}", lambda match: values[match.group()], command)
    text = step.undo_text.replace("{old}", old) if command else ""
    return UndoEntry(number, step.why, command, text, step.record_command, old, step.gone_test)


def compute_undo_limit_s(steps: Iterable[Step]) -> float:
    """Return the time limit for undoing steps [s].

    Each slow step adds its own limit; all other steps share one.
    """
    slow = (s.deadline_s for s in steps if s.undo and s.deadline_s > Step.deadline_s)
    return UNDO_LIMIT_S + sum(slow)


def build_step_script(step: Step, number: int, directory: str) -> str:
    """Return a script that records that a step has begun, runs the step and prints its read-back."""
    progress = shlex.quote(f"{directory}/{PROGRESS}")
    lines = [f"(umask 077; echo {number} >>{progress}) || exit 125"]
    lines.append(shell.build_tracked_command(directory, step.command))
    if step.check is not None:
        heading = f"{shell.SECTION_HEADING} check"
        lines.append(f"echo; echo '{heading}'\n( {step.check.command}\n)\ntrue")
    return "\n".join(lines)


def check_step_output(step: Step, result: Output, device: str) -> None:
    """Raise DutError if the script of :func:`build_step_script` failed or its read-back is wrong."""
    output, _, answer = result.out.partition(f"\n{shell.SECTION_HEADING} check\n")
    text = (output + result.err).strip()
    if result.status or (step.silent and text):
        reason = text.splitlines()[-1] if text else f"status {result.status}"
        problem = f"{device}: {step.why}: '{shorten_command(step.command.splitlines()[0])}' failed: {reason}"
        raise DutError(problem, code="command-failed")
    problem = step.check.find_problem(answer) if step.check else None
    if step.check and problem is not None:
        problem = f"{device}: {step.why}: {step.check.command}: {problem}"
        hint = result.err.strip().splitlines()[-1] if result.err.strip() else ""
        raise DutError(problem, hint, code="check-failed")


def compare_plan(
    plan: Plan,
    read_batch: Callable[[Iterable[str]], Mapping[str, shell.Section]],
    entries: Iterable[UndoEntry],
) -> list[StepComparison]:
    """Return the state of each step and check of a plan.

    Args:
        read_batch: runs read-only commands and returns the output of each.
        entries: of the undo record that v6t has made for the same driver and technology.
    """
    checks = [*(step.proof for step in plan.steps if step.proof), *plan.checks]
    commands = [*(step.read for step in plan.steps if step.read), *(c.command for c in checks)]
    answers = read_batch(commands)
    recorded = {(u.number, u.why, u.before) for u in entries if u.command}
    comparisons = []
    for number, step in enumerate(plan.steps, 1):
        present = answers[step.read].text if step.read else ""
        is_own = (number, step.why, step.record_command) in recorded
        if step.existing is IfExists.REFUSE and present.strip() and not is_own:
            state = (StepState.FOREIGN, shorten_output(present), "nothing")
        elif step.expected is not None:
            state = _compare_output(step.expected, present)
        elif step.proof is not None:
            state = _compare_output(step.proof.expected, answers[step.proof.command].text)
        else:
            state = (StepState.UNKNOWN, "", "")
        comparisons.append(StepComparison(number, step.why, *state))
    for check in plan.checks:
        state = _compare_output(check.expected, answers[check.command].text)
        comparisons.append(StepComparison(0, check.expected.description, *state))
    return comparisons


def _compare_output(expected: Expectation, output: str) -> tuple[StepState, str, str]:
    """Return the state of a step, and the parts of the output and the expectation that differ."""
    difference = expected.describe_difference(output)
    return (StepState.PENDING, *difference) if difference else (StepState.PRESENT, "", "")


def format_comparison(comparisons: Iterable[StepComparison], *, with_equal: bool) -> list[str]:
    """Format comparisons as lines for users; ``with_equal`` includes steps that do not differ."""
    lines = []
    for d in comparisons:
        number = f"{d.number}. " if d.number else ""
        lines += [f"{number}{d.why}: {d.state.value}"] if with_equal or d.differs else []
        lines += [f"    found {d.found}", f"    wanted {d.wanted}"] if d.differs else []
    return lines


def format_plan(driver: Driver, plan: Plan) -> str:
    """Format a plan as text for users: each command with its reason, undo command and check."""
    title = f"# {driver.title}" + (f", version {plan.version}" if plan.version else "")
    lines = [title, f"# executed: {driver.test_status}", *(f"# note: {n}" for n in plan.notes)]
    for number, step in enumerate(plan.steps, 1):
        lines += ["", f"# {number}. {step.why}", shell.format_command(step.command, step.text)]
        check = step.check
        if step.record_command and check is not None and check.command == step.record_command:
            title = f"read ({step.existing.value})"
            lines += _format_comment(title, f"{check.command}  -> {check.expected.description}")
            check = None
        elif step.record_command:
            lines.append(f"#    before ({step.existing.value}): {step.record_command}")
        if step.undo:
            lines += _format_comment("undo", shell.format_command(step.undo, step.undo_text))
        lines += _format_checks([check] if check else [])
    if plan.checks:
        lines += ["", "# after the configuration", *_format_checks(plan.checks)]
    if plan.flush:
        lines += ["", "# between trials"]
        for step in plan.flush:
            check = [step.check] if step.check else []
            lines += [shell.format_command(step.command, step.text), *_format_checks(check)]
    else:
        lines += ["", "# between trials: nothing, it is stateless"]
    if change := plan.live_change:
        how = f" ({change.note})" if change.note else ""
        lines += ["", f"# under traffic: {change.description} in addition{how}"]
        for action in ACTIONS:
            lines += [f"#    {action}", change.get_command(action)]
        lines += _format_comment("check", change.show_command)
    if update := plan.route_update:
        lines += ["", f"# under traffic, in turn: {update.description} changes its next hop"]
        lines += [update.add_command, update.change_command]
        lines += _format_comment("check", update.show_command)
    return re.sub(r"\{old\}|\{words\}", "<as it was>", "\n".join(lines))


def export_plan(driver: Driver, plan: Plan) -> dict[str, Any]:
    """Return a plan as a dictionary of JSON values."""
    data: dict[str, Any] = {
        "driver": plan.driver,
        "version": plan.version,
        "executed": driver.test_status,
        "steps": [
            {
                "command": s.command,
                "why": s.why,
                "text": s.text,
                "undo": s.undo,
                "undo_text": s.undo_text,
                "before": s.record_command,
                "was": s.existing.value,
                "check": s.check
                and {"command": s.check.command, "says": s.check.expected.description},
            }
            for s in plan.steps
        ],
        "checks": [{"command": c.command, "says": c.expected.description} for c in plan.checks],
        "flush": [s.command for s in plan.flush],
        "notes": list(plan.notes),
    }
    if plan.live_change:
        commands = {action: plan.live_change.get_command(action) for action in ACTIONS}
        data["beside"] = {"what": plan.live_change.description, **commands}
    if plan.route_update:
        data["updates"] = [plan.route_update.add_command, plan.route_update.change_command]
    return data


def _format_checks(checks: Iterable[Check]) -> list[str]:
    texts = (f"{c.command}  -> {c.expected.description}" for c in checks)
    return [line for text in texts for line in _format_comment("check", text)]


def _format_comment(title: str, text: str) -> list[str]:
    first, *more = text.splitlines()
    return [f"#    {title}: {first}", *(f"#      {line}" for line in more)]
