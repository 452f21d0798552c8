"""Jool: SIIT, CLAT, NAT64 and (4.2.0 release candidates) MAP-T in the Linux kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, jool_statistics, softwires
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import load_module
from v6t.drivers.duts.plan import (
    Check,
    Intent,
    Plan,
    Step,
    Want,
    equals,
    has_lines,
    passes,
    shorten,
)
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.refusals import make_missing_program_error, make_unsupported_error
from v6t.drivers.duts.steps import create_object, write_config_file
from v6t.intent.families import (
    MapRuleConfig,
    MapTCeConfig,
    MapTRelayConfig,
    Nat64Config,
    SiitConfig,
)

SIIT, NAT64, MAPT = "jool_siit", "jool", "jool_mapt"
PROGRAMS = {
    **dict.fromkeys((SIIT, NAT64), "jool-tools jool-dkms"),
    MAPT: "https://github.com/NICMx/Jool",
}
"""Where each comes from: see :func:`make_missing_program_error`."""


class JoolOptions(LinuxOptions):
    """Options of Jool."""

    framework: Literal["netfilter"] = "netfilter"
    """How Jool hooks into the kernel."""
    lowest_ipv6_mtu: int = Field(default=0, ge=0, le=9216)
    """IPv4 packets without DF are fragmented to this; 0: what the technology says."""
    flush: Literal["instance", "reboot"] = "instance"
    """How NAT64's sessions are emptied: a new instance, or a reboot and everything again."""
    reboot_deadline_s: float = Field(default=300.0, gt=0, le=7200)
    """How long a reboot may take until the next login."""


def _choose_lowest_mtu(intent: Intent, options: JoolOptions) -> int:
    return options.lowest_ipv6_mtu or getattr(intent.configuration, "lowest_ipv6_mtu", 1280)


def make_instance(intent: Intent, options: JoolOptions) -> list[Step]:
    """Write the configuration of SIIT or NAT64, and make an instance of it in one step."""
    program = choose_program(intent)
    prefix = addresses.get_prefix(intent)
    settings: dict[str, Any] = {"lowest-ipv6-mtu": _choose_lowest_mtu(intent, options)}
    if prefix is not None:
        settings["pool6"] = str(prefix)
    if program == NAT64:
        lives_s = intent.configuration_as(Nat64Config).udp_timeout_s or options.timeout_s
        if lives_s:
            minutes, seconds = divmod(lives_s, 60)
            settings["udp-timeout"] = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    content: dict[str, Any] = {"instance": "v6t", "framework": options.framework}
    content["global"] = settings
    checks = [f"{name},{value}" for name, value in settings.items()]
    says = ", ".join(checks)
    file = f"{options.state_dir}/jool.json"
    show = f"{program} -i v6t global display --csv --no-headers"
    if program == SIIT:
        table = addresses.list_mappings(intent)
        content["eamt"] = [
            {"ipv6 prefix": str(six), "ipv4 prefix": str(four)} for four, six in table
        ]
        show += f"; {program} -i v6t eamt display --csv --no-headers"
        checks += [f"{six},{four}" for four, six in table]
        says = f"{len(table)} mappings, {says}"
    return [
        write_config_file(
            file, json.dumps(content, indent=1) + "\n", "Jool's configuration, atomic"
        ),
        create_object(
            f"{program} file handle {file}",
            f"{program} instance remove v6t",
            "the translator",
            read=f"{{ {show}; }} 2>/dev/null; true",
            want=replace(has_lines(*checks), says=says),
        ),
    ]


def make_mapt_instance(intent: Intent, options: JoolOptions) -> list[Step]:
    """Make an instance of MAP-T, and add its rules one by one."""
    program, configuration = MAPT, intent.configuration
    edge: MapTCeConfig | None = None
    if isinstance(configuration, MapTRelayConfig):
        rules, dmr = configuration.rules, configuration.dmr
    else:
        edge = intent.configuration_as(MapTCeConfig)
        rules, dmr = (edge.rule,), edge.dmr
    softwires.refuse_draft(rules, "Jool")
    softwires.refuse_psid(rules, "Jool")
    run = f"{program} -i v6t"
    steps = [
        create_object(
            f"{program} instance add v6t --{options.framework} --dmr {dmr}",
            f"{program} instance remove v6t",
            "the translator",
            read=f"{program} instance display --csv --no-headers 2>/dev/null | grep ',v6t,' || true",
            want=passes(lambda out: any(map(is_own_instance, out.splitlines())), "an instance v6t"),
        )
    ]
    if edge is None:
        steps += [
            Step(
                f"{run} fmrt add {_format_rule(rule)}",
                f"forwarding mapping rule {rule.ipv6_prefix}",
                read=f"{run} fmrt display --csv --no-headers",
                want=has_lines(_format_row(_format_rule(rule))),
            )
            for rule in rules
        ]
    else:
        steps += [
            _set_global(run, "end-user-ipv6-prefix", str(edge.end_user_prefix)),
            _set_global(run, "bmr", _format_rule(edge.rule)),
        ]
    return [
        *steps,
        _set_global(run, "map-t-type", "CE" if edge else "BR"),
        _set_global(run, "lowest-ipv6-mtu", str(_choose_lowest_mtu(intent, options))),
    ]


