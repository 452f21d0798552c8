"""The client and the server of a TRex tester: found, attached to or started, examined, closed."""

import itertools
import math
import os
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.drivers.lab.setup import Bed
from v6t.drivers.placement import ThreadPlacement, find_forwarding_cpus, make_ring, place_threads
from v6t.drivers.trex import channel
from v6t.drivers.trex.channel import ClientWorker, WorkerError, parse_answer, start_client
from v6t.drivers.trex.client.stats import PortFacts, ServerFacts
from v6t.drivers.trex.doctor import find_missing_mount, find_start_fix, read_host_facts
from v6t.drivers.trex.interfaces import is_pci, join_memif, make_full_address
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.port_driver import PortDriver, choose_driver, find_driver
from v6t.drivers.trex.server import Server, make_config, make_server_program

SHUTDOWN_S = 40.0  # Deadline for a server to end and release its ports
MAX_RECORDED_FPS = 50_000
"""Stamped frames of a direction that TRex's receiver records in a trial with several cores. It wrote
200,000 a second to a file without loss."""
_server_numbers = itertools.count()  # Part of the prefix of DPDK's files
Engine = Literal["STL", "ASTF"]  # Of a server: TRex's engine for streams or for connections


class Attachment:
    """A worker with TRex's client, connected to a server whose ports it has acquired.

    Args:
        bed: the lab that TRex runs in, if any.
        delays: whether trials measure delays; if so, a server that cannot is rejected on opening.

    Attributes:
        facts: facts that the server reports about itself.
        client_facts: interpreter of the client, and CPUs and clock of its host.
        uses_trailer: whether frames are recognized by their trailer, not counted by port.
        learning_ports: ports on which hosts send neighbor requests before a trial.
    """

    def __init__(self, options: TrexOptions, links: Any, bed: Bed | None, *, delays: bool) -> None:
        self._options = options
        self._delays = delays
        self._links = links
        self._bed = bed
        self.server: Server | None = None
        self.worker: ClientWorker | None = None
        self.facts = ServerFacts()
        self.client_facts: dict[str, Any] = {}
        self.uses_trailer = not options.counts_by_ports
        self.learning_ports: list[int] = []
        self._arguments: list[str] = []
        self._displaced: dict[str, str] = {}
        self._answering: list[int] = []
        self._directory = ""
        self._steering: dict[str, Any] = {}
        self.placement: ThreadPlacement | None = None
        self._flags: list[str] | None = None
        self._engine: Engine = "STL"

    def open(self) -> None:
        if self._bed is not None:
            self._bed.open().tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])
        self._start()

    def switch_engine(self, engine: Engine) -> None:
        """Restart the lab's server with an engine, unless it has this one."""
        if engine != self._engine:
            self.close()
            self._engine = engine
            self._start()

    def check_server(self) -> None:
        """Raise TesterError if a server that v6t started has ended."""
        if self.server is not None and not self.server.is_alive:
            raise self.server.make_error("the TRex server ended during a trial")

    def ask(self, op: str, /, **arguments: Any) -> Any:
        """Send a request to the worker; see :meth:`ClientWorker.ask`."""
        if self.worker is None:
            raise TesterError("TRex is not open", code="tester-fault")
        return self.worker.ask(op, **arguments)

    def close(self) -> None:
        """Release the ports and stop the server if v6t started it. May be called twice."""
        with ExitStack() as stack:  # a failure of the worker does not keep the server running
            if self.server is not None:
                stack.callback(self.server.close)
            if self.worker is not None:
                # a server of another user would keep ports that are not released
                limits = {} if self.server is not None else {"deadline_s": channel.DEADLINE_S}
                stack.callback(self.worker.close, **limits)
            self.worker = self.server = None

    def describe(self) -> dict[str, Any]:
        options, facts = self._options, self.facts
        macs = options.find_macs(self._links)
        access = "any host" + ("" if self.server else ", unless its owner prevents it")
        if self._bed is not None:
            access = "the lab's namespace only"
        elif self.server is not None and self.server.is_fenced:
            access = "its own host only"
        description: dict[str, Any] = {
            "version": facts.version,
            "processor": facts.processor,
            "data_path_cores": facts.cores if facts.ports else None,
            "clock_source": self.client_facts.get("clock"),
            "ports": [
                {**port.describe(), "tester_mac": macs.get(port.index, ("",))[0]}
                for port in facts.ports
            ],
            "client": {k: self.client_facts.get(k) for k in ("python", "executable")},
            "started_by_v6t": self.server is not None,
            "reached_by": access,
            "server_arguments": self._arguments,
            "answers_on": self._answering,
            "learning_on": self.learning_ports,
        }
        if self.placement is not None:
            description["cpus"] = self.placement.describe()
        cores = {"server": facts.cores_per_port, "option": options.cores}
        if facts.ports and "cores" in options.model_fields_set and len(set(cores.values())) > 1:
            description["other_cores"] = cores
        if self._bed is not None:
            description["receive_packet_steering"] = self._steering or "off"
        if self._displaced:
            description["displaced"] = self._displaced
        if self.server is not None and self._bed is None and options.fence:
            description["fence_failed"] = not self.server.is_fenced
        return description

    @property
    def _ports(self) -> list[PortFacts]:
        return [port for port in self.facts.ports if port.index in self._options.all_ports]

    @property
    def _port_driver(self) -> PortDriver:
        return choose_driver(port.driver for port in self._ports)

    @property
    def cpu_limit(self) -> float:
        """Load of the data path above which a trial is invalid [%]."""
        return self._options.cpu_limit or self._port_driver.cpu_limit

    @property
    def shares_cpus(self) -> bool:
        """Whether TRex's threads share CPUs with each other and with the kernel's work for its ports."""
        shared = self.placement is not None and self.placement.is_shared
        return shared and self._port_driver.uses_kernel

    def _start(self) -> None:
        """Start the worker, start a server or attach to one, and acquire its ports."""
        options = self._options
        self._start_worker()
        failure = None if options.must_start else self._try_connect()
        if options.must_start or failure:
            starts_none = options.start == "never" or options.is_elsewhere
            if not starts_none:
                self._check_port_is_free(failure)
            if fix := find_start_fix(options):
                reason = f": {failure.message}" if failure else ""
                code = failure.code if failure and starts_none else "missing-setting"
                problem = f"no TRex server answers at {options.server}:{options.rpc_port}{reason}"
                raise EnvironmentLacking(problem, fix, code=code) from failure
            self._start_server()
        self._check_facts()
        if self._engine == "STL":
            self.uses_trailer = self._choose_counting()
        self._displaced |= self.ask("acquire", ports=list(options.all_ports), force=options.force)
        hosts = options.list_hosts(self._links)
        self._answering = self.ask("start_answering", hosts=hosts) if hosts else []
        learners = (port for port, one in hosts.items() if one.get("introduces", True))
        self.learning_ports = sorted(map(int, learners))

    def find_namespace_pid(self) -> int | None:
        """Return a process in the lab's namespace of client and server, or None without a lab."""
        return None if self._bed is None else self._bed.list_namespaces().get("tester")

    def _start_worker(self) -> None:
        options, limit_s = self._options, self._options.start_deadline_s
        modules = channel.STL_MODULES if self._engine == "STL" else channel.ASTF_MODULES
        where = {"remote": options.remote, "namespace_pid": self.find_namespace_pid()}
        start = partial(ClientWorker, modules=modules, **where)
        if options.ssh:
            if not options.trex_dir:
                problem = "ssh needs trex_dir, the directory of TRex on that host"
                raise EnvironmentLacking(problem, code="missing-setting")
            directory = self._directory = options.trex_dir
            self.worker = start(options.python or "python3")
            self.client_facts = self.ask("import_client", deadline_s=limit_s, trex_dir=directory)
            return
        installation = channel.find_installation(options.trex_dir)
        self._directory = str(installation.resolve())
        self.worker, self.client_facts = start_client(installation, options.python, start, limit_s)

    def _try_connect(self) -> WorkerError | None:
        """Connect to the server; return the error if none answers."""
        try:
            self.facts = parse_answer(ServerFacts, self.ask("connect", **self._options.address))
        except WorkerError as exc:
            if exc.kind != "connect":
                raise
            return exc
        return None

    def _check_port_is_free(self, failure: WorkerError | None) -> None:
        """Refuse to start a server next to one that listens on its port, of any version or engine."""
        port = self._options.rpc_port
        if self._bed is None and self.ask("examine_host", interfaces=[], port=port)["served"]:
            reason = f", but not this client: {failure.message}" if failure else ""
            problem = f"a server answers on TCP port {port} already{reason}"
            hint = "end it, use it with start: auto and its own client, or set other TCP ports"
            raise TesterError(problem, hint, code="tester-fault") from failure

    def _start_server(self) -> None:
        options = self._options
        interfaces = options.all_interfaces or ()
        if self._bed is not None and options.interfaces and self._bed.device is None:
            interfaces = join_memif(options.interfaces)
        ring = make_ring(options.ring, max(self._links.left.mtu, self._links.right.mtu))
        cores, cpus = options.cores * (1 + len(options.pairs)), self.client_facts["cpus"]
        placement = place_threads(cores, cpus, options.core_list, may_share=options.cores == 1)
        self.placement = placement
        prefix = f"v6t{os.getpid()}n{next(_server_numbers)}"
        macs = [own for _, own in sorted(options.find_macs(self._links).items())]
        names = [find_driver(i).format_interface(n, i, ring) for n, i in enumerate(interfaces)]
        ports = [(name, *macs[n]) for n, name in enumerate(names)]
        config = make_config(options, ports, placement, prefix)
        mode = ["--astf", "--software"] if self._engine == "ASTF" else options.mode_arguments
        self._arguments = [
            "--iom", "0", "--no-scapy-server", *mode, *placement.arguments, "-c", str(options.cores),
            "--prefix", prefix, *options.extra_arguments,
        ]  # fmt: skip
        nics = [make_full_address(name) for name in interfaces if is_pci(name)]
        has_fence = options.fence and self._bed is None
        fence = (options.rpc_port, options.pub_port) if has_fence else ()
        program = make_server_program(
            self._directory, config, self._arguments, prefix=prefix, nics=nics, fence=fence
        )
        self.server = Server(program, self.find_namespace_pid(), options.remote)
        try:
            self.server.wait(lambda: self._try_connect() is None, options.start_deadline_s)
        except TesterError as exc:
            facts = read_host_facts(self.worker, options) if self.worker and nics else {}
            if not (mount := find_missing_mount(facts)):
                raise
            hint = f"hugepages are not mounted: {mount}; {exc.hint}"
            raise TesterError(exc.message, hint, code="tester-fault") from exc
        if placement.is_shared:
            self.ask("place_threads", prefix=prefix, threads=placement.list_threads())
        if options.catch_up_ms is not None and self._engine == "STL":
            self.ask("set_max_catch_up", max_s=options.catch_up_ms / 1000)
        self._steer(find_forwarding_cpus(placement, cpus))

    def _steer(self, cpus: list[int]) -> None:
        """Have the kernel forward the lab's frames on CPUs; option ``rps_cpus`` replaces them."""
        rps_cpus = self._options.rps_cpus
        cpus = cpus if rps_cpus is None else list(rps_cpus)
        lab = None if self._bed is None or self._options.interfaces else self._bed.lab
        if lab is None or not cpus:
            return
        interfaces, reason = lab.steer(cpus)
        if reason and rps_cpus is not None:
            problem = f"the kernel refuses to steer the lab's interfaces to CPUs {cpus}: {reason}"
            hint = "run as root with CPUs that exist, or leave out rps_cpus"
            raise EnvironmentLacking(problem, hint, code="missing-permission")
        trouble = {"trouble": reason} if reason else {}
        self._steering = {"cpus": cpus, "interfaces": interfaces, **trouble}

    def _check_facts(self) -> None:
        if (mode := self.facts.mode) not in {None, self._engine}:
            problem = f"the TRex server runs in mode {mode}, but v6t needs {self._engine}"
            hint = f"restart it {'with' if self._engine == 'ASTF' else 'without'} --astf"
            raise TesterError(problem, hint, code="unsupported-by-tester")
        known = [port.index for port in self.facts.ports]
        if missing := set(self._options.all_ports).difference(known):
            text = f"the TRex server lacks port {min(missing)}; it has {known}"
            raise TesterError(text, code="unknown-interface")

    def _choose_counting(self) -> bool:
        """Return whether to count by trailer; refuse or restart a server that cannot measure."""
        if (reason := self._find_problem()) and self._options.restart and self.server is None:
            limits = {"wait_s": SHUTDOWN_S, "deadline_s": SHUTDOWN_S + channel.DEADLINE_S}
            self._displaced = self.ask("shutdown", force=self._options.force, **limits)
            self._start_server()
            self._check_facts()
            reason = self._find_problem()
        if reason:
            problem = f"the running TRex server cannot give this measurement: {reason}"
            hint = "restart it with `-c 1 --software --hdrh`, or set restart: true"
            raise TesterError(problem, hint, code="unsupported-by-tester")
        can_choose = self._options.counting == "auto"
        return self._can_stamp_all() if can_choose else self._options.counting == "trailer"

    def _find_problem(self) -> str:
        """Return why the server cannot give the measurement; empty if it can, or if unknown."""
        flags = self._flags = self._arguments or self.ask("read_server_flags")
        by_trailer, cores = self._options.counting == "trailer", self.facts.cores_per_port
        if cores > 1 and (by_trailer or (self._delays and not self.can_time_some_frames())):
            return f"its {cores} data path cores share neither sequence numbers nor histograms"
        if cores > 1 or flags is None:
            return ""
        if self._delays and "--hdrh" not in flags:
            return "it keeps no delay histograms (--hdrh)"
        if (by_trailer or self._delays) and not self._can_stamp_all():
            return "it recognises frames by their headers, which the device changes (--software)"
        return ""

    def can_time_some_frames(self) -> bool:
        """Return whether several cores can have some frames stamped, captured and timed."""
        options = self._options
        in_software = self._uses_software_mode() if self.facts.ports else options.uses_software_mode
        has_room = options.sample > 0 and not (options.cache or options.pairs)
        return has_room and in_software and options.counting == "auto"

    def choose_stamp_interval(self, rate_fps: float) -> int:
        """Return n so that TRex can stamp one of n frames at a rate, and record it without a trailer."""
        if self.uses_trailer:
            return 1
        return max(self.facts.cores_per_port, math.ceil(rate_fps / MAX_RECORDED_FPS))

    def _can_stamp_all(self) -> bool:
        """Return whether TRex can stamp and recognize every frame."""
        return self.facts.cores_per_port == 1 and self._uses_software_mode()

    def _uses_software_mode(self) -> bool:
        """Return whether the server finds stamps in software, so that any header may change."""
        virtual = all(port.is_virtual for port in self._ports)
        return virtual or (self._flags is not None and "--software" in self._flags)
