"""Jool: SIIT, CLAT, NAT64 and (4.2.0 release candidates) MAP-T in the Linux kernel."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts import plan
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts, parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import addresses, softwires
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import make_module_step
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.drivers.duts.steps import make_config_file_step, make_object_step
from v6t.intent.families import (
    MapRuleConfig,
    MapTCeConfig,
    MapTRelayConfig,
    Nat64Config,
    SiitConfig,
)

SIIT, NAT64, MAPT = "jool_siit", "jool", "jool_mapt"
PROGRAM_SOURCES = {  # Debian packages or publisher's address, by program
    **dict.fromkeys((SIIT, NAT64), "jool-tools jool-dkms"),
    MAPT: "https://github.com/NICMx/Jool",
}
OWN_INSTANCE_ROW = r"[^,]*,v6t(,.*)?"  # of ``instance display --csv``
FIRST_MAPT_VERSION = (4, 1, 255)  # reported by release candidates of 4.2.0
RELEASE_CANDIDATES = {"4.1.255.5": "4.2.0-rc3"}  # published name by reported version
FIRST_FORCE_VERSION = (4, 1, 15)  # refuses the kernel's own ports without ``--force``
MIN_UDP_TIMEOUT_S = 120  # minimum timeout of UDP sessions (RFC 4787, section 4.3)
COMMON_NOTES = ("IPv4 packets whose UDP checksum is 0 are dropped",)  # for every program
PROGRAM_NOTES = {
    NAT64: ("source ports are not preserved (f-args 11)",),
    MAPT: ("the BR of 4.2.0-rc3 does not check source ports against the PSID",),
}
# Counters of 4.0.9 to 4.2.0-rc3; those of later versions count as dropped packets.
# totals, which do not show whether packets were translated or dropped
_TOTAL_COUNTERS = re.compile(
    r"JSTAT_(RECEIVED[46]|SUCCESS|BIB_ENTRIES|SESSIONS|TYPE[12]PKT|ICMP[46]ERR_(SUCCESS|FAILURE))$"
)
_NON_PACKET_COUNTERS = re.compile(r"JSTAT_(JOOLD_\w+|PADDING)$")  # not reported
# counters of packets that Jool returns to the kernel because no rule matches, which are not lost
_UNTRANSLATED_COUNTERS = re.compile(
    r"JSTAT(64|46)_(SRC|DST)$|JSTAT_(POOL[46]_MISMATCH|MAPT_(ADDR4|POOL6|EUI6P|FMR[46])|"
    r"UNKNOWN_(L4_PROTO|PROTO_INNER))$"
)
# counters of packets that NAT64 returns to the kernel, but SIIT and MAP-T drop
_NAT64_UNTRANSLATED_COUNTERS = re.compile(r"JSTAT_UNKNOWN_ICMP[46]_TYPE$")
LOSS_REASONS = {  # loss reasons by pattern of the names that :func:`parse_packet_counters` returns
    r"dropped: out of ports.*": LossReason.TABLE_FULL,
    r"dropped: no connection.*": LossReason.NO_CONNECTION,
    r"dropped: (no memory|the kernel did not accept|an unknown reason).*|dropped \(.*": LossReason.QUEUE,
    r"dropped: .*": LossReason.RULE,
}
_DROP_REASONS = {
    "JSTAT_ENOMEM": "no memory",
    "JSTAT_XLATOR_DISABLED": "it is disabled",
    "JSTAT_POOL6_UNSET": "it has no prefix",
    "JSTAT_UNTRANSLATABLE_DST6": "an IPv6 address without translation",
    "JSTAT_UNTRANSLATABLE_DST4": "an IPv4 address without translation",
    "JSTAT_UNKNOWN_ICMP4_TYPE": "an ICMP message without translation",
    "JSTAT_UNKNOWN_ICMP6_TYPE": "an ICMPv6 message without translation",
    "JSTAT_FAILED_ROUTES": "no route for the translated packet",
    "JSTAT_PKT_TOO_BIG": "too large for the next link",
    "JSTAT_DST_OUTPUT": "the kernel did not accept it for sending",
    "JSTAT_BIB6_NOT_FOUND": "out of ports for a client",
    "JSTAT_BIB4_NOT_FOUND": "no connection for an IPv4 packet",
    "JSTAT_SESSION_NOT_FOUND": "no connection for an ICMP error",
    "JSTAT_MASK_DOMAIN_NOT_FOUND": "no public address for its protocol",
    "JSTAT_ADF": "address-dependent filtering",
    "JSTAT_SYN6_EXPECTED": "IPv6 TCP without a SYN",
    "JSTAT_SYN4_EXPECTED": "IPv4 TCP without a SYN",
    "JSTAT_V4_SYN": "TCP begun from outside",
    "JSTAT_HAIRPIN_LOOP": "its source is in the translator's prefix",
    "JSTAT64_TTL": "its hop limit expired",
    "JSTAT46_TTL": "its TTL expired",
    "JSTAT64_6791_ENOENT": "no IPv4 address for the source of an ICMPv6 error",
    "JSTAT46_6791_ENOENT": "no IPv6 address for the source of an ICMP error",
    "JSTAT46_FRAGMENTED_ZERO_CSUM": "no UDP checksum",
    "JSTAT46_BAD_MTU": "the next link's MTU is too small for IPv6",
    "JSTAT_MAPT_PSID": "a source port of another CE",
    "JSTAT_MAPT_BAD_PRPF": "its port set is invalid",
    "JSTAT_UNKNOWN": "an unknown reason; for TCP also a pool without a free port",
}
parse_statistics = make_sum_parser(r"^\s*(JSTAT\w*),\s*(\d+)\s*$")  # of ``stats display --csv``
parse_sessions = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "sessions")
# parses the number of entries in NAT64's connection table, which has no limit
parse_occupancy = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "used")


class JoolOptions(LinuxOptions):
    """Options of Jool."""

    framework: Literal["netfilter"] = "netfilter"  #: Jool's hook in the kernel.
    lowest_ipv6_mtu: int = Field(default=0, ge=0, le=9216)
    """IPv4 packets without DF are fragmented to this size; 0: the technology's value."""
    flush: Literal["instance", "reboot"] = "instance"
    """Empty NAT64's sessions by a new instance, or by a reboot."""
    reboot_deadline_s: float = Field(default=300.0, gt=0, le=7200)
    """Time limit of a reboot until the next login [s]."""


