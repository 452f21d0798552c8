"""What a device with one tunnel gives its customer: B4, lwB4, MAP-E CE, and an AFTR's end of one B4's."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from v6t.base.errors import UsageError
from v6t.drivers.duts.plan import Intent
from v6t.intent.families import CustomerEdge, Softwire, Softwires, settings_of


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
    edge: CustomerEdge | None

    @property
    def inside(self) -> str:
        """The customer's side."""
        return "left" if self.side == "right" else "right"


def customer_of(intent: Intent) -> Customer:
    """Out of the intent of a CE, a lwB4 or a B4; or of an AFTR's end of the tunnel of one B4.

    Raises:
        UsageError: it translates, or has a NAPT of its own.
    """
    settings = settings_of(intent)
    if isinstance(settings, Softwire):
        ends = (settings.b4, settings.aftr)
        local, remote = ends[::-1] if intent.technology == "softwire" else ends
        return Customer(local, remote, settings.ipv6_side, None)
    if isinstance(settings, Softwires):
        raise UsageError(
            f"a tunnel has one other end, and this AFTR has {settings.b4[1]} B4s",
            "take vpp for the whole AFTR; of ipv4aas, variant ds-lite, it can be the tunnel's end",
            code="unsupported-by-device",
        )
    edge = CustomerEdge.of(intent)
    if edge.tunnel_local is None or edge.tunnel_remote is None:
        raise UsageError(
            f"{intent.technology} has no tunnel",
            "choose another driver",
            code="unsupported-technology",
        )
    return Customer(edge.tunnel_local, edge.tunnel_remote, edge.ipv6_side, edge)
