"""Jool: SIIT, CLAT, NAT64 and (4.2.0 release candidates) MAP-T in the Linux kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import jool_instances
from v6t.drivers.duts.kinds.jool_instances import MAPT, NAT64, JoolOptions, choose_program
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.versions import parse_version
from v6t.drivers.duts.os.linux import make_module_step
from v6t.drivers.duts.plan import Intent, Plan, Step, shorten_output
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.refusals import make_unsupported_error, require_program
from v6t.intent.families import MapTCeConfig, MapTRelayConfig, Nat64Config, SiitConfig

FIRST_MAPT_VERSION = (4, 1, 255)  # reported by release candidates of 4.2.0
RELEASE_CANDIDATES = {"4.1.255.5": "4.2.0-rc3"}  # published name by reported version
MIN_UDP_TIMEOUT_S = 120  # minimum timeout of UDP sessions (RFC 4787, section 4.3)
COMMON_NOTES = ("IPv4 packets whose UDP checksum is 0 are dropped",)  # for every program
# notes of plans, by program
PROGRAM_NOTES = {
    NAT64: ("source ports are not preserved (f-args 11)",),
    MAPT: ("the BR of 4.2.0-rc3 does not check source ports against the PSID",),
}
COUNTERS_DESCRIPTION = (
    "Jool's own counters: packets that it lost, by reason; packets that it handed back to the kernel, for "
    "which it has no rule, and which are no loss; totals"
)


class Jool(LinuxDriver):
    """Driver for Jool with a single instance, which is named v6t."""

    name = "jool"
    title = "Jool: SIIT, CLAT, NAT64, MAP-T in the Linux kernel"
    supported_configurations = (SiitConfig, Nat64Config, MapTRelayConfig, MapTCeConfig)
    test_status = (
        "configured over SSH, verified, measured, emptied and restored with real frames (Debian's 4.1.9, "
        "also rebooted, and built 4.1.15 on Debian's kernel: SIIT, CLAT, NAT64; built 4.2.0-rc3: MAP-T)"
    )
    versions = ("4.0.9", "4.1.9", "4.1.15", "4.2.0-rc3")
    options_model = JoolOptions
    optional_programs = tuple(jool_instances.PROGRAM_SOURCES)
    version_command = (
        "cat /sys/module/jool*/version 2>/dev/null | head -1; "
        "for p in jool_siit jool jool_mapt; do $p --version 2>/dev/null && break; done"
    )
    header_profile = HeaderProfile(
        zero_checksum="ipv6",
        why="where a UDP checksum comes out as 0 towards IPv6 it writes 0, not 0xFFFF",
    )

    def get_survey_commands(self) -> Mapping[str, str]:
        commands = dict(super().get_survey_commands())
        for program in sorted(jool_instances.PROGRAM_SOURCES):
            commands[f"instances_{program}"] = f"{program} instance display --csv --no-headers"
        return commands

    def read_version(self, text: str) -> str:
        """Return the common version of Jool's module and programs; raise DutError if they differ."""
        versions = re.findall(r"\d+\.\d+\.\d+(?:[.-]\w+)?", text)
        plain = {re.sub(r"\.0$", "", v) for v in versions}
        if len(plain) > 1:
            problem = f"Jool's module and program differ: {' and '.join(sorted(plain))}"
            hint = "install both from one version, and reload the module"
            raise DutError(problem, hint, code="version-mismatch")
        version = plain.pop() if plain else ""
        return RELEASE_CANDIDATES.get(version, version)

    def make_example_facts(self, intent: Intent) -> Facts:
        """Return facts with the configured version of Jool, else a version that v6t was tested with."""
        tested = "4.2.0-rc3" if choose_program(intent) == MAPT else "4.1.9"
        return replace(super().make_example_facts(intent), version=self.options.version or tested)

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        program = choose_program(intent)
        # a device without a version has no Jool at all
        if program == MAPT and facts.version and parse_version(facts.version) < FIRST_MAPT_VERSION:
            other = "VPP" if isinstance(intent.configuration, MapTRelayConfig) else "nat46"
            problem = f"Jool {facts.version} has no MAP-T; the 4.2.0 release candidates have"
            hint = f"build 4.2.0-rc3 on the device, or measure {intent.technology} on {other}"
            raise UsageError(problem, hint, code="unsupported-by-version")
        if program == NAT64:
            self._check_udp_timeout(intent)
        require_program(facts, program, jool_instances.PROGRAM_SOURCES[program])
        for name, text in facts.sections.items():
            lines = filter(str.strip, text.splitlines())
            if name.startswith("instances_") and not all(
                map(jool_instances.is_own_instance, lines)
            ):
                problem = f"another translator is at work on the device: {shorten_output(text)}"
                hint = f"{name.partition('_')[2]} instance remove, if it is not needed"
                raise DutError(problem, hint, code="device-busy")

    def _check_udp_timeout(self, intent: Intent) -> None:
        """Raise UsageError unless the UDP timeout is at least the minimum of all Jool versions (global.c)."""
        told_s = intent.configuration_as(Nat64Config).udp_timeout_s
        given_s = told_s or self.options.timeout_s
        if 0 < given_s < MIN_UDP_TIMEOUT_S:
            name = "udp_timeout_s" if told_s else "timeout_s"
            instead = {name: MIN_UDP_TIMEOUT_S}
            raise make_unsupported_error(
                f"the UDP timeout of Jool must be at least {MIN_UDP_TIMEOUT_S} s, not {given_s}",
                f"set {name} to {MIN_UDP_TIMEOUT_S} or more",
                params=instead if told_s else {},
                dut_params={} if told_s else instead,
            )

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        program, lab = choose_program(intent), self.options.in_lab
        refcnt = f"/sys/module/{program}/refcnt"
        unload = f'[ "$(cat {refcnt} 2>/dev/null)" != 0 ] || modprobe -r {program}'
        load = make_module_step(program, "Jool's kernel module", unload, in_lab=lab)
        flush: tuple[Step, ...] = ()
        if program == MAPT:
            own = jool_instances.make_mapt_instance_steps(intent, self.options)
        elif program == NAT64:
            own = [
                *jool_instances.make_instance_steps(intent, self.options),
                *jool_instances.make_pool4_steps(intent, facts.version),
            ]
            if self.options.flush == "instance":
                flush = (jool_instances.make_flush_step(intent, self.options, facts.version),)
            else:
                command = "(sleep 1; reboot) >/dev/null 2>&1 </dev/null &"
                why = "no state of an earlier trial is left"
                limit_s = self.options.reboot_deadline_s
                flush = (Step(command, why, reboots=True, deadline_s=limit_s),)
        else:
            own = jool_instances.make_instance_steps(intent, self.options)
        notes = COMMON_NOTES + PROGRAM_NOTES.get(program, ())
        return self.assemble_plan(intent, facts, [load, *own], flush, notes)

    def get_session_reading(self, intent: Intent) -> Reading | None:
        if choose_program(intent) != NAT64:
            return None
        return Reading(
            jool_instances.make_statistics_command(NAT64),
            jool_instances.parse_sessions,
        )

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        program = choose_program(intent)
        command = jool_instances.make_statistics_command(program)
        outcomes = partial(jool_instances.parse_packet_counters, nat64=program == NAT64)
        counters = Reading(command, outcomes, COUNTERS_DESCRIPTION, jool_instances.LOSS_REASONS)
        readings = {**super().get_telemetry_readings(intent), "jool": counters}
        if program == NAT64:
            description = (
                "connections that Jool keeps, which memory alone limits (`JSTAT_SESSIONS`)"
            )
            readings["table"] = Reading(command, jool_instances.parse_occupancy, description)
        return readings