class Jool(LinuxDriver):
    """Driver for Jool with a single instance, which is named v6t."""

    name = "jool"
    title = "Jool: SIIT, CLAT, NAT64, MAP-T in the Linux kernel"
    supported_configurations = (SiitConfig, Nat64Config, MapTRelayConfig, MapTCeConfig)
    test_status = "measured, emptied and restored with real frames (4.1.9, 4.1.15, 4.2.0-rc3)"
    versions = ("4.0.9", "4.1.9", "4.1.15", "4.2.0-rc3")
    options_model = JoolOptions
    optional_programs = tuple(PROGRAM_SOURCES)
    version_command = (
        "cat /sys/module/jool*/version 2>/dev/null | head -1; "
        "for p in jool_siit jool jool_mapt; do $p --version 2>/dev/null && break; done"
    )
    header_profile = HeaderProfile(
        zero_checksum="ipv6",
        why="a computed UDP checksum of 0 towards IPv6 is written as 0, not 0xFFFF",
    )

    def get_survey_commands(self) -> Mapping[str, str]:
        show = "instance display --csv --no-headers"
        instances = {f"instances_{p}": f"{p} {show}" for p in sorted(PROGRAM_SOURCES)}
        return {**super().get_survey_commands(), **instances}

    def extract_version(self, output: str) -> str:
        """Return the common version of Jool's module and programs; raise DutError if they differ."""
        plain = {re.sub(r"\.0$", "", v) for v in re.findall(r"\d+\.\d+\.\d+(?:[.-]\w+)?", output)}
        if len(plain) > 1:
            problem = f"Jool's module and program differ: {' and '.join(sorted(plain))}"
            hint = "install both from one version, and reload the module"
            raise DutError(problem, hint, code="version-mismatch")
        version = plain.pop() if plain else ""
        return RELEASE_CANDIDATES.get(version, version)

    def make_example_facts(self, intent: plan.Intent) -> Facts:
        """Return facts with the configured version of Jool, else a version that v6t was tested with."""
        tested = "4.2.0-rc3" if choose_program(intent) == MAPT else "4.1.9"
        return replace(super().make_example_facts(intent), version=self.options.version or tested)

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
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
        facts.require_program(program, PROGRAM_SOURCES[program])
        for name, text in facts.sections.items():
            rows = filter(None, map(str.strip, text.splitlines()))
            is_own = re.compile(OWN_INSTANCE_ROW).fullmatch
            if name.startswith("instances_") and not all(map(is_own, rows)):
                problem = f"another translator is active on the device: {plan.shorten_output(text)}"
                hint = f"{name.partition('_')[2]} instance remove, if it is not needed"
                raise DutError(problem, hint, code="device-busy")

    def _check_udp_timeout(self, intent: plan.Intent) -> None:
        """Raise UsageError unless the UDP timeout is at least the minimum of all Jool versions (global.c)."""
        timeout_s, least = self.get_configured_timeout_s(intent), MIN_UDP_TIMEOUT_S
        if 0 < timeout_s < least:
            problem = f"the UDP timeout of Jool must be at least {least} s, not {timeout_s}"
            if intent.get_configuration(Nat64Config).udp_timeout_s:
                hint, instead = f"set udp_timeout_s to {least} or more", {"udp_timeout_s": least}
                raise make_unsupported_error(problem, hint, params=instead)
            hint, instead = f"set timeout_s to {least} or more", {"timeout_s": least}
            raise make_unsupported_error(problem, hint, dut_params=instead)

    def plan_configuration(self, intent: plan.Intent, facts: Facts) -> plan.Plan:
        program, lab = choose_program(intent), self.options.in_lab
        refcnt = f"/sys/module/{program}/refcnt"
        unload = f'[ "$(cat {refcnt} 2>/dev/null)" != 0 ] || modprobe -r {program}'
        steps = [make_module_step(program, "Jool's kernel module", unload, in_lab=lab)]
        flush = []
        make_steps = self._make_mapt_steps if program == MAPT else self._make_instance_steps
        steps += make_steps(intent)
        if program == NAT64:
            pool_steps = make_pool_steps(intent, facts.version)
            steps += pool_steps
            flush = [self._make_flush_step(pool_steps)]
        notes = COMMON_NOTES + PROGRAM_NOTES.get(program, ())
        return self.assemble_plan(intent, facts, steps, flush, notes)

    @property
    def _configuration_file(self) -> str:
        return f"{self.options.state_dir}/jool.json"

    def _choose_lowest_mtu(self, intent: plan.Intent) -> int:
        configured: int = getattr(intent.configuration, "lowest_ipv6_mtu", 1280)
        return self.options.lowest_ipv6_mtu or configured

    def _make_instance_steps(self, intent: plan.Intent) -> list[plan.Step]:
        program, config = choose_program(intent), addresses.get_siit_config(intent)
        settings: dict[str, Any] = {"lowest-ipv6-mtu": self._choose_lowest_mtu(intent)}
        if config.prefix is not None:
            settings["pool6"] = str(config.prefix)
        if program == NAT64 and (timeout_s := self.get_configured_timeout_s(intent)):
            minutes, seconds = divmod(timeout_s, 60)
            settings["udp-timeout"] = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        content: dict[str, Any] = {
            "instance": "v6t", "framework": self.options.framework, "global": settings,
        }  # fmt: skip
        checks = [f"{name},{value}" for name, value in settings.items()]
        description = ", ".join(checks)
        show = f"{program} -i v6t global display --csv --no-headers"
        if program == SIIT:
            rows = [(str(six), str(four)) for four, six in config.eam]
            content["eamt"] = [{"ipv6 prefix": six, "ipv4 prefix": four} for six, four in rows]
            show += f"; {program} -i v6t eamt display --csv --no-headers"
            checks += [",".join(row) for row in rows]
            description = f"{len(rows)} mappings, {description}"
        file, text = self._configuration_file, json.dumps(content, indent=1) + "\n"
        create, delete = f"{program} file handle {file}", f"{program} instance remove v6t"
        read = f"{{ {show}; }} 2>/dev/null; true"
        expected = replace(plan.expect_lines(*checks), description=description)
        return [
            make_config_file_step(file, text, "Jool's configuration, atomic"),
            make_object_step(create, delete, "the translator", read=read, expected=expected),
        ]

    def _make_mapt_steps(self, intent: plan.Intent) -> list[plan.Step]:
        edge = intent.configuration
        if isinstance(edge, MapTCeConfig):
            rules, dmr, role = (edge.rule,), edge.dmr, "CE"
            role_steps = [
                _make_global_step("end-user-ipv6-prefix", edge.end_user_prefix),
                _make_global_step("bmr", _format_rule(edge.rule)),
            ]
        else:
            relay = intent.get_configuration(MapTRelayConfig)
            rules, dmr, role = relay.rules, relay.dmr, "BR"
            role_steps = [_make_rule_step(rule) for rule in rules]
        softwires.check_iid_format(rules, "Jool")
        softwires.check_no_psid(rules, "Jool")
        create = f"{MAPT} instance add v6t --{self.options.framework} --dmr {dmr}"
        delete = f"{MAPT} instance remove v6t"
        read = f"{MAPT} instance display --csv --no-headers 2>/dev/null | grep ',v6t,' || true"
        expected = plan.expect_matching_line(OWN_INSTANCE_ROW, "an instance v6t")
        return [
            make_object_step(create, delete, "the translator", read=read, expected=expected),
            *role_steps,
            _make_global_step("map-t-type", role),
            _make_global_step("lowest-ipv6-mtu", self._choose_lowest_mtu(intent)),
        ]

    def _make_flush_step(self, pool_steps: list[plan.Step]) -> plan.Step:
        """Return the step that reboots, or replaces the instance: removing sessions takes minutes."""
        if self.options.flush == "reboot":
            command = "(sleep 1; reboot) >/dev/null 2>&1 </dev/null &"
            why, limit_s = "no state of an earlier trial is left", self.options.reboot_deadline_s
            return plan.Step(command, why, reboots=True, deadline_s=limit_s)
        lines = [f"{NAT64} instance remove v6t", f"{NAT64} file handle {self._configuration_file}"]
        lines += [step.command for step in pool_steps]
        empty = plan.expect_max_sessions(parse_sessions, "session")
        proof = plan.Check(make_statistics_command(NAT64), empty)
        return plan.Step(" && ".join(lines), "no session of an earlier trial is left", proof=proof)

    def get_session_reading(self, intent: plan.Intent) -> Reading | None:
        if choose_program(intent) != NAT64:
            return None
        return Reading(make_statistics_command(NAT64), parse_sessions)

    def get_telemetry_readings(self, intent: plan.Intent) -> Mapping[str, Reading]:
        program = choose_program(intent)
        command = make_statistics_command(program)
        parse = partial(parse_packet_counters, nat64=program == NAT64)
        words = "packets that Jool dropped, by reason, or returned to the kernel (not lost); totals"
        counters = Reading(command, parse, words, LOSS_REASONS)
        readings = {**super().get_telemetry_readings(intent), "jool": counters}
        if program == NAT64:
            means = "Jool's connections, limited by memory only (`JSTAT_SESSIONS`)"
            readings["table"] = Reading(command, parse_occupancy, means)
        return readings


