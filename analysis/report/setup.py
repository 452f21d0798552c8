"""Description of the test setup, in the detail needed to repeat the run."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from v6t.analysis.blocks import Block, CodeListing, Collapsible, Drawing, FactColumns, FactTable
from v6t.analysis.report.render import render_setup
from v6t.analysis.rundata import RunData, flatten
from v6t.analysis.variation import has_random_ports
from v6t.trials.trial import format_mix

# texts that a device printed, and when
PRINTED_TEXTS = {"facts": "before the first change", "while_measured": "while it was measured"}


def fold_configuration(device: Mapping[str, Any], name: str) -> Iterator[Collapsible]:
    """Yield collapsible listings of a device's commands and output."""
    if commands := device.get("commands"):
        text = "\n".join(line for command in commands for line in split_command(command))
        summary = f"{name}: configuration as it was applied, {len(commands)} commands"
        yield Collapsible(summary, [CodeListing(text)], brief=True)
    for key, when in PRINTED_TEXTS.items():
        parts: Mapping[str, str] = device.get(key) or {}
        if texts := [part for part in parts.items() if part[1].strip()]:
            text = "\n\n".join(
                "\n  ".join([f"{what}:", *_split_lines(text.strip())]) for what, text in texts
            )
            yield Collapsible(f"{name}: output {when}", [CodeListing(text)])


def split_command(command: str) -> list[str]:
    """Return the lines of a command, with its standard input as a here-document."""
    line, _, text = command.partition(" <<< ")
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    return [f"{line} <<'END'", *value.splitlines(), "END"] if isinstance(value, str) else [command]


def _split_lines(text: str) -> list[str]:
    """Split a text into lines; format JSON with one line for each entry of a list."""
    if text[:1] in "[{":
        try:
            document = json.loads(text)
        except ValueError:
            return text.splitlines()
        entries = document if isinstance(document, list) else [document]
        return [json.dumps(entry) for entry in entries] or [text]
    return text.splitlines()


def draw_setup(data: RunData) -> Drawing:
    """Draw the test setup: the tester's ports on both sides of the devices."""
    left, right = find_ip_versions(data)
    middle = f"IPv{data.setup['middle_version']}" if data.setup else ""
    parts = _list_devices(data)
    tester, device = data.config["tester"]["kind"], data.config["dut"]["driver"]
    ports = ("right", "left") if is_swapped(data) else ("left", "right")
    boxes = [("Tester", f"{tester}, {ports[0]}"), *parts, ("Tester", f"{tester}, {ports[1]}")]
    links = [left, *[middle] * (len(parts) - 1), right]
    caption = f"Test setup: {tester} tester on both sides of the {device} device"
    sides = zip(ports, _name_links(data), (left, right), _list_octets(data), strict=True)
    for port, name, version, octets in sides:
        if octets:
            caption += f"; {port} link{name}: {version}, {_abbreviate_octets(octets)}"
    return Drawing(render_setup(boxes, links), f"{caption}.", f"{caption}.")


def find_ip_versions(data: RunData) -> tuple[str, str]:
    """Return the IP versions of the left and the right link; empty where not known."""
    if not data.setup:
        return "", ""
    left, right = data.setup["ip_versions"]
    return f"IPv{left}", f"IPv{right}"


def is_swapped(data: RunData) -> bool:
    """Check whether the technology's left side was at the tester's right port."""
    return bool(data.config.get("initiator") == "right")


def _name_links(data: RunData) -> tuple[str, str]:
    """Return the technology's names of the left and the right link, in brackets; empty: none."""
    left, right = data.setup.get("sides", ("left", "right"))
    return ("", "") if (left, right) == ("left", "right") else (f" ({left})", f" ({right})")


def _list_octets(data: RunData) -> tuple[list[int], list[int]]:
    """Return the measured frame sizes on the left and on the right link."""
    sent = data.setup.get("octets", {})
    measured = sorted({r.frame_sizes.ipv6 for r in data.records})
    pairs = [sent[str(size)] for size in measured if str(size) in sent]
    return [left for left, _ in pairs], [right for _, right in pairs]


def _list_devices(data: RunData) -> list[tuple[str, str]]:
    """Return the name and the kind of each device."""
    devices = data.setup.get("devices", ())
    if len(devices) < 2:
        return [("Device under test", data.config["dut"]["driver"])]
    return [(device["name"], device["what"]) for device in devices]


def _abbreviate_octets(values: Sequence[int]) -> str:
    many = len(values) > 4
    shown = ", ".join(map(str, values[:3] if many else values))
    return f"{shown} ... {values[-1]} octets" if many else f"{shown} octets"


MAX_ROWS_PER_COLUMN = 12  # longer tables of facts are printed in two columns
# texts about pseudorandom ports; None: no ports
_PORT_TEXTS = {True: "pseudorandom", False: "not all pseudorandom", None: ""}


