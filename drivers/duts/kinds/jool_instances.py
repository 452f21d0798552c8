"""Jool's instances: the steps that create, configure and empty them, and their counters.

The sources of 4.0.9 to 4.2.0-rc3 have counters of totals, of dropped packets, and of packets that Jool hands
back to the kernel for want of a rule, which are no loss. Counters of later versions count as dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field
from v6t.drivers.duts.kinds import addresses, softwires
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.versions import parse_version
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import (
    Check,
    Expectation,
    Intent,
    Step,
    expect_lines,
    expect_max_sessions,
    expect_output,
    expect_text,
)
from v6t.drivers.duts.readings import LossReason, make_sum_parser
from v6t.drivers.duts.steps import make_config_file_step, make_object_step
from v6t.intent.families import MapRuleConfig, MapTCeConfig, MapTRelayConfig, Nat64Config

# counters of totals, which do not show whether packets were translated or dropped
_TOTAL_COUNTERS = re.compile(
    r"JSTAT_(RECEIVED[46]|SUCCESS|BIB_ENTRIES|SESSIONS|TYPE[12]PKT|ICMP[46]ERR_(SUCCESS|FAILURE))$"
)
_NON_PACKET_COUNTERS = re.compile(r"JSTAT_(JOOLD_\w+|PADDING)$")  # not reported
# counters of packets that Jool hands back to the kernel
_UNTRANSLATED_COUNTERS = re.compile(
    r"JSTAT(64|46)_(SRC|DST)$|JSTAT_(POOL[46]_MISMATCH|MAPT_(ADDR4|POOL6|EUI6P|FMR[46])|"
    r"UNKNOWN_(L4_PROTO|PROTO_INNER))$"
)
# counters of packets that NAT64 hands back to the kernel, but SIIT and MAP-T drop
_NAT64_UNTRANSLATED_COUNTERS = re.compile(r"JSTAT_UNKNOWN_ICMP[46]_TYPE$")
# loss reasons by pattern of the names that :func:`parse_packet_counters` returns
LOSS_REASONS = {
    r"dropped: out of ports.*": LossReason.TABLE_FULL,
    r"dropped: no connection.*": LossReason.NO_CONNECTION,
    r"dropped: (no memory|the kernel did not take|none that it knows).*|dropped \(.*": LossReason.QUEUE,
    r"dropped: .*": LossReason.RULE,
}
# reasons by counter, as reports show them
_DROP_REASONS = {
    "JSTAT_ENOMEM": "no memory",
    "JSTAT_XLATOR_DISABLED": "it is disabled",
    "JSTAT_POOL6_UNSET": "it has no prefix",
    "JSTAT_UNTRANSLATABLE_DST6": "an IPv6 address without translation",
    "JSTAT_UNTRANSLATABLE_DST4": "an IPv4 address without translation",
    "JSTAT_UNKNOWN_ICMP4_TYPE": "an ICMP message without translation",
    "JSTAT_UNKNOWN_ICMP6_TYPE": "an ICMPv6 message without translation",
    "JSTAT_FAILED_ROUTES": "no route for what it made",
    "JSTAT_PKT_TOO_BIG": "too large for the next link",
    "JSTAT_DST_OUTPUT": "the kernel did not take it for sending",
    "JSTAT_BIB6_NOT_FOUND": "out of ports for a client",
    "JSTAT_BIB4_NOT_FOUND": "no connection for an IPv4 packet",
    "JSTAT_SESSION_NOT_FOUND": "no connection for an ICMP error",
    "JSTAT_MASK_DOMAIN_NOT_FOUND": "no public address for its protocol",
    "JSTAT_ADF": "address-dependent filtering",
    "JSTAT_SYN6_EXPECTED": "TCP without a beginning, IPv6",
    "JSTAT_SYN4_EXPECTED": "TCP without a beginning, IPv4",
    "JSTAT_V4_SYN": "TCP begun from outside",
    "JSTAT_HAIRPIN_LOOP": "its source is of the translator's own prefix",
    "JSTAT64_TTL": "its hop limit is at its end",
    "JSTAT46_TTL": "its TTL is at its end",
    "JSTAT64_6791_ENOENT": "no IPv4 address for the source of an ICMPv6 error",
    "JSTAT46_6791_ENOENT": "no IPv6 address for the source of an ICMP error",
    "JSTAT46_FRAGMENTED_ZERO_CSUM": "no UDP checksum",
    "JSTAT46_BAD_MTU": "the next link's MTU is none of IPv6",
    "JSTAT_MAPT_PSID": "a source port of another CE",
    "JSTAT_MAPT_BAD_PRPF": "its port set is none",
    "JSTAT_UNKNOWN": "none that it knows; of TCP also a pool without a free port",
}


# parses the output of ``stats display --csv --no-headers`` into values by counter
parse_statistics = make_sum_parser(r"^\s*(JSTAT\w*),\s*(\d+)\s*$")
parse_sessions = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "sessions")
# parses the number of entries in NAT64's connection table, which has no limit
parse_occupancy = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "used")


def parse_packet_counters(text: str, *, nat64: bool = False) -> Mapping[str, float]:
    """Parse the packet counters, keyed by telemetry names such as ``dropped: REASON (COUNTER)``."""
    counters = parse_statistics(text).items()
    return {
        _format_counter_name(n, nat64=nat64): value
        for n, value in counters
        if not _NON_PACKET_COUNTERS.match(n)
    }


def _format_counter_name(name: str, *, nat64: bool) -> str:
    """Return the telemetry name of a counter, which tells what happened to the packets."""
    if _TOTAL_COUNTERS.match(name):
        return name.removeprefix("JSTAT_").lower().replace("_", " ")
    if _UNTRANSLATED_COUNTERS.match(name) or (nat64 and _NAT64_UNTRANSLATED_COUNTERS.match(name)):
        return f"not translated ({name})"
    words = _DROP_REASONS.get(name)
    return f"dropped: {words} ({name})" if words else f"dropped ({name})"


SIIT, NAT64, MAPT = "jool_siit", "jool", "jool_mapt"
# Debian packages or publisher's address, by program
PROGRAM_SOURCES = {
    **dict.fromkeys((SIIT, NAT64), "jool-tools jool-dkms"),
    MAPT: "https://github.com/NICMx/Jool",
}


class JoolOptions(LinuxOptions):
    """Options of Jool."""

    framework: Literal["netfilter"] = "netfilter"
    """Jool's hook in the kernel."""
    lowest_ipv6_mtu: int = Field(default=0, ge=0, le=9216)
    """IPv4 packets without DF are fragmented to this size; 0: the technology's value."""
    flush: Literal["instance", "reboot"] = "instance"
    """Empty NAT64's sessions by a new instance, or by a reboot."""
    reboot_deadline_s: float = Field(default=300.0, gt=0, le=7200)
    """Time limit of a reboot until the next login [s]."""


