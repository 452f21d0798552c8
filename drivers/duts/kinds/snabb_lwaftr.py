"""Snabb's lwAFTR: one process per queue, polling, configuration in its YANG grammar."""

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts import steps
from v6t.drivers.duts.driver import check_interfaces, make_unsupported_error, require_root
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.softwires import iter_softwires
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import IfExists, Intent, Plan, Step, expect_text
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.intent.device import Address, LinkIntent
from v6t.intent.families import LwAftrConfig

_PCI_PATTERN = re.compile(r"^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
# pattern of a PCI address for grep, without an anchor
_PCI_GREP_PATTERN = r"[0-9a-f]*:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f]\.[0-7]"
PROCESS_NAME = "snabb"
SHARED_MEMORY_DIR = "/var/run/snabb"  # memory that Snabb's processes share, on huge pages
# drops are counted both by reason and in total for each IP version and side (lwaftr.lua)
LOSS_REASONS = {
    "ingress-packet-drops": LossReason.INGRESS, "drop-all-.*": LossReason.TOTAL, "drop-.*": LossReason.RULE,
}  # fmt: skip
parse_counters = make_sum_parser(  # parses the packet and drop counters in ``/softwire-state``
    r"\b(drop-[\w-]+(?<!-bytes)|(?:in|out)-[\w-]*packets|ingress-packet-drops)\s+(\d+);"
)
# parses the sum of drops of all packet sockets: ``skmem:(r0,rb212992,...,d12)``
parse_socket_drops = make_sum_parser(r"skmem:\([^)]*\bd(\d+)\)", "dropped")


class SnabbOptions(DutOptions):
    """Options of Snabb."""

    neighbours: Literal["static"] = "static"  #: Snabb's configuration has the MAC addresses.
    program: str = Field(default="snabb", pattern=r"^[A-Za-z0-9_./-]+$")  #: Path of the program.
    cpus: str = Field(default="", pattern=r"^[0-9,-]*$")
    """Cores for Snabb's processes; empty: any."""


class SnabbLwAftr(LinuxDriver):
    """Driver for Snabb's lwAFTR, which takes the interfaces away from the kernel."""

    name = "snabb-lwaftr"
    title = "Snabb lwAFTR (lw4o6)"
    supported_configurations = (LwAftrConfig,)
    test_status = "measured and restored with real frames (2024.08, interfaces of the kernel)"
    versions = ("2024.08",)
    options_model = SnabbOptions
    changes_kernel_routes = False
    notes = (
        "decapsulation does not change the TTL; encapsulation: outer hop limit 255",
        "a wrong PSID is answered with ICMPv6 1/5",
        "release 2024.08 has version 2022.07-396-gf32729274: last tag, commits since then, commit",
    )
    program_source = "https://github.com/snabbco/snabb"
    # also removes the shared memory directory, which every Snabb command creates
    version_command = (
        f"[ -e {SHARED_MEMORY_DIR} ] || new=1; {{program}} --version | head -1; "
        f'[ -z "$new" ] || for i in 1 2 3 4 5; do rmdir {SHARED_MEMORY_DIR} && break; sleep 0.1; done'
    )
    # ``snabb 2022.07 (396-gf32729274)`` is release 2024.08, 396 commits after the tag 2022.07
    version_pattern = r"(?s)(\d{4}\.\d{2}[.\w]*)(?:.*?\((\d+-g[0-9a-f]+[-\w]*)\))?"
    header_profile = HeaderProfile(
        tunnel_hop_limit=255,
        exit_keeps_ttl=True,
        why="Snabb sends tunnel packets with hop limit 255 and decrements no TTL at the tunnel's end",
    )

    @property
    def _state_command(self) -> str:
        return f"{self.options.program} config get-state --schema snabb-softwire-v3 v6t /softwire-state"

    def get_timeout_s(self, intent: Intent) -> float | None:
        return None

    def get_survey_commands(self) -> Mapping[str, str]:
        pci = (
            "for d in /sys/class/net/*; do [ -e $d/device ] || continue; n=${d##*/}; "
            # a virtio device is a child of its PCI device
            f"echo $n $(readlink -f $d/device | grep -o '{_PCI_GREP_PATTERN}' | tail -1) "
            "$(ip -o addr show dev $n | awk '{print $4}'); done"
        )
        return {**super().get_survey_commands(), "pci": pci}

    def check_device(self, intent: Intent, facts: Facts) -> None:
        require_root(facts)
        if _uses_pci(self.options):
            _check_pci_devices(self.options, facts)
        else:
            check_interfaces(self.options, intent, facts)
        if any(getattr(intent.links, s).vlan for s in ("left", "right")):
            problem = "this driver does not configure VLANs for Snabb"
            raise make_unsupported_error(problem, "use untagged links")

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        words = "packets in and out, drops by reason, frames that Snabb did not fetch from its NICs"
        counters = Reading(self._state_command, parse_counters, words, LOSS_REASONS)
        readings = {"cpu": telemetry.make_core_reading(polls=True), "snabb": counters}
        if not _uses_pci(self.options):
            words = "frames dropped at full packet sockets of kernel interfaces"
            losses = {"dropped": LossReason.INGRESS}
            readings["sockets"] = Reading("ss -0 -m -n", parse_socket_drops, words, losses)
        return readings

    def make_base_steps(self, intent: Intent, facts: Facts) -> list[Step]:
        return []  # the kernel forwards nothing

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        directory = self.options.state_dir
        file, pid = f"{directory}/lwaftr.conf", f"{directory}/snabb.pid"
        cpus = f" --cpu {self.options.cpus}" if self.options.cpus else ""
        run = f"{self.options.program} lwaftr run --name v6t --conf {file}{cpus}"
        # workers continue to poll after the main process has ended
        stop = steps.make_group_stop_command(pid, PROCESS_NAME)
        stop = f"( {stop} ) && rm -f {directory}/snabb.log {directory}/lwaftr.o"
        # every command creates the directory: only a running Snabb is queried
        answers = f"[ ! -s {pid} ] || {{ {self._state_command} >/dev/null && echo answers; }}"
        text = format_configuration(intent, self.options)
        setup_steps = [
            steps.make_config_file_step(file, text, "the lwAFTR's configuration"),
            *([_make_kernel_driver_step(self.options)] if _uses_pci(self.options) else []),
            *([] if self.options.in_lab else [_make_huge_page_step()]),
            _make_shared_memory_step(),
            steps.make_daemon_step(
                steps.make_background_command(pid, run, f"{directory}/snabb.log"),
                pid,
                PROCESS_NAME,
                "the lwAFTR itself",
                probe=answers,
                expected=expect_text(f"{PROCESS_NAME}\nanswers"),
                stop=stop,
            ),
        ]
        return self.assemble_plan(intent, facts, setup_steps)


def _uses_pci(options: SnabbOptions) -> bool:
    return bool(_PCI_PATTERN.match(options.left) and _PCI_PATTERN.match(options.right))


def _check_pci_devices(options: SnabbOptions, facts: Facts) -> None:
    """Raise DutError if the kernel uses one of the PCI devices, whose settings would be lost."""
    untouchable = facts.find_protected_interfaces()
    for line in facts.sections.get("pci", "").splitlines():
        name, _, rest = line.partition(" ")
        address, *own = rest.split() or [""]
        for side in ("left", "right"):
            pci = getattr(options, side)
            if not address.endswith(pci):
                continue
            if name in untouchable:
                reason = f"which v6t does not change: {untouchable[name]}"
                problem = f"the {side} interface {pci} is {name}, {reason}"
                hint = f"name another one with dut.options.{side}"
                raise DutError(problem, hint, code="interface-protected")
            interface = facts.interfaces.get(name)
            if own or (interface is not None and interface.is_up):
                has = f"has {' and '.join(own)}" if own else "is up"
                problem = f"the {side} interface {pci} is {name}, which {has}; Snabb does not restore that"
                hint = f"if unused: ip addr flush dev {name}; ip link set dev {name} down"
                raise DutError(problem, hint, code="interface-protected")


def _make_kernel_driver_step(options: SnabbOptions) -> Step:
    """Return a step that changes nothing; its undo returns the PCI devices to the kernel's drivers."""
    names = (n if n.count(":") == 2 else f"0000:{n}" for n in (options.left, options.right))
    addresses = " ".join(names)
    return Step(
        f"for a in {addresses}; do [ -d /sys/bus/pci/devices/$a ] || exit 1; done",
        "the kernel's drivers of both devices, which Snabb unbinds",
        read=f"for a in {addresses}; do d=$(readlink /sys/bus/pci/devices/$a/driver) || continue; "
        'echo "$a ${d##*/}"; done',
        undo="printf '%s\\n' {old} | while read a d; do [ -z \"$d\" ] || "
        "[ -e /sys/bus/pci/devices/$a/driver ] || echo $a >/sys/bus/pci/drivers/$d/bind; done",
    )


def _make_huge_page_step() -> Step:
    """Return a step that changes nothing; its undo restores the number of huge pages."""
    why = "huge pages, which Snabb adds by itself"
    read = "sysctl -e vm.nr_hugepages kernel.shmmax"
    return Step("true", why, read=read, undo="sysctl -q -e -p -", undo_text="{old}")


def _make_shared_memory_step() -> Step:
    """Return a step that changes nothing; its undo removes Snabb's unused shared memory."""
    used = f'for d in {SHARED_MEMORY_DIR}/[0-9]*; do [ ! -d "/proc/${{d##*/}}" ] || used=1; done'
    remove = f"umount {SHARED_MEMORY_DIR}/hugetlbfs; find {SHARED_MEMORY_DIR} -xdev -depth -delete"
    why = "Snabb's directory of shared memory, which it leaves behind"
    undo = (
        f"n=0; while [ -e {SHARED_MEMORY_DIR} ] && [ $n -lt 50 ]; do n=$((n+1)); used=; {used}; "
        f'[ -n "$used" ] || {{ {remove}; }} 2>/dev/null; sleep 0.2; done; [ ! -e {SHARED_MEMORY_DIR} ]'
    )
    read = f"ls -d {SHARED_MEMORY_DIR} 2>/dev/null || true"
    return Step("true", why, undo=undo, read=read, existing=IfExists.KEEP)


def format_configuration(intent: Intent, options: SnabbOptions) -> str:
    """Return Snabb's configuration file with one instance, one queue and the binding table."""
    links = intent.links
    lines = [
        "softwire-config {",
        # not by --v4 and --v6, because 2024.08 ignores the second kernel interface
        f"  instance {{ device {options.left}; external-device {options.right};",
        "    queue {",
        "      id 0;",
        f"      external-interface {{ ip {_get_address(intent.right, 4)}; mac {links.right.dut_mac}; "
        f"next-hop {{ mac {links.right.tester_mac}; }} }}",
        f"      internal-interface {{ ip {_get_address(intent.left, 6)}; mac {links.left.dut_mac}; "
        f"next-hop {{ mac {links.left.tester_mac}; }} }}",
        "    }",
        "  }",
        f"  external-interface {{ mtu {links.right.mtu}; }}",
        f"  internal-interface {{ mtu {links.left.mtu}; }}",
        "  binding-table {",
    ]
    for wire in iter_softwires(intent):
        reserved = f" reserved-ports-bit-count {wire.psid_offset};" if wire.psid_offset else ""
        lines.append(
            f"    softwire {{ ipv4 {wire.ipv4}; psid {wire.psid}; b4-ipv6 {wire.b4}; "
            f"br-address {wire.br}; port-set {{ psid-length {wire.psid_len};{reserved} }} }}"
        )
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _get_address(link: LinkIntent, version: int) -> Address:
    if (own := next((a.ip for a in link.addresses if a.version == version), None)) is None:
        raise UsageError(f"the lwAFTR needs an IPv{version} address", code="invalid-intent")
    return own
