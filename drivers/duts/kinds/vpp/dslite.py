"""DS-Lite AFTR of VPP, which only a new VPP can forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Network

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.vpp.nat44 import counted, pool_of, pool_words
from v6t.drivers.duts.kinds.vpp.options import START_HINT, VppOptions
from v6t.drivers.duts.kinds.vpp.sides import has_route
from v6t.drivers.duts.plan import Check, Intent, Step, checked, equals, has_lines
from v6t.drivers.duts.readings import Reading, Suited
from v6t.intent.device import LinkIntent
from v6t.intent.families import DsLiteAftrConfig

Cli = Callable[[str], str]
PER_B4 = 1000
"""Sessions of one B4; a further one silently replaces the oldest (dslite_in2out.c)."""
_WHY = f"VPP keeps {PER_B4} sessions of a B4, and drops the oldest of more without a word"
SUITED = {
    "initiator_count": Suited(100, _WHY),
    "initiator_ports": Suited({"min": 4096, "max": 4607}, "so many B4s share the public ports"),
}
"""Room for as many connections as a run makes unless it is told otherwise."""
_POOLS = ("198.19.0.1", "192.0.2.1")
"""Public addresses, of which a device has one itself at most."""


def refuse(intent: Intent, options: VppOptions) -> None:
    """What VPP cannot take back, or does silently wrong.

    Raises:
        UsageError: with what works.
    """
    if not options.started:
        raise UsageError(
            "VPP cannot forget the AFTR's tunnel address: only a VPP that v6t starts itself can be "
            "put back",
            START_HINT,
            dut_params={"start": True},
            code="unsupported-by-device",
        )
    own = [interface.ip for interface in intent.right.addresses]
    configuration = intent.configuration_as(DsLiteAftrConfig)
    for address in configuration.pool4:
        if address in own:
            raise UsageError(
                f"VPP's AFTR cannot translate to {address}, which is the device's own address: it "
                "keeps what comes back",
                "choose other public addresses (pool_first)",
                params={"pool_first": next(a for a in _POOLS if IPv4Address(a) not in own)},
                code="unsupported-by-device",
            )
    b4s, wanted = configuration.b4_count, intent.requirements.sessions
    if wanted > PER_B4 * b4s:
        raise UsageError(
            f"VPP's AFTR keeps {PER_B4} sessions of a B4 and drops the oldest silently: "
            f"{wanted} connections need more than {b4s} B4s",
            f"measure more B4s, or at most {PER_B4 * b4s} connections",
            params={"initiator_count": -(-wanted // PER_B4)},
            code="unsupported-by-device",
        )


def left_of(intent: Intent) -> tuple[LinkIntent, list[IPv6Network]]:
    """The left side without the AFTR's address, which no interface may have; its networks.

    VPP delivers to itself what is for an interface's own address, before it looks for tunnels.
    """
    aftr = intent.configuration_as(DsLiteAftrConfig).aftr
    given = intent.left.addresses
    kept = tuple(a for a in given if a.ip != aftr)
    nets = [a.network for a in given if a.ip == aftr and isinstance(a.network, IPv6Network)]
    return replace(intent.left, addresses=kept), nets


def attached(nets: list[IPv6Network], port: str, cli: Cli) -> list[Step]:
    """A link of these networks without an address of them."""
    if not nets:
        return []
    steps = [
        Step(
            cli(f"enable ip6 interface {port}"),
            "IPv6 without an address: the AFTR's must be no interface's own",
            silent=True,
        )
    ]
    steps += [
        Step(
            cli(f"ip route add {net} via {port}"),
            f"{net} is on {port}",
            undo=cli(f"ip route del {net} via {port}"),
            check=has_route(cli(f"show ip6 fib {net}"), str(net), port),
            silent=True,
        )
        for net in nets
    ]
    return steps


def steps(intent: Intent, cli: Cli) -> list[Step]:
    """Public addresses and the tunnels' end."""
    words, aftr = pool_words(intent), str(intent.configuration_as(DsLiteAftrConfig).aftr)
    return [
        Step(
            cli(f"dslite add pool address {words}"),
            "public addresses of DS-Lite",
            check=has_lines(cli("show dslite pool"), *pool_of(intent).addresses),
            silent=True,
        ),
        Step(
            cli(f"dslite set aftr-tunnel-endpoint-address {aftr}"),
            "where the B4s' tunnels end",
            check=equals(cli("show dslite aftr-tunnel-endpoint-address"), aftr),
            silent=True,
        ),
    ]


def occupancy(intent: Intent, options: VppOptions) -> Reading:
    """Sessions of all B4s together, out of the statistics; each has room for its own."""
    room = PER_B4 * intent.configuration_as(DsLiteAftrConfig).b4_count
    return counted(options, "/dslite/total-sessions", room)


def empty(cli: Cli) -> Check:
    """There is no session."""

    def checker(output: str) -> str | None:
        rows = [line for line in output.splitlines() if line.startswith("B4")]
        if rows:
            return f"sessions of {len(rows)} B4s are left"
        return "VPP does not answer" if output.strip() else None  # without B4s it prints nothing

    return checked(f"{cli('show dslite sessions')} 2>&1", checker, "no session")
