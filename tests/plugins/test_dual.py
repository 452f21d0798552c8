"""Two devices in one setup: frames against packet-level devices, and against their parts."""

from __future__ import annotations

import pickle
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from itertools import pairwise

import numpy as np
import pytest
from v6t.audit.packet_device.maps import PrefixMap
from v6t.audit.packet_device.nat import AftrDevice, NatDevice
from v6t.audit.packet_device.translator import StatelessTranslatingDevice
from v6t.base.ethernet import max_frame_rate_fps
from v6t.drivers.duts.expect_profile import ChainOracle
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.embedded.connections import inside_endpoints
from v6t.drivers.oracle.state_table import MemoryFile, StateTable
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.walker import locate_headers
from v6t.plugins.audit_views import AddressTable, Nat
from v6t.plugins.base import Link, Links
from v6t.plugins.dslite import DsLiteAftr, DsLiteParams
from v6t.plugins.ipv4aas import MAX_PORT_SHARE, Ipv4aas, Ipv4aasParams
from v6t.plugins.stateful import StatefulDrop
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import forwarded_frame, packet_device
from .test_nat import FRAMES, streams

TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=7),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01", mtu=2000),
)
VARIANTS = ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t")
TRANSLATING = ("464xlat", "map-t")
HOSTS = {
    "initiator_count": 4,
    "responder_count": 2,
    "enumerate_ips": 3,
    "initiator_ports": {"min": 4096, "max": 5119},
    "responder_ipv4": "198.19.0.64",
}


INSIDE = PrefixMap(IPv6Network("2001:db8:46::/96"))
"""Addresses between both translators of a chain; frames outside the chain do not show them."""


class DualDevice(NatDevice):
    """A NAPT and two devices that a packet passes: RFC 7915 twice, or a tunnel."""

    def __init__(self, plugin):
        p, intent = plugin.params, plugin.dut_intent()
        pool = tuple(p.public.first + n for n in range(p.public.count))
        super().__init__(intent, Nat((), (), pool, public=p.public.span))
        self.is_translating = p.variant in TRANSLATING
        table = AddressTable(prefix=INSIDE.prefix)
        self.hop = StatelessTranslatingDevice(intent, "left", 1500, table)

    def decrement(self, packet):
        if not self.is_translating:
            return super().decrement(super().decrement(packet))
        (six,) = self.hop.to_ipv6(packet, INSIDE)
        return self.hop.to_ipv4(six, INSIDE)


def nat_part(nat, pool_first, count, ports):
    """The NAT among the parts of a chain."""
    pool = tuple(pool_first + n for n in range(count))
    return NatDevice(nat.intent, Nat((), (), pool, public=(ports.min, ports.max)))


def dual(variant, links=None, **given):
    plugin = Ipv4aas(Ipv4aasParams(variant=variant, **given), links)
    return plugin, DualDevice(plugin)


def sent(plugin, device, size):
    """First frames of the connections, what leaves the devices, and the tester's table."""
    frames = Expander(streams(plugin, "forward", size)[0]).frames(0, FRAMES)
    out = [forwarded_frame(device, "forward", f.tobytes()) for f in frames]
    assert all(out)
    return frames, out, np.array([list(o[26:38]) for o in out], dtype=np.uint8)


def replies(plugin, learned, size):
    """The Responder's frames in connections it learned."""
    back = np.repeat(Expander(streams(plugin, "reverse", size)[0]).frames(0, 1), FRAMES, axis=0)
    back[:, 26:38] = learned[:, [4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9]]
    write_ipv4_checksum(back, 14)
    locate_headers(back[0]).write_checksum(back)
    return back


def rows_of(answer):
    return [answer.frames[i, : answer.length[i]].tobytes() for i in range(len(answer.length))]


@pytest.mark.slow
@pytest.mark.parametrize("links", [None, TAGGED], ids=["plain", "tagged"])
@pytest.mark.parametrize("given", [{}, HOSTS], ids=["one host", "hosts"])
@pytest.mark.parametrize("size", [104, 1500])
@pytest.mark.parametrize("variant", VARIANTS)
def test_frames_are_what_both_devices_make_of_them(variant, size, given, links):
    plugin, device = dual(variant, links, **given)
    frames, out, learned = sent(plugin, device, size)
    assert verify(frames).all()
    assert len(np.unique(learned, axis=0)) == FRAMES
    answer = plugin.expect_connections("forward", frames, frames, learned)
    assert not answer.reason.any()
    assert rows_of(answer) == out
    back = replies(plugin, learned, size)
    answer = plugin.expect_connections("reverse", back, frames, learned)
    assert rows_of(answer) == [forwarded_frame(device, "reverse", f.tobytes()) for f in back]


