"""``--dry-run``: the plan of a run, its duration and the requirements for the device."""

import json
import socket
import subprocess
import time

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.events import format_duration
from v6t.core.runs.plan import plan
from v6t.drivers.sim.tester import SimTester
from v6t.procedures.search.binary import count_halvings
from v6t.tests.core.support import SIM, tree, v6t

RESOLUTION_FPS = 10_000
MEDIA_104_FPS = 10_080_645


def plan_run(**flags):
    return plan(resolve_setup(**{"plugin": "mape-br", **flags}))


def test_verbose_dry_run_prints_points_streams_and_commands():
    done = v6t("run", "mape-br", "--dut", "vpp", "--dry-run", "-v")
    assert done.status == 0
    lines = done.out.splitlines()
    for mode in ("bidirectional", "forward", "reverse"):
        (line,) = [x for x in lines if x.startswith(f"     104/64 octets, {mode}")]
        assert "10,080,645 fps" in line
    assert any(line.startswith("  104/64 forward: fg ") and "100.0%" in line for line in lines)
    for word in ('"br_address": "2001:db8:6::1"', "ip link set dev left up"):
        assert word in done.out


def test_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t(*SIM, "--dry-run", "--json", "--seed", 77, "-o", "out")
    assert (done.status, done.err) == (0, "")
    content = json.loads(done.out)
    assert content["run"]["seed"] == 77
    assert content["run"]["tester"]["kind"] == "sim"
    assert content["trials"] == sum(p["trials"] for p in content["points"]) > 0
    assert content["duration_s"] == pytest.approx(sum(p["duration_s"] for p in content["points"]))
    assert [p["mode"] for p in content["points"]] == ["bidirectional", "forward", "reverse"]
    assert {p["media_fps"] for p in content["points"]} == {MEDIA_104_FPS}
    device = content["device_must_be"]
    assert device["technology"] == "mape-br"
    assert device["configuration"]["rules"][0]["ea_len"] == 13
    assert device["left"]["routes"] == {"2001:db8:ce::/51": "2001:db8:6::2"}
    assert device["links"]["left"]["dut_mac"] == "02:00:00:00:01:01"
    assert tree(tmp_path) == {}


def test_dry_run_opens_nothing(monkeypatch):
    """Neither sockets nor programs nor the tester itself."""

    def refuse(*_args, **_rest):
        raise AssertionError("a dry run touched the machine")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(SimTester, "measure", refuse)
    monkeypatch.setattr(time, "sleep", refuse)
    for tester in ("sim", "embedded", "trex"):
        done = v6t("run", "--plugin", "mape-br", "--tester", tester, "--dry-run")
        assert done.status == 0, done.err
        assert f", {tester} tester" in done.out


def test_trials_follow_from_search_repetitions_and_confirmations():
    procedure = {"repetitions": 7, "resolution_fps": RESOLUTION_FPS, "confirmations": 2}
    planned = plan_run(modes=["forward"], procedure=procedure)
    (point,) = planned.points
    steps = 1 + count_halvings(MEDIA_104_FPS / 2, RESOLUTION_FPS)
    assert planned.trial_count == point.trials == 7 * (steps + 2)


def test_time_follows_from_trials():
    quick, rfc = plan_run(), plan_run(preset="rfc")
    assert rfc.duration_s > 20 * 60 * len(rfc.points)
    assert quick.duration_s < 300
    twice = plan_run(procedure={"repetitions": 4})
    assert twice.trial_count == 2 * quick.trial_count
    assert twice.duration_s > quick.duration_s


def test_every_size_and_mode_is_a_point():
    planned = plan_run(frame_sizes=[104, 1518], modes=["reverse", "forward"])
    points = [(p.frame_sizes["ipv6"], p.mode) for p in planned.points]
    assert points == [(n, mode) for n in (104, 1518) for mode in ("reverse", "forward")]


def test_streams_with_their_shares():
    planned = plan_run(params={"n": "3", "m": "2", "negative_percent": "10"})
    shares = dict(line.split(", ") for line in planned.stream_descriptions)
    forward = [float(v.split("%")[0]) for name, v in shares.items() if "forward" in name]
    assert sum(forward) == pytest.approx(100, abs=0.2)
    assert any("negative" in name for name in shares)
    assert any("background" in name for name in shares)


def test_simulation_needs_the_planned_trials(tmp_path):
    """The simulated device carries less than the bound, so every step is taken."""
    shape = ["--mode", "forward", "--reps", 3, "--resolution", RESOLUTION_FPS]
    expected = json.loads(v6t(*SIM, *shape, "--dry-run", "--json").out)["trials"]
    done = v6t(*SIM, *shape, "--json", "-o", tmp_path / "out")
    (record,) = json.loads(done.out)["results"]
    halvings = [
        count_halvings(fps, RESOLUTION_FPS) for fps in (MEDIA_104_FPS, record["upper_bound"])
    ]
    assert len(record["trials"]) == expected - 3 * (halvings[0] - halvings[1])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3600, "1 h 00 min"),
     (90061, "25 h 01 min")],
)  # fmt: skip
def test_durations_are_formatted(seconds, text):
    assert format_duration(seconds) == text


def test_refused_plan_prints_nothing():
    done = v6t("run", "ipv4aas", "--set", "prefix=64:ff9b::/96", "--dry-run")
    assert (done.code, done.out) == ("unsupported-by-device", "")


@pytest.mark.parametrize("mode", ["reverse", "bidirectional"])
def test_benchmark_without_directions_is_planned_in_any_mode(mode):
    done = v6t("run", "dns64", "--tester", "sim", "--mode", mode, "--dry-run", "--json")
    assert [p["benchmark"] for p in json.loads(done.out)["points"]] == ["resolution"]
