"""Field engine that executes the instructions of TRex v3.08 for single frames.

It follows ``trex_stl_stream_vm.{h,cpp}``, ``trex_stl_vm_splitter.cpp`` and the checks of
``trex_stl_rpc_cmds.cpp`` step by step, so that it shares no arithmetic with the compiler or the
expander.
"""

from itertools import islice

U16, U32, U64 = 0xFFFF, 0xFFFFFFFF, (1 << 64) - 1


class Counter:
    """Value of an ``inc`` or ``dec`` variable, over a range or a list, on one of several cores."""

    def __init__(self, v, core=0, cores=1):
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
            # the client ignores init_value when it loads a file
            assert init == (self.low if self.up else self.high)
        span = self.high - self.low + 1
        assert 0 < span <= U64
        assert v["step"] * cores <= U64, "overflow in the server"
        self.current, self.step = init, v["step"] % span * core % span
        self.current = self._next()
        self.step = v["step"] * cores % span

    def _next(self):
        remaining = self.high - self.current if self.up else self.current - self.low
        if self.step <= remaining:
            return self.current + self.step if self.up else self.current - self.step
        beyond = self.step - remaining - 1
        return self.low + beyond if self.up else self.high - beyond

    def take(self):
        value = self.current
        self.current = self._next()
        return value if self.values is None else self.values[value]


class Machine:
    """Executes the program of a stream as core number ``core`` of ``cores``."""

    def __init__(self, stream, core=0, cores=1):
        self.packet = stream.packet
        self.program = stream.program
        self.state = stream.trex["random_seed"] * (core + 1) * 514229 & U32
        variables = [i for i in self.program if i["type"] == "flow_var"]
        used = sum(v["size"] for v in variables) + 4 * any(v["op"] == "random" for v in variables)
        assert used <= 64
        self.size = {v["name"]: v["size"] for v in variables}
        assert len(self.size) == len(variables)
        self.counters = {
            v["name"]: Counter(v, core, cores) for v in variables if v["op"] != "random"
        }

    def rand(self):
        self.state = (214013 * self.state + 2531011) & U32
        return self.state >> 16 & 0x7FFF

    def take(self, count):
        """Return the next frames with valid checksums."""
        return list(islice(self.frames(), count))

    def frames(self):
        """Yield an endless sequence of frames."""
        while True:
            frame, values = bytearray(self.packet), {}
            for i in self.program:
                getattr(self, "_" + i["type"])(i, frame, values)
            yield bytes(frame)

    def _flow_var(self, v, _, values):
        if v["op"] != "random":
            values[v["name"]] = self.counters[v["name"]].take()
            return
        assert v["size"] <= 4
        raw = self.rand() if v["size"] <= 2 else (self.rand() << 16) + self.rand()
        values[v["name"]] = v["min_value"] + raw % (v["max_value"] - v["min_value"] + 1)

    def _check_write(self, i, size, frame):
        assert i["is_big_endian"]
        assert 0 <= i["pkt_offset"] <= min(len(frame), 512) - size
        assert -(1 << 31) <= i["add_value"] < 1 << 31

    def _write_flow_var(self, i, frame, values):
        at, size = i["pkt_offset"], self.size[i["name"]]
        self._check_write(i, size, frame)
        value = (values[i["name"]] + i["add_value"]) % (1 << 8 * size)
        frame[at : at + size] = value.to_bytes(size, "big")

    def _write_mask_flow_var(self, i, frame, values):
        at, size, shift = i["pkt_offset"], i["pkt_cast_size"], i["shift"]
        self._check_write(i, size, frame)
        assert size in {1, 2, 4}
        assert -32 < shift < 32
        value = values[i["name"]] >> (32 if self.size[i["name"]] == 8 else 0)
        value = (value + i["add_value"]) & U32
        value = value << shift & U32 if shift > 0 else value >> -shift
        before = int.from_bytes(frame[at : at + size], "big")
        after = (before & ~i["mask"] | value & i["mask"]) & ((1 << 8 * size) - 1)
        frame[at : at + size] = after.to_bytes(size, "big")

    def _fix_checksum_ipv4(self, i, frame, _):
        at = i["pkt_offset"]
        write_checksum(frame, at + 10, at, at + 4 * (frame[at] & 15))

    def _fix_checksum_hw(self, i, frame, values):
        l3 = i["l2_len"]
        l4 = l3 + i["l3_len"]
        assert 14 <= l3 < 128
        if frame[l3] >> 4 == 4:
            assert i["l3_len"] == 4 * (frame[l3] & 15)
            self._fix_checksum_ipv4({"pkt_offset": l3}, frame, values)
            addresses = frame[l3 + 12 : l3 + 20]
        else:
            addresses = frame[l3 + 8 : l3 + 40]
        field, protocol = {11: (l4 + 6, 17), 13: (l4 + 16, 6)}[i["l4_type"]]
        write_checksum(frame, field, l4, len(frame), addresses, protocol)
        if not any(frame[field : field + 2]):
            frame[field : field + 2] = b"\xff\xff"

    def _fix_checksum_icmpv6(self, i, frame, _):
        l3, l4 = i["l2_len"], i["l2_len"] + i["l3_len"]
        write_checksum(frame, l4 + 2, l4, len(frame), frame[l3 + 8 : l3 + 40], 58)


def write_checksum(frame, field, start, end, addresses=b"", protocol=0):
    """Write the checksum of octets ``start..end`` and of a pseudo header (RFC 1071)."""
    frame[field : field + 2] = b"\0\0"
    pseudo = bytes(addresses) + (end - start).to_bytes(4, "big") + protocol.to_bytes(4, "big")
    octets = (pseudo if addresses else b"") + bytes(frame[start:end])
    frame[field : field + 2] = (U16 ^ sum_ones_complement(octets)).to_bytes(2, "big")


def sum_ones_complement(octets):
    """Return the one's complement sum of 16-bit words (RFC 1071)."""
    octets = bytes(octets) + b"\0" * (len(octets) % 2)
    total = sum(int.from_bytes(octets[k : k + 2], "big") for k in range(0, len(octets), 2))
    while total >> 16:
        total = (total & U16) + (total >> 16)
    return total
