"""What a technology changes in a run: frame sizes, warnings, and the check of its negative traffic."""

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.config.warnings import list_result_warnings
from v6t.plugins.base import JUMBO_SIZES
from v6t.tests.core.support import measure_run
from v6t.tests.expect import expect_error


def test_rfc_preset_with_jumbo_links_measures_jumbo_frames(tmp_path):
    bed = tmp_path / "bed.yaml"
    bed.write_text("links: {left: {mtu: 9216}, right: {mtu: 9216}}\n")
    run = resolve(None, bed, Flags(plugin="siit", preset="rfc"))
    assert run.frame_sizes == (84, 128, 256, 512, 768, 1024, 1280, 1518, *JUMBO_SIZES)


@pytest.mark.parametrize(("params", "warned"), [({"n": "1", "m": "0"}, True), ({}, False)])
def test_run_without_foreground_is_warned_of(params, warned):
    run = resolve(flags=Flags(plugin="siit", tester="sim", params=params))
    assert any("0 % foreground" in text for text in list_result_warnings(bind(run))) is warned


def test_run_on_a_device_that_forwards_negative_traffic_is_refused(tmp_path):
    flags = Flags(
        plugin="lwaftr", params={"negative_percent": "5"}, tester="sim", modes=["bidirectional"],
        tester_options={"forwards_negative": "true"}, procedure={"repetitions": 1},
    )  # fmt: skip
    with expect_error("translation-incorrect"):
        measure_run(resolve(flags=flags), tmp_path / "out")
