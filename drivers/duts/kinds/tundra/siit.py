"""Tundra-NAT64, stateless: SIIT by a prefix, CLAT of a single host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import Suited
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, map_rules
from v6t.drivers.duts.kinds.tundra.translator import OWN_PREFIX, TundraOptions, TundraTranslator
from v6t.drivers.duts.plan import Intent, Plan
from v6t.intent.families import ClatConfig, SiitConfig

_NO_MAPPINGS = "Tundra knows no explicit mappings: both ends have addresses in one prefix"
_ONE_HOST = "Tundra's CLAT translates one address of the customer's"
SUITED = {
    "siit": {"eam": Suited([], _NO_MAPPINGS), "prefix": Suited(OWN_PREFIX, _NO_MAPPINGS)},
    "clat": {
        "clat_ipv4": Suited("198.18.0.2/32", _ONE_HOST),
        "clat_ipv6": Suited("2001:2:0:2::2/128", _ONE_HOST),
    },
}


class Tundra(TundraTranslator):
    """See the module's text."""

    name = "tundra"
    title = "Tundra-NAT64, stateless IPv4/IPv6 translation in user space by several threads"
    accepts = (SiitConfig,)
    executed = (
        "configured and restored in the lab and over SSH, verified and measured with real frames in "
        "the lab (6.0.2)"
    )
    options_model = TundraOptions

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """A prefix in place of mappings; one host in place of a network."""
        return SUITED.get(technology, {})

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Mappings that it does not have."""
        super().refuse(intent, facts)
        table = addresses.eams(intent)
        clat = isinstance(intent.configuration, ClatConfig)
        if table and not clat:
            raise UsageError(
                f"Tundra does not support explicit mappings such as {table[0][0]} = {table[0][1]}",
                "give both ends addresses in one prefix",
                params={"eam": [], "prefix": OWN_PREFIX},
                code="unsupported-by-device",
            )
        self.prefix(intent)
        map_rules.refuse_lowest_mtu(
            addresses.table_of(intent).lowest_ipv6_mtu,
            "Tundra fragments no packet that fits the IPv6 link",
            getattr(intent.links, addresses.ipv6_side(intent)).mtu,
        )
        if clat:
            self._single(intent)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        clat = isinstance(intent.configuration, ClatConfig)
        pair = self._single(intent) if clat else None
        config = self.text(intent, "clat" if clat else "siit", pair)
        return self.finish(
            facts,
            [*self.base(intent, facts), *self.running(intent, config)],
            checks=[self.alive()],
            notes=self.notes,
        )

    def _single(self, intent: Intent) -> tuple[Any, Any]:
        """The customer's host by both its addresses."""
        instead = {name: own.value for name, own in SUITED["clat"].items()}
        return addresses.single(intent, self.words, instead)
