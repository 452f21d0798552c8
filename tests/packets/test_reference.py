import numpy as np
import pytest
from v6t.packets import reference


class Drop(reference.DropReason):
    SHORT = "shorter than four octets"
    LONG = "longer than six octets"


class Reversing(reference.ReferenceTranslation):
    def expect(self, direction, frames):
        is_zero = frames[:, 0] == 0
        reason = np.where(is_zero, reference.EXHAUSTED, reference.FORWARDED).astype(np.uint8)
        length = np.where(reason == reference.FORWARDED, frames.shape[1], 0).astype(np.int32)
        return reference.Expected(frames[:, ::-1], length, reason)


def test_drop_reasons_are_numbered_and_described_after_the_common_ones():
    assert [int(reason) for reason in Drop] == [4, 5]
    assert Drop(5) is Drop.LONG
    reasons = np.zeros(2, np.uint8)
    reasons[1] = Drop.LONG
    assert reasons.tolist() == [0, 5]
    assert [Drop.describe(number) for number in range(4)] == list(reference.COMMON_REASONS)
    assert Drop.describe(Drop.SHORT) == Drop.SHORT.text == "shorter than four octets"
    with pytest.raises(ValueError, match="99"):
        Drop.describe(99)


def test_translate_frames_of_several_lengths_keeps_their_order():
    frames = [b"\1\2\3", b"\0\1\2", b"\4\5", b"\6\7\x08"]
    translated = reference.translate_frames(Reversing(), "forward", frames)
    assert translated == [b"\3\2\1", None, b"\5\4", b"\x08\7\6"]
