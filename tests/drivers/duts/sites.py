"""CE and PE of ipv4aas, each behind a real sshd, or in two namespaces of one machine.

A part without machine is the reference translation.
"""

from __future__ import annotations

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
# Connection settings that a virtual machine can also sustain.
CONNECTIONS = {"count": 500, "rate_cps": 500, "wait_ms": 500}
# Silence after which a device rolls back in these tests [s].
SILENCE_S = 4
# The same for emulated machines, where two consecutive logins may take long [s].
SILENCE_VM_S = 30
_SURVEY_SCRIPT = (
    "ip -o link | grep -o 'v6t[^:@ ]*'; ip rule; ip route; ip -6 route show proto 86; nft list ruleset; "
    "ip -4 -o addr; cat /proc/sys/net/ipv4/conf/all/rp_filter; "
    "sysctl -a 2>/dev/null -r 'net.ipv[46].conf.(all|default).(forwarding|rp_filter|send_redirects)$'; "
    "ps -eo comm | grep -e tayga -e vpp -e snabb; "
    "for j in jool jool_siit; do $j instance display 2>/dev/null; done; true"
)

_LOGIN = f"""\
sysctl -q -w net.ipv4.conf.all.route_localnet=1
nft -f - <<'END'
table ip v6t-login {{
  chain there {{ type nat hook output priority -100; ip daddr 127.0.0.1 tcp dport 22 dnat to {LinuxMachine.address}; }}
  chain back {{ type nat hook postrouting priority 100; oifname tap-mgmt masquerade; }}
}}
END
"""
# A bridge does not work: v6t sets the machine's MAC address on the cable's end.
_CABLES = """\
led() { tc qdisc add dev $1 clsact &&
  tc filter add dev $1 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev $2; }
while sleep 0.2; do for side in left right; do
  [ -e /sys/class/net/$side ] || continue
  tc qdisc show dev $side | grep -q clsact && continue
  tc qdisc del dev tap-$side clsact 2>/dev/null
  led tap-$side $side && led $side tap-$side
done; done
"""
# Kills all sessions except the one that runs this command.
_OTHERS = """\
p=$$; while read n <$p/comm && [ $n != sshd ]; do p=$(cut -d' ' -f4 $p/stat); done
for each in $(ps -o pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); do
  [ $each = $p ] || kill -9 $each 2>/dev/null
done; true
"""
# Adds an unconnected cable with the MAC address that a driver expects.
CABLE = (
    "ip link add {side} address {mac} type veth peer name {side}-cable; "
    "ip link set {side} up; ip link set {side}-cable up"
)


def find_missing_for_vm() -> str:
    """Return what this host lacks for virtual machines, or an empty string."""
    missing = image.find_missing_packages()
    missing += [] if shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin:/bin") else ["iproute2"]
    return f"needs {', '.join(missing)}" if missing else sshserver.find_missing() or ""


@functools.cache
def _boot_template(recipe: Recipe) -> LinuxMachine:
    """Return a booted machine that serves as the template of all others."""
    shared = SharedLinuxMachine(recipe.get_image())
    atexit.register(shared.stop)
    return shared.start()


