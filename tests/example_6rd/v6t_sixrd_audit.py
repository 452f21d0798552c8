"""Audit clauses of RFC 5969 for 6rd border relays; those of tunnels come with v6t."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.packets import header
from v6t.audit.row import LinkHosts, Row, make_row_clauses
from v6t.plugins.audit_views import SideName, TunnelEnd


class SixrdSuite(Suite):
    """Suite for tunnels of IPv6 in IPv4 whose remote end depends on the inner address."""

    name = "sixrd"

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterator[Clause]:
        tunnel = subject.find(TunnelEnd)
        if (
            tunnel
            and tunnel.find_outer_address
            and isinstance(tunnel.local, IPv4Address)
            and not variant
        ):
            yield from make_row_clauses(SixrdHosts(tunnel), subject.wire, rows)


@dataclass(frozen=True)
class SixrdHosts(LinkHosts):
    """A host behind a CE, and a host beyond the relay."""

    tunnel: TunnelEnd

    def plain(self, side: SideName) -> Packet:
        return self.up()

    def up(self, source: str = "", outer: str = "") -> Packet:
        """Return a tunnel packet of the CE, or one with another inner or outer source."""
        tunnel = self.tunnel
        inner = header(source or tunnel.inner[0], tunnel.host[0])
        ports = {"sport": tunnel.inner[1], "dport": tunnel.host[1]}
        return header(outer or tunnel.remote, tunnel.local) / inner / UDP(**ports) / b"v6t"


# fmt: off
def rows(h: SixrdHosts) -> Iterator[Row]:
    """Return the clauses of section 12, and of the mapping of section 4."""
    tunnel, (near, ce) = h.tunnel, next(_other_customers(h.tunnel))
    row = partial(Row, "RFC 5969")
    yield row("12", "outer-source", "a packet from another CE's IPv4 address is dropped",
              h.up(outer=str(tunnel.remote + 1)), side=tunnel.side)
    yield row("12", "inner-source", "a packet from an IPv6 address outside the 6rd prefix is dropped",
              h.up("2001:db9::1"), side=tunnel.side)
    yield row("4", "embedded", "a packet for a delegated prefix goes to the embedded IPv4 address",
              header(tunnel.host[0], near) / UDP() / b"v6t", IP(src=str(tunnel.local), dst=str(ce)) / IPv6(),
              side=tunnel.far_side, plain=True)
# fmt: on


def _other_customers(tunnel: TunnelEnd) -> Iterator[tuple[IPv6Address, IPv4Address]]:
    """Return addresses that differ from the host's in one bit, with the CE that has them."""
    for bit in range(64, 128):
        address = IPv6Address(int(tunnel.inner[0]) ^ 1 << bit)
        ce = None if tunnel.find_outer_address is None else tunnel.find_outer_address(address)
        if isinstance(ce, IPv4Address) and ce != tunnel.remote:
            yield address, ce
