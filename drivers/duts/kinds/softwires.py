"""Softwires of an intent: tunnels, binding tables and MAP rules, and checks of implementation limits."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.plan import Intent
from v6t.intent import families
from v6t.intent.binding_table import SoftwireRow, read_softwires
from v6t.packets.address_layouts import GeneratedSoftwires

DEFAULT_LOWEST_MTU = 1280  # minimum MTU of IPv6 links [octets]
OUTER_HEADER_OCTETS = 40  # size of the IPv6 header that a tunnel adds


def iter_softwires(intent: Intent) -> Iterator[SoftwireRow]:
    """Yield the rows of an lwAFTR's binding table, each with the lwAFTR's address."""
    configuration = intent.get_configuration(families.LwAftrConfig)
    table, br = configuration.table, configuration.br_address
    if not isinstance(table, families.GeneratedTable):
        for _, row in read_softwires(Path(table.file)):
            yield row._replace(br=row.br or br)
        return
    index_bits = (table.softwires - 1).bit_length()
    generated = GeneratedSoftwires(table.ipv4_pool, table.b4_prefix, table.psid_len, index_bits)
    layouts = generated.ipv4_layout, generated.psid_layout, generated.b4_layout
    for number in range(table.softwires):
        ipv4, psid, b4 = (layout.encode(softwire=number) for layout in layouts)
        share = psid, table.psid_len, table.psid_offset
        yield SoftwireRow(IPv4Address(ipv4), *share, IPv6Address(b4), br)


@dataclass(frozen=True)
class DeviceTunnelEnd:
    """One end of a customer's IPv4-in-IPv6 tunnel."""

    local: IPv6Address  # outer address of this end
    remote: IPv6Address  # outer address of the opposite end
    ipv6_side: str  # side of the device on which the tunnel's packets leave
    lwb4: families.LwB4Config | None  # the customer's address and ports; None for a B4
    has_interface_address: bool  # ``local`` is an address of the link on the IPv6 side
    mtu: int  # longest packet that fits this link with the outer header

    @property
    def ipv4_side(self) -> str:
        """Side of the device on which the decapsulated IPv4 packets leave."""
        return "left" if self.ipv6_side == "right" else "right"


def get_tunnel_end(intent: Intent) -> DeviceTunnelEnd:
    """Return the tunnel end of a device that is a CE, lwB4, B4, or AFTR with a single B4."""
    configuration, lwb4 = intent.configuration, None
    if isinstance(configuration, families.B4Config):
        local, remote, side = configuration.b4, configuration.aftr, configuration.ipv6_side
    elif isinstance(configuration, families.AftrTunnelConfig):
        if configuration.b4_count > 1 or configuration.internal != configuration.customer:
            problem = f"a tunnel has one B4, and this AFTR has {configuration.b4_count}"
            hint = "use vpp for a complete AFTR, or ipv4aas with variant ds-lite for one tunnel"
            raise make_unsupported_error(problem, hint)
        local, remote, side = configuration.aftr, configuration.first_b4, "left"
    else:
        lwb4 = intent.get_configuration(families.LwB4Config)
        local, remote, side = lwb4.tunnel_local, lwb4.tunnel_remote, lwb4.ipv6_side
    present = any(interface.ip == local for interface in getattr(intent, side).addresses)
    mtu = getattr(intent.links, side).mtu - OUTER_HEADER_OCTETS
    return DeviceTunnelEnd(local, remote, side, lwb4, present, mtu)


def check_iid_format(rules: Iterable[families.MapRuleConfig], display_name: str) -> None:
    """Raise UsageError unless all rules use the interface identifiers of RFC 7597."""
    for rule in rules:
        if rule.iid_format != "rfc7597":
            problem = f"{display_name} does not support iid_format {rule.iid_format} of {rule.ipv6_prefix}"
            hint = "set iid_format to rfc7597, or use another driver"
            raise make_unsupported_error(problem, hint, params={"iid_format": "rfc7597"})


def check_no_psid(rules: Iterable[families.MapRuleConfig], display_name: str) -> None:
    """Raise UsageError if a rule sets a PSID, which is possible without EA bits (RFC 7597, section 5.2)."""
    for rule in rules:
        if rule.psid is not None:
            problem = f"{display_name} cannot configure psid {rule.psid} of {rule.ipv4_prefix}"
            raise make_unsupported_error(problem, "use EA bits, or use another driver")


def check_lowest_mtu(mtu: int, reason: str, supported_mtu: int) -> None:
    """Raise UsageError with a reason unless ``lowest_ipv6_mtu`` is the default or the supported MTU."""
    if mtu not in (supported_mtu, DEFAULT_LOWEST_MTU):
        problem = f"lowest_ipv6_mtu {mtu} cannot be configured: {reason}"
        hint = f"set lowest_ipv6_mtu to {supported_mtu}, or use another driver"
        params = {"lowest_ipv6_mtu": supported_mtu}
        raise UsageError(problem, hint, params=params, code="setting-untellable")
