"""TAYGA with nftables behind it: stateful NAT64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.netfilter import conntrack, nat
from v6t.drivers.duts.kinds.netfilter.conntrack import ConntrackDriver
from v6t.drivers.duts.kinds.netfilter.nftables import make_snat_steps
from v6t.drivers.duts.kinds.tayga import Tayga, TaygaOptions, check_dynamic_pool
from v6t.drivers.duts.plan import Intent, Step
from v6t.intent.families import Nat64Config


class TaygaNftablesOptions(TaygaOptions, conntrack.ConntrackOptions):
    """Options of TAYGA and of the kernel's connection tracking."""

    dynamic_pool: IPv4Network = IPv4Network("192.168.255.0/24")
    """Private IPv4 network; TAYGA gives each client one of its addresses."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops: each lost frame of phase 1 is a missing connection."""
    mend_checksums: bool = True
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, which to conntrack is an absent checksum."""


class TaygaNftables(ConntrackDriver, Tayga):
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
        check_dynamic_pool(pool, facts.version)
        clients = intent.configuration_as(Nat64Config).clients
        if clients > pool.num_addresses - 2:
            length = 32 - (clients + 1).bit_length()
            problem = f"{clients} clients do not fit TAYGA's dynamic pool {pool}: one address each"
            hint = f"set dynamic_pool to a /{length} or shorter"
            instead = {"dynamic_pool": f"10.0.0.0/{length}"}
            raise UsageError(problem, hint, dut_params=instead, code="not-enough-addresses")

    def find_translated_networks(self, intent: Intent) -> list[Any]:
        # conntrack restores the clients' IPv4 addresses before packets are filtered
        return [self.options.dynamic_pool, intent.configuration_as(Nat64Config).prefix]

    @property
    def ipv4_candidates(self) -> Sequence[str]:
        return (str(self.options.dynamic_pool[1]),)

    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        return self.format_configuration(
            intent,
            f"prefix {intent.configuration_as(Nat64Config).prefix}",
            f"dynamic-pool {self.options.dynamic_pool}",
            f"data-dir {self.options.state_dir}",
        )

    @property
    def _delete_clients_command(self) -> str:
        """Command that deletes the file in which TAYGA remembers the addresses of clients."""
        return f"rm -f {self.options.state_dir}/dynamic.map"

    def make_preparation_steps(self) -> Sequence[Step]:
        why = "TAYGA starts without remembered clients"
        return (Step(self._delete_clients_command, why, undo=self._delete_clients_command),)

    def make_final_steps(self, intent: Intent, facts: Facts) -> Sequence[Step]:
        public = nat.get_pool(intent, supported_settings=("udp_timeout_s",))
        pool = replace(public, client_networks=(str(self.options.dynamic_pool),))
        return (
            *super().make_final_steps(intent, facts),
            conntrack.make_conntrack_module_step(self.options),
            *make_snat_steps(self.options.state_dir, [pool], self.get_ports(intent)["right"]),
            *conntrack.make_conntrack_steps(self.options, intent, facts),
        )

    def make_flush_steps(self, intent: Intent) -> Sequence[Step]:
        """Return the steps that clear TAYGA's client table and queue, then the kernel's connection table."""
        stop, start = self.make_stop_command(), self.fill_in(self.start_command)
        command = f"( {stop} ) && {self._delete_clients_command} && {start}"
        why = "no client of an earlier trial is left"
        restart = Step(command, why, proof=self.make_daemon_step().check)
        return (restart, *conntrack.make_flush_steps([str(self.options.dynamic_pool)]))

    def get_notes(self, facts: Facts) -> Sequence[str]:
        return self.notes
