"""NAT44, NAT64, NPTv6 and DS-Lite of VPP, each by one of its plugins."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts import plan
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.vpp import links, outputs, process
from v6t.drivers.duts.kinds.vpp.function import DEFAULT_UDP_TIMEOUT_S, START_HINT, VppFunction
from v6t.drivers.duts.readings import ParameterOverride, Reading
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import Address, LinkIntent
from v6t.intent.families import DsLiteAftrConfig, Nat44Config, Nat64Config, NatConfig, NptConfig

MIN_NAT64_BUCKETS = 1024  # VPP's default, and the least that v6t configures
SESSIONS_PER_BUCKET = 10  # capacity of a bucket (nat64_db.c)
FIRST_NPT66_VERSION = (24, 2)  # first with ``show npt66 bindings``; the plugin came with 23.10
DEFAULT_SESSIONS = 63 * 1024  # VPP's default capacity of each worker
FIRST_CLEARING_VERSION = (25, 2)  # first with ``clear nat44 ed sessions``
SUPPORTED_PORTS = (1024, 65535)  # first and last port that VPP allocates on public addresses
SPARE_VRF = 4086  # a VRF without interfaces


class VppNat(VppFunction):
    """Base class of VPP's NATs with public addresses and ports."""

    command_noun: ClassVar[str]  # name of the plugin in commands
    supported_settings: ClassVar[tuple[str, ...]] = ()  # beyond addresses and ports
    # arguments of ``show`` for existing configuration, which disabling the plugin would delete
    tables: ClassVar[tuple[str, ...]] = ("addresses", "interfaces", "static mappings")
    table_command: ClassVar[str]  # VPP command whose output shows the number of sessions
    parse_sessions: ClassVar[Callable[[str], Mapping[str, float]]]  # parses this output
    empty_test: ClassVar[str]  # succeeds if ``TABLE``, the output of ``table_command``, is empty
    session_noun: ClassVar[str] = "session"  # name of a session in messages

    @property
    def pool(self) -> nat.NatPool:
        """Public addresses and ports; raises UsageError for ports that VPP never allocates."""
        pool = nat.get_pool(self.intent, supported_settings=self.supported_settings)
        if (pool.first_port, pool.last_port) != SUPPORTED_PORTS:
            low, high = SUPPORTED_PORTS
            problem = f"VPP's NAT gives out ports {low} to {high}, not {pool.first_port} to {pool.last_port}"
            instead = {"pool_ports": {"min": low, "max": high}}
            hint = "leave pool_ports out, or choose another driver"
            raise make_unsupported_error(problem, hint, params=instead)
        return pool

    @property
    def address_range(self) -> str:
        """The public addresses as VPP's commands expect them."""
        first, last = self.pool.addresses[0], self.pool.addresses[-1]
        return first if first == last else f"{first} - {last}"

    def make_enable_command_step(self, words: str, why: str, **fields: Any) -> plan.Step:
        """Return the step that enables the plugin, unless it has been configured before."""
        enable = self.cli(f"{self.command_noun} plugin enable{words}")
        disable = self.cli(f"{self.command_noun} plugin disable")
        # exists if v6t has enabled the plugin; nothing shows whether the operator has
        mark = f"{self.options.state_dir}/{process.ENABLED_FILE}"
        show = "; ".join(self.cli(f"show {self.command_noun} {table}") for table in self.tables)
        return plan.Step(
            f"{enable} | grep '[a-z]' || touch {mark}",
            why,
            # titles of the tables begin with a letter, their rows with a space or a digit
            read=f"{{ {show}; }} | grep -e '^[ 0-9]' || true",
            undo=f"[ ! -e {mark} ] || {{ {disable}; rm {mark}; }}",
            existing=plan.IfExists.REFUSE,
            silent=True,
            **fields,
        )

    def make_pool_step(self, verb: str, table: str, *, keep: bool = False) -> plan.Step:
        """Return the step that adds the public addresses; ``keep`` omits its undo command."""
        addresses = set(self.pool.addresses)
        command = f"{self.command_noun} {verb} {self.address_range}"
        why, undo = f"public addresses of {self.command_noun}", "" if keep else f"{command} del"
        read = self.cli(f"show {self.command_noun} {table}")
        expected = plan.expect_output(
            lambda out: addresses <= set(outputs.parse_pool_addresses(out)),
            f"'{self.address_range}'",
            f"the public addresses are not {self.address_range}",
        )
        return self.cli.make_step(command, why, read=read, expected=expected, undo=undo)

    def make_interfaces_step(self) -> plan.Step:
        left, right = self.ports["left"], self.ports["right"]
        command = f"set interface {self.command_noun} in {left} out {right}"
        why, undo = "the clients' side and the public side", f"{command} del"
        read = self.cli(f"show {self.command_noun} interfaces")
        expected = plan.expect_lines(f"{left} in", f"{right} out")
        return self.cli.make_step(command, why, read=read, expected=expected, undo=undo)

    def list_clearing_commands(self, version: str) -> list[str]:
        """Return the shell lines that clear the sessions, by default by removing and recreating the NAT."""
        steps = self.make_steps(version)
        undo = [s.undo for s in reversed(steps) if s.undo and "{old}" not in s.undo]
        return undo + [s.command for s in steps]

    def make_flush_steps(self, version: str, steps: Sequence[plan.Step]) -> tuple[plan.Step, ...]:
        flush, show = " ; ".join(self.list_clearing_commands(version)), self.cli(self.table_command)
        test = self.empty_test.replace("TABLE", show)
        # queued frames of the last trial may still create sessions
        command = f"for i in 1 2 3 4 5 6 7 8; do {flush}; sleep 0.1; {test} && break; done"
        proof = plan.Check(show, plan.expect_max_sessions(self.parse_sessions, self.session_noun))
        return (plan.Step(command, "no session of an earlier trial is left", proof=proof),)


