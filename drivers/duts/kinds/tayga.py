"""TAYGA: stateless translation in user space; with nftables behind it, stateful NAT64."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, map_rules
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import Conntracked
from v6t.drivers.duts.kinds.netfilter.nftables import load_table, translate_sources
from v6t.drivers.duts.kinds.tayga_reserved import refuse_pool, refuse_reserved, version_numbers
from v6t.drivers.duts.kinds.tun import TUN, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent, Step
from v6t.intent.families import DeviceConfig, MapTCeConfig, Nat64Config, SiitConfig

PROGRAM = "tayga"
WORKERS = (0, 9, 6, 10)
"""The first version with workers, as ``git describe`` counts them: ten commits after 0.9.6."""
OFFLINK_MTU = (0, 9, 6)
"""The first version with ``offlink-mtu``, which changes :data:`OWN_LOWEST_MTU`."""
OWN_LOWEST_MTU = 1280
"""Longest IPv6 packet that TAYGA makes of an IPv4 packet without DF."""


class TaygaOptions(TunOptions):
    """Options of TAYGA."""

    mend_checksums: bool = False
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, with a rule of nftables: one frame in
    65,536, which a next translator drops as IPv6 (RFC 8200 section 8.1)."""
    program: str = Field(default=PROGRAM, pattern=rf"^([A-Za-z0-9_./-]*/)?{PROGRAM}$")
    """Where the program is; its name is what its process is known by."""
    workers: int = Field(default=-1, ge=-1, le=64)
    """Threads that translate, each with a queue of the TUN device, in versions after 0.9.6; 0: the
    process itself with a single queue; -1: as it does by itself, one for each core in such a version."""


