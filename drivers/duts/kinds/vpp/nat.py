"""NAT44, NAT64 and NPTv6 of VPP, each by one of its plugins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import DEFAULT_UDP_TIMEOUT_S, Vppctl, VppFunction
from v6t.drivers.duts.plan import (
    Check,
    DeviceChange,
    Expectation,
    IfExists,
    Step,
    expect_lines,
    expect_matching_line,
    expect_max_sessions,
    expect_text,
)
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import Address
from v6t.intent.families import Nat44Config, Nat64Config, NatConfig, NptConfig

MIN_NAT64_BUCKETS = 1024  # VPP's default, and the least that v6t configures
SESSIONS_PER_BUCKET = 10  # capacity of a bucket (nat64_db.c)
FIRST_NPT66_VERSION = (24, 2)  # first with ``show npt66 bindings``; the plugin came with 23.10
DEFAULT_SESSIONS = 63 * 1024  # VPP's default capacity of each worker
SUPPORTED_PORTS = (1024, 65535)  # first and last port that VPP allocates on public addresses
SPARE_VRF = 4086  # a VRF without interfaces
NAT44_TABLES = ("addresses", "interfaces", "static mappings")  # arguments of ``show nat44``


class VppNat(VppFunction):
    """Base class of VPP's NATs with public addresses and ports."""

    # names of the supported settings beyond addresses and ports
    supported_settings: ClassVar[tuple[str, ...]] = ()

    @property
    def pool(self) -> nat.NatPool:
        """Public addresses and ports; raises UsageError for ports that VPP never allocates."""
        pool = nat.get_pool(self.intent, supported_settings=self.supported_settings)
        if (pool.first_port, pool.last_port) != SUPPORTED_PORTS:
            low, high = SUPPORTED_PORTS
            problem = f"VPP's NAT gives out ports {low} to {high}, not {pool.first_port} to {pool.last_port}"
            instead = {"pool_ports": {"min": low, "max": high}}
            raise make_unsupported_error(problem, "leave pool_ports as they are", params=instead)
        return pool


class VppNat44(VppNat):
    """Base class of VPP's NAT44 plugins."""

    command_noun: ClassVar[str]  # name of the plugin in commands

    @abstractmethod
    def make_enable_step(self, capacity: int) -> Step:
        """Return the step that enables the plugin with room for ``capacity`` sessions per worker."""

    @abstractmethod
    def get_session_reading(self) -> Reading: ...

    def make_steps(self, version: str) -> list[Step]:
        return [
            self.make_enable_step(self.get_capacity()),
            make_pool_step(self.cli, self.command_noun, self.pool),
            make_interfaces_step(self.cli, self.ports, self.command_noun),
            *self._make_timeout_steps(),
        ]

    def get_capacity(self) -> int:
        limit = self.intent.configuration_as(NatConfig).session_limit
        wanted = self.options.sessions or self.intent.requirements.sessions
        return limit or max(wanted, DEFAULT_SESSIONS)

    def make_flush_check(self) -> Check:
        """Return the check that no session is left."""
        reading = self.get_session_reading()
        return Check(reading.command, expect_max_sessions(reading.parse, "session"))

    def _make_timeout_steps(self) -> list[Step]:
        lives_s = self.get_configured_timeout_s()
        if not lives_s:
            return []
        # this command has another name for the endpoint-dependent plugin
        noun = self.command_noun if self.command_noun.endswith("ei") else "nat"
        command, show = f"set {noun} timeout udp", self.cli(f"show {noun} timeouts")
        return [
            Step(
                self.cli(f"{command} {lives_s}"),
                "sessions live longer than any test: expiry would look like loss",
                read=f"{show} | sed -n 's/^udp timeout: *\\([0-9]*\\) *sec.*/\\1/p'",
                expected=expect_text(lives_s),
                undo="[ -z {old} ] || " + self.cli(f"{command} {{words}}"),
                silent=True,
            )
        ]

    def make_live_change(self) -> DeviceChange:
        """Return a change of a public address that no connection uses, in a separate VRF."""
        first = find_spare_network(self.intent, 4).network_address + 77
        second, add = first + 1, f"{self.command_noun} add address"
        show, vrf = self.cli(f"show {self.command_noun} addresses"), f"tenant-vrf {SPARE_VRF}"

        def make_removal_command(address: Address) -> str:
            return f"if {show} | grep -wqF {address}; then {self.cli(f'{add} {address} del')}; fi"

        return DeviceChange(
            "a public address",
            add_command=self.cli(f"{add} {first} {vrf}"),
            change_command=f"{make_removal_command(first)}; {self.cli(f'{add} {second} {vrf}')}",
            remove_command=f"{make_removal_command(first)}; {make_removal_command(second)}",
            show_command=f"{show} | grep -wF -e {first} -e {second} || true",
            added_words=str(first),
            changed_words=str(second),
            note="changed: removed and another one added",
        )


