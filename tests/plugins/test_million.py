"""A million frames of each stateless technology: checksums, customers, hosts and ports."""

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from v6t.audit.packet_device.maps import find_psid
from v6t.core.config.plugins import load_technology_type
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.expand import Expander
from v6t.tests.packets.oracle import find_offsets, verify

from .support import compile_streams, forward_frames, make, make_device, read_numbers

pytestmark = pytest.mark.slow

FRAMES, BATCH = 500_000, 50_000
"""Numbers of frames in each direction and in each batch."""
SHARED = {"mape-br": 1000, "mapt-br": 1000, "lwaftr": 1000}
"""Numbers of simulated customers of relays."""
SINGLE = {"mape-ce": (6, 5), "mapt-ce": (6, 5), "lwb4": (6, 6)}
"""PSID offset and length of devices with one customer; the PSID is 9."""
PAIRS = {"siit": 253 * 253, "clat": 1, "ipv4-router": None, "ipv6-router": None}
"""Numbers of host pairs; None if half a million frames cannot contain all pairs."""


def read_address_rows(frames):
    """Return the addresses of all IP headers, located by scapy in the first frame."""
    places = {IP: (12, 20), IPv6: (8, 40)}
    starts = find_offsets(frames[0].tobytes())
    spans = [(starts[k] + a, starts[k] + b) for k, (a, b) in places.items() if k in starts]
    return np.concatenate([frames[:, a:b] for a, b in spans], axis=1)


def assert_even(counts, values):
    """Check that only these values occur, with chi-square within 6 standard deviations."""
    assert not np.delete(counts, values).any()
    drawn, freedom = counts[values], len(values) - 1
    expected = drawn.sum() / len(drawn)
    chi2 = float(((drawn - expected) ** 2 / expected).sum())
    assert abs(chi2 - freedom) < 6 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", [*SHARED, *SINGLE, *PAIRS])
def test_million_frames_are_valid_and_evenly_distributed(name, direction):
    plugin = make(name, **load_technology_type(name).varying_params)
    device = make_device(plugin)
    (stream,) = compile_streams(plugin, direction)
    expander = Expander(stream)
    udp = find_offsets(expander.compute_frames(0, 1)[0].tobytes())[UDP]
    ports = np.zeros((2, 65536), dtype=np.int64)
    combinations: set[int] = set()
    for first in range(0, FRAMES, BATCH):
        frames = expander.compute_frames(first, BATCH)
        assert verify(frames).all()
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        for side in (0, 1):
            values = read_numbers(frames, udp + 2 * side, 2).astype(int)
            ports[side] += np.bincount(values, minlength=65536)
        rows = np.concatenate([read_address_rows(frames), read_address_rows(answer.frames)], axis=1)
        factors = np.random.default_rng(1).integers(1, 1 << 63, rows.shape[1], np.uint64)
        keys, index = np.unique(np.einsum("ij,j->i", rows, factors), return_index=True)
        combinations |= set(keys.tolist())
        sample = index[:: max(1, len(index) // 20)]
        out = [answer.frames[row, : answer.length[row]].tobytes() for row in sample]
        assert out == forward_frames(device, direction, frames[sample])
    customers = SHARED.get(name, 1 if name in SINGLE else PAIRS.get(name))
    if customers:
        # half a million draws miss a few of many thousand pairs
        minimum = customers if customers <= 10_000 else 0.999 * customers
        assert minimum <= len(combinations) <= customers
    assert not ports[:, 0].any()
    customer_side = None if name in PAIRS else int((direction == "forward") == (name in SINGLE))
    for side, (counts, values) in enumerate(zip(ports, ((1024, 65536), (1, 49152)), strict=True)):
        if side != customer_side:
            assert_even(counts, np.arange(*values))
        elif name in SINGLE:
            offset, length = SINGLE[name]
            bits = f"{9:0{length}b}"
            owned = [p for p in range(65536) if find_psid(p, offset, length) == bits]
            assert_even(counts, np.array(owned))
