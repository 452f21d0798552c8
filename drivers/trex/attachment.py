"""The client and the server of a TRex tester: found, attached to or started, examined, closed."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from typing import Any, Literal

from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.setup import Bed
from v6t.drivers.trex.channel import DEADLINE_S, STATEFUL, STATELESS, ClientWorker, WorkerError
from v6t.drivers.trex.installation import require, start_client
from v6t.drivers.trex.machine import machine_facts, unmounted
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.server import Server
from v6t.drivers.trex.server_config import (
    PortConfig,
    core_plan,
    forwarding_cpus,
    full_address,
    is_pci,
    joined,
    linux_port,
    server_config,
    shared,
)

LINUX_DRIVER = "net_af_packet"
VIRTUAL_DRIVERS = (LINUX_DRIVER, "net_memif", "net_tap", "net_af_xdp", "net_pcap", "net_ring")
ENDING_S = 40.0
"""How long a server that is ended may take to give its ports back."""
MAX_RECORDED_FPS = 50_000
"""Stamped frames of a direction that TRex's receiver is given to record beside the load of several cores.
It wrote 200,000 a second to a file without loss."""
_names = itertools.count()
Engine = Literal["STL", "ASTF"]
"""TRex's engine for streams, and the one for connections: a server has one of them."""

_OF_PORT = ("index", "driver", "hw_mac", "speed", "link", "numa", "prom")


