"""Matrix of testers, devices and benchmarks, shown in ``docs/matrix.md``.

``test_matrix.py`` runs the cells and, with V6T_RECORD, writes the dates to ``recorded/matrix.json``.
Devices in virtual machines are in :mod:`.machines`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.registry import list_driver_names, load_driver_type, make_driver
from v6t.intent.families import DeviceConfig
from v6t.tests.drivers import machines
from v6t.tests.drivers.duts.support import find_missing_package
from v6t.tests.needs import NO_TREX
from v6t.tools.record_files import load_record, update_record

RECORD = Path(__file__).parent / "recorded" / "matrix.json"
TESTERS = ("embedded", "trex")
BENCHMARKS = ("throughput", "latency", "pdv")
MODES = ("bidirectional", "forward", "reverse")
# Rows measured in three modes; all others are measured bidirectionally.
HEADLINE = (("vpp", "mape-br"), ("vpp", "lwaftr"))
CONNECTIONS = 1000
# The embedded tester needs a third of a millisecond for each single frame.
LINE_RATE = {"embedded": "1M", "trex": "3M"}


@dataclass(frozen=True)
class Row:
    """Device with one technology.

    Attributes:
        device: driver, or ``reference``.
        plugin: the technology.
        words: text of the table.
        params: of the technology.
        options: of the driver.
        wanted: benchmarks of the row.
        program_of: key of NAMED, if it is not the device.
    """

    device: str
    plugin: str
    words: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    wanted: tuple[str, ...] = BENCHMARKS
    program_of: str = ""

    @property
    def program_key(self) -> str:
        """Return the name under which NAMED lists the program."""
        return self.program_of or self.device

    @property
    def name(self) -> str:
        """Return a name without spaces."""
        more = (self.params.get("variant"), *self.options.values())
        return "-".join([self.device, self.plugin, *(v for v in more if v)])

    @property
    def driver_options(self) -> dict[str, str]:
        """Options of the driver, with its program."""
        named = {"program": find_program(self.program_key)} if self.program_key in NAMED else {}
        return {**self.options, **named}

    @property
    def modes(self) -> tuple[str, ...]:
        """Traffic modes of the measurement."""
        return MODES if (self.device, self.plugin) in HEADLINE else MODES[:1]


# VPP supports at most 1,000 sessions of a B4.
SOFTWIRES = {"initiator_count": 16, "initiator_ports": {"min": 4096, "max": 4220}}
MULTIQUEUE, TWO_WORKERS = "tayga-multiqueue", {"workers": "2"}
ROWS = (
    Row("reference", "mape-br", "reference device, MAP-E BR"),
    Row("reference", "lwaftr", "reference device, lwAFTR"),
    Row("reference", "mapt-br", "reference device, MAP-T BR"),
    Row("reference", "siit", "reference device, SIIT"),
    Row("reference", "nptv6", "reference device, NPTv6"),
    Row("reference", "clat", "reference device, CLAT"),
    Row("reference", "mape-ce", "reference device, MAP-E CE"),
    Row("reference", "mapt-ce", "reference device, MAP-T CE"),
    Row("reference", "lwb4", "reference device, lwB4"),
    Row("reference", "ipv4-router", "reference device, IPv4 router"),
    Row("reference", "ipv6-router", "reference device, IPv6 router"),
    Row("linux-router", "ipv4-router", "Linux, IPv4 router"),
    Row("linux-router", "ipv6-router", "Linux, IPv6 router"),
    Row("nftables", "nat44", "nftables, NAT44"),
    Row("iptables", "nat44", "iptables, NAT44"),
    Row("ip6tables-npt", "nptv6", "ip6tables, NPTv6"),
    Row("tayga", "siit", "TAYGA, SIIT"),
    Row("tayga", "clat", "TAYGA, CLAT"),
    Row("tayga-nftables", "nat64", "TAYGA and nftables, NAT64"),
    Row("nftables66", "nat66", "nftables, NAT66"),
    Row("chain", "nat46", "TAYGA between two nftables, NAT46"),
    Row("chain", "dslite-aftr", "reference device and nftables, DS-Lite AFTR"),
    *(
        Row(device, plugin, f"{words} (TAYGA after 0.9.6)", {}, TWO_WORKERS, program_of=MULTIQUEUE)
        for device, plugin, words in (
            ("tayga", "siit", "TAYGA with two workers, SIIT"),
            ("tayga", "clat", "TAYGA with two workers, CLAT"),
            ("tayga-nftables", "nat64", "TAYGA with two workers and nftables, NAT64"),
        )
    ),
    Row("tundra", "siit", "Tundra, SIIT by a prefix"),
    Row("tundra", "clat", "Tundra, CLAT of one host"),
    Row("snabb-lwaftr", "lwaftr", "Snabb, lwAFTR"),
    Row("vpp", "ipv4-router", "VPP, IPv4 router"),
    Row("vpp", "ipv6-router", "VPP, IPv6 router"),
    Row("vpp", "mape-br", "VPP, MAP-E BR"),
    Row("vpp", "lwaftr", "VPP, lwAFTR"),
    Row("vpp", "mapt-br", "VPP, MAP-T BR with a rule it takes", {"rule_ipv6": "2001:db8:ce::/48"}),
    Row("vpp", "nat44", "VPP, NAT44"),
    Row("vpp", "nat44", "VPP, NAT44, endpoint-independent", options={"nat44": "ei"}),
    Row("vpp", "nat64", "VPP, NAT64"),
    Row("vpp", "nptv6", "VPP, NPTv6"),
    Row("vpp", "dslite-aftr", "VPP, DS-Lite AFTR", SOFTWIRES),
    Row("vpp", "lwb4", "VPP, lwB4"),
    Row("vpp", "mape-ce", "VPP, MAP-E CE"),
    *(
        Row("chain", "ipv4aas", f"CE and PE, {words}", {"variant": variant}, wanted=BENCHMARKS[:1])
        for variant, words in {
            "464xlat": "464XLAT: TAYGA; TAYGA and nftables",
            "ds-lite": "DS-Lite: reference B4; reference AFTR and nftables",
            "lw4o6": "lw4o6: nftables and reference lwB4; reference lwAFTR",
            "map-e": "MAP-E: nftables and reference CE; reference BR",
            "map-t": "MAP-T: nftables and reference CE; reference BR",
        }.items()
    ),
)
# Drivers of the parts of the chain.
CHAINED = ("tayga-nftables", "nftables")

# Programs without a Debian package and their variables, by driver or version.
NAMED = {
    "vpp": ("vpp", "V6T_VPP"),
    "snabb-lwaftr": ("snabb", "V6T_SNABB"),
    MULTIQUEUE: ("tayga with workers", "V6T_TAYGA"),
    "tundra": ("tundra-nat64", "V6T_TUNDRA"),
}


def find_program(device: str) -> str:
    """Return the path of a driver's program, or an empty string."""
    name, variable = NAMED[device]
    return os.environ.get(variable) or shutil.which(name) or ""


