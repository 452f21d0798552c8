"""What a device with one tunnel gives its customer: B4, lwB4, MAP-E CE, and an AFTR's end of one B4's."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from v6t.base.errors import UsageError
from v6t.drivers.duts.plan import Intent
from v6t.intent.families import AftrTunnelConfig, B4Config, LwB4Config


@dataclass(frozen=True)
class Customer:
    """What the device gives its customer.

    Attributes:
        local, remote: ends of the tunnel.
        side: where it is IPv6.
        edge: address and ports; None: any (B4).
    """

    local: IPv6Address
    remote: IPv6Address
    side: str
    edge: LwB4Config | None

    @property
    def inside(self) -> str:
        """The customer's side."""
        return "left" if self.side == "right" else "right"


def customer_of(intent: Intent) -> Customer:
    """Return the tunnel of a CE, a lwB4, a B4, or an AFTR with a single B4.

    Raises:
        UsageError: the device has no tunnel, or several.
    """
    configuration = intent.configuration
    if isinstance(configuration, B4Config):
        ends = (configuration.b4, configuration.aftr)
        return Customer(*ends, configuration.ipv6_side, None)
    if isinstance(configuration, AftrTunnelConfig):
        if configuration.b4_count > 1 or configuration.internal != configuration.customer:
            raise UsageError(
                f"a tunnel has one other end, and this AFTR has {configuration.b4_count} B4s",
                "take vpp for the whole AFTR; of ipv4aas, variant ds-lite, it can be the tunnel's "
                "end",
                code="unsupported-by-device",
            )
        return Customer(configuration.aftr, configuration.first_b4, "left", None)
    edge = intent.configuration_as(LwB4Config)
    return Customer(edge.tunnel_local, edge.tunnel_remote, edge.ipv6_side, edge)
