"""Audits of the devices that run here, shown in ``docs/audit-results.md``.

``python -m v6t.tools.audits record [NAMES]`` audits in the lab and writes
``tests/drivers/recorded/audits.json`` (virtual machines must be named). ``note NAME DIRECTORY`` records
an existing audit.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.matrix import Row, find_missing
from v6t.tools.record_files import load_record

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "audit-results.md"
RECORD = TOP / "tests" / "drivers" / "recorded" / "audits.json"
SOFTWIRES = {"initiator_count": 16}


@dataclass(frozen=True)
class Audited(Row):
    """Device with one technology."""

    more: str = ""  # suffix of the name
    machine: bool = False  # whether it runs in a virtual machine, see ``v6t.tests.jool.audits``

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
    Audited("vpp", "mapt-br", "VPP, MAP-T BR with a rule it takes", {"rule_ipv6": "2001:db8:ce::/48"}),
    Audited("vpp", "mapt-br",
            "VPP, MAP-T BR with the rule 2001:db8:ce::/51, which the driver refuses by default",
            options={"known_losses": "true"}, more="-odd"),
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
)  # fmt: skip


def load_audits() -> dict[str, Any]:
    """Load the recorded audits by row: ``device``, ``date``, each clause's verdict and date."""
    return load_record(RECORD)


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
        if missing := "" if row.machine else find_missing("embedded", row):
            print(f"{row.name}: {missing}")
        else:
            add_record(row, run_audit(row))


def add_record(row: Audited, audit: Mapping[str, Any]) -> None:
    """Record the content of an ``audit.json``."""
    findings = audit["findings"]
    audits = load_audits()
    audits[row.name] = {
        "device": audit["device"],
        "date": audit["made"][:10],
        "clauses": {f["clause"]: f["verdict"] for f in findings},
        "about": {f["clause"]: [f["rfc"], f["section"], f["level"], f["title"]] for f in findings},
        "got": {f["clause"]: f["got"] for f in findings if f["verdict"] != "conforms"},
    }
    RECORD.write_text(json.dumps(audits, indent=1, sort_keys=True) + "\n")
    print(f"{row.name}: {len(findings)} clauses")


def run_audit(row: Audited) -> dict[str, Any]:
    """Audit a device in the lab, and return the content of its ``audit.json``.

    Raises:
        SystemExit: the audit failed.
    """
    with tempfile.TemporaryDirectory() as directory:
        command = [*COMMAND, "audit", "--plugin", row.plugin, "--dut", row.device, "-o", directory]
        for option, values in (("--set", row.params), ("--set-dut", row.driver_options)):
            for name, value in values.items():
                command += [option, f"{name}={value}"]
        if row.machine:
            command = [sys.executable, "-m", "v6t.tests.jool.audits", row.plugin, directory]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        file = Path(directory) / "audit.json"
        if not file.exists():
            raise SystemExit(f"{row.name}: {result.stderr or result.stdout}")
        return load_record(file)


def format_dates(audit: Mapping[str, Any]) -> str:
    """Format the date of an audit, and the number of clauses audited later."""
    days = Counter(day for day in audit.get("later", {}).values() if day != audit["date"])
    return "; ".join([audit["date"], *(f"{days[day]} on {day}" for day in sorted(days))])


def render_tables() -> str:
    """Return the verdict counts and deviations of each device."""
    audits = load_audits()
    lines = [
        "| device | audited | clauses | + | - MUST | - SHOULD | - MAY | ? |",
        "|---|---|---|---|---|---|---|---|",
    ]
    deviating: dict[tuple[str, ...], list[str]] = {}
    for row in (row for row in ROWS if row.name in audits):
        audit = audits[row.name]
        verdicts = Counter(audit["clauses"].values())
        levels = Counter(
            audit["about"][c][2] for c, v in audit["clauses"].items() if v == "deviates"
        )
        counts = (
            verdicts["conforms"], levels["MUST"], levels["SHOULD"], verdicts["information"],
            verdicts["not testable"],
        )  # fmt: skip
        cells = (f"{row.words} ({audit['device']})", format_dates(audit), verdicts.total(), *counts)
        lines.append(f"| {' | '.join(map(str, cells))} |")
        if deviations := tuple(list_deviations(audit)):
            deviating.setdefault(deviations, []).append(row.words)
    for deviations, devices in deviating.items():
        lines += [f"\n**{'; '.join(devices)}**\n", *deviations]
    return "\n".join(lines)


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
        (named,) = (row for row in ROWS if row.name == sys.argv[2])
        add_record(named, load_record(Path(sys.argv[3]) / "audit.json"))