def choose_program(intent: Intent) -> str:
    """Return the program of Jool that makes such a device."""
    match intent.configuration:
        case Nat64Config():
            return NAT64
        case MapTRelayConfig() | MapTCeConfig():
            return MAPT
        case _:
            return SIIT


def make_statistics_command(program: str) -> str:
    """Return the command for its counters; a counter that is not printed is not known to be 0."""
    return f"{program} -i v6t stats display --all --csv --no-headers"


def _format_rule(rule: MapRuleConfig) -> str:
    return f"{rule.ipv6_prefix} {rule.ipv4_prefix} {rule.ea_len} {rule.psid_offset}"


def _format_row(words: str) -> str:
    return ",".join(words.split())


def is_own_instance(row: str) -> bool:
    """Return whether a row of ``instance display --csv`` is that of the instance v6t."""
    return row.split(",")[1:2] == ["v6t"]


def _set_global(run: str, name: str, value: str) -> Step:
    command = f"{run} global update {name} {value}"
    why = f"{name} of the translator"
    read = f"{run} global display --csv --no-headers | grep '^{name},'"
    return Step(command, why, read=read, want=equals(_format_row(f"{name} {value}")))


def add_pool4(intent: Intent, version: str) -> list[Step]:
    """Add public ports; without ``--force``, 4.1.15 and later refuse those that the kernel may use."""
    pool = nat.get_pool(intent, can=("udp_timeout_s",))
    force = " --force" if parse_version(version) >= (4, 1, 15) else ""
    return [
        Step(
            f"jool -i v6t pool4 add {address} {pool.low}-{pool.high} --{name}{force}",
            f"public addresses and ports of {name.upper()}; without, only 61001-65535",
            read=f"jool -i v6t pool4 display --{name} --csv --no-headers",
            want=_has_ports(name, address, pool),
        )
        for name in nat.PROTOCOLS
        for address in pool.addresses
    ]


def _has_ports(name: str, address: str, pool: nat.Pool) -> Want:  # of packets without a mark
    wanted = ["0", name.upper(), address, str(pool.low), str(pool.high)]
    return passes(
        lambda output: wanted in [row.split(",")[:5] for row in output.splitlines()],
        f"{address} {pool.low}-{pool.high}",
    )


def renew_instance(intent: Intent, options: JoolOptions, version: str) -> Step:
    """Replace the instance by an empty one; flushing sessions one by one takes minutes."""
    file = f"{options.state_dir}/jool.json"
    lines = [f"{NAT64} instance remove v6t", f"{NAT64} file handle {file}"]
    lines += [step.set for step in add_pool4(intent, version)]

    def checker(output: str) -> str | None:
        left = jool_statistics.sessions(output).get("sessions")
        if left is None:
            return f"it does not say how many sessions are left; the output is {shorten(output)}"
        return f"{left:.0f} sessions are left" if left else None

    proof = Check(make_statistics_command(NAT64), Want("no session", checker))
    return Step(" && ".join(lines), "no session of an earlier trial is left", proof=proof)


def parse_version(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("-")[0])[:3])


MAPT_SINCE = (4, 1, 255)
"""What the release candidates of 4.2.0 call themselves."""
CANDIDATES = {"4.1.255.5": "4.2.0-rc3"}
"""What a release candidate calls itself, and what it was published as."""
UDP_MIN_S = 120
"""The shortest timeout of UDP sessions that Jool takes [s] (RFC 4787, section 4.3)."""
NOTES = ("IPv4 packets whose UDP checksum is 0 are dropped",)
MORE_NOTES = {
    NAT64: ("source ports are not preserved (f-args 11)",),
    MAPT: ("the BR of 4.2.0-rc3 does not check source ports against the PSID",),
}
JSTAT = (
    "Jool's own counters: packets that it lost, by reason; packets that it handed back to the kernel, for "
    "which it has no rule, and which are no loss; totals"
)


