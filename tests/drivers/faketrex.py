"""Fake installation of TRex, whose client is controlled by environment variables."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from v6t.drivers.trex.channel import parse_answer
from v6t.drivers.trex.client import stats
from v6t.drivers.trex.streams import FIRST_SEQUENCE
from v6t.packets import trailer

API = """
import base64, json, os, re, time

class TRexError(Exception):
    pass

class STLStream(object):
    def __init__(self, data): self.data = data
    @staticmethod
    def from_json(data): return STLStream(data)

def frames(mode):
    return mode.get("total_pkts") or mode["pkts_per_burst"] * mode["count"]

class _Refused(object):
    def __bool__(self): return False
    def err(self): return "start time is in the past"

class _Port(object):
    owner, acquired = "", False
    late = before = 0  # late starts; frames sent before a stop
    stale = False  # stopped streams continue with other numbers
    active_until = began = 0.0
    streams, added = {}, ()  # the client's copies, and the server's streams
    def sync(self): pass
    def get_owner(self): return self.owner
    def is_active(self): return time.monotonic() < self.active_until
    def get_ts_attr(self): return {"link": {"up": os.environ.get("FAKE_LINK") != "down"}}
    def start(self, mul, duration, force, mask, start_at_ts):
        if os.environ.get("FAKE_DIE"): os._exit(3)
        if self.late or self.stale:
            self.late -= 1
            return _Refused()
        self.began = start_at_ts
        self.active_until = start_at_ts + self.took() + 0.02
        if os.environ.get("FAKE_STOLEN"): self.acquired = False
        return True
    def took(self):
        # sending takes FAKE_SLOW times the requested duration
        modes = [s.data["mode"] for s in self.added]
        due = max([frames(m) / m["rate"]["value"] for m in modes] or [0])
        return due * float(os.environ.get("FAKE_SLOW", 1))
    def sent(self):
        total = sum(frames(s.data["mode"]) for s in self.added)
        since = time.monotonic() - self.began
        share = min(1.0, since / (self.took() or 1)) if self.began and since > 0 else 0
        return int(total * share)

class _Stats(object):
    drops = os.environ.get("FAKE_DROPS", "").split()  # expressions, one for each reading
    def get_rel(self, name): return eval(self.drops.pop(0)) if self.drops else 0

class _Answers(list):
    def data(self): return list(self)

class _Batch(object):
    def __init__(self, client):
        self.client, self.requests = client, []
    def add(self, method, params, api_h): self.requests.append(params.get("port_id"))
    def invoke(self, chunk_size):
        return _Answers({"ts": time.monotonic()} if port is None else
                        {"opackets": self.client.ports[port].sent()} for port in self.requests)

class _Rpc(object):
    api_h = "x"
    def __init__(self, client): self.rpc, self.client = self, client
    def create_batch(self): return _Batch(self.client)
    def disconnect(self): open(os.path.join(os.environ["FAKE_STATE"], "disconnected"), "w").close()

SERVER = os.environ.get("FAKE_SERVER", "up")

def has_state(name):
    # files in FAKE_STATE are the server's state: "ended", "started"
    return os.path.exists(os.path.join(os.environ.get("FAKE_STATE", "/nothing"), name))

MULTIQUEUE = bool(os.environ.get("FAKE_MULTIQUEUE"))
PORTS = range(int(os.environ.get("FAKE_PORTS", 2)))  # 0 and 1 are joined, 2 and 3 ...

def nothing(self, *args, **kwargs): pass

