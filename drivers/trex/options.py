"""Options of a TRex server, or of several that send together, in testbed files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.base.strict_model import StrictModel
from v6t.drivers.placement import RING_FRAMES
from v6t.drivers.several.tester import MAX_SKEW_SHARE
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.drivers.trex.interfaces import check_interface, find_device, is_pci
from v6t.drivers.trex.port_driver import PortDriver, choose_driver, find_driver
from v6t.intent.device import Link, Links, make_host_arguments

Port = Annotated[int, Field(ge=0, le=15)]  # TRex's number of a port
Mac = Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$")]
_COMMON_OPTIONS = ("servers", "only", "max_skew")  # Options that a single server does not have


def _check_interface_count(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) != 2:
        problem = f"2 interfaces, left and right, are required, not {len(value)}"
        hint = "name further ones in pairs: [{ports: [2, 3], interfaces: [LEFT, RIGHT]}]"
        raise InvalidValue(problem, hint, code="wrong-length")
    return value


def _check_interfaces(value: tuple[str, str] | None) -> tuple[str, str] | None:
    for name in value or ():
        check_interface(name)
    if value and find_device(value[0]) == find_device(value[1]):
        raise InvalidValue(f"left and right are the same interface {value[0]}", code="duplicate")
    return value


def _check_ports(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] == value[1]:
        raise InvalidValue("left and right are the same port", code="duplicate")
    return value


Ports = Annotated[tuple[Port, Port], AfterValidator(_check_ports)]
Interfaces = Annotated[
    tuple[str, str] | None,
    BeforeValidator(_check_interface_count),
    AfterValidator(_check_interfaces),
]


def _check_rules(rules: Iterable[tuple[Any, ...]]) -> None:
    """Raise InvalidValue for the first broken rule: is_broken, message, hint, code, settings."""
    for is_broken, text, hint, code, *settings in rules:
        if is_broken:
            raise InvalidValue(text, hint, code=code, settings=tuple(settings))


class Side(StrictModel):
    """MAC addresses and VLAN of one link."""

    tester_mac: Mac  #: The tester's end.
    dut_mac: Mac  #: The device's end.
    vlan: int | None = Field(default=None, ge=1, le=4094)
    """IEEE 802.1Q identifier in place of the one in ``links``; none: that one."""


class Pair(StrictModel):
    """Further pair of ports that carries its share of every direction."""

    ports: Ports  #: TRex's port numbers of left and right.
    interfaces: Interfaces = None  #: Left and right of a server that v6t starts.
    left: Side | None = None  #: MAC addresses and VLAN, where they are not those of the first pair.
    right: Side | None = None  #: The same of the right port.
    socket: int | None = Field(default=None, ge=0, le=7)
    """NUMA node of its interfaces; none: that of the first pair."""


class TrexOptions(StrictModel):
    """Options of ``tester: {kind: trex}``; the left port sends IPv6 (or the private side)."""

    trex_dir: str = ""
    """Directory of ``t-rex-64``; default: $TREX_DIR, else the newest /opt/trex/v*."""
    start: Literal["auto", "never", "always"] = "auto"
    """``auto``: attach to a server that answers, else start one; ``never``; ``always``."""
    start_deadline_s: float = Field(default=120.0, gt=0, le=3600)
    """Time limit for a server that v6t starts until it answers [s]."""
    fence: bool = True
    """Close the ports of a server that v6t starts on interfaces to other hosts (nftables): TRex has no
    authentication."""
    server: str = "127.0.0.1"
    """Host of the server to attach to; v6t starts no server on another host (see ``ssh``)."""
    ssh: Annotated[
        SshOptions | None, BeforeValidator(lambda value: None if value == "" else value)
    ] = None
    """``user@host``, or the names with values of ``dut.options.ssh``: installation, server and
    client are on that host."""
    rpc_port: int = Field(4501, ge=1, le=65535, description="TCP port for requests")
    pub_port: int = Field(4500, ge=1, le=65535, description="TCP port for events")
    ssh_config: str = ""  #: Configuration file of OpenSSH; empty: that of ``ssh``, or the user's.
    ports: Ports = Field((0, 1), description="Port numbers of left and right")
    interfaces: Interfaces = None
    """Left and right of a server that v6t starts: PCI addresses, interface names or --vdev=..."""
    ring: int = Field(default=RING_FRAMES, ge=512, le=65_536, multiple_of=512)
    """Frames in each ring between TRex and a Linux interface (a power of two is best)."""
    left: Side | None = None
    """MAC addresses and VLAN of the left port, where they are not those of ``links``: for one of several
    servers."""
    right: Side | None = None  #: The same of the right port.
    pairs: tuple[Pair, ...] = Field(default=(), max_length=7)
    """Further pairs of ports; every pair sends its share of the frames."""
    lab: bool = False
    """Run TRex inside the lab of network namespaces, with the device of the testbed's ``dut``; with
    memif ports as ``interfaces``, a VPP that runs already."""
    cores: int = Field(1, ge=1, le=64, description="Data path cores of a server that v6t starts")
    hardware_filter: bool = False
    """Several cores on NICs without TRex's software mode: the data path receives nothing, so that
    no frame can be compared or timed, and one core of the server receives all frames."""
    core_list: tuple[int, ...] = ()
    """CPU numbers: master, latency, then the data path cores; empty: chosen. With one data path
    core a CPU may stand for several threads."""
    rps_cpus: tuple[Annotated[int, Field(ge=0, le=1023)], ...] | None = None
    """``lab: true``: CPUs on which the kernel receives and forwards TRex's frames (RPS); none:
    where TRex's threads share CPUs, those without its data path; ``[]``: the CPU that sends."""
    socket: int = Field(0, ge=0, le=7, description="NUMA node of the interfaces")
    counting: Literal["auto", "trailer", "ports"] = "auto"
    """How test frames are distinguished: by their trailer (one core), or by port counters."""
    marks: bool | None = None
    """Mark frames of trials without delays by their field-engine programs: TRex sends up to 32 marked
    frames at a time, and stamped ones one by one; the order of marked frames is unknown. None: in searches
    and trials above 10,000 fps where TRex's threads share CPUs on Linux interfaces."""
    restart: bool = False
    """End a server whose mode cannot give the requested measurement, and start one on the
    ``interfaces``; one whose ports are in use only with ``force``."""
    force: bool = Field(False, description="Take ports away from another user")
    python: str = ""  #: Interpreter that imports TRex's client (3.8 to 3.13); empty: found by v6t.
    cache: int = Field(default=0, ge=0, le=10_000)
    """Frames kept ready per stream (field-engine cache); 0: every frame is computed."""
    rows: int = Field(default=0, ge=0, le=65_535)
    """Frames computed beforehand and kept as lists of their changing octets; 0: only where the
    traffic repeats after at most 8,192 frames anyway."""
    sample: int = Field(default=200, ge=0, le=10_000)
    """Received frames per direction and trial that are compared octet by octet, about."""
    cpu_limit: float | None = Field(default=None, gt=0, le=100)
    """A trial during which the data path was busier than this is invalid [%]; none: 85, and 100 for
    Linux interfaces, whose sending CPU does the kernel's work as well."""
    catch_up_ms: float | None = Field(default=None, ge=0.1, le=1000)
    """Longest delay that the data path of a server that v6t starts catches up at once [ms]; a
    longer one extends its sending. None: TRex's default of 0.1."""
    extra_arguments: tuple[str, ...] = Field((), description="Further arguments of ``t-rex-64``")

    @model_validator(mode="after")
    def _check_consistency(self) -> TrexOptions:
        if getattr(self, "servers", ()):  # each of them is checked with what it shares
            return self
        named, pairs, cores = self.all_interfaces or (), 1 + len(self.pairs), self.cores
        devices = [find_device(name) for name in named]
        conflicts = (find_driver(name).find_conflict(name, cores) for name in named)
        conflict, hint, *settings = next(filter(None, conflicts), ("", "", ""))
        twice = [name for name in devices if devices.count(name) > 1]
        cpus, own_cpus = cores * pairs + 2, len(self.core_list)
        starts_none = self.start == "never" or self.is_elsewhere
        start_options = ("catch_up_ms", "core_list", "hardware_filter", "restart", "ring")
        for_start = [n for n in start_options if n in self.model_fields_set and getattr(self, n)]
        has_ring = any(not is_pci(name) and not name.startswith("--") for name in named)
        # fmt: off
        _check_rules((
            (self.counting == "trailer" and cores > 1,
             f"TRex sends frames with a trailer from one core, not from {cores}",
             "set cores to 1, or counting to ports", "conflict", "counting", "cores"),
            (self.lab and (self.ssh or self.start == "never"),
             "the lab needs a TRex that v6t starts on this host",
             "leave out lab", "conflict", "lab", "ssh" if self.ssh else "start"),
            (self.lab and not all(i.startswith("--vdev=net_memif") for i in self.interfaces or ()),
             "the lab creates its own interfaces; only memif ports can replace them",
             "leave out interfaces", "conflict", "lab", "interfaces"),
            (self.rps_cpus and (not self.lab or self.interfaces),
             "rps_cpus applies to the interfaces of the lab only",
             "leave it out, or set it in the options of the device's driver",
             "conflict", "rps_cpus", "interfaces" if self.lab else "lab"),
            (self.is_elsewhere and (self.lab or self.restart or self.start == "always"),
             f"v6t cannot start a server at {self.server}",
             "leave out server, or set ssh to user@host if TRex is on another host",
             "conflict", "server", "lab" if self.lab else "restart" if self.restart else "start"),
            (self.restart and self.all_interfaces is None,
             "restart starts a server, but no interfaces are given",
             "set interfaces", "missing-setting", "restart", "interfaces"),
            (self.lab and self.pairs,
             "the lab has one pair of cables", "leave out pairs", "conflict", "lab", "pairs"),
            (len(set(self.all_ports)) < len(self.all_ports),
             f"two pairs share a port: {', '.join(map(str, self.all_ports))}",
             "give each pair two ports that no other pair has", "duplicate", "ports", "pairs"),
            (self.all_interfaces is None and any(pair.interfaces for pair in self.all_pairs),
             "a pair has no interfaces, but another pair has",
             "set interfaces for each pair, also the first", "missing-setting", "pairs", "interfaces"),
            (self.ssh_config and self.ssh is None,
             "ssh_config applies to a TRex on another host only",
             "set ssh, or leave it out", "conflict", "ssh_config", "ssh"),
            (starts_none and for_start,
             f"only a server that v6t starts uses {' and '.join(for_start)}",
             "leave them out", "conflict", *for_start, "server" if self.is_elsewhere else "start"),
            ("ring" in self.model_fields_set and named and not has_ring,
             "ring applies to Linux interfaces that are given by their name only",
             "leave it out, or set the ring in --vdev", "conflict", "ring", "interfaces"),
            (twice, f"two pairs share the interface {''.join(twice[:1])}",
             "give each pair its own interfaces", "duplicate", "interfaces", "pairs"),
            (self.cache and self.rows,
             "cache and rows both replace the computing of each frame",
             "leave out one", "conflict", "cache", "rows"),
            (self.cache and self.counting == "trailer",
             "TRex does not cache frames with a trailer",
             "use rows in place of cache, or set counting to ports", "conflict", "cache", "counting"),
            (self.hardware_filter and cores == 1,
             "hardware_filter applies to servers with several cores, not with 1",
             "leave it out, or raise cores", "conflict", "hardware_filter", "cores"),
            (own_cpus not in {0, cpus},
             f"core_list needs {cpus} CPUs, not {own_cpus}: master, latency, and each pair's cores",
             f"name {cpus} CPUs, or change cores", "wrong-length", "core_list", "cores"),
            (cores > 1 and len(set(self.core_list)) < own_cpus,
             f"threads cannot share a CPU with {cores} cores",
             "name each CPU once, or set cores to 1", "duplicate", "core_list", "cores"),
            (conflict, conflict, hint, "conflict", *settings),
            (self.lab and not self.interfaces and not self.port_driver.name,
             "the lab's ports are Linux interfaces, which this installation of v6t does not support",
             "set interfaces to memif ports, or use the embedded tester",
             "unsupported-by-tester", "lab"),
        ))
        # fmt: on
        return self

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server is on a host where v6t cannot start one."""
        return self.server not in {"127.0.0.1", "localhost", "::1"}

    @property
    def address(self) -> dict[str, Any]:
        """The server's host and TCP ports."""
        return {"server": self.server, "rpc_port": self.rpc_port, "pub_port": self.pub_port}

    def orient_ports(self, links: Links) -> TrexOptions:
        """Return the options with left and right swapped if those of the links are."""
        if not links.swapped:
            return self
        pairs = tuple(pair.model_copy(update=_swap_ports(pair)) for pair in self.pairs)
        return self.model_copy(update={**_swap_ports(self), "pairs": pairs})

    @property
    def all_pairs(self) -> tuple[TrexOptions | Pair, ...]:
        """The first pair, which these options describe, and the further ones."""
        return (self, *self.pairs)

    @property
    def all_ports(self) -> tuple[int, ...]:
        """Ports of all pairs, left and right in turn."""
        return tuple(port for pair in self.all_pairs for port in pair.ports)

    @property
    def all_interfaces(self) -> tuple[str, ...] | None:
        """Interfaces in the order of TRex's port numbers; None if one is not named."""
        if self.lab and not self.interfaces:
            return "left", "right"
        interfaces = [name for pair in self.all_pairs for name in pair.interfaces or ()]
        if len(interfaces) < len(self.all_ports):
            return None
        return tuple(name for _, name in sorted(zip(self.all_ports, interfaces, strict=True)))

    @property
    def sockets(self) -> tuple[int, ...]:
        """NUMA node of each pair, in the order of TRex's port numbers."""
        pairs = sorted(self.all_pairs, key=lambda pair: min(pair.ports))
        return tuple(self.socket if pair.socket is None else pair.socket for pair in pairs)

    @property
    def uses_software_mode(self) -> bool:
        """Whether a server that v6t starts recognizes frames by their trailer."""
        named = self.all_interfaces or ()
        is_virtual = bool(named) and not any(map(is_pci, named))
        return is_virtual or "--software" in (*self.mode_arguments, *self.extra_arguments)

    @property
    def mode_arguments(self) -> list[str]:
        """Arguments for the receive mode of a server that v6t starts.

        Software mode finds trailers after any translation; filters of NICs do not. Only one core
        keeps complete sequence numbers and histograms.
        """
        if self.cores == 1:
            return [] if self.counting == "ports" else ["--software", "--hdrh"]
        return [] if self.hardware_filter else ["--software"]

    @property
    def port_driver(self) -> PortDriver:
        """Driver of the ports whose interfaces are named."""
        return choose_driver(find_driver(name).name for name in self.all_interfaces or ())

    @property
    def is_owned(self) -> bool:
        """Whether the lab owns the server and its Linux interfaces.

        Such a server may be restarted with TRex's other engine, which has clients on its first port.
        """
        return self.lab and not self.interfaces and self.ports == (0, 1)

    def find_links(self, links: Links) -> dict[int, Link]:
        """Return the link at each port, with the MAC addresses and the VLAN of its pair."""
        by_port = {}
        for pair in self.all_pairs:
            ends = (links.left, pair.left), (links.right, pair.right)
            for port, (link, side) in zip(pair.ports, ends, strict=True):
                changes = {} if side is None else side.model_dump(exclude_none=True)
                by_port[port] = link.model_copy(update=changes)
        return by_port

    def find_macs(self, links: Links) -> dict[int, tuple[str, str]]:
        """Return the tester's and the device's MAC address by port number."""
        return {p: (link.tester_mac, link.dut_mac) for p, link in self.find_links(links).items()}

    def list_hosts(self, links: Links) -> dict[str, Any]:
        """Return the arguments of the hosts on each port that has any."""
        hosts = {p: make_host_arguments(link) for p, link in self.find_links(links).items()}
        return {str(port): arguments for port, arguments in hosts.items() if arguments is not None}

    @property
    def remote(self) -> SshClient | None:
        """SSH client of the host with installation, server and client; None if it is this host."""
        own = {"config": self.ssh_config} if self.ssh_config else {}
        return None if self.ssh is None else _make_ssh_client(self.ssh.model_copy(update=own))

    @property
    def counts_by_ports(self) -> bool:
        """Whether the options alone decide that test frames are counted by port."""
        return self.counting == "ports" or (self.must_start and self.cores > 1)

    @property
    def must_start(self) -> bool:
        """Whether v6t always starts the server and never attaches to a running one."""
        return self.lab or self.start == "always"


