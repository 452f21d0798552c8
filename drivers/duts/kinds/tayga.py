"""TAYGA: stateless translation in user space, and stateful NAT64 with nftables behind it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts, parse_version
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import addresses, softwires
from v6t.drivers.duts.kinds.addresses import EXAMPLE_PREFIX, WELL_KNOWN_PREFIX
from v6t.drivers.duts.kinds.netfilter import conntrack, nat
from v6t.drivers.duts.kinds.netfilter.nftables import make_snat_steps, make_table_steps
from v6t.drivers.duts.kinds.tun import TUN_NAME, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.intent.families import DeviceConfig, MapTCeConfig, Nat64Config, SiitConfig

PROGRAM = "tayga"
FIRST_WORKERS_VERSION = (0, 9, 6, 10)  # supports ``workers``; ten commits after 0.9.6
FIRST_OFFLINK_MTU_VERSION = (0, 9, 6)  # supports ``offlink-mtu``
FIRST_LOCAL_USE_VERSION = (0, 9, 2, 10)  # supports 64:ff9b:1::/48 (RFC 8215)
FIRST_CLASS_E_VERSION = (0, 9, 4)  # translates 240.0.0.0/4; treats 100.64.0.0/10 as private
FIRST_LINK_LOCAL_VERSION = (0, 9, 6)  # maps 169.254.0.0/16, and addresses in 64:ff9b::/96
NO_VERSION = (math.inf,)
# networks whose addresses TAYGA drops, with the first version that translates them
_DROPPED_NETWORKS = {
    IPv4Network("0.0.0.0/8"): NO_VERSION,
    IPv4Network("127.0.0.0/8"): NO_VERSION,
    IPv4Network("224.0.0.0/4"): NO_VERSION,
    IPv4Network("240.0.0.0/4"): FIRST_CLASS_E_VERSION,
    IPv4Network("255.255.255.255/32"): NO_VERSION,
    IPv4Network("169.254.0.0/16"): FIRST_LINK_LOCAL_VERSION,
}
# not translated behind the well-known prefix (RFC 6052 section 3.1)
_PRIVATE_NETWORKS = tuple(map(IPv4Network, (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
    "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
)))  # fmt: skip
_SHARED_ADDRESS_SPACE = IPv4Network("100.64.0.0/10")
# reserved, link-local and multicast addresses
_RESERVED_IPV6_NETWORKS = tuple(map(IPv6Network, ("::/8", "fe80::/10", "ff00::/8")))
_TRANSLATION_RANGE = IPv6Network("64:ff9b::/32")  # contains the prefixes of RFC 6052 and RFC 8215


class TaygaOptions(TunOptions):
    """Options of TAYGA."""

    mend_checksums: bool = False
    """Write 0xFFFF with nftables where TAYGA writes a UDP checksum of 0: for one frame in 65,536, which the
    next translator would drop as IPv6 (RFC 8200 section 8.1)."""
    program: str = Field(default=PROGRAM, pattern=rf"^([A-Za-z0-9_./-]*/)?{PROGRAM}$")
    """Path of the program; the process is recognized by its file name."""
    workers: int = Field(default=-1, ge=-1, le=64)
    """Threads that translate, each with a queue of the TUN device, in versions after 0.9.6; 0: the process
    itself with a single queue; -1: TAYGA's default, one for each core in these versions."""


