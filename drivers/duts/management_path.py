"""The path of the operator's session to a device, and plans that would cut it.

A test route, address or pool that contains the session's source address cuts the device off, as setting
its interface down would. Such plans are refused before anything is changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts.plan import Intent, Plan
from v6t.intent.device import Address, Network

CLIENT_COMMAND = 'echo "$SSH_CONNECTION"'  # prints the addresses and ports of this session
# Prints the interface of this SSH session, whose address may be link-local with a zone.
MANAGEMENT_INTERFACE_COMMAND = """\
set -- $SSH_CONNECTION; z=; case "$3" in *%*) z=${3#*%};; esac
[ -z "$3" ] || ip -o addr show ${z:+dev "$z"} to "${3%%%*}"
"""
# Prints the routes to the client, gateways and name servers; ``look ROLE ADDRESS`` prints a further one.
_SURVEY_SCRIPT = """\
set -- $SSH_CONNECTION; [ -n "$3" ] || exit 0
v=; z=; case "$3" in *%*) z=${3#*%};; esac
i=$(ip -o addr show ${z:+dev "$z"} to "${3%%%*}" | sed -n '1s/^[0-9]*: *\\([^ ]*\\) .*/\\1/p')
m=$(ip -o link show dev "$i" | sed -n 's/.* master \\([^ ]*\\) .*/\\1/p')
if [ -n "$m" ] && ip -d -o link show dev "$m" | grep -q ' vrf table '; then
v="vrf $m"; echo "$v"
fi
look() {
a=${2%%%*}; d=$3; f=-4; case "$a" in *:*) f=-6;; esac
case "$2" in *%*) d=${2#*%};; esac
if r=$(ip -o $f route get fibmatch "$a" ${d:+oif "$d"} $v); then echo "$1 $a matched $r"
else echo "$1 $a host $(ip -o $f route get "$a" ${d:+oif "$d"} $v)"; fi
}
look client "$1"
for f in -4 -6; do
ip -o $f route show default $v | grep -o 'via [^ ]* dev [^ ]*' | while read x g y d; do
case "$g" in inet6) g=$y; d=;; esac; look gateway "$g" "$d"; done
done
sed -n 's/^nameserver[ \\t]*\\([0-9A-Za-z:.%]*\\).*/\\1/p' /etc/resolv.conf \\
/run/systemd/resolve/resolv.conf | sort -u | while read n; do look nameserver "$n"; done
"""
# Descriptions of the roles of hosts to which the device must keep a route.
ROLE_DESCRIPTIONS = {
    "client": "where this SSH session comes from",
    "gateway": "the device's default gateway",
    "nameserver": "the device's name server",
    "jump": "a jump host",
    "server": "the address this SSH session came to",
}
_UNREACHABLE_ROUTE_TYPES = ("unreachable", "blackhole", "prohibit", "throw")
# IP prefix in a shell line, not part of a longer word
_PREFIX_PATTERN = re.compile(r"(?<![\w.:/])([0-9A-Fa-f:.]*[.:][0-9A-Fa-f:.]*)/(\d{1,3})(?![\w.:/])")


def make_survey_command(jump_addresses: Sequence[str] = ()) -> str:
    """Return a command that prints the device's routes to hosts that must stay reachable."""
    return _SURVEY_SCRIPT + "".join(f"look jump {address}\n" for address in jump_addresses)


@dataclass(frozen=True)
class ManagementPeer:
    """A host that must stay reachable from the device."""

    role: str  # a key of ROLE_DESCRIPTIONS
    address: Address
    prefix_length: int  # of the route to the host; a route that is at least as long replaces it
    interfaces: tuple[str, ...] = ()  # output interfaces of the route

    @property
    def description(self) -> str:
        return f"{self.address}, {ROLE_DESCRIPTIONS[self.role]}"


@dataclass(frozen=True)
class ManagementPath:
    """Path of the management session: the hosts that must stay reachable from the device."""

    peers: tuple[ManagementPeer, ...] = ()
    unknown_reason: str = ""  # why the path cannot be determined; empty if it is known
    vrf: str = ""  # VRF of the session, which routes in other VRFs do not affect

    @property
    def interfaces(self) -> dict[str, str]:
        """The device's interfaces on the path, with the reason for each."""
        return {
            name: f"the path to {peer.description}, leads through it"
            for peer in reversed(self.peers)
            for name in peer.interfaces
            if name != "lo"
        }


