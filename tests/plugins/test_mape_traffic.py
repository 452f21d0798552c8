"""Traffic of the border relay: which CEs, ports and shares the frames show."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from ipaddress import IPv6Address, IPv6Network

import numpy as np
import pytest
from v6t.packets.arrays import sort_unique
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.expand import Expander, expand_set
from v6t.profiles.exports import to_stl_json
from v6t.profiles.model import Role
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import FIGURE_8, MapeDrop, deviation, number, ports, relay, stream_frames

MILLION = 10**6
CHUNK = 50_000
LIMIT = 4.5
"""Standard deviations of chi-square: 1 in 10^5 for so many cells."""
OWN = {"rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0, "ces": 1}
SECOND = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "198.18.0.0/16", "ea_len": 20}
INSIDE = {"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "192.0.2.64/28", "ea_len": 8}
SIXTEEN_MILLION = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "10.0.0.0/16", "ea_len": 24}


def compiled(plugin, direction="forward", seed=1, **keys):
    return compile_traffic(plugin.traffic(direction, plugin.frame_pair(104), seed), **keys)


def ea_forward(frames, rule):
    shift = np.uint64(64 - rule.ipv6_prefix.prefixlen - rule.ea_len)
    return (number(frames, 22, 8) >> shift) & np.uint64(rule.ce_count - 1)


def ea_reverse(frames, rule):
    suffix = number(frames, 30, 4) & np.uint64((1 << rule.suffix_len) - 1)
    psid = number(frames, 36, 2) >> np.uint64(rule.ports.low_bits) & np.uint64(
        rule.sharing_ratio - 1
    )
    return suffix << np.uint64(rule.psid_len) | psid


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 6])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_million_frames_pass_the_relays_own_check_evenly(direction, offset):
    """A15, by the rule of the Mapperf paper's figure 8 and with the offset of RFC 7597."""
    plugin = relay(**{**FIGURE_8, "psid_offset": offset}, ces="all")
    rule = plugin.params.rule
    expander = Expander(compiled(plugin, direction).streams[0])
    ces, own, peers = np.zeros(8192, int), np.zeros(65536, int), np.zeros(65536, int)
    low, joint = np.zeros(65536, int), np.zeros(256, int)
    for first in range(0, MILLION, CHUNK):
        frames = expander.frames(first, CHUNK)
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        assert (answer.length == (60 if direction == "forward" else 100)).all()
        sport, dport = ports(frames, direction)
        mine, theirs = (sport, dport) if direction == "forward" else (dport, sport)
        ea = (ea_forward if direction == "forward" else ea_reverse)(frames, rule)
        assert ((mine >> rule.ports.low_bits & 31) == (ea & np.uint64(31))).all()
        ces += np.bincount(ea.astype(int), minlength=8192)
        own += np.bincount(mine, minlength=65536)
        peers += np.bincount(theirs, minlength=65536)
        within = mine >> 16 - offset << rule.ports.low_bits | mine & (1 << rule.ports.low_bits) - 1
        low += np.bincount(within, minlength=65536)
        # CE against remote port: values that no rule ties together
        lowest, span = (1, 49151) if direction == "forward" else (1024, 64512)
        cell = (ea >> np.uint64(9)).astype(int) * 16 + (theirs - lowest) * 16 // span
        joint += np.bincount(cell, minlength=256)
    assert ces.sum() == MILLION
    assert abs(deviation(ces)) < LIMIT
    assert own[0] == 0
    if offset:
        allowed = np.arange(1024, 65536)
        assert abs(deviation(low[1 << rule.ports.low_bits : 1 << 16 - rule.psid_len])) < LIMIT
    else:
        allowed = np.flatnonzero(np.arange(65536) & 2047)
        assert abs(deviation(low[1:2048])) < LIMIT
    assert own[allowed].sum() == MILLION
    assert abs(deviation(own[allowed])) < LIMIT
    wide = peers[1:49152] if direction == "forward" else peers[1024:]
    assert wide.sum() == MILLION
    assert abs(deviation(wide)) < LIMIT
    assert abs(deviation(joint)) < LIMIT


def test_chi_square_notices_what_is_uneven():
    rng = np.random.default_rng(1)
    even = np.bincount(rng.integers(0, 8192, MILLION), minlength=8192)
    assert abs(deviation(even)) < LIMIT
    uneven = even.copy()
    uneven[:4096] = uneven[:4096] * 1.1
    assert deviation(uneven) > LIMIT
    assert deviation(np.full(8192, 122)) < -LIMIT


