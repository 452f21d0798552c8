"""VPP's IPv4-in-IPv6 tunnel (RFC 2473): B4, lwB4, MAP-E CE, or the AFTR's end for one B4.

It is hub and spoke: all IPv4 of the customer's goes to the relay.
"""

from __future__ import annotations

from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.softwires import get_tunnel_end
from v6t.drivers.duts.kinds.vpp import links
from v6t.drivers.duts.kinds.vpp.function import VppFunction
from v6t.drivers.duts.plan import Step, expect_lines, expect_words
from v6t.drivers.duts.steps import make_object_step

TUNNEL_NUMBER = 8676  # instance of VPP's tunnel interface
TUNNEL_INTERFACE = f"ipip{TUNNEL_NUMBER}"
# all of IPv4, in two routes that leave an existing default route in place
IPV4_HALVES = ("0.0.0.0/1", "128.0.0.0/1")
COPY_DSCP_FLAG = "encap-copy-dscp"
"""VPP's ECN flags are not set: decapsulation would copy the outer field instead of combining both (RFC 6040
section 4.2). Without them the outer header is Not-ECT, and the packet's own field stays."""
TUNNEL_PROFILE = HeaderProfile(
    outer_dscp="copied",
    outer_ecn="zero",
    inner_dscp="kept",
    inner_ecn="kept",
    tunnel_hop_limit=64,
    why="VPP's tunnel with this flag: DSCP is copied outwards, ECN is not (vnet/tunnel/tunnel_dp.h)",
)


class TunnelFunction(VppFunction):
    """VPP as one end of a point-to-point tunnel for IPv4 in IPv6."""

    notes = ("hub and spoke: everything goes to the relay; no inner address or port is checked",)
    profile = TUNNEL_PROFILE

    def make_steps(self, version: str) -> list[Step]:
        cli, customer = self.cli, get_tunnel_end(self.intent)
        outside, inside = self.ports[customer.ipv6_side], self.ports[customer.ipv4_side]
        local = [links.make_address_step(cli, f"{customer.local}/128", outside)]
        ends = f"src {customer.local} dst {customer.remote}"
        why = "everybody's IPv4 is behind the relay"
        index = f"$({cli(f'show interface {TUNNEL_INTERFACE}')} | awk 'NR == 2 {{print $2}}')"
        return [
            *([] if customer.has_interface_address else local),
            make_object_step(
                cli(f"create ipip tunnel {ends} instance {TUNNEL_NUMBER} flags {COPY_DSCP_FLAG}"),
                cli(f"delete ipip tunnel sw_if_index {index}"),
                "the tunnel to the relay",
                read=f"{cli('show ipip tunnel')} | grep -w 'instance {TUNNEL_NUMBER}' || true",
                expected=expect_words(
                    f"instance {TUNNEL_NUMBER} {ends}", f"flags [{COPY_DSCP_FLAG} ]"
                ),
            ),
            cli.make_step(
                f"set interface unnumbered {TUNNEL_INTERFACE} use {inside}",
                "the tunnel takes IPv4 by an address of the customer's side",
                read=cli(f"show interface address {TUNNEL_INTERFACE}"),
                expected=expect_lines(f"unnumbered, use {inside}"),
                undo=f"set interface unnumbered del {TUNNEL_INTERFACE}",
            ),
            links.make_mtu_step(cli, TUNNEL_INTERFACE, customer.mtu),
            links.make_link_up_step(cli, TUNNEL_INTERFACE),
            *(links.make_route_step(cli, net, TUNNEL_INTERFACE, why) for net in IPV4_HALVES),
        ]