def parse_management_path(
    client: str, survey_output: str, management_interfaces: Sequence[str]
) -> ManagementPath:
    """Parse the outputs of CLIENT_COMMAND and of the command from :func:`make_survey_command`."""
    words = client.split()
    if len(words) < 4:
        return ManagementPath((), "$SSH_CONNECTION on the device does not name its origin")
    server = words[2].partition("%")[0]
    if not management_interfaces:
        return ManagementPath((), f"no interface of the device has its address {server}")
    peers, vrf = [], ""
    for line in survey_output.splitlines():
        head, _, fields = line.partition(" ")
        if head == "vrf":
            vrf = fields.strip()
        elif head in ROLE_DESCRIPTIONS:
            peer = _parse_peer(head, fields)
            peers += [peer] if peer else []
    if not any(p.role == "client" for p in peers):
        return ManagementPath((), f"the device has no route back to its origin, {words[0]}")
    if (own := _parse_network(server)) is not None:
        peers.append(ManagementPeer("server", own.network_address, own.max_prefixlen))
    return ManagementPath(tuple(peers), vrf=vrf)


def make_client_path(client: str) -> ManagementPath:
    """Return a path on which only the address of the SSH client is known."""
    host = _parse_network(client.partition(" ")[0].partition("%")[0])
    return ManagementPath((ManagementPeer("client", host.network_address, 0),) if host else ())


def check_management_path(path: ManagementPath, intent: Intent, plan: Plan) -> None:
    """Raise DutError if the path is unknown or the plan would cut it."""
    if path.unknown_reason:
        problem = f"the path of this SSH session cannot be determined: {path.unknown_reason}"
        hint = "nothing was changed: v6t does not change a device whose management path is unknown"
        raise DutError(problem, hint, code="operator-path-unknown")
    claimed = list(iter_networks(intent.configuration.to_json()))
    routed = [] if path.vrf else list(_iter_routes(intent, plan))
    for peer in path.peers:
        near = [(source, net) for source, net in routed if peer.address in net]
        taken = [source for source, net in near if net.prefixlen >= peer.prefix_length]
        taken += [f"{source} {net}" for source, net in claimed if peer.address in net]
        if taken:
            problem = f"the test's {taken[0]} would cut the path to {peer.description}"
            hint = "nothing was changed: use other addresses for the test, or another path to the device"
            raise DutError(problem, hint, code="operator-path-in-use")


def _iter_routes(intent: Intent, plan: Plan) -> Iterator[tuple[str, Network]]:
    """Yield each route that a plan adds, as a description of its origin and its prefix."""
    for name, side in (("left", intent.left), ("right", intent.right)):
        yield from ((f"{name} address {own}", own.network) for own in side.addresses)
        yield from ((f"{name} route {net}", net) for net in side.routes)
    steps = [(f"step {number} ({step.why})", step) for number, step in enumerate(plan.steps, 1)]
    steps += [(f"step ({step.why})", step) for step in plan.flush]
    texts = [(source, f"{s.command}\n{s.text}", s.has_mapping_prefixes) for source, s in steps]
    for change in filter(None, (plan.live_change, plan.route_update)):
        text = f"{change.add_command}\n{change.change_command}"
        texts.append((f"{change.description} under traffic", text, False))
    for source, text, is_mapping in texts:
        for token in map("/".join, _PREFIX_PATTERN.findall(text)):
            if (net := _parse_network(token)) is not None and (net.prefixlen or not is_mapping):
                yield f"{source} with {token}", net


def iter_networks(value: Any, name: str = "") -> Iterator[tuple[str, Network]]:
    """Yield each address or prefix in JSON values, as the name of its setting and a network."""
    if isinstance(value, Mapping):
        for key, field_value in value.items():
            yield from iter_networks(field_value, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for field_value in value:
            yield from iter_networks(field_value, name)
    elif isinstance(value, str) and (net := _parse_network(value)) is not None:
        yield name, net


def _parse_peer(role: str, fields: str) -> ManagementPeer | None:
    """Parse the fields after the role in a survey line; None if there is no route to the host."""
    text, _, route = fields.partition(" ")
    how, _, route = route.partition(" ")
    host = _parse_network(text)
    words = route.split()
    if host is None or not words or words[0] in _UNREACHABLE_ROUTE_TYPES:
        return None
    interfaces = tuple(dict.fromkeys(re.findall(r"\bdev (\S+)", route)))
    # without the matched prefix, any route might replace it
    length = 0
    if how == "matched" and words[0] != "default":
        net = _parse_network(words[1] if words[0] == "local" else words[0])
        length = net.prefixlen if net is not None else 0
    return ManagementPeer(role, host.network_address, length, interfaces)


def _parse_network(text: str) -> Network | None:
    """Return the text as a network; None if it is not a prefix or an address."""
    if "." not in text and ":" not in text:
        return None
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