class Jool(LinuxDriver):
    """Jool with an instance called v6t."""

    name = "jool"
    title = "Jool: SIIT, CLAT, NAT64, MAP-T in the Linux kernel"
    accepts = (SiitConfig, Nat64Config, MapTRelayConfig, MapTCeConfig)
    executed = (
        "configured over SSH, verified, measured, emptied and restored with real frames (Debian's 4.1.9, "
        "also rebooted, and built 4.1.15 on Debian's kernel: SIIT, CLAT, NAT64; built 4.2.0-rc3: MAP-T)"
    )
    versions = ("4.0.9", "4.1.9", "4.1.15", "4.2.0-rc3")
    options_model = JoolOptions
    helpers = tuple(PROGRAMS)
    version_command = (
        "cat /sys/module/jool*/version 2>/dev/null | head -1; "
        "for p in jool_siit jool jool_mapt; do $p --version 2>/dev/null && break; done"
    )

    def survey(self) -> Mapping[str, str]:
        commands = dict(super().survey())
        for program in sorted(PROGRAMS):
            commands[f"instances_{program}"] = f"{program} instance display --csv --no-headers"
        return commands

    def read_version(self, text: str) -> str:
        versions = re.findall(r"\d+\.\d+\.\d+(?:[.-]\w+)?", text)
        plain = {re.sub(r"\.0$", "", v) for v in versions}
        if len(plain) > 1:
            problem = f"Jool's module and program differ: {' and '.join(sorted(plain))}"
            hint = "install both from one version, and reload the module"
            raise DutError(problem, hint, code="version-mismatch")
        version = plain.pop() if plain else ""
        return CANDIDATES.get(version, version)

    def example(self, intent: Intent) -> Facts:
        """Assume the oldest version that has the function, unless an option names one."""
        newest = "4.2.0-rc3" if choose_program(intent) == MAPT else "4.1.9"
        return replace(super().example(intent), version=self.options.version or newest)

    def refuse(self, intent: Intent, facts: Facts) -> None:
        super().refuse(intent, facts)
        program = choose_program(intent)
        # a device without a version has no Jool at all
        if program == MAPT and facts.version and parse_version(facts.version) < MAPT_SINCE:
            other = "VPP" if isinstance(intent.configuration, MapTRelayConfig) else "nat46"
            problem = f"Jool {facts.version} has no MAP-T; the 4.2.0 release candidates have"
            hint = f"build 4.2.0-rc3 on the device, or measure {intent.technology} on {other}"
            raise UsageError(problem, hint, code="unsupported-by-version")
        if program == NAT64:
            self._refuse_timeout(intent)
        if program not in facts.programs:
            raise make_missing_program_error(program, PROGRAMS[program])
        for name, text in facts.sections.items():
            others = [
                line for line in text.splitlines() if line.strip() and not is_own_instance(line)
            ]
            if name.startswith("instances_") and others:
                problem = f"another translator is at work on the device: {shorten(text)}"
                hint = f"{name.partition('_')[2]} instance remove, if it is not needed"
                raise DutError(problem, hint, code="device-busy")

    def _refuse_timeout(self, intent: Intent) -> None:  # as global.c does in all versions
        told_s = intent.configuration_as(Nat64Config).udp_timeout_s
        given_s = told_s or self.options.timeout_s
        if 0 < given_s < UDP_MIN_S:
            name = "udp_timeout_s" if told_s else "timeout_s"
            instead = {name: UDP_MIN_S}
            raise make_unsupported_error(
                f"the UDP timeout of Jool must be at least {UDP_MIN_S} s, not {given_s}",
                f"set {name} to {UDP_MIN_S} or more",
                params=instead if told_s else {},
                dut_params={} if told_s else instead,
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        program, lab = choose_program(intent), self.options.in_lab
        unload = (
            f'[ "$(cat /sys/module/{program}/refcnt 2>/dev/null)" != 0 ] || modprobe -r {program}'
        )
        load = load_module(program, "Jool's kernel module", unload, in_lab=lab)
        flush: tuple[Step, ...] = ()
        if program == MAPT:
            own = make_mapt_instance(intent, self.options)
        elif program == NAT64:
            own = [*make_instance(intent, self.options), *add_pool4(intent, facts.version)]
            flush = (self._flush(intent, facts.version),)
        else:
            own = make_instance(intent, self.options)
        notes = NOTES + MORE_NOTES.get(program, ())
        return self.finish(facts, [*self.base(intent, facts), load, *own], flush, notes)

    def profile(self, intent: Intent) -> ExpectProfile:
        why = "where a UDP checksum comes out as 0 towards IPv6 it writes 0, not 0xFFFF"
        return ExpectProfile(zero_checksum="ipv6", why=why)

    def sessions(self, intent: Intent) -> Reading | None:
        if choose_program(intent) != NAT64:
            return None
        return Reading(make_statistics_command(NAT64), jool_statistics.sessions)

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        program = choose_program(intent)
        command = make_statistics_command(program)
        outcomes = partial(jool_statistics.parse_outcomes, nat64=program == NAT64)
        counters = Reading(command, outcomes, JSTAT, jool_statistics.LOSSES)
        found = {**super().telemetry(intent), "jool": counters}
        if program == NAT64:
            held = "connections that Jool keeps, which memory alone limits (`JSTAT_SESSIONS`)"
            found["table"] = Reading(command, jool_statistics.table, held)
        return found

    def _flush(self, intent: Intent, version: str) -> Step:
        if self.options.flush == "instance":
            return renew_instance(intent, self.options, version)
        command = "(sleep 1; reboot) >/dev/null 2>&1 </dev/null &"
        why = "no state of an earlier trial is left"
        return Step(command, why, reboots=True, deadline_s=self.options.reboot_deadline_s)