class ServerOptions(TrexOptions):
    """Options of one of several servers; those outside of ``servers`` apply to all."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,40}$")] = ""
    """Name in messages and results; empty: its number, from 1."""


class ServersOptions(TrexOptions):
    """Options of ``tester: {kind: trex}``; the left port sends IPv6 (or the private side)."""

    servers: tuple[ServerOptions, ...] = Field(default=(), max_length=16)
    """Several servers that send together; each has the options above, and ``name``. Options outside of
    ``servers`` apply to all of them."""
    only: str = ""  #: Name of the one server to use; empty: all.
    max_skew: float = Field(default=MAX_SKEW_SHARE, gt=0, le=0.5)
    """Largest difference of the servers' starts as a share of a trial's duration; with a larger one the
    trial is invalid."""

    @model_validator(mode="before")
    @classmethod
    def _share_options(cls, values: Any) -> Any:
        """Copy the options outside of ``servers`` to each server."""
        servers = values.get("servers") if isinstance(values, Mapping) else None
        if not isinstance(servers, (list, tuple)):
            return values
        shared = {key: value for key, value in values.items() if key not in _COMMON_OPTIONS}
        laid = [
            {"name": str(n), **shared, **one} if isinstance(one, Mapping) else one
            for n, one in enumerate(servers, 1)
        ]
        return {**values, "servers": laid}

    @model_validator(mode="after")
    def _check_servers(self) -> ServersOptions:
        names = [one.name for one in self.servers]
        hosts = [(one.ssh and one.ssh.host, one.server, one.rpc_port) for one in self.servers]
        lacking = [s.name for s in self.servers[1:] if s.left is None or s.right is None]
        _check_rules((
            (len(set(names)) < len(names), "two servers have the same name",
             "give each server its own name", "duplicate", "servers"),
            (len(set(hosts)) < len(hosts), "two servers have the same host and rpc_port",
             "give each server its own host and rpc_port", "duplicate", "servers"),
            ("max_skew" in self.model_fields_set and not names, "max_skew applies to several servers",
             "leave it out", "conflict", "max_skew", "servers"),
            (self.only and self.only not in names, f"unknown server {self.only!r}",
             f"the servers are {', '.join(names) or 'not listed'}", "unknown-name", "only"),
            (len(names) > 1 and any(one.lab for one in self.servers), "the lab has one server",
             "leave out lab, or servers", "conflict", "lab", "servers"),
            (lacking, f"server {''.join(lacking[:1])} has no MAC addresses",
             "set left and right with tester_mac and dut_mac", "missing-setting", "servers"),
        ))  # fmt: skip
        return self

    @property
    def selected_servers(self) -> Mapping[str, TrexOptions]:
        """Options of the servers in use, by name."""
        return {one.name: one for one in self.servers if self.only in ("", one.name)} or {"1": self}


def _swap_ports(pair: TrexOptions | Pair) -> dict[str, Any]:
    interfaces = pair.interfaces and pair.interfaces[::-1]
    ports = pair.ports[::-1]
    return {"ports": ports, "interfaces": interfaces, "left": pair.right, "right": pair.left}


@lru_cache(maxsize=8)
def _make_ssh_client(ssh: SshOptions) -> SshClient:
    """Make the SSH client of a host, or return the one whose files programs already use."""
    return SshClient(ssh)
