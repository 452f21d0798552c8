"""TRex's client of its stateful engine, ASTF, behind the requests of a worker: TCP connections.

All connections have one program: open, wait until all are open, ask for an object, wait until all
have theirs, end. So each step of a trial reads TRex's counters, at times that are known beforehand.
"""

from __future__ import annotations

import base64
import time
from typing import Any

from v6t.drivers.trex.client import rpc, stats
from v6t.drivers.trex.client.service import RequestError, main
from v6t.drivers.trex.client.stats import CounterReading, StepStats, TcpCounters
from v6t.drivers.trex.client.worker import EngineWorker

_CLOSE_WATCH_S = 0.05  # This close to due changes of a counter, it is read continuously
_READING_INTERVAL_S = 0.05  # At other times
_LOAD_INTERVAL_S = 0.5  # Of readings of TRex's CPU load
MAX_START_S = 30.0  # Longest time from the start request to the first SYN
_KEEPALIVE_S = 65000  # In place of five seconds: idle connections are not probed


class AstfWorker(EngineWorker):
    """Worker for TCP connections, with TRex's stateful engine."""

    engine, client_class = "astf", "ASTFClient"

    def __init__(self) -> None:
        super().__init__()
        self.began = 0.0
        self.counter_readings: list[CounterReading] = []
        self.is_running = False

    def acquire(self, ports: list[int], force: bool) -> dict[str, str]:
        del force  # its server was started by v6t
        self.client.reset()
        # which its stateless engine does by itself
        self.client.set_port_attr(ports=list(ports), promiscuous=True)
        self.ports = list(ports)
        return {}

    def start_connections(self, profile: dict[str, Any]) -> None:
        """Start connections of :func:`v6t.drivers.trex.astf.make_profile`, and wait for the first SYN."""
        self.stop_connections()
        self.client.load_profile(self._make_profile(profile))
        self.client.clear_stats()
        self.counter_readings = []
        self._read_counters("attempts", 1)
        self.client.start(mult=1, duration=-1, block=False)
        self.is_running = True
        latest = time.monotonic() + MAX_START_S
        while not self._read_counters("attempts", 1)[0]:
            if time.monotonic() > latest:
                raise RequestError("start", f"TRex opened no connection within {MAX_START_S:g} s")
            time.sleep(0.001)
        self.counter_readings = self.counter_readings[-2:]
        self.began = self.counter_readings[0].before_s

    def watch(
        self,
        counter: str,
        per_unit: int,
        count: int,
        from_s: float,
        due_s: float,
        until_s: float,
        done: dict[str, dict[str, int]],
    ) -> StepStats:
        """Read counters until all units are done or the time is over.

        Args:
            counter: field of the client's :class:`TcpCounters` that counts the step's units.
            per_unit: amount by which one unit raises this field.
            count: number of units.
            from_s, due_s: times at which the first and the last unit are due after the first SYN [s].
            until_s: time after the first SYN at which the wait ends [s].
            done: values of counters, by side and field, at which the step is complete.
        """
        client = self.client
        initial_count, cpu, next_load = None, [], 0.0
        while True:
            units, counters = self._read_counters(counter, per_unit)
            at = time.monotonic() - self.began
            initial_count = units if initial_count is None else initial_count
            if at >= until_s or all(
                getattr(counters[side], name) >= value
                for side in done
                for name, value in done[side].items()
            ):
                break
            if not client.is_connected():
                raise RequestError("server", "the TRex server is gone")
            near = (not units and at > from_s - _CLOSE_WATCH_S) or (
                units < count and due_s - _CLOSE_WATCH_S < at < due_s + 10 * _CLOSE_WATCH_S
            )
            if not near and at > next_load:
                next_load = at + _LOAD_INTERVAL_S
                cpu.append(stats.parse_stats(client.get_stats(ports=self.ports), self.ports).cpu)
            time.sleep(0.001 if near else _READING_INTERVAL_S)
        counted = stats.parse_stats(client.get_stats(ports=self.ports), self.ports)
        readings, self.counter_readings = self.counter_readings, []
        ago_s, full = time.monotonic() - self.began, counted.queue_full_count
        return StepStats(counters, counted.ports, readings, full, cpu, initial_count, ago_s)

    def stop_connections(self) -> None:
        """Stop the connections of a trial, if any run."""
        if self.is_running:
            self.is_running = False
            # TRex's client ignores a stop request until it has received the start event
            rpc.wait_for_connections(self.client, MAX_START_S)
            self.client.stop()

    def release(self, client: Any) -> None:
        self.stop_connections()
        self.stop_answering()
        client.release(force=True)

    def _read_counters(self, counter: str, per_unit: int) -> tuple[int, dict[str, TcpCounters]]:
        """Read and record the counters with the time; return one in units, and all of them."""
        before = time.monotonic()
        traffic = self.client.get_traffic_stats()
        after = time.monotonic()
        counters = stats.parse_traffic(traffic)
        units = getattr(counters["client"], counter) // per_unit
        self.counter_readings.append(CounterReading(before, {0: units}, after))
        return units, counters

    def _make_profile(self, profile: dict[str, Any]) -> Any:
        """Make TRex's profile object with one template for all connections."""
        api = self.api
        request, response = (base64.b64decode(profile[n]) for n in ("request", "response"))
        client, server = api.ASTFProgram(), api.ASTFProgram()
        client.connect()
        client.delay(profile["hold_us"])
        client.send(request)
        client.recv(len(response))
        client.delay(profile["after_us"])
        if profile["closing"] == "rst":
            client.reset()
        server.accept()
        server.recv(len(request))
        server.send(response)
        server.wait_for_peer_close()
        addresses = api.ASTFIPGen(
            glob=api.ASTFIPGenGlobal(ip_offset="0.0.0.0"),  # noqa: S104  (not a socket's address)
            dist_client=api.ASTFIPGenDist(ip_range=profile["clients"], distribution="seq"),
            dist_server=api.ASTFIPGenDist(ip_range=profile["servers"], distribution="seq"),
        )
        template_settings = api.ASTFGlobalInfoPerTemplate()
        if profile["prefixes"]:
            ipv6 = template_settings.ipv6
            ipv6.enable = 1
            ipv6.src_msb, ipv6.dst_msb = profile["prefixes"]
        load = {"cps": profile["rate_cps"], "limit": profile["count"], "port": profile["port"]}
        clients = api.ASTFTCPClientTemplate(
            program=client, ip_gen=addresses, glob_info=template_settings, **load
        )
        association = api.ASTFAssociationRule(port=profile["port"])
        servers = api.ASTFTCPServerTemplate(program=server, assoc=association)
        return api.ASTFProfile(
            default_ip_gen=addresses,
            default_c_glob_info=self._make_settings(profile),
            default_s_glob_info=self._make_settings(profile),
            templates=[api.ASTFTemplate(client_template=clients, server_template=servers)],
        )

    def _make_settings(self, profile: dict[str, Any]) -> Any:
        settings = self.api.ASTFGlobalInfo()
        settings.tcp.no_delay = 1
        settings.tcp.mss = profile["segment_octets"]
        settings.tcp.keepinit = profile["given_up_s"]
        settings.tcp.keepidle = settings.tcp.keepintvl = _KEEPALIVE_S
        return settings


if __name__ == "__main__":
    main(AstfWorker())
