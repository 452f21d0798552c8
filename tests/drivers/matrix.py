"""Matrix of testers, devices and benchmarks, shown in ``docs/matrix.md`` by ``v6t.tools.matrix_page``.

``test_matrix.py`` runs the cells and, with V6T_RECORD, writes the dates to ``recorded/matrix.json``.
Devices in virtual machines are in :mod:`.machines`.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from v6t.drivers.duts.registry import make_driver
from v6t.tests.drivers.duts.support import find_missing_package
from v6t.tests.needs import NO_TREX
from v6t.tools.record_files import update_record

RECORD = Path(__file__).parent / "recorded" / "matrix.json"
TESTERS = ("embedded", "trex")
BENCHMARKS = ("throughput", "latency", "pdv")
MODES = ("bidirectional", "forward", "reverse")
# Rows measured in three modes; all others are measured bidirectionally.
HEADLINE = (("vpp", "mape-br"), ("vpp", "lwaftr"))
CONNECTIONS = 1000  # of recorded runs
# The embedded tester needs a third of a millisecond for each single frame.
LINE_RATE = {"embedded": "1M", "trex": "3M"}


@dataclass(frozen=True)
class Row:
    """Device with one technology."""

    device: str  # driver, or ``reference``
    plugin: str  # the technology
    words: str  # text in the table
    params: Mapping[str, Any] = field(default_factory=dict)  # technology parameters
    options: Mapping[str, str] = field(default_factory=dict)  # driver options
    wanted: tuple[str, ...] = BENCHMARKS  # benchmarks of the row
    program_of: str = ""  # key of NAMED, if it is not the device

    @property
    def program_key(self) -> str:
        """Return the name under which NAMED lists the program."""
        return self.program_of or self.device

    @property
    def name(self) -> str:
        more = (self.params.get("variant"), *self.options.values())
        return "-".join([self.device, self.plugin, *(v for v in more if v)])

    @property
    def driver_options(self) -> dict[str, str]:
        """Return the driver options, including the path of its program."""
        named = {"program": find_program(self.program_key)} if self.program_key in NAMED else {}
        return {**self.options, **named}

    @property
    def modes(self) -> tuple[str, ...]:
        return MODES if (self.device, self.plugin) in HEADLINE else MODES[:1]


TECHNOLOGIES = {
    "mape-br": "MAP-E BR", "lwaftr": "lwAFTR", "mapt-br": "MAP-T BR", "dslite-aftr": "DS-Lite AFTR",
    "mape-ce": "MAP-E CE", "lwb4": "lwB4", "mapt-ce": "MAP-T CE", "siit": "SIIT", "clat": "CLAT",
    "nat44": "NAT44", "nat64": "NAT64", "nat66": "NAT66", "nat46": "NAT46", "nptv6": "NPTv6",
    "ipv4-router": "IPv4 router", "ipv6-router": "IPv6 router",
}  # fmt: skip


def make_rows(device: str, words: str, *plugins: str) -> list[Row]:
    """Return the rows of a device with several technologies, in the table under these words."""
    return [Row(device, plugin, f"{words}, {TECHNOLOGIES[plugin]}") for plugin in plugins]


# VPP supports at most 1,000 sessions of a B4.
SOFTWIRES = {"initiator_count": 16, "initiator_ports": {"min": 4096, "max": 4220}}
MULTIQUEUE, TWO_WORKERS = "tayga-multiqueue", {"workers": "2"}
ROWS = (
    *make_rows("reference", "reference device", "mape-br", "lwaftr", "mapt-br", "siit", "nptv6", "clat",
               "mape-ce", "mapt-ce", "lwb4", "ipv4-router", "ipv6-router"),
    *make_rows("linux-router", "Linux", "ipv4-router", "ipv6-router"),
    *make_rows("nftables", "nftables", "nat44"),
    *make_rows("iptables", "iptables", "nat44"),
    *make_rows("ip6tables-npt", "ip6tables", "nptv6"),
    *make_rows("tayga", "TAYGA", "siit", "clat"),
    *make_rows("tayga-nftables", "TAYGA and nftables", "nat64"),
    *make_rows("nftables66", "nftables", "nat66"),
    *make_rows("chain", "TAYGA between two nftables", "nat46"),
    *make_rows("chain", "reference device and nftables", "dslite-aftr"),
    *(replace(row, words=f"{row.words} (TAYGA after 0.9.6)", options=TWO_WORKERS, program_of=MULTIQUEUE)
      for row in (*make_rows("tayga", "TAYGA with two workers", "siit", "clat"),
                  *make_rows("tayga-nftables", "TAYGA with two workers and nftables", "nat64"))),
    Row("tundra", "siit", "Tundra, SIIT by a prefix"),
    Row("tundra", "clat", "Tundra, CLAT of one host"),
    *make_rows("snabb-lwaftr", "Snabb", "lwaftr"),
    *make_rows("vpp", "VPP", "ipv4-router", "ipv6-router", "mape-br", "lwaftr"),
    Row("vpp", "mapt-br", "VPP, MAP-T BR with a rule it takes", {"rule_ipv6": "2001:db8:ce::/48"}),
    *make_rows("vpp", "VPP", "nat44"),
    Row("vpp", "nat44", "VPP, NAT44, endpoint-independent", options={"nat44": "ei"}),
    *make_rows("vpp", "VPP", "nat64", "nptv6"),
    Row("vpp", "dslite-aftr", "VPP, DS-Lite AFTR", SOFTWIRES),
    *make_rows("vpp", "VPP", "lwb4", "mape-ce"),
    *(Row("chain", "ipv4aas", f"CE and PE, {words}", {"variant": variant}, wanted=BENCHMARKS[:1])
      for variant, words in {
          "464xlat": "464XLAT: TAYGA; TAYGA and nftables",
          "ds-lite": "DS-Lite: reference B4; reference AFTR and nftables",
          "lw4o6": "lw4o6: nftables and reference lwB4; reference lwAFTR",
          "map-e": "MAP-E: nftables and reference CE; reference BR",
          "map-t": "MAP-T: nftables and reference CE; reference BR",
      }.items()),
)  # fmt: skip

# Programs without a Debian package, and environment variables that name them, by driver or variant.
NAMED = {"vpp": ("vpp", "V6T_VPP"), "snabb-lwaftr": ("snabb", "V6T_SNABB"),
         MULTIQUEUE: ("tayga with workers", "V6T_TAYGA"), "tundra": ("tundra-nat64", "V6T_TUNDRA")}  # fmt: skip


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
    names = ("tayga-nftables", "nftables") if row.device == "chain" else (row.device,)
    packages = (find_missing_package(make_driver(name, row.driver_options)) for name in names)
    return next((f"needs {package}" for package in packages if package), "")


def format_run_file(row: Row) -> str:
    """Return the run file of a cell (JSON is valid YAML)."""
    count = CONNECTIONS if os.environ.get("V6T_RECORD") else 300
    procedure: dict[str, Any] = {
        "repetitions": 1, "selftest": "cached", "trial_duration_s": 0.4, "pause_s": 0.05,
        "residual_wait_s": 0.2, "resolution_ratio": 0.25,
        "sending_time_tolerance": 1.5, "invalid_retries": 10,  # for busy machines
        "latency": {"duration_s": 0.8, "first_tag_s": 0.2, "tags": 100},
        "delay_variation": {"duration_s": 0.5},
        "connections": {"count": count, "rate_cps": 4000, "wait_ms": 300},
    }  # fmt: skip
    return json.dumps({"plugin": row.plugin, "params": row.params, "benchmarks": row.wanted,
                       "modes": row.modes, "procedure": procedure}, indent=1)  # fmt: skip


def format_testbed_file(row: Row, tester: str) -> str:
    """Return the testbed file of a cell, with a line rate that any machine sustains."""
    lab = {"lab": True} if tester == "trex" else {}
    dut = {"driver": row.device, "options": row.driver_options}
    return json.dumps({"tester": {"kind": tester, "options": lab}, "dut": dut,
                       "line_rate": LINE_RATE[tester]}, indent=1)  # fmt: skip


def make_key(tester: str, row: Row) -> str:
    return f"{tester} {row.name}"


def add_record(tester: str, row: Row) -> None:
    """Record that a cell passed today, if V6T_RECORD is set."""
    with update_record(RECORD) as cells:
        cell = {"benchmarks": ", ".join(row.wanted), "modes": ", ".join(row.modes)}
        cells[make_key(tester, row)] = {**cell, "date": date.today().isoformat()}
