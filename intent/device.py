"""Device intents: what a device under test must be, written by technologies and read by drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass as validated_dataclass
from pydantic_core import PydanticCustomError
from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import StrictModel
from v6t.intent.families import DeviceConfig

ConfigT = TypeVar("ConfigT", bound=DeviceConfig)

Port = Literal["left", "right"]  # a port of the tester: the end of a cable
Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


def _parse_mac(value: str) -> str:
    """Return a MAC address with colons; Cisco's dots and IEEE's hyphens are accepted."""
    pattern = r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2}"
    if not re.fullmatch(pattern, value):
        problem = "must be a MAC address"
        raise InvalidValue(problem, "write it as 02:00:00:00:01:02", code="not-an-address")
    digits = re.sub("[:.-]", "", value)
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))


def _refuse_stacked_tags(value: Any) -> Any:
    """Refuse a list of VLAN identifiers."""
    if isinstance(value, list):
        problem = "must be one identifier; stacked tags (IEEE 802.1ad) are not supported"
        raise PydanticCustomError("stacked_tags", problem)
    return value


MacAddress = Annotated[str, AfterValidator(_parse_mac)]
VlanId = Annotated[int, Field(ge=1, le=4094), BeforeValidator(_refuse_stacked_tags)]


class BackgroundVlan(StrictModel):
    """Path of native IPv6 traffic that bypasses the technology (RFC 8219, section 4.1)."""

    vlan: VlanId  #: IEEE 802.1Q identifier; differs from the link's, which must have one.
    device: IPv6Interface
    """The device's IPv6 address there, with prefix length; default: one that v6t assigns."""
    tester: IPv6Address  #: The tester's; default: the second in v6t's default network.

    @classmethod
    def with_default_addresses(cls, side: Port, vlan: int) -> BackgroundVlan:
        """Return a VLAN with addresses of RFC 5180 that no technology has by default."""
        net = f"2001:2:0:b00{0 if side == 'left' else 1}"
        return cls(vlan=vlan, device=IPv6Interface(f"{net}::1/64"), tester=IPv6Address(f"{net}::2"))


class Link(StrictModel):
    """Link between one tester port and the device."""

    tester_mac: MacAddress
    """MAC address of the tester's end; default: one that v6t assigns in the lab."""
    dut_mac: MacAddress  #: MAC address of the device's end; default: one that v6t assigns.
    vlan: VlanId | None = None  #: IEEE 802.1Q identifier, 1 to 4094; none: untagged.
    mtu: int = Field(default=1500, ge=1280, le=9216)  #: Octets of the longest IP packet.
    answers: bool = True
    """The tester answers ARP and neighbor solicitations for its addresses on it."""
    learning: bool | None = None
    """Before each trial, the tester's hosts resolve the device's addresses, so that the device and
    bridges in the path learn theirs (RFC 2544 section 23 b); none: if the tester answers."""
    background: BackgroundVlan | None = None
    """A VLAN for the background only, for devices that drop native IPv6 when the technology is on;
    none: the link's VLAN."""

    @model_validator(mode="after")
    def _check_background(self) -> Link:
        """Refuse a background on an untagged link, or in the link's own VLAN."""
        if self.background is not None and self.vlan in (None, self.background.vlan):
            other = 100 if self.background.vlan != 100 else 101
            problem = "needs a link with a VLAN that differs from that of the background"
            hint = f"for example vlan: {other} of the link"
            raise InvalidValue(problem, hint, code="missing-setting", settings=("background",))
        return self

    @property
    def sends_learning_frames(self) -> bool:
        """Whether the tester's hosts resolve the device's addresses before each trial."""
        return self.answers if self.learning is None else self.learning


_LEFT_LINK = Link(tester_mac="02:00:00:00:01:02", dut_mac="02:00:00:00:01:01")
_RIGHT_LINK = Link(tester_mac="02:00:00:00:02:02", dut_mac="02:00:00:00:02:01")


class EmulatedLink(Link):
    """A link with addresses of the tester's emulated hosts, and of the device with prefix lengths."""

    hosts: tuple[str, ...] = ()
    device: tuple[str, ...] = ()


@dataclass(frozen=True)
class Links:
    """Left and right link of a technology; its ``ip_versions`` are the IP versions on them."""

    left: Link = _LEFT_LINK  # link of the Initiator, or left link of the technology
    right: Link = _RIGHT_LINK  # link of the Responder
    swapped: bool = False
    """Whether the left link ends at the tester's right port, and the right one at its left."""

    def get_port(self, side: Port) -> Port:
        """Return the tester's port at which the link on a side of the technology ends."""
        opposite: Port = "right" if side == "left" else "left"
        return opposite if self.swapped else side

    def get_link(self, port: Port) -> Link:
        """Return the link that ends at a port of the tester."""
        return self.left if self.get_port("left") == port else self.right

    @property
    def background_vlans(self) -> tuple[BackgroundVlan, BackgroundVlan] | None:
        """VLANs of the background on the left and on the right; None: that of the technology."""
        left, right = self.left.background, self.right.background
        return None if left is None or right is None else (left, right)


