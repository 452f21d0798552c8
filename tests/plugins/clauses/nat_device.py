"""A right NAT44 of UDP, TCP and ICMP in a few lines, and with one fault each; its clock is what clauses wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from v6t.plugins.clauses.base import Send
from v6t.plugins.clauses.nat_ends import NatEnds
from v6t.plugins.whole import Leaves, SideName
from v6t.tests.plugins.clauses.faulty import ETHERNET, Octets, added, cut
from v6t.tests.plugins.clauses.nat_faults import FAULTS

__all__ = ["FAULTS", "NatDevice"]
ICMP, TCP, UDP = 1, 6, 17
FIN, SYN, RST, ACK = 1, 2, 4, 16
SUM_AT = {UDP: 26, TCP: 36}
LIVES_S = {UDP: 300, ICMP: 60, TCP: 7440}
SYN_S, RST_S = 240, 240
WINDOW = 1 << 20
Packets = list[tuple[SideName, bytes]]


@dataclass
class Mapping:
    """An inside endpoint and its public one."""

    protocol: int
    inside: bytes
    port: int
    public: bytes
    number: int
    lives_s: float
    used: float
    first: float
    servers: set[bytes] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    """Sides whose SYN was seen."""
    next: int = 0
    """Sequence number the server sends next."""


@dataclass
class NatDevice:
    """Frames in, frames out."""

    ends: NatEnds
    fault: str = ""
    block: int = 0
    room: tuple[int, int] = (1024, 65535)
    udp_s: float = 0.0
    limit: int = 0
    now: float = 0.0
    dead: bool = False
    maps: list[Mapping] = field(default_factory=list)
    parts: dict[bytes, list[tuple[int, bytes]]] = field(default_factory=dict)
    strangers: set[bytes] = field(default_factory=set)

    def before(self, send: Send) -> None:
        """Time passes; the table is emptied."""
        self.now += send.pause_s
        if send.first == "flush":
            kept = {"flush keeps UDP": UDP, "flush keeps TCP": TCP, "flush keeps ICMP": ICMP}
            self.maps = [m for m in self.maps if m.protocol == kept.get(self.fault)]
        elif send.first == "configure" and self.fault == "given away by restart":
            self.fault = "overloads"

    def receive(self, side: SideName, frame: bytes) -> Leaves:
        packet = self._whole(side, cut(frame[ETHERNET:]))
        if packet is None or self.dead:
            return []
        self.maps = [m for m in self.maps if self.now - m.used <= m.lives_s]
        found: Leaves = []
        for out, p in self._out(packet) if side == "left" else self._in(packet):
            link = getattr(self.ends.links, out)
            macs = bytes.fromhex((link.tester_mac + link.dut_mac).replace(":", ""))
            octets = macs + b"\x08\x00" + p
            found.append((out, octets + bytes(max(0, 60 - len(octets)))))
        return found

    def _is(self, *faults: str) -> bool:
        return self.fault in faults

    def _whole(self, side: str, p: bytes) -> bytes | None:
        word = int.from_bytes(p[6:8], "big")
        if not word & 0x3FFF:
            return p
        late = word & 0x1FFF > 0
        key = side.encode() + p[4:6] + p[12:20]
        refused = {
            "left": ("no fragments", "no late fragments"),
            "right": ("no fragments inwards", "no late fragments inwards"),
        }[side]
        if self.fault == refused[0] or (
            self.fault == refused[1] and late and key not in self.parts
        ):
            return None
        self.parts.setdefault(key, []).append(((word & 0x1FFF) * 8, p[20:]))
        if len(self.parts[key]) < 2:
            return None
        data = b"".join(d for _, d in sorted(self.parts.pop(key)))
        return p[:2] + (20 + len(data)).to_bytes(2, "big") + p[4:6] + b"\0\0" + p[8:20] + data

    # mappings

    def _of(self, protocol: int, inside: bytes, port: int = 0) -> list[Mapping]:
        """A host's, by its port; 0: of all its ports."""
        mine = [m for m in self.maps if (m.protocol, m.inside) == (protocol, inside)]
        return [m for m in mine if port in (0, m.port)]

    def _at(self, protocol: int, public: bytes, number: int) -> Mapping | None:
        found = [
            m for m in self.maps if (m.protocol, m.public, m.number) == (protocol, public, number)
        ]
        return found[0] if found else None

    def _mapping(self, protocol: int, inside: bytes, port: int, to: bytes) -> Mapping | None:
        """Args: to: server, address and port."""
        found = self._of(protocol, inside, port)
        prefix = {UDP: "", TCP: "tcp ", ICMP: "query "}[protocol]
        taken = any(
            m.port == port and m.inside != inside and m.protocol == protocol for m in self.maps
        )
        by = self._is(f"{prefix}by destination") or (
            taken and self._is(f"{prefix}contended by destination")
        )
        if by:
            found = [m for m in found if to[:4] in {s[:4] for s in m.servers}]
        if not found:
            made = self._new(protocol, inside, port, to, prefix)
            if made is None:
                return None
            found = [made]
        found[0].servers.add(to)
        return found[0]

    def _new(
        self, protocol: int, inside: bytes, port: int, to: bytes, prefix: str
    ) -> Mapping | None:
        pool = [address.packed for address in self.ends.pool]
        at = len(self.maps) if self._is("unpaired") else inside[3]
        public = pool[at % len(pool)]
        low, high = self.room
        if self.block and protocol == UDP:
            low += 0 if self._is("one block") else (inside[3] % 8) * self.block
            high = low + self.block - 1
        if 0 < self.limit <= len(self.maps) and not self._is("table grows"):
            return self._full(protocol, inside, port, to, prefix, 0, 65535)
        used = {m.number for m in self.maps if m.public == public and m.protocol == protocol}
        if self._is(f"{prefix}overloads"):
            used = {m.number for m in self._of(protocol, inside)}
        if self._is(f"{prefix}overloads by server"):
            used = {
                m.number
                for m in self.maps
                if m.protocol == protocol
                and (m.inside == inside or to[:4] in {s[:4] for s in m.servers})
            }
        number = port + self._is("parity lost") + 2 * self._is("port not preserved")
        if self._is("out of range") and protocol == UDP:
            number = 512 + port % 2
        elif not low <= number <= high:
            number = low + (number - low) % 2
        step = 64 if self._is("scattered") else 2
        while number in used and number + step <= 65535:
            number += step
        if number > high and not self._is("scattered", "no limit"):
            number = next((n for n in range(low, high + 1) if n not in used), -1)
            if number < 0:
                return self._full(protocol, inside, port, to, prefix, low, high)
        lives = LIVES_S[protocol] if protocol != TCP else SYN_S
        lives = (self.udp_s or lives) if protocol == UDP else lives
        lives = {
            "udp short": 60 if protocol == UDP and not self.udp_s else lives,
            "query short": 30 if protocol == ICMP else lives,
            "syn short": 60 if protocol == TCP else lives,
            "timer ignored": 300,
            "timer halved": lives / 2,
        }.get(self.fault, lives)
        made = Mapping(protocol, inside, port, public, number, lives, self.now, self.now)
        self.maps.append(made)
        return made

    def _full(
        self, protocol: int, inside: bytes, port: int, to: bytes, prefix: str, low: int, high: int
    ) -> Mapping | None:
        if not self._is("table makes room" if self.limit else "oldest replaced"):
            return None
        oldest = next(m for m in self.maps if m.protocol == protocol and low <= m.number <= high)
        self.maps.remove(oldest)
        return self._new(protocol, inside, port, to, prefix)

    def _used(self, m: Mapping, side: str) -> None:
        if side == "left" and self._is("no refresh out"):
            return
        if side == "right" and self._is("no refresh in"):
            return
        m.used = self.now

    # from inside

    def _out(self, p: bytes) -> Packets:
        if p[8] <= 1:
            if self._is("TTL 1 forwarded"):
                p = p[:8] + b"\2" + p[9:]
            elif self._is("no time exceeded"):
                return []
            else:
                return [("left", self._told(p, 11, 0))]
        protocol = p[9]
        if protocol == ICMP and p[20] not in (0, 8):
            return self._error_out(p)
        if protocol not in LIVES_S or self._is(
            {UDP: "", TCP: "no TCP", ICMP: "no queries"}[protocol]
        ):
            return [] if self.fault else self._sent(p)
        return self._sent(p)

    def _sent(self, p: bytes) -> Packets:
        protocol = p[9]
        port = int.from_bytes(p[24:26] if protocol == ICMP else p[20:22], "big")
        to = p[16:20] + (b"\0\0" if protocol == ICMP else p[22:24])
        m = self._mapping(protocol, p[12:16], port, to)
        if m is None:
            told = 3 if self._is("told wrongly") else 1
            silent = self._is("table not told" if self.limit else "not told")
            return [] if silent else [("left", self._told(p, 3, told))]
        self._used(m, "left")
        if protocol == TCP and not self._segment(m, p, "left", to):
            return []
        made = moved(p, source=m.public, sport=m.number)
        if any(made[16:20] == address.packed for address in self.ends.pool):
            if self._is({UDP: "no hairpin", TCP: "tcp no hairpin"}.get(protocol, "-")):
                return []
            kept = self._is({UDP: "inside source", TCP: "tcp inside source"}.get(protocol, "-"))
            return self._in(p if kept else made, hairpin=True)
        if self._is({UDP: "checksum", TCP: "tcp checksum"}.get(protocol, "-")):
            at = SUM_AT[protocol]
            made = made[: at + 1] + bytes([made[at + 1] ^ 1]) + made[at + 2 :]
        return [("right", made)]

    def _told(self, p: bytes, kind: int, code: int) -> bytes:
        """An ICMP error of the device's own, about a packet from inside."""
        here = bytes([192, 168, 18, 1])
        head = b"\x45\0" + bytes(2) + b"\0\1\0\0\x40\1\0\0" + here + p[12:16]
        message = bytes([kind, code, 0, 0]) + bytes(4) + p
        return headed(head[:2] + (28 + len(p)).to_bytes(2, "big") + head[4:] + messaged(message))

    def _segment(self, m: Mapping, p: bytes, side: str, server: bytes) -> bool:
        """A TCP segment changes its session; whether it is forwarded."""
        flags, sequence = p[33], int.from_bytes(p[24:28], "big")
        if side == "left" and server in self.strangers and self._is("tcp remembers strangers"):
            return False
        if flags & SYN:
            m.open.add(side)
            if len(m.open) == 2:
                m.lives_s = 3600 if self._is("connection short") else LIVES_S[TCP]
        if side == "right":
            fits = abs(sequence - m.next) < WINDOW or not m.next
            if fits:
                m.next = sequence + len(p) - 40 + bool(flags & (SYN | FIN))
        if flags & RST:
            if self._is("tcp RST in dropped") and side == "right":
                return False
            if self._is("tcp RST out dropped") and side == "left":
                return False
            if self._is("tcp RST forgets") and (side == "left" or fits):
                m.lives_s = -1
            elif side == "right" and not fits:
                if self._is("tcp stray RST forgets"):
                    m.lives_s = -1
            else:
                m.lives_s = RST_S
        elif m.lives_s == RST_S and len(m.open) == 2:
            m.lives_s = LIVES_S[TCP]
        if flags & FIN and self._is("tcp FIN forgets"):
            m.lives_s = -1
        if flags & FIN and self._is("closing short"):
            m.lives_s = 60
        if m.lives_s < 0:
            self.maps.remove(m)
        return True

    # from outside

    def _in(self, p: bytes, *, hairpin: bool = False) -> Packets:
        protocol = p[9]
        if protocol == ICMP and p[20] not in (0, 8):
            return self._error_in(p)
        if protocol not in LIVES_S:
            return []
        port = p[24:26] if protocol == ICMP else p[22:24]
        m = self._at(protocol, p[16:20], int.from_bytes(port, "big"))
        if m is None:
            self.dead = self._is("ends by an unknown reply") and protocol == ICMP
            return []
        who = p[12:16] + (b"\0\0" if protocol == ICMP else p[20:22])
        strict = self._is({UDP: "strict filter", TCP: "tcp strict filter"}.get(protocol, "-"))
        by_address = self._is(
            {UDP: "address filter", TCP: "tcp address filter"}.get(protocol, "-")
        ) or (protocol == TCP and self._is("tcp answers strangers", "tcp remembers strangers"))
        known = who in m.servers or (
            not strict and (not by_address or who[:4] in {s[:4] for s in m.servers})
        )
        if not hairpin and not known:
            self.strangers.add(who)
            if self._is("tcp answers strangers") and protocol == TCP:
                return [("right", moved(p[:12] + p[16:20] + p[12:16] + p[20:]))]
            return []
        if protocol == TCP:
            if self._is("tcp no simultaneous") and p[33] == SYN and not hairpin:
                return []
            if not self._segment(m, p, "right", who):
                return []
        self._used(m, "right")
        if protocol == UDP and self._is("answered short"):
            m.lives_s = 100
        return [("left", moved(p, destination=m.inside, dport=m.port))]

    # errors

    def _error_in(self, p: bytes) -> Packets:
        inner, message = p[28:], p[20:]
        protocol = inner[9]
        if added(even(message)) != 0xFFFF and not self._is("no checksum check"):
            return []
        number = int.from_bytes(inner[24:26] if protocol == ICMP else inner[20:22], "big")
        m = self._at(protocol, inner[12:16], number)
        prefix = {UDP: "", TCP: "tcp ", ICMP: "query "}.get(protocol, "-")
        if m is None and self._is("unknown errors forwarded"):
            host = self.ends.hosts[0].packed
            return [("left", headed(p[:16] + host + p[20:]))]
        if m is None or self._is(f"{prefix}errors dropped"):
            return []
        if self._is(f"{prefix}errors end mappings"):
            self.maps.remove(m)
        kept = self._is(f"{prefix}inner kept")
        about = inner if kept else moved(inner, source=m.inside, sport=m.port, hops=0)
        return [("left", headed(p[:16] + m.inside + messaged(p[20:28] + about)))]

    def _error_out(self, p: bytes) -> Packets:
        """About a packet that a host got: its destination is the host."""
        inner = p[28:]
        protocol = inner[9]
        found = self._of(protocol, inner[16:20], int.from_bytes(inner[22:24], "big"))
        if not found or self._is("errors from inside dropped"):
            return []
        m = found[0]
        kept = self._is("inner of inside kept")
        about = inner if kept else moved(inner, destination=m.public, dport=m.number, hops=0)
        if any(p[16:20] == address.packed for address in self.ends.pool):
            other = self._at(protocol, p[16:20], int.from_bytes(inner[20:22], "big"))
            if other is None or self._is("hairpinned errors dropped"):
                return []
            about = moved(about, source=other.inside, sport=other.port, hops=0)
            made = p[:12] + m.public + other.inside + messaged(p[20:28] + about)
            return [("left", headed(made))]
        return [("right", headed(p[:12] + m.public + p[16:20] + messaged(p[20:28] + about)))]