def test_figure_8_is_among_the_frames():
    plugin = relay(**FIGURE_8, ces=8192)
    frames = stream_frames(plugin, "forward", 8192)["fg"]
    of_psid_9 = ports(frames, "forward")[0] >> 11 == 9
    ce = frames[of_psid_9 & (number(frames, 66, 4) == np.uint64(0xC00002BD))]
    assert len(ce) == 1
    assert ce[0, 22:38].tobytes().hex() == "20010db800ce17a90000c00002bd0009"


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("ces", [1, 2, 1000, 8192])
def test_so_many_ces_without_repetition(ces, direction):
    plugin = relay(**FIGURE_8, ces=ces)
    frames = stream_frames(plugin, direction, 2 * ces + 3)["fg"]
    ea = (ea_forward if direction == "forward" else ea_reverse)(frames, plugin.params.rule)
    assert len(sort_unique(ea[:ces])) == ces
    assert (ea[ces : 2 * ces] == ea[:ces]).all()
    if ces == 1000:
        # drawn from the whole rule, not a stretch of it
        spread = np.bincount(ea[:ces].astype(int) >> 9, minlength=16)
        assert spread.min() > 30
        steps = np.diff(ea[:ces].astype(int))
        assert (steps > 0).sum() < 600


def test_both_directions_know_the_same_ces_in_their_own_order():
    plugin = relay(**FIGURE_8, ces=1000)
    rule = plugin.params.rule
    there = ea_forward(stream_frames(plugin, "forward", 1000)["fg"], rule)
    back = ea_reverse(stream_frames(plugin, "reverse", 1000)["fg"], rule)
    assert set(there.tolist()) == set(back.tolist())
    assert (there == back).mean() < 0.02
    other = ea_forward(stream_frames(plugin, "forward", 1000, seed=2)["fg"], rule)
    assert set(other.tolist()) != set(there.tolist())
    again = ea_forward(stream_frames(plugin, "forward", 1000)["fg"], rule)
    assert (again == there).all()


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_more_ces_than_a_list_holds_come_once_per_cycle(direction):
    plugin = relay(**SIXTEEN_MILLION, ces=100_000)
    frames = stream_frames(plugin, direction, 200_000)["fg"]
    ea = (ea_forward if direction == "forward" else ea_reverse)(frames, plugin.params.rule)
    for half in (ea[:100_000], ea[100_000:]):
        assert len(sort_unique(half)) == 100_000
    assert (np.diff(ea[:100_000].astype(int)) > 0).mean() == pytest.approx(0.5, abs=0.1)


def test_numbers_of_ces_trex_cannot_enumerate_are_refused():
    with expect_error("beyond-trex", mentions="70001"):
        compiled(relay(**SIXTEEN_MILLION, ces=70_001))


def test_without_network_and_broadcast_addresses():
    plugin = relay(**FIGURE_8, ces=8128, exclude_network_broadcast=True)
    frames = stream_frames(plugin, "forward", 8128)["fg"]
    assert len(sort_unique(ea_forward(frames, plugin.params.rule))) == 8128
    last = frames[:, 69]
    assert (last.min(), last.max()) == (1, 254)


def test_the_ce_that_owns_port_0_alone_is_left_out():
    plugin = relay(
        rule_ipv6="2001:db8:100::/40", rule_ipv4="192.0.2.1/32", ea_len=16, psid_offset=0, ces="all"
    )
    for direction in ("forward", "reverse"):
        frames = stream_frames(plugin, direction, 400_000)["fg"]
        own = ports(frames, direction)[direction == "reverse"]
        assert own.min() == 1
        assert not plugin.expect(direction, frames[:5000]).reason.any()


def test_each_ce_with_a_prefix_uses_all_its_hosts():
    plugin = relay(rule_ipv6="2001:db8:100::/40", rule_ipv4="192.0.2.0/24", ea_len=4, ces="all")
    for direction, at in (("forward", 69), ("reverse", 33)):
        frames = stream_frames(plugin, direction, 8000)["fg"]
        assert len(sort_unique(frames[:, at])) == 256
        assert not plugin.expect(direction, frames).reason.any()


def test_a_prefix_for_one_ce_without_ea_bits():
    plugin = relay(**{**OWN, "rule_ipv4": "192.0.2.16/28"})
    frames = stream_frames(plugin, "reverse", 1000)["fg"]
    assert sorted(sort_unique(frames[:, 33]).tolist()) == list(range(16, 32))
    out = plugin.expect("reverse", frames).frames
    assert len(np.unique(out[:, 38:54], axis=0)) == 1


