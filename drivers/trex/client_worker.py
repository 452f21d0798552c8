"""TRex's own client behind JSON lines: runs in the interpreter that can import it.

This file is *not* part of the importing process: :mod:`v6t.drivers.trex.channel` hands its text to
another Python (3.8 or newer) which may be on another machine and has nothing of v6t installed.
It therefore uses the standard library, ``trex_stl_lib`` and what is handed over with it only, and old
syntax. How it is talked to: :mod:`v6t.drivers.trex.service_worker`.
"""

import array
import base64
import contextlib
import html
import importlib
import os
import shutil
import socket
import sys
import tempfile
import time
import types
import warnings
from typing import Any, Dict, List

from v6t.drivers.neighbours import Hosts
from v6t.drivers.trex.answering import CAPTURED, LEFT_S, Answering
from v6t.drivers.trex.host_worker import (
    CLOCK,
    addresses_of,
    machine,
    place,
    read,
    server_on,
    server_words,
)
from v6t.drivers.trex.looking_worker import Looking
from v6t.drivers.trex.rings_worker import pushed_out, received
from v6t.drivers.trex.service_worker import Trouble, main, one_line, plain

CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
STREAM_S, LIST_S = 0.001, 0.03
"""Time TRex takes at most to make a stream, and a list of 32,768 rows, ready."""

CLIENT = os.path.join("automation", "trex_control_plane", "interactive")


