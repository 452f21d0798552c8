"""Base class of workers with TRex's client: server, ports, and answers for the tester's hosts.

TRex hands neighbor requests that pass a filter to a socket of ZeroMQ and sends what comes back from it,
also while traffic runs.
"""

from __future__ import annotations

import abc
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Iterator

from v6t.drivers.neighbours import REQUEST_FILTER, Hosts
from v6t.drivers.trex.client import host, rpc
from v6t.drivers.trex.client.service import RequestError, make_one_line
from v6t.drivers.trex.client.stats import ServerFacts, parse_server

NEIGHBOR_REQUEST_FILTER = f"{REQUEST_FILTER} or (vlan and {REQUEST_FILTER})"
_CONNECT_S = 3  # Longest wait for an answer of the server
_POLL_MS = 50  # Longest time until a thread notices that it is closed
DONTWAIT = 1  # Flag of ZeroMQ that TRex's copy of pyzmq does not name
DEPARTURE_S = 0.1  # Longest time until a frame given to TRex is in its counters


class NeighborResponder:
    """Answers neighbor requests for the tester's hosts, with one thread for each port.

    Args:
        zmq: module of ZeroMQ; None without hosts.
        directory: directory of the sockets, to which TRex connects; see :meth:`make_endpoint`.
        hosts: hosts on each port.
    """

    def __init__(self, zmq: Any, directory: str, hosts: dict[int, Hosts]) -> None:
        self._hosts = hosts
        self._zmq = zmq
        self._directory = directory
        self._context = zmq and zmq.Context()
        self.sent = dict.fromkeys(hosts, 0)  # number of answers sent, by port
        self._last_sent_s = -math.inf
        self._lock = threading.Lock()
        self._is_open = True
        self._failure: Exception | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(port,), daemon=True) for port in hosts
        ]
        for thread in self._threads:
            thread.start()

    def make_endpoint(self, port: int) -> str:
        """Return the ZeroMQ address of a port's socket."""
        return "ipc://" + os.path.join(self._directory, f"port{port}")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Wait until all answers have left and send no others, so that counters can be read."""
        while True:
            with self._lock:
                if self._failure is not None:
                    raise self._failure
                if (rest := self._last_sent_s + DEPARTURE_S - time.monotonic()) <= 0:
                    yield
                    return
            time.sleep(rest)

    def close(self) -> None:
        """End the threads and their sockets; call it after TRex has closed its connections."""
        self._is_open = False
        for thread in self._threads:
            thread.join()

    def _run(self, port: int) -> None:
        try:
            pair = self._context.socket(self._zmq.PAIR)
            pair.setsockopt(self._zmq.RCVTIMEO, _POLL_MS)
            pair.bind(self.make_endpoint(port))
            while self._is_open:
                with suppress(self._zmq.Again):
                    frame = pair.recv()
                    with self._lock:
                        self._answer(port, pair, frame)
            pair.close()
        except Exception as exc:  # raised again where counters are read next
            self._failure = exc

    def _answer(self, port: int, pair: Any, frame: bytes) -> None:
        """Answer a neighbor request for a host and count the answer; ignore other frames."""
        if (answer := self._hosts[port].answer(frame)) is None:
            return
        # counted first: counters read meanwhile have too few test frames, never too many
        self.sent[port] += 1
        self._last_sent_s = time.monotonic()
        try:
            pair.send(answer, DONTWAIT)
        except self._zmq.Again:  # TRex accepts no frame now: the device will repeat its request
            self.sent[port] -= 1


class EngineWorker(abc.ABC):
    """Base class of workers whose methods are the requests of v6t; arguments and answers are JSON values.

    Attributes:
        engine, client_class: TRex's names of the engine and of its client class.
        in_service: whether the ports are in service mode.
    """

    engine = client_class = ""
    examine_host = staticmethod(host.examine_host)
    place_threads = staticmethod(host.place_threads)

    def __init__(self) -> None:
        self.api: Any = None
        self.client: Any = None
        self.facts = ServerFacts()
        self.ports: list[int] = []
        self.address = ("", 0)
        self.in_service = False
        self.directory = ""
        self.responder = NeighborResponder(None, "", {})
        self.hosts: dict[int, Hosts] = {}

    def import_client(self, trex_dir: str) -> dict[str, Any]:
        """Import TRex's client; return facts about this interpreter and this host."""
        self.api = rpc.import_client(trex_dir, self.engine)
        return {
            "python": sys.version.split()[0],
            "executable": sys.executable,
            "cpus": sorted(os.sched_getaffinity(0)),
            "clock": host.read_file(host.CLOCK_SOURCE),
        }

    def connect(self, server: str, rpc_port: int, pub_port: int) -> ServerFacts:
        """Connect to a server without acquiring ports; return facts about the server."""
        make_client = getattr(self.api, self.client_class)
        address = {"server": server, "sync_port": rpc_port, "async_port": pub_port}
        timeouts = {"sync_timeout": _CONNECT_S, "async_timeout": _CONNECT_S}
        self.client = make_client(verbose_level="error", **address, **timeouts)
        try:
            self.client.connect()
        except Exception as exc:
            self.client = None
            raise RequestError("connect", make_one_line(exc)) from exc
        self.address = (server, rpc_port)
        client, ports = self.client, self.client.get_all_ports()
        info, version = client.get_server_system_info(), client.get_server_version()
        port_info = dict(zip(ports, client.get_port_info(ports)))
        owners = {port: rpc.read_owner(client, port) for port in ports}
        self.facts = parse_server(info, version, port_info, owners)
        return self.facts

    @abc.abstractmethod
    def acquire(self, ports: list[int], force: bool) -> dict[str, str]:
        """Acquire ports; return the former owners of those that were taken, by port."""

    @abc.abstractmethod
    def release(self, client: Any) -> None:
        """Stop traffic and release the ports."""

    def read_server_flags(self) -> list[str] | None:
        """Return the server's command line if it runs on this host, else None."""
        process = host.find_server(self.address[1]) if host.is_local(self.address) else None
        return None if process is None else host.read_server_arguments(process)

    def start_answering(self, hosts: dict[str, dict[str, Any]]) -> list[int]:
        """Begin to answer requests for hosts, arguments of :class:`Hosts` by port; return the ports."""
        self.hosts = {int(p): Hosts(**arguments) for p, arguments in hosts.items()}
        known = {p: one for p, one in self.hosts.items() if one.answers}
        if not known or not host.is_local(self.address):
            return []  # TRex could not reach a socket of this host
        import zmq

        self.enter_service_mode()
        self.responder = NeighborResponder(zmq, self.make_directory(), known)
        for port in sorted(known):
            rpc.stop_port_capture(self.client, port)  # of a client that died
            endpoint = self.responder.make_endpoint(port)
            rpc.start_port_capture(self.client, port, endpoint, NEIGHBOR_REQUEST_FILTER)
        return sorted(known)

    def introduce_hosts(self, ports: list[int]) -> None:
        """Send neighbor requests for the device from the hosts of these ports."""
        for port in ports:
            if frames := self.hosts[port].make_introductions():
                rpc.push_frames(self.client, [port], frames)
        time.sleep(DEPARTURE_S)

    def stop_answering(self) -> None:
        """End the answers that :meth:`start_answering` began."""
        for port in self.responder.sent:
            rpc.stop_port_capture(self.client, port)
        self.responder.close()

    def enter_service_mode(self) -> None:
        """Enter the service mode where captures need it: on hardware queues.

        With several data path cores in software mode these receive, and drop all but ARP and ICMP.
        """
        virtual = all(p.is_virtual for p in self.facts.ports if p.index in self.ports)
        if self.in_service or (virtual and not self.facts.has_several_queues):
            return
        self.client.set_service_mode(ports=self.ports, enabled=True)
        self.in_service = True

    def make_directory(self) -> str:
        """Return a directory for recordings and sockets, which is removed at the end."""
        self.directory = self.directory or tempfile.mkdtemp(prefix="v6t-")
        return self.directory

    def close(self) -> None:
        """Release the ports, disconnect and remove the directory."""
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            if (client := self.client) is not None:
                stack.callback(setattr, self, "client", None)
                stack.callback(client.disconnect, stop_traffic=False, release_ports=False)
                self.release(client)
