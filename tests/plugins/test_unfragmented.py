"""IPv4 without DF: a translator fragments what becomes longer than 1280 octets of IPv6."""

from __future__ import annotations

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_plugin, names
from v6t.core.config.technology import params_of
from v6t.packets.direction import DIRECTIONS

LARGEST = 1280 + 18
"""IPv6 frame that no translator makes fragments of, FCS included."""
DUAL = [{"variant": v} for v in ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t")]


def technologies():
    for name in sorted(names()):
        plugin = load_plugin(name)
        if plugin.exchange != "frames":
            continue
        for given in DUAL if name == "ipv4aas" else [{}]:
            yield pytest.param(name, given, id="-".join([name, *given.values()]))


def made(name, given):
    plugin = load_plugin(name)
    return plugin(params_of(plugin, given))


def directions_refused(technology, size):
    refused = []
    for direction in DIRECTIONS:
        try:
            technology.traffic(direction, technology.frame_pair(size))
        except UsageError:
            refused.append(direction)
    return refused


@pytest.mark.parametrize(("name", "given"), list(technologies()))
def test_frames_without_df_are_refused_where_they_become_fragments(name, given):
    technology = made(name, {**given, "df": False})
    towards_ipv6 = [
        direction
        for direction, (here, there) in zip(
            DIRECTIONS, (technology.ip_versions, technology.ip_versions[::-1]), strict=True
        )
        if technology.overhead == 20 and (here, there) != (6, 4)
    ]
    assert directions_refused(technology, LARGEST) == []
    assert directions_refused(technology, LARGEST + 1) == towards_ipv6
    assert directions_refused(made(name, {**given, "df": True}), 1518) == []