def import_client(trex_dir, engine):
    """TRex's API of an engine, stl or astf, from the installation, and only from there."""
    path = os.path.join(trex_dir, CLIENT)
    if not os.path.isdir(os.path.join(path, "trex", engine)):
        raise Trouble("client", "%s holds no TRex Python client" % trex_dir)
    if sys.version_info >= (3, 13) and "cgi" not in sys.modules:
        shim = types.ModuleType("cgi")  # scapy 2.4.3 imports what Python 3.13 no longer has
        shim.escape = html.escape
        sys.modules["cgi"] = shim
    sys.path.insert(0, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api: Any = importlib.import_module("trex.%s.api" % engine)
    if not os.path.realpath(api.__file__).startswith(os.path.realpath(path)):
        raise Trouble("client", "another package named trex hides TRex's client: %s" % api.__file__)
    return api


class Worker(object):
    def __init__(self):
        self.api: Any = None
        self.client: Any = None
        self.streams: Dict[str, Any] = {}
        self.ports: List[int] = []
        self.address = ("", 0)
        self.service = self.several_queues = False
        self.directory = ""
        self.answering: Any = None
        self.hosts: Dict[int, Any] = {}

    # ---------------------------------------------------------------- requests

    def hello(self, trex_dir):
        """Import the client; facts about this interpreter."""
        self.api = self.import_api(trex_dir)
        import scapy
        import zmq

        return {
            "python": sys.version.split()[0],
            "executable": sys.executable,
            "pid": os.getpid(),
            "cpus": sorted(os.sched_getaffinity(0)),
            "clock": read(CLOCK),
            "scapy": scapy.__file__,
            "zmq": getattr(zmq, "__file__", ""),
        }

    def import_api(self, trex_dir):
        return import_client(trex_dir, "stl")

    def make_client(self, **how):
        return self.api.STLClient(**how)

    def machine(self, interfaces, port=None):
        """What of this host decides whether a server can be started: nothing of TRex is needed."""
        return machine(interfaces, port)

    def connect(self, server, rpc_port, pub_port, timeout_s):
        """Connect without touching any port."""
        self.client = self.make_client(
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
            raise Trouble("connect", one_line(exc))
        self.address = (server, rpc_port)
        return self.facts()

    def facts(self):
        """Versions, cores and ports of the server."""
        info = self.client.get_server_system_info()
        self.several_queues = bool(info.get("is_multiqueue_mode"))
        info["version"] = self.client.get_server_version()
        info["ports"] = sorted(info["ports"], key=lambda p: p["index"])
        info["port_info"] = [self.port_facts(p["index"]) for p in info["ports"]]
        return info

    def port_facts(self, port):
        facts = self.client.get_port_info([port])[0]
        facts["owner"] = self.client.ports[port].get_owner()
        return facts

    def acquire(self, ports, force):
        """Take ports; whose they were is part of the answer or of the error."""
        owners = {}
        for port in ports:
            self.client.ports[port].sync()
            owners[str(port)] = self.client.ports[port].get_owner()
        try:
            self.client.acquire(ports=ports, force=force)
        except self.api.TRexError as exc:
            taken = ", ".join("port %s: %s" % (p, o) for p, o in sorted(owners.items()) if o)
            raise Trouble("taken", "%s%s" % (one_line(exc), " (%s)" % taken if taken else ""))
        self.ports = list(ports)
        self.client.stop(ports=ports)
        self.client.remove_all_streams(ports=ports)
        self.client.remove_all_captures()
        return {"owners": owners}

    def server_flags(self):
        """Command line of the server if it runs on this host, else nothing."""
        here, there = addresses_of(self.address)
        process = server_on(self.address[1]) if here == there else None
        return None if process is None else server_words(process)

    def place(self, prefix, master, latency, sending):
        """Move the threads of the server with this prefix to CPUs; how many were moved."""
        return place(prefix, master, latency, sending)

    def catch_up(self, most_s):
        """Have the data path make up at once for what it is late, up to this."""
        self.client.set_global_cfg({"sched_max_stretch": most_s})
        return None

    def shutdown(self, force, wait_s):
        """End the server, and wait until it is gone; whose ports it had, by port.

        force: also where there are any.
        """
        for port in self.client.ports.values():
            port.sync()
        owners = {str(n): port.get_owner() for n, port in sorted(self.client.ports.items())}
        owners = {n: owner for n, owner in owners.items() if owner}
        if owners and not force:
            taken = ", ".join("port %s: %s" % one for one in owners.items())
            raise Trouble("taken", "the server would have to be ended, and is in use (%s)" % taken)
        process = server_on(self.address[1])
        client, self.client, self.ports = self.client, None, []
        client.server_shutdown(force=force)
        client.conn.disconnect()  # one that is only forgotten hangs when Python collects it
        until = time.monotonic() + wait_s
        while self._answers() or (process is not None and server_words(process)):
            if time.monotonic() > until:
                raise Trouble("server", "the TRex server did not end within %g s" % wait_s)
            time.sleep(0.1)
        return owners

    def _answers(self):
        with contextlib.suppress(OSError):
            socket.create_connection(self.address, timeout=2).close()
            return True
        return False

    def attributes(self, port, settings):
        """Set port attributes such as promiscuous mode."""
        self.client.set_port_attr(ports=[port], **settings)
        return None

    def play(self, hosts):
        """Answer for hosts from now on; ports that do.

        hosts: {port: arguments of Hosts}.
        """
        self.hosts = {int(p): Hosts(**one) for p, one in hosts.items()}
        here, there = addresses_of(self.address)
        known = {p: one for p, one in self.hosts.items() if one.answers}
        if here != there or not known:
            return []  # TRex could not reach a socket of this host
        import zmq

        self._need_service()
        self.answering = Answering(zmq, self.scratch(), known)
        for port in sorted(known):
            self._capture_port(port, "stop")  # of somebody who has gone without a word
            endpoint = self.answering.endpoint(port)
            done = self._capture_port(port, "start", endpoint=endpoint, bpf_filter=CAPTURED)
            if not done:
                raise Trouble("neighbours", one_line(done.err()))
        return sorted(known)

    def introduce(self, ports):
        """Have the hosts of these ports ask for the device; where none answers, TRex gets the frames."""
        through = set() if self.answering is None else self.answering.ports
        if self.answering is not None:
            self.answering.introduce([p for p in ports if p in through])
        for port in set(ports) - through:
            frames = self.hosts[port].introductions()
            if frames:
                from trex.common.trex_client import PacketBuffer

                own = [PacketBuffer(f, port_src=False, port_dst=False) for f in frames]
                self.client.push_packets(own, ports=[port], force=True)
                time.sleep(LEFT_S)
        return None

    def exchange(self, frames, receive, wait_s, quiet_s):
        """Push single frames, [[port, base64], ...]; what these ports receive afterwards, oldest first."""
        from trex.common.trex_client import PacketBuffer

        self._need_service()
        captures = {
            port: self.client.start_capture(rx_ports=[port], limit=1000, bpf_filter="not arp")["id"]
            for port in receive
        }
        for port, octets in frames:
            own = PacketBuffer(base64.b64decode(octets), port_src=False, port_dst=False)
            self.client.push_packets([own], ports=[port], force=True)
        end, known = time.monotonic() + wait_s, 0
        while time.monotonic() < end:
            time.sleep(0.01)
            status = self.client.get_capture_status()
            seen = sum(status[number]["count"] for number in captures.values())
            if seen != known:
                end, known = time.monotonic() + quiet_s, seen
        heard: List[Any] = []
        for port, number in captures.items():
            got: List[Any] = []
            count = self.client.get_capture_status()[number]["count"]
            if count:
                self.client.fetch_capture_packets(number, got, pkt_count=count)
            self.client.stop_capture(number)
            heard += [(f["ts"], port, base64.b64encode(f["binary"]).decode()) for f in got]
        return [[port, octets] for _, port, octets in sorted(heard)]

    def load(self, port, streams, first=0):
        """Keep streams from a place on; each trial sets their rate and number of frames."""
        self.streams[str(port)] = self.streams.get(str(port), [])[:first] + streams
        return len(streams)

    def trial(
        self,
        bursts,
        due_s,
        receive,
        residual_s,
        give_up_s,
        control,
        samples,
        recordings,
        marked=(),
    ):
        """One trial: install, start, watch, wait, read.

        bursts: {port: [{"index", "pps", "frames", "isg", "pg_id" or None, "times", "gap_us",
            "nonce" or None}]}
        due_s: by then the last frame should have left;
        receive: ports that receive test frames; samples: {port: [{"filter", "limit"}]};
        recordings: {port: {"filter", "limit", "path", "octets"}}, kept in files of the server;
        control: BPF filter of frames that are no test frames, or '';
        marked: [[class, BPF filter of its marked frames]].
        """
        client = self.client
        ports = sorted(int(p) for p in bursts)
        watched: Dict[str, List[Any]] = {"cpu": [], "rx_cpu": [], "events": [], "readings": []}
        sent = {p: sum(b["frames"] for b in bursts[str(p)]) for p in ports}
        looking = Looking(self, sent, self._preparing_s(bursts))
        for patience in (1, 2, 4, 8):
            self._add_streams(bursts)
            with self._still():
                client.clear_stats(ports=self.ports)
                answered = self._answered()
            drops_before = self._queue_drop()
            captures = self._start_captures(receive, samples, control, recordings, marked)
            clean(client)
            if looking.start(patience):
                break
            # one port was late, and others may have begun: what they sent is of no trial, and their
            # streams would go on with other numbers
            client.stop(ports=ports)
            time.sleep(residual_s)
            self._collect(captures)
            for recording in recordings.values():  # TRex writes over none
                with contextlib.suppress(FileNotFoundError):
                    self.forget(recording["path"])
        else:
            raise Trouble("start", looking.refused)
        ended = self._watch(looking, looking.idle + due_s, looking.began + give_up_s, watched)
        if not ended:
            client.stop(ports=ports)
        time.sleep(residual_s)
        with self._still():
            stats = client.get_stats(ports=self.ports)
            answered = {p: n - answered[p] for p, n in self._answered().items()}
        for port in self.ports:
            stats[port]["opackets"] -= answered[port]
        groups = client.get_pgid_stats()
        drops = self._queue_drop()
        collected = self._collect(captures)  # of the trial, not of what is pushed out after it
        came = received(stats, groups, collected, receive)
        stuck = pushed_out(client, ports, receive) if came < sum(sent.values()) else 0
        client.wait_on_traffic(ports=ports, timeout=10, rx_delay_ms=0)
        return {
            "ports": {str(p): stats[p] for p in self.ports},
            "global": stats["global"],
            "groups": plain(groups),
            "queue_drop": drops - drops_before,
            "stuck": stuck,
            "answered": {str(p): n for p, n in answered.items()},
            "looks": looking.seen,
            "ended": ended,
            "began_ago_s": time.monotonic() - looking.began,
            "captures": collected,
            "cpu": watched["cpu"],
            "rx_cpu": watched["rx_cpu"],
            "events": watched["events"],
            "readings": watched["readings"],
        }

    def scratch(self):
        """A new directory on the server's host, for recordings; it goes with this process."""
        self.directory = self.directory or tempfile.mkdtemp(prefix="v6t-")
        return self.directory

    def forget(self, path):
        """Remove a recording."""
        os.unlink(path)
        return None

    def stop(self):
        """Stop all traffic now."""
        if self.client is not None and self.ports:
            self.client.stop(ports=self.ports)
        return None

    def close(self):
        """Stop traffic, give ports back, disconnect."""
        client = self.client
        try:
            if client is not None:
                self._leave(client)
        finally:
            self.client = None
            shutil.rmtree(self.directory, ignore_errors=True)
        return None

    # ------------------------------------------------------------------ inside

    def _leave(self, client):
        try:
            if self.ports:
                client.stop(ports=self.ports)
                self._fall_silent()
                client.remove_all_captures()
                if self.service:
                    client.set_service_mode(ports=self.ports, enabled=False)
                client.remove_all_streams(ports=self.ports)
                client.release(ports=self.ports)
        finally:
            client.disconnect(stop_traffic=False, release_ports=False)

    def _fall_silent(self):
        """Answer for nobody any more."""
        if self.answering is not None:
            for port in self.ports:
                self._capture_port(port, "stop")
            self.answering.close()

    def _add_streams(self, bursts):
        """The streams of a trial, and no others."""
        self.client.remove_all_streams(ports=self.ports)
        for port in sorted(map(int, bursts)):
            for number, burst in enumerate(bursts[str(port)]):
                if burst["frames"]:  # one by one: lists are long, the server takes 4 MB
                    stream = self._stream(port, burst, number)
                    self.client.add_streams([stream], ports=[port])
                    self.client.ports[port].streams.clear()  # nobody needs the client's copies

    def _stream(self, port, burst, number):
        trex = dict(self.streams[str(port)][burst["index"]])
        trex["mode"] = {
            "type": "single_burst",
            "total_pkts": burst["frames"],
            "rate": {"type": "pps", "value": burst["pps"]},
        }
        trex["isg"] = burst["isg"]
        if burst["times"] > 1:
            trex["mode"] = {
                "type": "multi_burst",
                "pkts_per_burst": burst["frames"] // burst["times"],
                "count": burst["times"],
                "ibg": burst["gap_us"],
                "rate": trex["mode"]["rate"],
            }
        if burst.get("nonce") is not None:
            trex["packet"] = with_nonce(trex["packet"], burst["nonce"])
        trex["name"] = "%s %d" % (trex["name"], number)
        trex["enabled"] = True
        if "vm" in trex:
            trex["vm"] = unpacked(trex["vm"])
        if burst["pg_id"] is not None:
            trex["flow_stats"] = {
                "enabled": True,
                "stream_id": burst["pg_id"],
                "rule_type": "latency",
                "ieee_1588": False,
            }
        return self.api.STLStream.from_json(trex)

    def _capture_port(self, port, what, **how):
        """Past the client's own methods: these want service mode, which virtual ports do not need."""
        known = self.client.ports[port]
        parameters = dict(how, port_id=port, handler=known.handler)
        return known.transmit("%s_capture_port" % what, parameters)

    def _still(self):
        """No answer is sent meanwhile."""
        return contextlib.nullcontext() if self.answering is None else self.answering.still()

    def _answered(self):
        """Frames of each port that are answers or introductions, of all time."""
        sent = {} if self.answering is None else self.answering.sent
        return {port: sent.get(port, 0) for port in self.ports}

    def _preparing_s(self, bursts):
        """Time TRex may need to make streams ready before it can start them."""
        total = 0.0
        for port in bursts:
            for burst in bursts[port]:
                vm = self.streams[port][burst["index"]].get("vm", {})
                lists = [i for i in vm.get("instructions", []) if i.get("packed")]
                total += LIST_S * len(lists) + STREAM_S
        return total

    def look(self, ports):
        """The server's clock, frames each port has sent since it began, the clock again."""
        rpc = self.client.conn.rpc
        batch = rpc.create_batch()
        batch.add("ping", {}, rpc.api_h)
        for port in ports:
            batch.add("get_port_stats", {"port_id": port}, rpc.api_h)
        batch.add("ping", {}, rpc.api_h)
        answers = batch.invoke(chunk_size=None)
        if not answers:
            raise Trouble("server", "TRex did not tell its counters: %s" % answers.err())
        replies = answers.data()
        answered = self._answered()
        sent = {p: a["opackets"] - answered[p] for p, a in zip(ports, replies[1:-1])}
        return replies[0]["ts"], sent, replies[-1]["ts"]

    def _watch(self, looking, due, latest, watched):
        """Whether traffic ended by itself by the latest time; looks at the last frames leave."""
        client, next_check, ports = self.client, looking.began + 0.2, looking.ports
        while True:
            if not client.is_connected():
                raise Trouble("server", "the TRex server is gone")
            for port in ports:
                if not client.ports[port].is_acquired():
                    raise Trouble("stolen", "port %d was taken by another user" % port)
            if not any(client.ports[p].is_active() for p in ports):
                if not looking.complete:
                    looking.look()
                return True
            now = time.monotonic()
            if now > latest:
                return False
            if now >= due and not looking.complete:
                looking.look()
                # the later it gets, the less a finer look would prove
                time.sleep(min(0.1, (now - due) / 100))
                continue
            if now >= next_check and (now < due - 0.1 or looking.complete or now > due + 0.5):
                next_check = now + 0.5
                self._knock()  # the client itself takes a dozen seconds to notice
                all_stats = client.get_stats(ports=self.ports)
                stats = all_stats["global"]
                watched["cpu"].append(stats.get("cpu_util_raw", stats.get("cpu_util", 0.0)))
                watched["rx_cpu"].append(stats.get("rx_cpu_util", 0.0))
                counts = {
                    p: [all_stats[p]["opackets"], all_stats[p]["ipackets"]] for p in self.ports
                }
                watched["readings"].append([now - looking.began, counts])
                for port in ports:
                    if self._is_down(port):
                        watched["events"].append("link of port %d went down" % port)
            time.sleep(max(0.0, min(0.005, due - now)) if not looking.complete else 0.005)

    def _knock(self):
        try:
            socket.create_connection(self.address, timeout=2).close()
        except OSError as exc:
            raise Trouble("server", "the TRex server is gone: %s" % exc)

    def _is_down(self, port):
        attributes = self.client.ports[port].get_ts_attr()
        link = attributes.get("link", {}) if isinstance(attributes, dict) else {}
        return isinstance(link, dict) and link.get("up") is False

    def _queue_drop(self):
        try:
            return int(self.client.global_stats.get("m_total_queue_drop") or 0)
        except Exception:
            return 0

    def _need_service(self):
        """Recording on hardware queues needs TRex's service mode; virtual ports do not.

        With several data path cores in software mode these receive, and drop what is no ARP or ICMP.
        """
        virtual = all(self.client.ports[p].is_virtual() for p in self.ports)
        if self.service or (virtual and not self.several_queues):
            return
        self.client.set_service_mode(ports=self.ports, enabled=True)
        self.service = True

    def _start_captures(self, receive, samples, control, recordings, marked):
        captures: List[Any] = []
        if not samples and not control and not recordings and not marked:
            return captures
        self._need_service()
        for port in receive:
            for wanted in samples.get(str(port), []):
                got = self.client.start_capture(
                    rx_ports=[port], limit=wanted["limit"], bpf_filter=wanted["filter"]
                )
                captures.append(("sample", port, got["id"], 0))
            for number, pattern in marked:
                got = self.client.start_capture(
                    rx_ports=[port], limit=1, bpf_filter=pattern, snaplen=64
                )
                captures.append(("marked", port, got["id"], number))
            if control:
                got = self.client.start_capture(
                    rx_ports=[port], limit=1000, bpf_filter=control, snaplen=128
                )
                captures.append(("control", port, got["id"], 0))
            recording = recordings.get(str(port))
            if recording:
                free = shutil.disk_usage(os.path.dirname(recording["path"])).free
                if free < recording["octets"]:
                    raise Trouble(
                        "space",
                        "the recording needs %d MB in %s, where %d MB are free"
                        % (
                            recording["octets"] >> 20,
                            os.path.dirname(recording["path"]),
                            free >> 20,
                        ),
                    )
                got = self.client.start_capture(
                    rx_ports=[port],
                    limit=recording["limit"],
                    bpf_filter=recording["filter"],
                    endpoint="file:///" + recording["path"],
                )
                captures.append(("recording", port, got["id"], 0))
        return captures

    def _collect(self, captures):
        status = self.client.get_capture_status()
        collected = []
        for kind, port, number, of_class in captures:
            entry = {"kind": kind, "port": port, "matched": status[number]["matched"], "frames": []}
            entry["class"] = of_class
            frames: List[Any] = []
            if kind in ("sample", "control"):
                self.client.fetch_capture_packets(number, frames, pkt_count=status[number]["count"])
            # with something to call, the client waits until the file is written
            written = (lambda endpoint: None) if kind == "recording" else None
            self.client.stop_capture(number, endpoint_cb=written)
            entry["frames"] = [[f["ts"], base64.b64encode(f["binary"]).decode()] for f in frames]
            collected.append(entry)
        return collected


def with_nonce(packet, nonce):
    """A packet whose trailer, its last 16 octets, carries the trial's octet."""
    octets = bytearray(base64.b64decode(packet["binary"]))
    octets[-15] = nonce
    return dict(packet, binary=base64.b64encode(octets).decode())


def unpacked(vm):
    """A program whose packed lists are lists of numbers."""
    return dict(vm, instructions=[unpacked_list(i) for i in vm["instructions"]])


def unpacked_list(instruction):
    """An instruction whose packed list is a list of numbers."""
    if instruction.get("packed") is None:
        return instruction
    values = array.array(CODES[instruction["size"]], base64.b64decode(instruction["packed"]))
    if sys.byteorder == "little":
        values.byteswap()
    listed = dict(instruction, value_list=values.tolist())
    del listed["packed"]
    return listed


def clean(client):
    """Forget events of earlier trials."""
    try:
        client.clear_events()
    except Exception:
        pass


if __name__ == "__main__":
    main(Worker())
