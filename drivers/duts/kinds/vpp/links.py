"""Interfaces, addresses, neighbors, routes and IPv4-in-IPv6 tunnels (RFC 2473) of VPP."""

from collections.abc import Sequence

from v6t.drivers.duts import plan
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.softwires import get_tunnel_end
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction
from v6t.drivers.duts.steps import make_object_step, make_value_step
from v6t.intent.device import LinkIntent

_STRIP_CR_AWK = '{ sub(/\\r$/, "") }'  # vppctl ends lines with CR and LF; awk removes only LF


def make_side_steps(
    link: LinkIntent,
    port: str,
    *,
    mtu: int,
    cli: Vppctl,
    static: bool,
    extra: Sequence[plan.Step] = (),
) -> list[plan.Step]:
    """Return the steps that configure addresses, static neighbors and routes of one side."""
    neighbors = link.neighbors.items() if static else ()
    why = f"to the test hosts behind {port}"
    return [
        make_link_up_step(cli, port),
        make_mtu_step(cli, port, mtu),
        *(make_address_step(cli, str(interface), port) for interface in link.addresses),
        *extra,
        *(_make_neighbor_step(cli, port, str(address), mac) for address, mac in neighbors),
        *(make_route_step(cli, str(net), f"{via} {port}", why) for net, via in link.routes.items()),
    ]


def make_link_up_step(cli: Vppctl, port: str) -> plan.Step:
    """Return the step that brings an interface up; the rollback sets it down if it was down."""
    write = cli(f"set interface state {port} VALUE")
    read = cli(f"show interface {port}") + " | awk 'NR == 2 {print $3}'"
    return make_value_step(write, "up", f"{port} carries test traffic", read=read, silent=True)


def make_vlan_step(cli: Vppctl, parent: str, number: int) -> plan.Step:
    """Return the step that creates a sub-interface for tagged frames."""
    port = f"{parent}.{number}"
    create = cli(f"create sub-interfaces {parent} {number}")
    delete = cli(f"delete sub-interface {port}")
    why = f"VLAN {number} of {parent}"
    read = f"{cli('show interface')} | awk '$1 == \"{port}\" {{print $1}}'"
    return make_object_step(create, delete, why, read=read, expected=plan.expect_text(port))


def make_mtu_step(cli: Vppctl, port: str, mtu: int) -> plan.Step:
    """Return the step that sets the packet MTU of an interface."""
    write = cli(f"set interface mtu packet VALUE {port}")
    read = cli(f"show interface {port}") + " | awk 'NR == 2 {split($4, m, \"/\"); print m[1]}'"
    return make_value_step(write, mtu, f"MTU of {port}", read=read, silent=True)


def make_address_step(cli: Vppctl, address: str, port: str) -> plan.Step:
    """Return the step that adds an address with its prefix length to one of VPP's interfaces."""
    return plan.Step(
        cli(f"set interface ip address {port} {address}"),
        f"the device's address on {port}",
        # a foreign address may end with this one
        read=cli(f"show interface address {port}")
        + f' | awk \'{_STRIP_CR_AWK} $1 == "L3" && $2 == "{address}"\'',
        expected=plan.expect_words(f"L3 {address}"),
        undo=cli(f"set interface ip address del {port} {address}"),
        existing=plan.IfExists.KEEP,
    )


def _make_neighbor_step(cli: Vppctl, port: str, address: str, mac: str) -> plan.Step:
    def format_command(mac: str) -> str:
        return cli(f"set ip neighbor {port} {address} {mac} static")

    remove = cli(f"set ip neighbor del {port} {address} {mac}")
    mac = mac.lower()
    return plan.Step(
        format_command(mac),
        f"static neighbor entries for the tester's hosts on {port}",
        # the MAC address of a static entry; the order of columns varies
        read=cli(f"show ip neighbors {port}")
        + f' | awk \'{_STRIP_CR_AWK} $NF == "{port}" {{ here = static = mac = ""; '
        f'for (i = 1; i < NF; i++) {{ if ($i == "{address}") here = 1; '
        "else if ($i ~ /^S[A-Z]*$/) static = 1; "
        "else if ($i ~ /^..:..:..:..:..:..$/) mac = $i } if (here && static) print mac }'",
        expected=plan.expect_text(mac),
        # VPP learns dynamic entries again; a foreign static entry is restored
        undo=f'set -- {{words}}; [ "$1" = {mac} ] || {{ {remove}; [ -z "$1" ] || {format_command("$1")}; }}',
        silent=True,
    )