@pytest.mark.parametrize("variant", ["ds-lite", "lw4o6", "map-e", "map-t"])
def test_the_reference_parts_in_a_row_are_the_two_devices(variant):
    """NAPT in scapy, the other parts as the lab has them; the chain's oracle knows the hops."""
    plugin, _ = dual(variant)
    p = plugin.params
    parts = list(plugin.parts)
    (nat,) = [part for part in parts if part.stateful]
    device = nat_part(nat, p.public.first, p.public.count, p.public.ports)
    oracle = make_driver("chain", {}).oracle(plugin, plugin.dut_intent())
    assert isinstance(oracle, ChainOracle)

    def through(direction, frames):
        for part in parts if direction == "forward" else parts[::-1]:
            if part is nat:
                rows = [forwarded_frame(device, direction, f.tobytes()) for f in frames]
                frames = np.array([list(row) for row in rows], dtype=np.uint8)
                continue
            way = {"forward": "reverse", "reverse": "forward"}[direction]
            made = part.reference.expect(way if part.mirrored else direction, frames)
            assert not made.reason.any(), part.name
            frames = made.frames[:, : made.length[0]]
        return frames

    frames = Expander(streams(plugin, "forward", 104)[0]).frames(0, FRAMES)
    out = through("forward", frames)
    learned = out[:, 26:38]

    class Bound:
        """The oracle's plugin with its connections."""

        def expect(self, direction, frames):
            return plugin.expect_connections(direction, frames, first, learned)

    first = frames
    oracle.oracle = Bound()
    assert rows_of(oracle.expect("forward", frames)) == [f.tobytes() for f in out]
    back = replies(plugin, learned, 104)
    assert rows_of(oracle.expect("reverse", back)) == [
        f.tobytes() for f in through("reverse", back)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_sizes_are_those_between_the_devices(variant):
    plugin, _ = dual(variant)
    overhead = 20 if variant in TRANSLATING else 40
    assert plugin.overhead == overhead
    assert plugin.default_frame_sizes == (64 + overhead,)
    for size in plugin.rfc_frame_sizes:
        pair = plugin.frame_pair(size)
        assert (pair.ipv6, pair.ipv4) == (size, size - overhead)
    sizes = plugin.frame_pair(64 + overhead)
    for direction in ("forward", "reverse"):
        (only,) = plugin.traffic(direction, sizes).classes
        assert only.frame_size == 64
    # DD-02: the medium carries what the middle link carries
    assert max_frame_rate_fps(10e9, sizes.ipv6) == 10e9 / 8 // (sizes.ipv6 + 20)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_intent_lists_both_devices_and_which_is_stateful(variant):
    plugin, _ = dual(variant)
    intent = plugin.dut_intent()
    parts = intent.parts
    stateful = [part.device for part in parts if part.stateful]
    wanted = "PE" if variant in ("464xlat", "ds-lite") else "CE"
    assert stateful == [wanted]
    assert {role.name: role.stateful for role in plugin.roles} == {
        "CE": wanted == "CE", "PE": wanted == "PE",
    }  # fmt: skip
    assert [part.device for part in parts] == sorted(part.device for part in parts)
    links = [part.intent.links for part in parts]
    for one, other in pairwise(links):
        assert one.right.tester_mac == other.left.dut_mac
        assert one.right.dut_mac == other.left.tester_mac
    assert links[0].left.dut_mac == plugin.links.left.dut_mac
    assert links[-1].right.dut_mac == plugin.links.right.dut_mac


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_pickled_by_its_parameters(variant):
    plugin, device = dual(variant)
    frames, out, learned = sent(plugin, device, 104)
    assert plugin.parts
    again = pickle.loads(pickle.dumps(plugin))  # noqa: S301
    assert type(again) is type(plugin)
    assert rows_of(again.expect_connections("forward", frames, frames, learned)) == out
    for part in plugin.parts:
        if part.reference is not None:
            assert len(pickle.dumps(part.reference)) < 10_000


def test_the_papers_ce_has_the_papers_ports():
    """Lencse and Bazsó 2024, figure 23: 192.0.2.35 with PSID 3 of /53 and 11 EA bits."""
    plugin, _ = dual("map-t")
    napt, ce, _ = plugin.parts
    assert napt.intent.configuration.pool4 == (IPv4Address("192.0.2.35"),)
    assert napt.intent.configuration.ports == (24576, 32767)
    assert str(ce.intent.configuration.end_user_prefix) == "2001:db8:ce:11b::/64"


def test_a_source_outside_the_port_set_is_a_drop():
    plugin, device = dual("map-e")
    frames, _, learned = sent(plugin, device, 104)
    learned = learned.copy()
    learned[0, 8:10] = (0x80, 0)  # the first port of the next PSID
    reason = plugin.expect_connections("forward", frames, frames, learned).reason
    assert reason[0] == StatefulDrop.OUTSIDE_POOL
    assert not reason[1:].any()


@pytest.mark.parametrize(("ports", "said"), [(7000, False), (7372, False), (7373, True)])
def test_a_port_set_with_little_headroom_is_remarked_upon(ports, said):
    """DD-03: more than nine tenths of 8192 ports."""
    wanted = {"min": 1024, "max": 1023 + ports}
    plugin, _ = dual("map-t", initiator_ports=wanted)
    assert any("8192" in line for line in plugin.warnings) == said
    assert (plugin.params.used_ports > MAX_PORT_SHARE) == said
    assert not any("8192" in line for line in dual("464xlat", initiator_ports=wanted)[0].warnings)


REFUSED = {
    "unknown variant": ({"variant": "dslite"}, "unknown-name"),
    "port set too small": (
        {"variant": "map-t", "initiator_ports": {"min": 1024, "max": 9216}},
        "not-enough-addresses",
    ),
    "several hosts, one port set": (
        {"variant": "lw4o6", "initiator_count": 4, "responder_count": 2, "enumerate_ips": 3,
         "responder_ipv4": "198.19.0.64"},
        "not-enough-addresses",
    ),
    "low ports of the set": ({"variant": "map-e", "psid": 0}, "out-of-range"),
    "no such PSID": ({"variant": "map-e", "psid": 8}, "out-of-range"),
    "no such PSID of lw4o6": ({"variant": "lw4o6", "psid": 8}, "out-of-range"),
    "address outside the rule": (
        {"variant": "map-t", "public_ipv4": "198.51.100.1"}, "outside-prefix",
    ),
    "a CE with a prefix": ({"variant": "map-t", "ea_len": 4}, "conflict"),
    "background": ({"n": 2, "m": 1}, "no-background"),
    "short prefix": ({"prefix": "2001:db8:64::/64"}, "not-a-prefix"),
    "same prefixes": ({"clat_ipv6": "2001:db8:64::/96"}, "address-conflict"),
    "responder is public": (
        {"responder_ipv4": "198.19.0.1"}, "address-conflict",
    ),
    "few public ports": (
        {"public_ports": {"min": 1024, "max": 2047}}, "not-enough-addresses",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(case):
    given, code = REFUSED[case]
    with expect_error(code):
        Ipv4aasParams(**given)


def test_frames_the_middle_link_does_not_carry():
    plugin, _ = dual("map-e", middle_mtu=1400)
    with expect_error("frame-too-long", mentions="1400"):
        plugin.frame_pair(1518)
    plugin, _ = dual("map-t", df=False)
    with expect_error("frame-too-long"):
        plugin.traffic("forward", plugin.frame_pair(1518))


def aftr(**given):
    plugin = DsLiteAftr(DsLiteParams(**given))
    return plugin, packet_device(plugin)


@pytest.mark.parametrize("size", [104, 1518])
@pytest.mark.parametrize(
    "given",
    [{}, {"initiator_count": 1, "responder_count": 1, "enumerate_ips": 0}],
    ids=["softwires", "one"],
)
def test_an_aftr_tells_softwires_apart(given, size):
    plugin, device = aftr(**given)
    frames, out, learned = sent(plugin, device, size)
    assert (frames.shape[1] + 4, len(out[0]) + 4) == (size, size - 40)
    answer = plugin.expect_connections("forward", frames, frames, learned)
    assert rows_of(answer) == out
    back = replies(plugin, learned, size)
    answer = plugin.expect_connections("reverse", back, frames, learned)
    assert rows_of(answer) == [forwarded_frame(device, "reverse", f.tobytes()) for f in back]


def test_equal_inner_tuples_of_two_softwires_are_two_connections():
    """ST-18: all combinations of 2 B4s; each inner four-tuple comes from both."""
    plugin, device = aftr(
        initiator_count=2, responder_count=2, initiator_ports={"min": 4096, "max": 4099},
        responder_ports={"min": 1, "max": 3}, enumerate_ips=3,
    )  # fmt: skip
    assert plugin.combinations == 48
    frames, _, learned = sent(plugin, device, 104)
    inner = frames[:, 66:78]
    assert len(np.unique(inner, axis=0)) == 24
    assert len(np.unique(np.concatenate([frames[:, 22:38], inner], axis=1), axis=0)) == 48
    assert len(np.unique(learned, axis=0)) == 48


def test_an_aftr_that_does_not_look_at_the_tunnel_repeats_public_endpoints():
    class BlindAftr(AftrDevice):
        def forward_inner(self, outer, inner):
            outer.src = IPv6Address("2001:db8:b4::")
            return super().forward_inner(outer, inner)

    plugin, _ = aftr(
        initiator_count=2, responder_count=2, initiator_ports={"min": 4096, "max": 4099},
        responder_ports={"min": 1, "max": 3}, enumerate_ips=3,
    )  # fmt: skip
    (view,) = [v for v in plugin.audit_views() if isinstance(v, Nat)]
    device = BlindAftr(plugin.dut_intent(), view, view.aftr)
    _, _, learned = sent(plugin, device, 104)
    memory = MemoryFile(learned.size)
    try:
        table = StateTable(memory.path, FRAMES)
        table.learn(np.arange(FRAMES), learned)
        assert table.repeated()[0] == FRAMES // 2
    finally:
        memory.close()


def test_endpoints_before_an_aftr_are_softwires_and_ports():
    plugin, _ = aftr(
        initiator_count=2, responder_count=2, initiator_ports={"min": 4096, "max": 4099},
        responder_ports={"min": 1, "max": 3}, enumerate_ips=3,
    )  # fmt: skip
    assert plugin.params.endpoints == 8
    assert inside_endpoints(streams(plugin, "forward", 104)[0], plugin.combinations) == 8


@pytest.mark.parametrize("several", [True, False])
def test_the_tunnels_end_with_a_nat_behind_it_is_the_aftr(several):
    given = {} if several else {"initiator_count": 1, "responder_count": 1, "enumerate_ips": 0}
    plugin, _ = aftr(**given)
    end, nat = plugin.parts
    p = plugin.params
    device = nat_part(nat, p.pool_first, 1, p.pool_ports)
    frames = Expander(streams(plugin, "forward", 104)[0]).frames(0, FRAMES)
    middle = end.reference.expect("forward", frames)
    assert not middle.reason.any()
    out = [forwarded_frame(device, "forward", f.tobytes()) for f in middle.frames]
    learned = np.array([list(o[26:38]) for o in out], dtype=np.uint8)
    oracle = make_driver("chain", {}).oracle(plugin, plugin.dut_intent())

    class Bound:
        def expect(self, direction, given):
            return plugin.expect_connections(direction, given, frames, learned)

    oracle.oracle = Bound()
    assert rows_of(oracle.expect("forward", frames)) == out
    back = replies(plugin, learned, 104)
    returned = [forwarded_frame(device, "reverse", f.tobytes()) for f in back]
    made = end.reference.expect("reverse", np.array([list(r) for r in returned], dtype=np.uint8))
    assert rows_of(oracle.expect("reverse", back)) == rows_of(made)
    (inside,) = nat.intent.configuration.inside4
    assert str(inside) == ("10.0.0.0/28" if several else "192.168.1.2/32")


def test_the_tunnels_end_drops_what_is_no_softwires():
    plugin, _ = aftr()
    end = plugin.parts[0].reference
    frames = Expander(streams(plugin, "forward", 104)[0]).frames(0, 6)
    frames[0, 37] = 0xFF  # a B4 it does not know
    frames[1, 53] ^= 1  # another AFTR
    frames[2, 20] = 17  # no tunnel
    frames[3, 69] ^= 1  # not the customer's address
    frames[4, 62] = 1  # the last hop
    assert (end.expect("forward", frames).length > 0).tolist() == [False] * 5 + [True]
    back = end.expect("forward", frames[5:]).frames.copy()
    turned = back[:, :].copy()
    turned[:, 0:12] = back[:, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]]
    turned[:, 26:34] = back[:, [30, 31, 32, 33, 26, 27, 28, 29]]
    assert end.expect("reverse", turned).length.tolist() == [100]
    turned[:, 33] = 200
    assert end.expect("reverse", turned).length.tolist() == [0]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"n": 2, "m": 1}, "no-background"),
        ({"b4_ipv6": "2001:db8:6::", "initiator_count": 4}, "address-conflict"),
        ({"b4_ipv6": "2001:db8:b4::ffff:fffe"}, "out-of-range"),
    ],
)
def test_an_aftr_that_cannot_be(given, code):
    with expect_error(code):
        DsLiteParams(**given)