# MAP-13


def test_domains_share_the_frames():
    plugin = relay(**FIGURE_8, share=3, domains=[{**SECOND, "share": 2}], n=10, m=9)
    for direction in ("forward", "reverse"):
        streams = compiled(plugin, direction)
        weights = {s.name: s.weight for s in streams.streams}
        whole = sum(weights.values())
        assert {n: w / whole for n, w in weights.items()} == pytest.approx(
            {"fg-0": 0.9 * 3 / 5, "fg-1": 0.9 * 2 / 5, "bg": 0.1}
        )
        frames = list(expand_set(streams, 0, 500))
        reasons = [
            plugin.expect(direction, np.frombuffer(f, np.uint8)[None, :]).reason[0] for f in frames
        ]
        assert not any(reasons)
        kinds = Counter(_network(f, direction) for f in frames)
        assert kinds == {"192.0": 270, "198.18": 180, "background": 50}


def _network(frame, direction):
    if direction == "forward":
        return "background" if frame[20] == 17 else f"{frame[66]}.{frame[67]}"
    return "background" if frame[12] == 0x86 else f"{frame[30]}.{frame[31]}"


def test_ces_of_a_domain_around_another_stay_outside_it():
    plugin = relay(**FIGURE_8, ces=7000, domains=[{**INSIDE, "ces": "all"}])
    narrow = plugin.params.domains[0].rule
    for direction in ("forward", "reverse"):
        classes = stream_frames(plugin, direction, 7000)
        assert set(classes) == {"fg-0", "fg-1"}
        for frames in classes.values():
            assert not plugin.expect(direction, frames).reason.any()
        if direction == "forward":
            outer = number(classes["fg-0"], 22, 8) >> np.uint64(8)
            assert int(narrow.ipv6_prefix.network_address) >> 72 not in outer.tolist()
            assert len(sort_unique(outer)) > 25
        # a reply reaches the CE that asked: 192.0.2.64/28 is the other rule's
        at = 69 if direction == "forward" else 33
        assert not np.isin(classes["fg-0"][:, at], range(64, 80)).any()
        assert np.isin(classes["fg-1"][:, at], range(64, 80)).all()


# MAP-15


def number_within(port, rule):
    """``A`` and ``j`` of a CE's port as one number."""
    a, m = rule.psid_offset, rule.ports.low_bits
    return port >> 16 - a << m | port & (1 << m) - 1 if a else port & (1 << m) - 1


