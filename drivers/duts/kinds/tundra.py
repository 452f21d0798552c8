"""Tundra-NAT64, stateless: SIIT by a prefix, CLAT of a single host."""

from collections.abc import Mapping
from ipaddress import IPv6Network
from typing import Any

from pydantic import Field
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.tun import TUN_NAME, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.steps import make_background_command
from v6t.intent.families import ClatConfig, SiitConfig

PROGRAM = "tundra-nat64"
_NO_MAPPINGS = "Tundra does not support explicit mappings: both ends have addresses in one prefix"
_SINGLE_HOST = "Tundra's CLAT translates a single address of the customer"
PARAMETER_OVERRIDES = {  # supported defaults by technology and parameter
    "siit": {
        "eam": ParameterOverride([], _NO_MAPPINGS),
        "prefix": ParameterOverride(addresses.EXAMPLE_PREFIX, _NO_MAPPINGS),
    },
    "clat": {
        "clat_ipv4": ParameterOverride("198.18.0.2/32", _SINGLE_HOST),
        "clat_ipv6": ParameterOverride("2001:2:0:2::2/128", _SINGLE_HOST),
    },
}


class TundraOptions(TunOptions):
    """Options of Tundra."""

    program: str = Field(default=PROGRAM, pattern=rf"^([A-Za-z0-9_./-]*/)?{PROGRAM}$")
    """Path of the program; the process is recognized by its file name."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads that translate; 0: one for each core, Tundra's default."""
    multi_queue: bool = False
    """Create a queue of the TUN device for each thread instead of one for all."""


class Tundra(TunTranslator):
    """Driver for Tundra-NAT64, which translates behind a TUN device."""

    name = "tundra"
    title = "Tundra-NAT64, stateless IPv4/IPv6 translation in user space by several threads"
    supported_configurations = (SiitConfig,)
    test_status = "measured and restored with real frames (6.0.2)"
    versions = ("6.0.2",)
    options_model = TundraOptions
    process_name = PROGRAM
    program_source = "https://github.com/vitlabuda/tundra-nat64"
    version_command = "{program} --version 2>&1 | head -1"
    version_pattern = r"\bv(\d+(?:\.\d+)+)"
    display_name = "Tundra"
    create_tun_command = "{program} -c {config} mktun"
    remove_tun_command = "{program} -c {config} rmtun"
    start_command = make_background_command("{pid}", "{program} -c {config} translate", "{log}")
    notes = (
        "IPv4 and IPv6 packets whose UDP checksum is 0 are dropped",
        "its threads may change the order of packets; frames that it does not read are the TUN device's tx "
        "drops",
    )
    header_profile = HeaderProfile(
        further_hops=2, why="kernel, Tundra and kernel each decrement the TTL"
    )

    def get_parameter_overrides(self, technology: str) -> Mapping[str, ParameterOverride]:
        return PARAMETER_OVERRIDES.get(technology, {})

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        table = addresses.get_siit_config(intent).eam
        if table and not isinstance(intent.configuration, ClatConfig):
            four, six = table[0]
            problem = f"Tundra does not support explicit mappings such as {four} = {six}"
            hint = "give both ends addresses in one prefix"
            instead = {"eam": [], "prefix": addresses.EXAMPLE_PREFIX}
            raise make_unsupported_error(problem, hint, params=instead)
        self._get_prefix(intent)
        self._get_single_host_addresses(intent)
        addresses.check_lowest_mtu(intent, self.display_name)

    def _get_prefix(self, intent: Intent) -> IPv6Network:
        prefix = addresses.get_siit_config(intent).prefix
        if prefix is None or prefix.prefixlen != 96:
            problem = f"Tundra translates a prefix of /96, not {prefix or 'mappings alone'}"
            hint = f"give a /96, for example {addresses.EXAMPLE_PREFIX}"
            raise make_unsupported_error(problem, hint, params=addresses.suggest_prefix(intent))
        return prefix

    def _get_single_host_addresses(self, intent: Intent) -> tuple[Any, ...]:
        """Return the IPv4 and the IPv6 address of a CLAT's only host; an empty tuple for SIIT."""
        if not isinstance(intent.configuration, ClatConfig):
            return ()
        table = addresses.get_siit_config(intent).eam
        if len(table) != 1 or table[0][0].num_addresses > 1:
            problem = f"Tundra's CLAT translates one address, not {', '.join(str(four) for four, _ in table)}"
            instead = {name: own.value for name, own in PARAMETER_OVERRIDES["clat"].items()}
            raise make_unsupported_error(problem, "map a single host", params=instead)
        return tuple(net[0] for net in table[0])

    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        """Return the configuration file with all settings, since Tundra has no defaults."""
        four, six = self.choose_translator_addresses(intent)
        mtu = {v: getattr(intent.links, addresses.get_side(intent, v)).mtu for v in (4, 6)}
        o = self.options
        lines = [
            f"program.translator_threads = {o.threads or ''}",
            "program.privilege_drop_user =",
            "program.privilege_drop_group =",
            "io.mode = tun",
            "io.tun.device_path =",
            f"io.tun.interface_name = {TUN_NAME}",
            "io.tun.owner_user =",
            "io.tun.owner_group =",
            f"io.tun.multi_queue = {'yes' if o.multi_queue else 'no'}",
            f"router.ipv4 = {four}",
            f"router.ipv6 = {six}",
            "router.generated_packet_ttl = 64",
            f"addressing.mode = {'clat' if isinstance(intent.configuration, ClatConfig) else 'siit'}",
            *(
                f"addressing.nat64_clat.ipv{a.version} = {a}"
                for a in self._get_single_host_addresses(intent)
            ),
            f"addressing.nat64_clat_siit.prefix = {self._get_prefix(intent).network_address}",
            # the well-known prefix must not contain test addresses (RFC 6052, section 3.1)
            "addressing.nat64_clat_siit.allow_translation_of_private_ips = yes",
            f"translator.ipv4.outbound_mtu = {mtu[4]}",
            f"translator.ipv6.outbound_mtu = {mtu[6]}",
            "translator.6to4.copy_dscp_and_ecn = yes",
            "translator.4to6.copy_dscp_and_ecn = yes",
        ]
        return "\n".join(line.rstrip() for line in lines) + "\n"