class VppNat44(VppNat):
    """Base class of VPP's NAT44 plugins."""

    @abstractmethod
    def make_enable_step(self, capacity: int) -> plan.Step:
        """Return the step that enables the plugin with room for ``capacity`` sessions per worker."""

    def get_session_reading(self) -> Reading:
        return Reading(self.cli(self.table_command), self.parse_sessions)

    def make_steps(self, version: str) -> list[plan.Step]:
        return [
            self.make_enable_step(self.get_capacity()),
            self.make_pool_step("add address", "addresses"),
            self.make_interfaces_step(),
            *self._make_timeout_steps(),
        ]

    def get_capacity(self) -> int:
        limit = self.intent.get_configuration(NatConfig).session_limit
        wanted = self.options.sessions or self.intent.requirements.sessions
        return limit or max(wanted, DEFAULT_SESSIONS)

    def _make_timeout_steps(self) -> list[plan.Step]:
        if not (lives_s := self.get_configured_timeout_s()):
            return []
        # this command has another name for the endpoint-dependent plugin
        noun = self.command_noun if self.command_noun.endswith("ei") else "nat"
        command, show = f"set {noun} timeout udp", self.cli(f"show {noun} timeouts")
        write, expected = self.cli(f"{command} {lives_s}"), plan.expect_text(lives_s)
        why = "sessions live longer than any test: expiry would look like loss"
        read = f"{show} | sed -n 's/^udp timeout: *\\([0-9]*\\) *sec.*/\\1/p'"
        undo = "[ -z {old} ] || " + self.cli(f"{command} {{words}}")
        return [plan.Step(write, why, read=read, expected=expected, undo=undo, silent=True)]

    def make_live_change(self) -> plan.DeviceChange:
        """Return a change of a public address that no connection uses, in a separate VRF."""
        first = find_spare_network(self.intent, 4).network_address + 77
        second, add = first + 1, f"{self.command_noun} add address"
        show, vrf = self.cli(f"show {self.command_noun} addresses"), f"tenant-vrf {SPARE_VRF}"

        def make_removal_command(address: Address) -> str:
            return f"if {show} | grep -wqF {address}; then {self.cli(f'{add} {address} del')}; fi"

        return plan.DeviceChange(
            "a public address",
            add_command=self.cli(f"{add} {first} {vrf}"),
            change_command=f"{make_removal_command(first)}; {self.cli(f'{add} {second} {vrf}')}",
            remove_command=f"{make_removal_command(first)}; {make_removal_command(second)}",
            show_command=f"{show} | grep -wF -e {first} -e {second} || true",
            added_words=str(first),
            changed_words=str(second),
            note="changed by removing it and adding another one",
        )