class Attachment:
    """A worker with TRex's client, connected to a server whose ports are taken.

    Attributes:
        facts: what the server says of itself.
        client: what the worker says of itself.
        trailer: frames are told apart by their trailer, not by port counters.
        displaced: owners of ports that were taken by force.
        answering: ports on which ARP and neighbour solicitations are answered.
        learning: ports on which hosts ask for the device before a trial.
        started: arguments of a server that was started here.
        directory: the installation, on the host the server runs on.
        steered: CPUs that forward between the lab's interfaces, and which interfaces.
    """

    def __init__(self, options: TrexOptions, links: Any, bed: Bed | None, *, delays: bool) -> None:
        """Remember; nothing is started before :meth:`open`.

        Args:
            options: see :class:`~v6t.drivers.trex.options.TrexOptions`.
            links: MAC addresses and MTUs, left and right.
            bed: the lab TRex runs in, if any.
            delays: delays will be asked for: a server that cannot give them is refused at once.
        """
        self._options = options
        self._delays = delays
        self._links = links
        self._bed = bed
        self.server: Server | None = None
        self.worker: ClientWorker | None = None
        self.facts: dict[str, Any] = {}
        self.client: dict[str, Any] = {}
        self.started: list[str] = []
        self.trailer = True
        self.displaced: dict[str, str] = {}
        self.answering: list[int] = []
        self.learning: list[int] = []
        self.directory = ""
        self.steered: dict[str, Any] = {}
        self._plan: list[int] = []
        self._flags: list[str] | None = None
        self._engine: Engine = "STL"

    def open(self) -> None:
        """Find client and server, start what is missing, take the ports."""
        if self._bed is not None:
            lab = self._bed.open()
            lab.tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])
        self._begin()

    def run_engine(self, engine: Engine) -> bool:
        """Have a server with this engine: one with the other is ended first. Whether that was so.

        Raises:
            TesterError: the server is not v6t's own.
        """
        if engine == self._engine:
            return False
        if self.server is None:
            raise TesterError(
                f"TRex's {engine} engine needs a server of its own, but this one was not started by v6t",
                "have v6t start it (start: always, or lab: true)",
                code="unsupported-by-tester",
            )
        self.close()
        self._engine = engine
        self._begin()
        return True

    def _begin(self) -> None:
        """Start or find what is needed for an engine, and take the ports."""
        options = self._options
        self._start_worker()
        if options.start == "always" or self._bed is not None or not self._try_connect():
            self._start_server()
        self._check_facts()
        if self._engine == "STL":
            self.trailer = self._choose_counting()
        answer = self.ask("acquire", ports=list(options.all_ports), force=options.force)
        self.displaced |= {p: o for p, o in answer["owners"].items() if o}
        hosts = options.all_hosts(self._links)
        self.answering = self.ask("play", hosts=hosts) if hosts else []
        self.learning = sorted(int(p) for p, one in hosts.items() if one.get("introduces", True))

    def server_lives(self) -> None:
        """Complain if a server that was started here has ended.

        Raises:
            TesterError: with its last words.
        """
        if self.server is not None and not self.server.alive:
            raise self.server.failure("the TRex server ended during a trial")

    def ask(self, op: str, /, **arguments: Any) -> Any:
        """A request to the worker; see :meth:`ClientWorker.ask`."""
        if self.worker is None:
            raise TesterError("TRex is not open", code="tester-fault")
        try:
            return self.worker.ask(op, **arguments)
        except WorkerError as exc:
            if exc.kind == "taken":
                raise WorkerError(
                    exc.message,
                    exc.kind,
                    "wait for its owner, or take it with force: true",
                    code=exc.code,
                ) from exc
            raise

    def close(self) -> None:
        """Give ports back, stop what was started. May be called twice."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None
        if self.server is not None:
            self.server.close()
            self.server = None

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        options = self._options
        macs = dict(zip(sorted(options.all_ports), options.all_macs(self._links), strict=True))
        description: dict[str, Any] = {
            "version": self.facts.get("version", {}),
            "processor": self.facts.get("core_type"),
            "data_path_cores": self.facts.get("dp_core_count"),
            "clock_source": self.client.get("clock"),
            "ports": [
                {
                    **{k: p.get(k) for k in _OF_PORT},
                    "virtual": _is_virtual(p),
                    "tester_mac": macs.get(p.get("index"), ("",))[0],
                }
                for p in self.facts.get("port_info", [])
            ],
            "client": {k: self.client.get(k) for k in ("python", "executable")},
            "started_by_v6t": self.server is not None,
            "reached_by": self._reached_by(),
            "server_arguments": self.started,
            "answers_on": self.answering,
            "learning_on": self.learning,
        }
        if self._plan:
            master, latency, *sending = self._plan
            description["cpus"] = {"master": master, "latency": latency, "data path": sending}
        if self._bed is not None:
            description["receive_packet_steering"] = self.steered or "off"
        if self.displaced:
            description["displaced"] = self.displaced
        if self.server is not None and self._bed is None and options.fence:
            description["fence_failed"] = not self.server.fenced
        return description

    @property
    def _linux(self) -> bool:
        """Whether the ports are interfaces of Linux."""
        return {self.facts["ports"][p]["driver"] for p in self._options.all_ports} == {LINUX_DRIVER}

    @property
    def cpu_limit(self) -> float:
        """A data path busier than this says nothing about the device [%]."""
        if self._options.cpu_limit is not None:
            return self._options.cpu_limit
        return 100.0 if self._linux else 85.0

    @property
    def cramped(self) -> bool:
        """Whether TRex's threads share CPUs with each other and with the kernel's work for its ports."""
        return bool(self._plan) and shared(self._plan) and self._linux

    def _reached_by(self) -> str:
        """Who can command the server, which asks nobody for a password."""
        if self._bed is not None:
            return "the lab's namespace only"
        if self.server is not None and self.server.fenced:
            return "its own host only"
        return "whoever reaches its host" + ("" if self.server else ", as far as v6t knows")

    def namespace(self) -> int | None:
        """Process whose network namespace client and server run in; None: this one's."""
        lab = self._bed.lab if self._bed is not None else None
        return None if lab is None else lab.tester.pid

    def _start_worker(self) -> None:
        options, deadline_s = self._options, self._options.start_deadline_s

        def worker(python: str) -> ClientWorker:
            return ClientWorker(
                python,
                remote=options.remote,
                namespace_pid=self.namespace(),
                modules=STATELESS if self._engine == "STL" else STATEFUL,
            )

        if options.ssh:
            if not options.trex_dir:
                raise EnvironmentLacking(
                    "ssh needs trex_dir, the directory of TRex on that host", code="missing-setting"
                )
            self.directory = options.trex_dir
            self.worker = worker(options.python or "python3")
            self.client = self.ask("hello", deadline_s=deadline_s, trex_dir=self.directory)
            return
        installation = require(options.trex_dir)
        self.directory = str(installation.path.resolve())
        self.worker, self.client = start_client(installation, options.python, worker, deadline_s)

    def _connect(self) -> None:
        o = self._options
        self.facts = self.ask(
            "connect", server=o.server, rpc_port=o.rpc_port, pub_port=o.pub_port, timeout_s=3
        )

    def _try_connect(self) -> bool:
        try:
            self._connect()
        except WorkerError as exc:
            if exc.kind != "connect":
                raise
            if self._options.start == "never" or self._options.elsewhere:
                start_it = "start one there with `./t-rex-64 -i --software --hdrh -c 1`, or "
                other = (
                    "say ssh: user@host, so that v6t does"
                    if self._options.elsewhere
                    else "say start: auto"
                )
                raise EnvironmentLacking(
                    f"no TRex server answers at {self._options.server}:{self._options.rpc_port}: "
                    f"{exc.message}",
                    start_it + other,
                    code=exc.code,
                ) from exc
            return False
        return True

    def _start_server(self) -> None:
        options = self._options
        interfaces = options.all_interfaces
        if self._bed is not None:
            interfaces = interfaces or (LEFT, RIGHT)
            if options.interfaces and self._bed.device is None:
                interfaces = joined(options.interfaces)
        if interfaces is None:
            raise EnvironmentLacking(
                "no TRex server answers, and v6t cannot start one without its interfaces",
                "name them in the testbed (tester.options.interfaces), or start TRex yourself",
                code="missing-setting",
            )
        mtu = max(self._links.left.mtu, self._links.right.mtu)
        pairs = 1 + len(options.pairs)
        plan = self._plan = core_plan(
            options.cores * pairs,
            self.client["cpus"],
            options.core_list,
            sharing=options.cores == 1,
        )
        prefix = f"v6t{os.getpid()}n{next(_names)}"
        config = server_config(
            [
                PortConfig(linux_port(n, name, ring=options.ring, mtu=mtu), *macs)
                for n, (name, macs) in enumerate(
                    zip(interfaces, options.all_macs(self._links), strict=True)
                )
            ],
            plan,
            sockets=options.sockets,
            rpc_port=options.rpc_port,
            pub_port=options.pub_port,
            prefix=prefix,
        )
        mode = ["--astf", "--software"] if self._engine == "ASTF" else options.mode
        if shared(plan):  # TRex would take a thread's waiting for its CPU for a lock-up
            mode.append("--no-watchdog")
        self.started = [
            "--iom", "0", "--no-scapy-server", *mode, "-c", str(options.cores), "--prefix", prefix,
            *options.extra_arguments,
        ]  # fmt: skip
        self.server = Server(
            self.directory,
            config,
            self.started,
            prefix=prefix,
            nics=[full_address(name) for name in interfaces if is_pci(name)],
            fence=(options.rpc_port, options.pub_port) if options.fence else (),
            namespace_pid=self.namespace(),
            remote=options.remote,
        )
        try:
            self.server.wait(self._answers, options.start_deadline_s)
        except TesterError as exc:
            mount = unmounted(machine_facts(self.worker, options)) if self.worker else ""
            if mount and any(is_pci(name) for name in interfaces):
                raise TesterError(
                    exc.message,
                    f"hugepages are not mounted: {mount}; {exc.hint}",
                    code="tester-fault",
                ) from exc
            raise
        if shared(plan):
            master, latency, *sending = plan
            self.ask("place", prefix=prefix, master=master, latency=latency, sending=sending)
        if options.catch_up_ms is not None and self._engine == "STL":
            self.ask("catch_up", most_s=options.catch_up_ms / 1000)
        if self._bed is not None and not options.interfaces:
            self._steer(forwarding_cpus(plan, self.client["cpus"]))

    def _steer(self, cpus: list[int]) -> None:
        """Forward on CPUs that the options name, or on these where that is allowed."""
        rps_cpus = self._options.rps_cpus
        cpus = cpus if rps_cpus is None else list(rps_cpus)
        lab = self._bed.lab if self._bed is not None else None
        if lab is None or not cpus:
            return
        steered, why = lab.steer(cpus)
        if why and rps_cpus is not None:
            raise EnvironmentLacking(
                f"the kernel does not let v6t steer the lab's interfaces to CPUs {cpus}: {why}",
                "run as root with CPUs that are there, or leave out rps_cpus",
                code="missing-permission",
            )
        self.steered = {"cpus": cpus, "interfaces": steered, **({"trouble": why} if why else {})}

    def _answers(self) -> bool:
        try:
            self._connect()
        except WorkerError as exc:
            if exc.kind != "connect":
                raise
            return False
        return True

    def _check_facts(self) -> None:
        facts = self.facts
        mode = facts.get("version", {}).get("mode")
        if mode not in {None, self._engine}:
            raise TesterError(
                f"the TRex server runs in mode {mode}, but v6t needs {self._engine}",
                "restart it with --astf" if self._engine == "ASTF" else "restart it without --astf",
                code="unsupported-by-tester",
            )
        known = [p["index"] for p in facts["ports"]]
        for port in self._options.all_ports:
            if port not in known:
                raise TesterError(
                    f"the TRex server lacks port {port}; it has {known}", code="unknown-interface"
                )

    def _choose_counting(self) -> bool:
        """True: by trailer. A server that cannot do what is asked is refused or restarted."""
        trouble = self._trouble()
        if trouble and self._options.restart and self.server is None:
            self._restart()
            trouble = self._trouble()
        if trouble:
            raise TesterError(
                f"the running TRex server cannot give this measurement: {trouble}",
                "restart it with `-c 1 --software --hdrh`, or say restart: true",
                code="unsupported-by-tester",
            )
        wanted = self._options.by_trailer
        return self._stamps() if wanted is None else wanted

    def _restart(self) -> None:
        """End a server of somebody else's, unless its ports are in use, and start one."""
        self.displaced = self.ask(
            "shutdown",
            force=self._options.force,
            wait_s=ENDING_S,
            deadline_s=ENDING_S + DEADLINE_S,
        )
        self._start_server()
        self._check_facts()

    @property
    def _cores(self) -> int:
        """Data path cores that send on one port."""
        total = self.facts.get("dp_core_count", 1)
        return int(self.facts.get("dp_core_count_per_port", total))

    def compares(self) -> bool:
        """Whether some frames can be stamped and captured, where not all are."""
        return self.trailer or (self._options.compares_some and self._software())

    def times(self) -> bool:
        """Whether some frames can be timed, where not all are."""
        options = self._options
        if options.pairs or not options.sample or options.cache or options.by_trailer is not None:
            return False
        return self._software() if self.facts else options.in_software

    def apart(self, rate_fps: float) -> int:
        """Of how many frames one can be stamped by one core of several, and be recorded.

        Args:
            rate_fps: of a direction.
        """
        return max(self._cores, math.ceil(rate_fps / MAX_RECORDED_FPS))

    def _stamps(self) -> bool:
        """Whether this server can tell all frames by their trailers."""
        return self._cores == 1 and self._software()

    def _software(self) -> bool:
        """Whether it finds trailers whatever the headers became."""
        ports = self.facts["ports"]
        virtual = all(_is_virtual(ports[p]) for p in self._options.all_ports)
        return virtual or (self._flags is not None and "--software" in self._flags)

    def _trouble(self) -> str:
        """Why the server cannot give the measurement; empty if it can, or nobody can tell."""
        self._flags = self.started or self.ask("server_flags")
        wanted = self._options.by_trailer
        cores = self._cores
        if cores > 1 and (wanted or (self._delays and not self.times())):
            return (
                f"it has {cores} data path cores, which share neither sequence numbers nor "
                "histograms, but frames are to be told apart by their trailer"
            )
        if cores > 1:
            return ""
        if self._delays and self._flags is not None and "--hdrh" not in self._flags:
            return "it keeps no delay histograms (--hdrh)"
        if (wanted or self._delays) and self._flags is not None and not self._stamps():
            return "it recognises frames by their headers, which the device changes (--software)"
        return ""


def _is_virtual(port: Mapping[str, Any]) -> bool:
    """Whether a port has no speed and no filter of addresses of its own."""
    return bool(port.get("is_virtual")) or port.get("driver") in VIRTUAL_DRIVERS
