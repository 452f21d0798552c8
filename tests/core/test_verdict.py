"""The summary sentences of a run: rates as shares of links, and their limits."""

from dataclasses import replace

import pytest
from v6t.analysis.blocks import Paragraph
from v6t.analysis.report.verdict import make_title, summarize_throughput
from v6t.core.runs.results import load_run
from v6t.tests.core.reportruns import make_run

RATE = 500_000


def told(tmp_path, **rest):
    data = load_run(
        make_run(tmp_path / "run", procedure={"repetitions": 2, "resolution_fps": 100.0}, **rest)
    )
    blocks = list(summarize_throughput(data))
    assert isinstance(blocks[0], Paragraph)
    return data, blocks[0].text, blocks[1]


def test_rates_in_the_units_of_links(tmp_path):
    device = {"capacity_fps": RATE, "capacity_noise": 0.0}
    data, text, table = told(tmp_path, device=device, modes=("forward", "bidirectional"))
    assert make_title(data).startswith("MAP-E border relay")
    rows = {row[1]: row for row in table.rows}
    assert set(rows) == {"forward", "bidirectional"}
    found = next(r for r in data.records if r.direction == "forward").median
    assert found == pytest.approx(RATE, rel=0.01)
    # IEEE 802.3: 20 octets of preamble and gap; the IPv6 frame is on the left
    assert rows["forward"][3:6] == (
        f"{found / 1e6:.3f}",
        f"{found * 124 * 8 / 1e9:.3f}",
        f"{found * 84 * 8 / 1e9:.3f}",
    )
    assert rows["forward"][6] == f"{found * 124 * 8 / 1e10:.2%}"
    assert "104/64" in text
    assert "without loss" in text
    assert "2 repetitions" in text
    assert "limited" not in text


def test_the_testers_limit_is_part_of_the_verdict(tmp_path):
    _, text, table = told(tmp_path, device={"capacity_fps": 2e6, "tester_fps": 4e5})
    assert "Mpps *" in text
    assert "may be faster" in text
    assert all(row[2].endswith(" *") for row in table.rows)


def test_summary_names_smallest_and_largest_frames(tmp_path):
    _, text, _ = told(tmp_path, frame_sizes=[104, 1518, 512])
    assert "at 104/64 octets" in text and "; 1518/1478 octets: " in text
    assert "512" not in text


def test_summary_without_throughput_is_empty(tmp_path):
    data = load_run(make_run(tmp_path / "run", "frame-loss", procedure={"repetitions": 1}))
    assert list(summarize_throughput(data)) == []


def test_both_sizes_are_of_one_direction(tmp_path):
    """Each direction by itself: the second rate of the sentence must not be the other direction's."""
    data, text, _ = told(
        tmp_path,
        frame_sizes=[104, 1280],
        modes=("forward", "reverse"),
        device={"capacity_fps": RATE, "capacity_noise": 0.05},
    )
    last = {r.direction: r.median for r in data.records if r.frame_sizes.ipv6 == 1280}
    assert last["forward"] != last["reverse"]
    assert f"{last['forward'] / 1000000.0:.3f}" in text


@pytest.mark.parametrize(
    ("manifest", "device"),
    [
        (
            {"setup": {"simulated": False}, "tester": {"version": "v3.08"}},
            "a device configured by its user",
        ),
        (
            {"setup": {"simulated": False}, "tester": {"device": {"shares_oracle": True}}},
            "reference device",
        ),
    ],
)
def test_title_tells_device_of_user_from_reference(tmp_path, manifest, device):
    data = load_run(make_run(tmp_path / "run", procedure={"repetitions": 1}))
    assert make_title(replace(data, manifest=manifest)).endswith(f"border relay on {device}")
