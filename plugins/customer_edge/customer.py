"""One customer's device: its public IPv4 address or prefix, its ports, its IPv6 addresses.

The device is measured without NAPT: the hosts behind it use the public address and ports
themselves. That is the stateless part of a CE; NAPT in front of it is a stateful gateway's matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from v6t.base.errors import UsageError
from v6t.packets.reference import DropReason, list_drop_reasons
from v6t.plugins import address_mappings
from v6t.plugins.common.ports import PortSet
from v6t.plugins.map_rules import MapRule
from v6t.plugins.tunnel.ipip import UNMARKABLE


class CustomerDrop(DropReason):
    """Why a CE or lwB4 drops a frame."""

    WRONG_ADDRESS = "an address is not the customer's"
    BAD_PORT = "port outside the customer's port set"
    WRONG_RELAY = "does not come from the relay"
    TOO_BIG = "too big, or to be fragmented"
    UNMARKED = UNMARKABLE


DROP_REASONS = list_drop_reasons(CustomerDrop)


@dataclass(frozen=True)
class Tunnel:
    """IPv4 in IPv6 between two addresses.

    Attributes:
        local, remote: its ends.
        uniform: DSCPs are carried over both ways (RFC 2983 section 3).
    """

    local: IPv6Address
    remote: IPv6Address
    uniform: bool = False


@dataclass(frozen=True)
class Translation:
    """MAP-T: the customer's hosts by a rule, everybody else by the DMR.

    Attributes:
        rule, dmr, psid: of the customer.
        lowest_ipv6_mtu: longest IPv6 packet made of IPv4 without DF [octets].
    """

    rule: MapRule
    dmr: IPv6Network
    psid: int
    lowest_ipv6_mtu: int

    def ipv6(self, host: IPv4Address) -> IPv6Address:
        """Compute the IPv6 address of a host of the customer."""
        return self.rule.map_address(host, self.psid, whole_host=True)

    def peer(self, ipv4: IPv4Address) -> IPv6Address:
        """IPv6 address of everybody else."""
        return address_mappings.embed(self.dmr, ipv4)


@dataclass(frozen=True)
class Customer:
    """What the device gives its customer, and how packets cross the IPv6 network."""

    ipv4: IPv4Network
    ports: PortSet
    way: Tunnel | Translation

    @property
    def host_bits(self) -> int:
        """Bits of the IPv4 address left to the customer's hosts."""
        return 32 - self.ipv4.prefixlen


def checked_ports(psid_offset: int, psid_len: int, psid: int) -> PortSet:
    """A port set with at least one port a test frame may use.

    Raises:
        UsageError: there is none, or no such PSID.
    """
    if psid_len and psid_offset + psid_len > 16:
        raise UsageError(
            f"psid_offset {psid_offset} plus PSID length {psid_len} is more than the 16 bits of a "
            "port",
            f"set psid_offset to at most {16 - psid_len}",
            code="out-of-range",
        )
    if not 0 <= psid < 1 << psid_len:
        raise UsageError(f"PSID {psid} does not fit {psid_len} bits", code="out-of-range")
    if psid_len == 16 and not psid:
        raise UsageError(
            "PSID 0 of 16 bits has only port 0",
            "choose another PSID",
            code="not-enough-addresses",
        )
    return PortSet(psid_offset, psid_len, psid)
