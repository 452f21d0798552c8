"""VPP's IPv4-in-IPv6 tunnel (RFC 2473): B4, lwB4, MAP-E CE, or the AFTR's end for one B4.

It is hub and spoke: all IPv4 of the customer's goes to the relay.
"""

from __future__ import annotations

from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.softwires import get_customer
from v6t.drivers.duts.kinds.vpp import links
from v6t.drivers.duts.kinds.vpp.function import VppFunction
from v6t.drivers.duts.plan import Step, expect_lines, expect_words
from v6t.drivers.duts.steps import create_object

OUTER_HEADER_OCTETS = 40
"""Octets of the header that is put before a packet."""
NUMBER = 8676
NAME = f"ipip{NUMBER}"
HALVES = ("0.0.0.0/1", "128.0.0.0/1")
"""All of IPv4, in two routes that leave an existing default route in place."""
FLAG = "encap-copy-dscp"
"""Its flags for ECN copy the whole field when a packet is taken out, whatever was in it (RFC 6040 section 4.2
has both combined): without them outside is Not-ECT, and the packet's own stays."""
PROFILE = HeaderProfile(
    outer_dscp="copied",
    outer_ecn="zero",
    inner_dscp="kept",
    inner_ecn="kept",
    tunnel_hop_limit=64,
    why="VPP's tunnel with this flag: DSCP is copied outwards, ECN is not (vnet/tunnel/tunnel_dp.h)",
)


class CustomerTunnel(VppFunction):
    """A point-to-point tunnel."""

    notes = ("hub and spoke: everything goes to the relay; no inner address or port is checked",)
    profile = PROFILE

    def steps(self, version: str) -> list[Step]:
        cli, customer = self.cli, get_customer(self.intent)
        outside, inside = self.ports[customer.side], self.ports[customer.inside]
        addresses = getattr(self.intent, customer.side).addresses
        exists = any(interface.ip == customer.local for interface in addresses)
        mtu = getattr(self.intent.links, customer.side).mtu - OUTER_HEADER_OCTETS
        ends = f"src {customer.local} dst {customer.remote}"
        index = f"$({cli(f'show interface {NAME}')} | awk 'NR == 2 {{print $2}}')"
        return [
            *([] if exists else [links.add_address(cli, f"{customer.local}/128", outside)]),
            create_object(
                cli(f"create ipip tunnel {ends} instance {NUMBER} flags {FLAG}"),
                cli(f"delete ipip tunnel sw_if_index {index}"),
                "the tunnel to the relay",
                read=f"{cli('show ipip tunnel')} | grep -w 'instance {NUMBER}' || true",
                expected=expect_words(f"instance {NUMBER} {ends}", f"flags [{FLAG} ]"),
            ),
            cli.step(
                f"set interface unnumbered {NAME} use {inside}",
                "the tunnel takes IPv4 by an address of the customer's side",
                read=cli(f"show interface address {NAME}"),
                expected=expect_lines(f"unnumbered, use {inside}"),
                undo=f"set interface unnumbered del {NAME}",
            ),
            links.set_mtu(cli, NAME, mtu),
            links.set_up(cli, NAME),
            *(
                links.add_route(cli, net, NAME, "everybody's IPv4 is behind the relay")
                for net in HALVES
            ),
        ]
