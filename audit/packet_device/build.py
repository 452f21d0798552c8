"""Build the packet-level device of a technology from its audit views."""

from v6t.audit.packet_device import nat, relays, translator
from v6t.audit.packet_device.device import PacketDevice
from v6t.base.errors import UsageError
from v6t.plugins import audit_views as views
from v6t.plugins.base import Technology

# view, attribute that it must have, device
DEVICES: tuple[tuple[type, str, type[PacketDevice]], ...] = (
    (views.Nat, "prefix", nat.Nat64Device),
    (views.Nat, "aftr", nat.AftrDevice),
    (views.Nat, "pool", nat.NatDevice),
    (views.SharedAddressRelay, "dmr", relays.MapTRelayDevice),
    (views.SharedAddressRelay, "relay", relays.TunnelRelay),
    (views.CustomerEdge, "dmr", relays.MapTCustomerEdge),
    (views.CustomerEdge, "relay", relays.TunnelCustomerEdge),
    (views.Translator, "table", translator.StatelessTranslatingDevice),
    (views.PrefixTranslator, "internal", translator.PrefixDevice),
    (views.TunnelEnd, "local", relays.SixInFourDevice),
    (views.Router, "left", PacketDevice),
)


def build_device(technology: Technology) -> PacketDevice:
    """Return the packet-level model of a correct device, for the technology's first view that has one."""
    for view in technology.list_audit_views():
        for kind, attribute, device in DEVICES:
            if isinstance(view, kind) and getattr(view, attribute):
                return device(technology.make_dut_intent(), view)
    problem = f"technology {technology.name} has no packet-level device"
    raise UsageError(problem, "choose a device that forwards packets", code="no-clauses")