def _choose_lowest_mtu(intent: Intent, options: JoolOptions) -> int:
    return options.lowest_ipv6_mtu or getattr(intent.configuration, "lowest_ipv6_mtu", 1280)


def make_instance_steps(intent: Intent, options: JoolOptions) -> list[Step]:
    """Return the steps that write the configuration of SIIT or NAT64 and load it as an instance."""
    program = choose_program(intent)
    prefix = addresses.get_siit_config(intent).prefix
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
    description = ", ".join(checks)
    file = f"{options.state_dir}/jool.json"
    show = f"{program} -i v6t global display --csv --no-headers"
    if program == SIIT:
        table = addresses.get_siit_config(intent).eam
        rows = [{"ipv6 prefix": str(six), "ipv4 prefix": str(four)} for four, six in table]
        content["eamt"] = rows
        show += f"; {program} -i v6t eamt display --csv --no-headers"
        checks += [f"{six},{four}" for four, six in table]
        description = f"{len(table)} mappings, {description}"
    text = json.dumps(content, indent=1) + "\n"
    return [
        make_config_file_step(file, text, "Jool's configuration, atomic"),
        make_object_step(
            f"{program} file handle {file}",
            f"{program} instance remove v6t",
            "the translator",
            read=f"{{ {show}; }} 2>/dev/null; true",
            expected=replace(expect_lines(*checks), description=description),
        ),
    ]


