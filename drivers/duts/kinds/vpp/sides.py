"""The two sides of a VPP: interfaces, addresses, neighbours and routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_interface, ip_network

from v6t.base.errors import DutError
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.nat import Cli
from v6t.drivers.duts.plan import Check, Step, Was, checked, has_words, shown
from v6t.intent.device import LinkIntent


def steps(
    given: LinkIntent,
    port: str,
    *,
    mtu: int,
    cli: Cli,
    told: bool,
    more: Sequence[Step] = (),
) -> list[Step]:
    """One side.

    Args:
        given: of the intent.
        port: VPP's name of the interface.
        mtu: of the link [octets].
        cli: a VPP command as a shell line.
        told: whether neighbours are told, not asked for.
        more: what belongs between addresses and neighbours.
    """
    found = [up(cli, port), packets(cli, port, mtu)]
    found += [own_address(cli, str(interface), port) for interface in given.addresses]
    found += more
    if told:
        for address, mac in given.neighbors.items():
            found.append(_neighbour(cli, port, str(address), mac))
    for net, via in given.routes.items():
        found.append(route(cli, str(net), f"{via} {port}", f"to the test hosts behind {port}"))
    return found


def up(cli: Cli, port: str) -> Step:
    """An interface carries frames."""
    return Step(
        cli(f"set interface state {port} up"),
        f"{port} carries test traffic",
        undo=cli(f"set interface state {port} {{words}}"),
        before=cli(f"show interface {port}") + " | awk 'NR == 2 {print $3}'",
        check=_shows(cli(f"show interface {port}"), port, lambda state: state.up, "up"),
        silent=True,
    )


def vlan(cli: Cli, whole: str, number: int) -> Step:
    """A sub-interface for tagged frames."""
    port = f"{whole}.{number}"
    return Step(
        cli(f"create sub-interfaces {whole} {number}"),
        f"VLAN {number} of {whole}",
        undo=cli(f"delete sub-interface {port}"),
        before=f"{cli('show interface')} | grep -wF {port} || true",
        was=Was.FOREIGN,
        check=_shows(cli("show interface"), port, lambda state: True, "there"),
    )


def packets(cli: Cli, port: str, mtu: int) -> Step:
    """How long packets may be that an interface takes."""
    show = cli(f"show interface {port}")
    return Step(
        cli(f"set interface mtu packet {mtu} {port}"),
        f"MTU of {port}",
        undo=cli(f"set interface mtu packet {{words}} {port}"),
        before=f"{show} | awk 'NR == 2 {{split($4, m, \"/\"); print m[1]}}'",
        check=_shows(show, port, lambda state: state.mtu == mtu, f"of MTU {mtu}"),
        silent=True,
    )


def own_address(cli: Cli, text: str, port: str) -> Step:
    """One of the device's own."""
    show = cli(f"show interface address {port}")
    given = ip_interface(text).with_prefixlen
    return Step(
        cli(f"set interface ip address {port} {given}"),
        f"the device's address on {port}",
        undo=cli(f"set interface ip address del {port} {given}"),
        # an address of somebody else's may end with this one
        before=f'{show} | awk \'{{ sub(/\\r$/, "") }} $1 == "L3" && $2 == "{given}"\'',
        was=Was.THERE,
        check=has_words(show, f"L3 {given}"),
    )


def _neighbour(cli: Cli, port: str, address: str, mac: str) -> Step:
    show = cli(f"show ip neighbors {port}")

    def told(mac: str) -> str:
        return cli(syntax.static_neighbour(port, address, mac))

    gone = cli(syntax.static_neighbour(port, address, mac, remove=True))

    def checker(output: str) -> str | None:
        for line in output.splitlines():
            words = line.split()
            if words[-1:] == [port] and address in words and mac.lower() in words:
                static = any(w.startswith("S") and len(w) <= 3 for w in words)
                return None if static else f"{address} is not static"
        return f"{address} is no neighbour with {mac} on {port}"

    return Step(
        told(mac),
        f"the tester's hosts behind {port}: told, so that none is asked for",
        # one that VPP has learnt it learns anew; one that it was told is another's
        undo=f'set -- {{words}}; [ "$1" = {mac.lower()} ] || {{ {gone}; [ -z "$1" ] || {told("$1")}; }}',
        before=f"{show} | {_static(address, port)}",
        check=checked(show, checker, f"{address} static"),
        silent=True,
    )


def _static(address: str, port: str) -> str:
    """Filter of VPP's neighbours: the MAC address that it was told for an address, if it was."""
    return (
        # each of vppctl's lines ends with CR and LF
        f'awk \'{{ sub(/\\r$/, "") }} $NF == "{port}" {{ here = told = mac = ""; for (i = 1; i < NF; i++) {{ '
        f'if ($i == "{address}") here = 1; else if ($i ~ /^S[A-Z]*$/) told = 1; '
        "else if ($i ~ /^..:..:..:..:..:..$/) mac = $i } if (here && told) print mac }'"
    )


def route(cli: Cli, text: str, way: str, why: str) -> Step:
    """To a network or a host, by a neighbour and an interface or by an interface alone."""
    net = ip_network(text)  # VPP reads no address without its length
    show = cli(f"show ip{'6' if net.version == 6 else ''} fib {net}")
    return Step(
        cli(f"ip route add {net} via {way}"),
        why,
        undo=cli(f"ip route del {net} via {way}"),
        before=f"{show} | grep -e '^{net} fib:0 ' || true",  # not in another table
        was=Was.FOREIGN,
        check=has_route(show, str(net), way),
        silent=True,
    )


def has_route(show: str, net: str, way: str) -> Check:
    """Require a route, see :func:`syntax.has_path`."""

    def checker(output: str) -> str | None:
        if syntax.has_path(output, net, way):
            return None
        return f"there is no route to {net} via {way}; the output is {shown(output)}"

    return checked(show, checker, f"'{net}' via '{way}'")


def _shows(
    show: str, port: str, is_right: Callable[[syntax.InterfaceState], bool], words: str
) -> Check:
    """Require an interface's row of ``show interface``."""

    def checker(output: str) -> str | None:
        state = syntax.interfaces(output).get(port)
        if state is not None and is_right(state):
            return None
        return f"{port} is not {words}; the output is {shown(output)}"

    return checked(show, checker, f"{port} {words}")


def check_hardware(text: str, name: str, mac: str, side: str) -> None:
    """The interface is there and has the MAC address of the testbed file.

    Raises:
        DutError: saying what was seen.
    """
    found = syntax.hardware_addresses(text)
    if name not in found:
        raise DutError(
            f"VPP has no interface {name} (dut.options.{side}); it has "
            + (", ".join(found) or "none"),
            "`vppctl show hardware-interfaces` lists them",
            code="unknown-interface",
        )
    if found[name] != mac.lower():
        raise DutError(
            f"VPP's {name} has the MAC address {found[name]}, not {mac}",
            f"set links.{side}.dut_mac in the testbed file",
            code="wrong-interface",
        )
