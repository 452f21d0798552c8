"""Test sites for ipv4aas: CE and PE on two machines, or in two namespaces of one, each with an sshd.

A part without a machine is the reference translation.
"""

import atexit
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.duts.chain.driver import ChainDriver
from v6t.drivers.duts.lab import ssh
from v6t.drivers.transport.process import NamespaceTransport, enter
from v6t.tests.drivers import matrix
from v6t.tests.jool.image import JOOL, TUNNEL
from v6t.tests.jool.vm import MACS, LinuxMachine, SharedLinuxMachine
from v6t.tests.machine import image
from v6t.tests.machine.image import Recipe

from . import sshserver
from .support import write_testbed

STATE_DIRECTORY = "/run/v6t"
# Connection settings that virtual machines sustain, too.
CONNECTIONS = {"count": 200, "rate_cps": 500, "wait_ms": 500}
# Prints the state of a machine that v6t may change.
_SURVEY_SCRIPT = (
    "ip -o link | grep -o 'v6t[^:@ ]*'; ip rule; ip route; ip -6 route show proto 86; nft list ruleset; "
    "ip -4 -o addr; cat /proc/sys/net/ipv4/conf/all/rp_filter; "
    "sysctl -a 2>/dev/null -r 'net.ipv[46].conf.(all|default).(forwarding|rp_filter|send_redirects)$'; "
    "ps -eo comm | grep -e tayga -e vpp -e snabb; "
    "for j in jool jool_siit; do $j instance display 2>/dev/null; done; true"
)

# Forwards SSH connections from the namespace to the virtual machine.
_FORWARD_SSH = f"""\
sysctl -q -w net.ipv4.conf.all.route_localnet=1
nft -f - <<'END'
table ip v6t-login {{
  chain there {{ type nat hook output priority -100; ip daddr 127.0.0.1 tcp dport 22 dnat to {LinuxMachine.address}; }}
  chain back {{ type nat hook postrouting priority 100; oifname tap-mgmt masquerade; }}
}}
END
"""
# Connects the machine's ports to the cables, as soon as these exist. A bridge does not work, because v6t sets the
# machine's MAC address on the cable's end.
_CONNECT_PORTS = """\
redirect_frames() { tc qdisc add dev $1 clsact &&
  tc filter add dev $1 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev $2; }
while sleep 0.2; do for side in left right; do
  [ -e /sys/class/net/$side ] || continue
  tc qdisc show dev $side | grep -q clsact && continue
  tc qdisc del dev tap-$side clsact 2>/dev/null
  redirect_frames tap-$side $side && redirect_frames $side tap-$side
done; done
"""
# Kills all SSH sessions except the one that runs this script.
_KILL_OTHER_SESSIONS = """\
p=$$; while read n <$p/comm && [ $n != sshd ]; do p=$(cut -d' ' -f4 $p/stat); done
for each in $(ps -o pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); do
  [ $each = $p ] || kill -9 $each 2>/dev/null
done; true
"""


def find_missing_for_vm() -> str:
    """Return what this host lacks to run virtual machines, or an empty string."""
    missing = image.find_missing_packages()
    missing += [] if shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin:/bin") else ["iproute2"]
    return f"needs {', '.join(missing)}" if missing else sshserver.find_missing() or ""


@functools.cache
def _boot_template(recipe: Recipe) -> LinuxMachine:
    """Return a booted machine from which all others of the recipe are started."""
    shared = SharedLinuxMachine(recipe.get_image())
    atexit.register(shared.stop)
    return shared.start()