class EndpointDependentNat44(VppNat44):
    """VPP's endpoint-dependent plugin ``nat``: one session per connection, random ports."""

    plugin = "nat"
    command_noun = "nat44"
    session_counter = "/nat44-ed/total-sessions"
    supported_settings = ("udp_timeout_s", "session_limit")

    def make_enable_step(self, capacity: int) -> Step:
        # a disabled plugin also lists sessions: none
        size = rf"max translations per thread: {capacity} fib 0"
        expected = expect_matching_line(size, f"room for {capacity} sessions")
        return self.cli.make_step(
            f"nat44 plugin enable sessions {capacity}",
            f"endpoint-dependent NAT44 with room for {capacity} sessions per worker",
            read=make_show_command(self.cli, "nat44"),
            undo="nat44 plugin disable",
            existing=IfExists.REFUSE,
            proof=Check(self.cli("show nat44 summary"), expected),
        )

    def make_flush_steps(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        """Return the step that clears the sessions, or recreates the NAT before VPP 25.02."""
        has_command = parse_version(version) >= (25, 2)
        clear = [self.cli("clear nat44 ed sessions")]
        lines = clear if has_command else make_recreate_commands(self.make_steps(version))
        seen = f"{self.cli('show nat44 summary')} | grep -q '^total sessions: 0 '"
        return (make_flush_step(lines, seen, self.make_flush_check()),)

    def get_session_reading(self) -> Reading:
        return Reading(self.cli("show nat44 summary"), outputs.parse_nat44_sessions)


class EndpointIndependentNat44(VppNat44):
    """VPP's plugin ``nat44_ei``: one session per inside address and port (RFC 4787 REQ-1)."""

    plugin = "nat44_ei"
    command_noun = "nat44 ei"
    session_counter = "/nat44-ei/total-sessions"
    supported_settings = ("session_limit",)
    has_endpoint_independent_mapping = True
    DEFAULT_MAX_USERS = 1024  # VPP's default maximum number of clients

    def make_enable_step(self, capacity: int) -> Step:
        nets = self.intent.configuration_as(Nat44Config).inside4
        users = max(self.DEFAULT_MAX_USERS, sum(net.num_addresses for net in nets))
        return self.cli.make_step(
            f"nat44 ei plugin enable sessions {capacity} users {users}",
            f"endpoint-independent NAT44 with room for {capacity} sessions per worker",
            read=make_show_command(self.cli, "nat44 ei"),
            undo="nat44 ei plugin disable",
            existing=IfExists.REFUSE,
        )

    def make_flush_steps(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        """Return the step that removes and re-adds the public addresses, which frees all ports.

        ``clear nat44 ei sessions`` forgets sessions and leaves their ports in use
        (nat44_ei_sessions_clear): after 64,512 of them over all trials no address has one left.
        """
        add = self.cli(f"nat44 ei add address {format_addresses(self.pool)}")
        seen = f"! {self.get_session_reading().command} | grep -q ': [1-9][0-9]* sessions'"
        return (make_flush_step([f"{add} del", add], seen, self.make_flush_check()),)

    def get_session_reading(self) -> Reading:
        return Reading(self.cli("show nat44 ei sessions"), outputs.parse_nat44_ei_sessions)

    def get_timeout_s(self) -> float | None:
        """Return None: an idle session stays until a new one replaces it in the hash table."""
        return None


def make_show_command(cli: Vppctl, noun: str, tables: Sequence[str] = NAT44_TABLES) -> str:
    """Return the command that prints existing configuration, which disabling the plugin would delete."""
    commands = "; ".join(cli(f"show {noun} {table}") for table in tables)
    # titles of the tables begin with a letter, their rows with a space or a digit
    return f"{{ {commands}; }} | grep -e '^[ 0-9]' || true"


def make_recreate_commands(steps: Sequence[Step]) -> list[str]:
    """Return the shell lines that undo steps and then apply them again."""
    allocated = [s.undo for s in reversed(steps) if s.undo and "{old}" not in s.undo]
    return allocated + [s.command for s in steps]


def make_flush_step(lines: Sequence[str], empty_test: str, check: Check) -> Step:
    """Return the step that repeats shell lines until the test for an empty table succeeds."""
    # queued frames of the last trial may still create sessions
    flush = " ; ".join(lines)
    command = f"for i in 1 2 3 4 5 6 7 8; do {flush}; sleep 0.1; {empty_test} && break; done"
    return Step(command, "no session of an earlier trial is left", proof=check)


def format_addresses(pool: nat.NatPool) -> str:
    """Return the range of public addresses as VPP's commands expect it."""
    first, last = pool.addresses[0], pool.addresses[-1]
    return first if first == last else f"{first} - {last}"


def make_pool_step(
    cli: Vppctl, noun: str, pool: nat.NatPool, *, verb: str = "add address", keep: bool = False
) -> Step:
    """Return the step that adds the public addresses of a plugin; ``keep`` omits its undo command."""

    def describe_missing_address(output: str) -> str | None:
        listed = set(outputs.parse_pool_addresses(output))
        missing = next((address for address in pool.addresses if address not in listed), None)
        return missing and f"{missing} is not a public address"

    addresses = format_addresses(pool)
    command = f"{noun} {verb} {addresses}"
    return cli.make_step(
        command,
        f"public addresses of {noun}",
        read=cli(f"show {noun} {'addresses' if verb == 'add address' else 'pool'}"),
        expected=Expectation(f"'{addresses}'", describe_missing_address),
        undo="" if keep else f"{command} del",
    )


def make_interfaces_step(cli: Vppctl, ports: Mapping[str, str], keyword: str) -> Step:
    """Return the step that sets the inside and outside interfaces of the NAT plugin of a keyword."""
    left, right = ports["left"], ports["right"]
    command = f"set interface {keyword} in {left} out {right}"
    return cli.make_step(
        command,
        "the clients' side and the public side",
        read=cli(f"show {keyword} interfaces"),
        expected=expect_lines(f"{left} in", f"{right} out"),
        undo=f"{command} del",
    )


class VppNat64(VppNat):
    """VPP as a stateful NAT64 translator."""

    plugin = "nat64"
    session_counter = "/nat64/total-sessions"
    supported_settings = ("session_limit",)
    notes = ("no command sets NAT64's timeout: idle sessions live 300 s",)
    profile = HeaderProfile(
        absent_checksum=True,
        why="VPP computes no UDP checksum of IPv4 packets that were IPv6 or in it",
    )

    def choose_bucket_count(self) -> int:
        """Return the number of hash buckets for the session limit or the required sessions."""
        if limit := self.intent.configuration_as(NatConfig).session_limit:
            buckets, rest = divmod(limit, SESSIONS_PER_BUCKET)
            if rest:
                problem = f"VPP's NAT64 has room for ten sessions in each bucket, not for {limit}"
                hint = "choose a session_limit that ends with 0"
                instead = {"session_limit": SESSIONS_PER_BUCKET * (buckets + 1)}
                raise make_unsupported_error(problem, hint, params=instead)
            return buckets
        required = self.options.sessions or self.intent.requirements.sessions
        buckets = MIN_NAT64_BUCKETS
        while SESSIONS_PER_BUCKET * buckets < required:
            buckets *= 2
        return buckets

    def make_steps(self, version: str) -> list[Step]:
        cli, buckets = self.cli, self.choose_bucket_count()
        prefix = self.intent.configuration_as(Nat64Config).prefix
        enable = "nat64 plugin enable"
        if buckets != MIN_NAT64_BUCKETS:
            memory = max(256 << 20, 2048 * buckets)
            sizes = f"{buckets} bib-memory {memory} st-buckets {buckets} st-memory {memory}"
            enable += f" bib-buckets {sizes}"
        return [
            cli.make_step(
                enable,
                f"NAT64 with room for {SESSIONS_PER_BUCKET * buckets} sessions",
                read=make_show_command(cli, "nat64", ("pool", "interfaces", "prefix", "bib all")),
                undo="nat64 plugin disable",
                existing=IfExists.REFUSE,
            ),
            cli.make_step(
                f"nat64 add prefix {prefix}",
                "IPv4 destinations as IPv6 addresses",
                read=cli("show nat64 prefix"),
                expected=expect_lines(f"{prefix} tenant-vrf 0"),
                undo=f"nat64 del prefix {prefix}",
            ),
            # removing only the address would keep its count of used ports for the next
            # one (nat64_add_del_pool_addr): after 64511 bindings over all trials none would be left
            make_pool_step(cli, "nat64", self.pool, verb="add pool address", keep=True),
            make_interfaces_step(cli, self.ports, "nat64"),
        ]

    def make_flush_steps(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        """Return the step that removes and recreates NAT64, since no command clears its sessions."""
        bindings = self.cli("show nat64 bib all")
        seen = f"! {bindings} | grep -vq -e BIB -e '^$'"
        empty = Check(bindings, expect_max_sessions(outputs.parse_bindings, "binding"))
        return (make_flush_step(make_recreate_commands(self.make_steps(version)), seen, empty),)

    def get_capacity(self) -> int:
        return SESSIONS_PER_BUCKET * self.choose_bucket_count()

    def get_timeout_s(self) -> float | None:
        return DEFAULT_UDP_TIMEOUT_S


class Npt66(VppFunction):
    """VPP as an NPTv6 translator, with a single binding on the right-hand interface."""

    plugin = "npt66"

    def check_supported(self, version: str) -> None:
        if parse_version(version) < FIRST_NPT66_VERSION:
            first = ".".join(f"{number:02}" for number in FIRST_NPT66_VERSION)
            raise UsageError(
                f"VPP {version} has no NPTv6 that could be checked: the plugin npt66 came with 23.10, its "
                f"command `show npt66 bindings` with {first}",
                f"install VPP {first} or newer",
                code="unsupported-by-version",
            )

    def make_steps(self, version: str) -> list[Step]:
        npt = self.intent.configuration_as(NptConfig)
        pair = f"internal {npt.internal} external {npt.external}"
        binding = f"set npt66 binding interface {self.ports['right']} {pair}"
        listed = f"internal: {npt.internal} external: {npt.external}"
        return [
            make_object_step(
                self.cli(binding),
                self.cli(f"{binding} del"),
                f"translate {npt.internal} to {npt.external} and back",
                read=f"{self.cli('show npt66 bindings')} | grep -F 'internal: ' || true",
                expected=expect_matching_line(rf"\[\d+\] {listed}", f"'{listed}'"),
                silent=True,
            )
        ]
