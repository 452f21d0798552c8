"""Plans of device drivers, and verdicts of audits."""

import functools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from v6t.audit import auditor
from v6t.audit.packet_device.build import build_device
from v6t.base.errors import EnvironmentLacking, UsageError, V6tError
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.warnings import list_result_warnings
from v6t.drivers.duts.plan import ACTIONS, Check, DeviceChange, IfExists, Plan
from v6t.drivers.duts.registry import list_driver_names, load_driver_type, make_driver
from v6t.packets.direction import DIRECTIONS
from v6t.packets.header_policy import tolerate
from v6t.plugins.base import Technology
from v6t.plugins.conformance import Case as FrameCase
from v6t.tests.audit.in_process import execute_clauses, list_configurations
from v6t.tests.core.support import v6t
from v6t.tests.drivers.duts.cases import Case as RecordedPlan
from v6t.tests.golden.store import Parts

LAB_AUDITS = (
    ("mape-br", "reference"), ("mapt-br", "reference"), ("lwaftr", "reference"), ("siit", "tayga"),
    ("nat44", "nftables"), ("nat44", "iptables"), ("nat64", "tayga-nftables"),
)  # fmt: skip
OUTPUTS = ("", "0\n", "1\n", "x on\n", "no such thing\n", "\n".join(map(str, range(400))))
"""Outputs that no device with the planned configuration prints."""
TRANSLATED_FRAMES = 3
LETTERS = {"deviates": "d", "information": "d", "not testable": "u"}
"""Letters of verdicts; any other verdict is `c`, which means that the device conforms."""


def plan_recorded(case: RecordedPlan) -> Parts:
    driver = make_driver(case.driver, case.options)
    facts = driver.make_example_facts(case.intent)
    return describe_plan(driver, driver.plan(case.intent, facts), case.intent)


def plan_technology(technology: str, testbed: str, **params: str) -> Parts:
    """Plan a technology with each driver, and translate frames as each driver's device does."""
    path = Path("testbed.yaml") if testbed else None
    if path is not None:
        path.write_text(testbed)
    parts: Parts = {}
    for name in list_driver_names():
        try:
            setup = resolve_setup(None, path, plugin=technology, dut=name, params=params)
            if not load_driver_type(name).configures_device:
                continue
            driver, plan = setup.driver, setup.example_plan
            result = describe_plan(driver, plan, setup.intent)
            result["frames"] = list(translate(setup))
            result["warnings"] = [str(len([*list_result_warnings(setup)]))]
        except V6tError as exc:
            result = {"exit status": [str(exc.exit_code)]}
        parts |= {f"{name} {part}": lines for part, lines in result.items()}
    refused = [key.split()[0] for key in parts if key.endswith("exit status")]
    statuses = [f"{name}:{parts.pop(f'{name} exit status')[0]}" for name in refused]
    return parts | {"refused": statuses}


def describe_plan(driver: Any, plan: Plan, intent: Any) -> Parts:
    """Return the commands of a plan, their inverses, its flush, its checks and its readings."""
    steps = (*plan.steps, *plan.flush)
    commands = "\n".join(step.command + "\n" + step.text for step in steps)
    outputs = (*OUTPUTS, commands, *(step.command + "\n" + step.text for step in plan.steps))
    checks = [check for step in steps if (check := step.check)] + list(plan.checks)
    readings = dict(driver.get_telemetry_readings(intent))
    sessions = driver.get_session_reading(intent)
    if sessions is not None:
        readings["sessions"] = sessions
    return {
        "do": [line for s in plan.steps for line in _lines(s.command, s.text)],
        "undo": [line for s in plan.steps for line in _lines(s.undo, s.undo_text)],
        "look": [
            line
            for s in plan.steps
            for line in _lines(s.record_command, s.gone_test, _command(s.check))
        ]
        + [check.command for check in plan.checks],
        "terms": [
            f"{list(IfExists).index(s.existing)}{s.silent:d}{s.reboots:d}{s.has_mapping_prefixes:d}/{s.deadline_s:g}"
            for s in steps
        ],
        "flush": [x for s in plan.flush for x in _lines(s.command, s.text, _command(s.check))],
        "verdicts": ["".join(_accepts(check, o) for o in outputs) for check in checks],
        "changes": [
            line
            for change in (plan.live_change, plan.route_update)
            if change
            for line in _change(change)
        ],
        "readings": [
            line
            for reading in readings.values()
            for line in (reading.command, *map(str, _parsed(reading)))
        ],
        "notes": [str(len(plan.notes))],
        "asked": _lines(_command(plan.management_query)),
    }


def _lines(*texts: str) -> list[str]:
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def _command(check: Check | None) -> str:
    return check.command if check else ""