def choose_program(intent: plan.Intent) -> str:
    """Return the Jool program that implements an intent."""
    if isinstance(intent.configuration, Nat64Config):
        return NAT64
    return MAPT if isinstance(intent.configuration, MapTRelayConfig | MapTCeConfig) else SIIT


def make_statistics_command(program: str) -> str:
    """Return the command that prints the instance's counters."""
    return f"{program} -i v6t stats display --all --csv --no-headers"


def make_pool_steps(intent: plan.Intent, version: str) -> list[plan.Step]:
    """Return the steps that add public addresses and ports, which may be the kernel's own."""
    pool = nat.get_pool(intent, supported_settings=("udp_timeout_s",))
    force = " --force" if parse_version(version) >= FIRST_FORCE_VERSION else ""
    ports = f"{pool.first_port}-{pool.last_port}"

    def make_step(protocol: str, address: str) -> plan.Step:
        # a row begins with its packet mark
        row = f"0,{protocol.upper()},{re.escape(address)},{pool.first_port},{pool.last_port}(,.*)?"
        add = f"jool -i v6t pool4 add {address} {ports} --{protocol}{force}"
        why = f"public addresses and ports of {protocol.upper()}; without, only 61001-65535"
        read = f"jool -i v6t pool4 display --{protocol} --csv --no-headers"
        expected = plan.expect_matching_line(row, f"{address} {ports}")
        return plan.Step(add, why, read=read, expected=expected)

    return [make_step(name, address) for name in nat.PROTOCOLS for address in pool.addresses]


