"""Enumeration of each four-tuple exactly once, in any order and on any number of cores."""

import math
from itertools import product

import numpy as np
import pytest
from pydantic import ValidationError
from v6t.core.config.plugins import load_technology_type
from v6t.packets.arrays import sort_unique
from v6t.plugins import four_tuples
from v6t.plugins.nat44 import Nat44Params
from v6t.plugins.nat64 import Nat64Params
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Layer, Role, Traffic, TrafficClass
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve

from .support import compile_streams, make, read_numbers

pytestmark = pytest.mark.slow

BATCH = 1 << 18
BOTH = {
    "initiator_ports": {"min": 1024, "max": 1423}, "responder_ports": {"min": 1, "max": 100},
    "initiator_count": 10, "responder_count": 10, "enumerate_ports": 3, "enumerate_ips": 3,
    "pool_count": 2, "responder_ipv4": "198.19.1.2",
}  # fmt: skip


def number_tuples(plugin, frames):
    """Return the low 16 bits of both addresses and both ports of each frame as one number."""
    offsets = (36, 52, 54, 56) if plugin.ip_versions[0] == 6 else (28, 32, 34, 36)
    total = np.zeros(len(frames), dtype=np.uint64)
    for at in offsets:
        total = total << np.uint64(16) | read_numbers(frames, at, 2)
    return total


def make_expander(plugin, core=0, cores=1, seed=1):
    return Expander(compile_streams(plugin, "forward", 84, seed)[0], core, cores)


@pytest.mark.parametrize(("name", "cores"), [("nat44", 1), ("nat44", 16), ("nat64", 4)])
def test_each_of_four_million_four_tuples_occurs_once(name, cores):
    plugin, count = make(name, **BOTH), 400 * 100 * 10 * 10
    assert plugin.combinations == count == 4_000_000
    seen = np.zeros((16, 16, 512, 128), dtype=bool)  # by the low bits of addresses and ports
    for core in range(cores):
        expander = make_expander(plugin, core, cores)
        frame_count = len(range(core, count, cores))
        for first in range(0, frame_count, BATCH):
            frames = expander.compute_frames(first, min(BATCH, frame_count - first))
            tuples = number_tuples(plugin, frames)
            fields = (tuples >> np.uint64(shift) for shift in (48, 32, 16, 0))
            seen[tuple(f % np.uint64(n) for f, n in zip(fields, seen.shape, strict=True))] = True
    assert np.count_nonzero(seen) == count
    for axis, values in enumerate((10, 10, 400, 100)):
        assert np.count_nonzero(np.moveaxis(seen, axis, 0).any(axis=(1, 2, 3))) == values


def test_order_of_four_tuples_is_pseudorandom_and_depends_on_seed():
    plugin = make("nat44")
    first, repeated, reseeded = (
        number_tuples(plugin, make_expander(plugin, seed=seed).compute_frames(0, 20_000))
        for seed in (1, 1, 2)
    )
    assert (first == repeated).all() and (first != reseeded).mean() > 0.9
    for shift, count in ((16, 40_000), (0, 100)):
        values = (first >> np.uint64(shift) & np.uint64(0xFFFF)).astype(float)
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.05
        assert abs(values.mean() - values.min() - count / 2) < count * 0.05


def test_combinations_are_computed_exactly():
    ports = {"initiator_ports": {"min": 1024, "max": 65535},
             "responder_ports": {"min": 1, "max": 49151}}  # fmt: skip
    assert Nat44Params(**ports).combinations == 3_170_829_312
    assert Nat64Params(**ports).combinations == 64_512 * 49_151
    wide = Nat64Params(
        **ports, enumerate_ips=3, initiator_count=65536, responder_count=16, pool_count=65536,
        pool_first="10.0.0.0",
    )  # fmt: skip
    assert wide.combinations == 64_512 * 49_151 * 65_536 * 16 > 2**51


@pytest.mark.parametrize(("max_port", "count", "code"), [
    (65535, 3_170_829_313, "out-of-range"), (1024, 49_152, "not-enough-addresses"),
])  # fmt: skip
def test_more_frames_than_combinations_are_refused(max_port, count, code):
    params = {"initiator_ports.min": "1024", "initiator_ports.max": str(max_port),
              "responder_ports.min": "1", "responder_ports.max": "49151"}  # fmt: skip
    texts = {"connections.count": str(count)}
    flags = {"plugin": "nat44", "tester": "sim", "params": params, "procedure": texts}
    with expect_error(code):
        resolve(**flags)


def read_enumerated(fields, tuples):
    """Return the values of the fields in one cycle of frames, one row for each frame."""
    first = fields[0].first
    layers = (
        Layer("Ether", {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}),
        Layer("IP", {"src": f"10.0.0.{first}", "dst": f"10.1.0.{first}"}),
        Layer("UDP", {"sport": first, "dport": first}),
    )
    layers = tuples.vary_layers(layers)
    foreground = TrafficClass("fg", Role.FOREGROUND, layers, 64, draw_order=tuples.draw_order)
    (stream,) = compile_traffic(Traffic("forward", (foreground,))).streams
    count = math.prod(f.count for f in fields)
    frames = Expander(stream).compute_frames(0, 2 * count)
    at = {"IP.src": 28, "IP.dst": 32, "UDP.sport": 34, "UDP.dport": 36}
    rows = np.stack([read_numbers(frames, at[f.field], 2) for f in fields], axis=1)
    assert (rows[:count] == rows[count:]).all()  # phase 2 repeats the order of phase 1
    return rows[:count]


