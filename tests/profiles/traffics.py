"""Traffic that several tests compile."""

from __future__ import annotations

from v6t.packets.walker import locate_headers
from v6t.profiles.model import Binding, Kind, Layer, Role, Traffic, TrafficClass, Variable
from v6t.profiles.streams import Checksum

ETHER = Layer("Ether", {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"})
IPV6 = Layer("IPv6", {"src": "2001:db8:ce:0:0:c000:200:0", "dst": "2001:db8:ffff::1"})
IPV4 = Layer("IP", {"src": "192.0.2.0", "dst": "198.51.100.1", "flags": "DF", "ttl": 64})
UDP = Layer("UDP", {"sport": 0, "dport": 12345})
VLAN = Layer("Dot1Q", {"vlan": 42})
FOUR_IN_SIX = (ETHER, IPV6, IPV4, UDP)
OVER_SIX = (ETHER, IPV6, UDP)
OVER_FOUR = (ETHER, IPV4, UDP)


def mape(kind: Kind = Kind.UNIFORM) -> TrafficClass:
    """Rule 2001:db8:ce::/51, 192.0.2.0/24, EA length 13, PSID offset 0 (Mapperf's Figure 8)."""
    return TrafficClass(
        "fg",
        Role.FOREGROUND,
        FOUR_IN_SIX,
        104,
        (Variable("ea", 13, kind), Variable("low", 11)),
        (
            Binding("ea", "IPv6.src", 51, 63),
            Binding("ea", "IPv6.src", 104, 111, 0, 7),
            Binding("ea", "IPv6.src", 123, 127, 8, 12),
            Binding("ea", "IP.src", 24, 31, 0, 7),
            Binding("ea", "UDP.sport", 0, 4, 8, 12),
            Binding("low", "UDP.sport", 5, 15),
        ),
    )


def background(weight: int = 1) -> TrafficClass:
    """Native IPv6 with the ports of RFC 4814."""
    return TrafficClass(
        "bg",
        Role.BACKGROUND,
        OVER_SIX,
        104,
        (Variable("sport", 16, low=1024), Variable("dport", 16, low=1, high=49151)),
        (Binding("sport", "UDP.sport", 0, 15), Binding("dport", "UDP.dport", 0, 15)),
        weight=weight,
    )


def one(
    *variables: Variable,
    bind: tuple[Binding, ...],
    layers: tuple[Layer, ...] = OVER_SIX,
    frame_size: int = 128,
    seed: int = 1,
) -> Traffic:
    """A traffic of a single class."""
    made = TrafficClass("fg", Role.FOREGROUND, layers, frame_size, variables, bind)
    return Traffic("forward", (made,), seed)


def udp_checksum(packet) -> Checksum | None:
    """The checksum of a frame of UDP, found by its octets and not by the compiler."""
    layout = locate_headers(packet)
    if layout.transport != "UDP":
        return None
    return Checksum("UDP", layout.networks[-1].start, layout.start, layout.start + 6)
