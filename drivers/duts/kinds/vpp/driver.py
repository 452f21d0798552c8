"""VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, NPTv6, DS-Lite and routing, by version."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.driver import Driver, check_interfaces
from v6t.drivers.duts.facts import (
    LINUX_SURVEY_COMMANDS,
    Facts,
    Interface,
    parse_linux_facts,
    parse_version,
)
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.addresses import find_next_hops, find_spare_network
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.softwires import get_tunnel_end
from v6t.drivers.duts.kinds.vpp import links, nat, outputs, process
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction, VppOptions
from v6t.drivers.duts.kinds.vpp.map import Lw4o6, MapE, MapT
from v6t.drivers.duts.plan import DeviceChange, Intent, Plan, shorten_output
from v6t.drivers.duts.readings import ParameterOverride, Reading
from v6t.drivers.duts.session.telemetry import INTERFACES_READING
from v6t.intent import families

SIDES = ("left", "right")
NAT44_PLUGINS: Mapping[str, type[nat.VppNat44]] = {
    "ed": nat.EndpointDependentNat44,
    "ei": nat.EndpointIndependentNat44,
}
FUNCTIONS: Mapping[type[families.DeviceConfig], type[VppFunction]] = {
    families.RouterConfig: VppFunction,
    families.MapERelayConfig: MapE,
    families.MapTRelayConfig: MapT,
    families.LwAftrConfig: Lw4o6,
    families.Nat44Config: nat.VppNat44,
    families.Nat64Config: nat.VppNat64,
    families.DsLiteAftrConfig: nat.DsLite,
    families.NptConfig: nat.Npt66,
    families.LwB4Config: links.TunnelFunction,
    families.B4Config: links.TunnelFunction,
    families.AftrTunnelConfig: links.TunnelFunction,
}


class VppDriver(Driver):
    """Driver of VPP, configured by ``vppctl``."""

    name = "vpp"
    programs = ("vpp", "vppctl")
    title = "VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, NPTv6, DS-Lite, customer tunnels, routing"
    supported_configurations = tuple(FUNCTIONS)
    test_status = "measured and restored with real frames (26.06; others by their sources)"
    versions = outputs.VERSIONS
    options_model = VppOptions
    changes_kernel_routes = False
    supports_background_vlans = True

    def get_survey_commands(self) -> Mapping[str, str]:
        program, plugins = self.options.program, process.make_plugins_command(self.options)
        if self.options.starts_vpp:
            version = f"{program} --version || {program} -h | head -1"
            commands = {"version": version, "plugins": plugins}
        else:
            commands = {
                "version": self.cli("show version"),
                "hardware": self.cli("show hardware-interfaces"),
                "plugins": self.cli("show plugins"),
                "ipip": self.cli("show ipip tunnel"),
            }
        return {**LINUX_SURVEY_COMMANDS, **commands}

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        if not (match := re.search(r"v?(\d+\.\d+[^\s]*)", sections.get("version", ""))):
            if self.options.starts_vpp:
                program, source = self.options.program, "https://fd.io"
                Facts(system="", version="").require_program(program, source, from_option=True)
            problem = "VPP does not answer: " + shorten_output(sections.get("version", ""))
            hint = "check that it runs and that this user may use its socket (dut.options.socket)"
            raise DutError(problem, hint, code="unexpected-answer")
        return parse_linux_facts(sections, match.group(1))

    def make_example_facts(self, intent: Intent) -> Facts:
        return Facts("Linux", self.options.version or outputs.VERSIONS[-1])

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        super().check_supported(intent, in_chain=in_chain)
        if isinstance(intent.configuration, families.B4Config | families.AftrTunnelConfig):
            get_tunnel_end(intent)

    def check_device(self, intent: Intent, facts: Facts) -> None:
        if parse_version(facts.version) < outputs.OLDEST_VERSION:
            problem = f"VPP {facts.version} is not supported"
            hint = "install VPP 22.06 or newer"
            instead = {"version": outputs.VERSIONS[0]}
            raise UsageError(problem, hint, dut_params=instead, code="unsupported-by-version")
        function = self.make_function(intent)
        function.check_supported(facts.version)
        # last, so that users do not restart VPP for a device that cannot be used anyway
        section = facts.sections.get
        self._check_plugin(function, section("plugins", ""), section("ipip", ""))
        protected = facts.find_protected_interfaces() if self.options.starts_vpp else {}
        for side in SIDES:
            if why := protected.get(name := getattr(self.options, side)):
                problem = f"the {side} interface {name} must not be changed: {why}"
                raise DutError(problem, code="interface-protected")
        if hardware := section("hardware"):
            mac_addresses = outputs.parse_hardware_addresses(hardware)
            interfaces = {name: Interface(mac) for name, mac in mac_addresses.items()}
            check_interfaces(self.options, intent, replace(facts, interfaces=interfaces))

    def _check_plugin(self, function: VppFunction, plugins: str, tunnels: str) -> None:
        plugin, listed = function.plugin, plugins.split()
        if not self.options.starts_vpp and "Plugin path" not in plugins:
            listed = []  # no list of plugins
        if function.newer_plugin and "unknown input" in tunnels:
            plugin, listed = function.newer_plugin, plugins.split() or ["none"]
        file = f"{plugin}_plugin.so"
        if not plugin or not listed or file in listed:
            return
        problem = f"VPP has not loaded {file}"
        hint = f"add `plugins {{ plugin {file} {{ enable }} }}` to its start-up file and restart it"
        if self.options.starts_vpp:
            problem = f"{self.options.program} has no {file}"
            hint = "install vpp-plugin-core, or set dut.options.plugins to the directory of plugins"
        raise DutError(problem, hint, code="plugin-not-loaded")

    def make_function(self, intent: Intent) -> VppFunction:
        kind = next(f for c, f in FUNCTIONS.items() if isinstance(intent.configuration, c))
        kind = NAT44_PLUGINS[self.options.nat44] if kind is nat.VppNat44 else kind
        return kind(intent, self.options, self.cli, self.get_ports(intent))

    def get_parameter_overrides(self, technology: str) -> Mapping[str, ParameterOverride]:
        if technology == "mapt-br" and not self.options.known_losses:
            return MapT.parameter_overrides
        return nat.DsLite.parameter_overrides if technology == "dslite-aftr" else {}

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        return self.make_function(intent).profile

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        table = self.make_function(intent).get_occupancy_reading()
        ports = tuple(self.get_port(side) for side in SIDES)
        parse = partial(outputs.parse_interface_counters, ports=ports)
        nodes = "calls, vectors, clocks and vectors per call of each node; packet rates by thread"
        frames = "packets, drops, and frames missed by a full ring, of each interface"
        losses = "lost packets by node and reason; `reasons` counts all rows"
        causes, reasons = outputs.INTERFACE_LOSS_REASONS, outputs.ERROR_LOSS_REASONS
        return {
            "cpu": telemetry.make_core_reading(polls=True),
            **({"table": table} if table else {}),
            "runtime": Reading(self.cli("show runtime"), outputs.parse_runtime, nodes),
            INTERFACES_READING: Reading(self.cli("show interface"), parse, frames, causes),
            "errors": Reading(self.cli("show errors"), outputs.parse_errors, losses, reasons),
        }

    def get_session_reading(self, intent: Intent) -> Reading | None:
        return self.make_function(intent).get_session_reading()

    def has_endpoint_independent_mapping(self, intent: Intent) -> bool:
        return self.make_function(intent).has_endpoint_independent_mapping

    def get_timeout_s(self, intent: Intent) -> float | None:
        return self.make_function(intent).get_timeout_s()

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        options, function = self.options, self.make_function(intent)
        first = process.make_start_steps(function) if options.starts_vpp else []
        steps = list(first)
        for side, port in self.get_ports(intent).items():
            link, parent = getattr(intent.links, side), self.get_port(side)
            if link.vlan:
                steps.append(links.make_link_up_step(self.cli, parent))
                steps.append(links.make_vlan_step(self.cli, parent, link.vlan))
            static = options.neighbours != "resolved"
            configure = partial(links.make_side_steps, mtu=link.mtu, cli=self.cli, static=static)
            link_intent, extra_steps = function.get_link_setup(side)
            steps += configure(link_intent, port, extra=extra_steps)
            if link_intent.background is not None:
                vlan = link.background.vlan
                steps.append(links.make_vlan_step(self.cli, parent, vlan))
                steps += configure(link_intent.background, f"{parent}.{vlan}")
        steps += function.make_steps(facts.version)
        flush = function.make_flush_steps(facts.version, steps)
        if options.starts_vpp:
            restartable_steps = process.add_gone_tests(steps[len(first) :], options)
            steps = [*process.make_interface_steps(options), *first, *restartable_steps]
        return Plan(self.name, facts.version, tuple(steps), flush, notes=function.notes)

    def find_route_update(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        """Return a change of a route; it removes the former path, since VPP adds paths to a route."""
        if (next_hops := find_next_hops(intent, self.get_ports(intent))) is None:
            return None
        ip_version, *hops = next_hops
        paths = [f"via {host} {port}" for host, port in hops]
        net = find_spare_network(intent, ip_version, skip=int(intent.requirements.live_change))
        show = links.make_fib_command(self.cli, str(net))
        adds = [self.cli(f"ip route add {net} {path}") for path in paths]
        removals = [self.cli(f"ip route del {net} {path}") for path in paths]
        return DeviceChange(
            "a route",
            add_command=f"{removals[1]} >/dev/null; {adds[0]}",
            change_command=f"{removals[0]} >/dev/null; {adds[1]}",
            remove_command=f"{removals[0]} >/dev/null; {removals[1]} >/dev/null; true",
            # compare hosts only: a path that was not removed is listed next to the new one
            show_command=f"{show} | sed -n '\\|^{net} |,$p' | grep -o 'via [0-9a-f.:]*' | sort -u",
            added_words=f"via {hops[0][0]}",
            changed_words=f"via {hops[1][0]}",
            exclusive=True,
        )

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        return self.make_function(intent).make_live_change()

    def get_ports(self, intent: Intent) -> dict[str, str]:
        """Return, for each side, the name of VPP's interface that has the IP addresses."""
        vlans = {side: getattr(intent.links, side).vlan for side in SIDES}
        return {s: self.get_port(s) + (f".{vlan}" if vlan else "") for s, vlan in vlans.items()}

    def get_port(self, side: str) -> str:
        """Return the name of VPP's untagged interface on a side."""
        name: str = getattr(self.options, side)
        return f"host-{name}" if self.options.starts_vpp else name

    @property
    def cli(self) -> Vppctl:
        return Vppctl(self.options)
