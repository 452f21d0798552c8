"""map646: stateless translation in user space by single-address mappings."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.steps import routes, write_file
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Intent, Plan, Step, Was, contains
from v6t.profiles.errors import UsageError

TUN = "tun646"


class Map646Options(LinuxOptions):
    """Options of map646."""

    program: str = Field(default="map646", pattern=r"^[A-Za-z0-9_./-]+$")
    """Where the program is."""
    most_mappings: int = Field(default=4096, ge=1)
    """Prefixes are written out address by address, up to so many."""


class Map646(LinuxDriver):
    """A daemon behind the TUN device tun646."""

    name = "map646"
    title = "map646, stateless IPv4/IPv6 translation in user space (WIDE project)"
    technologies = ("siit",)
    executed = "not executed: written after its documentation"
    versions = ("2012",)
    options_model = Map646Options
    version_command = "echo 2012"

    @property
    def _file(self) -> str:
        return f"{self.options.state_dir}/map646.conf"

    def profile(self, intent: Intent) -> ExpectProfile:
        """The packet is routed into the TUN device and out of it."""
        return ExpectProfile(further_hops=1, why="two hops of the kernel; not executed")

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """The TUN device's drops are map646's."""
        return {
            **super().telemetry(intent),
            f"tun {TUN}": telemetry.link_reading(
                TUN, "its `tx.dropped` are frames map646 did not fetch"
            ),
            "process": telemetry.process(f"{self.options.state_dir}/map646.pid"),
        }

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        prefix = addresses.prefix_of(intent)
        lines = [f"mapping-prefix {prefix.network_address}"] if prefix else []
        for four, six in addresses.eams(intent):
            if four.num_addresses > self.options.most_mappings:
                raise UsageError(
                    f"map646 takes single addresses only, and {four} holds {four.num_addresses:,}",
                    "use mappings of single addresses, or raise most_mappings",
                )
            step = 1 << (128 - six.prefixlen - (32 - four.prefixlen))
            first = int(six.network_address)
            lines += [
                f"map-static {address} {type(six.network_address)(first + n * step)}"
                for n, address in enumerate(four)
            ]
        four_ways, six_ways = addresses.through_translator(intent)
        ways = {str(net): f"dev {TUN}" for net in (*four_ways, *six_ways)}
        pid = f"{self.options.state_dir}/map646.pid"
        own = [
            write_file(self._file, "\n".join(lines) + "\n", "map646's mappings"),
            Step(
                f"{self.options.program} -c {self._file} && sleep 1 && pidof map646 >{pid}",
                "the translator itself",
                undo=f"p=$(cat {pid} 2>/dev/null) || exit 0; kill $p; "
                "for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $p 2>/dev/null || break; sleep 0.2; "
                f"done; rm -f {pid}",
                before=f"pidof map646; ip -o link show dev {TUN} 2>/dev/null; true",
                was=Was.FOREIGN,
                check=contains(f"ip -o link show dev {TUN}", TUN),
            ),
            Step(f"ip link set dev {TUN} up", "its TUN device"),
            routes(ways, "into the translator"),
        ]
        return self.finish(
            facts,
            [*self.base(intent, facts), *own],
            notes=("DF=0 packets of 1498/1518 octets were lost in Lencse and Shima's tests",),
        )