def _format_rule(rule: MapRuleConfig) -> str:
    return f"{rule.ipv6_prefix} {rule.ipv4_prefix} {rule.ea_len} {rule.psid_offset}"


def _make_rule_step(rule: MapRuleConfig) -> plan.Step:
    values, read = _format_rule(rule), f"{MAPT} -i v6t fmrt display --csv --no-headers"
    add, why = f"{MAPT} -i v6t fmrt add {values}", f"forwarding mapping rule {rule.ipv6_prefix}"
    return plan.Step(add, why, read=read, expected=plan.expect_lines(values.replace(" ", ",")))


def _make_global_step(name: str, value: object) -> plan.Step:
    write, why = f"{MAPT} -i v6t global update {name} {value}", f"{name} of the translator"
    read = f"{MAPT} -i v6t global display --csv --no-headers | grep '^{name},'"
    row = f"{name} {value}".replace(" ", ",")
    return plan.Step(write, why, read=read, expected=plan.expect_text(row))


def parse_packet_counters(text: str, *, nat64: bool = False) -> Mapping[str, float]:
    """Parse the packet counters, keyed by telemetry names such as ``dropped: REASON (COUNTER)``."""
    return {
        _format_counter_name(n, nat64=nat64): value
        for n, value in parse_statistics(text).items()
        if not _NON_PACKET_COUNTERS.match(n)
    }


def _format_counter_name(name: str, *, nat64: bool) -> str:
    if _TOTAL_COUNTERS.match(name):
        return name.removeprefix("JSTAT_").lower().replace("_", " ")
    if _UNTRANSLATED_COUNTERS.match(name) or (nat64 and _NAT64_UNTRANSLATED_COUNTERS.match(name)):
        return f"not translated ({name})"
    words = _DROP_REASONS.get(name)
    return f"dropped: {words} ({name})" if words else f"dropped ({name})"
