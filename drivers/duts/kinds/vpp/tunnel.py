"""VPP's own IPv4-in-IPv6 tunnel (RFC 2473): B4, lwB4, MAP-E CE, and an AFTR's end of one B4's.

It is hub and spoke: all IPv4 of the customer's goes to the relay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.kinds.customer import customer_of
from v6t.drivers.duts.kinds.vpp import sides
from v6t.drivers.duts.plan import Intent, Step, Was, has_lines, has_words

Cli = Callable[[str], str]
"""A VPP command as a shell line."""
OUTER = 40
"""Octets of the header that is put before a packet."""
NUMBER = 8676
NAME = f"ipip{NUMBER}"
HALVES = ("0.0.0.0/1", "128.0.0.0/1")
"""Together everybody's IPv4; a default route that was there before stays as it is."""
FLAG = "encap-copy-dscp"
"""Its flags for ECN copy the whole field when a packet is taken out, whatever was in it (RFC 6040 section 4.2
has both combined): without them outside is Not-ECT, and the packet's own stays."""
PROFILE = ExpectProfile(
    outer_dscp="copied",
    outer_ecn="zero",
    inner_dscp="kept",
    inner_ecn="kept",
    tunnel_hop_limit=64,
    why="VPP's tunnel with this flag: DSCP is copied outwards, ECN is not (vnet/tunnel/tunnel_dp.h)",
)


def steps(intent: Intent, cli: Cli, ports: Mapping[str, str]) -> list[Step]:
    """The tunnel's own address, the tunnel, and all IPv4 into it."""
    customer = customer_of(intent)
    outside = ports[customer.side]
    taken = getattr(intent, customer.side).addresses
    here = any(interface.ip == customer.local for interface in taken)
    mtu = getattr(intent.links, customer.side).mtu - OUTER
    inside = ports[customer.inside]
    return [
        *([] if here else [sides.own_address(cli, f"{customer.local}/128", outside)]),
        _made(cli, f"src {customer.local} dst {customer.remote}"),
        Step(
            cli(f"set interface unnumbered {NAME} use {inside}"),
            "the tunnel takes IPv4 by an address of the customer's side",
            undo=cli(f"set interface unnumbered del {NAME}"),
            check=has_lines(cli(f"show interface address {NAME}"), f"unnumbered, use {inside}"),
            silent=True,
        ),
        sides.packets(cli, NAME, mtu),
        sides.up(cli, NAME),
        *(sides.route(cli, net, NAME, "everybody's IPv4 is behind the relay") for net in HALVES),
    ]


def _made(cli: Cli, ends: str) -> Step:
    index = f"$({cli(f'show interface {NAME}')} | awk 'NR == 2 {{print $2}}')"
    return Step(
        cli(f"create ipip tunnel {ends} instance {NUMBER} flags {FLAG}"),
        "the tunnel to the relay",
        undo=cli(f"delete ipip tunnel sw_if_index {index}"),
        before=f"{cli('show interface')} | grep -wF {NAME} || true",
        was=Was.FOREIGN,
        check=has_words(cli("show ipip tunnel"), f"instance {NUMBER} {ends}", f"flags [{FLAG} ]"),
    )
