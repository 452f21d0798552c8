"""Frame sizes RFC 8219 lists for a technology on its links (GEN-04)."""

from __future__ import annotations

from collections.abc import Iterable

from v6t.base.errors import UsageError
from v6t.plugins.base import Technology
from v6t.plugins.frame_sizes import tag_octets

TAGGED_SIZE = 1522
"""The largest frame of RFC 8219 section 5.1.1 on a link with a VLAN."""
JUMBO_SIZES = (2048, 4096, 8192, 9216)
"""Frame sizes of RFC 8219 section 5.1.1 for links that carry them (GEN-04)."""


def rfc_sizes(plugin: Technology) -> tuple[int, ...]:
    """The technology's sizes of the RFC, and the larger ones its links carry."""
    larger = (TAGGED_SIZE, *JUMBO_SIZES) if plugin.links.left.vlan is not None else JUMBO_SIZES
    listed = tagged_sizes(plugin, plugin.rfc_frame_sizes)
    return (*listed, *(size for size in larger if _exists(plugin, size)))


def tagged_sizes(plugin: Technology, sizes: Iterable[int]) -> tuple[int, ...]:
    """The same sizes, longer by a VLAN tag where the frame has one and would be too short with it."""
    octets = tag_octets(plugin.links.left)
    return tuple(size if _exists(plugin, size) else size + octets for size in sizes)


def _exists(plugin: Technology, size: int) -> bool:
    try:
        plugin.frame_pair(size)
    except UsageError:
        return False
    return True
