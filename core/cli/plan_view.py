"""The plan of a run, for ``v6t run --dry-run``: one screen, or with ``-v`` everything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from v6t.analysis.sheet import pluralize
from v6t.core.cli.terminal import print_json, print_text, wrap
from v6t.core.config.warnings import list_setting_warnings
from v6t.core.runs.dut import format_plan, plan_without_device
from v6t.core.runs.events import format_duration
from v6t.core.runs.plan import RunPlan, plan
from v6t.drivers.duts.capabilities import find_capabilities
from v6t.profiles.mixes import format_sizes

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.drivers.duts.plan import Step
    from v6t.intent.device import LinkIntent

NAME_WIDTH = 13  # characters of the labels of lines
MAX_SHOWN_ADDRESSES = 3
MAX_SHOWN_PURPOSES = 6  # of the steps that configure a device
EARLY_SHARE = 0.8  # the minimum duration is printed below this share of the planned one

MANY_CLIENTS_OPTIONS = "--set subscribers=N --set connections_per_subscriber=M"


def show_plan(bound: BoundRun, as_json: bool, detailed: bool) -> None:
    """Print the plan of a run."""
    planned = plan(bound)
    if as_json:
        print_json(planned.to_json())
        return
    run = bound.settings
    print_text(f"{run.plugin} on {run.dut.driver}, {run.tester.kind} tester, {run.preset} preset")
    for line in (_describe_all if detailed else _summarize)(bound, planned):
        print_text(line)
    print_text("Nothing was changed.")


def _summarize(bound: BoundRun, planned: RunPlan) -> Iterator[str]:
    """Yield the plan on one screen: traffic, benchmarks, time, device and warnings."""
    sizes = dict.fromkeys(format_sizes(p.frame_sizes) for p in planned.points)
    sides = " (IPv6/IPv4 side)"
    if all(size[0] == size[1] for size in (text.split("/") for text in sizes) if len(size) == 2):
        sizes, sides = dict.fromkeys(text.partition("/")[0] for text in sizes), ""
    modes = dict.fromkeys(p.mode for p in planned.points)
    rows = [
        *_label_first("traffic", _describe_traffic(bound, planned)),
        ("measures", ", ".join(dict.fromkeys(p.benchmark for p in planned.points))),
        ("", f"{', '.join(sizes)} octets{sides}; {', '.join(modes)}"),
        ("takes", _describe_time(planned)),
    ]
    if bound.driver.configures_device:
        steps = plan_without_device(bound)[1].steps
        rows += _label_first("device gets", [*_describe_device(bound), *_describe_rules(steps)])
        count = pluralize(len(steps), "step")
        rows.append(("", f"{count}, all undone at the end (commands: v6t dut plan, or -v)"))
    elif not bound.driver.is_cable:
        rows += _label_first("device needs", _describe_device(bound))
    rows += _label_first("warnings", [*planned.warnings, *list_setting_warnings(bound)])
    for name, text in rows:
        yield wrap(f"  {name:<{NAME_WIDTH}}{text}", indent=NAME_WIDTH + 2)


def _label_first(name: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield lines, the first with a label."""
    for number, line in enumerate(lines):
        yield "" if number else name, line


def _describe_clients(p: Any) -> Iterator[str]:
    """Describe clients, servers and public addresses of a technology with connections."""
    last = p.initiator + (p.initiator_count - 1) * p.initiator_step
    clients = f"1 Initiator {p.initiator}, as in RFC 9693 (many: {MANY_CLIENTS_OPTIONS})"
    if p.subscribers:
        each = f"{p.connections_per_subscriber:,} connections each"
        clients = f"{p.subscribers:,} subscribers {p.initiator} to {last}, {each}"
    elif p.initiator_count > 1:
        clients = f"{p.initiator_count:,} Initiators {p.initiator} to {last}"
    yield clients
    servers = f"1 server {p.server}"
    if p.responder_count > 1:
        servers = f"{p.responder_count:,} servers from {p.server} on"
    addresses = "address" if len(p.pool) == 1 else "addresses"
    yield f"{servers}, pool of {len(p.pool):,} {addresses} from {p.pool[0]} on"


