"""A VPP process that v6t starts on interfaces of the kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from v6t.drivers.duts import steps
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction, VppOptions
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import Check, Step, expect_output

PROCESS_NAME = "vpp_main"  # name of the process once VPP has read its start-up file
ENABLED_FILE = "vpp-enabled"  # file in the state directory: v6t has enabled a NAT plugin
PLUGINS = ("af_packet", "map", "nat", "nat44_ei", "nat64", "dslite")  # loaded in any case


def make_interface_steps(options: VppOptions) -> list[Step]:
    """Return the steps that set the kernel's interfaces up and stop the kernel's IP on them."""
    interface_steps = []
    for name in (options.left, options.right):
        off = {
            linux.make_sysctl_key(6, name, "disable_ipv6"): 1,
            linux.make_sysctl_key(4, name, "forwarding"): 0,
        }
        stop = linux.make_sysctl_step(off, f"VPP uses {name}")
        up = linux.make_link_up_step(name)
        interface_steps += [linux.make_address_restore_step(name), up, stop]
    return interface_steps


def make_start_steps(function: VppFunction) -> list[Step]:
    """Return the steps that start VPP and create one host interface per side."""
    options, cli, both = function.options, function.cli, function.intent.links
    directory = options.state_dir
    file, pid, socket = (f"{directory}/vpp{end}" for end in (".conf", ".pid", "-cli.sock"))
    names = ("vpp.log", "vpp-api.sock", "vpp-stats.sock", ENABLED_FILE)
    files = " ".join([socket, *(f"{directory}/{name}" for name in names)])
    text = format_startup(function)
    wait = (
        "for i in 1 2 3 4 5 6 7 8 9 10; do "
        f"{cli('show version')} 2>/dev/null | grep -q vpp && break; sleep 0.5; done"
    )

    def is_answering(output: str) -> bool:
        name, *lines = output.splitlines() or [""]
        return name == PROCESS_NAME and any(line.startswith("vpp v") for line in lines)

    expected = expect_output(is_answering, f"{PROCESS_NAME}, answering", "VPP does not answer")
    return [
        steps.make_config_file_step(file, text, "start-up file of v6t's own VPP"),
        steps.make_daemon_step(
            f"{options.program} -c {file} && {wait}",
            pid,
            PROCESS_NAME,
            "VPP, which answers a moment later",
            probe=f"[ ! -S {socket} ] || {cli('show version')}",
            expected=expected,
            stop=f"( {steps.make_process_stop_command(pid, PROCESS_NAME)} ) && rm -f {files}",
        ),
        _make_host_interface_step(cli, options.left, both.left.dut_mac),
        _make_host_interface_step(cli, options.right, both.right.dut_mac),
    ]


def _make_host_interface_step(cli: Vppctl, name: str, mac: str) -> Step:
    port, expected_mac = f"host-{name}", mac.lower()
    return Step(
        # without cksum-gso-disable, kernel 6.18 cuts the first octets of each frame off
        cli(f"create host-interface name {name} hw-addr {mac} cksum-gso-disable"),
        f"VPP's end of {name}",
        read=cli("show hardware-interfaces"),
        expected=expect_output(
            lambda text: outputs.parse_hardware_addresses(text).get(port) == expected_mac,
            f"{port} with {expected_mac}",
        ),
    )


def add_gone_tests(restartable_steps: Sequence[Step], options: VppOptions) -> Iterator[Step]:
    """Yield the steps with a test of whether the VPP process that they changed has ended."""
    has_ended = f"[ ! -d /proc/$(cat {options.state_dir}/vpp.pid 2>/dev/null || echo none) ]"
    for step in restartable_steps:
        yield replace(step, gone_test=has_ended) if step.undo else step


def make_restart_step(plan: Sequence[Step], check: Check) -> Step:
    """Return the step that restarts VPP with the same configuration to clear all state."""
    process, *others = plan[1:]
    lines = [f"( {process.undo} )", process.command]
    for step in others:
        fails = f'o=$({step.command} 2>&1); [ -z "$o" ] || {{ echo "$o"; false; }}'
        lines.append(fails if step.silent else step.command)
    command = " &&\n".join(f"{{ {line}; }}" for line in lines)
    return Step(command, "no session of an earlier trial is left: VPP is restarted", proof=check)


def make_plugins_command(options: VppOptions) -> str:
    """Return the shell line that lists the plugin files available to a VPP started by v6t."""
    if options.plugins:
        return f"ls {options.plugins.replace(':', ' ')}"
    # like VPP: relative to the program's directory
    return (
        f"p=$(readlink -f $(command -v {options.program})) && p=${{p%/*/*}} && "
        "ls $p/lib/*/vpp_plugins $p/lib/vpp_plugins"
    )


def format_startup(function: VppFunction) -> str:
    """Return VPP's start-up file, which avoids huge pages and puts all files in the state directory."""
    options = function.options
    directory = options.state_dir
    workers = f" corelist-workers {options.workers}" if options.workers else ""
    path = f"  path {options.plugins}\n" if options.plugins else ""
    names = filter(None, (*PLUGINS, function.plugin, function.newer_plugin))
    plugins = "".join(f"  plugin {n}_plugin.so {{ enable }}\n" for n in dict.fromkeys(names))
    return (
        f"unix {{\n  runtime-dir {directory}\n  cli-listen {directory}/vpp-cli.sock\n"
        f"  log {directory}/vpp.log\n"
        f"  pidfile {directory}/vpp.pid\n  poll-sleep-usec 50\n}}\n"
        f"api-segment {{ prefix v6t }}\n"
        f"socksvr {{ socket-name {directory}/vpp-api.sock }}\n"
        f"statseg {{ socket-name {directory}/vpp-stats.sock }}\n"
        f"cpu {{ main-core {options.main_core}{workers} }}\n"
        "memory { main-heap-size 512M main-heap-page-size 4K }\n"
        "buffers { page-size 4K }\n"
        f"plugins {{\n{path}  plugin default {{ disable }}\n{plugins}}}\n"
    )