class Tayga(TunTranslator):
    """Stateless; one process, and in newer versions several threads of it."""

    name = "tayga"
    title = "TAYGA, stateless IPv4/IPv6 translation in user space"
    accepts: ClassVar[tuple[type[DeviceConfig], ...]] = (SiitConfig, MapTCeConfig)
    executed = (
        "configured, verified, measured and restored with real frames (Debian's 0.9.2-8; 0.9.6; "
        "0.9.6-16 with workers)"
    )
    versions = ("0.9.2-8", "0.9.6", "0.9.6-16")
    options_model = TaygaOptions
    process = PROGRAM
    display_name = "TAYGA"
    create_tun = "{program} -c {config} --mktun"
    remove_tun = "{program} -c {config} --rmtun"
    start = "{program} -c {config} -p {pid}"

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        program = self.options.program
        self.programs = {program: "tayga", **self.programs}
        if self.options.mend_checksums:
            self.programs = {**self.programs, "nft": "nftables"}
        # versions before 0.9.4 do not print theirs: what is left is the version of Debian's package
        package = "; dpkg-query -W -f '${Version}' tayga" if program == PROGRAM else ""
        self.version_command = f"{{ {program} --help 2>&1 | head -1{package}; }} 2>/dev/null"

    def read_version(self, text: str) -> str:
        """``TAYGA version 0.9.6``; else the package's, which has a line of its own."""
        printed = re.search(r"TAYGA version v?(\d\S*)", text)
        if printed:
            return printed.group(1)
        last = text.strip().rpartition("\n")[2]
        return last if re.fullmatch(r"\d\S*", last) else "unknown"

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        super().check_supported(intent, in_chain=in_chain)
        if isinstance(intent.configuration, MapTCeConfig) and not in_chain:
            raise cls.make_refusal(
                intent,
                "TAYGA looks at no port, and a CE has a set of them; behind a NAPT that does it can be one: "
                "`v6t run --plugin ipv4aas --variant map-t --set-dut parts.ce.driver=tayga`",
            )

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Refuse addresses that this version refuses, and workers before 0.9.6-10."""
        super().refuse(intent, facts)
        if self.options.workers >= 0 and not has_workers(facts.version):
            raise UsageError(
                f"TAYGA {facts.version} does not support workers",
                "leave dut.options.workers out, or name a later TAYGA than 0.9.6 with dut.options.program",
                dut_params={"workers": -1},
                code="unsupported-by-version",
            )
        refuse_reserved(intent, facts.version)

    def profile(self, intent: Intent) -> ExpectProfile:
        return ExpectProfile(
            further_hops=2,
            df="set",
            # which of both depends on the version, which is read only later
            dont_fragment="either",
            zero_checksum="never" if self.options.mend_checksums else "always",
            why="kernel, TAYGA and kernel each take a hop; of what was IPv6 0.9.2 sets DF, later "
            "ones only beyond 1,260 octets; where its UDP checksum comes out as 0 it writes 0, not "
            "0xFFFF",
        )

    def configuration(self, intent: Intent, facts: Facts) -> str:
        prefix, lowest = addresses.prefix_of(intent), addresses.table_of(intent).lowest_ipv6_mtu
        if version_numbers(facts.version) < OFFLINK_MTU:
            map_rules.refuse_lowest_mtu(
                lowest, f"TAYGA {facts.version} has no offlink-mtu", OWN_LOWEST_MTU
            )
        return self.config_text(
            intent,
            *([f"prefix {prefix}"] if prefix else []),
            *(f"map {four} {six}" for four, six in _mappings(intent)),
            *([f"offlink-mtu {lowest}"] if lowest != OWN_LOWEST_MTU else []),
        )

    def config_text(self, intent: Intent, *lines: str) -> str:
        """Return a configuration file with these lines."""
        own4, own6 = self.own_addresses(intent)
        workers = self.options.workers
        own = (f"tun-device {TUN}", f"ipv4-addr {own4}", f"ipv6-addr {own6}")
        # by default it chooses the number itself
        return "\n".join([*own, *lines, *([f"workers {workers}"] if workers >= 0 else []), ""])

    def steps_after_start(self, intent: Intent, facts: Facts) -> Sequence[Step]:
        """Write the checksums that TAYGA should have written."""
        if not self.options.mend_checksums:
            return ()
        return load_table(
            f"{self.options.state_dir}/mend.nft",
            "inet v6t_mend",
            "entry",
            # before connection tracking, which leaves a checksum of 0 as it is
            "type filter hook prerouting priority raw",
            [f'iifname "{TUN}" udp checksum 0 counter udp checksum set 65535'],
            "UDP checksums that come out as 0 are 0xffff (RFC 768)",
        )

    def plan_notes(self, facts: Facts) -> Sequence[str]:
        cores = (
            "each worker is a thread with a queue of the TUN device"
            if has_workers(facts.version) and self.options.workers
            else "one process on one core"
        )
        return (
            "IPv4 packets whose UDP checksum is 0 are dropped",
            f"{cores}; its drops are the TUN device's tx drops",
        )


def has_workers(version: str) -> bool:
    """Return whether a version translates in several threads: ``0.9.6-16-g8a028c7``, ``0.9.2-8``."""
    return version_numbers(version) >= WORKERS


def _mappings(intent: Intent) -> Iterator[tuple[str, str]]:
    """Yield mappings; a single host without prefix length, as in TAYGA's manual."""
    for four, six in addresses.eams(intent):
        if four.prefixlen + 96 != six.prefixlen:
            raise UsageError(
                f"TAYGA maps prefixes with equally many host bits only, not {four} to {six}",
                f"use an IPv6 prefix of /{four.prefixlen + 96} for {four}",
                params=addresses.with_equal_suffixes(intent),
                code="unsupported-by-device",
            )
        single = four.prefixlen == 32
        yield (str(four[0]), str(six[0])) if single else (str(four), str(six))


class TaygaNftablesOptions(TaygaOptions, nat.ConntrackOptions):
    """Options of both parts."""

    dynamic_pool: str = Field(default="192.168.255.0/24", pattern=r"^[0-9.]+/\d+$")
    """Private IPv4 network; TAYGA gives each client one of its addresses."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """As for TAYGA alone, but longer: every frame that a queue drops in phase 1 is a connection
    that was not made, and TAYGA is a process that now and then has to wait for a core."""
    mend_checksums: bool = True
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, with a rule of nftables: connection tracking,
    which is next, takes 0 for none and leaves it, so that one frame in 65,536 would lose its checksum."""