@pytest.mark.parametrize("offset", [0, 6, 11])
@pytest.mark.parametrize("policy", ["fixed", "inc", "dec", "random"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_ports_of_the_ce(direction, policy, offset):
    role = {"forward": "fw_sport", "reverse": "rv_dport"}[direction]
    plugin = relay(**{**FIGURE_8, "psid_offset": offset}, ces="all", **{role: policy})
    rule = plugin.params.rule
    frames = stream_frames(plugin, direction, 9000)["fg"]
    assert not plugin.expect(direction, frames).reason.any()
    own = ports(frames, direction)[direction == "reverse"]
    place = number_within(own, rule)
    assert own.min() > 0
    low = 1 << rule.ports.low_bits if offset else 1
    top = (1 << offset + rule.ports.low_bits) - 1
    assert place.min() >= low
    assert place.max() <= top
    if policy == "fixed":
        assert len(set(place.tolist())) == 1
    elif policy == "random":
        assert len(set(place.tolist())) > 0.9 * (top - low + 1)
        assert set(np.diff(place).tolist()) != {1}
    else:
        steps = np.arange(9000) % (top - low + 1)
        assert place.tolist() == (low + steps if policy == "inc" else top - steps).tolist()


@pytest.mark.parametrize("policy", ["fixed", "inc", "dec", "random"])
def test_ports_of_a_ce_that_shares_nothing(policy):
    plugin = relay(**OWN, fw_sport=policy, rv_dport=policy)
    sent = ports(stream_frames(plugin, "forward", 70_000)["fg"], "forward")[0]
    back = ports(stream_frames(plugin, "reverse", 70_000)["fg"], "reverse")[1]
    if policy == "fixed":
        # RFC 2544 appendix C.2.6.4
        assert (set(sent.tolist()), set(back.tolist())) == ({0xC020}, {7})
        return
    for own in (sent, back):
        assert (own.min() >= 1024).all()
        if policy != "random":
            assert set(np.diff(own).tolist()) <= {1, -1, 64511, -64511}
            assert len(sort_unique(own)) == 64512


@pytest.mark.parametrize("policy", ["fixed", "inc", "dec", "random"])
@pytest.mark.parametrize(
    ("role", "direction", "kind", "side"),
    [
        ("fw_dport", "forward", "fg", 1),
        ("rv_sport", "reverse", "fg", 0),
        ("bg_sport", "forward", "bg", 0),
        ("bg_dport", "forward", "bg", 1),
        ("bg_sport", "reverse", "bg", 0),
        ("bg_dport", "reverse", "bg", 1),
    ],
)
def test_ports_of_the_others(role, direction, kind, side, policy):
    span = {"policy": policy, "min": 3000, "max": 3099}
    plugin = relay(**FIGURE_8, n=2, m=1, **{role: span})
    frames = stream_frames(plugin, direction, 1000)[kind]
    shown = ports(frames, direction, native=kind == "bg")[side]
    k = np.arange(1000) % 100
    if policy == "random":
        assert set(shown.tolist()) == set(range(3000, 3100))
        assert len(set(np.diff(shown).tolist())) > 50
    else:
        wanted = {"fixed": 3000 + 0 * k, "inc": 3000 + k, "dec": 3099 - k}[policy]
        assert shown.tolist() == wanted.tolist()
    assert not plugin.expect(direction, frames).reason.any()


def test_roles_have_generators_of_their_own():
    plugin = relay(**FIGURE_8, ces="all", n=2, m=1)
    classes = stream_frames(plugin, "forward", 20_000)
    series = [*ports(classes["fg"], "forward"), *ports(classes["bg"], "forward", native=True)]
    series.append(ea_forward(classes["fg"], plugin.params.rule).astype(int))
    back = compiled(plugin, "reverse", first_stream_id=64).streams[0]
    series += ports(Expander(back).frames(0, 20_000), "reverse")
    related = np.abs(np.corrcoef(np.array(series, dtype=float)) - np.eye(len(series)))
    assert related.max() < 0.05


# GEN-14


@pytest.mark.parametrize(("n", "m"), [(2, 2), (10, 9), (2, 1), (10, 1), (4, 3)])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_foreground_is_m_of_n(n, m, direction):
    plugin = relay(**FIGURE_8, n=n, m=m)
    traffic = plugin.traffic(direction, plugin.frame_pair(104))
    weights = [c.weight for c in traffic.classes]
    shares = count_frames(weights, 10**6)
    assert shares[0] == 10**6 * m // n
    assert sum(shares[1:]) == 10**6 - shares[0]
    assert [c.role for c in traffic.classes] == [Role.FOREGROUND, Role.BACKGROUND][: 1 + (n > m)]
    if n > m:
        # native IPv6, as large as the IPv6 foreground frame, never enumerated
        frames = stream_frames(plugin, direction, 1000)["bg"]
        assert frames.shape[1] == 100
        assert set(frames[:, 20].tolist()) == {17}
        assert len(np.unique(frames[:, 22:54], axis=0)) == 1
        assert verify(frames).all()


# MAP-09


@pytest.mark.parametrize("percent", [1, 10, 50])
def test_spoofed_frames_are_all_dropped_and_counted_apart(percent):
    plugin = relay(**FIGURE_8, ces="all", n=4, m=3, negative_percent=percent)
    traffic = plugin.traffic("forward", plugin.frame_pair(104))
    weights = np.array([c.weight for c in traffic.classes])
    negative = np.array([c.role is Role.NEGATIVE for c in traffic.classes])
    assert weights[negative].sum() / weights.sum() == pytest.approx(percent / 100)
    assert len(set(weights[negative])) == 1
    fg, bg = (weights[[c.name == n for c in traffic.classes]][0] for n in ("fg", "bg"))
    assert fg / bg == pytest.approx(3)
    wanted = {
        "spoof-prefix": MapeDrop.NO_RULE,
        "spoof-address": MapeDrop.BAD_IID,
        "spoof-port": MapeDrop.BAD_PORT,
    }
    classes = stream_frames(plugin, "forward", 20_000)
    assert set(classes) == {"fg", "bg", *wanted}
    for name, frames in classes.items():
        answer = plugin.expect("forward", frames)
        assert set(answer.reason.tolist()) == {wanted.get(name, MapeDrop.FORWARDED)}
        assert verify(frames).all()
    assert not [c for c in plugin.traffic("reverse", plugin.frame_pair(104)).classes
                if c.role is Role.NEGATIVE]  # fmt: skip


def test_spoofing_only_what_a_rule_has():
    whole = relay(rule_ipv6="2001:db8:100::/40", rule_ipv4="20.0.0.0/8", ea_len=24,
                  negative_percent=10)  # fmt: skip
    assert set(stream_frames(whole, "forward", 1)) == {"fg", "spoof-prefix", "spoof-address"}
    psid = relay(**{**SIXTEEN_MILLION, "rule_ipv4": "10.0.0.1/32", "ea_len": 8}, ces=9,
                 negative_percent=10)  # fmt: skip
    classes = stream_frames(psid, "forward", 3000)
    assert set(classes) == {"fg", "spoof-prefix", "spoof-port"}
    dropped = psid.expect("forward", classes["spoof-port"])
    assert set(dropped.reason.tolist()) == {MapeDrop.BAD_PORT}


def test_spoofed_prefixes_are_outside_every_domain():
    near = {"rule_ipv6": "2001:db8:ce:2000::/51", "rule_ipv4": "10.0.0.0/24", "ea_len": 13}
    plugin = relay(**FIGURE_8, domains=[near], negative_percent=10)
    frames = stream_frames(plugin, "forward", 100)["spoof-prefix"]
    assert set(plugin.expect("forward", frames).reason.tolist()) == {MapeDrop.NO_RULE}
    prefixes = [IPv6Network(d.rule_ipv6) for d in plugin.params.all_domains]
    addresses = [IPv6Address(f[22:38].tobytes()) for f in frames]
    assert not any(address in prefix for prefix in prefixes for address in addresses)


# MAP-08


@pytest.mark.parametrize(
    ("form", "low"), [("rfc7597", "0000c00002bd0009"), ("draft", "00c00002bd000900")]
)
def test_interface_identifiers(form, low):
    plugin = relay(**FIGURE_8, ces=8192, iid_format=form)
    frames = stream_frames(plugin, "forward", 8192)["fg"]
    mine = frames[number(frames, 22, 8) == np.uint64(0x20010DB800CE17A9)]
    assert [f[30:38].tobytes().hex() for f in mine] == [low]
    assert not plugin.expect("forward", frames).reason.any()
    sent = plugin.expect("reverse", stream_frames(plugin, "reverse", 8192)["fg"]).frames
    mine = sent[number(sent, 38, 8) == np.uint64(0x20010DB800CE17A9)]
    assert [f[46:54].tobytes().hex() for f in mine] == [low]


# compiling


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("ces", ["all", 16_000_000, 1 << 24])
def test_sixteen_million_ces_take_little_memory(ces, direction):
    stream_frames(relay(), direction, 1)  # load what compiling loads
    tracemalloc.start()
    try:
        plugin = relay(**SIXTEEN_MILLION, ces=ces)
        streams = compiled(plugin, direction)
        text = to_stl_json(streams)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20
    assert len(text) < 1 << 20


def test_the_result_does_not_grow_with_the_number_of_ces():
    sizes = {}
    for ea_len in (8, 13, 16, 20, 24, 32):
        rule = {"rule_ipv6": "2001:db8::/32", "rule_ipv4": f"10.0.0.0/{max(8, 32 - ea_len)}"}
        plugin = relay(**rule, ea_len=ea_len, ces="all", br_address="3fff::1")
        sizes[ea_len] = len(to_stl_json(compiled(plugin)))
    assert max(sizes.values()) < 8192
    same = [
        len(json.dumps(compiled(relay(**SIXTEEN_MILLION, ces=c)).streams[0].trex))
        for c in (1 << 17, 1 << 20, 1 << 23, 1 << 24)
    ]
    assert max(same) < 1.2 * min(same)


def test_frames_keep_their_ttl_and_df_bit():
    plugin = relay(ttl=10, df=False, n=2, m=1)
    classes = stream_frames(plugin, "forward", 3)
    assert set(classes["fg"][:, [21, 62]].ravel().tolist()) == {10}
    assert set(classes["bg"][:, 21].tolist()) == {10}
    assert set(classes["fg"][:, 60].tolist()) == {0}
    assert set(stream_frames(relay(), "reverse", 3)["fg"][:, 20].tolist()) == {0x40}
