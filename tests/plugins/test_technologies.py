"""Frames, frame sizes, traffic mixtures and intents of every technology."""

import json
import random

import numpy as np
import pytest
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_technology_type
from v6t.intent.device import BackgroundVlan
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.base import JUMBO_SIZES, Links
from v6t.plugins.frame_sizes import make_translated_pair
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.expand import Expander
from v6t.profiles.model import FramePair, Role
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from . import support

FRAMES, SAMPLE = 6000, 60
CASES = support.load_vectors("configurations")["stateless"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_frames_equal_those_of_the_packet_level_device(case):
    plugin = support.make(case.split()[0], **CASES[case])
    device = support.make_device(plugin)
    for direction in DIRECTIONS:
        size = max(84, plugin.default_frame_sizes[0])
        for stream in support.compile_streams(plugin, direction, size):
            foreground = stream.role is Role.FOREGROUND
            frames = Expander(stream).compute_frames(0, FRAMES if foreground else FRAMES // 10)
            assert verify(frames).all()
            answer = plugin.expect(direction, frames)
            assert len(answer.length) == len(answer.reason) == len(answer.frames) == len(frames)
            assert ((answer.length > 0) == (answer.reason == 0)).all()
            if stream.role is Role.NEGATIVE:
                assert not answer.length.any()
            else:
                assert set(answer.length.tolist()) == {answer.frames.shape[1]}
                assert verify(answer.frames).all()
            sample = random.Random(case).sample(range(len(frames)), SAMPLE)
            out = support.list_emitted(answer)
            expected = support.forward_frames(device, direction, frames[sample])
            assert [out[row] for row in sample] == expected


@pytest.mark.slow
@pytest.mark.parametrize("case", [*support.STATELESS, "nptv6", "siit nat46"])
def test_listed_size_is_forwarded_at_the_size_of_the_other_side(case):
    params = {k: v for k, v in CASES.get(case, {}).items() if k != "negative_percent"}
    plugin = support.make(case.split()[0], **params)
    for size in plugin.rfc_frame_sizes:
        sizes = plugin.make_frame_pair(size)
        assert sizes.ipv6 - sizes.ipv4 == plugin.overhead
        for direction, side in (("forward", 0), ("reverse", 1)):
            sent, received = plugin.list_link_sizes(sizes)[:: 1 - 2 * side]
            for stream in support.compile_streams(plugin, direction, size):
                frames = Expander(stream).compute_frames(0, 8)
                answer = plugin.expect(direction, frames)
                assert not answer.reason.any()
                octets = frames.shape[1] + 4, int(answer.length[0]) + 4
                foreground = stream.role is Role.FOREGROUND
                assert octets == ((sent, received) if foreground else (sizes.ipv6, sizes.ipv6))


def make_links(mtu=1500, vlan=None):
    changed, links = {"mtu": mtu, "vlan": vlan}, Links()
    return Links(links.left.model_copy(update=changed), links.right.model_copy(update=changed))


@pytest.mark.parametrize("name", support.STATELESS)
def test_jumbo_frame_within_the_mtu_is_forwarded(name):
    listed = load_technology_type(name).rfc_frame_sizes
    assert support.make(name).list_rfc_sizes() == listed
    assert support.make(name, make_links(vlan=7)).list_rfc_sizes()[-1] == 1522
    assert support.make(name, make_links(4082)).list_rfc_sizes() == (*listed, *JUMBO_SIZES[:2])
    plugin = support.make(name, make_links(9216))
    assert plugin.list_rfc_sizes() == (*listed, *JUMBO_SIZES)
    for size in JUMBO_SIZES:
        sizes = plugin.make_frame_pair(size)
        assert (sizes.ipv6, sizes.ipv6 - sizes.ipv4) == (size, plugin.overhead)
        for direction in DIRECTIONS:
            frames = support.first_frames(plugin, direction, 2, size)
            answer = plugin.expect(direction, frames)
            assert {frames.shape[1] + 4, int(answer.length[0]) + 4} == {sizes.ipv6, sizes.ipv4}
            assert not answer.reason.any()


@pytest.mark.parametrize(("size", "vlan", "pair"), [
    (1280, None, (1280, 1300)), (128, 5, (128, 152)), (82, None, (82, 102)),
])  # fmt: skip
def test_frame_pair_with_negative_overhead_is_longer_in_ipv4(size, vlan, pair):
    left, right = Links().left, Links().left.model_copy(update={"vlan": vlan})
    assert make_translated_pair(size, -20, left, right, "6rd") == FramePair(*pair)


@pytest.mark.parametrize(("name", "params", "size", "code", "limit"), [
    ("ipv4-router", {}, 63, "frame-too-small", "64"), ("ipv6-router", {}, 81, "frame-too-small", "82"),
    ("ipv4-router", {}, 1519, "frame-too-long", "1518"), ("mape-br", {}, 1519, "frame-too-long", "1518"),
    ("mape-br", {}, 103, "frame-too-small", "104"), ("mape-br", {"vlan": 1}, 107, "frame-too-small", "108"),
    ("mape-br", {"mtu": 1000}, 1019, "frame-too-long", "1018"),
    ("6rd", {}, 81, "frame-too-small", "82"), ("6rd", {}, 1518, "frame-too-long", "1518"),
])  # fmt: skip
def test_impossible_frame_size_is_refused_with_the_limit(name, params, size, code, limit):
    links = make_links(**params)
    with expect_error(code) as caught:
        if name == "6rd":
            make_translated_pair(size, -20, links.left, links.right, name)
        else:
            support.make(name, links).make_frame_pair(size)
    assert limit in f"{caught.value.message} {caught.value.hint}"


def test_background_in_frames_too_small_for_ipv6_is_refused():
    plugin = support.make("ipv4-router", n=2, m=1)
    with expect_error("frame-too-small"):
        plugin.build_traffic("forward", plugin.make_frame_pair(64))
    assert len(plugin.build_traffic("forward", plugin.make_frame_pair(82)).classes) == 2


LARGEST_UNFRAGMENTED = 1280 + 18
"""Size of the largest IPv6 frame that a translator never fragments, with FCS."""


def list_refused_directions(plugin, size):
    refused = []
    for direction in DIRECTIONS:
        try:
            plugin.build_traffic(direction, plugin.make_frame_pair(size))
        except UsageError as exc:
            assert exc.code == "frame-too-long"
            refused.append(direction)
    return refused


@pytest.mark.parametrize(
    ("name", "params"),
    [(name, {}) for name in support.BUILT_IN if name != "dns64"]
    + [("ipv4aas", v) for v in support.VARIANTS],
)
def test_frame_without_df_that_becomes_fragments_is_refused(name, params):
    plugin = support.make(name, df=False, **params)
    versions = {"forward": plugin.ip_versions, "reverse": plugin.ip_versions[::-1]}
    translates = plugin.overhead == 20
    towards_ipv6 = [d for d in DIRECTIONS if translates and versions[d] != (6, 4)]
    assert list_refused_directions(plugin, LARGEST_UNFRAGMENTED) == []
    assert list_refused_directions(plugin, LARGEST_UNFRAGMENTED + 1) == towards_ipv6
    assert list_refused_directions(support.make(name, df=True, **params), 1518) == []


@pytest.mark.parametrize("name", ["siit", "clat", "mapt-br", "mapt-ce"])
def test_frame_without_df_up_to_a_raised_lowest_mtu_is_forwarded(name):
    raised = support.make(name, df=False, lowest_ipv6_mtu=1500)
    frames = support.first_frames(raised, "reverse", 5, 1518)
    assert raised.expect("reverse", frames).length.all()
    assert not support.make(name, df=False).expect("reverse", frames).length.any()
    narrow = support.make(name, make_links(1280), df=False, lowest_ipv6_mtu=1500)
    assert not narrow.expect("reverse", frames).length.any()


PROPORTIONS = {100: (1, 1), 90: (10, 9), 75: (4, 3), 50: (2, 1), 25: (4, 1), 10: (10, 1), 0: (1, 0)}


@pytest.mark.parametrize("name", support.STATELESS)
@pytest.mark.parametrize("percent", PROPORTIONS)
def test_proportion_of_foreground_is_exact(name, percent):
    n, m = PROPORTIONS[percent]
    plugin = support.make(name, n=n, m=m)
    for direction in DIRECTIONS:
        streams = support.compile_streams(plugin, direction, 128)
        shares = dict.fromkeys(("foreground", "background"), 0)
        counts = count_frames([s.weight for s in streams], 10**6)
        for stream, share in zip(streams, counts, strict=True):
            shares[stream.role.value] += share
            assert plugin.expect(direction, Expander(stream).compute_frames(0, 50)).length.all()
        assert shares == {"foreground": 10_000 * percent, "background": 10**6 - 10_000 * percent}


def make_background_link(side, vlan, background):
    update = {"vlan": vlan, "background": BackgroundVlan.with_default_addresses(side, background)}
    return getattr(Links(), side).model_copy(update=update)


BACKGROUND_VLANS = Links(
    make_background_link("left", 100, 200),
    make_background_link("right", 101, 201),
)  # fmt: skip


def read_vlans(frames):
    assert (frames[:, 12:14] == (0x81, 0x00)).all()
    return {int(tag) for tag in frames[:, 14:16].astype(int) @ (256, 1)}


@pytest.mark.parametrize("name", support.STATELESS)
def test_background_vlans_are_those_of_the_links(name):
    plugin = support.make(name, BACKGROUND_VLANS, n=2, m=1)
    intent = plugin.make_dut_intent()
    for side, vlan in (("left", 200), ("right", 201)):
        link = getattr(intent, side)
        assert getattr(intent.links, side).background.vlan == vlan
        assert not {*link.background.neighbors} & {*link.neighbors}
    for direction, at in (("forward", 0), ("reverse", 1)):
        sent = support.stream_frames(plugin, direction, 20, size=128)
        background = sent["bg"]
        foreground = next(frames for name, frames in sent.items() if name != "bg")
        answer = plugin.expect(direction, background)
        vlans = read_vlans(background), read_vlans(answer.frames)
        assert vlans == ({(200, 201)[at]}, {(201, 200)[at]})
        changed = [*range(12), 14, 15, 25]
        assert (np.delete(answer.frames, changed, 1) == np.delete(background, changed, 1)).all()
        assert (answer.frames[:, 25] == background[:, 25] - 1).all()
        if foreground.shape[1] == background.shape[1]:
            both = np.stack([foreground, background], axis=1).reshape(40, -1)
            mixed = plugin.expect(direction, both)
            assert support.list_emitted(mixed)[1] == answer.frames[0].tobytes()
            assert mixed.length.all()
            assert read_vlans(mixed.frames[::2]) == {(101, 100)[at]}
        background[:, 15] = 77
        assert not plugin.expect(direction, background).length.any()


@pytest.mark.parametrize("name", [name for name in support.BUILT_IN if name != "dns64"])
def test_technology_has_consistent_sides_roles_and_parts(name):
    plugin = support.make(name)
    assert len(plugin.sides) == 2
    assert any(role.stateful for role in plugin.roles) == plugin.stateful
    assert (plugin.combinations > 0) == plugin.stateful
    assert plugin.responder_version == plugin.ip_versions[1]
    assert {part.device for part in plugin.parts} <= {role.name for role in plugin.roles}


@pytest.mark.parametrize("name", support.BUILT_IN)
def test_configuration_of_the_intent_reads_back_from_json(name):
    configuration = support.make(name).make_dut_intent().configuration
    read = type(configuration).model_validate(json.loads(json.dumps(configuration.to_json())))
    assert read == configuration