def find_missing(tester: str, row: Row) -> str:
    """Return what this machine lacks for a cell, or an empty string."""
    if tester == "trex" and NO_TREX:
        return NO_TREX
    if row.program_key in NAMED and not find_program(row.program_key):
        return "no {} in PATH; {} may name one".format(*NAMED[row.program_key])
    if row.device in ("reference", "vpp"):
        return ""
    chained = [make_driver(name, {}) for name in CHAINED] if row.device == "chain" else []
    drivers = chained or [make_driver(row.device, row.driver_options)]
    packages = filter(None, map(find_missing_package, drivers))
    return next((f"needs {package}" for package in packages), "")


def format_run_file(row: Row) -> str:
    """Return the run file of a cell (JSON is valid YAML)."""
    procedure: dict[str, Any] = {
        "repetitions": 1,
        "selftest": "cached",
        "trial_duration_s": 0.4,
        "pause_s": 0.05,
        "residual_wait_s": 0.2,
        "resolution_ratio": 0.25,
        # test machines are busy
        "sending_time_tolerance": 1.5,
        "invalid_retries": 10,
        "latency": {"duration_s": 0.8, "first_tag_s": 0.2, "tags": 100},
        "delay_variation": {"duration_s": 0.5},
        "connections": {"count": CONNECTIONS, "rate_cps": 4000, "wait_ms": 300},
    }
    run = {
        "plugin": row.plugin,
        "params": row.params,
        "benchmarks": list(row.wanted),
        "modes": list(row.modes),
        "procedure": procedure,
    }
    return json.dumps(run, indent=1)


