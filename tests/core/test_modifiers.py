"""Modifiers: any benchmark runs under them, and every result says so (RFC 2544 section 11)."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from v6t.analysis.published.conditions import conditions
from v6t.analysis.published.library import facts_of
from v6t.core.cli.progress import Silent
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.modifiers.base import MODIFIERS
from v6t.core.reporting import write
from v6t.core.runs.bench import streams_of
from v6t.core.runs.export import run_file
from v6t.core.runs.results_file import records_of
from v6t.core.runs.runner import execute, resume
from v6t.drivers.lab.privilege import available
from v6t.profiles.compiler.schedule import order
from v6t.profiles.errors import UsageError
from v6t.profiles.expand import Expander

from .support import v6t

LAB, WHY = available()


def asked(plugin="siit", tester="sim", **more):
    return resolve(flags=Flags(plugin, tester=tester, modifier="broadcast", **more))


@pytest.mark.parametrize("vlan", ["", "left: {vlan: 5}, right: {vlan: 6}"])
@pytest.mark.parametrize(
    ("plugin", "params"), [("siit", {}), ("mape-br", {"n": "10", "m": "9"}), ("nat44", {})]
)
def test_every_hundredth_frame_is_a_broadcast(plugin, params, vlan, tmp_path):
    """RFC 2544 section 11.1: 1 %, evenly distributed, and of a type no router processes."""
    (tmp_path / "bed.yaml").write_text(f"links: {{{vlan}}}")
    flags = Flags(plugin, tester="sim", modifier="broadcast", params=params)
    bound = bind(resolve(None, tmp_path / "bed.yaml", flags))
    (size,) = bound.settings.frame_sizes
    for way, made in streams_of(bound, bound.technology.frame_pair(size)).items():
        *others, last = made.streams
        weights = [s.weight for s in made.streams]
        assert last.weight * 100 == sum(weights)
        places = [at for at, which in enumerate(order(weights, 0, 2000)) if which == len(others)]
        gaps = {after - before for before, after in pairwise(places)}
        assert gaps <= {99, 100, 101}
        (frame,) = Expander(last).frames(0, 1)
        tag = 4 if vlan else 0
        assert bytes(frame[:6]) == b"\xff" * 6
        assert bytes(frame[12 + tag : 14 + tag]) == b"\x88\xb5"
        assert frame.shape == Expander(others[0]).frames(0, 1)[0].shape
        assert not bound.technology.expect(way, frame[None, :]).length.any()


def test_results_say_what_went_on(tmp_path):
    run = asked(benchmarks=("throughput", "frame-loss", "latency"), modes=("forward",))
    execute(bind(run), tmp_path / "out", Silent())
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [r["benchmark"] for r in results["results"]] == ["throughput", "frame-loss", "latency"]
    assert {r["conditions"]["modifier"] for r in results["results"]} == {"broadcast"}
    assert any("1 frame in 100 is a broadcast" in said for said in results["caveats"])
    write.write(tmp_path / "out", formats=["html", "md"])
    assert "RFC 2544 section 11.1" in (tmp_path / "out" / "report.html").read_text()
    assert resume(tmp_path / "out", Silent()).status == "complete"
    assert run_file(run)["modifier"] == "broadcast"
    plain = resolve(flags=Flags("siit", tester="sim", modes=("forward",)))
    assert "modifier" not in run_file(plain)
    execute(bind(plain), tmp_path / "plain", Silent())
    both = (tmp_path / "plain", tmp_path / "out")
    assert "are not alike: modifier: None and broadcast" in v6t("compare", *both).err
    assert "modifier: None and broadcast" in v6t("compare", "--anyway", *both).out
    facts = facts_of(run.model_dump(mode="json"), {}, simulated=False)
    record = records_of(tmp_path / "out", results)[0]
    entry = {"dut": "Linux", "technology": "SIIT", "seed": "-", "conditions": {}}
    (odd,) = [c for c in conditions(entry, record, facts) if c.name == "modifier"]
    assert odd.alike is False


def test_a_device_that_forwards_broadcasts_fails(tmp_path):
    done = v6t(
        *("run", "--plugin", "siit", "--tester", "sim", "--modifier", "broadcast"),
        *("--set-tester", "forwards_negative=true", "-o", tmp_path / "out"),
    )
    assert done.status == 6
    assert "frames of broadcast were forwarded but must be dropped" in done.err


def test_an_unknown_modifier():
    with pytest.raises(UsageError, match="there is no modifier 'broadcasts'"):
        resolve(flags=Flags("siit", tester="sim", modifier="broadcasts"))
    assert MODIFIERS.names() == ["broadcast"]
    with pytest.raises(UsageError, match="dns64 is a technology of queries"):
        resolve(flags=Flags("dns64", tester="sim", modifier="broadcast"))


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
def test_a_real_router_under_broadcasts(tmp_path):
    """All test frames pass and no broadcast does, before the kernel's router."""
    run = asked(
        "ipv4-router", "embedded", dut="linux-router", modes=("bidirectional",), frame_sizes=(128,),
        benchmarks=("frame-loss",),
        procedure={"frame_loss": {"rates_fps": [2000], "duration_s": 0.5},
                   "sending_time_tolerance": 5.0, "invalid_retries": 9},
    )  # fmt: skip
    execute(bind(run), tmp_path / "out", Silent())
    rows = (tmp_path / "out" / "trials.csv").read_text().splitlines()
    sent = [row for row in rows if "broadcast" in row and "frame-loss/" in row]
    assert len(sent) >= 2
    (record,) = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert record["conditions"]["modifier"] == "broadcast"
