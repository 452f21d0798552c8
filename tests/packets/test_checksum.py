"""The Internet checksum, compared with scapy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import checksum as scapy_checksum
from v6t.packets import checksum


@given(st.binary(max_size=200))
def test_compute_checksum_random_octets_equals_scapys(octets):
    assert checksum.compute_checksum(octets) == (scapy_checksum(octets) if any(octets) else 0xFFFF)


@given(st.lists(st.binary(min_size=1, max_size=99), min_size=1, max_size=3), st.integers(0, 9))
def test_sum_columns_random_rows_equals_sum_words(contents, before):
    size = max(map(len, contents))
    frames = np.zeros((len(contents), before + size), np.uint8)
    for row, content in zip(frames, contents, strict=True):
        row[before : before + len(content)] = list(content)
    sums = checksum.sum_columns(frames, before, before + size)
    assert sums.tolist() == [checksum.sum_words(f[before:].tobytes()) for f in frames]


@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=5))
def test_fold_any_sum_keeps_the_remainder(sums):
    folded = checksum.fold(np.array(sums, np.uint32)).tolist()
    assert folded == [checksum.fold(total) for total in sums]
    for before, after in zip(sums, folded, strict=True):
        assert after <= 0xFFFF
        assert after % 0xFFFF == before % 0xFFFF
        assert (after == 0) == (before == 0)


@pytest.mark.parametrize("length", [0, 1, 2, 20, 40, 41, 42, 1500, 9238])
def test_sum_columns_largest_words_does_not_overflow(length):
    frames = np.full((2, length), 255, np.uint8)
    expected = checksum.sum_words(b"\xff" * length)
    assert checksum.sum_columns(frames, 0, length).tolist() == [expected] * 2


@given(st.binary(min_size=20, max_size=20), st.binary(min_size=4, max_size=4))
def test_update_checksum_changed_words_equals_a_new_checksum(before, new):
    after = before[:8] + new + before[12:]
    old, words = checksum.compute_checksum(before), checksum.sum_words(before[8:12])
    updated = checksum.update_checksum(old, words, checksum.sum_words(new))
    assert updated % 0xFFFF == checksum.compute_checksum(after) % 0xFFFF


def test_update_checksum_rfc1624_example():
    # the example of RFC 1624: a word changes from 0x5555 to 0x3285 in a packet with checksum 0xDD2F
    assert checksum.update_checksum(0xDD2F, 0x5555, 0x3285) == 0x0000


def test_write_sum_zero_is_written_as_ffff_for_udp_only():
    frames = np.zeros((1, 6), np.uint8)
    checksum.write_sum(frames, 0, np.array([0xFFFF], np.uint32), udp=True)
    checksum.write_sum(frames, 4, np.array([0xFFFF], np.uint32))
    assert frames[0].tolist() == [255, 255, 0, 0, 0, 0]


def test_write_update_changed_field_keeps_the_sum_valid():
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 256, (1000, 20), dtype=np.uint8)
    checksum.write_ipv4_checksum(frames, 0, 20)
    before = checksum.sum_columns(frames, 4, 8)
    frames[:, 4:8] = rng.integers(0, 256, (1000, 4))
    checksum.write_update(frames, 10, before, checksum.sum_columns(frames, 4, 8))
    assert checksum.has_valid_sum(frames).all()
    assert [scapy_checksum(frame.tobytes()) for frame in frames] == [0] * 1000


def test_has_valid_sum_flipped_bit_is_found():
    frames = np.repeat(np.arange(1, 21, dtype=np.uint8)[None, :], 160, axis=0)
    checksum.write_ipv4_checksum(frames, 0, 20)
    assert checksum.has_valid_sum(frames).all()
    bits = np.arange(160)
    frames[bits, bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    assert not checksum.has_valid_sum(frames).any()
