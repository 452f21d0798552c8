"""The summary sentences of a run: rates as shares of links, and their limits."""

from dataclasses import replace

import pytest
from v6t.analysis.blocks import Paragraph
from v6t.analysis.report.verdict import make_title, summarize_throughput
from v6t.core.runs.results import load_run
from v6t.tests.core.reportruns import make_run

RATE = 500_000


def summarize_run(tmp_path, **settings):
    """Return the data of a run, the sentences of its summary, and their table."""
    procedure = {"repetitions": 2, "resolution_fps": 100.0}
    data = load_run(make_run(tmp_path / "run", procedure=procedure, **settings))
    sentences, table = summarize_throughput(data)
    assert isinstance(sentences, Paragraph)
    return data, sentences.text, table


def test_rates_in_the_units_of_links(tmp_path):
    device = {"capacity_fps": RATE, "capacity_noise": 0.0}
    modes = ("forward", "bidirectional")
    data, text, table = summarize_run(tmp_path, device=device, modes=modes)
    assert make_title(data).startswith("MAP-E border relay")
    rows = {row[1]: row for row in table.rows}
    assert set(rows) == set(modes)
    rate = next(r for r in data.records if r.direction == "forward").median
    assert rate == pytest.approx(RATE, rel=0.01)
    # IEEE 802.3: 20 octets of preamble and gap; the IPv6 frame is on the left
    left_bps, right_bps = rate * 124 * 8, rate * 84 * 8
    in_units = (f"{rate / 1e6:.3f}", f"{left_bps / 1e9:.3f}", f"{right_bps / 1e9:.3f}")
    assert rows["forward"][3:6] == in_units
    assert rows["forward"][6] == f"{left_bps / 1e10:.2%}"
    for words in ("104/64", "without loss", "2 repetitions"):
        assert words in text
    assert "limited" not in text


def test_the_testers_limit_is_part_of_the_verdict(tmp_path):
    _, text, table = summarize_run(tmp_path, device={"capacity_fps": 2e6, "tester_fps": 4e5})
    assert "Mpps *" in text
    assert "may be faster" in text
    assert all(row[2].endswith(" *") for row in table.rows)


def test_summary_names_smallest_and_largest_frames(tmp_path):
    _, text, _ = summarize_run(tmp_path, frame_sizes=[104, 1518, 512])
    assert "at 104/64 octets" in text and "; 1518/1478 octets: " in text
    assert "512" not in text


def test_summary_without_throughput_is_empty(tmp_path):
    data = load_run(make_run(tmp_path / "run", "frame-loss", procedure={"repetitions": 1}))
    assert list(summarize_throughput(data)) == []


def test_both_sizes_are_of_one_direction(tmp_path):
    """Each direction by itself: the second rate of the sentence must not be the other direction's."""
    modes, device = ("forward", "reverse"), {"capacity_fps": RATE, "capacity_noise": 0.05}
    data, text, _ = summarize_run(tmp_path, frame_sizes=[104, 1280], modes=modes, device=device)
    rates = {r.direction: r.median for r in data.records if r.frame_sizes.ipv6 == 1280}
    assert rates["forward"] != rates["reverse"]
    assert f"{rates['forward'] / 1e6:.3f}" in text


@pytest.mark.parametrize(
    ("tester", "device"),
    [
        ({"version": "v3.08"}, "a device configured by its user"),
        ({"device": {"shares_oracle": True}}, "reference device"),
    ],
)
def test_title_tells_device_of_user_from_reference(tmp_path, tester, device):
    data = load_run(make_run(tmp_path / "run", procedure={"repetitions": 1}))
    manifest = {"setup": {"simulated": False}, "tester": tester}
    assert make_title(replace(data, manifest=manifest)).endswith(f"border relay on {device}")