class TaygaNftables(Conntracked, Tayga):
    """TAYGA has no ports; nftables allocates them."""

    name = "tayga-nftables"
    title = "TAYGA with nftables: stateful NAT64"
    accepts = (Nat64Config,)
    executed = (
        "configured, verified, measured, flushed and restored with real frames (Debian's 0.9.2-8; 0.9.6-16 "
        "with workers)"
    )
    options_model = TaygaNftablesOptions
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    notes = ("TAYGA gives each IPv6 client an IPv4 address of its own, for two hours",)

    @property
    def pool(self) -> IPv4Network:
        """The IPv4 addresses of clients between TAYGA and the NAT44.

        Raises:
            UsageError: the option is not a network, or has no room for TAYGA and one client.
        """
        text = self.options.dynamic_pool
        try:
            network = IPv4Network(text)
        except ValueError as exc:
            raise UsageError(
                f"dut.options.dynamic_pool: {exc}",
                "give an IPv4 network",
                dut_params={"dynamic_pool": "192.168.255.0/24"},
                code="option-invalid",
            ) from exc
        if network.num_addresses < 4:
            raise UsageError(
                f"dut.options.dynamic_pool: {network} is too small for a client",
                "give a /30 or shorter",
                dut_params={"dynamic_pool": network.supernet(new_prefix=30)},
                code="not-enough-addresses",
            )
        return network

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Refuse a dynamic pool that the test uses, that TAYGA refuses, or that is too small."""
        super().refuse(intent, facts)
        pool = self.pool
        candidates = [f"{text.partition('/')[0]}/{pool.prefixlen}" for text in addresses.POOLS]
        wide_enough = candidates if pool.prefixlen >= 24 else []
        addresses.free("dynamic_pool", str(pool), wide_enough, addresses.in_use(intent))
        refuse_pool(pool, facts.version)
        clients = intent.configuration_as(Nat64Config).clients
        if clients > pool.num_addresses - 2:
            length = 32 - (clients + 1).bit_length()
            raise UsageError(
                f"{clients} clients do not fit TAYGA's dynamic pool {pool}: each takes an address",
                f"set dynamic_pool to a /{length} or shorter",
                dut_params={"dynamic_pool": f"10.0.0.0/{length}"},
                code="not-enough-addresses",
            )

    def ipv6_side(self, intent: Intent) -> str:
        """Return the clients' side."""
        del intent
        return "left"

    def translated_networks(self, intent: Intent) -> list[Any]:
        """Return the clients' IPv4 addresses, which conntrack restores before packets are filtered."""
        prefix = addresses.prefix_of(intent)
        return [self.pool, *([prefix] if prefix else [])]

    def own_addresses(self, intent: Intent) -> tuple[str, str]:
        """Return the first host of the dynamic pool, and an IPv6 address that the test does not use."""
        taken, o = addresses.in_use(intent), self.options
        own4 = addresses.free("ipv4_addr", o.ipv4_addr or str(self.pool[1]), (), taken)
        return own4, addresses.free("ipv6_addr", o.ipv6_addr, addresses.OWN6, taken)

    def configuration(self, intent: Intent, facts: Facts) -> str:
        prefix: IPv6Network | None = addresses.prefix_of(intent)
        if prefix is None:
            raise UsageError(
                "NAT64 needs a prefix",
                "set the plugin's parameter prefix",
                params={"prefix": "2001:db8:64::/96"},
                code="invalid-intent",
            )
        return self.config_text(
            intent,
            f"prefix {prefix}",
            f"dynamic-pool {self.pool}",
            f"data-dir {self.options.state_dir}",
        )

    @property
    def _forget_clients(self) -> str:
        return f"rm -f {self.options.state_dir}/dynamic.map"

    def steps_before_start(self) -> Sequence[Step]:
        why = "TAYGA starts without remembered clients"
        return (Step(self._forget_clients, why, undo=self._forget_clients),)

    def steps_after_start(self, intent: Intent, facts: Facts) -> Sequence[Step]:
        """Translate the clients' IPv4 addresses to public addresses and ports."""
        public = nat.pool_of(intent, can=("udp_timeout_s",))
        pool = nat.Pool((str(self.pool),), public.addresses, public.low, public.high)
        return (
            *super().steps_after_start(intent, facts),
            *translate_sources(self.options.state_dir, [pool], self.port(intent, "right")),
            *nat.conntrack(self.options, intent, facts),
            *nat.logging(self.options),
        )

    def flush(self, intent: Intent) -> Sequence[Step]:
        """Forget the clients, then the kernel's connections.

        What still waits in TAYGA's queue would make connections anew behind conntrack's back.
        """
        restart = Step(
            f"( {self.stop()} ) && {self._forget_clients} && {self.shell(self.start)}",
            "no client of an earlier trial is left",
            proof=self.run_translator().check,
        )
        return (restart, *nat.flush([str(self.pool)]))

    def plan_notes(self, facts: Facts) -> Sequence[str]:
        return self.notes
