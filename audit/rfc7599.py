"""RFC 7599, sections 8.1 and 8.2: a MAP-T CE with a share of an address uses its own ports only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest
from scapy.packet import Packet, Raw
from v6t.audit.row import Row
from v6t.audit.translator_hosts import DATA, TranslatorHosts
from v6t.audit.wire import ports_of
from v6t.plugins.audit_views import Ports

RFC = "RFC 7599"


# fmt: off
def rows(h: TranslatorHosts, ports: Ports) -> Iterator[Row]:
    """Return the clauses about the edges of a port set, and about ports of other CEs."""
    edges = edge_ports(ports)
    foreign = neighbor_ports(ports)
    if not foreign:
        return
    v = h.view
    up = partial(Row, side=v.six_side, section="8.2", level="MUST", rfc=RFC)
    yield up(label="edges", title=f"packets for the ports {list_ports(edges)} of the CE are forwarded",
             packet=[h.ip6() / UDP(sport=v.port, dport=port) / DATA for port in edges],
             answer=partial(_check_ports, edges), expected=f"{len(edges)} packets")
    packets: dict[str, list[Packet]] = {
        "udp": [h.ip6() / UDP(sport=v.port, dport=port) / DATA for port in foreign],
        "tcp": [h.ip6() / TCP(sport=v.port, dport=foreign[0])],
        "icmp": [h.ip6() / ICMPv6EchoRequest(id=foreign[0], seq=1, data=DATA)],
    }
    for name, some in packets.items():
        yield up(label=f"foreign-{name}",
                 title=f"{name.upper()} for {'identifier' if name == 'icmp' else 'port'} "
                 f"{list_ports(foreign[: len(some)])}, which the CE does not have, is silently dropped",
                 packet=some, silent=True)
    yield Row("8.1", "own-port", "MUST",
              f"what a host behind the CE sends from port {foreign[0]} leaves with a port of the CE's, if "
              "at all",
              v.four_side, h.ip4() / UDP(sport=foreign[0], dport=h.port4) / Raw(DATA),
              partial(_from_own_port, ports), "a port of the CE's, or nothing", rfc=RFC)
# fmt: on


def edge_ports(ports: Ports) -> list[int]:
    """Return the first and last port of the first and of the last range; never 0."""
    ranges = ports.ranges[0], ports.ranges[-1]
    return sorted({port for low, high in ranges for port in (low, high) if port})


def neighbor_ports(ports: Ports) -> list[int]:
    """Return the ports next to the first and last range that are not in the set."""
    ranges = ports.ranges[0], ports.ranges[-1]
    candidates = {port for low, high in ranges for port in (low - 1, low + 1, high - 1, high + 1)}
    return sorted(p for p in candidates if 0 < p < 65536 and p not in ports)


def list_ports(ports: Sequence[int]) -> str:
    """Return ports for a title."""
    return ", ".join(map(str, ports))


def _check_ports(edges: list[int], far: list[Packet]) -> str:
    found = sorted(ports_of(packet)[1] for packet in far)
    return "" if found == edges else f"packets for the ports {found}"


def _from_own_port(ports: Ports, far: list[Packet]) -> str:
    wrong = [ports_of(p)[0] for p in far if ports_of(p)[0] not in ports]
    return f"from port {wrong[0]}" if wrong else ""