def _accepts(check: Check, output: str) -> str:
    try:
        return str(int(check.expected.find_problem(output) is None))
    except ValueError:
        return "e"


def _change(change: DeviceChange) -> Iterator[str]:
    yield from map(change.get_command, ACTIONS)
    outputs = (
        "", change.added_words, change.changed_words,
        f"{change.added_words} {change.changed_words}",
    )  # fmt: skip
    yield from (change.show_command, *outputs)
    yield "".join(str(int(change.find_problem(a, o) is None)) for a in ACTIONS for o in outputs)


def _parsed(reading: Any) -> Iterator[list[float]]:
    for output in ("", "1 2\n3 4\n", "a: 5\nb = 6\nc 7 d 8\n"):
        try:
            yield list(dict(reading.parse(output)).values())
        except (V6tError, ValueError):
            yield []


@functools.cache
def _first_frames(technology: Technology) -> list[tuple[Any, Any]]:
    size, frames = technology.default_frame_sizes[0], []
    for direction in DIRECTIONS:
        case = FrameCase(technology, size, direction, "")
        for stream in case.streams.streams:
            frames.append((direction, case.stamp_frames(stream)[:TRANSLATED_FRAMES]))
    return frames


def translate(setup: Any) -> Iterator[str]:
    """Yield the expected frames of a driver's device, and which damaged octets the driver accepts."""
    technology = setup.technology
    if technology.zone is not None:
        return
    oracle = setup.driver.adapt_oracle(technology, setup.intent)
    for direction, sent in _first_frames(technology):
        answer = oracle.expect(direction, sent)
        for frame, length in zip(answer.frames, answer.length.tolist(), strict=True):
            yield frame[:length].tobytes().hex() or "drop"
        length = int(answer.length[0])
        if length:
            octets = np.arange(min(length, 78))
            expected = np.repeat(answer.frames[:1, :length], len(octets), axis=0)
            damaged = expected.copy()
            damaged[octets, octets] ^= 0x41
            policy = oracle.header_policy.for_direction(direction)
            allowed = tolerate(policy, np.repeat(sent[:1], len(octets), axis=0), expected, damaged)
            matches = allowed.allowed & (allowed.frames == expected).all(axis=1)
            yield "".join(map(str, matches.astype(int).tolist()))


class Silent:
    """A device that drops every frame."""

    def receive(self, side: Any, frame: bytes, now_s: float = 0.0) -> list[tuple[str, bytes]]:
        return []

    def flush(self) -> None:
        """Do nothing."""

    reset = flush


class Cable(Silent):
    """A device that forwards every frame unchanged."""

    def receive(self, side: Any, frame: bytes, now_s: float = 0.0) -> list[tuple[str, bytes]]:
        return [("right" if side == "left" else "left", frame)]


def audit_models(technology: str) -> Parts:
    """Audit a correct device, a device that drops everything and a cable, in this process."""
    kind = load_technology_type(technology)
    parts: Parts = {}
    for variant, configured, subject in list_configurations(kind()):
        if variant:
            chosen = auditor.load_suites(())
            clauses = [c for suite in chosen for c in suite.list_clauses(subject, variant)]
            result = execute_clauses(build_device(configured), clauses)
            parts.setdefault("variants", []).extend(_verdicts(result))
            continue
        try:
            selection = auditor.select_clauses(auditor.load_suites(()), configured)
        except UsageError as exc:
            return {"exit status": [str(exc.exit_code)]}
        parts["clauses"] = [f"{c.rfc} {c.section} {c.level} {c.name}" for c in selection.clauses]
        parts["suites"] = [suite.name for suite in selection.suites]
        parts["core"] = [str(len(auditor.list_core_clauses(configured)))]
        devices = {"model": build_device(configured), "silent": Silent(), "cable": Cable()}
        for name, device in devices.items():
            parts[name] = list(_verdicts(execute_clauses(device, selection.clauses)))
    return parts


def _verdicts(outcomes: Iterable[Any]) -> Iterator[str]:
    for outcome in outcomes:
        received = "".join(str(len(frames)) for _, frames in outcome.turns)
        letter = LETTERS.get(outcome.judgement.verdict, "c")
        yield f"{letter}{outcome.tries}/{received[:8]}"


def audit_in_lab(technology: str, device: str) -> Parts:
    """Audit a device in network namespaces."""
    shape = ("--plugin", technology, "--driver", device, "--no-variants", "--json")
    done = v6t("audit", *shape)
    if done.status == EnvironmentLacking.exit_code:
        raise EnvironmentLacking(f"no {device} here")
    findings = json.loads(done.out)["findings"] if done.out else []
    lines = sorted(
        f"{f['rfc']} {f['section']} {f['level']} {LETTERS.get(f['verdict'], 'c')}" for f in findings
    )
    return {"exit status": [str(done.status)], "verdicts": lines}
