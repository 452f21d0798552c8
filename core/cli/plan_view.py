"""The plan of a run, for ``v6t run --dry-run``: one screen, or with ``-v`` everything."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from v6t.analysis.sheet import pluralize
from v6t.core.cli.terminal import CommandResult, make_result, wrap
from v6t.core.config.run_setup import RunSetup
from v6t.core.config.warnings import list_setting_warnings
from v6t.core.runs.events import format_duration
from v6t.core.runs.plan import RunPlan, plan
from v6t.drivers.duts.capabilities import find_capabilities
from v6t.drivers.duts.session.plan_steps import format_plan
from v6t.profiles.mixes import format_sizes

LABEL_WIDTH = 13  # width of the labels of lines in characters
MAX_SHOWN_ADDRESSES = 3  # of each side of the device
MAX_SHOWN_PURPOSES = 6  # of the steps that configure a device
SHOW_MIN_DURATION_BELOW = 0.8  # of the planned duration

MANY_CLIENTS_OPTIONS = "--set subscribers=N --set connections_per_subscriber=M"


def make_plan_result(setup: RunSetup, detailed: bool) -> CommandResult:
    """Return the plan of a run as a command result."""
    run, run_plan = setup.settings, plan(setup)
    describe = _describe_details if detailed else _describe_briefly
    device = "a device that you configure" if setup.has_user_device else run.dut.driver
    head = f"{run.plugin} on {device}, {run.tester.kind} tester, {run.preset} preset"
    lines = chain([head], describe(setup, run_plan), ["Nothing was changed."])
    return make_result(run_plan.to_json, lines)


def _describe_briefly(setup: RunSetup, run_plan: RunPlan) -> Iterator[str]:
    sizes = dict.fromkeys(format_sizes(p.frame_sizes) for p in run_plan.points)
    sides = " (IPv6/IPv4 side)"
    if all(size[0] == size[1] for size in (text.split("/") for text in sizes) if len(size) == 2):
        sizes, sides = dict.fromkeys(text.partition("/")[0] for text in sizes), ""
    modes = dict.fromkeys(p.mode for p in run_plan.points)
    rows: dict[str, Iterable[str]] = {
        "traffic": _describe_traffic(setup, run_plan),
        "measures": [
            ", ".join(dict.fromkeys(p.benchmark for p in run_plan.points)),
            f"{', '.join(sizes)} octets{sides}; {', '.join(modes)}",
        ],
        "takes": [_describe_trials(run_plan)],
    }
    if setup.driver.configures_device:
        steps = setup.example_plan.steps
        # those that are not specific to one link
        purposes = [step.why for step in steps if not re.search("left|right", step.why)]
        shown = purposes[:MAX_SHOWN_PURPOSES]
        more = len(purposes) - len(shown)
        summary = ["; ".join([*shown, *([f"{more} more"] if more else [])])] if purposes else []
        count = pluralize(len(steps), "step")
        undo = f"{count}, all undone at the end (commands: v6t dut plan, or -v)"
        rows["device gets"] = [*_describe_device(setup), *summary, undo]
    elif not setup.driver.is_cable:
        rows["device needs"] = [*_describe_device(setup), "-v prints all of it, with the rules"]
    rows["warnings"] = [*run_plan.warnings, *list_setting_warnings(setup)]
    for name, lines in rows.items():
        for number, line in enumerate(lines):
            label = "" if number else name
            yield wrap(f"  {label:<{LABEL_WIDTH}}{line}", indent=LABEL_WIDTH + 2)


def _describe_clients(params: Any) -> Iterator[str]:
    last = params.initiator + (params.initiator_count - 1) * params.initiator_step
    clients = f"1 Initiator {params.initiator}, as in RFC 9693 (many: {MANY_CLIENTS_OPTIONS})"
    if params.subscribers:
        each = f"{params.connections_per_subscriber:,} connections each"
        clients = f"{params.subscribers:,} subscribers {params.initiator} to {last}, {each}"
    elif params.initiator_count > 1:
        clients = f"{params.initiator_count:,} Initiators {params.initiator} to {last}"
    yield clients
    servers = f"1 server {params.server}"
    if params.responder_count > 1:
        servers = f"{params.responder_count:,} servers from {params.server} on"
    addresses = "address" if len(params.pool) == 1 else "addresses"
    yield f"{servers}, pool of {len(params.pool):,} {addresses} from {params.pool[0]} on"


def _describe_traffic(setup: RunSetup, run_plan: RunPlan) -> Iterator[str]:
    technology = setup.technology
    versions = dict.fromkeys(f"IPv{version}" for version in technology.ip_versions)
    yield f"{technology.title}, {' and '.join(versions)}"
    if technology.stateful:
        yield from _describe_clients(technology.params)
    if setup.settings.connects:
        count = setup.settings.procedure.connections.count
        yield f"{pluralize(count, 'connection')} of {technology.combinations:,} possible four-tuples"
    if background := [s for s in run_plan.stream_descriptions if "(background)" in s]:
        yield f"{pluralize(len(background), 'stream')} of background traffic"


def _describe_trials(run_plan: RunPlan) -> str:
    trials = pluralize(run_plan.trial_count, "trial")
    text = f"about {trials}, {format_duration(run_plan.duration_s)}"
    if run_plan.least_s < SHOW_MIN_DURATION_BELOW * run_plan.duration_s:
        text += f" ({format_duration(run_plan.least_s)} if the device is as fast as the tester)"
    return text


def _describe_device(setup: RunSetup) -> Iterator[str]:
    sides = {"left": setup.intent.left, "right": setup.intent.right}
    for name, side in sides.items():
        shown = ", ".join(map(str, side.addresses[:MAX_SHOWN_ADDRESSES])) or "no address"
        more = len(side.addresses) - MAX_SHOWN_ADDRESSES
        yield f"{name} {shown}" + (f" and {more} more" if more > 0 else "")
    routes = sum(len(side.routes) for side in sides.values())
    neighbors = sum(len(side.neighbors) for side in sides.values())
    yield f"{pluralize(routes, 'route')}, {pluralize(neighbors, 'neighbor')}"


def _describe_details(setup: RunSetup, run_plan: RunPlan) -> Iterator[str]:
    for point in run_plan.points:
        place = f"{format_sizes(point.frame_sizes):>9} octets, {point.mode}, {point.benchmark}"
        trials = f"{point.trials} trials, about {format_duration(point.duration_s)}"
        counted = f"; counted by {point.counted_by}" if point.counted_by else ""
        yield f"  {place}: {trials}; medium: {point.media_fps:,} fps per direction{counted}"
    yield f"  together {_describe_trials(run_plan)}"
    yield "Streams"
    yield from (f"  {line}" for line in run_plan.stream_descriptions)
    if setup.driver.configures_device and not setup.driver.is_chain:
        yield f"Capabilities of the {setup.settings.dut.driver} driver"
        for row, values in find_capabilities(setup.driver, setup.intent).items():
            yield f"  {row:<12} {', '.join(values)}"
    yield "State of the device"
    yield "  " + json.dumps(setup.intent.to_json(), indent=1).replace("\n", "\n  ")
    if setup.driver.configures_device:
        yield "Commands for the device"
        yield "  " + format_plan(setup.driver, setup.example_plan).replace("\n", "\n  ")
    yield from map(wrap, run_plan.warnings)
    yield from (wrap(f"note: {warning}") for warning in list_setting_warnings(setup))
