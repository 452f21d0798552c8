"""The lwAFTR with binding tables from a file and generated ones of up to a million softwires."""

import random
from ipaddress import IPv4Address, IPv6Address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.drivers.duts.kinds.softwires import iter_softwires
from v6t.packets.address_layouts import GeneratedSoftwires
from v6t.packets.reference import NOT_FORWARDED
from v6t.plugins.lwaftr import LwAftrDrop, generate_table, read_table
from v6t.plugins.ports import PortSet
from v6t.plugins.prefixes import parse_ipv4_network, parse_ipv6_network
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from . import support

BR = IPv6Address("2001:db8:6::1")
OTHER_BR = "2001:db8:6::77"


def make_rows():
    """Make softwires with shared and unshared addresses and two lwAFTR addresses."""
    rng, rows = random.Random(7596), []
    for number in range(1500):
        kind = number % 3
        length, offset = ((4, 6), (8, 0), (0, 0))[kind]
        ipv4 = f"10.{kind}.{number // 64}.{number % 64 if kind == 2 else number % 8}"
        psid = number // 8 % 8 if length else 0
        b4 = f"2001:db8:{number:x}:{rng.randrange(1, 65536):x}::{rng.randrange(1, 65536):x}"
        rows.append((ipv4, psid, length, offset, b4, str(BR) if number % 2 else OTHER_BR))
    return list({(row[0], row[1]): row for row in rows}.values())


@pytest.fixture
def table_file(tmp_path):
    path = tmp_path / "table.txt"
    lines = ["# ipv4 psid length offset b4 br"]
    for ipv4, psid, length, offset, b4, br in make_rows():
        aftr = "" if br == str(BR) else f", {br}"
        lines.append(f"{ipv4}, {psid:#x}, {length}, {offset}, {b4}{aftr}  # comment")
    path.write_text("\n".join(lines) + "\n\n")
    return path


@pytest.mark.slow
def test_frames_of_a_table_equal_those_of_the_packet_level_device(table_file):
    plugin = support.make("lwaftr", binding_table=str(table_file), negative_percent=6)
    device = support.make_device(plugin)
    destinations: set[str] = set()
    for direction in ("forward", "reverse"):
        classes = support.compile_streams(plugin, direction)
        assert sum(s.role is Role.FOREGROUND for s in classes) == 6
        for stream in classes:
            frames = Expander(stream).compute_frames(0, 3000)
            assert verify(frames).all()
            answer = plugin.expect(direction, frames)
            assert set(answer.length > 0) == {stream.role is Role.FOREGROUND}
            assert support.list_emitted(answer)[::41] == support.forward_frames(
                device, direction, frames[::41]
            )
            if stream.role is Role.FOREGROUND and direction == "reverse":
                destinations |= support.read_addresses(answer.frames, 38, 16)
    assert destinations == {str(IPv6Address(row[4])) for row in make_rows()}


def test_packet_for_another_lwaftr_address_is_dropped(table_file):
    plugin = support.make("lwaftr", binding_table=str(table_file))
    frames = Expander(support.compile_streams(plugin, "forward")[0]).compute_frames(0, 3)
    aftr = IPv6Address(frames[0, 38:54].tobytes())
    wrong = BR if str(aftr) == OTHER_BR else IPv6Address(OTHER_BR)
    frames[0, 38:54] = list(wrong.packed)
    frames[1, 38:54] = list(IPv6Address("2001:db8:6::ffff").packed)
    answer = plugin.expect("forward", frames)
    assert answer.reason.tolist() == [LwAftrDrop.WRONG_OUTER_ADDRESSES, NOT_FORWARDED, 0]


def test_directions_have_the_same_softwires(table_file):
    plugin = support.make("lwaftr", binding_table=str(table_file), simulated=100)
    seen: dict[str, set[str]] = {"forward": set(), "reverse": set()}
    for direction, at in (("forward", 22), ("reverse", 38)):
        for stream in support.compile_streams(plugin, direction):
            frames = Expander(stream).compute_frames(0, 500)
            if direction == "reverse":
                frames = plugin.expect(direction, frames).frames
            seen[direction] |= support.read_addresses(frames, at, 16)
    assert seen["forward"] == seen["reverse"]
    assert len(seen["forward"]) == 100


@pytest.mark.parametrize(("direction", "field"), [("forward", 74), ("reverse", 36)])
def test_fixed_port_is_never_port_0_if_the_first_psid_is_1(tmp_path, direction, field):
    path = tmp_path / "table.txt"
    path.write_text("192.0.2.80 1 1 0 2001:db8::1\n192.0.2.81 0 1 0 2001:db8::2\n")
    policy = {"fw_sport": "fixed", "rv_dport": "fixed"}
    plugin = support.make("lwaftr", binding_table=str(path), **policy)
    (stream,) = support.compile_streams(plugin, direction)
    frames = Expander(stream).compute_frames(0, 2)
    assert sorted(frames[:, field : field + 2].tolist()) == [[0, 1], [128, 1]]


def test_million_softwires_are_used_once_each():
    count = 1_000_000
    plugin = support.make("lwaftr", softwires=count)
    (stream,) = support.compile_streams(plugin, "forward")
    expander, uses = Expander(stream), np.zeros(count, dtype=np.int64)
    for first in range(0, count, 50_000):
        frames = expander.compute_frames(first, 50_000)
        numbers = np.ascontiguousarray(frames[:, 26:30]).view(">u4")[:, 0] & 0xFFFFFF
        uses += np.bincount(numbers.astype(np.int64), minlength=count)
        assert not plugin.expect("forward", frames[::10]).reason.any()
    assert (uses == 1).all()