def _describe_traffic(bound: BoundRun, planned: RunPlan) -> Iterator[str]:
    """Yield the technology with its clients, connections and background traffic."""
    technology = bound.technology
    versions = dict.fromkeys(f"IPv{version}" for version in technology.ip_versions)
    yield f"{technology.title}, {' and '.join(versions)}"
    if technology.stateful:
        yield from _describe_clients(technology.params)
    if bound.settings.connects:
        count = bound.settings.procedure.connections.count
        yield f"{pluralize(count, 'connection')} of {technology.combinations:,} possible four-tuples"
    background = [s for s in planned.stream_descriptions if "(background)" in s]
    if background:
        yield f"{pluralize(len(background), 'stream')} of background traffic"


def _describe_time(planned: RunPlan) -> str:
    """Return the number of trials with the expected and the minimum duration."""
    text = f"about {pluralize(planned.trial_count, 'trial')}, {format_duration(planned.duration_s)}"
    if planned.least_s < EARLY_SHARE * planned.duration_s:
        text += f" ({format_duration(planned.least_s)} if the device is as fast as the tester)"
    return text


def _describe_device(bound: BoundRun) -> Iterator[str]:
    """Yield the addresses of each side, and the numbers of routes and neighbors."""
    intent = bound.intent
    sides: tuple[tuple[str, LinkIntent], ...] = (("left", intent.left), ("right", intent.right))
    for name, side in sides:
        addresses = [str(a) for a in side.addresses]
        more = len(addresses) - MAX_SHOWN_ADDRESSES
        shown = ", ".join(addresses[:MAX_SHOWN_ADDRESSES]) + (
            f" and {more} more" if more > 0 else ""
        )
        yield f"{name} {shown or 'no address'}"
    routes = sum(len(side.routes) for _, side in sides)
    neighbors = sum(len(side.neighbors) for _, side in sides)
    yield f"{pluralize(routes, 'route')}, {pluralize(neighbors, 'neighbor')}"


def _describe_rules(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the purposes of the steps that do not concern one link."""
    purposes = [step.why for step in steps if "left" not in step.why and "right" not in step.why]
    more = len(purposes) - MAX_SHOWN_PURPOSES
    if purposes:
        yield "; ".join(purposes[:MAX_SHOWN_PURPOSES]) + (f"; {more} more" if more > 0 else "")


def _describe_all(bound: BoundRun, planned: RunPlan) -> Iterator[str]:
    """Yield every point, stream, capability and device command, and all warnings."""
    for point in planned.points:
        counted = f"; counted by {point.counted_by}" if point.counted_by else ""
        yield (
            f"  {format_sizes(point.frame_sizes):>9} octets, {point.mode}, {point.benchmark}: "
            f"{point.trials} trials, about {format_duration(point.duration_s)}; the medium carries "
            f"{point.media_fps:,} fps per direction{counted}"
        )
    yield f"  together {_describe_time(planned)}"
    yield "Streams"
    yield from (f"  {line}" for line in planned.stream_descriptions)
    if bound.driver.configures_device and not bound.driver.is_chain:
        yield f"Capabilities of the {bound.settings.dut.driver} driver"
        for row, text in find_capabilities(bound.driver, bound.intent).to_rows():
            yield f"  {row:<12} {text}"
    yield "State of the device"
    yield "  " + json.dumps(planned.intent, indent=1).replace("\n", "\n  ")
    if bound.driver.configures_device:
        yield "Commands for the device"
        yield "  " + format_plan(*plan_without_device(bound)).replace("\n", "\n  ")
    yield from map(wrap, planned.warnings)
    yield from (wrap(f"note: {warning}") for warning in list_setting_warnings(bound))
