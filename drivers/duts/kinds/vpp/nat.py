"""Stateful technologies of VPP: NAT44-ED, NAT64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address

from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.spare import spare4
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import Change, Check, Intent, Step, Was, checked, contains, matches
from v6t.profiles.errors import UsageError
from v6t.profiles.intent_settings import Nat, Nat64, Npt, settings_of

Cli = Callable[[str], str]
DEFAULT_SESSIONS = 63 * 1024
PORTS = (1024, 65535)
NPT66 = (24, 2)
"""First version whose bindings can be read back; the plugin itself came with 23.10."""
TENANT = 4086
"""A VRF that nobody is in."""
_CAN = {"nat44": ("udp_timeout_s", "session_limit"), "nat64": ("session_limit",)}
"""Limits that can be told, by the names of the settings."""


def steps(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: VppOptions
) -> list[Step]:
    """Everything but interfaces, addresses and routes."""
    make = _nat64 if isinstance(settings_of(intent), Nat64) else _nat44
    return make(intent, version, cli, ports, options)


def prefixes(intent: Intent, cli: Cli, ports: Mapping[str, str]) -> list[Step]:
    """NPTv6: a binding of the interface on the right, which VPP has one of at most."""
    npt, shown = Npt.of(intent), cli("show npt66 bindings")
    pair = f"internal {npt.internal} external {npt.external}"
    binding = f"set npt66 binding interface {ports['right']} {pair}"
    return [
        Step(
            cli(binding),
            f"translate {npt.internal} to {npt.external} and back",
            undo=cli(f"{binding} del"),
            before=f"{shown} | grep -F 'internal: ' || true",
            was=Was.FOREIGN,
            silent=True,
            check=contains(shown, f"internal: {npt.internal} external: {npt.external}"),
        )
    ]


def refuse_prefixes(version: str) -> None:
    """NPTv6 where there is none.

    Raises:
        UsageError: the version has no plugin npt66, or one that does not show what it does.
    """
    if syntax.key(version) < NPT66:
        first = ".".join(f"{number:02}" for number in NPT66)
        raise UsageError(
            f"VPP {version} has no NPTv6 that could be checked: the plugin npt66 came with 23.10, its "
            f"command `show npt66 bindings` with {first}",
            f"install VPP {first} or newer",
        )


def flush(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: VppOptions
) -> tuple[Step, ...]:
    """Empty the session table; where no command does, take NAT away and make it again."""
    clear = syntax.clear_nat44(version)
    nat44 = not isinstance(settings_of(intent), Nat64)
    if nat44 and clear:
        lines = [cli(clear)]
    else:
        own = steps(intent, version, cli, ports, options)
        taken = [s.undo for s in reversed(own) if s.undo and "{old}" not in s.undo]
        lines = taken + [s.command for s in own]
    if nat44:
        check, seen = empty(cli), f"{cli('show nat44 summary')} | grep -q '^total sessions: 0 '"
    else:
        check, seen = _empty64(cli), f"{cli('show nat64 bib all')} | grep -vq -e BIB -e '^$'"
        seen = f"! {seen}"
    # frames of the last trial may still wait before VPP, to become sessions
    command = f"for i in 1 2 3 4 5 6 7 8; do {' ; '.join(lines)}; sleep 0.1; {seen} && break; done"
    return (Step(command, "no session of an earlier trial is left", check=check),)


def empty(cli: Cli) -> Check:
    """NAT44 has no session."""

    def checker(output: str) -> str | None:
        count = syntax.nat44_sessions(output).get("sessions")
        if count is None:
            return "it does not say how many sessions there are"
        return f"{count:.0f} sessions are left" if count else None

    return checked(cli("show nat44 summary"), checker, "no session")


def _empty64(cli: Cli) -> Check:
    def checker(output: str) -> str | None:
        head, *rows = [line for line in output.splitlines() if line.strip()] or [""]
        if "BIB" not in head:
            return "it does not say which bindings there are"
        return f"{len(rows)} bindings are left" if rows else None

    return checked(cli("show nat64 bib all"), checker, "no binding")


def pool_words(intent: Intent, can: Sequence[str] = ()) -> str:
    """The public addresses as VPP takes them.

    Raises:
        UsageError: other ports, or limits that it has not.
    """
    pool = nat.pool_of(intent, can=can)
    if (pool.low, pool.high) != PORTS:
        raise UsageError(
            f"VPP's NAT gives out ports {PORTS[0]} to {PORTS[1]}, not {pool.low} to {pool.high}",
            "leave pool_ports as they are",
        )
    first, last = pool.addresses[0], pool.addresses[-1]
    return first if first == last else f"{first} - {last}"


def _nat44(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: VppOptions
) -> list[Step]:
    told = Nat.of(intent)
    wanted = options.sessions or told.sessions
    sessions = told.session_limit or max(wanted, DEFAULT_SESSIONS)
    timeout = told.udp_timeout_s or options.timeout_s
    enable = syntax.enable_nat44(version, sessions)
    if told.session_limit and not enable:
        raise _by_start_up(version)
    found = []
    if enable:
        found.append(
            Step(
                cli(enable),
                f"endpoint-dependent NAT44 with room for {sessions} sessions per worker",
                undo=cli(syntax.disable_nat44(version)),
                before=cli("show nat44 addresses") + " | grep -e '^[0-9]' || true",
                was=Was.FOREIGN,
                check=contains(cli("show nat44 summary"), "sessions"),
                silent=True,
            )
        )
    found += [
        *_addresses(intent, cli, "nat44", "nat44 add address", "show nat44 addresses"),
        _sides(cli, ports, "nat44"),
    ]
    if not timeout:
        return found
    return [
        *found,
        Step(
            cli(f"set nat timeout udp {timeout}"),
            "sessions live longer than any test: expiry would look like loss",
            undo="[ -z {old} ] || " + cli("set nat timeout udp {words}"),
            before=cli("show nat timeouts")
            + " | sed -n 's/^udp timeout: *\\([0-9]*\\) *sec.*/\\1/p'",
            check=matches(
                cli("show nat timeouts"), rf"udp timeout: {timeout}\s*sec", f"{timeout} s"
            ),
            silent=True,
        ),
    ]


def beside(intent: Intent, cli: Cli) -> Change:
    """A public address of NAT44 that no connection has: it is another tenant's, with a VRF of its own.

    Without that VPP gives it to connections that are made after it was added.
    """
    first = spare4(intent).network_address + 77
    other, show = first + 1, cli("show nat44 addresses")

    def gone(address: IPv4Address) -> str:
        there = f"{show} | grep -wqF {address}"
        return f"if {there}; then {cli(f'nat44 add address {address} del')}; fi"

    return Change(
        "a public address",
        add=cli(f"nat44 add address {first} tenant-vrf {TENANT}"),
        change=f"{gone(first)}; {cli(f'nat44 add address {other} tenant-vrf {TENANT}')}",
        remove=f"{gone(first)}; {gone(other)}",
        look=f"{show} | grep -wF -e {first} -e {other} || true",
        added=str(first),
        changed=str(other),
        how="changed: removed and another one added",
    )


def _by_start_up(version: str) -> UsageError:
    return UsageError(
        f"VPP {version} takes the number of its sessions from its start-up file only",
        "leave session_limit at 0",
    )


def _nat64(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: VppOptions
) -> list[Step]:
    told = Nat64.of(intent)
    prefix, sessions = told.prefix, options.sessions or told.sessions
    found = []
    if syntax.key(version) >= (21, 1):
        enable, room = syntax.enable_nat64(sessions, told.session_limit)
        found.append(
            Step(
                cli(enable),
                f"NAT64 with room for {room} sessions",
                undo=cli("nat64 plugin disable"),
                before=cli("show nat64 pool") + " | grep -e '^ *[0-9]' || true",
                was=Was.FOREIGN,
                silent=True,
            )
        )
    elif told.session_limit:
        raise _by_start_up(version)
    return [
        *found,
        Step(
            cli(f"nat64 add prefix {prefix}"),
            "IPv4 destinations as IPv6 addresses",
            undo=cli(f"nat64 del prefix {prefix}"),
            check=contains(cli("show nat64 prefix"), str(prefix)),
            silent=True,
        ),
        *_addresses(
            intent, cli, "nat64", "nat64 add pool address", "show nat64 pool", gone=bool(found)
        ),
        _sides(cli, ports, "nat64"),
    ]


def _sides(cli: Cli, ports: Mapping[str, str], what: str) -> Step:
    left, right = ports["left"], ports["right"]
    command = f"set interface {what} in {left} out {right}"
    return Step(
        cli(command),
        "the clients' side and the public side",
        undo=cli(f"{command} del"),
        check=contains(cli(f"show {what} interfaces"), f"{left} in", f"{right} out"),
        silent=True,
    )


def _addresses(
    intent: Intent, cli: Cli, what: str, add: str, show: str, *, gone: bool = False
) -> list[Step]:
    """Args: gone: they go with their plugin, and must not before.

    A NAT64 address that is removed by itself leaves its count of ports in use behind, for the next
    one (nat64_add_del_pool_addr): after 64511 bindings over all trials none would be left.
    """
    pool = pool_words(intent, _CAN[what])
    first = str(IPv4Address(pool.partition(" ")[0]))
    return [
        Step(
            cli(f"{add} {pool}"),
            f"public addresses of {what}",
            undo="" if gone else cli(f"{add} {pool} del"),
            check=contains(cli(show), first),
            silent=True,
        )
    ]
