"""TAYGA: stateless translation in user space behind a TUN device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, map_rules
from v6t.drivers.duts.kinds.linux.steps import write_file
from v6t.drivers.duts.kinds.netfilter.nftables import has_rules
from v6t.drivers.duts.kinds.tayga.reserved import refuse_reserved, version_numbers
from v6t.drivers.duts.kinds.tun.translator import TUN, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent, Plan, Step, Was
from v6t.intent.families import DeviceConfig, MapTCeConfig, SiitConfig

PROGRAM = "tayga"
WORKERS = (0, 9, 6, 10)
"""The first version with workers, as ``git describe`` counts them: ten commits after 0.9.6."""
OFFLINK_MTU = (0, 9, 6)
"""The first version that can be told :data:`OWN_LOWEST_MTU` by ``offlink-mtu``."""
OWN_LOWEST_MTU = 1280
"""Longest IPv6 packet that TAYGA makes of an IPv4 packet without DF."""
_SAYS = re.compile(r"TAYGA version v?(\d\S*)")
_PACKAGE = re.compile(r"\d\S*")


class MendOptions(TunOptions):
    """Options of TAYGA, whoever starts it."""

    mend_checksums: bool = False
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, with a rule of nftables: one frame in
    65,536, which a next translator drops as IPv6 (RFC 8200 section 8.1)."""


class TaygaOptions(MendOptions):
    """Options of TAYGA."""

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
    words = "TAYGA"

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        program = self.program
        self.programs = {program: "tayga", **self.programs}
        if self.options.mend_checksums:
            self.programs = {**self.programs, "nft": "nftables"}
        # those before 0.9.4 say their version nowhere: what is left is what Debian calls it
        package = "; dpkg-query -W -f '${Version}' tayga" if program == PROGRAM else ""
        self.version_command = f"{{ {program} --help 2>&1 | head -1{package}; }} 2>/dev/null"

    @property
    def program(self) -> str:
        """TAYGA."""
        return str(self.options.program)

    @property
    def workers(self) -> int:
        """How many are asked for; -1: none."""
        return int(self.options.workers)

    def read_version(self, text: str) -> str:
        """``TAYGA version 0.9.6``; else the package's, which has a line of its own."""
        said = _SAYS.search(text)
        if said:
            return said.group(1)
        last = text.strip().rpartition("\n")[2]
        return last if _PACKAGE.fullmatch(last) else "unknown"

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
        """Addresses that this version refuses, workers where it has none."""
        super().refuse(intent, facts)
        if self.workers >= 0 and not has_workers(facts.version):
            raise UsageError(
                f"TAYGA {facts.version} does not support workers",
                "leave dut.options.workers out, or name a later TAYGA than 0.9.6 with dut.options.program",
                dut_params={"workers": -1},
                code="unsupported-by-version",
            )
        refuse_reserved(intent, facts.version)

    def profile(self, intent: Intent) -> ExpectProfile:
        """The packet is routed into the TUN device, translated, and routed again."""
        return ExpectProfile(
            further_hops=2,
            df="set",
            # which of both is known of the version, and that is asked for only later
            dont_fragment="either",
            zero_checksum="never" if self.options.mend_checksums else "always",
            why="kernel, TAYGA and kernel each take a hop; of what was IPv6 0.9.2 sets DF, later "
            "ones only beyond 1,260 octets; where its UDP checksum comes out as 0 it writes 0, not "
            "0xFFFF",
        )

    def tun(self, action: str) -> str:
        return f"{self.program} -c {self.file} --{action}"

    def started(self) -> str:
        return f"{self.program} -c {self.file} -p {self.pid}"

    def threads(self) -> Sequence[str]:
        """Lines of its file that say how many workers it has; none: it chooses."""
        return [f"workers {self.workers}"] if self.workers >= 0 else []

    def running(self, intent: Intent, config: str) -> list[Step]:
        """TAYGA, and its own defect put right behind it."""
        return [*super().running(intent, config), *self.mended()]

    def mended(self) -> list[Step]:
        """Where the options ask for it."""
        return _mend(self.options)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        own4, own6 = self.own_addresses(intent)
        lowest = addresses.table_of(intent).lowest_ipv6_mtu
        if version_numbers(facts.version) < OFFLINK_MTU:
            map_rules.refuse_lowest_mtu(
                lowest, f"TAYGA {facts.version} has no offlink-mtu", OWN_LOWEST_MTU
            )
        lines = [f"tun-device {TUN}", f"ipv4-addr {own4}", f"ipv6-addr {own6}"]
        prefix = addresses.prefix_of(intent)
        lines += [f"prefix {prefix}"] if prefix else []
        lines += [f"map {four} {six}" for four, six in _mappings(intent)]
        if lowest != OWN_LOWEST_MTU:
            lines.append(f"offlink-mtu {lowest}")
        lines += self.threads()
        cores = (
            "each worker is a thread with a queue of the TUN device"
            if has_workers(facts.version) and self.workers
            else "one process on one core"
        )
        return self.finish(
            facts,
            [*self.base(intent, facts), *self.running(intent, "\n".join(lines) + "\n")],
            checks=[self.alive()],
            notes=(
                "IPv4 packets whose UDP checksum is 0 are dropped",
                f"{cores}; its drops are the TUN device's tx drops",
            ),
        )


def has_workers(version: str) -> bool:
    """Whether this version translates in several threads: ``0.9.6-16-g8a028c7``, ``0.9.2-8``."""
    return version_numbers(version) >= WORKERS


def _mend(options: MendOptions) -> list[Step]:
    """A rule that writes what TAYGA should have written."""
    if not options.mend_checksums:
        return []
    file = f"{options.state_dir}/mend.nft"
    lines = ["add table inet v6t_mend", "delete table inet v6t_mend", "table inet v6t_mend {"]
    # before connection tracking: it leaves a checksum of 0 as it is
    lines += ["  chain entry {", "    type filter hook prerouting priority raw; policy accept;"]
    rule = f'iifname "{TUN}" udp checksum 0 counter udp checksum set 65535'
    lines += [f"    {rule}", "  }", "}"]
    show = "nft list table inet v6t_mend"
    return [
        write_file(file, "\n".join(lines) + "\n", "a rule for TAYGA's checksums"),
        Step(
            f"nft -c -f {file} && nft -f {file}",
            "UDP checksums that come out as 0 are 0xffff (RFC 768)",
            undo="nft delete table inet v6t_mend",
            before=f"{show} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=has_rules(show, "filter hook prerouting", rule),
        ),
    ]


def _mappings(intent: Intent) -> Iterator[tuple[str, str]]:
    """Those of the intent; a single host without prefix length, as TAYGA's manual has it."""
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
