"""Where routes lead that somebody typed: in the words of iproute2, of route(8), and of routers.

``ip r a default via 10.0.0.1``, ``route add -net 10.0.0.0 netmask 255.0.0.0``, in vtysh ``ip route 0.0.0.0
0.0.0.0 10.0.0.1``, for Junos ``static route ::/0 next-hop``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import pairwise

Network = IPv4Network | IPv6Network

EVERYTHING: tuple[Network, ...] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_ENDS = re.compile(r"[\n;|&(){}`]+")
_QUOTES = str.maketrans("", "", "'\"\\")
_SHORT = ("r", "ro", "rou", "rout")
"""For ``route``, behind ``ip`` or where a line of ``ip -batch`` begins."""
_READS = ("show", "list", "lst", "get", "save")
_ELSEWHERE = ("show", "netns", "-n", "-netns", "nsenter")
"""Before the route: it is looked at, or is one of another network namespace."""
_TABLES = ("main", "254", "local", "255", "default", "253")
"""Those that every packet is looked up in; another one has a rule that says for which."""
_FOLLOWED = (
    "via", "dev", "src", "from", "gw", "gateway", "nexthop", "next-hop", "table", "vrf", "metric",
    "preference", "priority", "proto", "protocol", "scope", "mtu", "oif", "interface",
)  # fmt: skip
"""What follows these is not where the route leads."""
_ALL = ("default", "any", "all")
_SIX = ("-6", "-inet6", "--inet6", "inet6", "ipv6", "inet6.0")
_FOUR = ("-4", "-inet", "--inet", "inet", "inet.0")
_MASKS = ("netmask", "-netmask", "genmask", "prefixlen", "-prefixlen")


def destinations(text: str) -> Iterator[tuple[str, Network]]:
    """Where its routes lead, each with the word that says so; what only looks at routes is left out.

    Args:
        text: shell lines, lines of ``ip -batch``, lines typed at a router.
    """
    for piece in _ENDS.split(text.replace("\\\n", " ").translate(_QUOTES)):
        words = piece.split()
        starts = [n for n in range(len(words)) if _is_route(words, n)]
        for start, end in pairwise([*starts, len(words)]):
            yield from _destination(words[:start], words[start + 1 : end])


def _is_route(words: Sequence[str], place: int) -> bool:
    def name(word: str) -> str:
        return word.rpartition("/")[2].lower()

    known = name(words[place])
    return known == "route" or (known in _SHORT and (not place or "ip" in map(name, words[:place])))


def _destination(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, Network]]:
    verb = next((word for word in after if not word.startswith("-")), "")
    reads = verb and any(known.startswith(verb) for known in _READS)
    aside = any(w == "table" and name not in _TABLES for w, name in pairwise(after))
    if reads or aside or any(word.lower() in _ELSEWHERE for word in before):
        return
    follows = False
    for place, word in enumerate(after):
        if follows:
            follows = word in (*_SIX, *_FOUR)  # via inet6 fe80::1
            continue
        follows = word.lower() in _FOLLOWED
        found = () if follows else _networks(word, [*before, *after[:place]], after[place + 1 :])
        if found:
            yield from ((word, net) for net in found)
            return


def _networks(word: str, before: Sequence[str], rest: Sequence[str]) -> Sequence[Network]:
    """What a word means as a destination; nothing: it is none."""
    if word.lower() in _ALL:
        four, six = (any(w in names for w in before) for names in (_FOUR, _SIX))
        return EVERYTHING[1:] if six else EVERYTHING[:1] if four else EVERYTHING
    address, slash, length = word.partition("/")
    if slash and re.fullmatch(r"\d+(\.\d+){0,2}", address):  # 10/8
        address += ".0" * (3 - address.count("."))
    try:
        given = ip_address(address)
        if slash:
            return [ip_network(f"{address}/{length}", strict=False)]
    except ValueError:
        return ()
    for mask in _masks(rest):
        try:
            return [ip_network(f"{address}/{mask}", strict=False)]
        except ValueError:  # the next hop
            continue
    if given.is_unspecified:
        return [ip_network(f"{address}/0")]
    if "-net" in before:  # by its class, or shorter
        octets = re.sub(r"(\.0)+$", "", address).count(".") + 1
        return [ip_network(f"{address}/{8 * octets}", strict=False)]
    return [ip_network(address)]


def _masks(rest: Sequence[str]) -> Iterator[str]:
    """What may be the mask of the address before it."""
    yield from (mask for word, mask in pairwise(rest) if word.lower() in _MASKS)
    yield from (word for word in rest[:1] if "." in word)
