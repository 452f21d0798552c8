"""A field engine for tests: TRex v3.08's instructions, one frame at a time, as slow as can be.

Follows ``trex_stl_stream_vm.{h,cpp}``, ``trex_stl_vm_splitter.cpp`` and the checks of
``trex_stl_rpc_cmds.cpp`` step by step, so that it shares no arithmetic with the compiler or the
expander.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from v6t.profiles.streams import Stream

U16, U32, U64 = 0xFFFF, 0xFFFFFFFF, (1 << 64) - 1


class Counter:
    """``inc``/``dec`` variable, over a range or a list, on one core of several."""

    def __init__(self, v: Mapping[str, Any], core: int = 0, cores: int = 1) -> None:
        assert v["step"] > 0
        self.values = v.get("value_list")
        self.up = v["op"] == "inc"
        if self.values is not None:
            assert 0 < len(self.values) <= U16
            assert all(0 <= x < 1 << 8 * v["size"] for x in self.values)
            self.low, self.high = 0, len(self.values) - 1
            init = self.low if self.up else self.high
        else:
            self.low, self.high, init = v["min_value"], v["max_value"], v["init_value"]
            assert 0 <= self.low <= init <= self.high < 1 << 8 * v["size"]
            assert v["step"] < 1 << 8 * v["size"]
            assert (self.high - self.low + 1) % v["step"] == 0, "the server would pad the range"
            # the client forgets init_value when it loads a file
            assert init == (self.low if self.up else self.high)
        span = self.high - self.low + 1
        assert 0 < span <= U64
        step = v["step"] % span
        assert v["step"] * cores <= U64, "the server's product would overflow"
        self.current = init
        self.step = step * core % span
        self.current = self._next()
        self.step = v["step"] * cores % span

    def _next(self) -> int:
        if self.up:
            left = self.high - self.current
            if self.step <= left:
                return self.current + self.step
            return self.low + self.step - left - 1
        left = self.current - self.low
        if self.step <= left:
            return self.current - self.step
        return self.high - (self.step - left - 1)

    def take(self) -> int:
        value = self.current
        self.current = self._next()
        return value if self.values is None else self.values[value]


class Machine:
    """Runs the program of a stream, as TRex's core ``core`` of ``cores`` would."""

    def __init__(self, stream: Stream, core: int = 0, cores: int = 1) -> None:
        self.packet = base64.b64decode(stream.trex["packet"]["binary"])
        self.program = stream.program
        self.state = stream.trex["random_seed"] * (core + 1) * 514229 & U32
        variables = [i for i in self.program if i["type"] == "flow_var"]
        used = sum(v["size"] for v in variables) + 4 * any(v["op"] == "random" for v in variables)
        assert used <= 64
        assert len({v["name"] for v in variables}) == len(variables)
        self.size = {v["name"]: v["size"] for v in variables}
        self.counters = {
            v["name"]: Counter(v, core, cores) for v in variables if v["op"] != "random"
        }

    def rand(self) -> int:
        self.state = (214013 * self.state + 2531011) & U32
        return self.state >> 16 & 0x7FFF

    def draw(self, v: Mapping[str, Any]) -> int:
        if v["op"] != "random":
            return self.counters[v["name"]].take()
        span = v["max_value"] - v["min_value"] + 1
        raw = self.rand() if v["size"] <= 2 else (self.rand() << 16) + self.rand()
        assert v["size"] <= 4
        return v["min_value"] + raw % span

    def frames(self) -> Iterator[tuple[bytes, dict[str, int]]]:
        """Frames without end, with the values of the TRex variables; checksums finished."""
        while True:
            frame = bytearray(self.packet)
            values: dict[str, int] = {}
            for i in self.program:
                getattr(self, "_" + i["type"])(i, frame, values)
            yield bytes(frame), values

    def _flow_var(self, i: Mapping[str, Any], _: bytearray, values: dict[str, int]) -> None:
        values[i["name"]] = self.draw(i)

    def _write_flow_var(self, i: Mapping[str, Any], f: bytearray, values: dict[str, int]) -> None:
        at, size = i["pkt_offset"], self.size[i["name"]]
        assert i["is_big_endian"]
        assert at >= 0
        assert at + size <= min(len(f), 512)
        assert -(1 << 31) <= i["add_value"] < 1 << 31
        value = (values[i["name"]] + i["add_value"]) % (1 << 8 * size)
        f[at : at + size] = value.to_bytes(size, "big")

    def _write_mask_flow_var(
        self, i: Mapping[str, Any], f: bytearray, values: dict[str, int]
    ) -> None:
        at, size, shift = i["pkt_offset"], i["pkt_cast_size"], i["shift"]
        assert size in {1, 2, 4}
        assert i["is_big_endian"]
        assert -32 < shift < 32
        assert at >= 0
        assert at + size <= min(len(f), 512)
        assert -(1 << 31) <= i["add_value"] < 1 << 31
        value = values[i["name"]]
        if self.size[i["name"]] == 8:
            value >>= 32
        value = (value + i["add_value"]) & U32
        value = value << shift & U32 if shift > 0 else value >> -shift
        before = int.from_bytes(f[at : at + size], "big")
        after = (before & ~i["mask"] | value & i["mask"]) & ((1 << 8 * size) - 1)
        f[at : at + size] = after.to_bytes(size, "big")

    def _fix_checksum_ipv4(self, i: Mapping[str, Any], f: bytearray, _: dict[str, int]) -> None:
        at = i["pkt_offset"]
        end = at + 4 * (f[at] & 15)
        f[at + 10 : at + 12] = b"\0\0"
        f[at + 10 : at + 12] = (U16 ^ ones_sum(f[at:end])).to_bytes(2, "big")

    def _fix_checksum_hw(self, i: Mapping[str, Any], f: bytearray, values: dict[str, int]) -> None:
        l3 = i["l2_len"]
        l4 = l3 + i["l3_len"]
        assert 14 <= l3 < 128
        if f[l3] >> 4 == 4:
            assert i["l3_len"] == 4 * (f[l3] & 15)
            self._fix_checksum_ipv4({"pkt_offset": l3}, f, values)
            addresses = f[l3 + 12 : l3 + 20]
        else:
            addresses = f[l3 + 8 : l3 + 40]
        field, protocol = {11: (l4 + 6, 17), 13: (l4 + 16, 6)}[i["l4_type"]]
        f[field : field + 2] = b"\0\0"
        pseudo = bytes(addresses) + (len(f) - l4).to_bytes(4, "big") + bytes([0, 0, 0, protocol])
        value = U16 ^ ones_sum(pseudo + f[l4:])
        f[field : field + 2] = (value or U16).to_bytes(2, "big")

    def _fix_checksum_icmpv6(
        self, i: Mapping[str, Any], f: bytearray, values: dict[str, int]
    ) -> None:
        l3, l4 = i["l2_len"], i["l2_len"] + i["l3_len"]
        f[l4 + 2 : l4 + 4] = b"\0\0"
        pseudo = (
            bytes(f[l3 + 8 : l3 + 40]) + (len(f) - l4).to_bytes(4, "big") + bytes([0, 0, 0, 58])
        )
        f[l4 + 2 : l4 + 4] = (U16 ^ ones_sum(pseudo + f[l4:])).to_bytes(2, "big")


def ones_sum(data: bytes) -> int:
    """One's complement sum of 16-bit words (RFC 1071)."""
    padded = bytes(data) + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[k : k + 2], "big") for k in range(0, len(padded), 2))
    while total >> 16:
        total = (total & U16) + (total >> 16)
    return total
