"""A right NAT44 in a few lines, and with one fault each: UDP, endpoint-independent, paired, parity kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from v6t.plugins.clauses.nat_ends import NatEnds
from v6t.plugins.whole import Leaves, SideName
from v6t.tests.plugins.clauses.faulty import ETHERNET, Octets, added, cut

UDP, ICMP = 17, 1
FAULTS = {
    "by destination": "endpoint-independent",
    "overloads": "overloading",
    "overloads by server": "overloading-by-server",
    "parity lost": "parity",
    "strict filter": "filtering-address",
    "address filter": "filtering-endpoint",
    "no hairpin": "hairpinning",
    "inside source": "hairpinning-source",
    "errors dropped": "error-3-4",
    "inner kept": "error-3-3",
    "unknown errors forwarded": "error-unmapped",
    "errors end mappings": "error-keeps-mapping",
    "no fragments": "fragments-out-in-order",
    "no late fragments": "fragments-out-out-of-order",
    "no fragments inwards": "fragments-in-in-order",
    "no late fragments inwards": "fragments-in-out-of-order",
    "checksum": "REQ-1-mapped",
    "unpaired": "pooling",
}
"""By name: part of the clause that finds it."""


@dataclass
class NatDevice:
    """Frames in, frames out."""

    ends: NatEnds
    fault: str = ""
    maps: dict[tuple[bytes, ...], tuple[bytes, int]] = field(default_factory=dict)
    seen: dict[tuple[bytes, int], set[bytes]] = field(default_factory=dict)
    parts: dict[bytes, list[tuple[int, bytes]]] = field(default_factory=dict)
    dead: set[tuple[bytes, int]] = field(default_factory=set)

    def receive(self, side: SideName, frame: bytes) -> Leaves:
        packet = self._whole(side, cut(frame[ETHERNET:]))
        if packet is None:
            return []
        made = self._out(packet) if side == "left" else self._in(packet)
        found: Leaves = []
        for out, p in made:
            link = getattr(self.ends.links, out)
            macs = bytes.fromhex((link.tester_mac + link.dut_mac).replace(":", ""))
            octets = macs + b"\x08\x00" + p
            found.append((out, octets + bytes(max(0, 60 - len(octets)))))
        return found

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

    def _mapping(self, source: bytes, port: bytes, to: bytes) -> tuple[bytes, int]:
        key: tuple[bytes, ...] = (source, port)
        if self.fault == "by destination":
            key = (source, port, to)
        if key not in self.maps:
            used = {number for _, number in self.maps.values()}
            number = int.from_bytes(port, "big")
            if self.fault == "parity lost":
                number += 1
            if self.fault == "overloads by server":
                others = {
                    k[0] for k, v in self.maps.items() if v[1] == number and to in self.seen[v]
                }
                used = {number} if others - {source} else set()
            if self.fault != "overloads":
                while number in used:
                    number += 2
            pool = self.ends.pool
            at = len(self.maps) if self.fault == "unpaired" else source[3]
            self.maps[key] = (pool[at % len(pool)].packed, number)
        found = self.maps[key]
        self.seen.setdefault(found, set()).add(to)
        return found

    def _out(self, p: bytes) -> list[tuple[SideName, bytes]]:
        if p[9] != UDP:
            return []
        public, number = self._mapping(
            p[12:16], p[20:22], p[16:20] if self.fault != "strict filter" else p[16:20] + p[22:24]
        )
        made = self._moved(p, source=public, sport=number)
        if any(made[16:20] == address.packed for address in self.ends.pool):
            if self.fault == "no hairpin":
                return []
            return self._in(p if self.fault == "inside source" else made, hairpin=True)
        if self.fault == "checksum":
            made = made[:27] + bytes([made[27] ^ 1]) + made[28:]
        return [("right", made)]

    def _inside(self, public: bytes, number: int) -> tuple[bytes, int] | None:
        if (public, number) in self.dead:
            return None
        for key, value in self.maps.items():
            if value == (public, number):
                return key[0], int.from_bytes(key[1], "big")
        return None

    def _in(self, p: bytes, *, hairpin: bool = False) -> list[tuple[SideName, bytes]]:
        if p[9] == ICMP:
            return self._error(p)
        number = int.from_bytes(p[22:24], "big")
        found = self._inside(p[16:20], number)
        if found is None:
            return []
        known = self.seen[p[16:20], number]
        if not hairpin and (
            (self.fault == "strict filter" and p[12:16] + p[20:22] not in known)
            or (self.fault == "address filter" and p[12:16] not in known)
        ):
            return []
        return [("left", self._moved(p, destination=found[0], dport=found[1]))]

    def _error(self, p: bytes) -> list[tuple[SideName, bytes]]:
        inner = p[28:]
        key = (inner[12:16], int.from_bytes(inner[20:22], "big"))
        found = self._inside(*key)
        if found is None and self.fault == "unknown errors forwarded":
            host = self.ends.hosts[0].packed
            return [("left", _headed(p[:16] + host + p[20:]))]
        if found is None or self.fault == "errors dropped":
            return []
        if self.fault == "errors end mappings":
            self.dead.add(key)
        about = (
            inner
            if self.fault == "inner kept"
            else self._moved(inner, source=found[0], sport=found[1], hops=0)
        )
        message = p[20:22] + b"\0\0" + p[24:28] + about
        message = message[:2] + (0xFFFF - added(_even(message))).to_bytes(2, "big") + message[4:]
        return [("left", _headed(p[:16] + found[0] + message))]

    @staticmethod
    def _moved(
        p: bytes,
        source: bytes = b"",
        sport: int = 0,
        destination: bytes = b"",
        dport: int = 0,
        hops: int = 1,
    ) -> bytes:
        octets = Octets(p)
        octets[8] -= hops
        if source:
            octets[12:16], octets[20:22] = source, sport.to_bytes(2, "big")
        if destination:
            octets[16:20], octets[22:24] = destination, dport.to_bytes(2, "big")
        octets[26:28] = b"\0\0"
        pseudo = bytes(octets[12:20]) + b"\0\x11" + (len(p) - 20).to_bytes(2, "big")
        octets[26:28] = (0xFFFF - added(_even(pseudo + bytes(octets[20:])))).to_bytes(2, "big")
        return _headed(bytes(octets))


def _even(octets: bytes) -> bytes:
    return octets + b"\0" * (len(octets) % 2)


def _headed(p: bytes) -> bytes:
    head = p[:10] + b"\0\0" + p[12:20]
    return head[:10] + (0xFFFF - added(head)).to_bytes(2, "big") + head[12:] + p[20:]
