"""Recorded results of devices that run in virtual machines only.

Tests pass their run to :func:`add_record`, which checks four facts and, with V6T_RECORD, writes them to
``recorded/machines.json``. ``docs/matrix.md`` shows this record.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from v6t.tests.drivers.run_facts import FACTS, Run
from v6t.tools.record_files import update_record

RECORD = Path(__file__).parent / "recorded" / "machines.json"
TESTERS = {"embedded": "embedded tester", "trex": "TRex"}


@dataclass(frozen=True)
class Row:
    """Device with one technology."""

    name: str  # key in the record
    device: str  # text in the table
    technology: str  # text in the table
    command: str  # command that runs the test


_TRANSLATORS = ("siit", "clat", "nat64", "464xlat=ipv4aas, 464xlat: CLAT and PLAT, two machines")
_MAPT = ("mapt-br", "mapt-ce", "map-t=ipv4aas, map-t: CE and BR, two machines")
_TUNNELS = (
    *("mape-ce", "lwb4", "lwb4-trex=lwb4, by TRex"),
    "ds-lite=ipv4aas, ds-lite: as its B4",
    "ds-lite softwire=ipv4aas, ds-lite: as its AFTR's end of the tunnel",
    "lw4o6=ipv4aas, lw4o6: as its lwB4",
    "map-e=ipv4aas, map-e: as its CE",
)
_TUNNEL_SITES = (
    "ds-lite, VPP=ipv4aas, ds-lite: as its B4, VPP as AFTR, two machines",
    "lw4o6, VPP=ipv4aas, lw4o6: as its lwB4, VPP as lwAFTR, three machines",
    "lw4o6, Snabb=ipv4aas, lw4o6: as its lwB4, Snabb as lwAFTR, three machines",
    "map-e, VPP=ipv4aas, map-e: as its CE, VPP as BR, three machines",
)
_OPENBSD = ("nat44", "nat64", "ipv4-router", "ipv6-router")
_NICS = ("vmxnet3=ipv4-router, TRex on vmxnet3", "e1000=ipv4-router, TRex on e1000")
# Name prefix in the record, device, command, and technologies (``NAME`` or ``NAME=TEXT``).
_GROUPS = (
    ("jool-debian", "Jool, Debian's release", "make test-jool", _TRANSLATORS),
    ("jool-newest-4.1", "Jool, a newer 4.1", "make test-jool", _TRANSLATORS),
    ("jool-mapt", "Jool with MAP-T", "make test-jool", _MAPT),
    ("nat46", "nat46", "make test-nat46", ("siit", "clat", "mapt-ce")),
    ("ip6-tunnel", "Linux ip6_tunnel", "make test-tunnel-vm", _TUNNELS),
    ("ip6-tunnel", "Linux ip6_tunnel", "make sites", _TUNNEL_SITES),
    ("linux-router", "Linux, router between NICs", "make test-trex-vm", _NICS),
    ("openbsd-pf", "OpenBSD PF", "make test-openbsd", _OPENBSD),
)
ROWS = tuple(
    Row(f"{name} {technology}", device, words or technology, command)
    for name, device, command, technologies in _GROUPS
    for technology, _, words in (one.partition("=") for one in technologies)
)


def add_record(name: str, run: Run, hypervisor: str, *, version: str = "", where: str = "") -> None:
    """Check the facts of a run, and record them if V6T_RECORD is set.

    Args:
        name: Name of the row.
        run: Run with the device.
        hypervisor: Description of the hypervisor.
        version: Version of the device, if its description has no useful one.
        where: Location of the tester; empty means the lab.
    """
    assert name in {row.name for row in ROWS}
    if parts := run.device.get("parts"):
        paths = ", ".join(f"{part}: {describe_path(device)}" for part, device in parts.items())
    else:
        paths = describe_path(run.device)
    result = {"how": f"{paths}; {hypervisor}; {TESTERS[run.tester['kind']]}{where}",
              "version": describe_versions(run, version), "date": date.today().isoformat()}  # fmt: skip
    write_row(name, result)  # discards the facts of earlier runs
    for fact in FACTS:
        result[fact] = run.describe_fact(fact)
        write_row(name, result)


def write_row(name: str, result: dict[str, str]) -> None:
    with update_record(RECORD) as rows:
        rows[name] = result


def describe_path(device: dict[str, str]) -> str:
    if "commands" not in device:
        return "reference device"
    return "SSH" if device["device"].startswith("ssh ") else "namespace"


def describe_versions(run: Run, version: str) -> str:
    versions = {}
    for device in run.configured_parts.values():
        if describe_path(device) == "SSH":
            program = version or device["version"]
            system = device["system"].partition(",")[0]
            overlap = program in system or system in program
            versions[max(program, system, key=len) if overlap else f"{program}; {system}"] = None
    return ", ".join(versions)