class STLClient(object):
    clear_events = clear_pgid_stats = release = set_global_cfg = nothing
    wait_on_traffic = fetch_capture_packets = nothing
    def __init__(self, **kwargs):
        self.ports, self.captures, self.service = {p: _Port() for p in PORTS}, {}, False
        self.control = self.cleared = 0  # control frames that port 1 received so far
        self.control_after = os.environ.get("FAKE_CONTROL_AFTER")  # the first such call one arrives
        # captures of other clients are on the ports FAKE_CAPTURES
        for port in os.environ.get("FAKE_CAPTURES", "").split(): self.start_capture([int(port)], "")
        self.global_stats = _Stats()
        self.conn = _Rpc(self)
        self.ports[1].owner = os.environ.get("FAKE_OWNER", "")
        self.ports[1].late = int(os.environ.get("FAKE_LATE", 0))
    def connect(self):
        print("noise on stdout")
        if SERVER != "up" or (has_state("ended") and not has_state("started")): raise TRexError("*** [RPC] - Failed to get server response from tcp://x")
    def is_connected(self): return True
    def get_all_ports(self): return list(self.ports)
    def get_acquired_ports(self): return [p for p, one in self.ports.items() if one.acquired]
    def is_traffic_active(self, ports): return {p for p in ports if self.ports[p].is_active()}
    def get_server_system_info(self):
        return {"dp_core_count": 2 if MULTIQUEUE and not has_state("started") else 1, "core_type": "fake",
                "is_multiqueue_mode": MULTIQUEUE, "ports": [
            {"index": i, "driver": "net_af_packet", "is_virtual": True} for i in reversed(PORTS)]}
    def get_server_version(self):
        return {"version": "v3.08", "mode": os.environ.get("FAKE_MODE", "STL")}
    def get_port_info(self, ports): return [{"index": p, "driver": "net_af_packet"} for p in ports]
    def acquire(self, ports, force=False):
        for p in ports:
            if self.ports[p].owner and not force:
                raise TRexError("*** port is already taken by '%s'" % self.ports[p].owner)
            self.ports[p].acquired = True
    def stop(self, ports):
        for p in ports:
            if self.ports[p].began:
                self.ports[p].before += 7
                self.ports[p].stale = True
            self.ports[p].began = self.ports[p].active_until = 0.0
    def remove_all_streams(self, ports):
        for p in ports:
            self.ports[p].added, self.ports[p].began, self.ports[p].stale = [], 0.0, False
    def add_streams(self, streams, ports):
        for p in ports: self.ports[p].added += streams
    def clear_stats(self, ports):
        for p in ports: self.ports[p].before = 0
        self.cleared = self.control
        self._receive_control("clear_stats")
    def _receive_control(self, call):
        if self.control_after == call: self.control, self.control_after = self.control + 1, None
    def _sent(self, p):
        return self.ports[p].before + sum(frames(s.data["mode"]) for s in self.ports[p].added)
    def get_stats(self, ports):
        stats = {p: {"opackets": self._sent(p), "ipackets": self._sent(p ^ 1),
                     "oerrors": 0, "ierrors": 0} for p in PORTS}
        stats[1]["ipackets"] += self.control - self.cleared
        self._receive_control("get_stats")
        stats["global"] = {"queue_full": 0, "cpu_util_raw": 12.0, "rx_cpu_util": 1.0}
        return stats
    def get_pgid_stats(self):
        flows = {}
        for p in PORTS:
            for s in self.ports[p].added:
                group, n = s.data.get("flow_stats", {}).get("stream_id"), frames(s.data["mode"])
                if group is not None: flows[group] = {"tx_pkts": {p: n}, "rx_pkts": {p ^ 1: n}}
        return {"flow_stats": flows, "latency": {}}
    def start_capture(self, rx_ports, bpf_filter, **kwargs):
        if MULTIQUEUE and not self.service: raise TRexError("no service mode")
        if len(self.captures) >= 10: raise TRexError("capture limit has reached")
        number = max(self.captures, default=0) + 1
        self.captures[number] = (rx_ports, bpf_filter, self.control)
        return {"id": number, "ts": 0}
    def stop_capture(self, number, endpoint_cb=None):
        del self.captures[number]
    def disconnect(self, **kwargs):
        if "FAKE_CAPTURES" in os.environ:
            with open(os.path.join(os.environ["FAKE_STATE"], "captures"), "w") as file:
                file.write(" ".join(str(*ports) for ports, _, _ in self.captures.values()))
    def get_capture_status(self):
        if os.environ.get("FAKE_REMOVED") and self.ports[0].began: self.captures.clear()
        # control frames never pause until a start was refused
        if os.environ.get("FAKE_RESTLESS") and self.ports[1].late > 0: self.control += 1
        return {n: {"matched": self._matching(*one), "count": 0, "filter": {"tx": 0, "rx": sum(1 << port for port in one[0])}}
                for n, one in self.captures.items()}
    def _matching(self, ports, pattern, control):
        if " arp " in pattern: return self.control - control if 1 in ports else 0
        # count frames whose mark matches the filter of a class
        wanted = re.match(r".* - 15. = ([0-9]+) and .* & 240 = ([0-9]+)$", pattern)
        ends = [(base64.b64decode(s.data["packet"]["binary"])[-16:], frames(s.data["mode"]))
                for port in ports for s in self.ports[port ^ 1].added]
        return sum(n for end, n in ends
                   if wanted and end[0] == 0xAB and end[1] == int(wanted.group(1))
                   and end[3] & 240 == int(wanted.group(2)))
    def set_service_mode(self, ports, enabled): self.service = enabled
    def server_shutdown(self, force):
        open(os.path.join(os.environ["FAKE_STATE"], "ended"), "w").close()