class VmServer(ssh.LabSshServer):
    """A machine of a recipe; see :class:`.sshserver.Server`."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        super().__init__(sshserver.make_unique_name(name))
        self._recipe = recipe
        self.start()
        self.inside = ssh.LabTransport(self._pid, self.make_options())
        self.inside.open()

    @property
    def hypervisor(self) -> str:
        return self._machine.hypervisor

    def shell(self, command: str) -> str:
        """Run a command in a separate session."""
        result = self.inside.run(command)
        assert result.status == 0, result
        return result.out

    def drop(self) -> None:
        """Kill all sessions except this one."""
        self.shell(f"cd /proc; {_OTHERS}")

    def stop(self) -> None:
        """Stop the machine; a second call does nothing."""
        self.inside.close()
        super().stop()
        self._machine.stop()

    def _create_keys(self) -> None:
        """Do nothing: the machine already has keys."""

    def _start_sshd(self) -> None:
        self._machine = LinuxMachine(
            self._recipe.get_image(), self._pid, MACS, template=_boot_template(self._recipe)
        )
        try:
            self._machine.start()
            for name in ("id", "known_hosts"):
                shutil.copy(self._machine.directory / name, self.directory)
            result = NamespaceTransport(self._pid).run(_LOGIN)
            assert result.status == 0, result
        except BaseException:
            self._machine.stop()
            raise
        words = [*enter(self._pid), "sh", "-c", _CABLES]
        null = subprocess.DEVNULL
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)


@dataclass(frozen=True)
class Place:
    """Location of a part."""

    driver: str  # its name
    machine: str = ""  # ``ce`` or ``pe``; empty: the reference translation
    netns: str = ""  # a network namespace of the machine
    options: Mapping[str, Any] = field(default_factory=dict)  # of the driver
    virtual: Recipe | None = None  # recipe of a virtual machine


@dataclass(frozen=True)
class Site:
    """Devices of one variant."""

    variant: str  # of the technology
    parts: Mapping[str, Place]  # places by part
    params: Mapping[str, str] = field(default_factory=dict)  # of the technology
    row: str = ""  # of ip6-tunnel in :mod:`v6t.tests.drivers.machines`; empty: none

    @property
    def placed(self) -> dict[str, Place]:
        return {name: place for name, place in self.parts.items() if place.machine}

    def find_missing_part(self) -> str:
        """Return what this machine lacks for the site, or an empty string."""
        for place in self.placed.values():
            row = matrix.Row(place.driver, "", "")
            missing = (
                find_missing_for_vm() if place.virtual else matrix.find_missing("embedded", row)
            )
            if missing:
                return missing
        return sshserver.find_missing() or ""

    def list_marks(self) -> list[Any]:
        """Return the marks for programs that need whole cores."""
        heavy = any(p.driver in ("vpp", "snabb-lwaftr") for p in self.placed.values())
        return [pytest.mark.vpp, pytest.mark.alone] if heavy else []

    def directory(self, name: str) -> str:
        """Return the state directory of a part on its machine."""
        before = list(self.placed)[: list(self.placed).index(name)]
        beside = any(self.placed[b].machine == self.placed[name].machine for b in before)
        return f"{STATE_DIRECTORY}/part-{name}" if beside else STATE_DIRECTORY


MEND = {"queue_length": 5000, "mend_checksums": True}
SLOWER = {"undo_after_s": SILENCE_VM_S}
_REFERENCE = Place("reference")
_NAPT, _CLAT, _MAP_T_CE = (
    Place("nftables", "ce"), Place("tayga", "ce"), Place("tayga", "ce", "ce", MEND)
)  # fmt: skip
_VPP, _VPP_CE, _SNABB = Place("vpp", "pe"), Place("vpp", "ce", "ce"), Place("snabb-lwaftr", "pe")
_JOOL = {machine: Place("jool", machine, "", SLOWER, JOOL) for machine in ("ce", "pe")}
# Few test machines have the kernel module, so it runs in a virtual machine.
_TUNNEL = Place("ip6-tunnel", "vm", "", SLOWER, TUNNEL)
_SHORT_RULE = {"rule_ipv6": "2001:db8:ce::/48"}
SITES = {
    "464xlat": Site("464xlat", {"clat": _CLAT, "plat": Place("tayga-nftables", "pe")}),
    "464xlat, one machine": Site("464xlat", {"clat": _CLAT, "plat": Place("tayga-nftables", "ce", "plat")}),
    "464xlat, VPP": Site("464xlat", {"clat": _CLAT, "plat": _VPP}),
    "464xlat, Jool twice": Site("464xlat", {"clat": _JOOL["ce"], "plat": _JOOL["pe"]}),
    "lw4o6, VPP": Site("lw4o6", {"napt": _NAPT, "ce": _REFERENCE, "lwaftr": _VPP}),
    "lw4o6, Snabb": Site("lw4o6", {"napt": _NAPT, "ce": _REFERENCE, "lwaftr": _SNABB}),
    "map-e, VPP": Site("map-e", {"napt": _NAPT, "ce": _REFERENCE, "br": _VPP}),
    "map-t, CE on one machine": Site("map-t", {"napt": _NAPT, "ce": _MAP_T_CE, "br": _REFERENCE}),
    "map-t, VPP": Site("map-t", {"napt": _NAPT, "ce": _MAP_T_CE, "br": _VPP}, _SHORT_RULE),
    "ds-lite": Site("ds-lite", {"b4": _REFERENCE, "softwire": _REFERENCE, "nat": Place("nftables", "pe")}),
    "ds-lite, VPP": Site("ds-lite", {"b4": _REFERENCE, "aftr": _VPP}),
    "ds-lite, VPP twice": Site("ds-lite", {"b4": Place("vpp", "ce"), "aftr": _VPP}),
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
    """A site whose machines are running, with an sshd in each."""

    site: Site
    servers: dict[str, sshserver.Server | VmServer]
    testbed: Any
    run: Any

    @property
    def flags(self) -> tuple[Any, ...]:
        """Return the arguments of `v6t` that name the run and the testbed."""
        return (self.run, "--testbed", self.testbed)

    @property
    def hypervisor(self) -> str:
        """Return the hypervisor's description, or an empty string."""
        virtual = (s for s in self.servers.values() if isinstance(s, VmServer))
        return next((server.hypervisor for server in virtual), "")

    def inside(self, name: str) -> Callable[[str], str]:
        """Return a function that runs a command on the machine of a part, bypassing sshd."""
        place = self.site.placed[name]
        server = self.servers[place.machine]
        transport = server.inside
        if place.netns:
            transport = NamespaceTransport(server.add_namespace(place.netns), name)
        return lambda command: transport.run(command).out

    def read_states(self) -> dict[str, str]:
        """Return the configurable state of each part."""
        return {name: self.inside(name)(_SURVEY_SCRIPT) for name in self.site.placed}

    def find_records(self) -> dict[str, bool]:
        """Return for each part whether its undo record exists."""
        return {
            name: "record.json" in self.inside(name)(f"ls {self.site.directory(name)}")
            for name in self.site.placed
        }

    def run_for_sides(self, command: str, *, virtual: bool) -> None:
        """Run a command for each interface of the parts that are, or are not, in virtual machines."""
        setup = resolve_setup(self.run, self.testbed)
        for part in cast(ChainDriver, setup.driver).get_parts(setup.intent):
            place = self.site.placed.get(part.name)
            for side in ("left", "right") if place and bool(place.virtual) is virtual else ():
                mac = getattr(part.intent.links, side).dut_mac
                self.inside(part.name)(command.format(side=side, mac=mac))