class Tayga(TunTranslator):
    """Driver for TAYGA, whose newer versions translate in several threads."""

    name = "tayga"
    title = "TAYGA, stateless IPv4/IPv6 translation in user space"
    supported_configurations: ClassVar[tuple[type[DeviceConfig], ...]] = (SiitConfig, MapTCeConfig)
    test_status = "measured and restored with real frames (0.9.2-8, 0.9.6, 0.9.6-16 with workers)"
    versions = ("0.9.2-8", "0.9.6", "0.9.6-16")
    options_model = TaygaOptions
    process_name = PROGRAM
    display_name = "TAYGA"
    create_tun_command = "{program} -c {config} --mktun"
    remove_tun_command = "{program} -c {config} --rmtun"
    start_command = "{program} -c {config} -p {pid}"
    program_source = "tayga"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        program = self.options.program
        if self.options.mend_checksums:
            self.programs = {**self.programs, "nft": "nftables"}
        # versions before 0.9.4 print none; the last line is the version of Debian's package
        package = "; dpkg-query -W -f '${Version}' tayga" if program == PROGRAM else ""
        self.version_command = f"{{ {program} --help 2>&1 | head -1{package}; }} 2>/dev/null"

    def extract_version(self, output: str) -> str:
        """Return the version that TAYGA prints, else the version of its package in the last line."""
        if match := re.search(r"TAYGA version v?(\d\S*)", output):
            return match.group(1)
        last = output.strip().rpartition("\n")[2]
        return last if re.fullmatch(r"\d\S*", last) else "unknown"

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        super().check_supported(intent, in_chain=in_chain)
        if isinstance(intent.configuration, MapTCeConfig) and not in_chain:
            place = "--plugin ipv4aas --set variant=map-t --set-dut parts.ce.driver=tayga"
            raise cls.make_refusal(intent, f"TAYGA does not check ports: use it with {place}")

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        if self.options.workers >= 0 and parse_version(facts.version) < FIRST_WORKERS_VERSION:
            problem = f"TAYGA {facts.version} does not support workers"
            hint = "leave workers out, or name a later version than 0.9.6 with dut.options.program"
            instead = {"workers": -1}
            raise UsageError(problem, hint, dut_params=instead, code="unsupported-by-version")
        check_reserved_networks(intent, facts.version)

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        return HeaderProfile(
            further_hops=2,
            df="set",
            # which of both applies depends on the version, which is read later
            dont_fragment="either",
            zero_checksum="never" if self.options.mend_checksums else "always",
            why="kernel, TAYGA and kernel each decrement the TTL; 0.9.2 sets DF, later ones beyond "
            "1,260 octets; a UDP checksum may be 0",
        )

    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        table = addresses.get_siit_config(intent)
        prefix, lowest = table.prefix, table.lowest_ipv6_mtu
        if parse_version(facts.version) < FIRST_OFFLINK_MTU_VERSION:
            why = f"TAYGA {facts.version} has no offlink-mtu"
            softwires.check_lowest_mtu(lowest, why, softwires.DEFAULT_LOWEST_MTU)
        return self.format_configuration(
            intent,
            *([f"prefix {prefix}"] if prefix else []),
            # a single host without prefix length, as in TAYGA's manual
            *(
                f"map {four[0]} {six[0]}" if four.prefixlen == 32 else f"map {four} {six}"
                for four, six in addresses.list_equal_size_mappings(intent, "TAYGA")
            ),
            *([f"offlink-mtu {lowest}"] if lowest != softwires.DEFAULT_LOWEST_MTU else []),
        )

    def format_configuration(self, intent: Intent, *lines: str) -> str:
        """Return TAYGA's configuration file with its own addresses, its workers and other lines."""
        own4, own6 = self.choose_translator_addresses(intent)
        workers = self.options.workers
        own = (f"tun-device {TUN_NAME}", f"ipv4-addr {own4}", f"ipv6-addr {own6}")
        more = [f"workers {workers}"] if workers >= 0 else []  # otherwise TAYGA chooses the number
        return "\n".join([*own, *lines, *more, ""])

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        cores = "one process on one core"
        if parse_version(facts.version) >= FIRST_WORKERS_VERSION and self.options.workers:
            cores = "each worker is a thread with a queue of the TUN device"
        notes = (
            "IPv4 packets whose UDP checksum is 0 are dropped",
            f"{cores}; its drops are the TUN device's tx drops",
        )
        plan = super().plan_configuration(intent, facts)
        return plan.extend(self._make_mend_steps(), notes=notes)

    def _make_mend_steps(self) -> Sequence[Step]:
        if not self.options.mend_checksums:
            return ()
        file = f"{self.options.state_dir}/mend.nft"
        why = "computed UDP checksums of 0 are sent as 0xffff (RFC 768)"
        # before connection tracking, which leaves a checksum of 0 as it is
        hook = "type filter hook prerouting priority raw"
        rule = f'iifname "{TUN_NAME}" udp checksum 0 counter udp checksum set 65535'
        return make_table_steps(file, "inet v6t_mend", "entry", hook, [rule], why)


