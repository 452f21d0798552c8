"""Deterministic NAT44 of VPP: every client has an address and ports of its own, by arithmetic.

Its source says what its commands do not: sessions are a list of 1,000 for each address inside,
which is searched from its beginning for every packet (det44.h); deleting an interface leaves the
feature on it (det44_interface_add_del), so only another VPP is as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, summarize_address_range
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from v6t.drivers.duts.commands import Reading, Suited
from v6t.drivers.duts.expect_profile import ProfiledAnswer, ip_version
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.nat44 import (
    OCCUPANCY,
    PORTS,
    Nat44,
    clients,
    pool_of,
    refuse_before,
    sides,
    until_empty,
)
from v6t.drivers.duts.kinds.vpp.options import START_HINT
from v6t.drivers.duts.plan import Intent, Step, has_lines
from v6t.drivers.tester import Answer, Oracle, OracleAround
from v6t.profiles.ends import ends_of
from v6t.profiles.errors import UsageError
from v6t.profiles.intent_settings import Nat

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.profiles.arrays import U8
    from v6t.profiles.model import Direction

PER_CLIENT = 1000
"""Sessions of one client; a further one is answered with ICMP and not forwarded (det44.h)."""
MARGIN = 1.25
"""Connections in pseudorandom order are not spread evenly over clients: room for so many times as many."""
MOST = 8192
"""Addresses inside: 24,000 octets of VPP's heap each, which is 512 MB where v6t starts it."""
FIRST = (21, 1)
"""Version whose commands are these."""
_WHY = f"VPP's deterministic NAT keeps {PER_CLIENT} sessions of a client and refuses more"
_WITH_THEM = "so many clients are enumerated with several servers, and share the public ports"


def for_clients(count: int) -> dict[str, Any]:
    """Parameters of nat44 with which so many clients have no more connections than ports.

    Several are enumerated with several servers; the mapping holds the next power of two of addresses.
    """
    block = (PORTS[1] - PORTS[0] + 1) >> (count + 1).bit_length()
    return {
        "initiator_count": count,
        "responder_count": 2,
        "enumerate_ips": 3,
        "initiator_ports": {"min": PORTS[0], "max": PORTS[0] + block - 1},
    }


@dataclass(frozen=True)
class Mapping44:
    """Who leaves from where (the arithmetic of snat_det_forward).

    Attributes:
        inside: all clients, and their neighbours up to a power of two.
        outside: the public addresses.
    """

    inside: IPv4Network
    outside: IPv4Network

    @property
    def share(self) -> int:
        """Clients of a public address."""
        return self.inside.num_addresses // self.outside.num_addresses

    @property
    def block(self) -> int:
        """Public ports of a client."""
        return (PORTS[1] - PORTS[0] + 1) // self.share

    def of(self, client: IPv4Address) -> tuple[IPv4Address, int]:
        """A client's public address and the first of its ports."""
        number, place = divmod(int(client) - int(self.inside[0]), self.share)
        return self.outside[number], PORTS[0] + place * self.block

    @property
    def words(self) -> str:
        """As VPP takes it."""
        return f"in {self.inside} out {self.outside}"