def make_mapt_instance_steps(intent: Intent, options: JoolOptions) -> list[Step]:
    """Return the steps that create a MAP-T instance and add its rules one by one."""
    program, configuration = MAPT, intent.configuration
    edge: MapTCeConfig | None = None
    if isinstance(configuration, MapTRelayConfig):
        rules, dmr = configuration.rules, configuration.dmr
    else:
        edge = intent.configuration_as(MapTCeConfig)
        rules, dmr = (edge.rule,), edge.dmr
    softwires.check_iid_format(rules, "Jool")
    softwires.check_no_psid(rules, "Jool")
    run = f"{program} -i v6t"
    steps = [
        make_object_step(
            f"{program} instance add v6t --{options.framework} --dmr {dmr}",
            f"{program} instance remove v6t",
            "the translator",
            read=f"{program} instance display --csv --no-headers 2>/dev/null | grep ',v6t,' || true",
            expected=expect_output(
                lambda out: any(map(is_own_instance, out.splitlines())), "an instance v6t"
            ),
        )
    ]
    if edge is None:
        steps += [
            Step(
                f"{run} fmrt add {_format_rule(rule)}",
                f"forwarding mapping rule {rule.ipv6_prefix}",
                read=f"{run} fmrt display --csv --no-headers",
                expected=expect_lines(_format_row(_format_rule(rule))),
            )
            for rule in rules
        ]
    else:
        steps += [
            _make_global_step(run, "end-user-ipv6-prefix", str(edge.end_user_prefix)),
            _make_global_step(run, "bmr", _format_rule(edge.rule)),
        ]
    return [
        *steps,
        _make_global_step(run, "map-t-type", "CE" if edge else "BR"),
        _make_global_step(run, "lowest-ipv6-mtu", str(_choose_lowest_mtu(intent, options))),
    ]


def choose_program(intent: Intent) -> str:
    """Return the Jool program that implements an intent."""
    if isinstance(intent.configuration, Nat64Config):
        return NAT64
    return MAPT if isinstance(intent.configuration, MapTRelayConfig | MapTCeConfig) else SIIT


def make_statistics_command(program: str) -> str:
    """Return the command that prints the instance's counters."""
    return f"{program} -i v6t stats display --all --csv --no-headers"


def _format_rule(rule: MapRuleConfig) -> str:
    return f"{rule.ipv6_prefix} {rule.ipv4_prefix} {rule.ea_len} {rule.psid_offset}"


def _format_row(values: str) -> str:
    """Return space-separated values as a row of Jool's CSV output."""
    return ",".join(values.split())


def is_own_instance(row: str) -> bool:
    """Return whether a row of ``instance display --csv`` describes the instance v6t."""
    return row.split(",")[1:2] == ["v6t"]


def _make_global_step(instance_command: str, name: str, value: str) -> Step:
    """Return the step that sets one of the instance's global options."""
    command = f"{instance_command} global update {name} {value}"
    why = f"{name} of the translator"
    read = f"{instance_command} global display --csv --no-headers | grep '^{name},'"
    return Step(command, why, read=read, expected=expect_text(_format_row(f"{name} {value}")))


def make_pool4_steps(intent: Intent, version: str) -> list[Step]:
    """Return the steps that add public addresses and ports; ``--force`` permits the kernel's own ports."""
    pool = nat.get_pool(intent, supported_settings=("udp_timeout_s",))
    force = " --force" if parse_version(version) >= (4, 1, 15) else ""
    return [
        Step(
            f"jool -i v6t pool4 add {address} {pool.first_port}-{pool.last_port} --{name}{force}",
            f"public addresses and ports of {name.upper()}; without, only 61001-65535",
            read=f"jool -i v6t pool4 display --{name} --csv --no-headers",
            expected=_expect_ports(name, address, pool),
        )
        for name in nat.PROTOCOLS
        for address in pool.addresses
    ]


def _expect_ports(protocol: str, address: str, pool: nat.NatPool) -> Expectation:
    """Expect an entry with the pool's ports for an address and protocol, and without a packet mark."""
    expected = ["0", protocol.upper(), address, str(pool.first_port), str(pool.last_port)]
    return expect_output(
        lambda output: expected in [row.split(",")[:5] for row in output.splitlines()],
        f"{address} {pool.first_port}-{pool.last_port}",
    )


def make_flush_step(intent: Intent, options: JoolOptions, version: str) -> Step:
    """Return the step that replaces the instance with an empty one: removing sessions takes minutes."""
    file = f"{options.state_dir}/jool.json"
    lines = [f"{NAT64} instance remove v6t", f"{NAT64} file handle {file}"]
    lines += [step.command for step in make_pool4_steps(intent, version)]

    proof = Check(make_statistics_command(NAT64), expect_max_sessions(parse_sessions, "session"))
    return Step(" && ".join(lines), "no session of an earlier trial is left", proof=proof)