@contextmanager
def start_site(site: Site, path: Any) -> Iterator[RunningSite]:
    """Start the machines and write the testbed file; remove everything at the end."""
    servers: dict[str, sshserver.Server | VmServer] = {}
    try:
        for place in site.placed.values():
            if place.machine not in servers and place.virtual:
                servers[place.machine] = VmServer(place.machine, place.virtual)
            elif place.machine not in servers:
                servers[place.machine] = sshserver.Server(place.machine)
        parts: dict[str, Any] = {n: {"driver": place.driver} for n, place in site.parts.items()}
        for name, place in site.placed.items():
            login = {"lab": servers[place.machine].name, "netns": place.netns}
            row = matrix.Row(
                place.driver, "", "", options={"undo_after_s": SILENCE_S, **place.options}
            )
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


# Sites of every test run: two machines, and one machine with two parts.
TWO, ONE = "464xlat", "map-t, CE on one machine"


def select_sites(always: str) -> list[Any]:
    """List one site as test parameter; with V6T_SITES=1 (``make sites``), all of them."""
    names = SITES if os.environ.get("V6T_SITES") == "1" else [always]
    params = []
    for name in names:
        missing = SITES[name].find_missing_part()
        marks = [*SITES[name].list_marks(), pytest.mark.skipif(bool(missing), reason=missing)]
        test_id = name.replace(", ", "-").replace(" ", "-")
        params.append(pytest.param(SITES[name], id=test_id, marks=marks))
    return params