def make_fib_command(cli: Vppctl, net: str) -> str:
    """Return the shell line that prints the routes to a network."""
    return cli(f"show ip{'6' if ':' in net else ''} fib {net}")


def make_route_step(
    cli: Vppctl, net: str, next_hop: str, why: str, existing: plan.IfExists = plan.IfExists.REFUSE
) -> plan.Step:
    """Return the step that adds a route via a neighbor on an interface, or via an interface only."""
    words = f"'{net}' via '{next_hop}'"
    return cli.make_step(
        f"ip route add {net} via {next_hop}",
        why,
        read=f"{make_fib_command(cli, net)} | sed -n '\\|^{net} fib:0 |,$p'",
        expected=plan.expect_output(lambda out: outputs.has_path(out, net, next_hop), words),
        undo=f"ip route del {net} via {next_hop}",
        existing=existing,
    )


TUNNEL_NUMBER = 8676  # instance of VPP's tunnel interface
TUNNEL_INTERFACE = f"ipip{TUNNEL_NUMBER}"
IPV4_HALVES = ("0.0.0.0/1", "128.0.0.0/1")  # leave an existing default route in place
COPY_DSCP_FLAG = "encap-copy-dscp"
"""VPP's ECN flags are not set: decapsulation would copy the outer field instead of combining both (RFC 6040
section 4.2). Without them the outer header is Not-ECT, and the packet's own field stays."""


class TunnelFunction(VppFunction):
    """VPP as one end of a point-to-point tunnel for IPv4 in IPv6."""

    newer_plugin = "ipip"  # since 26.10; before, tunnels are a part of VPP
    notes = ("hub and spoke: everything goes to the relay; no inner address or port is checked",)
    profile = HeaderProfile(
        outer_dscp="copied",
        outer_ecn="zero",
        inner_dscp="kept",
        inner_ecn="kept",
        tunnel_hop_limit=64,
        why="VPP's tunnel with this flag: DSCP is copied outwards, ECN is not (vnet/tunnel/tunnel_dp.h)",
    )

    def make_steps(self, version: str) -> list[plan.Step]:
        cli, customer = self.cli, get_tunnel_end(self.intent)
        outside, inside = self.ports[customer.ipv6_side], self.ports[customer.ipv4_side]
        local = [make_address_step(cli, f"{customer.local}/128", outside)]
        ends = f"src {customer.local} dst {customer.remote}"
        why, number = "all IPv4 is behind the relay", f"instance {TUNNEL_NUMBER}"
        index = f"$({cli(f'show interface {TUNNEL_INTERFACE}')} | awk 'NR == 2 {{print $2}}')"
        create = cli(f"create ipip tunnel {ends} {number} flags {COPY_DSCP_FLAG}")
        delete, tunnel = cli(f"delete ipip tunnel sw_if_index {index}"), "the tunnel to the relay"
        read = f"{cli('show ipip tunnel')} | grep -w '{number}' || true"
        expected = plan.expect_words(f"{number} {ends}", f"flags [{COPY_DSCP_FLAG} ]")
        return [
            *([] if customer.has_interface_address else local),
            make_object_step(create, delete, tunnel, read=read, expected=expected),
            cli.make_step(
                f"set interface unnumbered {TUNNEL_INTERFACE} use {inside}",
                "IPv4 on the tunnel, with an address of the customer's side",
                read=cli(f"show interface address {TUNNEL_INTERFACE}"),
                expected=plan.expect_lines(f"unnumbered, use {inside}"),
                undo=f"set interface unnumbered del {TUNNEL_INTERFACE}",
            ),
            make_mtu_step(cli, TUNNEL_INTERFACE, customer.mtu),
            make_link_up_step(cli, TUNNEL_INTERFACE),
            *(make_route_step(cli, net, TUNNEL_INTERFACE, why) for net in IPV4_HALVES),
        ]
