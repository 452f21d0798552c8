"""Traffic of the MAP-E border relay: CEs, ports and shares of the classes."""

import tracemalloc
from collections import Counter
from ipaddress import IPv6Network

import numpy as np
import pytest
from v6t.packets.arrays import sort_unique
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import expand_set
from v6t.profiles.exports import to_stl_json
from v6t.profiles.model import Role
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import (
    FIGURE_8,
    MapeDrop,
    compile_streams,
    make_mape_br,
    read_addresses,
    read_numbers,
    stream_frames,
)

SECOND = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "198.18.0.0/16", "ea_len": 20}
INSIDE = {"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "192.0.2.64/28", "ea_len": 8}
SIXTEEN_MILLION = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "10.0.0.0/16", "ea_len": 24}
both_directions = pytest.mark.parametrize("direction", ["forward", "reverse"])


def compile_set(plugin, direction):
    return compile_traffic(plugin.build_traffic(direction, plugin.make_frame_pair(104)))


def read_ea_values(frames, plugin, direction):
    """Return the EA bits of each frame's CE."""
    rule = plugin.params.rule
    if direction == "forward":
        shift = np.uint64(64 - rule.ipv6_prefix.prefixlen - rule.ea_len)
        return (read_numbers(frames, 22, 8) >> shift) & np.uint64(rule.ce_count - 1)
    suffix = read_numbers(frames, 30, 4) & np.uint64((1 << rule.suffix_len) - 1)
    psid = read_numbers(frames, 36, 2) >> np.uint64(rule.port_sharing.low_bits)
    return suffix << np.uint64(rule.psid_len) | psid & np.uint64(rule.sharing_ratio - 1)


def read_port_pairs(frames, direction):
    """Return the UDP ports of the CEs and those of the server."""
    at = 74 if direction == "forward" else 34
    source, destination = (read_numbers(frames, n, 2).astype(int) for n in (at, at + 2))
    return (source, destination) if direction == "forward" else (destination, source)


def strip_psid(port, rule):
    """Return the bits ``A`` and ``j`` of ports, before and after the PSID, as one number."""
    a, m = rule.psid_offset, rule.port_sharing.low_bits
    low = port & (1 << m) - 1
    return port >> 16 - a << m | low if a else low


@both_directions
@pytest.mark.parametrize("ces", [1, 2, 1000, 8192])
def test_simulated_ces_are_used_once_per_cycle(ces, direction):
    plugin = make_mape_br(**FIGURE_8, ces=ces)
    ea = read_ea_values(stream_frames(plugin, direction, 2 * ces + 3)["fg"], plugin, direction)
    assert len(sort_unique(ea[:ces])) == ces
    assert (ea[ces : 2 * ces] == ea[:ces]).all()
    if ces == 1000:
        # drawn from all CEs of the rule, not from consecutive ones
        assert np.bincount(ea[:ces].astype(int) >> 9, minlength=16).min() > 30
        assert (np.diff(ea[:ces].astype(int)) > 0).sum() < 600


def test_directions_have_the_same_ces_in_different_orders():
    plugin = make_mape_br(**FIGURE_8, ces=1000)

    def values(direction, seed=1):
        frames = stream_frames(plugin, direction, 1000, seed=seed)["fg"]
        return read_ea_values(frames, plugin, direction)

    forward, reverse = values("forward"), values("reverse")
    assert set(forward.tolist()) == set(reverse.tolist())
    assert (forward == reverse).mean() < 0.02
    assert set(values("forward", seed=2).tolist()) != set(forward.tolist())
    assert (values("forward") == forward).all()


def test_number_of_ces_that_trex_cannot_enumerate_is_refused():
    with expect_error("beyond-trex", mentions="70001"):
        compile_streams(make_mape_br(**SIXTEEN_MILLION, ces=70_001), "forward")


