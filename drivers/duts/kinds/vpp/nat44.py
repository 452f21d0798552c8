"""NAT44 of VPP: three plugins that are told, emptied and asked in different ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address
from typing import ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.spare import spare4
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import (
    Change,
    Check,
    Intent,
    Step,
    Was,
    checked,
    has_lines,
    matches,
    shown,
)
from v6t.drivers.duts.readings import Reading, Suited
from v6t.intent.families import Nat44Config, NatConfig

Cli = Callable[[str], str]
DEFAULT_SESSIONS = 63 * 1024
OWN_TIMEOUT_S = 300.0
"""VPP's own, of UDP; no command changes that of NAT64."""
PORTS = (1024, 65535)
TENANT = 4086
"""A VRF that nobody is in."""
TABLES = ("addresses", "interfaces", "static mappings")
OCCUPANCY = "sessions, and how many the table takes"


class Nat44(ABC):
    """One of the plugins. Instances hold options and the way to a command."""

    can: ClassVar[tuple[str, ...]]
    """Limits that can be told, by the names of the settings."""
    suited: ClassVar[Mapping[str, Suited]] = {}
    """Parameters of nat44 whose defaults it cannot take."""
    by_endpoint: ClassVar[bool] = False
    """A session is that of an address and port inside, wherever its packets go."""

    def __init__(self, cli: Cli, options: VppOptions) -> None:
        """Combine.

        Args:
            cli: a command of VPP as a shell line.
            options: of the driver.
        """
        self.cli = cli
        self.options = options

    @abstractmethod
    def steps(self, intent: Intent, version: str, ports: Mapping[str, str]) -> list[Step]:
        """Everything but interfaces, addresses and routes."""

    @abstractmethod
    def flush(self, intent: Intent, version: str, ports: Mapping[str, str]) -> tuple[Step, ...]:
        """Empty the session table."""

    @abstractmethod
    def sessions(self) -> Reading:
        """How many there are, by its own count."""

    @abstractmethod
    def occupancy(self, intent: Intent) -> Reading:
        """How full its table is, read every second: no command that walks through the table."""

    def errors(self, text: str) -> Mapping[str, float]:
        """``show errors``, as far as it means loss."""
        return syntax.errors(text)

    def timeout_s(self, intent: Intent) -> float | None:
        """Idle connections of UDP live so long [s]; None: for ever."""
        return float(self.lives_s(intent) or OWN_TIMEOUT_S)

    def beside(self, intent: Intent) -> Change | None:
        """What may be added, changed and removed under traffic."""
        return None

    def lives_s(self, intent: Intent) -> int:
        """What UDP sessions are told to live [s]; 0: nothing."""
        return getattr(intent.configuration, "udp_timeout_s", 0) or self.options.timeout_s

    def room(self, intent: Intent) -> int:
        """Sessions the table of each worker is told to hold."""
        limit = intent.configuration_as(NatConfig).session_limit
        wanted = self.options.sessions or intent.requirements.sessions
        return limit or max(wanted, DEFAULT_SESSIONS)

    def none_left(self) -> Check:
        """It says that it has no session."""
        reading = self.sessions()

        def checker(output: str) -> str | None:
            count = reading.parse(output).get("sessions")
            if count is None:
                return "it does not say how many sessions there are"
            return f"{count:.0f} sessions are left" if count else None

        return checked(reading.command, checker, "no session")

    def timeout(self, intent: Intent, what: str, show: str) -> list[Step]:
        """How long UDP sessions live; no step where nothing is told.

        Args:
            intent: may tell it.
            what: the command before ``udp SECONDS``.
            show: the command that shows all timeouts.
        """
        lives_s = self.lives_s(intent)
        if not lives_s:
            return []
        listed = self.cli(show)
        return [
            Step(
                self.cli(f"{what} udp {lives_s}"),
                "sessions live longer than any test: expiry would look like loss",
                undo="[ -z {old} ] || " + self.cli(f"{what} udp {{words}}"),
                before=f"{listed} | sed -n 's/^udp timeout: *\\([0-9]*\\) *sec.*/\\1/p'",
                check=matches(listed, rf"^udp timeout: {lives_s}\s*sec\s*$", f"{lives_s} s"),
                silent=True,
            )
        ]


