"""A million frames of each stateless technology: checksums, customers, hosts and ports (A15)."""

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from v6t.audit.packet_device.maps import find_psid
from v6t.core.config.plugins import load_technology_type
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.expand import Expander
from v6t.tests.packets.oracle import offsets, verify

from .support import compiled, deviation, forwarded_frames, make, number, packet_device

pytestmark = pytest.mark.slow

FRAMES, BATCH = 500_000, 50_000
"""Of each direction."""
SHARED = {"mape-br": 1000, "mapt-br": 1000, "lwaftr": 1000}
"""Simulated customers of relays."""
SINGLE = {"mape-ce": (6, 5), "mapt-ce": (6, 5), "lwb4": (6, 6)}
"""PSID offset and length of devices with one customer, whose PSID is 9."""
PAIRS = {"siit": 253 * 253, "clat": 1, "ipv4-router": None, "ipv6-router": None}
"""Pairs of hosts; None: too many for all to come."""


def address_rows(frames):
    """Return the addresses of all IP headers, at the places where scapy finds them in the first frame."""
    places = {IP: (12, 20), IPv6: (8, 40)}
    result = offsets(frames[0].tobytes())
    spans = [
        (result[kind] + a, result[kind] + b) for kind, (a, b) in places.items() if kind in result
    ]
    return np.concatenate([frames[:, a:b] for a, b in spans], axis=1)


def assert_even(counted, values):
    assert not np.delete(counted, values).any()
    drawn = counted[values]
    assert drawn.sum() < 5 * len(drawn) or abs(deviation(drawn)) < 6


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", [*SHARED, *SINGLE, *PAIRS])
def test_million_frames_are_valid_and_evenly_distributed(name, direction):
    plugin = make(name, **load_technology_type(name).varying_params)
    device = packet_device(plugin)
    (stream,) = compiled(plugin, direction)
    expander = Expander(stream)
    udp = offsets(expander.compute_frames(0, 1)[0].tobytes())[UDP]
    ports = np.zeros((2, 65536), dtype=np.int64)
    combinations: set[int] = set()
    for first in range(0, FRAMES, BATCH):
        frames = expander.compute_frames(first, BATCH)
        assert verify(frames).all()
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        for side in (0, 1):
            values = number(frames, udp + 2 * side, 2).astype(int)
            ports[side] += np.bincount(values, minlength=65536)
        rows = np.concatenate([address_rows(frames), address_rows(answer.frames)], axis=1)
        factors = np.random.default_rng(1).integers(1, 1 << 63, rows.shape[1], np.uint64)
        keys, index = np.unique((rows * factors).sum(axis=1, dtype=np.uint64), return_index=True)
        combinations |= set(keys.tolist())
        some = index[:: max(1, len(index) // 20)]
        out = [answer.frames[row, : answer.length[row]].tobytes() for row in some]
        assert out == forwarded_frames(device, direction, frames[some])
    customers = SHARED.get(name, 1 if name in SINGLE else PAIRS.get(name))
    if customers:
        # half a million draws leave out a few of many thousand pairs
        least = customers if customers <= 10_000 else 0.999 * customers
        assert least <= len(combinations) <= customers
    assert not ports[:, 0].any()
    own = None if name in PAIRS else int((direction == "forward") == (name in SINGLE))
    for side, (counted, values) in enumerate(zip(ports, ((1024, 65536), (1, 49152)), strict=True)):
        if side != own:
            assert_even(counted, np.arange(*values))
        elif name in SINGLE:
            offset, length = SINGLE[name]
            bits = f"{9:0{length}b}"
            owned = [p for p in range(65536) if find_psid(p, offset, length) == bits]
            assert_even(counted, np.array(owned))
