"""map646: stateless translation in user space by mappings of single addresses and a prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network, ip_interface, ip_network
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts.driver import Suited
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, map_rules
from v6t.drivers.duts.kinds.linux.process import in_background
from v6t.drivers.duts.kinds.tun.translator import QueueOptions, TunTranslator
from v6t.drivers.duts.plan import Intent, Plan
from v6t.profiles.errors import UsageError

OWN_PREFIX = "2001:db8:64::/96"
_WHY = "map646 has mappings for hosts of the IPv6 side, and one prefix for all of the IPv4 side"
SUITED = {
    "eam": Suited([{"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"}], _WHY),
    "prefix": Suited(OWN_PREFIX, _WHY),
}
_OWN = {name: own.value for name, own in SUITED.items()}
_SOCKET = "/tmp/map646_stat"  # noqa: S108  (a name that it has in its source)
"""It makes this for its statistics, and leaves it behind."""
_COMPARED = 64
"""Bits of its prefix that it compares and routes to itself."""


class Map646Options(QueueOptions):
    """Options of map646."""

    program: str = Field(default="map646", pattern=r"^([A-Za-z0-9_./-]*/)?map646$")
    """Where the program is; its name is what its process is known by."""
    most_mappings: int = Field(default=4096, ge=1)
    """Prefixes are written out address by address, up to so many."""


class Map646(TunTranslator):
    """A daemon behind the TUN device tun646, whose name it cannot be told."""

    name = "map646"
    title = "map646, stateless IPv4/IPv6 translation in user space (WIDE project)"
    technologies = ("siit",)
    executed = (
        "configured and restored in the lab and over SSH, verified and measured with real frames in "
        "the lab (built from its source of 2020)"
    )
    options_model = Map646Options
    process = "map646"
    words = "map646"
    tun_name: ClassVar[str] = "tun646"

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        self.version_command = (
            f"sha256sum $(command -v {self.options.program}) </dev/null | cut -c-12"
        )
        source = "https://github.com/keiichishima/map646"
        self.programs = {**self.programs, self.options.program: source}

    def read_version(self, text: str) -> str:
        """It has none, nor releases: the checksum of its program tells one build from another."""
        return f"program {text.strip()} (SHA-256)" if text.strip() else "unknown"

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """Mappings of one side, a prefix of the other."""
        return SUITED if technology in self.technologies else {}

    def profile(self, intent: Intent) -> ExpectProfile:
        """The packet is routed into the TUN device and out of it; map646 takes no hop."""
        return ExpectProfile(
            further_hops=1,
            df="set",
            zero_checksum="always",
            why="kernel and kernel each take a hop, map646 none; it sets DF of what was IPv6; where "
            "its UDP checksum comes out as 0 it writes 0, not 0xFFFF",
        )

    def tun(self, action: str) -> str:
        """Its device is there before it: it would make one that nobody has set up."""
        verb = "add" if action == "mktun" else "del"
        return f"ip tuntap {verb} dev {self.tun_name} mode tun pi"

    def started(self) -> str:
        """It stays in the foreground, and has a word for each packet without mapping."""
        return in_background(self.pid, f"{self.options.program} -c {self.file}")

    def ended(self) -> str:
        """See the base class."""
        return f"rm -f {_SOCKET}; {super().ended()}"

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Addresses that it cannot be told, or takes for others."""
        super().refuse(intent, facts)
        map_rules.refuse_lowest_mtu(
            addresses.table_of(intent).lowest_ipv6_mtu, "map646 has a limit of its own", 1280
        )
        prefix = _prefix(intent)
        _, six = addresses.through_translator(intent)
        other = [net for net in six if net != prefix]
        if other:
            raise UsageError(
                f"map646 has no mappings for IPv4 hosts such as {other[0]}",
                "leave them to the prefix",
                params=_OWN,
            )
        taken = prefix.supernet(new_prefix=_COMPARED)
        for net in _beside(intent):
            if net.overlaps(taken):
                raise UsageError(
                    f"map646 takes all of {taken} for its prefix {prefix}, and {net} is within",
                    "give it a prefix whose first 64 bits nothing else has",
                    params={"prefix": OWN_PREFIX},
                )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        lines = [f"mapping-prefix {_prefix(intent).network_address}", *self._mappings(intent)]
        return self.finish(
            facts,
            [*self.base(intent, facts), *self.running(intent, "\n".join(lines) + "\n")],
            checks=[self.alive()],
            notes=(
                "IPv4 packets of more than 1,472 octets leave in two fragments, with DF or without: "
                "frames of 1518 octets do not match",
                "IPv4 packets whose UDP checksum is 0 get a wrong one",
                "one process on one core; its drops are the TUN device's tx drops",
                "it has no version and no releases; its source says 2012 and was last changed in 2020",
            ),
        )

    def _mappings(self, intent: Intent) -> Sequence[str]:
        lines = []
        for four, six in addresses.eams(intent):
            if four.num_addresses > self.options.most_mappings:
                raise UsageError(
                    f"map646 takes single addresses only, and {four} holds {four.num_addresses:,}",
                    "use mappings of single addresses, or raise most_mappings",
                    dut_params={"most_mappings": four.num_addresses},
                )
            step = 1 << (128 - six.prefixlen - (32 - four.prefixlen))
            first = int(six.network_address)
            lines += [
                f"map-static {address} {type(six.network_address)(first + n * step)}"
                for n, address in enumerate(four)
            ]
        return lines


def _prefix(intent: Intent) -> IPv6Network:
    """The one it has.

    Raises:
        UsageError: there is none, or a shorter one.
    """
    hint = f"give a /96, for example {OWN_PREFIX}, and mappings for IPv6 hosts alone"
    return addresses.whole_prefix(intent, "map646 puts all IPv4 hosts behind", hint, _OWN)


def _beside(intent: Intent) -> list[IPv6Network]:
    """IPv6 networks that are not behind the prefix: mapped hosts, links, and what they lead to."""
    found: list[Any] = [six for _, six in addresses.eams(intent)]
    for side in ("left", "right"):
        here = getattr(intent, side)
        found += [ip_interface(a).network for a in here.get("addresses", ())]
        found += [ip_network(net) for net in here.get("routes", {})]
    return [net for net in found if net.version == 6]
