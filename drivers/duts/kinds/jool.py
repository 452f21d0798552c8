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
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, jool_statistics, softwires
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import load_module
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, Want, equals, has_lines, parsed, shown
from v6t.drivers.duts.programs import lacking
from v6t.drivers.duts.steps import config_file, owned
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
"""Where each comes from: see :func:`lacking`."""
MAPT_SINCE = (4, 1, 255)
"""What the release candidates of 4.2.0 call themselves."""
CANDIDATES = {"4.1.255.5": "4.2.0-rc3"}
"""What a release candidate calls itself, and what it was published as."""


UDP_MIN_S = 120
"""The shortest timeout of UDP sessions that Jool takes [s] (RFC 4787, section 4.3)."""
JSTAT = (
    "Jool's own counters: packets that it lost, by reason; packets that it handed back to the kernel, for "
    "which it has no rule, and which are no loss; totals"
)


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


class Jool(LinuxDriver):
    """One instance, called v6t."""

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
        """``4.1.9`` or ``4.1.9.0``, by module and by program; they agree; a candidate as it was published."""
        versions = re.findall(r"\d+\.\d+\.\d+(?:[.-]\w+)?", text)
        plain = {re.sub(r"\.0$", "", v) for v in versions}
        if len(plain) > 1:
            raise DutError(
                f"Jool's module and program differ: {' and '.join(sorted(plain))}",
                "install both from one version, and reload the module",
                code="version-mismatch",
            )
        version = plain.pop() if plain else ""
        return CANDIDATES.get(version, version)

    def example(self, intent: Intent) -> Facts:
        """Assume the oldest version that has the function, unless an option names one."""
        newest = "4.2.0-rc3" if program_of(intent) == MAPT else "4.1.9"
        return replace(super().example(intent), version=self.options.version or newest)

    def refuse(self, intent: Intent, facts: Facts) -> None:
        super().refuse(intent, facts)
        program = program_of(intent)
        # a device without a version has no Jool at all
        if program == MAPT and facts.version and version_key(facts.version) < MAPT_SINCE:
            other = "VPP" if isinstance(intent.configuration, MapTRelayConfig) else "nat46"
            raise UsageError(
                f"Jool {facts.version} has no MAP-T; the 4.2.0 release candidates have",
                f"build 4.2.0-rc3 on the device, or measure {intent.technology} on {other}",
                code="unsupported-by-version",
            )
        self._refuse_limits(intent, program)
        if program not in facts.programs:
            raise lacking(program, PROGRAMS[program])
        for name, text in facts.sections.items():
            others = [line for line in text.splitlines() if line.strip() and not _is_ours(line)]
            if name.startswith("instances_") and others:
                raise DutError(
                    f"another translator is at work on the device: {shown(text)}",
                    f"{name.partition('_')[2]} instance remove, if it is not needed",
                    code="device-busy",
                )

    def _refuse_limits(self, intent: Intent, program: str) -> None:
        """Refuse what ``global.c`` and ``address_xlat.c`` refuse in all versions.

        Raises:
            UsageError: a UDP timeout below that of RFC 4787, or an address that Jool drops.
        """
        if program == NAT64:
            told_s = intent.configuration_as(Nat64Config).udp_timeout_s
            if 0 < (told_s or self.options.timeout_s) < UDP_MIN_S:
                name, least = "udp_timeout_s" if told_s else "timeout_s", UDP_MIN_S
                given_s = told_s or self.options.timeout_s
                raise UsageError(
                    f"the UDP timeout of Jool must be at least {least} s, not {given_s}",
                    f"set {name} to {least} or more",
                    params={name: least} if told_s else {},
                    dut_params={} if told_s else {name: least},
                    code="unsupported-by-device",
                )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        program = program_of(intent)
        place = self.options.state_dir
        flush: tuple[Step, ...] = ()
        if program == MAPT:
            own = self._mapt(intent, program)
        elif program == NAT64:
            own = [*self._instance(intent, program, place), *_pool4(intent, facts.version)]
            flush = (self._flush(program, place, intent, facts.version),)
        else:
            own = self._instance(intent, program, place)
        return self.finish(
            facts,
            [*self.base(intent, facts), _module(program, in_lab=self.options.in_lab), *own],
            flush=flush,
            notes=_notes(program),
        )

    def profile(self, intent: Intent) -> ExpectProfile:
        """Describe UDP checksums: one frame in 65,536 violates RFC 7915, section 4.5."""
        why = "where a UDP checksum comes out as 0 towards IPv6 it writes 0, not 0xFFFF"
        return ExpectProfile(zero_checksum="ipv6", why=why)

    def sessions(self, intent: Intent) -> Reading | None:
        """``JSTAT_SESSIONS``: counted by the module, not by listing them."""
        if program_of(intent) != NAT64:
            return None
        return Reading(_statistics(NAT64), jool_statistics.sessions)

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Read Jool's counters, including those that are 0: what begins to grow has been read before."""
        program = program_of(intent)
        command = _statistics(program)
        found = {
            **super().telemetry(intent),
            "jool": Reading(
                command,
                partial(jool_statistics.outcomes, nat64=program == NAT64),
                JSTAT,
                jool_statistics.LOSSES,
            ),
        }
        if program == NAT64:
            held = "connections that Jool keeps, which memory alone limits (`JSTAT_SESSIONS`)"
            found["table"] = Reading(command, jool_statistics.table, held)
        return found

    def _flush(self, program: str, place: str, intent: Intent, version: str) -> Step:
        if self.options.flush == "instance":
            return _again(program, place, intent, version)
        return Step(
            "(sleep 1; reboot) >/dev/null 2>&1 </dev/null &",
            "no state of an earlier trial is left",
            reboots=True,
            deadline_s=self.options.reboot_deadline_s,
        )

    def _lowest(self, intent: Intent) -> int:
        return self.options.lowest_ipv6_mtu or getattr(
            intent.configuration, "lowest_ipv6_mtu", 1280
        )

    def _instance(self, intent: Intent, program: str, place: str) -> list[Step]:
        prefix = addresses.prefix_of(intent)
        settings: dict[str, Any] = {"lowest-ipv6-mtu": self._lowest(intent)}
        if prefix is not None:
            settings["pool6"] = str(prefix)
        content: dict[str, Any] = {"instance": "v6t", "framework": self.options.framework}
        checks = [f"lowest-ipv6-mtu,{self._lowest(intent)}"]
        checks += [f"pool6,{prefix}"] if prefix is not None else []
        if program == NAT64:
            lives_s = intent.configuration_as(Nat64Config).udp_timeout_s or self.options.timeout_s
            if lives_s:
                settings["udp-timeout"] = _clock(lives_s)
                checks.append(f"udp-timeout,{_clock(lives_s)}")
        content["global"] = settings
        if program == SIIT:
            content["eamt"] = [
                {"ipv6 prefix": str(six), "ipv4 prefix": str(four)}
                for four, six in addresses.eams(intent)
            ]
        file, show = f"{place}/jool.json", f"{program} -i v6t global display --csv --no-headers"
        says = ", ".join(checks)
        if program == SIIT:
            show += f"; {program} -i v6t eamt display --csv --no-headers"
            table = [f"{six},{four}" for four, six in addresses.eams(intent)]
            checks, says = [*checks, *table], f"{len(table)} mappings, {says}"
        return [
            config_file(file, json.dumps(content, indent=1) + "\n", "Jool's configuration, atomic"),
            owned(
                f"{program} file handle {file}",
                f"{program} instance remove v6t",
                "the translator",
                read=f"{{ {show}; }} 2>/dev/null; true",
                want=replace(has_lines(*checks), says=says),
            ),
        ]

    def _mapt(self, intent: Intent, program: str) -> list[Step]:
        configuration = intent.configuration
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
            owned(
                f"{program} instance add v6t --{self.options.framework} --dmr {dmr}",
                f"{program} instance remove v6t",
                "the translator",
                read=f"{program} instance display --csv --no-headers 2>/dev/null | grep ',v6t,' || true",
                want=parsed(
                    lambda out: (
                        None
                        if any(map(_is_ours, out.splitlines()))
                        else f"there is no instance v6t; the output is {shown(out)}"
                    ),
                    "an instance v6t",
                ),
            )
        ]
        if edge is None:
            steps += [
                Step(
                    f"{run} fmrt add {_rule(rule)}",
                    f"forwarding mapping rule {rule.ipv6_prefix}",
                    read=f"{run} fmrt display --csv --no-headers",
                    want=has_lines(_row(_rule(rule))),
                )
                for rule in rules
            ]
        else:
            steps += [
                _global(run, "end-user-ipv6-prefix", str(edge.end_user_prefix)),
                _global(run, "bmr", _rule(edge.rule)),
            ]
        return [
            *steps,
            _global(run, "map-t-type", "CE" if edge else "BR"),
            _global(run, "lowest-ipv6-mtu", str(self._lowest(intent))),
        ]


