"""A relay with IPv6 customers on the left and an IPv4 server on the right; stateless."""

from __future__ import annotations

from abc import abstractmethod

from v6t.intent.device import LinkIntent
from v6t.intent.families import DeviceConfig
from v6t.plugins.base import DeviceIntent
from v6t.plugins.common.relay_params import RelayParams
from v6t.plugins.common.stateless import StatelessTechnology


class Relay(StatelessTechnology):
    """What relays of MAP-E, MAP-T and lightweight 4over6 have in common."""

    ip_versions = (6, 4)
    params: RelayParams

    @abstractmethod
    def configuration(self) -> DeviceConfig:
        """Return the rules or the table of the relay."""

    @abstractmethod
    def left_addresses(self) -> list[str]:
        """The relay's addresses with prefix length on the left link."""

    def dut_intent(self) -> DeviceIntent:
        """Describe the configuration, and both links with the routes to the customers."""
        p, links = self.params, self.links
        return DeviceIntent(
            technology=self.name,
            configuration=self.configuration(),
            links=links,
            left=LinkIntent.describe(
                links.left,
                self.left_addresses(),
                [p.tester_left_ipv6],
                dict.fromkeys(p.customers, p.tester_left_ipv6),
            ),
            right=LinkIntent.describe(
                links.right,
                [p.dut_right_ipv4, p.dut_right_ipv6],
                [p.server_ipv4, p.tester_right_ipv6],
            ),
        )
