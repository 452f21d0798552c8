"""Bit layouts, compared with a digit-by-digit implementation, for integers, arrays and expressions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from v6t.packets.bit_layout import BitCopy, BitLayout
from v6t.profiles.model import Expression, Variable

NIBBLES = BitLayout(
    16, {"x": 8, "y": 4}, (BitCopy("x", 0, 4, 4), BitCopy("y", 4, 4), BitCopy("x", 12, 4)), 0xA0
)


def write_expression(layout, **values):
    """Return the value of a field, with the bits of an expression copied digit by digit."""
    digits = list(f"{layout.constant:0{layout.width}b}")
    variables = {name: Variable(name, width) for name, width in layout.variables.items()}
    for copy in Expression.from_layout(layout, 0, **variables).bits:
        value = f"{values[copy.variable.name]:0{copy.variable.width}b}"
        end = copy.destination + copy.length
        digits[copy.destination : end] = value[copy.source : copy.source + copy.length]
    return int("".join(digits) or "0", 2)


@st.composite
def layouts(draw):
    """Draw disjoint copies of two variables to a field of up to 128 bits, and values."""
    width = draw(st.integers(1, 128))
    widths = {"x": draw(st.integers(1, 64)), "y": draw(st.integers(65, 128))}
    piece = st.tuples(st.sampled_from("xy"), *[st.integers(0, 127)] * 3)
    copies, used, at = [], 0, 0
    for name, gap, length, first in draw(st.lists(piece, max_size=5)):
        start, source = at + gap % 20, first % widths[name]
        size = min(length, width - start, widths[name] - source)
        if size > 0:
            copies.append(BitCopy(name, start, size, source))
            used |= (1 << size) - 1 << width - start - size
            at = start + size
    constant = draw(st.integers(0, (1 << width) - 1)) & ~used
    values = {name: draw(st.integers(0, (1 << bits) - 1)) for name, bits in widths.items()}
    return BitLayout(width, widths, tuple(copies), constant), values


def split_words(value, width):
    """Return a number as arrays of 64-bit words, the upper word first."""
    words = -(-width // 64)
    shifts = range(64 * (words - 1), -1, -64)
    return [np.array([value >> shift & (1 << 64) - 1], dtype=np.uint64) for shift in shifts]


@given(layouts())
def test_layout_gives_same_bits_for_integers_arrays_and_bindings(drawn):
    layout, values = drawn
    field = layout.encode(**values)
    assert field == write_expression(layout, **values)
    inputs = {n: split_words(v, layout.variables[n]) for n, v in values.items()}
    words = layout.encode_words(**inputs)
    assert [int(word[0]) for word in words] == [int(w[0]) for w in split_words(field, layout.width)]
    assert layout.encode(**layout.decode(field)) == field


def test_decode_of_a_bit_copied_twice_reads_the_last_copy():
    assert BitLayout(8, {"x": 4}, (BitCopy("x", 0, 4), BitCopy("x", 4, 4))).decode(0x12) == {"x": 2}


def test_mask_selects_the_bits_of_one_variable():
    assert (NIBBLES.make_mask("x"), NIBBLES.make_mask("y")) == (0xF00F, 0x0F00)


def test_compose_replaces_variables_and_joins_adjacent_copies():
    halves = BitLayout(8, {"z": 16}, (BitCopy("z", 0, 4, 2), BitCopy("z", 4, 4, 6)))
    composed = BitLayout(8, {"x": 8}, (BitCopy("x", 0, 8),)).compose(x=halves)
    assert composed.copies == (BitCopy("z", 0, 8, 2),) and composed.variables == {"z": 16}
    assert NIBBLES.compose(x=BitLayout(8, {}, (), 0x12)).encode(y=3) == 0x23A1
