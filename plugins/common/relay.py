"""A relay with IPv6 customers on the left and an IPv4 server on the right; stateless."""

from __future__ import annotations

from abc import abstractmethod

from v6t.intent.device import link_side
from v6t.intent.families import IntentSettings
from v6t.plugins.base import DutIntent
from v6t.plugins.common.relay_params import RelayParams
from v6t.plugins.common.stateless import StatelessTechnology


class Relay(StatelessTechnology):
    """What relays of MAP-E, MAP-T and lightweight 4over6 have in common."""

    ip_versions = (6, 4)
    params: RelayParams

    @abstractmethod
    def settings(self) -> IntentSettings:
        """What the device must know beside its links' addresses and routes."""

    @abstractmethod
    def left_addresses(self) -> list[str]:
        """The relay's addresses with prefix length on the left link."""

    def dut_intent(self) -> DutIntent:
        """Settings, both links with static neighbours, routes to the customers."""
        p, links = self.params, self.links
        return DutIntent(
            technology=self.name,
            settings=self.settings().listed(),
            links=links,
            left=link_side(
                links.left,
                self.left_addresses(),
                [p.tester_left_ipv6],
                dict.fromkeys(p.customers, p.tester_left_ipv6),
            ),
            right=link_side(
                links.right,
                [p.dut_right_ipv4, p.dut_right_ipv6],
                [p.server_ipv4, p.tester_right_ipv6],
            ),
        )
