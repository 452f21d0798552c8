"""Base of all drivers of Linux devices, and the kernel's own forwarding, the baseline."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from v6t.base.errors import DutError, ExtensionError
from v6t.drivers.duts import management_path
from v6t.drivers.duts.driver import Driver, check_interfaces, require_root
from v6t.drivers.duts.facts import LINUX_SURVEY_COMMANDS, Facts, parse_linux_facts
from v6t.drivers.duts.kinds.addresses import find_next_hops, find_spare_network
from v6t.drivers.duts.kinds.linux import filters, services, telemetry
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os import linux, linux_tuning
from v6t.drivers.duts.plan import Check, DeviceChange, Intent, Plan, Step
from v6t.drivers.duts.readings import Reading
from v6t.intent.families import RouterConfig

SIDES = ("left", "right")
# programs looked up on every device; only the first two are required
SURVEYED_PROGRAMS = ("ip", "sysctl", "ethtool", "snmpd", "snmpget", "bird", "birdc")
KERNEL_UDP_TIMEOUT_S = 30  # default of nf_conntrack_udp_timeout, for unanswered connections


class LinuxDriver(Driver):
    """Base class of drivers for Linux devices; subclasses add the steps of an implementation."""

    options_model = LinuxOptions
    supports_background_vlans = True
    programs: Mapping[str, str] = {}
    """Programs needed beyond ip and sysctl, each with its Debian package or the address of its publisher."""
    program_source: ClassVar[str] = ""  # package or publisher's address of ``options.program``
    optional_programs: tuple[str, ...] = ()  # programs that only some plans need
    has_filters: ClassVar[bool] = False  # nftables can filter packets before their translation
    version_command = "uname -r"  # ``{program}`` stands for the option ``program``
    version_pattern: ClassVar[str] = r"(?s)\s*(.*\S|)"  # its groups form the version

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        if self.program_source:
            program = self.options.program
            self.programs = {program: self.program_source, **self.programs}
            self.version_command = self.version_command.replace("{program}", program)
        if self.has_filters:
            self.optional_programs = (*self.optional_programs, filters.FILTER_PROGRAM)

    def format_template(self, template: str, **fields: Any) -> str:
        """Return a template with its placeholders replaced; raise ExtensionError for unknown ones."""
        try:
            return template.format(**fields)
        except (LookupError, AttributeError, ValueError) as exc:
            problem = f"the driver {self.name} cannot fill in its template '{template:.60}': {exc}"
            raise ExtensionError(problem, code="invalid-placeholder") from exc

    def get_configured_timeout_s(self, intent: Intent) -> int:
        """Return the UDP timeout to configure [s]; 0 keeps the device's default."""
        timeout_s: int = getattr(intent.configuration, "udp_timeout_s", 0) or self.options.timeout_s
        return timeout_s

    def get_timeout_s(self, intent: Intent) -> float | None:
        return float(self.get_configured_timeout_s(intent) or KERNEL_UDP_TIMEOUT_S)

    def get_survey_commands(self) -> Mapping[str, str]:
        program_names = dict.fromkeys((*SURVEYED_PROGRAMS, *self.programs, *self.optional_programs))
        jumps = self.options.ssh.jump_addresses if self.options.ssh is not None else ()
        return {
            **LINUX_SURVEY_COMMANDS,
            "way": management_path.make_survey_command(jumps),
            **linux_tuning.get_survey_commands(self.options),
            "version": self.version_command,
            # prints the names of the programs that are installed
            "programs": f"for p in {' '.join(program_names)}; "
            "do command -v $p >/dev/null && echo $p; done; true",
        }

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        facts = parse_linux_facts(sections, "")
        optional_program = getattr(self.options, "program", None)
        for program, source in {"ip": "iproute2", "sysctl": "procps", **self.programs}.items():
            facts.require_program(program, source, from_option=program == optional_program)
        return replace(facts, version=self.extract_version(sections.get("version", "")))

    def extract_version(self, output: str) -> str:
        """Return the version in the output of ``version_command``."""
        match = re.search(self.version_pattern, output)
        if match is None and self.program_source:
            problem = f"'{self.version_command}' does not print the version of {self.name}"
            raise DutError(problem, "set dut.options.program to its path", code="unexpected-answer")
        return "-".join(filter(None, match.groups())) if match else "unknown"

    def make_example_facts(self, intent: Intent) -> Facts:
        programs = frozenset({*SURVEYED_PROGRAMS, *self.programs, *self.optional_programs})
        return replace(self.assume_facts(intent, "Linux"), programs=programs)

    def check_device(self, intent: Intent, facts: Facts) -> None:
        require_root(facts)
        check_interfaces(self.options, intent, facts)

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        return telemetry.make_readings(*self.get_ports(intent).values())

    def get_ports(self, intent: Intent) -> dict[str, str]:
        """Return the interface with the IP addresses of each side, which may be a VLAN interface."""
        links, options = intent.links, self.options
        return {s: f"v6t-{s}" if getattr(links, s).vlan else getattr(options, s) for s in SIDES}

    def get_background_ports(self, intent: Intent) -> dict[str, str]:
        """Return the VLAN interface of each side whose background traffic has a separate VLAN."""
        return {side: f"v6t-{side}-bg" for side in SIDES if getattr(intent, side).background}

    def plan_snmp_agent(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Check] | None:
        return services.make_snmp_agent_steps(facts, self.options.state_dir)

    def plan_filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        if not self.has_filters:
            return ()
        ports, background_ports = self.get_ports(intent), self.get_background_ports(intent)
        return filters.make_filter_steps(intent, facts, ports, background_ports, count)

    def find_route_update(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        # not the route that the live change moves
        return self.make_route_change(intent, skip=int(intent.requirements.live_change))

    def plan_bgp_speaker(
        self, intent: Intent, facts: Facts
    ) -> tuple[Sequence[Step], DeviceChange] | None:
        if (next_hops := find_next_hops(intent, self.get_ports(intent))) is None:
            return None
        version, there, back = next_hops
        net = str(find_spare_network(intent, version, skip=int(intent.requirements.live_change)))
        directory, hops = self.options.state_dir, {"there": there, "back": back}
        return services.make_bgp_speaker_steps(facts, directory, version, net, hops)

    def make_route_change(self, intent: Intent, skip: int = 0) -> DeviceChange | None:
        """Return a change that moves a route to the other side; None if the sides share no IP version."""
        if (next_hops := find_next_hops(intent, self.get_ports(intent))) is None:
            return None
        version, *hops = next_hops
        first_path, second_path = (f"via {host} dev {port}" for host, port in hops)
        net, route = find_spare_network(intent, version, skip), f"ip -{version} route"
        return DeviceChange(
            "a route",
            add_command=f"{route} replace {net} {first_path} proto 86",
            change_command=f"{route} replace {net} {second_path} proto 86",
            remove_command=f"{route} del {net} proto 86 2>/dev/null; true",
            # refuse a foreign route to the network, which `replace` would overwrite
            show_command=f"{route} show exact {net}",
            added_words=first_path,
            changed_words=second_path,
        )

    def make_base_steps(self, intent: Intent, facts: Facts) -> list[Step]:
        """Return the steps common to all technologies, which come first."""
        mode, ports = self.options.neighbours, self.get_ports(intent)
        background_ports = self.get_background_ports(intent)
        steps: list[Step] = []
        if names := sorted(facts.advertised_route_interfaces):
            why = "a forwarding host must keep learning its default route"
            keys = (linux.make_sysctl_key(6, name, "accept_ra") for name in names)
            steps.append(linux.make_sysctl_step(dict.fromkeys(keys, 2), why))
        steps += linux_tuning.make_tuning_steps(self.options, facts)
        for side, port in ports.items():
            link, parent = getattr(intent.links, side), getattr(self.options, side)
            steps += [] if link.vlan else [linux.make_mtu_step(parent, link.mtu)]
            steps.append(linux.make_link_up_step(parent))
            if link.vlan:
                why = f"VLAN of the {side} link"
                steps += linux.make_vlan_steps(parent, port, link.vlan, link.mtu, why)
        for side, port in background_ports.items():
            link, parent = getattr(intent.links, side), getattr(self.options, side)
            why = f"VLAN of the background on the {side}"
            steps += linux.make_vlan_steps(parent, port, link.background.vlan, link.mtu, why)
        steps.append(linux.make_forwarding_step([*ports.values(), *background_ports.values()]))
        most = max(len(getattr(intent, side).neighbors) for side in SIDES)
        if mode != "gateway" and most >= (facts.parse_number("gc_thresh3") or 1024) // 2:
            steps.append(linux.make_neighbor_table_step(most))
        for side, port in ports.items():
            steps += linux.make_side_steps(getattr(intent, side), port, mode)
        for side, port in background_ports.items():
            steps += linux.make_side_steps(getattr(intent, side).background, port, mode)
        return steps

    def assemble_plan(
        self,
        intent: Intent,
        facts: Facts,
        steps: Iterable[Step],
        flush: Iterable[Step] = (),
        notes: Iterable[str] | None = None,
    ) -> Plan:
        """Return a plan of the base steps and then ``steps``; None for ``notes`` means the class's notes."""
        all_steps = (*self.make_base_steps(intent, facts), *steps)
        notes = self.notes if notes is None else tuple(notes)
        return Plan(self.name, facts.version, all_steps, tuple(flush), notes=notes)


class LinuxRouter(LinuxDriver):
    """Driver for plain forwarding by the Linux kernel."""

    name = "linux-router"
    title = "Linux kernel forwarding, IPv4 and IPv6"
    supported_configurations = (RouterConfig,)
    has_filters = True
    test_status = "configured, verified, measured and restored with real frames (kernel 6.18)"
    notes = ("connection tracking stays off unless another rule requires it",)

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        return self.assemble_plan(intent, facts, ())

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        return self.make_route_change(intent)