def moved(
    p: bytes,
    source: bytes = b"",
    sport: int = 0,
    destination: bytes = b"",
    dport: int = 0,
    hops: int = 1,
) -> bytes:
    """With other ends; its transport may be cut short, and is then summed no more."""
    octets = Octets(p)
    octets[8] -= hops
    protocol = p[9]
    if source:
        octets[12:16] = source
    if destination:
        octets[16:20] = destination
    if protocol == ICMP:
        octets[24:26] = (sport or dport or int.from_bytes(p[24:26], "big")).to_bytes(2, "big")
        return headed(bytes(octets[:20]) + messaged(bytes(octets[20:])))
    if source:
        octets[20:22] = sport.to_bytes(2, "big")
    if destination:
        octets[22:24] = dport.to_bytes(2, "big")
    at = SUM_AT[protocol]
    if len(p) >= at + 2:
        octets[at : at + 2] = b"\0\0"
        pseudo = bytes(octets[12:20]) + bytes([0, protocol]) + (len(p) - 20).to_bytes(2, "big")
        value = 0xFFFF - added(even(pseudo + bytes(octets[20:]))) or 0xFFFF
        octets[at : at + 2] = value.to_bytes(2, "big")
    return headed(bytes(octets))


def messaged(message: bytes) -> bytes:
    """An ICMP message with its checksum."""
    bare = message[:2] + b"\0\0" + message[4:]
    return bare[:2] + (0xFFFF - added(even(bare))).to_bytes(2, "big") + bare[4:]


def even(octets: bytes) -> bytes:
    return octets + b"\0" * (len(octets) % 2)


def headed(p: bytes) -> bytes:
    head = p[:10] + b"\0\0" + p[12:20]
    return head[:10] + (0xFFFF - added(head)).to_bytes(2, "big") + head[12:] + p[20:]
