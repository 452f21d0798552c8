"""Parameters of the dual-DUT setup: addresses of both devices, port sets, headroom (DD-03)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, IPv6Network
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.plugins.base import Embedded
from v6t.plugins.map_ce import checked_ports
from v6t.plugins.map_domains import RuleParams
from v6t.plugins.params import address, tester
from v6t.plugins.ports import PortSet
from v6t.plugins.prefixes import network6
from v6t.plugins.stateful.params import LOWEST_PORT, ConnectionParams, Ports, PublicPool
from v6t.plugins.translation import rfc6052

Variant = Literal["464xlat", "ds-lite", "lw4o6", "map-e", "map-t"]
CE_STATEFUL = ("lw4o6", "map-e", "map-t")
"""Variants whose CE keeps the connections and has a port set; of the others the PE does."""
HEADROOM = 0.9
"""Share of a port set above which a NAPT was seen to degrade (DD-03)."""
WIDEST = 96
"""Length of the prefixes that hold a whole IPv4 address in their last bits."""


DEFAULT_PSID_LEN = 3
"""PSID length of lw4o6."""


class Ipv4aasParams(ConnectionParams, RuleParams):
    """Everything ``ipv4aas`` can be told."""

    ranges: ClassVar[Mapping[str, str]] = {
        "initiator_ipv4": "initiator_count",
        "responder_ipv4": "responder_count",
        "public_ipv4": "public_count",
    }

    variant: Variant = Field("464xlat", description="464xlat, ds-lite, lw4o6, map-e or map-t")
    initiator_ports: Ports = Field(
        Ports(min=4096, max=8191), description="source ports of the Initiator"
    )
    responder_ports: Ports = Field(
        Ports(min=1, max=1000), description="destination ports, those of the Responder"
    )
    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")
    responder_ipv4: IPv4Address = address("198.19.0.2", "first address of the Responder")
    public_ipv4: IPv4Address | None = Field(
        None,
        description="first public address: of the PE (198.19.0.1), or the CE's own (192.0.2.35)",
    )
    public_count: int = Field(1, ge=1, le=65536, description="public addresses of a stateful PE")
    public_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=65535), description="public ports of a stateful PE"
    )
    prefix: str = Field("2001:db8:64::/96", description="464xlat: RFC 6052 prefix of the PLAT")
    clat_ipv6: str = Field(
        "2001:2:0:2::/96", description="464xlat: prefix that stands for the customer's IPv4"
    )
    rule_ipv6: str = Field("2001:db8:ce::/53", description="map-e, map-t: rule IPv6 prefix")
    rule_ipv4: str = Field("192.0.2.0/24", description="map-e, map-t: rule IPv4 prefix")
    ea_len: int = Field(11, description="map-e, map-t: length of the EA bits")
    psid_offset: int = Field(
        0,
        ge=0,
        le=16,
        description="lw4o6, map-e, map-t: PSID offset; the NAPT takes the first range of ports",
    )
    dmr: str = Field("2001:db8:ffff::/64", description="map-t: default mapping rule")
    b4_prefix: str = Field(
        "2001:db8:b400::/40", description="lw4o6: IPv6 prefix of the lwB4s, a /64 for each"
    )
    psid: int = Field(3, ge=0, description="lw4o6, map-e, map-t: PSID of the CE")
    psid_len: int | None = Field(
        None, ge=0, le=15, description="lw4o6 (3), map-e and map-t without EA bits: PSID length"
    )
    ce_middle_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::9/64"), description="the CE's address on the middle link"
    )
    pe_middle_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::1/64"),
        description="the PE's address on the middle link; also its tunnel's",
    )
    ce_mac: str = Field(
        "02:00:00:00:03:01",
        pattern="^([0-9a-f]{2}:){5}[0-9a-f]{2}$",
        description="the CE's MAC address on the middle link",
    )
    pe_mac: str = Field(
        "02:00:00:00:03:02",
        pattern="^([0-9a-f]{2}:){5}[0-9a-f]{2}$",
        description="the PE's MAC address on the middle link",
    )
    middle_mtu: int = Field(1500, ge=1280, le=9216, description="MTU of the middle link")
    dut_left_ipv4: IPv4Interface = address("192.168.18.1/30", "the CE's IPv4 address on the left")
    tester_left_ipv4: IPv4Address = tester("192.168.18.2", "left")
    dut_right_ipv4: IPv4Interface = address("192.168.19.1/30", "the PE's IPv4 address on the right")
    tester_right_ipv4: IPv4Address = tester("192.168.19.2", "right")

    @property
    def embedded_addresses(self) -> Embedded:
        """Return the Responder's addresses, where the variant translates."""
        last = self.responder_ipv4 + (self.responder_count - 1)
        name = {"464xlat": "prefix", "map-t": "dmr"}.get(self.variant)
        if name is None:
            return {}
        return {name: (network6(getattr(self, name), name), (self.responder_ipv4, last))}

    @property
    def ce_stateful(self) -> bool:
        """Whether the CE keeps the connections (DD-04)."""
        return self.variant in CE_STATEFUL

    @property
    def public_first(self) -> IPv4Address:
        """First public address."""
        if self.public_ipv4 is not None:
            return self.public_ipv4
        return IPv4Address("192.0.2.35" if self.ce_stateful else "198.19.0.1")

    @property
    def publics(self) -> int:
        """Number of public addresses."""
        return 1 if self.ce_stateful else self.public_count

    @property
    def outside(self) -> Ports:
        """Ports the connections leave from."""
        if not self.ce_stateful:
            return self.public_ports
        first, last = self.port_set.ranges[0]
        return Ports(min=max(first, 1), max=last)  # port 0 is reserved

    @property
    def public(self) -> PublicPool:
        return PublicPool(self.public_first, self.publics, self.outside)

    @property
    def initiator(self) -> IPv4Address:
        return self.initiator_ipv4

    @property
    def responder(self) -> IPv4Address:
        return self.responder_ipv4

    @property
    def only_psid(self) -> int:
        """Return the CE's PSID."""
        return self.psid

    @property
    def softwire_psid_len(self) -> int:
        """Return the PSID length of lw4o6."""
        return DEFAULT_PSID_LEN if self.psid_len is None else self.psid_len

    @property
    def port_set(self) -> PortSet:
        """The CE's ports."""
        if self.variant == "lw4o6":
            return checked_ports(self.psid_offset, self.softwire_psid_len, self.psid)
        return self.rule.port_set(self.psid)

    @property
    def plat_prefix(self) -> IPv6Network:
        """The checked prefix of the PLAT."""
        return rfc6052.check_prefix(network6(self.prefix, "prefix"))

    @property
    def clat_prefix(self) -> IPv6Network:
        """The checked prefix of the CLAT."""
        return network6(self.clat_ipv6, "clat_ipv6")

    @property
    def used_ports(self) -> float:
        """Share of the NAPT's ports that the Initiator's sources take (DD-03); 0: no port set."""
        return self.endpoints / self.outside.count if self.ce_stateful else 0.0

    @model_validator(mode="after")
    def _possible(self) -> Ipv4aasParams:
        if self.m != self.n:
            raise UsageError(
                "background between two IPv4 networks cannot be distinguished from the foreground",
                "set n = m",
                code="no-background",
            )
        if self.variant == "464xlat":
            self._check_prefixes()
        if self.ce_stateful:
            self._check_ports()
        self.check_room("public_ipv4", "responder_ipv4", "public_count", "devices")
        return self

    def _check_prefixes(self) -> None:
        for name, net in (("prefix", self.plat_prefix), ("clat_ipv6", self.clat_prefix)):
            if net.prefixlen != WIDEST:
                raise UsageError(
                    f"{name} {net} must be a /{WIDEST}, whose last bits hold an IPv4 address",
                    f"use a /{WIDEST}",
                    code="not-a-prefix",
                )
        if self.plat_prefix == self.clat_prefix:
            raise UsageError(
                "prefix and clat_ipv6 are the same", "choose two prefixes", code="address-conflict"
            )

    def _check_ports(self) -> None:
        if self.variant != "lw4o6":
            rule = self.rule
            if self.public_first not in rule.ipv4_prefix:
                raise UsageError(
                    f"public_ipv4 {self.public_first} is outside the rule's IPv4 prefix "
                    f"{rule.ipv4_prefix}",
                    "choose one within it",
                    code="outside-prefix",
                )
            if rule.prefix_ce:
                raise UsageError(
                    f"with {self.ea_len} EA bits the CE has a whole IPv4 prefix",
                    f"set ea_len to at least {32 - rule.ipv4_prefix.prefixlen}",
                    code="conflict",
                )
        first, last = self.port_set.ranges[0]
        if first < LOWEST_PORT and not self.low_ports:
            raise UsageError(
                f"the port set {first} to {last} of PSID {self.psid} holds ports below "
                f"{LOWEST_PORT}",
                "choose another psid, or set low_ports to true",
                code="out-of-range",
            )
        if self.endpoints > self.outside.count:
            ranges = len(self.port_set.ranges)
            of = f"first of {ranges} ranges of the CE's ports" if ranges > 1 else "CE's port set"
            raise UsageError(
                f"{self.endpoints} source ports do not fit the {of} of {self.outside.count}",
                "shorten initiator_ports, lower initiator_count, or give the CE more ports "
                "(ea_len, psid_len, psid_offset)",
                code="not-enough-addresses",
            )

    @property
    def tunnel_ipv6(self) -> IPv6Address:
        """Where the PE's tunnels end."""
        return self.pe_middle_ipv6.ip
