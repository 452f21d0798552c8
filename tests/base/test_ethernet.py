import json
from pathlib import Path

import pytest
from v6t.base.errors import UsageError
from v6t.base.ethernet import compute_max_frame_rate_fps, parse_line_rate
from v6t.tests.expect import expect_error

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "siit.json").read_text())["vectors"]
PAIRS = [v for v in VECTORS if v["kind"] == "frame_size_pair"]
RATES = [v for v in VECTORS if v["kind"] == "max_rate"]


@pytest.mark.parametrize("vector", PAIRS, ids=lambda v: v["id"])
def test_max_frame_rates_equal_published_values(vector):
    assert vector["ipv6_frame"] - vector["ipv4_frame"] == vector["overhead"]
    for line, fps in vector["max_fps"].items():
        rate = parse_line_rate(line)
        assert compute_max_frame_rate_fps(rate, vector["ipv6_frame"]) == fps
        assert compute_max_frame_rate_fps(rate, vector["ipv4_frame"], vector["overhead"]) == fps


@pytest.mark.parametrize("vector", RATES, ids=lambda v: v["id"])
def test_max_frame_rate_equals_example_of_rfc8219(vector):
    rate = compute_max_frame_rate_fps(vector["line_rate_bps"], vector["frame"], vector["overhead"])
    assert rate == vector["fps"]


def test_vectors_exist():
    assert len(PAIRS) >= 10
    assert RATES


@pytest.mark.parametrize(("line", "size", "overhead", "fps"), [
    ("10G", 104, 0, 10_080_645), ("25G", 1518, 0, 2_031_859), ("10M", 64, 20, 12_019),
])  # fmt: skip
def test_max_frame_rate_of_medium_is_computed(line, size, overhead, fps):
    assert compute_max_frame_rate_fps(parse_line_rate(line), size, overhead) == fps


@pytest.mark.parametrize(("text", "bps"), [
    ("10G", 10e9), ("2.5Gbps", 2.5e9), ("100M", 1e8), (" 1g ", 1e9), ("1e9", 1e9),
    ("64 kbit/s", 64e3), ("10 gbit", 10e9), ("10Gbits/s", 10e9), ("10Gb/s", 10e9),
    ("40GE", 40e9), ("100GbE", 100e9), ("10000000000", 10e9), ("1e+10", 1e10),
])  # fmt: skip
def test_line_rate_is_parsed(text, bps):
    assert parse_line_rate(text) == bps


@pytest.mark.parametrize("text", [
    "", "ten", "10X", "-1G", "0", "10kpps", "1 2", "1/3", "nan",
    "10GB/s", "10GB", "10KB", "10GBps", "1 Gbyte/s", "10B",
])  # fmt: skip
def test_line_rate_that_is_malformed_or_in_bytes_is_rejected(text):
    with expect_error("not-a-number"):
        parse_line_rate(text)


@pytest.mark.parametrize(("rate", "size", "overhead"), [(0, 64, 0), (1e9, 63, 0), (1e9, 64, -1)])
def test_impossible_frame_or_line_rate_is_rejected(rate, size, overhead):
    with pytest.raises(UsageError):
        compute_max_frame_rate_fps(rate, size, overhead)
