"""Instances of Jool: the steps that create, configure and empty them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field
from v6t.drivers.duts.kinds import addresses, jool_statistics, softwires
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import (
    Check,
    Expectation,
    Intent,
    Step,
    expect_lines,
    expect_output,
    expect_text,
    shorten_output,
)
from v6t.drivers.duts.steps import create_object, write_config_file
from v6t.intent.families import MapRuleConfig, MapTCeConfig, MapTRelayConfig, Nat64Config

SIIT, NAT64, MAPT = "jool_siit", "jool", "jool_mapt"
PROGRAM_SOURCES = {
    **dict.fromkeys((SIIT, NAT64), "jool-tools jool-dkms"),
    MAPT: "https://github.com/NICMx/Jool",
}
"""Debian packages or publisher of each program."""


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


def make_instance_steps(intent: Intent, options: JoolOptions) -> list[Step]:
    """Return the steps that write the configuration of SIIT or NAT64 and load it as an instance."""
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
    description = ", ".join(checks)
    file = f"{options.state_dir}/jool.json"
    show = f"{program} -i v6t global display --csv --no-headers"
    if program == SIIT:
        table = addresses.list_mappings(intent)
        rows = [{"ipv6 prefix": str(six), "ipv4 prefix": str(four)} for four, six in table]
        content["eamt"] = rows
        show += f"; {program} -i v6t eamt display --csv --no-headers"
        checks += [f"{six},{four}" for four, six in table]
        description = f"{len(table)} mappings, {description}"
    text = json.dumps(content, indent=1) + "\n"
    return [
        write_config_file(file, text, "Jool's configuration, atomic"),
        create_object(
            f"{program} file handle {file}",
            f"{program} instance remove v6t",
            "the translator",
            read=f"{{ {show}; }} 2>/dev/null; true",
            expected=replace(expect_lines(*checks), description=description),
        ),
    ]


def make_mapt_instance_steps(intent: Intent, options: JoolOptions) -> list[Step]:
    """Return the steps that create an instance of MAP-T and add its rules one by one."""
    program, configuration = MAPT, intent.configuration
    edge: MapTCeConfig | None = None
    if isinstance(configuration, MapTRelayConfig):
        rules, dmr = configuration.rules, configuration.dmr
    else:
        edge = intent.configuration_as(MapTCeConfig)
        rules, dmr = (edge.rule,), edge.dmr
    softwires.refuse_draft_format(rules, "Jool")
    softwires.refuse_psid(rules, "Jool")
    run = f"{program} -i v6t"
    steps = [
        create_object(
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


def _format_row(words: str) -> str:
    """Return words as a row of Jool's CSV output."""
    return ",".join(words.split())


def is_own_instance(row: str) -> bool:
    """Return whether a row of ``instance display --csv`` describes the instance v6t."""
    return row.split(",")[1:2] == ["v6t"]


def _make_global_step(client: str, name: str, value: str) -> Step:
    """Return the step that sets one of the instance's global options."""
    command = f"{client} global update {name} {value}"
    why = f"{name} of the translator"
    read = f"{client} global display --csv --no-headers | grep '^{name},'"
    return Step(command, why, read=read, expected=expect_text(_format_row(f"{name} {value}")))


def make_pool4_steps(intent: Intent, version: str) -> list[Step]:
    """Return the steps that add public ports; 4.1.15 and later need ``--force`` for the kernel's."""
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
    """Expect the pool's ports of an address and protocol, for packets without a mark."""
    expected = ["0", protocol.upper(), address, str(pool.first_port), str(pool.last_port)]
    return expect_output(
        lambda output: expected in [row.split(",")[:5] for row in output.splitlines()],
        f"{address} {pool.first_port}-{pool.last_port}",
    )


def make_flush_step(intent: Intent, options: JoolOptions, version: str) -> Step:
    """Return the step that replaces the instance with an empty one; removing sessions takes minutes."""
    file = f"{options.state_dir}/jool.json"
    lines = [f"{NAT64} instance remove v6t", f"{NAT64} file handle {file}"]
    lines += [step.command for step in make_pool4_steps(intent, version)]

    def find_problem(output: str) -> str | None:
        left = jool_statistics.parse_sessions(output).get("sessions")
        if left is None:
            return f"it does not say how many sessions are left; the output is {shorten_output(output)}"
        return f"{left:.0f} sessions are left" if left else None

    proof = Check(make_statistics_command(NAT64), Expectation("no session", find_problem))
    return Step(" && ".join(lines), "no session of an earlier trial is left", proof=proof)


def parse_version(version: str) -> tuple[int, ...]:
    """Return up to three numbers of a version: ``4.2.0-rc3`` is (4, 2, 0)."""
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("-")[0])[:3])
