"""Links, addresses, neighbors, routes and forwarding of OpenBSD."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_interface, ip_network

from v6t.base.errors import DutError
from v6t.drivers.duts import plan
from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.steps import make_object_step, make_value_step
from v6t.intent.device import Address, LinkIntent, Network
from v6t.intent.device import Interface as InterfaceAddress


def parse_ifconfig(text: str) -> tuple[dict[str, Interface], dict[str, list[InterfaceAddress]]]:
    """Return the interfaces and their addresses in the output of ``ifconfig -A``."""
    interfaces: dict[str, Interface] = {}
    addresses: dict[str, list[InterfaceAddress]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        if not (head := re.match(r"(\S+?): flags=\w+<([^>]*)>.* mtu \d+", block)):
            continue
        name, flags = head.groups()
        mac = re.search(r"^\s+lladdr (\S+)", block, re.MULTILINE)
        carrier = not re.search(r"^\s+status: no carrier", block, re.MULTILINE)
        address = mac[1].lower() if mac else ""
        interfaces[name] = Interface(address, "UP" in flags.split(","), carrier)
        four = re.findall(r"^\s+inet (\S+) .*\bnetmask 0x(\w+)", block, re.MULTILINE)
        six = re.findall(r"^\s+inet6 ([^\s%]+)\S* .*\bprefixlen (\d+)", block, re.MULTILINE)
        addresses[name] = [
            *(ip_interface(f"{address}/{int(mask, 16).bit_count()}") for address, mask in four),
            *(ip_interface(f"{address}/{length}") for address, length in six),
        ]
    return interfaces, addresses


def convert_route(client: str, text: str) -> str:
    """Convert the output of ``route -n get`` to a line for :func:`parse_management_path`."""
    route = dict(re.findall(r"^\s*([a-z ]+): (\S+)", text, re.MULTILINE))
    to, mask = (route.get(name, "").partition("%")[0] for name in ("destination", "mask"))
    port = route.get("interface", "")
    if not to or not port:
        return ""
    if mask and to != "default":  # a single host's route has no mask
        base = 10 if "." in mask else 16
        to += f"/{sum(int(part, base).bit_count() for part in re.split('[.:]', mask) if part)}"
    return f"client {client.partition('%')[0]} matched {to} dev {port}"


def format_listed_network(net: str) -> str:
    """Return a network as ``route -n show`` prints it: IPv4 without trailing zero octets."""
    network = ip_network(net)
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    if network.version == 6:
        return str(network)
    octets = max(1, -(-network.prefixlen // 8))
    return ".".join(str(network.network_address).split(".")[:octets]) + f"/{network.prefixlen}"


def parse_cpu_ticks(text: str) -> Mapping[str, float]:
    """Parse CPU ticks in the output of ``sysctl``: ``cpu0.idle``, or ``mean_idle`` of several cores."""
    cores = re.search(r"^hw\.ncpuonline=(\d+)", text, re.MULTILINE)
    ticks = re.search(r"^kern\.cp_time=(\d+(?:,\d+)+)$", text, re.MULTILINE)
    if not cores or not ticks:
        return {}
    values = [float(t) for t in ticks.group(1).split(",")]
    name = "cpu0." if cores.group(1) == "1" else "mean_"
    return {f"{name}idle": values[-1], f"{name}softirq": values[-2], f"{name}total": sum(values)}


def make_forwarding_step() -> plan.Step:
    """Return the step that enables IPv4 and IPv6 forwarding."""
    names = ("net.inet.ip.forwarding", "net.inet6.ip6.forwarding")
    settings = [f"{name}=1" for name in names]
    write, undo = f"sysctl {' '.join(settings)} >/dev/null", "sysctl {words} >/dev/null"
    why, read = "forward both versions", f"sysctl {' '.join(names)}"
    return plan.Step(write, why, read=read, expected=plan.expect_lines(*settings), undo=undo)


def make_side_steps(side: LinkIntent, port: str) -> list[plan.Step]:
    """Return the steps that add the addresses, neighbors and routes of one side."""
    steps = [make_link_up_step(port)]
    if any(address.version == 6 for address in side.addresses):
        steps.append(make_link_local_step(port))
    steps += [make_address_step(address, port) for address in side.addresses]
    steps += [make_neighbor_step(address, mac, port) for address, mac in side.neighbors.items()]
    steps += [make_route_step(net, via, port) for net, via in side.routes.items()]
    return steps


def make_mtu_step(port: str, mtu: int) -> plan.Step:
    """Return the step that sets the MTU of an interface."""
    read = f"ifconfig {port} | sed -n 's/^{port}: flags=.* mtu \\([0-9]*\\).*/\\1/p'"
    return make_value_step(f"ifconfig {port} mtu VALUE", mtu, f"MTU of {port}", read=read)


def make_link_up_step(port: str) -> plan.Step:
    """Return the step that brings an interface up."""
    return plan.Step(
        f"ifconfig {port} up",
        f"{port} carries test traffic",
        read=f"ifconfig {port} | sed -n 's/^{port}: flags=.*<UP[,>].*/up/p'",
        expected=plan.expect_text("up"),
        undo=f"ifconfig {port} down",
        existing=plan.IfExists.KEEP,
    )


def make_link_local_step(port: str) -> plan.Step:
    """Return the step that adds a link-local address; the rollback removes it."""
    return plan.Step(
        f"ifconfig {port} inet6 eui64",
        f"IPv6 on {port}: the first address would add a link-local one that remains",
        read=f"ifconfig {port} | sed -n 's/^[[:space:]]*\\(inet6 fe80:[^ ]*\\).*/\\1/p'",
        expected=plan.expect_output(lambda out: out.split()[:1] == ["inet6"], "'inet6 fe80:'"),
        undo=f"ifconfig {port} -inet6",
        existing=plan.IfExists.KEEP,
    )


def make_address_step(address: InterfaceAddress, port: str) -> plan.Step:
    """Return the step that adds an address to a port."""
    if address.version == 4:
        family, length = "inet", f"/{address.network.prefixlen}"
        words = f"inet {address.ip} netmask 0x{int(address.netmask):08x}"
    else:
        family, length = "inet6", f" prefixlen {address.network.prefixlen}"
        words = f"inet6 {address.ip}{length}"

    def find_problem(output: str) -> str | None:
        if not (match := re.search(rf"^\s*{re.escape(words)}(?!\S)(.*)$", output, re.MULTILINE)):
            return f"'{words}' is missing"
        return f"another host has {address.ip}" if "duplicated" in match[1].split() else None

    return plan.Step(
        f"ifconfig {port} {family} alias {address.ip}{length}",
        f"the device's address on {port}",
        read=f"ifconfig {port} | grep -wF '{words}' || true",
        expected=plan.Expectation(f"'{words}'", find_problem),
        undo=f"ifconfig {port} {family} {address.ip} delete",
        existing=plan.IfExists.KEEP,
    )


def check_prefix_lengths(side: LinkIntent, port: str, present: Iterable[InterfaceAddress]) -> None:
    """Raise DutError if the port has one of the side's addresses with another prefix length."""
    for own in present:
        if any(own.ip == a.ip and own.network != a.network for a in side.addresses):
            problem = f"{port} has {own} already, and the test requires another prefix length"
            hint = f"remove it with ifconfig {port} {own.ip} delete, or use other addresses"
            raise DutError(problem, hint, code="address-conflict")