class VmServer(ssh.LabSshServer):
    """Virtual machine with the interface of :class:`.sshserver.Server`."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        super().__init__(sshserver.make_unique_name(name))
        self._recipe = recipe
        self.start()
        self.console = ssh.LabTransport(self._pid, self.make_options())
        self.console.open()

    def shell(self, command: str) -> str:
        """Run a command in a separate SSH session."""
        result = self.console.run(command)
        assert result.status == 0, result
        return result.out

    def kill_sessions(self) -> None:
        """Kill all sessions except that of the console."""
        self.shell(f"cd /proc; {_KILL_OTHER_SESSIONS}")

    def stop(self) -> None:
        """Stop the machine; a second call does nothing."""
        self.console.close()
        super().stop()
        self.machine.stop()

    def _create_keys(self) -> None:
        """Do nothing: the machine already has keys."""

    def _start_sshd(self) -> None:
        template = _boot_template(self._recipe)
        self.machine = LinuxMachine(self._recipe.get_image(), self._pid, MACS, template=template)
        try:
            self.machine.start()
            for name in ("id", "known_hosts"):
                shutil.copy(self.machine.directory / name, self.directory)
            result = NamespaceTransport(self._pid).run(_FORWARD_SSH)
            assert result.status == 0, result
        except BaseException:
            self.machine.stop()
            raise
        words = [*enter(self._pid), "sh", "-c", _CONNECT_PORTS]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        subprocess.Popen(words, **streams, start_new_session=True)


@dataclass(frozen=True)
class Part:
    """Driver of a part of the chain, and the machine that it configures."""

    driver: str
    machine: str = ""  # ``ce`` or ``pe``; empty: the reference translation
    netns: str = ""  # network namespace of the machine; empty: the initial one
    options: Mapping[str, Any] = field(default_factory=dict)  # driver options
    virtual: Recipe | None = None  # recipe of a virtual machine


@dataclass(frozen=True)
class Site:
    """Devices of one variant of ipv4aas."""

    variant: str
    parts: Mapping[str, Part]  # by part name
    params: Mapping[str, str] = field(default_factory=dict)  # technology parameters
    row: str = ""  # of ip6-tunnel in :mod:`v6t.tests.drivers.machines`; empty: none

    @property
    def machine_parts(self) -> dict[str, Part]:
        """Return the parts that are not the reference translation."""
        return {name: place for name, place in self.parts.items() if place.machine}

    def find_missing_part(self) -> str:
        """Return what this machine lacks for the site, or an empty string."""
        for part in self.machine_parts.values():
            row = matrix.Row(part.driver, "", "")
            reason = find_missing_for_vm() if part.virtual else matrix.find_missing("embedded", row)
            if reason:
                return reason
        return sshserver.find_missing() or ""

    def get_state_directory(self, name: str) -> str:
        parts = self.machine_parts
        previous = list(parts)[: list(parts).index(name)]
        is_second = any(parts[other].machine == parts[name].machine for other in previous)
        return f"{STATE_DIRECTORY}/part-{name}" if is_second else STATE_DIRECTORY


VM_OPTIONS = {"undo_after_s": 30}  # two logins to an emulated machine take long
_REFERENCE = Part("reference")
_NAPT, _CLAT, _MAP_T_CE = (
    Part("nftables", "ce"), Part("tayga", "ce"), Part("tayga", "ce", "ce", {"queue_length": 5000, "mend_checksums": True})
)  # fmt: skip
_VPP, _VPP_CE, _SNABB = Part("vpp", "pe"), Part("vpp", "ce", "ce"), Part("snabb-lwaftr", "pe")
_JOOL = {machine: Part("jool", machine, "", VM_OPTIONS, JOOL) for machine in ("ce", "pe")}
# Few test machines have the kernel module, so it runs in a virtual machine.
_TUNNEL = Part("ip6-tunnel", "vm", "", VM_OPTIONS, TUNNEL)
SITES = {
    "464xlat": Site("464xlat", {"clat": _CLAT, "plat": Part("tayga-nftables", "pe")}),
    "464xlat, one machine": Site("464xlat", {"clat": _CLAT, "plat": Part("tayga-nftables", "ce", "plat")}),
    "464xlat, VPP": Site("464xlat", {"clat": _CLAT, "plat": _VPP}),
    "464xlat, Jool twice": Site("464xlat", {"clat": _JOOL["ce"], "plat": _JOOL["pe"]}),
    "lw4o6, VPP": Site("lw4o6", {"napt": _NAPT, "ce": _REFERENCE, "lwaftr": _VPP}),
    "lw4o6, Snabb": Site("lw4o6", {"napt": _NAPT, "ce": _REFERENCE, "lwaftr": _SNABB}),
    "map-e, VPP": Site("map-e", {"napt": _NAPT, "ce": _REFERENCE, "br": _VPP}),
    "map-t, CE on one machine": Site("map-t", {"napt": _NAPT, "ce": _MAP_T_CE, "br": _REFERENCE}),
    "map-t, VPP": Site("map-t", {"napt": _NAPT, "ce": _MAP_T_CE, "br": _VPP}, {"rule_ipv6": "2001:db8:ce::/48"}),
    "ds-lite": Site("ds-lite", {"b4": _REFERENCE, "softwire": _REFERENCE, "nat": Part("nftables", "pe")}),
    "ds-lite, VPP": Site("ds-lite", {"b4": _REFERENCE, "aftr": _VPP}),
    "ds-lite, VPP twice": Site("ds-lite", {"b4": Part("vpp", "ce"), "aftr": _VPP}),
    "lw4o6, VPP and Snabb": Site("lw4o6", {"napt": _NAPT, "ce": _VPP_CE, "lwaftr": _SNABB}),
    "map-e, VPP twice": Site("map-e", {"napt": _NAPT, "ce": _VPP_CE, "br": _VPP}),
    "ds-lite, ip6_tunnel and VPP": Site("ds-lite", {"b4": _TUNNEL, "aftr": _VPP}, row="ds-lite, VPP"),
    "lw4o6, ip6_tunnel and VPP": Site(
        "lw4o6", {"napt": _NAPT, "ce": _TUNNEL, "lwaftr": _VPP}, row="lw4o6, VPP"),
    "lw4o6, ip6_tunnel and Snabb": Site(
        "lw4o6", {"napt": _NAPT, "ce": _TUNNEL, "lwaftr": _SNABB}, row="lw4o6, Snabb"),
    "map-e, ip6_tunnel and VPP": Site("map-e", {"napt": _NAPT, "ce": _TUNNEL, "br": _VPP}, row="map-e, VPP"),
}  # fmt: skip


@dataclass
class RunningSite:
    """A site with running machines, each with an sshd."""

    site: Site
    servers: dict[str, sshserver.Server | VmServer]
    testbed: Any
    run: Any

    @property
    def flags(self) -> tuple[Any, ...]:
        """Return the arguments of ``v6t`` for the run file and the testbed file."""
        return (self.run, "--testbed", self.testbed)

    @property
    def hypervisor(self) -> str:
        """Return the hypervisor's description; empty without virtual machines."""
        virtual = (s for s in self.servers.values() if isinstance(s, VmServer))
        return next((server.machine.hypervisor for server in virtual), "")

    def make_console(self, name: str) -> Callable[[str], str]:
        """Return a function that runs a command on a part's machine without sshd."""
        place = self.site.machine_parts[name]
        server = self.servers[place.machine]
        transport = server.console
        if place.netns:
            transport = NamespaceTransport(server.add_namespace(place.netns), name)
        return lambda command: transport.run(command).out

    def read_states(self) -> dict[str, str]:
        """Return the state of each part that v6t may change."""
        return {name: self.make_console(name)(_SURVEY_SCRIPT) for name in self.site.machine_parts}

    def find_records(self) -> dict[str, bool]:
        places = {name: self.site.get_state_directory(name) for name in self.site.machine_parts}
        files = {name: self.make_console(name)(f"ls {place}") for name, place in places.items()}
        return {name: "record.json" in text for name, text in files.items()}

    def run_for_sides(self, command: str, *, virtual: bool) -> None:
        """Run a command for each interface of the parts in virtual machines, or of all other parts."""
        setup = resolve_setup(self.run, self.testbed)
        for part in cast(ChainDriver, setup.driver).get_parts(setup.intent):
            place = self.site.machine_parts.get(part.name)
            for side in ("left", "right") if place and bool(place.virtual) is virtual else ():
                mac = getattr(part.intent.links, side).dut_mac
                self.make_console(part.name)(command.format(side=side, mac=mac))


