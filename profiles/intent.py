"""What a device must be configured to be, in no vendor's words: the cables and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Link:
    """One cable between tester and device.

    Attributes:
        tester_mac, dut_mac: Ethernet addresses of its two ends.
        vlan: IEEE 802.1Q identifier 1..4094, or None for untagged frames.
        mtu: octets of IP packet the link carries.
    """

    tester_mac: str
    dut_mac: str
    vlan: int | None = None
    mtu: int = 1500


@dataclass(frozen=True)
class Links:
    """Left and right link; the technology's ``ip_versions`` say what each of them carries."""

    left: Link = Link("02:00:00:00:01:02", "02:00:00:00:01:01")
    right: Link = Link("02:00:00:00:02:02", "02:00:00:00:02:01")


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
    return {
        "addresses": [str(address) for address in addresses],
        "neighbours": dict.fromkeys(map(str, testers), link.tester_mac),
        "routes": {str(net): str(via) for net, via in (routes or {}).items()},
    }


@dataclass(frozen=True)
class DutIntent:
    """What the device must be configured to be, in no vendor's words.

    Attributes:
        technology: the plugin's name.
        settings: technology parameters (rules, prefixes, pools), JSON-like values.
        left, right: per link ``{"addresses": [...], "neighbours": {address: mac},
            "routes": {prefix: via}}``.
        links: MAC addresses, VLANs and MTUs.
    """

    technology: str
    settings: Mapping[str, Any]
    links: Links
    left: Mapping[str, Any] = field(default_factory=dict)
    right: Mapping[str, Any] = field(default_factory=dict)
