"""Stateful NAT64 of two parts: TAYGA's dynamic pool, then the kernel's NAT44."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from pydantic import Field
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import Conntracked
from v6t.drivers.duts.kinds.netfilter.nftables import listing, table
from v6t.drivers.duts.kinds.tayga import siit
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.profiles.errors import UsageError
from v6t.profiles.intent_settings import Nat64


class TaygaNftablesOptions(siit.TaygaOptions, nat.ConntrackOptions):
    """Options of both parts."""

    dynamic_pool: str = Field(default="192.168.255.0/24", pattern=r"^[0-9.]+/\d+$")
    """Private IPv4 network; TAYGA gives each client one of its addresses."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """As for TAYGA alone, but longer: every frame that a queue drops in phase 1 is a connection
    that was not made, and TAYGA is a process that now and then has to wait for a core."""


class TaygaNftables(Conntracked, siit.Tayga):
    """TAYGA has no ports; nftables gives them out."""

    name = "tayga-nftables"
    title = "TAYGA with nftables: stateful NAT64"
    technologies = ("nat64",)
    executed = "configured, verified with real frames, flushed and restored (Debian's 0.9.2-8)"
    options_model = TaygaNftablesOptions
    programs: Mapping[str, str] = {
        "tayga": "tayga", "nft": "nftables", "conntrack": "conntrack",
    }  # fmt: skip

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """The well-known prefix, and more clients than addresses."""
        super().refuse(intent, facts)
        siit.refuse_well_known(intent, "right")
        pool = IPv4Network(self.options.dynamic_pool)
        clients = Nat64.of(intent).clients
        if clients > pool.num_addresses - 2:
            raise UsageError(
                f"{clients} clients do not fit TAYGA's dynamic pool {pool}: each takes an address",
                f"set dynamic_pool to a /{32 - (clients + 2).bit_length()} or shorter",
            )

    def ipv6_side(self, intent: Intent) -> str:
        """That of the clients."""
        del intent
        return "left"

    def into(self, intent: Intent) -> list[Any]:
        """The clients' IPv4 addresses, which conntrack has put back before packets are filtered."""
        prefix = addresses.prefix_of(intent)
        return [IPv4Network(self.options.dynamic_pool), *([prefix] if prefix else [])]

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        place, inner = self.options.state_dir, IPv4Network(self.options.dynamic_pool)
        prefix = addresses.prefix_of(intent)
        if prefix is None:
            raise UsageError("NAT64 needs a prefix", "set the plugin's parameter prefix")
        own6 = self.options.ipv6_addr or addresses.outside(("fd76:3674::9",), [prefix])
        config = (
            f"tun-device {siit.TUN}\nipv4-addr {inner[1]}\nipv6-addr {own6}\nprefix {prefix}\n"
            f"dynamic-pool {inner}\ndata-dir {place}\n"
        )
        ways = {str(net): f"dev {siit.TUN}" for net in self.into(intent)}
        public_pool = nat.pool_of(intent, can=("udp_timeout_s",))
        pool = nat.Pool((str(inner),), public_pool.addresses, public_pool.low, public_pool.high)
        port = self.port(intent, "right")
        rules = nat.nft_table(nat.nft_rules(pool, port))
        return self.finish(
            facts,
            [
                *self.base(intent, facts),
                _forget(place),
                *siit.running(self.options, intent, config, ways),
                *table(place, rules, listing([pool], port)),
                *nat.conntrack(self.options, intent, facts),
                *nat.logging(self.options),
            ],
            # what still waits in TAYGA's queue would make connections anew behind conntrack's back
            flush=(*self._renew(place), *nat.flush(pool.inside)),
            checks=[siit.alive(place)],
            notes=("TAYGA gives each IPv6 client an IPv4 address of its own, for two hours",),
        )

    def _renew(self, place: str) -> tuple[Step, ...]:
        """Stop TAYGA, forget its clients, start it again."""
        stop = siit.stop_command(place)
        start = f"tayga -c {place}/tayga.conf -p {place}/tayga.pid"
        return (
            Step(
                f"( {stop} ) && rm -f {place}/dynamic.map && {start}",
                "no client of an earlier trial is left",
                check=siit.alive(place),
            ),
        )


def _forget(place: str) -> Step:
    return Step(
        f"rm -f {place}/dynamic.map",
        "TAYGA starts without remembered clients",
        undo=f"rm -f {place}/dynamic.map",
    )