class EndpointDependentNat44(VppNat44):
    """VPP's endpoint-dependent plugin ``nat``: one session per connection, random ports."""

    plugin = "nat"
    command_noun = "nat44"
    session_counter = "/nat44-ed/total-sessions"
    supported_settings = ("udp_timeout_s", "session_limit")
    table_command = "show nat44 summary"
    empty_test = "TABLE | grep -q '^total sessions: 0 '"
    parse_sessions = staticmethod(outputs.parse_nat44_sessions)

    def make_enable_step(self, capacity: int) -> plan.Step:
        # a disabled plugin also lists sessions: none
        size = rf"max translations per thread: {capacity} fib 0"
        expected = plan.expect_matching_line(size, f"room for {capacity} sessions")
        why = f"endpoint-dependent NAT44 with room for {capacity} sessions per worker"
        proof = plan.Check(self.cli(self.table_command), expected)
        return self.make_enable_command_step(f" sessions {capacity}", why, proof=proof)

    def list_clearing_commands(self, version: str) -> list[str]:
        if parse_version(version) < FIRST_CLEARING_VERSION:
            return super().list_clearing_commands(version)
        return [self.cli("clear nat44 ed sessions")]


class EndpointIndependentNat44(VppNat44):
    """VPP's plugin ``nat44_ei``: one session per inside address and port (RFC 4787 REQ-1)."""

    plugin = "nat44_ei"
    command_noun = "nat44 ei"
    session_counter = "/nat44-ei/total-sessions"
    supported_settings = ("session_limit",)
    has_endpoint_independent_mapping = True
    table_command = "show nat44 ei sessions"
    empty_test = "! TABLE | grep -q ': [1-9][0-9]* sessions'"
    parse_sessions = staticmethod(outputs.parse_nat44_ei_sessions)
    DEFAULT_MAX_USERS = 1024  # VPP's default maximum number of clients

    def make_enable_step(self, capacity: int) -> plan.Step:
        nets = self.intent.get_configuration(Nat44Config).inside4
        users = max(self.DEFAULT_MAX_USERS, sum(net.num_addresses for net in nets))
        why = f"endpoint-independent NAT44 with room for {capacity} sessions per worker"
        return self.make_enable_command_step(f" sessions {capacity} users {users}", why)

    def list_clearing_commands(self, version: str) -> list[str]:
        """Return the shell lines that remove and re-add the public addresses, which frees all ports.

        ``clear nat44 ei sessions`` forgets sessions and leaves their ports in use
        (nat44_ei_sessions_clear): after 64,512 of them over all trials no address has one left.
        """
        add = self.cli(f"nat44 ei add address {self.address_range}")
        return [f"{add} del", add]

    def get_timeout_s(self) -> float | None:
        """Return None: an idle session stays until a new one replaces it in the hash table."""
        return None