def format_testbed_file(row: Row, tester: str) -> str:
    """Return the testbed file of a cell, with a rate that any machine sustains."""
    options = {"options": row.driver_options} if row.driver_options else {}
    testbed = {
        "tester": {"kind": tester, "options": {"lab": True} if tester == "trex" else {}},
        "dut": {"driver": row.device, **options},
        "line_rate": LINE_RATE[tester],
    }
    return json.dumps(testbed, indent=1)


STATEFUL = f"""
Each date stands for {", ".join(BENCHMARKS)} in both directions at once, except where the cell names others.
Stateful technologies are measured with {CONNECTIONS:,} connections, each of which is validated. CE and PE are two devices in a row.
"""
IN_MACHINES = """\
## In virtual machines

Devices that need another kernel run in virtual machines. The tests record the cells; `not run` means that
no test has recorded one.

* configured: steps that the driver carried out, and steps that it read back and confirmed;
* verified by frames: frames that equal the reference translation, of all that were compared;
* measured: benchmarks that ended with a throughput above zero; emulated processors give no rates;
* restored: every step was undone, and the earlier state was read back.
"""
EVERY_DRIVER = """
## Every driver

What was run with real frames, and in which version (`executed:` of the driver). The line is about the driver as
a whole; the cells above and the page of the device tell which technologies were run.

| device | technologies | executed |
|---|---|---|"""


def render_tables() -> str:
    """Return the tables of the page."""
    cells = [
        f"| {row.words} | {' | '.join(render_cell(row, tester) for tester in TESTERS)} |"
        for row in ROWS
    ]
    head = ["| device | embedded tester | TRex |", "|---|---|---|"]
    tables = [*head, *cells, STATEFUL, IN_MACHINES, *machines.render_table()]
    return "\n".join([*tables, EVERY_DRIVER, *render_drivers()])


def render_drivers() -> Iterator[str]:
    """Yield every driver with its technologies, and which of them were executed."""
    for name in list_driver_names():
        kind = load_driver_type(name)
        if kind.configures_device:
            can = ", ".join((*list_technologies(name), *list_part_families(name))) or "any"
            yield f"| {name} | {can} | {kind.test_status} |"


def list_part_families(driver: str) -> tuple[str, ...]:
    """List the device families that a driver supports only within a chain."""
    intents = [load_technology_type(name)().make_dut_intent() for name in list_technologies(driver)]
    whole = [intent.configuration for intent in intents]
    return tuple(
        kind.family
        for kind in load_driver_type(driver).supported_configurations
        if kind is not DeviceConfig and not any(isinstance(each, kind) for each in whole)
    )


def render_cell(row: Row, tester: str) -> str:
    recorded = load_record(RECORD).get(make_key(tester, row))
    texts = [recorded["date"] if recorded else "not run"]
    texts += [", ".join(row.wanted)] * (row.wanted != BENCHMARKS)
    texts += [", ".join(row.modes)] * (row.modes != MODES[:1])
    return "; ".join(texts)


def make_key(tester: str, row: Row) -> str:
    """Return the key of a cell in the record."""
    return f"{tester} {row.name}"


def add_record(tester: str, row: Row) -> None:
    """Record that a cell passed today, if V6T_RECORD is set."""
    with update_record(RECORD) as cells:
        cells[make_key(tester, row)] = {
            "benchmarks": ", ".join(row.wanted),
            "modes": ", ".join(row.modes),
            "date": date.today().isoformat(),
        }