class EndpointDependent(Nat44):
    """The plugin ``nat``: a session for each connection, ports given out by chance."""

    can = ("udp_timeout_s", "session_limit")

    def steps(self, intent: Intent, version: str, ports: Mapping[str, str]) -> list[Step]:
        room = self.room(intent)
        return [
            Step(
                self.cli(f"nat44 plugin enable sessions {room}"),
                f"endpoint-dependent NAT44 with room for {room} sessions per worker",
                undo=self.cli("nat44 plugin disable"),
                before=in_use(self.cli, "nat44"),
                was=Was.FOREIGN,
                check=_has_room(self.cli("show nat44 summary"), room),
                silent=True,
            ),
            public(self.cli, "nat44", pool_words(intent, self.can)),
            sides(self.cli, ports, "nat44"),
            *self.timeout(intent, "set nat timeout", "show nat timeouts"),
        ]

    def flush(self, intent: Intent, version: str, ports: Mapping[str, str]) -> tuple[Step, ...]:
        """By its command; where there is none, take NAT away and make it again."""
        clear = syntax.clear_nat44(version)
        lines = [self.cli(clear)] if clear else taken_and_made(self.steps(intent, version, ports))
        seen = f"{self.cli('show nat44 summary')} | grep -q '^total sessions: 0 '"
        return (until_empty(lines, seen, self.none_left()),)

    def sessions(self) -> Reading:
        """Counted by VPP itself, which walks through all of them."""
        return Reading(self.cli("show nat44 summary"), syntax.nat44_sessions)

    def occupancy(self, intent: Intent) -> Reading:
        return counted(self.options, "/nat44-ed/total-sessions", self.room(intent))

    def beside(self, intent: Intent) -> Change:
        """A public address that no connection has: another tenant's, with a VRF of its own.

        Without that VPP gives it to connections that are made after it was added.
        """
        return _address_beside(intent, self.cli, "nat44")


class EndpointIndependent(Nat44):
    """The plugin ``nat44_ei``: a session for each address and port inside (RFC 4787 REQ-1)."""

    can = ("session_limit",)
    by_endpoint = True
    USERS = 1024
    """Clients it has room for by itself."""

    def steps(self, intent: Intent, version: str, ports: Mapping[str, str]) -> list[Step]:
        room = self.room(intent)
        users = max(self.USERS, clients(intent))
        return [
            Step(
                self.cli(f"nat44 ei plugin enable sessions {room} users {users}"),
                f"endpoint-independent NAT44 with room for {room} sessions per worker",
                undo=self.cli("nat44 ei plugin disable"),
                before=in_use(self.cli, "nat44 ei"),
                was=Was.FOREIGN,
                silent=True,
            ),
            public(self.cli, "nat44 ei", pool_words(intent, self.can)),
            sides(self.cli, ports, "nat44 ei"),
            *self.timeout(intent, "set nat44 ei timeout", "show nat44 ei timeouts"),
        ]

    def flush(self, intent: Intent, version: str, ports: Mapping[str, str]) -> tuple[Step, ...]:
        """Take the public addresses away and give them again, and with them all ports.

        ``clear nat44 ei sessions`` forgets sessions and leaves their ports in use
        (nat44_ei_sessions_clear): after 64,512 of them over all trials no address has one left.
        """
        add = self.cli(f"nat44 ei add address {pool_words(intent, self.can)}")
        seen = f"! {self.sessions().command} | grep -q ': [1-9][0-9]* sessions'"
        return (until_empty([f"{add} del", add], seen, self.none_left()),)

    def sessions(self) -> Reading:
        """One line for each thread, and one for each client."""
        return Reading(self.cli("show nat44 ei sessions"), syntax.nat44_ei_sessions)

    def occupancy(self, intent: Intent) -> Reading:
        return counted(self.options, "/nat44-ei/total-sessions", self.room(intent))

    def timeout_s(self, intent: Intent) -> float | None:
        """An idle session stays until a new one needs its place in the hash."""
        return None

    def beside(self, intent: Intent) -> Change:
        """As for the other plugin."""
        return _address_beside(intent, self.cli, "nat44 ei")


def in_use(cli: Cli, what: str, shown: Sequence[str] = TABLES) -> str:
    """What says that somebody uses a plugin: taking it off would take all of that along.

    Args:
        cli: a command of VPP as a shell line.
        what: the plugin's name in commands.
        shown: tables of it; their titles begin with a letter, what is in them with a space or a digit.
    """
    asked = "; ".join(cli(f"show {what} {table}") for table in shown)
    return f"{{ {asked}; }} | grep -e '^[ 0-9]' || true"


def counted(options: VppOptions, counter: str, room: int) -> Reading:
    """Sessions out of VPP's statistics segment, where nothing is walked through.

    Args:
        options: of the driver.
        counter: its name there.
        room: sessions that each worker's table takes.
    """

    def parse(text: str) -> Mapping[str, float]:
        workers = syntax.simple_counters(text, counter)
        return {"used": max(workers), "limit": float(room)} if workers else {}

    return Reading(
        f"{options.statistics} dump {counter} 2>/dev/null; true",
        parse,
        f"{OCCUPANCY}, of the worker that has most",
    )


def clients(intent: Intent) -> int:
    """Addresses inside that there may be."""
    return sum(net.num_addresses for net in intent.configuration_as(Nat44Config).inside4)