def make_neighbor_step(address: Address, mac: str, port: str) -> plan.Step:
    """Return the step that adds a permanent neighbor entry, which needs no resolution."""
    tool, permanent = ("arp", " permanent") if address.version == 4 else ("ndp", "")
    add, delete = f"{tool} -s {address} {mac}{permanent}", f"{tool} -d {address}"
    why = f"static neighbor entries for the tester's hosts on {port}"
    read = f"{tool} -n {address} 2>/dev/null | grep -i permanent | tr A-Z a-z"
    expected = plan.expect_words(f"{address} {mac.lower()} {port} permanent")
    return make_object_step(add, delete, why, read=read, expected=expected)


def make_route_step(net: Network, via: Address, port: str) -> plan.Step:
    """Return the step that adds a route to a network via a neighbor."""
    family = "-inet" if net.version == 4 else "-inet6"
    first = format_listed_network(str(net))
    row = rf"{re.escape(first)}\s+{re.escape(str(via))}(\s.*)?"
    return make_object_step(
        f"route -qn add {family} {net} {via}",
        f"route -qn delete {family} {net} {via}",
        f"to the test hosts behind {port}",
        read=f"route -n show {family} | grep '^{re.escape(first)} ' || true",
        expected=plan.expect_matching_line(row, f"{net} by {via}"),
    )
