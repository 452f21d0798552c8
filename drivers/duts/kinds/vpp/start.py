"""A VPP of v6t's own, on interfaces of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from v6t.drivers.duts.kinds.linux.process import stop
from v6t.drivers.duts.kinds.linux.steps import (
    kept_addresses,
    setting,
    sysctl,
    up,
    write_file,
)
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.plan import Check, Intent, Step, Was, checked, matches, shown
from v6t.intent.families import AftrTunnelConfig, B4Config, LwB4Config, NptConfig

MAIN = "vpp_main"
"""What its process is called once it has read its start-up file."""
PLUGINS = ("af_packet", "map", "nat", "nat44_ei", "nat64", "dslite")


def taken(options: Any) -> list[Step]:
    """The kernel's part of both interfaces: up, and without IPv6 of the kernel's own."""
    found = []
    for name in (options.left, options.right):
        off = {setting(6, name, "disable_ipv6"): 1}
        found += [kept_addresses(name), up(name), sysctl(off, f"{name} belongs to VPP")]
    return found


def steps(options: Any, intent: Intent, cli: Callable[[str], str]) -> list[Step]:
    """Start-up file, process, one host interface per side."""
    place = options.state_dir
    file, pid = f"{place}/vpp.conf", f"{place}/vpp.pid"
    left_behind = ("vpp-cli.sock", "vpp.log", "vpp-api.sock", "vpp-stats.sock")
    ended = f"( {stop(pid, MAIN)} ) && rm -f " + " ".join(f"{place}/{name}" for name in left_behind)
    wait = (
        "for i in 1 2 3 4 5 6 7 8 9 10; do "
        f"{cli('show version')} 2>/dev/null | grep -q vpp && break; sleep 0.5; done"
    )
    found = [
        write_file(file, startup(options, intent), "start-up file of v6t's own VPP"),
        Step(
            f"{options.program} -c {file} && {wait}",
            "VPP; it answers a moment later",
            undo=ended,
            before=f"ls {pid} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=matches(cli("show version"), r"^vpp v\d", "'vpp v'"),
        ),
    ]
    for side in ("left", "right"):
        name, mac = getattr(options, side), getattr(intent.links, side).dut_mac
        found.append(
            Step(
                # without cksum-gso-disable, kernel 6.18 cuts the first octets of each frame off
                cli(f"create host-interface name {name} hw-addr {mac} cksum-gso-disable"),
                f"VPP's end of {name}",
                check=_has_address(cli, f"host-{name}", mac.lower()),
            )
        )
    return found


def _has_address(cli: Callable[[str], str], port: str, mac: str) -> Check:
    """Require an interface with this MAC address."""

    def checker(output: str) -> str | None:
        if syntax.hardware_addresses(output).get(port) == mac:
            return None
        return f"{port} has not the address {mac}; the output is {shown(output)}"

    return checked(cli("show hardware-interfaces"), checker, f"{port} with {mac}")


def within(steps: Sequence[Step], options: Any) -> Iterator[Step]:
    """Steps in the process, which are gone where it has ended, as if by a crash."""
    ended = f"[ ! -d /proc/$(cat {options.state_dir}/vpp.pid 2>/dev/null || echo none) ]"
    for step in steps:
        yield replace(step, gone=ended) if step.undo else step


def again(plan: Sequence[Step], check: Check) -> Step:
    """Forget everything: another VPP, configured like this one.

    Args:
        plan: all steps, beginning with those of :func:`steps`.
        check: that everything is forgotten.
    """
    process, *others = plan[1:]
    lines = [f"( {process.undo} )", process.command]
    lines += [_quiet(step.command) if step.silent else step.command for step in others]
    return Step(
        " &&\n".join(f"{{ {line}; }}" for line in lines),
        "no session of an earlier trial is left: VPP is started anew",
        check=check,
    )


def _quiet(command: str) -> str:
    """VPP's exit status is always 0; what it prints is an error."""
    return f'o=$({command} 2>&1); [ -z "$o" ] || {{ echo "$o"; false; }}'


def startup(options: Any, intent: Intent) -> str:
    """Text of the start-up file: no huge pages, sockets and log in v6t's own directory."""
    place = options.state_dir
    workers = f" corelist-workers {options.workers}" if options.workers else ""
    path = f"  path {options.plugins}\n" if options.plugins else ""
    configuration = intent.configuration
    wanted = PLUGINS
    if isinstance(configuration, NptConfig):
        wanted = (*PLUGINS, "npt66")
    elif isinstance(configuration, (LwB4Config, B4Config, AftrTunnelConfig)):
        wanted = (*PLUGINS, "ipip")  # since 26.10; older ones have no such plugin to enable
    plugins = "".join(f"  plugin {name}_plugin.so {{ enable }}\n" for name in wanted)
    return (
        f"unix {{\n  runtime-dir {place}\n  cli-listen {place}/vpp-cli.sock\n  log {place}/vpp.log\n"
        f"  pidfile {place}/vpp.pid\n  poll-sleep-usec 50\n}}\n"
        f"api-segment {{ prefix v6t }}\n"
        f"socksvr {{ socket-name {place}/vpp-api.sock }}\n"
        f"statseg {{ socket-name {place}/vpp-stats.sock }}\n"
        f"cpu {{ main-core {options.main_core}{workers} }}\n"
        "memory { main-heap-size 512M main-heap-page-size 4K }\n"
        "buffers { page-size 4K }\n"
        f"plugins {{\n{path}  plugin default {{ disable }}\n{plugins}}}\n"
    )
