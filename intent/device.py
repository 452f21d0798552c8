"""What a device must be configured to be, in no vendor's words: the cables and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Port = Literal["left", "right"]
"""Of the tester: the end of a cable."""


@dataclass(frozen=True)
class Aside:
    """Where native IPv6 goes instead of through the technology: another VLAN of a cable (MIX-04).

    Attributes:
        vlan: its identifier.
        device: address of the device there, with prefix length.
        tester: the tester's; background traffic is between those of both links.
    """

    vlan: int
    device: str
    tester: str

    @classmethod
    def on(cls, side: Port, vlan: int) -> Aside:
        """With addresses out of RFC 5180's block that no technology has by default."""
        net = "2001:2:0:b000" if side == "left" else "2001:2:0:b001"
        return cls(vlan, f"{net}::1/64", f"{net}::2")


@dataclass(frozen=True)
class Link:
    """One cable between tester and device.

    Attributes:
        tester_mac, dut_mac: Ethernet addresses of its two ends.
        vlan: IEEE 802.1Q identifier 1..4094, or None for untagged frames.
        mtu: octets of IP packet the link carries.
        answers: the tester answers ARP and neighbour solicitations for its hosts on it.
        learning: before each trial these ask for the device, so that it and what is on the way learn them
            (RFC 2544 section 23 b); None: where the tester answers.
        background: the background has a VLAN of its own on it (MIX-04); None: that of the technology.
    """

    tester_mac: str
    dut_mac: str
    vlan: int | None = None
    mtu: int = 1500
    answers: bool = True
    learning: bool | None = None
    background: Aside | None = None

    @property
    def introduces(self) -> bool:
        """Learning frames are sent on it."""
        return self.answers if self.learning is None else self.learning


@dataclass(frozen=True)
class PlayedLink(Link):
    """A link with who is on it, for the tester that plays the hosts.

    Attributes:
        hosts: addresses that the device resolves.
        device: its own, with prefix lengths.
    """

    hosts: tuple[str, ...] = ()
    device: tuple[str, ...] = ()


@dataclass(frozen=True)
class Links:
    """Left and right link; the technology's ``ip_versions`` say what each of them carries.

    Attributes:
        left: of the Initiator, or of whoever else is on the technology's left.
        right: of the Responder.
        turned: the left link is at the tester's right port, and the right one at its left (ST-01).
    """

    left: Link = Link("02:00:00:00:01:02", "02:00:00:00:01:01")
    right: Link = Link("02:00:00:00:02:02", "02:00:00:00:02:01")
    turned: bool = False

    def port(self, side: Port) -> Port:
        """Where the link on a side of the technology ends."""
        if not self.turned:
            return side
        return "right" if side == "left" else "left"

    @property
    def asides(self) -> tuple[Aside, Aside] | None:
        """Where the background goes on the left and on the right; None: with everything else."""
        left, right = self.left.background, self.right.background
        return None if left is None or right is None else (left, right)

    def at(self, port: Port) -> Link:
        """The link that ends at a port."""
        return self.left if self.port("left") == port else self.right


def played(links: Links, left: Mapping[str, Any], right: Mapping[str, Any]) -> Links:
    """The links with the hosts and the device's addresses of both sides of an intent."""

    def one(link: Link, side: Mapping[str, Any]) -> Link:
        own = {f.name: getattr(link, f.name) for f in fields(link)}
        return PlayedLink(**own, hosts=tuple(side["neighbours"]), device=tuple(side["addresses"]))

    return Links(one(links.left, left), one(links.right, right), links.turned)


def hosts_on(link: Link) -> dict[str, Any] | None:
    """Arguments of :class:`v6t.drivers.neighbours.Hosts`; None: the tester says nothing for anybody."""
    if not isinstance(link, PlayedLink) or not link.hosts:
        return None
    if not (link.answers or link.introduces):
        return None
    silent = {"answers": link.answers, "introduces": link.introduces}
    aside = link.background
    return {
        "mac": link.tester_mac,
        "addresses": list(link.hosts),
        "device_mac": link.dut_mac,
        "device": list(link.device),
        "vlan": link.vlan,
        **{name: False for name, does in silent.items() if not does},
        **({"background": asdict(aside)} if aside else {}),
    }


def link_side(
    link: Link,
    addresses: Iterable[object],
    testers: Iterable[object],
    routes: Mapping[Any, object] | None = None,
) -> dict[str, Any]:
    """One link of an intent.

    Args:
        link: the cable.
        addresses: of the device, with prefix lengths.
        testers: addresses of the tester on it.
        routes: prefixes behind the tester, and through which of its addresses.
    """
    side: dict[str, Any] = {
        "addresses": [str(address) for address in addresses],
        "neighbours": dict.fromkeys(map(str, testers), link.tester_mac),
        "routes": {str(net): str(via) for net, via in (routes or {}).items()},
    }
    aside = link.background
    if aside is not None:
        neighbours = {aside.tester: link.tester_mac}
        side["background"] = {
            "vlan": aside.vlan, "addresses": [aside.device], "neighbours": neighbours
        }  # fmt: skip
    return side


@dataclass(frozen=True)
class DutIntent:
    """What the device must be configured to be, in no vendor's words.

    Attributes:
        technology: the plugin's name.
        settings: technology parameters (rules, prefixes, pools), JSON-like values.
        left, right: per link ``{"addresses": [...], "neighbours": {address: mac},
            "routes": {prefix: via}}``; where the background has a VLAN of its own also ``"background":
            {"vlan": ..., "addresses": ..., "neighbours": ...}``.
        links: MAC addresses, VLANs and MTUs.
    """

    technology: str
    settings: Mapping[str, Any]
    links: Links
    left: Mapping[str, Any] = field(default_factory=dict)
    right: Mapping[str, Any] = field(default_factory=dict)