def test_generated_table_is_the_documented_one():
    pool = parse_ipv4_network("198.18.0.0/15", "")
    prefix = parse_ipv6_network("2001:db8:b400::/40", "")
    table = generate_table(GeneratedSoftwires(pool, prefix, 6, 13), 5000, 6, BR)
    assert len(table) == 5000
    for n, row in enumerate(map(table.read_row, range(5000))):
        ipv4, psid = IPv4Address("198.18.0.0") + n // 64, n % 64
        b4 = IPv6Address(0x20010DB8B4000000 + n << 64 | int(ipv4) << 16 | psid)
        assert (row.ipv4, row.psid, row.b4, row.aftr) == (ipv4, psid, b4, BR)


@settings(max_examples=60)
@given(st.integers(0, 16), st.data())
def test_port_has_at_most_one_softwire(length, data):
    offset = data.draw(st.integers(0, 16 - length if length else 16))
    count = min(1 << length, 64) * 3
    pool, prefix = parse_ipv4_network("10.0.0.0/16", ""), parse_ipv6_network("2001:db8::/40", "")
    table = generate_table(GeneratedSoftwires(pool, prefix, length, 8), count, offset, BR)
    ports, address = np.arange(65536, dtype=np.uint64), table.ipv4[0]
    rows = table.find_rows(np.full(65536, address), ports)
    for row in {0, min(count, 1 << length) - 1}:
        owned = set(np.flatnonzero(rows == row).tolist())
        ranges = PortSet(offset, length, int(table.psid[row])).ranges
        assert owned == {p for first, last in ranges for p in range(first, last + 1)}
    assert (table.ipv4[rows[rows >= 0]] == address).all()
    assert (table.find_rows(np.array([address - np.uint64(1)]), ports[5000:5001]) == -1).all()


@pytest.mark.parametrize("row", [
    "10.0.0.1 1 4", "10.0.0.1 1 4 6 x", "10.0.0.1 -1 4 6 2001:db8::1", "10.0.0.1 1_0 4 6 2001:db8::1",
    "10.0.0.1 16 4 6 2001:db8::1", "10.0.0.1 0 11 6 2001:db8::1", "10.0.0.1 0 16 0 2001:db8::1",
    "10.0.0 0 4 6 2001:db8::1", "10.0.0.1 0 4 6 2001:db8::1 2001:db8::2 x",
    "10.0.0.9 0 4 6 2001:db8::9", "10.0.0.9 1 5 6 2001:db8::9",
])  # fmt: skip
def test_invalid_table_row_is_refused_with_its_file(tmp_path, row):
    path = tmp_path / "table.txt"
    path.write_text(f"10.0.0.9 0 4 6 2001:db8::1\n{row}\n")
    with expect_error("invalid-table-row", mentions="table.txt"):
        read_table(path, BR)


@pytest.mark.parametrize("row", ["01 4 6", "0x1 0x4 0x6", "1 04 06", "0X01,4,6"])
def test_number_in_a_row_is_decimal_or_hexadecimal(tmp_path, row):
    path = tmp_path / "table.txt"
    path.write_text(f"10.0.0.9 {row} 2001:db8::1\n")
    table = read_table(path, BR)
    assert (table.psid[0], table.psid_len[0], table.psid_offset[0]) == (1, 4, 6)
    (softwire,) = iter_softwires(support.make("lwaftr", binding_table=str(path)).make_dut_intent())
    assert (softwire.psid, softwire.psid_len, softwire.psid_offset) == (1, 4, 6)


@pytest.mark.parametrize(
    ("name", "value"), [("softwires", 10), ("ipv4_pool", "192.0.2.0/24"), ("psid_len", 6)]
)
def test_setting_of_a_generated_table_next_to_a_file_is_rejected(table_file, name, value):
    with expect_error("setting-without-effect"):
        support.make("lwaftr", binding_table=str(table_file), **{name: value})


def test_table_with_crlf_and_byte_order_mark_is_read_again_after_a_change(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("# nothing\n")
    with expect_error("empty-file"):
        read_table(path, BR)
    for count in (1, 2):
        rows = [f"10.0.0.9 {psid} 4 6 2001:db8::{psid}\r\n".encode() for psid in range(count)]
        path.write_bytes(b"\xef\xbb\xbf" + b"".join(rows))
        assert len(read_table(path, BR)) == count


def test_intent_contains_table_addresses_and_routes(table_file):
    intent = support.make("lwaftr", softwires=70).make_dut_intent()
    assert intent.configuration.table.softwires == 70
    assert [str(net) for net in intent.left.routes] == ["2001:db8:b400::/40"]
    intent = support.make("lwaftr", binding_table=str(table_file)).make_dut_intent()
    assert intent.configuration.table.file == str(table_file)
    assert [str(a) for a in intent.left.addresses] == [f"{BR}/64", f"{OTHER_BR}/128"]
    assert [str(net) for net in intent.left.routes] == ["2001:db8::/37"]
    plugin = support.make("lwaftr", binding_table=str(table_file), server_ipv4="203.0.113.57")
    assert int(IPv4Address("203.0.113.57")) not in plugin.params.load_table().ipv4
