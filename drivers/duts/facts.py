"""Facts about a device, read in one command with many sections before planning."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts.management_path import (
    CLIENT_COMMAND,
    MANAGEMENT_INTERFACE_COMMAND,
    ManagementPath,
    make_survey_command,
    parse_management_path,
)

# Survey commands for every Linux device, by section name.
LINUX_SURVEY_COMMANDS = {
    "system": "uname -sr",
    "boot": "cat /proc/sys/kernel/random/boot_id",
    "user": "id -u",
    "client": CLIENT_COMMAND,
    "management": MANAGEMENT_INTERFACE_COMMAND,
    "way": make_survey_command(),
    "links": "ip -j link show",
    "default4": "ip -j -4 route show default",
    "default6": "ip -j -6 route show default",
    "cpus": "cat /sys/devices/system/cpu/online",
    "conntrack_max": "cat /proc/sys/net/netfilter/nf_conntrack_max",
    "conntrack_buckets": "cat /proc/sys/net/netfilter/nf_conntrack_buckets",
    # a network namespace cannot change the host's limit
    "conntrack_fixed": "f=/proc/sys/net/netfilter/nf_conntrack_max; "
    "[ ! -e $f ] || [ -w $f ] || echo read-only",
    "gc_thresh3": "cat /proc/sys/net/ipv4/neigh/default/gc_thresh3",
}


@dataclass(frozen=True)
class Interface:
    """State of a network interface of the device."""

    mac: str
    is_up: bool = True
    has_carrier: bool = True
    master: str = ""  # name of the bridge, bond or VRF to which it belongs
    lower_interface: str = ""  # name of the parent interface of a VLAN


@dataclass(frozen=True)
class Facts:
    """State of a device before the first change."""

    system: str  # operating system and kernel
    version: str  # version of the implementation
    boot_id: str = "?"  # changes with every boot
    is_root: bool = True  # commands run as root
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    # interfaces that carry the connection to the device
    management_interfaces: frozenset[str] = frozenset()
    management_path: ManagementPath | None = None  # None in plans without a device
    default_route_interfaces: frozenset[str] = frozenset()  # interfaces with a default route
    # interfaces with a default route from a router advertisement
    advertised_route_interfaces: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()  # installed programs, of those the driver looks up
    sections: Mapping[str, str] = field(default_factory=dict)  # survey outputs by section name

    def parse_number(self, section: str) -> int | None:
        """Return the number in a section; None if it is missing or not a number."""
        text = self.sections.get(section, "").strip()
        return int(text) if text.isdigit() else None

    def require_program(
        self, program: str, source: str, use: str = "", *, from_option: bool = False
    ) -> None:
        """Raise DutError if the device lacks a program.

        Args:
            source: Debian package, or address of the publisher.
            use: purpose of the program, as the rest of the sentence.
            from_option: the program is the one in ``dut.options.program``.
        """
        if program not in self.programs:
            hint = f"see {source}" if "://" in source else f"apt-get install {source}"
            hint += "; dut.options.program sets its path" * from_option
            problem = f"the device lacks the program {program}{use}"
            raise DutError(problem, hint, code="missing-program")

    def find_protected_interfaces(self) -> dict[str, str]:
        """Return the interfaces that must not be changed, with the reason for each."""
        reasons = dict.fromkeys(self.management_interfaces, "it carries this connection")
        for name in self.default_route_interfaces:
            reasons.setdefault(name, "a default route leads through it")
        if self.management_path is not None:
            reasons = {**self.management_path.interfaces, **reasons}
        previous_count = -1
        while len(reasons) > previous_count:  # bridges over VLANs over bonds over interfaces
            previous_count = len(reasons)
            for name, why in list(reasons.items()):
                interface = self.interfaces.get(name)
                if interface and (lower := interface.lower_interface):
                    reasons.setdefault(lower, f"{name} is made of it, and {why}")
            for name, interface in self.interfaces.items():
                if why := reasons.get(interface.master):
                    reasons.setdefault(name, f"it belongs to {interface.master}: {why}")
        return reasons


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, such as (0, 9, 6, 16) for ``v0.9.6-16-g8a028c7``; () if none."""
    match = re.search(r"\d+(?:\.\d+)+(?:-\d+)?", text)
    return tuple(map(int, re.findall(r"\d+", match[0]))) if match else ()


def parse_linux_facts(sections: Mapping[str, str], version: str) -> Facts:
    """Parse outputs of LINUX_SURVEY_COMMANDS; raise DutError if the device does not run Linux."""
    system = sections.get("system", "")
    if not system.startswith("Linux"):
        problem = f"the device does not run Linux: uname prints '{system[:80]}'"
        raise DutError(problem, code="wrong-system")
    interfaces = {
        link["ifname"]: Interface(
            mac=str(link.get("address", "")).lower(),
            is_up="UP" in link.get("flags", ()),
            has_carrier="LOWER_UP" in link.get("flags", ()),
            master=link.get("master", ""),
            lower_interface=link.get("link", "") or "",
        )
        for link in _parse_json(sections, "links")
    }
    routes = _parse_json(sections, "default4") + _parse_json(sections, "default6")
    hops = [*routes, *(hop for r in routes for hop in r.get("nexthops", ()))]
    advertised = [r["dev"] for r in _parse_json(sections, "default6") if r.get("protocol") == "ra"]
    lines = sections.get("management", "").splitlines()
    management = [line.split()[1] for line in lines if line.strip()]
    return Facts(
        system=system,
        version=version,
        boot_id=sections.get("boot", "").strip(),
        is_root=sections.get("user", "").strip() == "0",
        interfaces=interfaces,
        management_interfaces=frozenset(management),
        management_path=parse_management_path(
            sections.get("client", ""), sections.get("way", ""), management
        ),
        default_route_interfaces=frozenset(r["dev"] for r in hops if "dev" in r),
        advertised_route_interfaces=frozenset(advertised),
        programs=frozenset(sections.get("programs", "").split()),
        sections=dict(sections),
    )


def _parse_json(sections: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Return the entries of a JSON section; raise DutError if it is malformed."""
    if not (text := sections.get(name, "").strip()):
        return []
    try:
        entries = json.loads(text)
    except ValueError as exc:
        problem = f"the device's {name} cannot be read: {text[:80]!r}"
        raise DutError(problem, code="unexpected-answer") from exc
    return [entry for entry in entries if entry]