@validated_dataclass(frozen=True)
class LinkIntent:
    """What a device must have on one link. Text is converted to addresses."""

    addresses: tuple[Interface, ...] = ()  # addresses of the device with their prefix lengths
    neighbors: Mapping[Address, str] = field(default_factory=dict)
    """MAC address of each host of the tester, or of the next device."""
    routes: Mapping[Network, Address] = field(default_factory=dict)
    """Next hop of each network behind the link."""
    background: LinkIntent | None = None
    """The same for the VLAN of the background; None: it has none."""

    @classmethod
    def describe(
        cls,
        link: Link,
        addresses: Iterable[object],
        testers: Iterable[object],
        routes: Mapping[Any, object] | None = None,
    ) -> LinkIntent:
        """Describe one link, with the VLAN of its background.

        Args:
            addresses: addresses of the device with their prefix lengths.
            testers: addresses of the tester.
            routes: networks behind the tester, each with the tester's address that leads there.
        """
        background = None
        if vlan := link.background:
            link = link.model_copy(update={"background": None})
            background = cls.describe(link, [vlan.device], [vlan.tester])
        return cls(
            tuple(ip_interface(str(address)) for address in addresses),
            {ip_address(str(tester)): link.tester_mac for tester in testers},
            {ip_network(str(net)): ip_address(str(via)) for net, via in (routes or {}).items()},
            background,
        )

    def select_version(self, version: int) -> LinkIntent:
        """Return the same without addresses and neighbors of the other version of IP."""
        return replace(
            self,
            addresses=tuple(a for a in self.addresses if a.version == version),
            neighbors={a: mac for a, mac in self.neighbors.items() if a.version == version},
        )


@dataclass(frozen=True)
class DeviceRequirements:
    """What a run requires of a device beyond its technology."""

    sessions: int = 0  # connections that the device must hold; 0: no requirement
    filters: int = 0
    """Filter rules of each direction; the middle one admits the test traffic."""
    live_change: bool = False
    """Whether a part of its configuration is added, changed and removed under traffic."""
    route_updates: bool = False  # whether a route that no test packet takes changes under traffic
    bgp_speaker: bool = False  # whether a BGP speaker sends these updates
    snmp_agent: bool = False  # whether it answers SNMP queries


@dataclass(frozen=True)
class PartIntent:
    """One device, or one stage of a device, in a chain from left to right."""

    name: str  # unique name in the chain
    device: str  # name of the device that it belongs to
    intent: DeviceIntent  # what it must be
    driver: str = "reference"  # its driver by default; ``reference``: the reference translation
    options: Mapping[str, Any] = field(default_factory=dict)  # options of that driver
    stateful: bool = False  # whether it tracks the connections
    to_ipv4: Literal["forward", "reverse"] | None = None
    """Direction in which it translates IPv6 to IPv4, if any."""
    replaces: tuple[str, ...] = ()
    """Names of adjacent parts that it can stand for; such an alternative is chosen by naming a driver for
    it."""
    params: Mapping[str, str] = field(default_factory=dict)
    """The chain's parameter for each parameter of the part that a driver's hint may name."""
    has_reference: bool = False  # whether the technology has a reference translation for it


@dataclass(frozen=True)
class DeviceIntent:
    """What a device must be, in vendor-neutral terms."""

    technology: str  # name of the plugin, for messages
    configuration: DeviceConfig
    """Model of the family of devices; drivers declare which ones they accept."""
    links: Links  # MAC addresses, VLANs and MTUs
    left: LinkIntent = field(default_factory=LinkIntent)
    right: LinkIntent = field(default_factory=LinkIntent)
    """Addresses, neighbors and routes of each link."""
    parts: tuple[PartIntent, ...] = ()
    """Devices and stages that make it up, from left to right; empty: it is not a chain."""
    alternatives: tuple[PartIntent, ...] = ()  # parts that can each stand for several others
    requirements: DeviceRequirements = field(default_factory=DeviceRequirements)
    """What the run adds to the technology's intent."""

    def to_json(self) -> dict[str, Any]:
        """Return the intent as JSON values."""
        return TypeAdapter(DeviceIntent).dump_python(  # type: ignore[no-any-return]
            self, mode="json", serialize_as_any=True
        )

    def get_configuration(self, kind: type[ConfigT]) -> ConfigT:
        """Return the configuration as a model of one kind.

        Raises:
            UsageError: it is of another family.
        """
        if isinstance(self.configuration, kind):
            return self.configuration
        family = self.configuration.family
        problem = f"the configuration of {self.technology} is {family!r}, not a {kind.__name__}"
        raise UsageError(problem, "choose another driver", code="unsupported-technology")

    @property
    def emulated_links(self) -> Links:
        """The links with the hosts that the tester emulates."""
        left, right = (
            EmulatedLink(
                **dict(link),
                hosts=tuple(map(str, side.neighbors)),
                device=tuple(map(str, side.addresses)),
            )
            for link, side in ((self.links.left, self.left), (self.links.right, self.right))
        )
        return replace(self.links, left=left, right=right)


def make_host_arguments(link: Link) -> dict[str, Any] | None:
    """Return the arguments of :class:`v6t.drivers.neighbours.Hosts`, None if the hosts stay silent."""
    flags = {"answers": link.answers, "introduces": link.sends_learning_frames}
    if not isinstance(link, EmulatedLink) or not link.hosts or not any(flags.values()):
        return None
    return {
        "mac": link.tester_mac,
        "addresses": list(link.hosts),
        "device_mac": link.dut_mac,
        "device": list(link.device),
        "vlan": link.vlan,
        **{name: False for name, value in flags.items() if not value},
        **({"background": link.background.model_dump(mode="json")} if link.background else {}),
    }