@contextmanager
def start_site(site: Site, path: Any) -> Iterator[RunningSite]:
    """Start the machines and write the testbed file; stop the machines at the end."""
    servers: dict[str, sshserver.Server | VmServer] = {}
    try:
        for place in site.machine_parts.values():
            if place.machine not in servers and place.virtual:
                servers[place.machine] = VmServer(place.machine, place.virtual)
            elif place.machine not in servers:
                servers[place.machine] = sshserver.Server(place.machine)
        parts: dict[str, Any] = {n: {"driver": place.driver} for n, place in site.parts.items()}
        for name, place in site.machine_parts.items():
            login: dict[str, Any] = {"lab": servers[place.machine].name, "netns": place.netns}
            if not place.virtual:
                login["connect_deadline_s"] = 5
            options = {"undo_after_s": 4, **place.options}
            row = matrix.Row(place.driver, "", "", options=options)
            parts[name]["options"] = {**row.driver_options, "ssh": login}
        write_testbed(path, "chain", parts=parts)
        run = path.with_name("run.yaml")
        params = {"variant": site.variant, **site.params}
        procedure = {"connections": CONNECTIONS}
        run.write_text(json.dumps({"plugin": "ipv4aas", "params": params, "procedure": procedure}))
        running = RunningSite(site, servers, path, run)
        running.run_for_sides("ip link set dev {side} address {mac}", virtual=True)
        yield running
    finally:
        for server in servers.values():
            server.stop()


def select_sites(always: str) -> list[Any]:
    """List test parameters: one site, or all sites with V6T_SITES=1 (``make sites``)."""
    names = SITES if os.environ.get("V6T_SITES") == "1" else [always]
    params = []
    for name in names:
        missing = SITES[name].find_missing_part()
        marks = [pytest.mark.skipif(bool(missing), reason=missing)]
        if {p.driver for p in SITES[name].machine_parts.values()} & {"vpp", "snabb-lwaftr"}:
            marks += [pytest.mark.vpp, pytest.mark.alone]  # these programs need whole cores
        test_id = name.replace(", ", "-").replace(" ", "-")
        params.append(pytest.param(SITES[name], id=test_id, marks=marks))
    return params
