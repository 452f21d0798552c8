"""Audit clauses of RFC 5969 for 6rd border relays; those of tunnels come with v6t."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.row import Row, row_clause, row_steps
from v6t.plugins.audit_views import TunnelEnd


class SixrdSuite(Suite):
    """For tunnels of IPv6 in IPv4 with an other end for each inner address."""

    name = "sixrd"
    title = "6rd border relays: the embedded IPv4 address and the outer one"

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        tunnel = subject.find(TunnelEnd)
        if tunnel is None or tunnel.endpoint is None or not isinstance(tunnel.local, IPv4Address):
            return
        control = packet(tunnel)
        for row in rows(tunnel):
            yield row_clause(row, "RFC 5969", partial(row_steps, row, subject.wire, control))


def packet(tunnel: TunnelEnd, source: IPv6Address | None = None, outer: str = "") -> IP:
    """Return a tunnel packet of the CE, or of others."""
    header = IP(src=outer or str(tunnel.remote), dst=str(tunnel.local), ttl=61)
    inner = IPv6(src=str(source or tunnel.inner[0]), dst=str(tunnel.host[0]), hlim=61)
    return header / inner / UDP(sport=tunnel.inner[1], dport=tunnel.host[1]) / b"v6t"


# fmt: off
def rows(tunnel: TunnelEnd) -> Iterator[Row]:
    """Return the clauses of section 12, and of the mapping of section 4."""
    other = str(tunnel.remote + 1)
    spoofed = partial(Row, section="12", level="MUST", side=tunnel.side)
    yield spoofed(label="outer-source", packet=packet(tunnel, outer=other),
                  title="a packet from another CE's IPv4 address is dropped")
    yield spoofed(label="inner-source", packet=packet(tunnel, IPv6Address("2001:db9::1")),
                  title="a packet from an IPv6 address outside the 6rd prefix is dropped")
    near, ce = next(_other_customers(tunnel))
    down = IPv6(src=str(tunnel.host[0]), dst=str(near), hlim=61) / UDP() / b"v6t"
    yield Row("4", "embedded", "MUST", "a packet for a delegated prefix goes to the embedded IPv4 address",
              tunnel.far_side, down, IP(src=str(tunnel.local), dst=str(ce)) / IPv6(), plain=True)
# fmt: on


def _other_customers(tunnel: TunnelEnd) -> Iterator[tuple[IPv6Address, IPv4Address]]:
    """Return addresses that differ from the host's in one bit, with the CE that has them."""
    for bit in range(64, 128):
        address = IPv6Address(int(tunnel.inner[0]) ^ 1 << bit)
        ce = None if tunnel.endpoint is None else tunnel.endpoint(address)
        if isinstance(ce, IPv4Address) and ce != tunnel.remote:
            yield address, ce