class Deterministic(Nat44):
    """The plugin ``det44``."""

    can = ("port_block", "udp_timeout_s")
    suited: ClassVar[Mapping[str, Suited]] = {
        name: Suited(value, _WHY if name == "initiator_count" else _WITH_THEM)
        for name, value in for_clients(128).items()
    }

    def refuse(self, intent: Intent, version: str) -> None:
        """What it cannot take back, or has no room for."""
        refuse_before(FIRST, version, "deterministic NAT")
        if not self.options.started:
            raise UsageError(
                "VPP cannot take its deterministic NAT off an interface: only a VPP that v6t starts "
                "itself can be put back",
                START_HINT,
                dut_params={"start": True},
            )
        told = Nat.of(intent)
        wanted, there = self.options.sessions or told.sessions, clients(intent)
        room = PER_CLIENT * there
        if wanted > (room / MARGIN if there > 1 else room):
            needed = -(-int(wanted * MARGIN) // PER_CLIENT)
            raise UsageError(
                f"VPP's deterministic NAT keeps {PER_CLIENT} sessions of a client and refuses more: "
                f"{wanted} connections need {needed} clients, not {there}",
                f"measure more clients, or at most {int(room / MARGIN)} connections",
                params=for_clients(needed),
            )
        mapping_of(intent)

    def steps(self, intent: Intent, version: str, ports: Mapping[str, str]) -> list[Step]:
        """See the base class."""
        mapping = mapping_of(intent)
        client = Nat.of(intent).inside4[0][0]
        address, low = mapping.of(client)
        shown = f"{self.cli('show det44 mappings')}; {self.cli(f'det44 forward {client}')}"
        return [
            Step(
                self.cli("det44 plugin enable"),
                "deterministic NAT44",
                silent=True,
            ),
            sides(self.cli, ports, "det44", ("inside", "outside")),
            Step(
                self.cli(f"det44 add {mapping.words}"),
                f"{mapping.block} public ports of each client, {mapping.share} clients of each address",
                check=has_lines(
                    shown,
                    mapping.words,
                    f"number of ports per inside host: {mapping.block}",
                    f"{address}:<{low}-{low + mapping.block - 1}>",
                ),
                silent=True,
            ),
            *self.timeout(intent, "set det44 timeouts", "show det44 timeouts"),
        ]

    def flush(self, intent: Intent, version: str, ports: Mapping[str, str]) -> tuple[Step, ...]:
        """Take the mapping away and give it again: sessions are part of it."""
        add = self.cli(f"det44 add {mapping_of(intent).words}")
        seen = f"{self.sessions().command} | grep -q 'sessions number: 0'"
        return (until_empty([f"{add} del", add], seen, self.none_left()),)

    def sessions(self) -> Reading:
        """Counted by VPP, mapping by mapping."""
        return Reading(self.cli("show det44 mappings"), syntax.det44_sessions)

    def occupancy(self, intent: Intent) -> Reading:
        """Of all clients together; each has a list of its own."""
        room = float(PER_CLIENT * clients(intent))

        def parse(text: str) -> Mapping[str, float]:
            found = syntax.det44_sessions(text)
            return {"used": found["sessions"], "limit": room} if found else {}

        return Reading(
            self.sessions().command, parse, f"{OCCUPANCY}, of all clients: {PER_CLIENT} each"
        )

    def errors(self, text: str) -> Mapping[str, float]:
        """A client whose list is full is told so by ICMP, which VPP counts as any other such answer."""
        return {
            f"det44: maximum sessions of a client ({name})"
            if name.startswith("ip4-icmp-error") and "unreachable" in name
            else name: count
            for name, count in syntax.errors(text).items()
        }

    def oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        """The technology's frames, each from its client's own address and ports."""
        return MappedOracle(oracle, mapping_of(intent))


def mapping_of(intent: Intent) -> Mapping44:
    """The smallest one that holds all clients, or the one with the blocks that are asked for.

    Raises:
        UsageError: the public addresses are no prefix, there are too many clients, or no mapping
            has such blocks.
    """
    pool = pool_of(intent, Deterministic.can)
    first, last = IPv4Address(pool.addresses[0]), IPv4Address(pool.addresses[-1])
    outside = list(summarize_address_range(first, last))
    if len(outside) > 1:
        raise UsageError(
            f"VPP's deterministic NAT maps to a prefix, and {first} to {last} are none",
            f"take 2^n public addresses from a multiple of 2^n on: pool_count 1, or {outside[0]}",
            params={"pool_first": outside[0][0], "pool_count": outside[0].num_addresses},
        )
    told = Nat.of(intent)
    ends = [int(net[place]) for net in told.inside4 for place in (0, -1)]
    length = min(32 - (min(ends) ^ max(ends)).bit_length(), outside[0].prefixlen)
    known = []
    while length >= 0:
        inside = IPv4Network((min(ends) >> (32 - length) << (32 - length), length))
        if inside.num_addresses > MOST:
            break
        known.append(Mapping44(inside, outside[0]))
        length -= 1
    if not known:
        raise UsageError(
            f"VPP's deterministic NAT takes 24,000 octets for each address from "
            f"{IPv4Address(min(ends))} to {IPv4Address(max(ends))}, used or not",
            f"measure at most {MOST} clients, from a multiple of that number on",
            params=for_clients(128),
        )
    if not told.port_block:
        return known[0]
    for mapping in known:
        if mapping.block == told.port_block:
            return mapping
    near = min(known, key=lambda mapping: abs(mapping.block - told.port_block))
    raise UsageError(
        f"VPP's deterministic NAT makes blocks of 64512 / 2^n ports, not of {told.port_block}",
        f"the nearest it can make here has {near.block}",
        params={"port_block": near.block},
    )


class MappedOracle(OracleAround):
    """Believes what the Responder learned only where the mapping says the same. Picklable."""

    def __init__(self, oracle: Oracle, mapping: Mapping44) -> None:
        """Combine.

        Args:
            oracle: the technology, or what is around it.
            mapping: the device's.
        """
        super().__init__(oracle)
        self.mapping = mapping

    def expect(self, direction: Direction, frames: U8) -> Answer:
        """Clients' packets that left from other ports are expected from the first of their own."""
        answer = self.oracle.expect(direction, frames)
        out = answer.frames
        if direction == "reverse" or not (answer.length > 0).any():
            return answer
        rows = np.flatnonzero(
            (answer.length > 0) & (ip_version(frames) == 4) & (ip_version(out) == 4)
        )
        if not len(rows):
            return answer
        entered, left = ends_of(frames[rows[0]]), ends_of(out[rows[0]])
        m = self.mapping
        number = _number(frames[rows][:, entered.address(source=True)]) - int(m.inside[0])
        address = int(m.outside[0]) + number // m.share
        low = PORTS[0] + number % m.share * m.block
        port = _number(out[rows][:, left.port(source=True)])
        wrong = _number(out[rows][:, left.address(source=True)]) != address
        wrong |= (port < low) | (port >= low + m.block)
        if not wrong.any():
            return answer
        out = out.copy()
        out[rows[wrong], left.address(source=True)] = _octets(address[wrong], 4)
        out[rows[wrong], left.port(source=True)] = _octets(low[wrong], 2)
        return ProfiledAnswer(out, answer.length)


def _number(octets: U8) -> NDArray[np.int64]:
    """Numbers of ``(n, k)`` octets."""
    weights = 256 ** np.arange(octets.shape[1] - 1, -1, -1, dtype=np.int64)
    return octets.astype(np.int64) @ weights


def _octets(numbers: NDArray[np.int64], count: int) -> U8:
    """Their last ``count`` octets each."""
    shifts = 8 * np.arange(count - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] >> shifts & 0xFF).astype(np.uint8)