def make_fields(*counts, first=0):
    places = ("IP.dst", "IP.src", "UDP.dport", "UDP.sport")
    return [
        four_tuples.TupleField(place.replace(".", "_"), place, last, first, count)
        for place, last, count in zip(places, (31, 31, 15, 15), counts, strict=True)
    ]


SHUFFLED = [
    *[(2, 2, 2, 2), (3, 3, 5, 7), (1, 1, 100, 400), (10, 10, 10, 40), (8, 8, 8, 16)],
    *[(6, 6, 6, 6), (1, 12, 18, 30), (256, 1, 1, 81), (1, 1, 1, 40_000), (1, 1, 7, 4096)],
]
LARGE = [(2, 3, 32, 1024), (1, 12, 16, 1024), (1, 5, 64, 512), (1, 1, 256, 1024)]
"""More bits than a list has: with counters, and with the even list of unaligned ranges."""


@pytest.mark.parametrize(("counts", "first"), [
    *product(SHUFFLED, [0, 1, 2, 24]), *zip(LARGE, [0, 24, 0, 24], strict=True),
])  # fmt: skip
def test_shuffled_combinations_come_once_per_cycle_in_the_same_order(counts, first):
    fields = make_fields(*counts, first=first)
    result = read_enumerated(fields, four_tuples.shuffle_tuples(fields, 5))
    total = np.zeros(len(result), dtype=np.uint64)
    for column, f in zip(result.T, fields, strict=True):
        total = total << np.uint64(16) | column
        assert set(sort_unique(column).tolist()) == set(range(f.first, f.first + f.count))
    assert len(sort_unique(total)) == math.prod(f.count for f in fields)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("counts", [(3, 4, 8, 2), (5, 1, 2, 16), (1, 1, 7, 64), (1, 1, 1, 100)])
def test_linear_combinations_change_the_last_field_fastest(counts, down):
    fields = make_fields(*counts)
    expected = list(product(*(range(f.first, f.first + f.count) for f in fields)))
    rows = read_enumerated(fields, four_tuples.enumerate_linearly(fields, down)).tolist()
    assert list(map(tuple, rows)) == (expected[::-1] if down else expected)


@pytest.mark.parametrize(("enumerate_tuples", "counts", "hint"), [
    (lambda fields: four_tuples.shuffle_tuples(fields, 1), (1, 1, 999, 999), "common divisor"),
    (lambda fields: four_tuples.enumerate_linearly(fields, down=False), (1, 1, 3, 100), "pseudorandom"),
], ids=["shuffled", "linear"])  # fmt: skip
def test_combinations_that_trex_cannot_enumerate_are_refused(enumerate_tuples, counts, hint):
    with expect_error("beyond-trex") as caught:
        enumerate_tuples(make_fields(*counts))
    assert hint in caught.value.hint


def make_params(name="nat44", **params):
    return load_technology_type(name).params_model(**params)


@pytest.mark.parametrize("name", ["nat44", "nat64", "dslite-aftr"])
@pytest.mark.parametrize("subscribers", [1000, 1000.0, "1000", "1k"])
def test_subscribers_share_one_server(name, subscribers):
    p = make_params(name, subscribers=subscribers, connections_per_subscriber=200)
    assert p.combinations == p.subscriber_connections == 200_000
    assert (p.initiator_count, p.initiator_ports.count) == (1000, 200)
    assert (p.responder_count, p.responder_ports.count) == (1, 1)
    assert p.endpoints <= p.pool_count * p.pool_ports.count


@pytest.mark.parametrize(("name", "value"), [
    ("subscribers", 60_001), ("connections_per_subscriber", 64_513),
])  # fmt: skip
def test_too_many_subscribers_or_connections_are_refused_by_name(name, value):
    with pytest.raises(ValidationError) as caught:
        make_params(**{"subscribers": 10, "connections_per_subscriber": 10, name: value})
    assert [error["loc"][0] for error in caught.value.errors()] == [name]


@pytest.mark.parametrize(("subscribers", "connections", "block", "pool"), [
    (1000, 200, 0, 4), (1000, 200, 200, 4), (1000, 200, 512, 8), (1000, 200, 64512, 1000),
    (24_000, 181, 0, 75),
])  # fmt: skip
def test_pool_has_blocks_or_a_tenth_of_its_ports_free(subscribers, connections, block, pool):
    params = {"subscribers": subscribers, "connections_per_subscriber": connections}
    p = make_params(**params, port_block=block)
    assert (p.pool_count, str(p.pool_first)) == (pool, "198.19.1.0")
    assert block or p.combinations <= 0.9 * p.pool_count * p.pool_ports.count


def test_unenumerable_number_of_connections_is_refused_with_the_next_possible_one():
    p = make_params(subscribers=24_000, connections_per_subscriber=180)
    with expect_error("beyond-trex") as info:
        p.enumerate_tuples(list_initiator_fields(p), 1)
    assert "181" in info.value.hint
    p = make_params(subscribers=24_000, connections_per_subscriber=181)
    p.enumerate_tuples(list_initiator_fields(p), 1)


def list_initiator_fields(p):
    return [four_tuples.describe_addresses("initiators", "IP.src", p.initiator, p.initiator_count)]


@pytest.mark.parametrize("servers", [1, 2])
def test_enumerated_addresses_of_several_initiators_multiply_the_combinations(servers):
    p = make_params(
        initiator_count=4, responder_count=servers, enumerate_ips=3,
        initiator_ports={"min": 1024, "max": 1031}, responder_ports={"min": 1, "max": 1},
    )  # fmt: skip
    assert p.combinations == 4 * servers * 8
