"""A million frames of each stateless technology, decoded by scapy's field descriptions.

Who may send what is written down once more here: rules as strings of bits, tables row by row.
The frames come from the compiled streams; nothing of the compiler decides what is right.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import numpy as np
import pytest
from v6t.audit.packet_device.maps import MapDomain, PrefixMap, TableMap, find_psid
from v6t.core.config.plugins import load_plugin
from v6t.packets.arrays import sort_unique
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.map_rules import rule_from_text
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

from .decoder import Decoder, rebuilt
from .support import lw_rows

pytestmark = pytest.mark.slow

FRAMES = int(os.environ.get("V6T_FRAMES", "1000000"))
"""Of each technology, half of them in each direction."""
BATCH = 50_000
SERVER, RELAY, TESTER = "203.0.113.56", "2001:db8:6::1", "2001:db8:6::2"
RULE = MapDomain(rule_from_text("2001:db8:ce::/51", "192.0.2.0/24", 13, 6))
LWB4_PORTS = 6, 6
BEYOND = str(PrefixMap(IPv6Network("2001:db8:ffff::/64")).to_ipv6(IPv4Address(SERVER)))
ANY = frozenset(range(1024, 65536)), frozenset(range(1, 49152))


@dataclass
class Sender:
    """What one direction may send.

    Attributes:
        whose: PSID by the addresses of a frame; None where they do not tell it; raises KeyError
            where nobody sends so.
        mine: which port is the customer's, or neither.
        psid: PSID of a port, -1 where nobody owns it.
        senders: how many customers or pairs of hosts there are.
    """

    whose: Callable[..., int | None]
    senders: int
    mine: str = ""
    psid: np.ndarray | None = None


@cache
def psids(offset=6, length=5):
    owners = [find_psid(port, offset, length) for port in range(65536)]
    return np.array([-1 if d is None else int(d or "0", 2) for d in owners])


def mape_br(direction):
    def forward(src, dst, inner, server):
        ipv4, psid = RULE.read(IPv6Address(src))
        assert (dst, server, inner) == (RELAY, SERVER, str(ipv4))
        return int(psid, 2)

    def reverse(server, customer):
        assert server == SERVER
        assert IPv4Address(customer) in RULE.rule.ipv4_prefix

    if direction == "forward":
        return Sender(forward, 1000, "sport", psids())
    return Sender(reverse, 1000, "dport", psids())


def mapt_br(direction):
    def forward(src, dst):
        _, psid = RULE.read(IPv6Address(src))
        assert dst == BEYOND
        return int(psid, 2)

    if direction == "forward":
        return Sender(forward, 1000, "sport", psids())
    return mape_br("reverse")


def lwaftr(direction):
    rows = lw_rows(1000)
    ports = psids(*LWB4_PORTS)
    owners = {(row[4], row[0]): row[1] for row in rows}

    def forward(b4, relay, inner, server):
        assert (relay, server) == (RELAY, SERVER)
        return owners[b4, inner]

    def reverse(server, customer):
        assert server == SERVER
        assert customer in {row[0] for row in rows}

    if direction == "forward":
        return Sender(forward, 1000, "sport", ports)
    return Sender(reverse, 1000, "dport", ports)


def translator(name, near, far, first6, first4):
    """Pairs of hosts; ``near`` of them beyond the IPv6 link, ``far`` beyond the IPv4 link."""
    six = [str(IPv4Address(first6) + i) for i in range(near)]
    four = [str(IPv4Address(first4) + i) for i in range(far)]

    def make(direction):
        if direction == "forward":
            table = TableMap(load_plugin(name)().audit_views()[0].table)
            ipv6 = {a: str(table.to_ipv6(IPv4Address(a))) for a in (*six, *four)}
            pairs = {(ipv6[a], ipv6[b]) for a in six for b in four}
        else:
            pairs = {(b, a) for a in six for b in four}
        return Sender(dict.fromkeys(pairs).__getitem__, near * far)

    return lambda direction: _of_pair(make(direction))


def _of_pair(sender):
    known = sender.whose
    return Sender(lambda *pair: known(pair), sender.senders)


def customer(local, ipv4, ports, psid):
    """One customer behind a device that encapsulates."""

    def make(direction):
        expected = (RELAY, local, SERVER, ipv4) if direction == "forward" else (ipv4, SERVER)
        port = "dport" if direction == "forward" else "sport"
        return Sender(lambda *seen: {expected: psid}[seen], 1, port, psids(*ports))

    return make


def mapt_customer(direction):
    local = str(RULE.address(IPv4Address("192.0.2.189"), f"{9:05b}"))
    here = BEYOND, local
    expected = here if direction == "forward" else ("192.0.2.189", SERVER)
    port = "dport" if direction == "forward" else "sport"
    return Sender(lambda *seen: {expected: 9}[seen], 1, port, psids())


def router(pattern, low, high):
    """Hosts on both sides, sixteen bits of their addresses vary."""

    def make(direction):
        left, right = (_hosts(pattern, side, low, high) for side in (0, 1))
        near, far = (left, right) if direction == "forward" else (right, left)

        def whose(src, dst):
            assert src in near
            assert dst in far

        return Sender(whose, 0)

    return make


@cache  # both directions ask for them
def _hosts(pattern, side, low, high):
    return {pattern(side, n) for n in range(low, high + 1)}


def _host4(side, n):
    return f"198.{18 + side}.{n >> 8}.{n & 255}"


def _host6(side, n):
    text = f"2001:2:0:{0x8000 * side:x}:0:0:{n:x}:2"
    return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))


TECHNOLOGIES = {
    "mape-br": mape_br,
    "mapt-br": mapt_br,
    "lwaftr": lwaftr,
    "siit": translator("siit", 253, 253, "198.18.0.2", "198.19.0.2"),
    "clat": None,
    "mape-ce": customer(
        str(RULE.address(IPv4Address("192.0.2.189"), f"{9:05b}")), "192.0.2.189", (6, 5), 9
    ),
    "mapt-ce": mapt_customer,
    "lwb4": customer("2001:db8:b4:1:0:c612:1:9", "198.18.0.1", LWB4_PORTS, 9),
    "ipv4-router": router(_host4, 2, 65534),
    "ipv6-router": router(_host6, 0, 65535),
}


def sender_of(name, plugin, direction):
    if name == "clat":
        p = plugin.params
        return translator("clat", 1, 1, str(p.ipv6_hosts.first), str(p.ipv4_hosts.first))(direction)
    return TECHNOLOGIES[name](direction)


def even(counted, values):
    """Chi-square of evenly drawn values: within six standard deviations of its mean."""
    assert not counted[[v for v in range(65536) if v not in values]].any()
    drawn = counted[sorted(values)]
    expected = drawn.sum() / len(drawn)
    if expected < 5:
        return True
    chi = ((drawn - expected) ** 2 / expected).sum()
    free = len(drawn) - 1
    return abs(chi - free) < 6 * (2 * free) ** 0.5


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_a_million_frames_are_what_they_should_be(name, direction):
    plugin = load_plugin(name)
    plugin = plugin(plugin.params_model(**plugin.spread))
    sizes = plugin.frame_pair(plugin.default_frame_sizes[0])
    (stream,) = compile_traffic(plugin.traffic(direction, sizes, 1)).streams
    expander = Expander(stream)
    decoder = Decoder(expander.frames(0, 1)[0].tobytes())
    sender = sender_of(name, plugin, direction)
    customers: set[tuple[object, ...]] = set()
    ports = {port: np.zeros(65536, dtype=np.int64) for port in ("sport", "dport")}
    known: dict[tuple[str, ...], int | None] = {}
    total = FRAMES // 2
    for first in range(0, total, BATCH):
        frames = expander.frames(first, min(BATCH, total - first))
        assert decoder.checksums_hold(frames).all()
        for frame in frames[:: BATCH // 5]:
            assert rebuilt(frame.tobytes()) == frame.tobytes()
        for port in ports:
            ports[port] += np.bincount(decoder.number(frames, f"UDP.{port}"), minlength=65536)
        seen, whose = decoder.addresses(frames)
        for addresses in seen:
            if addresses not in known:
                known[addresses] = sender.whose(*addresses)
        if sender.mine and sender.psid is not None:
            owners = sender.psid[decoder.number(frames, f"UDP.{sender.mine}")]
            assert (owners >= 0).all()
            told = [known[a] for a in seen]
            if None not in told:
                assert np.array_equal(owners, np.array(told)[whose])
            pairs = sort_unique(whose.astype(np.int64) << 16 | owners)
            customers |= {(seen[pair >> 16], pair & 0xFFFF) for pair in pairs.tolist()}
        elif sender.senders:
            customers |= set(seen)
    if sender.senders and FRAMES >= 1_000_000:
        # half a million draws leave out a few of many thousand pairs
        assert 0.999 * sender.senders <= len(customers) <= sender.senders
        assert len(customers) == sender.senders or sender.senders > 10_000
    for port, counted in ports.items():
        assert counted.sum() == total
        assert not counted[0]
        if port != sender.mine:
            assert even(counted, ANY[port == "dport"])
        elif sender.senders == 1:
            (psid,) = set(known.values()) - {None}
            assert even(counted, set(np.flatnonzero(sender.psid == psid).tolist()))


def test_the_decoder_sees_what_is_wrong():
    """A flipped bit of an address, a port or a checksum does not pass."""
    plugin = load_plugin("mape-br")()
    (stream,) = compile_traffic(plugin.traffic("forward", plugin.frame_pair(104), 1)).streams
    frames = Expander(stream).frames(0, 50)
    decoder = Decoder(frames[0].tobytes())
    for field in ("IPv6.src", "IP.dst", "UDP.sport", "UDP.chksum", "IP.ttl"):
        wrong = frames.copy()
        decoder.octets(wrong, field)[:, -1] ^= 1
        held = decoder.checksums_hold(wrong)
        assert held.all() if field == "IPv6.src" else not held.any(), field
    wrong = frames.copy()
    decoder.octets(wrong, "IPv6.src")[:, -1] ^= 1  # the outer header has no checksum
    assert RULE.read(IPv6Address(decoder.addresses(wrong)[0][0][0])) is None
    assert not np.array_equal(
        psids()[decoder.number(frames, "UDP.sport") ^ 1 << 5],
        psids()[decoder.number(frames, "UDP.sport")],
    )
