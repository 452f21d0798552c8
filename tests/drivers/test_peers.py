"""The harness for other testers works: one short search by each on the kernel's router (A30)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from v6t.drivers.lab.privilege import available

from . import peers

LAB, WHY = available()


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
@pytest.mark.skipif(
    not os.environ.get("SIITPERF_DIR"),
    reason="needs siitperf: set SIITPERF_DIR to the directory with siitperf-tp",
)
def test_both_find_a_rate_on_the_same_device(monkeypatch):
    monkeypatch.setattr(peers, "testers", lambda case: ["embedded", "siitperf"])
    case = replace(peers.CASES["ipv6"], upper_fps=20_000.0, resolution_fps=10_000.0)
    found = peers.one_round(case)
    assert set(found) == {"embedded", "siitperf"}
    assert all(rate > 0 for rate in found.values())


@pytest.mark.parametrize("name", peers.CASES)
def test_v6t_measures_what_the_others_own_file_says(name, tmp_path):
    case = peers.CASES[name]
    bound = peers.bound_for(case, "embedded", tmp_path)
    asked = case.peer.read(tmp_path / f"{case.peer.name.lower()}.conf")
    assert bound.settings.plugin == asked.run["plugin"]
    assert bound.settings.dut.driver == case.driver
    left, right = (v for v in bound.technology.ip_versions)
    assert (left, right) == case.versions
