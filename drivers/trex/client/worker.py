"""What the workers of both engines of TRex have in common: client, server, ports, and neighbors."""

from __future__ import annotations

import abc
import os
import shutil
import sys
import tempfile
import time
from typing import Any

from v6t.drivers.neighbours import Hosts
from v6t.drivers.trex.client import host, rpc
from v6t.drivers.trex.client.answering import DEPARTURE_S, NEIGHBOUR_FILTER, NeighborResponder
from v6t.drivers.trex.client.service import Trouble, make_one_line
from v6t.drivers.trex.client.stats import ServerFacts, parse_server


class Worker(abc.ABC):
    """The requests of any worker, as methods; their arguments and answers are JSON values.

    Attributes:
        engine, client_class: TRex's names of the engine and of its client.
        in_service: ports are in the service mode.
    """

    engine = client_class = ""
    machine = staticmethod(host.examine_host)
    place = staticmethod(host.place_threads)

    def __init__(self) -> None:
        self.api: Any = None
        self.client: Any = None
        self.facts = ServerFacts()
        self.ports: list[int] = []
        self.address = ("", 0)
        self.in_service = False
        self.directory = ""
        self.answering: NeighborResponder | None = None
        self.hosts: dict[int, Hosts] = {}

    def hello(self, trex_dir: str) -> dict[str, Any]:
        """Import the client; return facts about this interpreter."""
        self.api = rpc.import_client(trex_dir, self.engine)
        import scapy

        return {
            "python": sys.version.split()[0],
            "executable": sys.executable,
            "scapy": scapy.__file__,
            "cpus": sorted(os.sched_getaffinity(0)),
            "clock": host.read(host.CLOCK),
        }

    def connect(self, server: str, rpc_port: int, pub_port: int, timeout_s: float) -> ServerFacts:
        """Connect without touching any port; return facts about the server."""
        make_client = getattr(self.api, self.client_class)
        self.client = make_client(
            server=server,
            sync_port=rpc_port,
            async_port=pub_port,
            verbose_level="error",
            sync_timeout=int(timeout_s),
            async_timeout=int(timeout_s),
        )
        try:
            self.client.connect()
        except Exception as exc:
            self.client = None
            raise Trouble("connect", make_one_line(exc)) from exc
        self.address = (server, rpc_port)
        self.facts = self._read_facts()
        return self.facts

    def _read_facts(self) -> ServerFacts:
        client, ports = self.client, self.client.get_all_ports()
        return parse_server(
            client.get_server_system_info(),
            client.get_server_version(),
            dict(zip(ports, client.get_port_info(ports))),
            {port: rpc.read_owner(client, port) for port in ports},
        )

    @abc.abstractmethod
    def acquire(self, ports: list[int], force: bool) -> dict[str, str]:
        """Acquire ports; return the owners they were taken from, by port."""

    @abc.abstractmethod
    def release(self, client: Any) -> None:
        """Stop traffic, release the ports and disconnect."""

    def server_flags(self) -> list[str] | None:
        """Return the command line of the server if it runs on this host, else nothing."""
        process = host.find_server(self.address[1]) if host.is_local(self.address) else None
        return None if process is None else host.read_server_arguments(process)

    def play(self, hosts: dict[str, dict[str, Any]]) -> list[int]:
        """Answer for hosts, given as arguments of :class:`Hosts` by port; return the answering ports."""
        self.hosts = {int(p): Hosts(**arguments) for p, arguments in hosts.items()}
        known = {p: one for p, one in self.hosts.items() if one.answers}
        if not known or not host.is_local(self.address):
            return []  # TRex could not reach a socket of this host
        import zmq

        self.enter_service_mode()
        self.answering = NeighborResponder(zmq, self.scratch(), known)
        for port in sorted(known):
            rpc.stop_port_capture(self.client, port)  # of a client that died
            endpoint = self.answering.endpoint(port)
            rpc.start_port_capture(self.client, port, endpoint, NEIGHBOUR_FILTER)
        return sorted(known)

    def introduce(self, ports: list[int]) -> None:
        """Send neighbor requests for the device from the hosts of these ports."""
        for port in ports:
            if frames := self.hosts[port].introductions():
                rpc.push_frames(self.client, [port], frames)
        time.sleep(DEPARTURE_S)

    def stop_answering(self) -> None:
        if self.answering is not None:
            for port in self.ports:
                rpc.stop_port_capture(self.client, port)
            self.answering.close()

    def enter_service_mode(self) -> None:
        """Enter the service mode where captures need it: on hardware queues.

        With several data path cores in software mode these receive, and drop all but ARP and ICMP.
        """
        virtual = all(p.is_virtual for p in self.facts.ports if p.index in self.ports)
        if self.in_service or (virtual and not self.facts.has_several_queues):
            return
        self.client.set_service_mode(ports=self.ports, enabled=True)
        self.in_service = True

    def scratch(self) -> str:
        """Return a directory on the server's host, for recordings; it goes with this process."""
        self.directory = self.directory or tempfile.mkdtemp(prefix="v6t-")
        return self.directory

    def close(self) -> None:
        client = self.client
        try:
            if client is not None:
                self.release(client)
        finally:
            self.client = None
            shutil.rmtree(self.directory, ignore_errors=True)
