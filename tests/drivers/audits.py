"""Audits of the devices that run here, shown in ``docs/audit-results.md``.

``python -m v6t.tests.drivers.audits record [NAMES]`` audits in the lab and writes ``recorded/audits.json`` (virtual
machines must be named). ``note NAME DIRECTORY`` records an existing audit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.matrix import NAMED, Row, find_missing, find_program

PAGE = Path(__file__).parents[2] / "docs" / "audit-results.md"
RECORD = Path(__file__).parent / "recorded" / "audits.json"
SOFTWIRES = {"initiator_count": 16}


@dataclass(frozen=True)
class Audited(Row):
    """Device with one technology.

    Attributes:
        more: suffix of the name.
        machine: whether it runs in a virtual machine, see ``v6t.tests.jool.audits``.
    """

    more: str = ""
    machine: bool = False

    @property
    def name(self) -> str:
        """Return the row's name in the record."""
        return f"{self.device}-{self.plugin}{self.more}"


ROWS = (
    Audited("reference", "siit", "the reference device, SIIT"),
    Audited("tayga", "siit", "TAYGA, SIIT"),
    Audited("tayga", "clat", "TAYGA, CLAT"),
    Audited("tayga-nftables", "nat64", "TAYGA and nftables, NAT64"),
    Audited("vpp", "nat64", "VPP, NAT64"),
    Audited(
        "vpp", "mapt-br", "VPP, MAP-T BR with a rule it takes", {"rule_ipv6": "2001:db8:ce::/48"}
    ),
    Audited(
        "vpp",
        "mapt-br",
        "VPP, MAP-T BR with the rule 2001:db8:ce::/51, which the driver refuses by default",
        options={"known_losses": "true"},
        more="-odd",
    ),
    Audited("vpp", "mape-br", "VPP, MAP-E BR"),
    Audited("vpp", "lwaftr", "VPP, lwAFTR"),
    Audited("snabb-lwaftr", "lwaftr", "Snabb, lwAFTR"),
    Audited("vpp", "dslite-aftr", "VPP, DS-Lite AFTR", SOFTWIRES),
    Audited("nftables", "nat44", "nftables, NAT44"),
    Audited("iptables", "nat44", "iptables, NAT44"),
    Audited("vpp", "nat44", "VPP, NAT44"),
    Audited("jool", "siit", "Jool in a virtual machine, SIIT", machine=True),
    Audited("jool", "nat64", "Jool in a virtual machine, NAT64", machine=True),
    Audited("jool", "mapt-br", "Jool in a virtual machine, MAP-T BR", machine=True),
    Audited("jool", "mapt-ce", "Jool in a virtual machine, MAP-T CE", machine=True),
)


def load_audits() -> dict[str, Any]:
    """Load the recorded audits by row: ``device``, ``date``, each clause's verdict and date."""
    found: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def record_audits(names: list[str]) -> None:
    """Audit the available devices, or those with these names, and record the verdicts.

    Raises:
        SystemExit: a name is unknown, or an audit failed.
    """
    unknown = [name for name in names if name not in {row.name for row in ROWS}]
    if unknown:
        raise SystemExit(f"no row is called {', '.join(unknown)}")
    for row in ROWS:
        if row.name not in names if names else row.machine:
            continue
        missing = "" if row.machine else find_missing("embedded", row)
        if missing:
            print(f"{row.name}: {missing}")
        else:
            add_record(row, run_audit(row))


def add_record(row: Audited, found: Mapping[str, Any]) -> None:
    """Record the content of an ``audit.json``."""
    findings = found["findings"]
    kept = load_audits()
    kept[row.name] = {
        "device": found["device"],
        "date": found["made"][:10],
        "clauses": {f["clause"]: f["verdict"] for f in findings},
        "about": {f["clause"]: [f["rfc"], f["section"], f["level"], f["title"]] for f in findings},
        "got": {f["clause"]: f["got"] for f in findings if f["verdict"] != "conforms"},
    }
    RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(f"{row.name}: {len(findings)} clauses")


def run_audit(row: Audited) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        command = [*COMMAND, "audit", "--plugin", row.plugin, "--dut", row.device, "-o", place]
        program = {"program": find_program(row.device)} if row.device in NAMED else {}
        for option, values in (("--set", row.params), ("--set-dut", {**row.options, **program})):
            for name, value in values.items():
                command += [option, f"{name}={value}"]
        if row.machine:
            command = [sys.executable, "-m", "v6t.tests.jool.audits", row.plugin, place]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        file = Path(place) / "audit.json"
        if not file.exists():
            raise SystemExit(f"{row.name}: {result.stderr or result.stdout}")
        made: dict[str, Any] = json.loads(file.read_text())
        return made


def format_dates(kept: Mapping[str, Any]) -> str:
    """Format the date of an audit, and the number of clauses audited later."""
    days = [day for day in kept.get("later", {}).values() if day != kept["date"]]
    later = [f"{days.count(day)} on {day}" for day in sorted(set(days))]
    return "; ".join([kept["date"], *later])


def render_tables() -> str:
    """Return the verdict counts and deviations of each device."""
    return "\n".join(_list_lines())


def _list_lines() -> Iterator[str]:
    found = load_audits()
    rows = [row for row in ROWS if row.name in found]
    yield "| device | audited | clauses | + | - MUST | - SHOULD | - MAY | ? |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        kept = found[row.name]
        verdicts = list(kept["clauses"].values())
        levels = [kept["about"][c][2] for c, v in kept["clauses"].items() if v == "deviates"]
        counts = [verdicts.count("conforms"), *(levels.count(x) for x in ("MUST", "SHOULD")),
                  verdicts.count("information"), verdicts.count("not testable")]  # fmt: skip
        yield (
            f"| {row.words} ({kept['device']}) | {format_dates(kept)} | {len(verdicts)} | "
            + " | ".join(map(str, counts))
            + " |"
        )
    deviating: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if lines := tuple(list_deviations(found[row.name])):
            deviating.setdefault(lines, []).append(row.words)
    for lines, devices in deviating.items():
        yield f"\n**{'; '.join(devices)}**\n"
        yield from lines


def list_deviations(audit: Mapping[str, Any]) -> Iterator[str]:
    """Name the clauses that a device deviates from by section, one line for each RFC."""
    rfcs: dict[str, dict[str, list[str]]] = {}
    for clause, verdict in sorted(audit["clauses"].items()):
        if verdict == "deviates":
            rfc, section = audit["about"][clause][:2]
            name = clause.removeprefix(f"{rfc.replace(' ', '').lower()}-{section}-")
            rfcs.setdefault(rfc, {}).setdefault(section, []).append(f"`{name}`")
    for rfc, sections in rfcs.items():
        lists = (f"{section} {', '.join(names)}" for section, names in sorted(sections.items()))
        yield f"* {rfc}: {'; '.join(lists)}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record_audits(sys.argv[2:])
    elif sys.argv[1:2] == ["note"]:
        wanted = {row.name: row for row in ROWS}[sys.argv[2]]
        add_record(wanted, json.loads((Path(sys.argv[3]) / "audit.json").read_text()))