def check_reserved_networks(intent: Intent, version: str) -> None:
    """Raise UsageError if the intent uses a prefix, or a mapping's or host's address, that TAYGA reserves."""
    numbers, prefix = parse_version(version), addresses.get_siit_config(intent).prefix
    use_example = f"use a prefix of your own, for example {EXAMPLE_PREFIX}"
    if prefix is not None and _is_reserved_prefix(prefix, numbers):
        problem = f"TAYGA {version} does not accept the prefix {prefix}"
        instead = addresses.suggest_prefix(intent)
        raise UsageError(problem, use_example, params=instead, code="unsupported-by-version")
    # mappings that this version does not support
    within = WELL_KNOWN_PREFIX if numbers >= FIRST_CLASS_E_VERSION else _TRANSLATION_RANGE
    for ipv4, ipv6 in addresses.get_siit_config(intent).eam:
        is_unmapped = numbers < FIRST_LINK_LOCAL_VERSION and ipv6.overlaps(within)
        if is_unmapped or _is_reserved_prefix(ipv6, numbers):
            problem = f"TAYGA {version} does not map {ipv4} to {ipv6}"
            raise UsageError(problem, "choose another IPv6 prefix", code="unsupported-by-version")
    if prefix is None or prefix.network_address != WELL_KNOWN_PREFIX.network_address:
        return
    shared = [_SHARED_ADDRESS_SPACE] if numbers >= FIRST_CLASS_E_VERSION else []
    private = (*_PRIVATE_NETWORKS, *shared)
    for net in _iter_unmapped_hosts(intent):
        if any(net.overlaps(reserved) for reserved in private):
            problem = f"TAYGA does not translate {net} behind {WELL_KNOWN_PREFIX} (RFC 6052, 3.1)"
            instead = addresses.suggest_prefix(intent)
            raise make_unsupported_error(problem, use_example, params=instead)


def _is_reserved_prefix(prefix: IPv6Network, version: tuple[int, ...]) -> bool:
    well_known = _TRANSLATION_RANGE if version >= FIRST_LOCAL_USE_VERSION else WELL_KNOWN_PREFIX
    return not prefix.subnet_of(well_known) and any(map(prefix.overlaps, _RESERVED_IPV6_NETWORKS))


def _iter_unmapped_hosts(intent: Intent) -> Iterator[IPv4Network]:
    """Yield the IPv4 networks of hosts that are translated by the prefix, not by a mapping."""
    config = addresses.get_siit_config(intent)
    for net in addresses.find_host_networks(intent, 4):
        if not any(net.subnet_of(ipv4) for ipv4, _ in config.eam):
            yield net
    for net in addresses.find_host_networks(intent, 6):
        is_mapped = any(net.subnet_of(ipv6) for _, ipv6 in config.eam)
        if config.prefix is not None and not is_mapped and net.subnet_of(config.prefix):
            yield addresses.extract_ipv4_network(config.prefix, net)


