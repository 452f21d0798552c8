"""Stateful NAT64 of two parts: a translator in user space, then the kernel's NAT44."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar

from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import Conntracked
from v6t.drivers.duts.kinds.netfilter.nftables import listing, table
from v6t.drivers.duts.kinds.tun.translator import TunTranslator
from v6t.drivers.duts.plan import Intent, Plan, Step


class TunNat64(Conntracked, TunTranslator):
    """The translator has no ports; nftables gives them out."""

    notes: Sequence[str]
    inner_option: ClassVar[str]
    """Option that names the inner network."""

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Refuse an inner network that the test uses."""
        super().refuse(intent, facts)
        net = self.inner
        candidates = [f"{text.partition('/')[0]}/{net.prefixlen}" for text in addresses.POOLS]
        wide_enough = [text for text in candidates if net.prefixlen >= 24]
        addresses.free(self.inner_option, str(net), wide_enough, addresses.in_use(intent))

    @property
    @abstractmethod
    def inner(self) -> IPv4Network:
        """What clients are called between both parts."""

    @abstractmethod
    def configuration(self, intent: Intent) -> str:
        """The translator's own file."""

    def forgotten(self) -> Sequence[Step]:
        """Before it is started."""
        return ()

    def renewed(self) -> Sequence[Step]:
        """Between trials, before the kernel forgets its connections."""
        return ()

    def ipv6_side(self, intent: Intent) -> str:
        """That of the clients."""
        del intent
        return "left"

    def prefix(self, intent: Intent) -> IPv6Network:
        """Of the servers.

        Raises:
            UsageError: there is none.
        """
        prefix = addresses.prefix_of(intent)
        if prefix is None:
            raise UsageError(
                "NAT64 needs a prefix",
                "set the plugin's parameter prefix",
                params={"prefix": "2001:db8:64::/96"},
                code="invalid-intent",
            )
        return prefix

    def into(self, intent: Intent) -> list[Any]:
        """The clients' IPv4 addresses, which conntrack has put back before packets are filtered."""
        prefix = addresses.prefix_of(intent)
        return [self.inner, *([prefix] if prefix else [])]

    def own_addresses(self, intent: Intent) -> tuple[str, str]:
        """Return the first host of the inner network, and an IPv6 address that the test does not use."""
        taken, o = addresses.in_use(intent), self.options
        own4 = addresses.free("ipv4_addr", o.ipv4_addr or str(self.inner[1]), (), taken)
        return own4, addresses.free("ipv6_addr", o.ipv6_addr, addresses.OWN6, taken)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        config = self.configuration(intent)
        public_pool = nat.pool_of(intent, can=("udp_timeout_s",))
        pool = nat.Pool(
            (str(self.inner),), public_pool.addresses, public_pool.low, public_pool.high
        )
        port = self.port(intent, "right")
        rules = nat.nft_table(nat.nft_rules(pool, port))
        return self.finish(
            facts,
            [
                *self.base(intent, facts),
                *self.forgotten(),
                *self.running(intent, config),
                *table(self.options.state_dir, rules, listing([pool], port)),
                *nat.conntrack(self.options, intent, facts),
                *nat.logging(self.options),
            ],
            # what still waits in the translator's queue would make connections anew behind conntrack's back
            flush=(*self.renewed(), *nat.flush(pool.inside)),
            checks=[self.alive()],
            notes=self.notes,
        )


def network_of(option: str, text: str) -> IPv4Network:
    """The network that an option names, with room for the translator and one client.

    Args:
        option: its name.
        text: its value.

    Raises:
        UsageError: it is none.
    """
    try:
        network = IPv4Network(text)
    except ValueError as exc:
        raise UsageError(
            f"dut.options.{option}: {exc}",
            "give an IPv4 network",
            dut_params={option: "192.168.255.0/24"},
            code="option-invalid",
        ) from exc
    if network.num_addresses < 4:
        raise UsageError(
            f"dut.options.{option}: {network} is too small for a client",
            "give a /30 or shorter",
            dut_params={option: network.supernet(new_prefix=30)},
            code="not-enough-addresses",
        )
    return network