def taken_and_made(steps: Sequence[Step]) -> list[str]:
    """Lines that take steps back and take them again."""
    taken = [s.undo for s in reversed(steps) if s.undo and "{old}" not in s.undo]
    return taken + [s.command for s in steps]


def until_empty(lines: Sequence[str], seen: str, check: Check) -> Step:
    """Empty a table until it is.

    Args:
        lines: shell lines that empty it.
        seen: one that succeeds where it is empty.
        check: the read-back.
    """
    # frames of the last trial may still wait before VPP, to become sessions
    command = f"for i in 1 2 3 4 5 6 7 8; do {' ; '.join(lines)}; sleep 0.1; {seen} && break; done"
    return Step(command, "no session of an earlier trial is left", check=check)


def pool_of(intent: Intent, can: Sequence[str] = ()) -> nat.Pool:
    """Public addresses, each with the ports that VPP gives out.

    Raises:
        UsageError: other ports, or limits that it has not.
    """
    pool = nat.pool_of(intent, can=can)
    if (pool.low, pool.high) != PORTS:
        raise UsageError(
            f"VPP's NAT gives out ports {PORTS[0]} to {PORTS[1]}, not {pool.low} to {pool.high}",
            "leave pool_ports as they are",
            params={"pool_ports": {"min": PORTS[0], "max": PORTS[1]}},
            code="unsupported-by-device",
        )
    return pool


def pool_words(intent: Intent, can: Sequence[str] = ()) -> str:
    """The public addresses as VPP takes them.

    Raises:
        UsageError: see :func:`pool_of`.
    """
    pool = pool_of(intent, can)
    first, last = pool.addresses[0], pool.addresses[-1]
    return first if first == last else f"{first} - {last}"


def public(
    cli: Cli, what: str, words: str, *, add: str = "add address", gone: bool = False
) -> Step:
    """The public addresses of a plugin.

    Args:
        cli: a command of VPP as a shell line.
        what: the plugin's name in commands.
        words: see :func:`pool_words`.
        add: the command after that name.
        gone: they go with their plugin, and must not before.
    """
    noun = "addresses" if add == "add address" else "pool"
    return Step(
        cli(f"{what} {add} {words}"),
        f"public addresses of {what}",
        undo="" if gone else cli(f"{what} {add} {words} del"),
        check=_has_pool(cli(f"show {what} {noun}"), words),
        silent=True,
    )


def _has_pool(show: str, words: str) -> Check:
    """Require every address of a pool, given to clients of all VRFs."""
    first, _, last = words.partition(" - ")
    low, high = (int(IPv4Address(text)) for text in (first, last or first))

    def checker(output: str) -> str | None:
        listed = set(syntax.pool_addresses(output))
        every = (str(IPv4Address(number)) for number in range(low, high + 1))
        missing = next((address for address in every if address not in listed), None)
        return missing and f"{missing} is no public address; the output is {shown(output)}"

    return checked(show, checker, f"'{words}'")


def _has_room(show: str, room: int) -> Check:
    """Require the plugin with a table of this size; one that is off shows sessions, too: none."""
    return matches(
        show, rf"^max translations per thread: {room} fib 0\s*$", f"room for {room} sessions"
    )


def sides(
    cli: Cli, ports: Mapping[str, str], what: str, ways: tuple[str, str] = ("in", "out")
) -> Step:
    """Inside and outside interface.

    Args:
        cli: a command of VPP as a shell line.
        ports: VPP's names by side.
        what: the plugin's name in commands.
        ways: what it calls inside and outside where it is told.
    """
    left, right = ports["left"], ports["right"]
    command = f"set interface {what} {ways[0]} {left} {ways[1]} {right}"
    return Step(
        cli(command),
        "the clients' side and the public side",
        undo=cli(f"{command} del"),
        check=has_lines(cli(f"show {what} interfaces"), f"{left} in", f"{right} out"),
        silent=True,
    )


def _address_beside(intent: Intent, cli: Cli, what: str) -> Change:
    first = spare4(intent).network_address + 77
    other, show = first + 1, cli(f"show {what} addresses")

    def gone(address: IPv4Address) -> str:
        there = f"{show} | grep -wqF {address}"
        return f"if {there}; then {cli(f'{what} add address {address} del')}; fi"

    return Change(
        "a public address",
        add=cli(f"{what} add address {first} tenant-vrf {TENANT}"),
        change=f"{gone(first)}; {cli(f'{what} add address {other} tenant-vrf {TENANT}')}",
        remove=f"{gone(first)}; {gone(other)}",
        look=f"{show} | grep -wF -e {first} -e {other} || true",
        added=str(first),
        changed=str(other),
        how="changed: removed and another one added",
    )
