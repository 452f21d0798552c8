"""Stateful NAT64 of two parts: TAYGA's dynamic pool, then the kernel's NAT44."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.tayga import siit
from v6t.drivers.duts.kinds.tayga.reserved import refuse_pool
from v6t.drivers.duts.kinds.tun.nat64 import TunNat64, network_of
from v6t.drivers.duts.kinds.tun.translator import TUN
from v6t.drivers.duts.plan import Intent, Step
from v6t.intent.families import Nat64Config


class TaygaNftablesOptions(siit.TaygaOptions, nat.ConntrackOptions):
    """Options of both parts."""

    dynamic_pool: str = Field(default="192.168.255.0/24", pattern=r"^[0-9.]+/\d+$")
    """Private IPv4 network; TAYGA gives each client one of its addresses."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """As for TAYGA alone, but longer: every frame that a queue drops in phase 1 is a connection
    that was not made, and TAYGA is a process that now and then has to wait for a core."""
    mend_checksums: bool = True
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, with a rule of nftables: connection tracking,
    which is next, takes 0 for none and leaves it, so that one frame in 65,536 would lose its checksum."""


class TaygaNftables(TunNat64, siit.Tayga):
    """TAYGA has no ports; nftables gives them out."""

    name = "tayga-nftables"
    title = "TAYGA with nftables: stateful NAT64"
    accepts = (Nat64Config,)
    executed = (
        "configured, verified, measured, flushed and restored with real frames (Debian's 0.9.2-8; 0.9.6-16 "
        "with workers)"
    )
    options_model = TaygaNftablesOptions
    inner_option = "dynamic_pool"
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    notes = ("TAYGA gives each IPv6 client an IPv4 address of its own, for two hours",)

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """More clients than addresses, and what TAYGA alone refuses."""
        super().refuse(intent, facts)
        pool = self.inner
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

    @property
    def inner(self) -> IPv4Network:
        """TAYGA's dynamic pool."""
        return network_of("dynamic_pool", self.options.dynamic_pool)

    def configuration(self, intent: Intent) -> str:
        own4, own6 = self.own_addresses(intent)
        return (
            f"tun-device {TUN}\nipv4-addr {own4}\nipv6-addr {own6}\n"
            f"prefix {self.prefix(intent)}\n"
            f"dynamic-pool {self.inner}\ndata-dir {self.options.state_dir}\n"
            + "".join(f"{line}\n" for line in self.threads())
        )

    @property
    def _remembered(self) -> str:
        return f"{self.options.state_dir}/dynamic.map"

    def forgotten(self) -> Sequence[Step]:
        return (
            Step(
                f"rm -f {self._remembered}",
                "TAYGA starts without remembered clients",
                undo=f"rm -f {self._remembered}",
            ),
        )

    def renewed(self) -> Sequence[Step]:
        """Stop TAYGA, forget its clients, start it again."""
        return (
            Step(
                f"( {self.ended()} ) && rm -f {self._remembered} && {self.started()}",
                "no client of an earlier trial is left",
                check=self.alive(),
            ),
        )