def program_of(intent: Intent) -> str:
    """Return the program of Jool that makes such a device."""
    match intent.configuration:
        case Nat64Config():
            return NAT64
        case MapTRelayConfig() | MapTCeConfig():
            return MAPT
        case _:
            return SIIT


def _statistics(program: str) -> str:
    """Return the command for its counters; a counter that is not printed is not known to be 0."""
    return f"{program} -i v6t stats display --all --csv --no-headers"


def _rule(rule: MapRuleConfig) -> str:
    return f"{rule.ipv6_prefix} {rule.ipv4_prefix} {rule.ea_len} {rule.psid_offset}"


def _row(words: str) -> str:
    """Return words as a row of ``--csv``."""
    return ",".join(words.split())


def _is_ours(row: str) -> bool:
    """Return whether a row of ``instance display --csv`` is that of the instance v6t."""
    return row.split(",")[1:2] == ["v6t"]


def _global(run: str, name: str, value: str) -> Step:
    return Step(
        f"{run} global update {name} {value}",
        f"{name} of the translator",
        read=f"{run} global display --csv --no-headers | grep '^{name},'",
        want=equals(_row(f"{name} {value}")),
    )


def _module(name: str, *, in_lab: bool) -> Step:
    unload = f'[ "$(cat /sys/module/{name}/refcnt 2>/dev/null)" != 0 ] || modprobe -r {name}'
    return load_module(name, "Jool's kernel module", unload, in_lab=in_lab)