def test_ces_without_network_and_broadcast_have_other_addresses():
    plugin = make_mape_br(**FIGURE_8, ces=8128, exclude_network_broadcast=True)
    frames = stream_frames(plugin, "forward", 8128)["fg"]
    assert len(sort_unique(read_ea_values(frames, plugin, "forward"))) == 8128
    assert (frames[:, 69].min(), frames[:, 69].max()) == (1, 254)


@both_directions
def test_ce_that_owns_only_port_0_is_not_simulated(direction):
    rule = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "192.0.2.1/32", "ea_len": 16}
    plugin = make_mape_br(**rule, psid_offset=0, ces="all")
    frames = stream_frames(plugin, direction, 400_000)["fg"]
    assert read_port_pairs(frames, direction)[0].min() == 1
    assert not plugin.expect(direction, frames[:5000]).reason.any()


def classify(frame, direction):
    """Return the first octets of the CE's IPv4 address, or "background"."""
    tunnelled = frame[20] != 17 if direction == "forward" else frame[12] == 8
    at = 66 if direction == "forward" else 30
    return f"{frame[at]}.{frame[at + 1]}" if tunnelled else "background"


@both_directions
def test_frames_of_domains_have_their_shares(direction):
    plugin = make_mape_br(**FIGURE_8, share=3, domains=[{**SECOND, "share": 2}], n=10, m=9)
    streams = compile_set(plugin, direction)
    weights = {s.name: s.weight for s in streams.streams}
    shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    assert shares == pytest.approx({"fg-0": 0.9 * 3 / 5, "fg-1": 0.9 * 2 / 5, "bg": 0.1})
    frames = [np.frombuffer(f, np.uint8) for f in expand_set(streams, 0, 500)]
    assert not any(plugin.expect(direction, frame[None]).reason[0] for frame in frames)
    kinds = Counter(classify(frame, direction) for frame in frames)
    assert kinds == {"192.0": 270, "198.18": 180, "background": 50}


@pytest.mark.parametrize(("direction", "at"), [("forward", 69), ("reverse", 33)])
def test_ces_of_a_wider_domain_avoid_the_narrower_one(direction, at):
    plugin = make_mape_br(**FIGURE_8, ces=7000, domains=[{**INSIDE, "ces": "all"}])
    classes = stream_frames(plugin, direction, 7000)
    assert set(classes) == {"fg-0", "fg-1"}
    assert not any(plugin.expect(direction, frames).reason.any() for frames in classes.values())
    if direction == "forward":
        outer = read_numbers(classes["fg-0"], 22, 8) >> np.uint64(8)
        assert 0x20010DB800CE10 not in outer.tolist()
        assert len(sort_unique(outer)) > 25
    # a reply must reach the CE that sent the request: 192.0.2.64/28 belongs to the other rule
    assert not np.isin(classes["fg-0"][:, at], range(64, 80)).any()
    assert np.isin(classes["fg-1"][:, at], range(64, 80)).all()


@pytest.mark.parametrize("offset", [0, 6, 11])
@pytest.mark.parametrize("policy", ["fixed", "inc", "dec", "random"])
@pytest.mark.parametrize(("direction", "name"), [("forward", "fw_sport"), ("reverse", "rv_dport")])
def test_port_of_a_ce_follows_its_policy(direction, name, policy, offset):
    plugin = make_mape_br(**{**FIGURE_8, "psid_offset": offset}, ces="all", **{name: policy})
    rule = plugin.params.rule
    frames = stream_frames(plugin, direction, 9000)["fg"]
    assert not plugin.expect(direction, frames).reason.any()
    port = read_port_pairs(frames, direction)[0]
    index = strip_psid(port, rule)
    low = 1 << rule.port_sharing.low_bits if offset else 1
    top = (1 << offset + rule.port_sharing.low_bits) - 1
    assert port.min() > 0
    assert low <= index.min() <= index.max() <= top
    if policy == "fixed":
        assert len(set(index.tolist())) == 1
    elif policy == "random":
        assert len(set(index.tolist())) > 0.9 * (top - low + 1)
        assert set(np.diff(index).tolist()) != {1}
    else:
        steps = np.arange(9000) % (top - low + 1)
        assert index.tolist() == (low + steps if policy == "inc" else top - steps).tolist()