def describe_setup(data: RunData, figures: bool) -> Iterator[Block]:
    """Yield tables of the technology, traffic, tester, device and machine."""
    c, m = data.config, data.manifest
    if figures:
        yield draw_setup(data)
    tester = m.get("tester") or {"kind": c["tester"]["kind"], **c["tester"]["options"]}
    device = tester.get("device") or {"driver": c["dut"]["driver"], **c["dut"]["options"]}
    tester = {k: v for k, v in tester.items() if k != "device"}
    columns = (
        ("Measured", _list_run_facts(data)),
        ("Traffic", _list_traffic_facts(data)),
        ("Tester", _list_plain_facts(tester)),
        ("Device under test", _list_plain_facts(device)),
        ("Machine of v6t", _list_machine_facts(m)),
    )
    yield FactColumns([(heading, FactTable(tuple(rows))) for heading, rows in columns])
    yield from _fold_devices(device)
    for what, facts in (("Tester", tester), ("Device under test", device)):
        for name, inner in facts.items():
            if isinstance(inner, Mapping) and inner and name not in (*PRINTED_TEXTS, "parts"):
                yield _fold_facts(f"{what}: {name.replace('_', ' ')}", inner)
    if data.params:
        yield _fold_facts("Parameters of the technology", data.params)


def _fold_devices(device: Mapping[str, Any]) -> Iterator[Block]:
    yield from fold_configuration(device, "Device under test")
    for name, part in (device.get("parts") or {}).items():
        yield from fold_configuration(part, name)
        rest = {k: v for k, v in part.items() if k not in (*PRINTED_TEXTS, "commands")}
        yield _fold_facts(f"{name}: further facts", rest)


def _fold_facts(title: str, values: Mapping[str, Any]) -> Collapsible:
    rows = tuple(format_facts(values))
    half = (len(rows) + 1) // 2
    columns = FactColumns([("", FactTable(rows[:half])), ("", FactTable(rows[half:]))])
    block = columns if len(rows) > MAX_ROWS_PER_COLUMN else FactTable(rows)
    return Collapsible(title, [block], brief=True)


def _list_run_facts(data: RunData) -> Iterator[tuple[str, str]]:
    c, m = data.config, data.manifest
    p = c["procedure"]
    yield "Technology", c["plugin"]
    yield "Follows", ", ".join(data.rfcs) or "-"
    others = (r.benchmark for r in data.records)  # connections are also measured unrequested
    yield "Benchmarks", ", ".join(dict.fromkeys([*c["benchmarks"], *others]))
    yield "Trials", f"{p['trial_duration_s']:g} s, {p['repetitions']} repetitions"
    yield "Preset", c["preset"]
    yield "Medium", f"{c['line_rate_bps'] / 1e9:g} Gbit/s"
    yield "Rates", "frames per second per direction, unless a heading says otherwise"
    yield "Started", str(m.get("created", "-"))
    yield "Finished", ", ".join(m.get("finished", ())) or "-"


def _list_traffic_facts(data: RunData) -> Iterator[tuple[str, str]]:
    c = data.config
    left, right = find_ip_versions(data)
    sizes = "with FCS" if left and left == right else "IPv6, with FCS"
    if headers := data.setup.get("headers"):
        left, right = (" over ".join(reversed(names)) for names in headers)
        yield "Protocol", f"{left} on the left, {right} on the right"
    elif left:
        yield "Protocol", f"UDP over {left} on the left, over {right} on the right"
    yield "Frame sizes", f"{', '.join(map(str, c['frame_sizes']))} octets ({sizes})"
    for mix in dict.fromkeys(r.frame_sizes.mix for r in data.records if r.frame_sizes.mix):
        sequence = data.mix_sequences.get(mix)
        yield "Mix of sizes", format_mix(mix) + (f": {sequence}" if sequence else "")
    yield "Directions", ", ".join(c["modes"])
    if is_swapped(data):
        yield "Sides", "swapped: the left side of this report is at the tester's right port"
    n, m = data.params.get("n"), data.params.get("m")
    if n and m is not None:
        spread = "" if n == m else f", {m} of {n} frames, spread evenly"
        negative = float(data.params.get("negative_percent") or 0)
        which = " of the traffic that is not negative" if negative else ""
        yield "Foreground", f"{100 * m / n:.4g} %{which}{spread}"
        if negative:
            yield "Negative", f"{negative:g} % that the device must drop"
    if ports := _PORT_TEXTS[has_random_ports(data.params)]:
        yield "Ports", ports
    yield "Seed", str(c["seed"])


def _list_machine_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    machine = dict(manifest.get("machine", {}))
    kib = machine.pop("memory_kib", None)
    yield from _list_plain_facts({k: v for k, v in machine.items() if v is not None})
    if kib:
        yield "memory", f"{kib / 2**20:.1f} GiB"
    yield "python", str(manifest.get("python", ""))
    yield "packages", ", ".join(f"{k} {v}" for k, v in manifest.get("packages", {}).items() if v)
    yield "source commit", str(manifest.get("source_commit") or "installed package")
    if len(versions := manifest.get("versions", ())) > 1:
        yield "resumed by", "; ".join(f"v6t {version}" for version in versions[1:])


def _list_plain_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield facts that are neither nested nor commands."""
    plain = {k: v for k, v in facts.items() if not isinstance(v, Mapping) and k != "commands"}
    for name, value in format_facts(plain):
        yield name.replace("_", " "), value


def format_facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each nested value."""
    for name, value in flatten(values):
        if isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            yield name, "; ".join(value) or "none"
        elif isinstance(value, (list, tuple, dict)):
            yield name, json.dumps(value) if value else "none"
        else:
            yield name, "none" if value is None else str(value)
