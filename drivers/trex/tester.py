"""TRex as tester: attaches to a server or starts one, runs trials, counts across translation."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from v6t.drivers.embedded.bed import Bed, LabDevice
from v6t.drivers.embedded.lab import LEFT, RIGHT
from v6t.drivers.tester import Judge
from v6t.drivers.trex import counting, sampling
from v6t.drivers.trex.channel import DEADLINE_S, ClientWorker, WorkerError
from v6t.drivers.trex.installation import find_interpreter, require
from v6t.drivers.trex.marking import bursts, stamped, with_cache
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.server import Server
from v6t.drivers.trex.serverconfig import PortConfig, core_plan, is_pci, server_config
from v6t.procedures.trial import Ability, DirectionResult, Trial, TrialResult, directions_of
from v6t.profiles.errors import EnvironmentLacking, TesterError
from v6t.profiles.model import Direction, Role
from v6t.profiles.rows import with_rows
from v6t.profiles.streams import StreamSet

DIRECTIONS: tuple[Direction, Direction] = ("forward", "reverse")
OVERTIME = 1.5
"""Traffic that takes this many times its duration (and five seconds) is stopped."""
VIRTUAL_DRIVERS = ("net_af_packet", "net_memif", "net_tap", "net_af_xdp", "net_pcap", "net_ring")
_names = itertools.count()


class TrexTester:
    """Tester protocol over TRex; see :mod:`v6t.drivers.tester`."""

    name = "trex"

    @property
    def abilities(self) -> frozenset[Ability]:
        """Delays need stamped frames, which only counting by trailer has."""
        if self._options.by_trailer is False or self._options.cores > 1 or not self._trailer:
            return frozenset()
        return frozenset({"tags", "every-frame", "ipdv", "frame-timeout"})

    def __init__(
        self,
        options: TrexOptions,
        links: Any,
        device: LabDevice | None = None,
        *,
        loopback: bool = False,
        delays: bool = False,
    ) -> None:
        """Remember; nothing is started before :meth:`open`.

        Args:
            options: see :class:`~v6t.drivers.trex.options.TrexOptions`.
            links: MAC addresses and MTUs, left and right.
            device: with ``lab: true``, what stands between the ports; None: they are joined.
            loopback: the ports are joined (by the lab, or by the user's cable): frames come back
                unchanged.
            delays: delays will be asked for: a server that cannot give them is refused at once.
        """
        self._options = options
        self._delays = delays
        self._links = links
        self._loopback = loopback
        self._bed = Bed(links, None if loopback else device) if options.lab else None
        self._server: Server | None = None
        self._worker: ClientWorker | None = None
        self._facts: dict[str, Any] = {}
        self._client: dict[str, Any] = {}
        self._started: list[str] = []
        self._flags: list[str] | None = None
        self._trailer = True
        self._streams: dict[Direction, StreamSet] = {}
        self._judge: Judge | None = None
        self._ticks_hz: float | None = None
        self._displaced: dict[str, str] = {}
        left, right = options.ports
        self._ports: dict[Direction, tuple[int, int]] = {
            "forward": (left, right),
            "reverse": (right, left),
        }

    def open(self) -> None:
        """Find client and server, start what is missing, take the ports."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        options = self._options
        if self._bed is not None:
            lab = self._bed.open()
            lab.tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])
        self._start_worker()
        if options.start == "always" or self._bed is not None or not self._try_connect():
            self._start_server()
        self._check_facts()
        self._trailer = self._choose_counting()
        answer = self._ask("acquire", ports=list(options.ports), force=options.force)
        self._displaced = {p: o for p, o in answer["owners"].items() if o}

    def load(self, streams: Mapping[Direction, StreamSet], judge: Judge) -> None:
        """Hand streams to the worker."""
        self._judge = None if self._loopback else judge
        self._streams = {}
        for direction, stream_set in streams.items():
            listed = with_rows(stream_set, self._options.rows)
            ready = stamped(listed) if self._trailer else listed
            if not self._trailer and any(s.role is Role.NEGATIVE for s in ready.streams):
                raise TesterError(
                    "port counters cannot tell frames that must be dropped from others",
                    "leave out negative traffic, or count by trailer (cores: 1, counting: trailer)",
                )
            if not self._trailer:  # TRex keeps no cache of frames it stamps
                ready = with_cache(ready, self._options.cache)
            self._streams[direction] = ready
            self._ask(
                "load",
                port=self._ports[direction][0],
                streams=[dict(s.trex) for s in ready.streams],
            )

    def measure(self, trial: Trial) -> TrialResult:
        """One trial: install exact bursts, start all, wait for late frames, count."""
        directions = [d for d in DIRECTIONS if d in directions_of(trial.mode)]
        if any(d not in self._streams for d in directions):
            raise TesterError(f"no streams are loaded for a {trial.mode} trial")
        time.sleep(trial.pause_s)
        sent = {d: self._sent(d, trial) for d in directions}
        ipdv = trial.delays is not None and trial.delays.ipdv
        samples = self._samples(sent, ipdv)
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        overtime_s = trial.duration_s * OVERTIME + 5
        raw = self._ask(
            "trial",
            watch=self._server_lives,
            deadline_s=overtime_s + trial.residual_wait_s + DEADLINE_S,
            bursts={str(one.tx_port): [b.to_json() for b in one.bursts] for one in sent.values()},
            receive=[one.rx_port for one in sent.values()],
            residual_s=trial.residual_wait_s,
            give_up_s=overtime_s,
            control="" if self._trailer else counting.CONTROL_FILTER,
            samples=samples,
            synchronized=False,
        )
        return self._result(trial, sent, raw, started)

    @property
    def device(self) -> LabDevice | None:
        """What stands between the lab's cables, if there is a lab."""
        return None if self._bed is None else self._bed.device

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        facts = self._facts
        described: dict[str, Any] = {
            "kind": self.name,
            "engine": "Cisco TRex, stateless",
            "version": facts.get("version", {}),
            "processor": facts.get("core_type"),
            "data_path_cores": facts.get("dp_core_count"),
            "ports": [
                {k: p.get(k) for k in ("index", "driver", "hw_mac", "speed", "link", "numa")}
                for p in facts.get("port_info", [])
            ],
            "client": {k: self._client.get(k) for k in ("python", "executable")},
            "started_by_v6t": self._server is not None,
            "server_arguments": self._started,
            "counting": "trailer" if self._trailer else "port counters less control frames",
            "loopback": self._loopback,
            "distinct_frames": self._options.rows
            or (not self._trailer and self._options.cache)
            or "as the traffic says: every frame is computed",
        }
        if self._displaced:
            described["displaced"] = self._displaced
        if self._bed is not None:
            described["device"] = self._bed.describe()
        return described

    def namespaces(self) -> dict[str, int]:
        """Process ids whose network namespaces are the lab's, for ``nsenter -t PID -n``."""
        lab = self._bed.lab if self._bed is not None else None
        if lab is None:
            return {}
        pids = {"tester": lab.tester.pid}
        if lab.device is not None:
            pids["device"] = lab.device.pid
        return pids

    def close(self) -> None:
        """Stop traffic, give ports back, stop what was started."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._bed is not None:
            self._bed.close()

    # ------------------------------------------------------------- opening

    def _server_lives(self) -> None:
        if self._server is not None and not self._server.alive:
            words = self._server.last_words()
            raise TesterError(f"the TRex server ended during a trial: {words}")

    def _ask(self, op: str, /, **arguments: Any) -> Any:
        if self._worker is None:
            raise TesterError("TRex is not open")
        try:
            return self._worker.ask(op, **arguments)
        except WorkerError as exc:
            if exc.kind == "taken":
                raise WorkerError(
                    exc.message, exc.kind, "wait for its owner, or take it with force: true"
                ) from exc
            raise

    def _namespace(self) -> int | None:
        lab = self._bed.lab if self._bed is not None else None
        return None if lab is None else lab.tester.pid

    def _start_worker(self) -> None:
        options = self._options
        if options.ssh:
            if not options.trex_dir:
                raise EnvironmentLacking("ssh needs trex_dir: where TRex is on that host")
            trex_dir, python = options.trex_dir, options.python or "python3"
        else:
            installation = require(options.trex_dir)
            trex_dir = str(installation.path.resolve())
            python, _ = find_interpreter(installation, options.python)
        self._trex_dir = trex_dir
        self._worker = ClientWorker(python, ssh=options.ssh, namespace_pid=self._namespace())
        self._client = self._ask("hello", deadline_s=60, trex_dir=trex_dir)

    def _connect(self) -> None:
        o = self._options
        self._facts = self._ask(
            "connect", server=o.server, rpc_port=o.rpc_port, pub_port=o.pub_port, timeout_s=3
        )

    def _try_connect(self) -> bool:
        try:
            self._connect()
        except WorkerError as exc:
            if exc.kind != "connect":
                raise
            if self._options.start == "never":
                raise EnvironmentLacking(
                    f"no TRex server answers at {self._options.server}:{self._options.rpc_port}: "
                    f"{exc.message}",
                    "start one with `./t-rex-64 -i --software --hdrh -c 1`, or say start: auto",
                ) from exc
            return False
        return True

    def _start_server(self) -> None:
        options = self._options
        interfaces = (LEFT, RIGHT) if self._bed is not None else options.interfaces
        if interfaces is None:
            raise EnvironmentLacking(
                "no TRex server answers, and none can be started: its interfaces are not named",
                "name them in the testbed (tester.options.interfaces), or start TRex yourself",
            )
        available = sorted(os.sched_getaffinity(0))
        plan = core_plan(options.cores, available, options.core_list)
        sides = (self._links.left, self._links.right)
        config = server_config(
            [
                PortConfig(name, link.tester_mac, link.dut_mac)
                for name, link in zip(interfaces, sides, strict=True)
            ],
            plan,
            socket=options.socket,
            rpc_port=options.rpc_port,
            pub_port=options.pub_port,
            prefix=f"v6t{os.getpid()}n{next(_names)}",
            available=available,
        )
        # software mode finds the trailer whatever the headers became; one core keeps sequence
        # numbers and histograms whole (TRX-03)
        by_trailer = options.by_trailer is not False and options.cores == 1
        mode = ["--software", "--hdrh"] if by_trailer else []
        self._started = [
            "--iom", "0", "--no-scapy-server", *mode, "-c", str(options.cores),
            *options.extra_arguments,
        ]  # fmt: skip
        self._server = Server(
            self._trex_dir,
            config,
            self._started,
            wrapper=any(is_pci(name) for name in interfaces),
            namespace_pid=self._namespace(),
            ssh=options.ssh,
        )
        self._server.wait(self._answers)

    def _answers(self) -> bool:
        try:
            self._connect()
        except WorkerError as exc:
            if exc.kind != "connect":
                raise
            return False
        return True

    def _check_facts(self) -> None:
        facts = self._facts
        mode = facts.get("version", {}).get("mode")
        if mode not in {None, "STL"}:
            raise TesterError(
                f"the TRex server runs in mode {mode}, but v6t needs the stateless mode",
                "restart it without --astf",
            )
        known = [p["index"] for p in facts["ports"]]
        for port in self._options.ports:
            if port not in known:
                raise TesterError(f"the TRex server has no port {port}: it has {known}")

    def _choose_counting(self) -> bool:
        """True: by trailer. A server that cannot do what is asked is refused or restarted."""
        trouble = self._trouble()
        if trouble and self._options.restart and self._server is None:
            self._ask("shutdown")
            self._start_server()
            trouble = self._trouble()
        if trouble:
            raise TesterError(
                f"the running TRex server cannot give this measurement: {trouble}",
                "restart it with `-c 1 --software --hdrh`, or say restart: true",
            )
        wanted = self._options.by_trailer
        return self._stamps() if wanted is None else wanted

    def _stamps(self) -> bool:
        """Whether this server finds the trailer whatever the headers became."""
        facts = self._facts
        virtual = all(
            facts["ports"][p].get("is_virtual") or facts["ports"][p]["driver"] in VIRTUAL_DRIVERS
            for p in self._options.ports
        )
        software = virtual or (self._flags is not None and "--software" in self._flags)
        return int(facts.get("dp_core_count", 1)) == 1 and software

    def _trouble(self) -> str:
        """Why the server cannot give the measurement; empty if it can, or nobody can tell."""
        self._flags = self._started or self._ask("server_flags")
        wanted = self._options.by_trailer
        cores = int(self._facts.get("dp_core_count", 1))
        if (wanted or self._delays) and cores > 1:
            return (
                f"it has {cores} data path cores, which share neither sequence numbers nor "
                "histograms, but frames are to be told apart by their trailer"
            )
        if self._delays and self._flags is not None and "--hdrh" not in self._flags:
            return "it keeps no delay histograms (--hdrh)"
        if (wanted or self._delays) and self._flags is not None and not self._stamps():
            return "it recognises frames by their headers, which the device changes (--software)"
        return ""

    # ------------------------------------------------------------ measuring

    def _sent(self, direction: Direction, trial: Trial) -> counting.Sent:
        streams = self._streams[direction]
        tx, rx = self._ports[direction]
        return counting.Sent(
            streams,
            bursts(streams, trial, stamp=self._trailer),
            tx,
            rx,
        )

    def _samples(self, sent: Mapping[Direction, counting.Sent], ipdv: bool) -> dict[str, Any]:
        """Which received frames the worker keeps: single ones, or runs of neighbours for IPDV."""
        wanted = self._options.sample
        if not self._trailer or not (wanted or ipdv):
            return {}
        samples = {}
        for one in sent.values():
            longest = max(b.frames for b in one.bursts)
            if ipdv:
                pattern = counting.neighbours_filter(one.frames, sampling.IPDV_FRAMES)
                limit = 2 * sampling.IPDV_FRAMES
            else:
                pattern, _ = counting.sample_filter(longest, wanted)
                limit = 4 * wanted + 100
            samples[str(one.rx_port)] = {"filter": pattern, "limit": limit}
        return samples

    def _result(
        self,
        trial: Trial,
        sent: Mapping[Direction, counting.Sent],
        raw: Mapping[str, Any],
        started: str,
    ) -> TrialResult:
        captured = {d: counting.captured(raw, one.rx_port) for d, one in sent.items()}
        found = {d: sampling.marks(frames) for d, frames in captured.items()}
        for marks in found.values():
            self._ticks_hz = sampling.tick_rate_hz(marks) or self._ticks_hz
        directions: dict[str, DirectionResult] = {}
        for direction, one in sent.items():
            if self._trailer:
                counted = counting.by_trailer(raw, one, trial.frame_timeout_s)
            else:
                counted = counting.by_ports(raw, one)
            asked = trial.delays
            frames = captured[direction]
            some = frames[:: max(1, len(frames) // max(1, self._options.sample))]
            compared = sampling.compare(some, one.streams, self._judge)
            directions[direction] = DirectionResult(
                classes=counted.classes,
                sending_time_s=self._sending_time(trial, one, found[direction], raw),
                control=counted.control,
                checked=compared.checked,
                matched=compared.matched,
                mismatch=compared.mismatch,
                delay_us=counting.delay_summary(counted.histograms),
                delays=None
                if asked is None
                else counting.distributions(counted, one, tags=bool(asked.tags)),
                ipdv=sampling.ipdv(captured[direction], one, self._ticks_hz, self._judge)
                if asked is not None and asked.ipdv and self._ticks_hz
                else None,
            )
        return TrialResult(
            directions=directions,
            faults=tuple(counting.faults(raw, sent, self._options.cpu_limit)),
            started=started,
            tester={
                "counting": "trailer" if self._trailer else "ports",
                "cpu": [round(c, 1) for c in raw["cpu"]],
                "rx_cpu": [round(c, 1) for c in raw["rx_cpu"]],
                "queue_full": raw["global"].get("queue_full", 0),
                "event_time_s": raw["sending_s"],
            },
        )

    def _sending_time(
        self,
        trial: Trial,
        one: counting.Sent,
        found: list[sampling.Mark],
        raw: Mapping[str, Any],
    ) -> float:
        """From TRex's own time stamps where frames were captured, else from its events [s]."""
        longest = max(one.bursts, key=lambda b: b.frames)
        by_stream: dict[int, list[sampling.Mark]] = {}
        for mark in found:
            by_stream.setdefault(mark.hardware_id, []).append(mark)
        if self._ticks_hz and by_stream:
            times = [
                t
                for marks in by_stream.values()
                if (t := sampling.sending_time_s(marks, longest.frames, self._ticks_hz)) is not None
            ]
            if times:
                return max(times)
        if raw["sending_s"] is None:
            return trial.duration_s * OVERTIME + 5
        return max(trial.duration_s, float(raw["sending_s"]) - counting.EVENT_ERROR_S)
