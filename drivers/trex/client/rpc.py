"""Access to internals of TRex's Python client, known from v3.08: no other module uses them.

They give what the client's documented methods do not: a start of several ports at one moment of the
server's clock, counters between two readings of that clock, captures on virtual ports without service
mode, and the moment at which the stateful engine sends.
"""

from __future__ import annotations

import html
import importlib
import os
import sys
import types
import warnings
from typing import Any

from v6t.drivers.trex.client.service import RequestError, make_one_line
from v6t.drivers.trex.client.stats import CounterReading, parse_counter_reading

_CLIENT_DIRECTORY = os.path.join("automation", "trex_control_plane", "interactive")


def import_client(trex_dir: str, engine: str) -> Any:
    """Import TRex's API of an engine, stl or astf, from the installation, and only from there."""
    path = os.path.join(trex_dir, _CLIENT_DIRECTORY)
    if not os.path.isdir(os.path.join(path, "trex", engine)):
        raise RequestError("client", f"{trex_dir} holds no TRex Python client")
    if sys.version_info >= (3, 13) and "cgi" not in sys.modules:
        shim: Any = types.ModuleType("cgi")  # scapy 2.4.3 imports what Python 3.13 no longer has
        shim.escape = html.escape
        sys.modules["cgi"] = shim
    sys.path.insert(0, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api: Any = importlib.import_module(f"trex.{engine}.api")
    if not os.path.realpath(api.__file__).startswith(os.path.realpath(path)):
        text = f"another package named trex hides TRex's client: {api.__file__}"
        raise RequestError("client", text)
    return api


def read_owner(client: Any, port: int) -> str:
    """Ask the server for the owner of a port; empty if it is free."""
    client.ports[port].sync()
    return str(client.ports[port].get_owner() or "")


def is_link_down(client: Any, port: int) -> bool:
    """Return whether a port has lost its link, as the server last announced it.

    ``get_port_attr`` would ask the server, in the middle of a trial.
    """
    attributes = client.ports[port].get_ts_attr()
    link = attributes.get("link", {}) if isinstance(attributes, dict) else {}
    return isinstance(link, dict) and link.get("up") is False


def forget_streams(client: Any, port: int) -> None:
    """Drop the client's copies of a port's streams, whose lists are long."""
    client.ports[port].streams.clear()


def count_queue_drops(client: Any) -> int | None:
    """Return the frames dropped before transmit queues at the last ``get_stats``; None if unknown."""
    drops = client.global_stats.get_rel("m_total_queue_drop")
    return None if drops == "N/A" else int(drops)


def read_counters(client: Any, ports: list[int]) -> CounterReading:
    """Read the server's clock, the frames each port has sent, and the clock again."""
    rpc = client.conn.rpc
    batch = rpc.create_batch()
    batch.add("ping", {}, rpc.api_h)
    for port in ports:
        batch.add("get_port_stats", {"port_id": port}, rpc.api_h)
    batch.add("ping", {}, rpc.api_h)
    if not (answers := batch.invoke(chunk_size=None)):
        raise RequestError("server", f"TRex did not send its counters: {answers.err()}")
    return parse_counter_reading(answers.data(), ports)


def start_ports(client: Any, ports: list[int], at: float, *, force: bool) -> str:
    """Start ports at a time of the server's clock; return the error of the first that refused."""
    whole = {"type": "raw", "op": "abs", "value": 1.0}
    for port in ports:
        if not (done := client.ports[port].start(whole, -1, force, None, at)):
            return make_one_line(done.err())
    return ""


def start_port_capture(client: Any, port: int, endpoint: str, bpf_filter: str) -> None:
    """Hand a port's frames that pass a filter to a socket, without service mode."""
    done = _transmit(client, "start_capture_port", port, endpoint=endpoint, bpf_filter=bpf_filter)
    if not done:
        raise RequestError("neighbours", make_one_line(done.err()))


def stop_port_capture(client: Any, port: int) -> None:
    """End what :func:`start_port_capture` began, also for another client."""
    _transmit(client, "stop_capture_port", port)


def _transmit(client: Any, method: str, port: int, **parameters: Any) -> Any:
    known = client.ports[port]
    return known.transmit(method, dict(parameters, port_id=port, handler=known.handler))


def push_frames(client: Any, ports: list[int], frames: list[bytes]) -> None:
    """Send single frames from ports, also while traffic runs."""
    from trex.common.trex_client import PacketBuffer

    buffers = [PacketBuffer(frame, port_src=False, port_dst=False) for frame in frames]
    client.push_packets(buffers, ports=ports, force=True)


def wait_for_connections(client: Any, timeout_s: float) -> None:
    """Wait until the client has heard that its stateful engine opens connections."""
    client.wait_for_profile_state("_", client.STATE_TX, timeout=timeout_s)


def disconnect_transport(client: Any) -> None:
    """Disconnect from a server that ends; otherwise the client hangs when it is garbage-collected."""
    client.conn.disconnect()