class VppNat64(VppNat):
    """VPP as a stateful NAT64 translator."""

    plugin = "nat64"
    command_noun = "nat64"
    tables = ("pool", "interfaces", "prefix", "bib all")
    session_counter = "/nat64/total-sessions"
    table_command = "show nat64 bib all"
    empty_test = "! TABLE | grep -vq -e BIB -e '^$'"
    parse_sessions = staticmethod(outputs.parse_bindings)
    session_noun = "binding"
    supported_settings = ("session_limit",)
    notes = ("no command sets NAT64's timeout: idle sessions live 300 s",)
    profile = HeaderProfile(
        absent_checksum=True,
        why="VPP computes no UDP checksum for IPv4 packets from IPv6 or from a tunnel",
    )

    def choose_bucket_count(self) -> int:
        """Return the number of hash buckets for the session limit or the required sessions."""
        if limit := self.intent.get_configuration(NatConfig).session_limit:
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

    def make_steps(self, version: str) -> list[plan.Step]:
        cli, buckets = self.cli, self.choose_bucket_count()
        prefix = self.intent.get_configuration(Nat64Config).prefix
        why, words = f"NAT64 with room for {SESSIONS_PER_BUCKET * buckets} sessions", ""
        if buckets != MIN_NAT64_BUCKETS:
            memory = max(256 << 20, 2048 * buckets)
            sizes = f"{buckets} bib-memory {memory} st-buckets {buckets} st-memory {memory}"
            words = f" bib-buckets {sizes}"
        add, undo = f"nat64 add prefix {prefix}", f"nat64 del prefix {prefix}"
        embed, read = "IPv4 destinations as IPv6 addresses", cli("show nat64 prefix")
        expected = plan.expect_lines(f"{prefix} tenant-vrf 0")
        return [
            self.make_enable_command_step(words, why),
            cli.make_step(add, embed, read=read, expected=expected, undo=undo),
            # removing only the address would keep its count of used ports for the next
            # one (nat64_add_del_pool_addr): after 64511 bindings over all trials none would be left
            self.make_pool_step("add pool address", "pool", keep=True),
            self.make_interfaces_step(),
        ]

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
            problem = f"VPP {version} has no command `show npt66 bindings`, which checks NPTv6"
            hint = f"install VPP {first} or newer"
            raise UsageError(problem, hint, code="unsupported-by-version")

    def make_steps(self, version: str) -> list[plan.Step]:
        npt = self.intent.get_configuration(NptConfig)
        pair = f"internal {npt.internal} external {npt.external}"
        binding = f"set npt66 binding interface {self.ports['right']} {pair}"
        listed = f"internal: {npt.internal} external: {npt.external}"
        create, delete = self.cli(binding), self.cli(f"{binding} del")
        why = f"translate {npt.internal} to {npt.external} and back"
        read = f"{self.cli('show npt66 bindings')} | grep -F 'internal: ' || true"
        expected = plan.expect_matching_line(rf"\[\d+\] {listed}", f"'{listed}'")
        return [make_object_step(create, delete, why, read=read, expected=expected, silent=True)]


MAX_SESSIONS_PER_B4 = 1000  # a further one silently replaces the oldest (dslite_in2out.c)
_SESSION_LIMIT_REASON = f"VPP silently drops all but {MAX_SESSIONS_PER_B4} sessions of a B4"
# public addresses to suggest to the user; two, since the device may already have one of them
_SUGGESTED_PUBLIC_ADDRESSES = ("198.19.0.1", "192.0.2.1")