class TaygaNftablesOptions(TaygaOptions, conntrack.ConntrackOptions):
    """Options of TAYGA and of the kernel's connection tracking."""

    dynamic_pool: IPv4Network = IPv4Network("192.168.255.0/24")
    """Private IPv4 network; TAYGA gives each client one of its addresses."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops: each lost frame of phase 1 is a missing connection."""
    mend_checksums: bool = True
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, which to conntrack is an absent checksum."""


class TaygaNftables(conntrack.ConntrackDriver, Tayga):
    """Driver for stateful NAT64 by TAYGA and nftables; the latter allocates the ports."""

    name = "tayga-nftables"
    title = "TAYGA with nftables: stateful NAT64"
    supported_configurations = (Nat64Config,)
    test_status = "measured, flushed and restored with real frames (0.9.2-8, 0.9.6-16 with workers)"
    options_model = TaygaNftablesOptions
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    notes = ("TAYGA gives each IPv6 client a separate IPv4 address for two hours",)

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        pool = self.options.dynamic_pool
        if pool.num_addresses < 4:
            problem = f"dut.options.dynamic_pool: {pool} is too small for a client"
            instead = {"dynamic_pool": pool.supernet(new_prefix=30)}
            hint = "give a /30 or shorter"
            raise UsageError(problem, hint, dut_params=instead, code="not-enough-addresses")
        length, taken = pool.prefixlen, addresses.find_test_networks(intent)
        candidates = [f"{first}/{length}" for first in addresses.POOL_CANDIDATES if length >= 24]
        addresses.choose_free_address("dynamic_pool", str(pool), candidates, taken)
        for net, first_version in _DROPPED_NETWORKS.items():
            if pool.overlaps(net) and parse_version(facts.version) < first_version:
                problem = f"TAYGA {facts.version} drops {net} of the dynamic pool {pool}"
                hint = "choose other IPv4 addresses"
                raise UsageError(problem, hint, code="unsupported-by-version")
        if (clients := intent.get_configuration(Nat64Config).clients) > pool.num_addresses - 2:
            length = 32 - (clients + 1).bit_length()
            problem = f"{clients} clients do not fit TAYGA's dynamic pool {pool}: one address each"
            hint = f"set dynamic_pool to a /{length} or shorter"
            instead = {"dynamic_pool": f"10.0.0.0/{length}"}
            raise UsageError(problem, hint, dut_params=instead, code="not-enough-addresses")

    def find_translated_networks(self, intent: Intent) -> list[Any]:
        # conntrack restores the clients' IPv4 addresses before packets are filtered
        return [self.options.dynamic_pool, intent.get_configuration(Nat64Config).prefix]

    @property
    def ipv4_candidates(self) -> Sequence[str]:
        return (str(self.options.dynamic_pool[1]),)

    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        return self.format_configuration(
            intent,
            f"prefix {intent.get_configuration(Nat64Config).prefix}",
            f"dynamic-pool {self.options.dynamic_pool}",
            f"data-dir {self.options.state_dir}",
        )

    @property
    def _delete_clients_command(self) -> str:
        return f"rm -f {self.options.state_dir}/dynamic.map"

    def make_preparation_steps(self) -> Sequence[Step]:
        why = "TAYGA starts without remembered clients"
        return (Step(self._delete_clients_command, why, undo=self._delete_clients_command),)

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        clients, port = (str(self.options.dynamic_pool),), self.get_ports(intent)["right"]
        public = nat.get_pool(intent, supported_settings=("udp_timeout_s",))
        pool = replace(public, client_networks=clients)
        rules = make_snat_steps(self.options.state_dir, [pool], port)
        tracking = self.make_tracking_steps(intent, facts, rules)
        stop, start = self.make_stop_command(), self.fill_in(self.start_command)
        # clears TAYGA's client table and queue
        command = f"( {stop} ) && {self._delete_clients_command} && {start}"
        why = "no client of an earlier trial is left"
        restart = Step(command, why, proof=self.make_daemon_step().check)
        flush = (restart, *conntrack.make_flush_steps(clients))
        plan = super().plan_configuration(intent, facts)
        return plan.extend(tracking, flush=flush, notes=self.notes)
