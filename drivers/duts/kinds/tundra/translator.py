"""Tundra-NAT64: its configuration and its process, whatever it translates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any

from pydantic import Field
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux.process import in_background
from v6t.drivers.duts.kinds.tun.translator import TUN, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent
from v6t.drivers.duts.programs import version_in

PROGRAM = "tundra-nat64"
OWN_PREFIX = "2001:db8:64::/96"


class TundraOptions(TunOptions):
    """Options of Tundra."""

    program: str = Field(default=PROGRAM, pattern=rf"^([A-Za-z0-9_./-]*/)?{PROGRAM}$")
    """Where the program is; its name is what its process is known by."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads that translate; 0: one for each core, as it does by itself."""
    multi_queue: bool = False
    """A queue of the TUN device for each thread, in place of one for all."""


class TundraTranslator(TunTranslator):
    """One TUN device, several threads."""

    process = PROGRAM
    words = "Tundra"
    versions = ("6.0.2",)
    notes: Sequence[str] = (
        "IPv4 and IPv6 packets whose UDP checksum is 0 are dropped",
        "its threads may change the order of packets; what it does not fetch are the TUN device's tx drops",
    )

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        source = "https://github.com/vitlabuda/tundra-nat64"
        self.programs = {**self.programs, self.options.program: source}
        self.version_command = f"{self.options.program} --version 2>&1 | head -1"

    def read_version(self, text: str) -> str:
        """``Tundra-NAT64 / v6.0.2 / Copyright ...``."""
        asked = f"{self.options.program} --version"
        return version_in(text, r"\bv(\d+(?:\.\d+)+)", "Tundra-NAT64", asked)

    def profile(self, intent: Intent) -> ExpectProfile:
        """The packet is routed into the TUN device, translated, and routed again."""
        return ExpectProfile(
            further_hops=2, why="kernel, Tundra and kernel each take a hop (seen on 6.0.2)"
        )

    def tun(self, action: str) -> str:
        return f"{self.options.program} -c {self.file} {action}"

    def started(self) -> str:
        """It stays in the foreground; what it says goes beside its file."""
        command = f"{self.options.program} -c {self.file} translate"
        return in_background(self.pid, command, self._log)

    def ended(self) -> str:
        return f"rm -f {self._log}; {super().ended()}"

    @property
    def _log(self) -> str:
        return f"{self.options.state_dir}/{self.process}.log"

    def prefix(self, intent: Intent) -> IPv6Network:
        """The one it translates, a /96.

        Raises:
            UsageError: there is none, or a shorter one.
        """
        own = {addresses.prefix_parameter(intent.configuration): OWN_PREFIX}
        hint = f"give a /96, for example {OWN_PREFIX}"
        return addresses.whole_prefix(intent, "Tundra translates", hint, own)

    def text(
        self, intent: Intent, mode: str, pair: tuple[IPv4Address, IPv6Address] | None = None
    ) -> str:
        """Its whole file: it takes no option as given.

        Args:
            intent: names prefix and MTUs.
            mode: ``siit``, ``clat``, ``nat64``.
            pair: the one host that has no address in the prefix; None: of siit.
        """
        four, six = self.own_addresses(intent)
        mtu = {side: getattr(intent.links, side).mtu for side in ("left", "right")}
        side6 = self.ipv6_side(intent)
        o = self.options
        lines = [
            f"program.translator_threads = {o.threads or ''}",
            "program.privilege_drop_user =",
            "program.privilege_drop_group =",
            "io.mode = tun",
            "io.tun.device_path =",
            f"io.tun.interface_name = {TUN}",
            "io.tun.owner_user =",
            "io.tun.owner_group =",
            f"io.tun.multi_queue = {'yes' if o.multi_queue else 'no'}",
            f"router.ipv4 = {four}",
            f"router.ipv6 = {six}",
            "router.generated_packet_ttl = 64",
            f"addressing.mode = {mode}",
        ]
        if pair is not None:
            lines += [f"addressing.nat64_clat.ipv{a.version} = {a}" for a in pair]
        lines += [
            f"addressing.nat64_clat_siit.prefix = {self.prefix(intent).network_address}",
            # test addresses are none that the well-known prefix is for (RFC 6052 section 3.1)
            "addressing.nat64_clat_siit.allow_translation_of_private_ips = yes",
            f"translator.ipv4.outbound_mtu = {mtu[addresses.other_side(side6)]}",
            f"translator.ipv6.outbound_mtu = {mtu[side6]}",
            "translator.6to4.copy_dscp_and_ecn = yes",
            "translator.4to6.copy_dscp_and_ecn = yes",
        ]
        return "\n".join(line.rstrip() for line in lines) + "\n"
