"""Devices that run in virtual machines only: recorded results, by technology.

Tests call :func:`add_record` with their run. It checks four facts and, with V6T_RECORD, writes them to
``recorded/machines.json``. :mod:`.matrix` renders the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from v6t.tests.drivers.record_files import load_record, update_record
from v6t.tests.drivers.run_facts import FACTS, Run

RECORD = Path(__file__).parent / "recorded" / "machines.json"
NOT_SHOWN = "not run"
TESTERS = {"embedded": "embedded tester", "trex": "TRex"}


@dataclass(frozen=True)
class Row:
    """Device with one technology.

    Attributes:
        name: key in the record.
        device, technology: text of the table.
        asked: command that runs the test.
    """

    name: str
    device: str
    technology: str
    asked: str


def make_rows(name: str, device: str, asked: str, technologies: dict[str, str]) -> Iterator[Row]:
    for technology, words in technologies.items():
        yield Row(f"{name} {technology}", device, words, asked)


_TRANSLATORS = {
    "siit": "siit",
    "clat": "clat",
    "nat64": "nat64",
    "464xlat": "ipv4aas, 464xlat: CLAT and PLAT, two machines",
}
ROWS = (
    *make_rows("jool-debian", "Jool, Debian's release", "make test-jool", _TRANSLATORS),
    *make_rows("jool-newest-4.1", "Jool, a newer 4.1", "make test-jool", _TRANSLATORS),
    *make_rows(
        "jool-mapt",
        "Jool with MAP-T",
        "make test-jool",
        {
            "mapt-br": "mapt-br",
            "mapt-ce": "mapt-ce",
            "map-t": "ipv4aas, map-t: CE and BR, two machines",
        },
    ),
    *make_rows(
        "nat46", "nat46", "make test-nat46", {name: name for name in ("siit", "clat", "mapt-ce")}
    ),
    *make_rows(
        "ip6-tunnel",
        "Linux ip6_tunnel",
        "make test-tunnel-vm",
        {
            "mape-ce": "mape-ce",
            "lwb4": "lwb4",
            "lwb4-trex": "lwb4, by TRex",
            "ds-lite": "ipv4aas, ds-lite: as its B4",
            "ds-lite softwire": "ipv4aas, ds-lite: as its AFTR's end of the tunnel",
            "lw4o6": "ipv4aas, lw4o6: as its lwB4",
            "map-e": "ipv4aas, map-e: as its CE",
        },
    ),
    *make_rows(
        "ip6-tunnel",
        "Linux ip6_tunnel",
        "make sites",
        {
            "ds-lite, VPP": "ipv4aas, ds-lite: as its B4, VPP as AFTR, two machines",
            "lw4o6, VPP": "ipv4aas, lw4o6: as its lwB4, VPP as lwAFTR, three machines",
            "lw4o6, Snabb": "ipv4aas, lw4o6: as its lwB4, Snabb as lwAFTR, three machines",
            "map-e, VPP": "ipv4aas, map-e: as its CE, VPP as BR, three machines",
        },
    ),
    *make_rows(
        "linux-router",
        "Linux, router between NICs",
        "make test-trex-vm",
        {"vmxnet3": "ipv4-router, TRex on vmxnet3", "e1000": "ipv4-router, TRex on e1000"},
    ),
    *make_rows(
        "openbsd-pf",
        "OpenBSD PF",
        "make test-openbsd",
        {name: name for name in ("nat44", "nat64", "ipv4-router", "ipv6-router")},
    ),
)


def render_table() -> Iterator[str]:
    """Render all rows with their recorded results."""
    seen = load_rows()
    yield f"| device | technology | {' | '.join(FACTS)} | how | version | date |"
    yield "|---|---|" + "---|" * len(FACTS) + "---|---|---|"
    for row in ROWS:
        kept = seen.get(row.name, {})
        how = kept.get("how") or f"`{row.asked}` would"
        facts = (kept.get(fact, NOT_SHOWN) for fact in FACTS)
        cells = (*facts, how, kept.get("version", ""), kept.get("date", ""))
        yield f"| {row.device} | {row.technology} | {' | '.join(cells)} |"


def load_rows() -> dict[str, dict[str, str]]:
    """Load the record by row: the text of each fact, the method, version and date."""
    return load_record(RECORD)


def add_record(name: str, run: Run, hypervisor: str, *, version: str = "", where: str = "") -> None:
    """Check the facts of a run, and record them if V6T_RECORD is set.

    Args:
        name: of the row.
        run: with the device.
        hypervisor: its description.
        version: of the device, if its own description is not useful.
        where: location of the tester; empty: the lab.
    """
    (row,) = (row for row in ROWS if row.name == name)
    seen = {
        "how": f"{describe_paths(run)}; {hypervisor}; {TESTERS[run.tester['kind']]}{where}",
        "version": describe_versions(run, version),
        "date": date.today().isoformat(),
    }
    # discard the facts of earlier runs
    write_row(row, seen)
    for fact in FACTS:
        seen[fact] = run.describe_fact(fact)
        write_row(row, seen)


def describe_paths(run: Run) -> str:
    """Describe how each part was reached."""
    parts = run.device.get("parts")
    if not parts:
        return describe_path(run.device)
    return ", ".join(f"{name}: {describe_path(part)}" for name, part in parts.items())


def describe_path(device: dict[str, str]) -> str:
    if "commands" not in device:
        return "reference device"
    return "SSH" if device["device"].startswith("ssh ") else "namespace"


def describe_versions(run: Run, version: str) -> str:
    """Describe the versions of the devices and their systems."""
    found = []
    for device in run.configured_parts.values():
        if describe_path(device) == "SSH":
            said = version or device["version"]
            system = device["system"].partition(",")[0]
            alike = said in system or system in said
            found.append(max(said, system, key=len) if alike else f"{said}; {system}")
    return ", ".join(dict.fromkeys(found))


def write_row(row: Row, seen: dict[str, str]) -> None:
    with update_record(RECORD) as found:
        found[row.name] = seen