SPOOFED = {
    "spoof-prefix": MapeDrop.NO_RULE,
    "spoof-address": MapeDrop.BAD_IID,
    "spoof-port": MapeDrop.BAD_PORT,
}


@pytest.mark.parametrize("percent", [1, 10, 50])
def test_spoofed_frames_are_dropped_for_their_reason(percent):
    plugin = make_mape_br(**FIGURE_8, ces="all", n=4, m=3, negative_percent=percent)
    weights = {s.name: s.weight for s in compile_streams(plugin, "forward")}
    negative = [weight for name, weight in weights.items() if name in SPOOFED]
    assert sum(negative) / sum(weights.values()) == pytest.approx(percent / 100)
    assert len(negative) == 3
    assert len(set(negative)) == 1
    assert weights["fg"] / weights["bg"] == pytest.approx(3)
    classes = stream_frames(plugin, "forward", 5000)
    assert set(classes) == {"fg", "bg", *SPOOFED}
    for name, frames in classes.items():
        answer = plugin.expect("forward", frames)
        assert set(answer.reason.tolist()) == {SPOOFED.get(name, MapeDrop.FORWARDED)}
        assert verify(frames).all()
    assert not [s for s in compile_streams(plugin, "reverse") if s.role is Role.NEGATIVE]


def test_rule_without_ipv4_suffix_has_no_spoofed_addresses():
    plugin = make_mape_br(**{**SIXTEEN_MILLION, "rule_ipv4": "10.0.0.1/32", "ea_len": 8}, ces=9,
                   negative_percent=10)  # fmt: skip
    classes = stream_frames(plugin, "forward", 3000)
    assert set(classes) == {"fg", "spoof-prefix", "spoof-port"}
    dropped = plugin.expect("forward", classes["spoof-port"])
    assert set(dropped.reason.tolist()) == {MapeDrop.BAD_PORT}


def test_spoofed_prefix_is_outside_every_domain():
    near = {"rule_ipv6": "2001:db8:ce:2000::/51", "rule_ipv4": "10.0.0.0/24", "ea_len": 13}
    plugin = make_mape_br(**FIGURE_8, domains=[near], negative_percent=10)
    frames = stream_frames(plugin, "forward", 100)["spoof-prefix"]
    assert set(plugin.expect("forward", frames).reason.tolist()) == {MapeDrop.NO_RULE}
    sources = [IPv6Network(address) for address in read_addresses(frames, 22, 16)]
    prefixes = [IPv6Network(prefix) for prefix in (FIGURE_8["rule_ipv6"], near["rule_ipv6"])]
    assert not any(source.subnet_of(prefix) for source in sources for prefix in prefixes)


@both_directions
@pytest.mark.parametrize("ces", ["all", 16_000_000, 1 << 24])
def test_sixteen_million_ces_compile_in_little_memory(ces, direction):
    compile_streams(make_mape_br(), direction)  # import modules before memory is traced
    tracemalloc.start()
    try:
        text = to_stl_json(compile_set(make_mape_br(**SIXTEEN_MILLION, ces=ces), direction))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20
    assert len(text) < 1 << 20


def test_ttl_and_df_bit_are_in_the_frames():
    classes = stream_frames(make_mape_br(ttl=10, df=False, n=2, m=1), "forward", 3)
    assert set(classes["fg"][:, [21, 62]].ravel().tolist()) == {10}
    assert set(classes["bg"][:, 21].tolist()) == {10}
    assert set(classes["fg"][:, 60].tolist()) == {0}
    assert set(stream_frames(make_mape_br(), "reverse", 3)["fg"][:, 20].tolist()) == {0x40}