def _pool4(intent: Intent, version: str) -> list[Step]:
    """Add public ports; without ``--force``, 4.1.15 and later refuse those that the kernel may use."""
    pool = nat.pool_of(intent, can=("udp_timeout_s",))
    force = " --force" if version_key(version) >= (4, 1, 15) else ""
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


def _has_ports(name: str, address: str, pool: nat.Pool) -> Want:
    """Require a row of pool4 for packets without a mark, with this protocol, address and ports."""
    wanted = ["0", name.upper(), address, str(pool.low), str(pool.high)]

    def checker(output: str) -> str | None:
        if any(row.split(",")[:5] == wanted for row in output.splitlines()):
            return None
        return f"{address} is not in pool4; the output is {shown(output)}"

    return parsed(checker, f"{address} {pool.low}-{pool.high}")


def _again(program: str, place: str, intent: Intent, version: str) -> Step:
    """Replace the instance by an empty one; flushing sessions one by one takes minutes."""
    lines = [f"{program} instance remove v6t", f"{program} file handle {place}/jool.json"]
    lines += [step.set for step in _pool4(intent, version)]

    def checker(output: str) -> str | None:
        left = jool_statistics.sessions(output).get("sessions")
        if left is None:
            return f"it does not say how many sessions are left; the output is {shown(output)}"
        return f"{left:.0f} sessions are left" if left else None

    return Step(
        " && ".join(lines),
        "no session of an earlier trial is left",
        proof=Check(_statistics(program), parsed(checker, "no session")),
    )


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("-")[0])[:3])


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _notes(program: str) -> tuple[str, ...]:
    notes = ["IPv4 packets whose UDP checksum is 0 are dropped"]
    if program == NAT64:
        notes.append("source ports are not preserved (f-args 11)")
    if program == MAPT:
        notes.append("the BR of 4.2.0-rc3 does not check source ports against the PSID")
    return tuple(notes)