class DsLite(VppNat):
    """VPP as a DS-Lite AFTR (RFC 6333)."""

    plugin = "dslite"
    session_counter = "/dslite/total-sessions"
    notes = ("only a restart of VPP clears the session table, which adds seconds to each trial",)
    parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {
        # enough ports for the default number of connections
        "initiator_count": ParameterOverride(100, _SESSION_LIMIT_REASON),
        "initiator_ports": ParameterOverride(
            {"min": 4096, "max": 4607}, "that many B4s share the public ports"
        ),
    }
    profile = HeaderProfile(
        absent_checksum=True,
        tunnel_hop_limit=63,
        tunnel_keeps_ttl=True,
        why="packets from the tunnel have no UDP checksum; those into it are routed with hop limit 64",
    )

    @property
    def aftr_config(self) -> DsLiteAftrConfig:
        return self.intent.get_configuration(DsLiteAftrConfig)

    def check_supported(self, version: str) -> None:
        if not self.options.starts_vpp:
            problem = "VPP cannot remove the AFTR's tunnel address unless v6t starts it"
            raise make_unsupported_error(problem, START_HINT, dut_params={"start": True})
        own_ips = [interface.ip for interface in self.intent.right.addresses]
        for address in self.aftr_config.pool4:
            if address in own_ips:
                suggested = map(IPv4Address, _SUGGESTED_PUBLIC_ADDRESSES)
                instead = {"pool_first": str(next(a for a in suggested if a not in own_ips))}
                problem = f"VPP's AFTR cannot translate to {address}, the device's own address"
                raise make_unsupported_error(problem, "choose other addresses", params=instead)
        b4s, required = self.aftr_config.b4_count, self.intent.requirements.sessions
        if required > MAX_SESSIONS_PER_B4 * b4s:
            most, instead = MAX_SESSIONS_PER_B4, -(-required // MAX_SESSIONS_PER_B4)
            problem = f"VPP's AFTR keeps {most} sessions per B4: {required} need {instead} B4s"
            hint = f"measure more B4s, or at most {most * b4s} connections"
            raise make_unsupported_error(problem, hint, params={"initiator_count": instead})

    def get_link_setup(self, side: str) -> tuple[LinkIntent, Sequence[plan.Step]]:
        """Return the link without the AFTR's address, and steps that attach its network instead."""
        link, extra_steps = super().get_link_setup(side)
        if side != "left":
            return link, extra_steps
        aftr, port, cli = self.aftr_config.aftr, self.ports["left"], self.cli
        local = tuple(a for a in link.addresses if a.ip != aftr)
        nets = [str(a.network) for a in link.addresses if a.ip == aftr]
        why = "IPv6 without an address: the AFTR's must not be an interface's"
        steps = [cli.make_step(f"enable ip6 interface {port}", why, existing=plan.IfExists.RESTORE)]
        for net in nets:
            why = f"{net} is on {port}"
            steps.append(links.make_route_step(cli, net, port, why, plan.IfExists.NONE))
        return replace(link, addresses=local), steps if nets else ()

    def make_steps(self, version: str) -> list[plan.Step]:
        make_step = partial(self.cli.make_step, existing=plan.IfExists.RESTORE)
        aftr = self.aftr_config.aftr
        add, why = f"dslite add pool address {self.address_range}", "public addresses of DS-Lite"
        read, expected = self.cli("show dslite pool"), plan.expect_lines(*self.pool.addresses)
        pool = make_step(add, why, read=read, expected=expected)
        write, why = f"dslite set aftr-tunnel-endpoint-address {aftr}", "where the B4s' tunnels end"
        read = self.cli("show dslite aftr-tunnel-endpoint-address")
        return [pool, make_step(write, why, read=read, expected=plan.expect_text(aftr))]

    def make_flush_steps(self, version: str, steps: Sequence[plan.Step]) -> tuple[plan.Step, ...]:
        """Return the step that restarts VPP."""

        def describe_remaining_sessions(output: str) -> str | None:
            if rows := [line for line in output.splitlines() if line.startswith("B4")]:
                return f"sessions of {len(rows)} B4s remain"
            # without B4s it prints nothing
            return "VPP does not answer" if output.strip() else None

        expected = plan.Expectation("no session", describe_remaining_sessions)
        check = plan.Check(f"{self.cli('show dslite sessions')} 2>&1", expected)
        return (process.make_restart_step(steps, check),)

    def get_capacity(self) -> int:  # each B4 has its own
        return MAX_SESSIONS_PER_B4 * self.aftr_config.b4_count

    def get_timeout_s(self) -> float | None:
        return None
