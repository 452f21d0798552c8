"""Stateful NAT64 of two parts: Tundra for one client, then the kernel's NAT44."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network

from pydantic import Field
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.tun.nat64 import TunNat64, network_of
from v6t.drivers.duts.kinds.tundra.translator import TundraOptions, TundraTranslator
from v6t.drivers.duts.plan import Intent
from v6t.profiles.errors import UsageError
from v6t.profiles.intent_settings import Nat64


class TundraNftablesOptions(TundraOptions, nat.ConntrackOptions):
    """Options of both parts."""

    inner_network: str = Field(default="192.168.255.0/30", pattern=r"^[0-9.]+/\d+$")
    """Private IPv4 network between both: its first host is Tundra, its second one the client."""
    queue_length: int = Field(default=5000, ge=1, le=1_000_000)
    """As for Tundra alone, but longer: every frame that a queue drops in phase 1 is a connection
    that was not made."""


class TundraNftables(TunNat64, TundraTranslator):
    """Tundra has no ports; nftables gives them out."""

    name = "tundra-nftables"
    title = "Tundra-NAT64 with nftables: stateful NAT64 of one client"
    technologies = ("nat64",)
    executed = (
        "configured, flushed and restored in the lab and over SSH, verified and measured with real "
        "frames in the lab (6.0.2)"
    )
    options_model = TundraNftablesOptions
    inner_option = "inner_network"
    notes = TundraTranslator.notes
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Other prefixes, and more clients than its one address."""
        super().refuse(intent, facts)
        self.prefix(intent)
        clients = Nat64.of(intent).clients
        if clients > 1:
            raise UsageError(
                f"Tundra's NAT64 translates one client's address, not {clients}",
                "measure one client; more need NAT66 before it, which this driver does not make",
                params={"initiator_count": 1, "responder_count": 1, "enumerate_ips": 0},
            )

    def prefix(self, intent: Intent) -> IPv6Network:
        """The one it translates, a /96."""
        return TundraTranslator.prefix(self, intent)

    @property
    def inner(self) -> IPv4Network:
        """See the base class."""
        return network_of("inner_network", self.options.inner_network)

    def configuration(self, intent: Intent) -> str:
        """See the base class."""
        return self.text(intent, "nat64", (self.inner[2], _client(intent)))


def _client(intent: Intent) -> IPv6Address:
    """The one that is behind the left link, beside what is merely routed."""
    (network,) = Nat64.of(intent).inside6
    return network[0]