"""


def parse_trial(raw: dict[str, Any]) -> stats.TrialStats:
    """Parse a trial's answers like TRex's worker; missing counters are 0."""
    zeros = dict.fromkeys(("opackets", "ipackets", "oerrors", "ierrors"), 0)
    ports = {int(port): {**zeros, **counted} for port, counted in raw.get("ports", {}).items()}
    total = {"queue_full": 0, "cpu_util_raw": 0.0, "rx_cpu_util": 0.0, **raw.get("global", {})}
    counted = stats.parse_stats({**ports, "global": total}, ports)
    parsed: dict[str, Any] = {"ports": counted.ports, "queue_full_count": counted.queue_full_count}
    parsed["groups"] = stats.parse_groups(raw.get("groups", {}))
    parsed["captures"] = [_make_capture(**c) for c in raw.get("captures", [])]
    return parse_answer(stats.TrialStats, {**raw, **parsed})


def _make_capture(kind, port, matched, frames=(), **more):
    """Make a capture of one port from a recorded one."""
    frames = [[*frame, port] for frame in frames]
    return stats.Capture(kind, [port], matched, more.get("class", 0), frames)


def stamp_frames(frames, stream_id, ticks, numbers=None, checksum=None):
    """Write TRex's stamps over the last 16 octets of frames, which are numbered from 0 by default."""
    numbers = np.arange(len(frames)) if numbers is None else np.asarray(numbers)
    frames[:, -trailer.LENGTH :] = 0
    seq = (numbers + FIRST_SEQUENCE) % (1 << 32)
    trailer.stamp(frames, checksum, seq=seq, stream_id=stream_id, nonce=0, time_ns=ticks)


def read_steady_ports(times_s, sending_s, frames, reading_s=5e-5):
    """Return counter readings at these times of ports that send at a constant rate.

    Args:
        sending_s: begin and end of the sending of each port [s].
        frames: number of frames of each port.
        reading_s: duration of a reading [s].
    """

    def count_sent(port, at):
        begin_s, end_s = sending_s[port]
        share = (at - begin_s) / (end_s - begin_s)
        return max(0, min(frames[port], int(frames[port] * share) + (at > begin_s)))

    sent = [{port: count_sent(port, at) for port in frames} for at in times_s]
    return [
        stats.CounterReading(at, n, at + reading_s) for at, n in zip(times_s, sent, strict=True)
    ]


def make_installation(path: Path, server: str = "exec sleep 60") -> Path:
    """Make an installation in ``path`` whose server is a shell script."""
    client = path / "automation/trex_control_plane/interactive/trex"
    (client / "stl").mkdir(parents=True)
    (client / "__init__.py").write_text("")
    (client / "stl/__init__.py").write_text("")
    (client / "stl/api.py").write_text(API)
    for name in ("scapy", "zmq"):
        (client.parent / f"{name}.py").write_text("")
    for name in ("t-rex-64", "_t-rex-64"):
        write_script(path / name, server)
    return path


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def read_stat(pid: int) -> list[str]:
    """Return state, parent and other fields of a process; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def has_ended(pid: int) -> bool:
    """Check whether a process has ended or is a zombie."""
    return read_stat(pid)[:1] in ([], ["Z"])


def list_descendants(pid: int) -> list[int]:
    processes = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    children = [child for child in processes if read_stat(child)[1:2] == [str(pid)]]
    return [p for child in children for p in (child, *list_descendants(child))]
