"""Mixes of frame sizes (RFC 6985): how they are written, sent, counted, compared and reported."""

from __future__ import annotations

import csv
import json
from collections import Counter

import numpy as np
import pytest
from v6t.base.errors import UsageError
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.reporting import write
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.events import Listener
from v6t.core.runs.rundir import make_settings_files
from v6t.core.runs.runner import resume
from v6t.drivers.lab.privilege import check_availability
from v6t.profiles.compiler.schedule import list_classes
from v6t.profiles.expand import expand_set
from v6t.profiles.mixes import describe_sequence, normalize_mix
from v6t.tests.core.support import measure_run, v6t
from v6t.tests.expect import expect_error
from v6t.trials.connections import Connections
from v6t.trials.trial import Trial

LAB, WHY = check_availability()
IMIX = "imix:64x28,570x16,1518x4"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("imix", IMIX),
        ("IMIX:csit", IMIX),
        ("imix:snabb", "imix:64x5,594x3,1500x1"),
        (" imix: 64x7, 1518x1 ", "imix:64x7,1518x1"),
    ],
)
def test_mix_notations_are_normalized(written, meant):
    assert normalize_mix(written) == meant
    assert resolve(plugin="siit", frame_sizes=(written.strip(), 84)).frame_sizes == (
        meant,
        84,
    )


@pytest.mark.parametrize(
    "written", ["imix:", "imix:64", "imix:64x0,70x1", "imix:64x1", "imix:84x1,84x2", "imix:5x1,9x1",
                "imix:64x1,9000x1", "imix:nobody", "imix:64x99999,128x1"]
)  # fmt: skip
def test_invalid_mix_is_rejected(written):
    with pytest.raises(UsageError):
        resolve(plugin="siit", frame_sizes=(written,))


@pytest.mark.parametrize(
    ("plugin", "label"),
    [
        ("siit", "imix 84/64x28 570/550x16 1518/1498x4"),
        ("mape-br", "imix 104/64x28 570/530x16 1518/1478x4"),
        ("ipv4-router", "imix 64x28 570x16 1518x4"),
        ("nat44", "imix 64x28 570x16 1518x4"),
    ],
)
def test_sizes_are_pairs_and_the_smallest_is_raised(plugin, label):
    setup = resolve_setup(plugin=plugin, frame_sizes=("imix",))
    sizes = setup.technology.make_sizes("imix")
    assert sizes.label == label
    left, right = (sum(n * size for size, n in pairs) / 48 for pairs in _sides(label))
    assert (sizes.ipv6, sizes.ipv4) == pytest.approx((left, right), abs=0.001)
    assert sizes.longest == pytest.approx(max(left, right))


def _sides(label):
    pairs = [part.rpartition("x") for part in label.split()[1:]]
    both = [([int(s) for s in sizes.split("/")], int(n)) for sizes, _, n in pairs]
    return [[(s[0], n) for s, n in both], [(s[-1], n) for s, n in both]]


@pytest.mark.parametrize(
    ("plugin", "params"),
    [("siit", {}), ("siit", {"n": "10", "m": "9"}), ("mape-br", {"negative_percent": "5"}),
     ("nat64", {"n": "2", "m": "1"}), ("ipv4aas", {})],
)  # fmt: skip
def test_the_proportion_is_exact_and_evenly_spread(plugin, params):
    """Of any stretch of frames every size has its share to within the number of classes."""
    setup = resolve_setup(plugin=plugin, params=params, frame_sizes=("imix",))
    sizes = setup.technology.make_sizes("imix")
    alone = compile_streams(setup, sizes.pair_counts[0][0])
    for way, made in compile_streams(setup, sizes).items():
        weights = [s.weight for s in made.streams]
        period = sum(weights)
        octets = [len(s.packet) + 4 for s in made.streams]
        assert len(weights) == 3 * len(alone[way].streams)
        assert len({s.name for s in made.streams}) == len(weights)
        share = Counter()
        for length, weight in zip(octets, weights, strict=True):
            share[length] += weight
        if params == {}:  # classes of one size only
            assert sorted(share.values()) == [period // 12, period // 3, period * 7 // 12]
        for start in (0, 17, period - 3):
            placed = Counter(np.array(octets)[list_classes(weights, start, 600)].tolist())
            for length, weight in share.items():
                assert abs(placed[length] - 600 * weight / period) <= len(weights)
        frames = expand_set(made, 0, 24)
        expected = np.array(octets)[list_classes(weights, 0, 24)].tolist()
        assert [len(frame) + 4 for frame in frames] == expected


@pytest.mark.parametrize(
    ("mix", "genome"),
    [
        ("84/64x28,570/550x16,1518/1498x4", "CUSTOM IMIX - ABAABACBAABA (A = 84/64, B = 570/550, "),
        ("64x3,1280x1,1518x1", "CUSTOM IMIX - AABCA (A = 64, B = 1280, C = 1518 octets; "),
        ("64x1000,128x1", "A = 64, B = 128 octets; of n frames"),
    ],
)
def test_the_order_is_spelled_out(mix, genome):
    """RFC 6985 sections 5 and 6.3."""
    assert describe_sequence(mix).startswith(genome)


@pytest.mark.parametrize("plugin", ["nat44", "nat64"])
def test_frames_of_all_sizes_belong_to_the_same_connections(plugin):
    setup = resolve_setup(plugin=plugin, frame_sizes=("imix",))
    made = compile_streams(setup, setup.technology.make_sizes("imix"))["forward"]
    programs = [
        [i for i in s.trex["vm"]["instructions"] if i["type"] == "flow_var"] for s in made.streams
    ]
    assert programs[0] == programs[1] == programs[2]
    assert len({s.trex["random_seed"] for s in made.streams}) == 1


def test_mix_is_sent_on_both_links():
    """The medium's rate is that of the mean frame on the side where it is larger, gap included."""
    for plugin, mean in (("siit", (84 * 28 + 570 * 16 + 1518 * 4) / 48), ("mape-br", (104 * 28 + 570 * 16 + 1518 * 4) / 48)):  # fmt: skip
        told = json.loads(v6t("run", "--plugin", plugin, "--tester", "sim", "--frame-size", "imix",
                              "--dry-run", "--json").out)  # fmt: skip
        media = {p["media_fps"] for p in told["points"]}
        assert media == {int(10e9 / (8 * (mean + 20)))}


def test_a_rate_in_bits_is_that_of_the_mean_frame(tmp_path):
    measure_run(
        resolve(
            plugin="siit",
            tester="sim",
            frame_sizes=("imix",),
            benchmarks=("latency",),
            modes=("forward",),
            setting_flags={"--rate": "1Gbps"},
        ),
        tmp_path / "out",
    )
    (record,) = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    mean = (84 * 28 + 570 * 16 + 1518 * 4) / 48
    assert record["rate"] == pytest.approx(1e9 / (8 * (mean + 20)))


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """Rehearse all benchmarks that accept a mix, with a mix and a single size."""
    base = tmp_path_factory.mktemp("mix")
    run = resolve(
        plugin="siit",
        tester="sim",
        frame_sizes=("imix", 84),
        modes=("bidirectional",),
        benchmarks=(
            "throughput",
            "frame-loss",
            "latency",
            "pdv",
            "ipdv",
            "back-to-back",
            "system-recovery",
            "flows",
        ),
    )
    measure_run(run, base / "out")
    write.write_run_report(base / "out", formats=["md"])
    return run, base / "out"


def test_every_benchmark_is_measured_and_named(rehearsed):
    run, out = rehearsed
    results = json.loads((out / "results.json").read_text())["results"]
    assert not [r["benchmark"] for r in results if r.get("not_measured")]
    mixed = [r for r in results if "mix" in r["frame_sizes"]]
    assert {r["benchmark"] for r in mixed} == set(run.benchmarks)
    assert {r["frame_sizes"]["mix"] for r in mixed} == {"84/64x28,570/550x16,1518/1498x4"}
    keys = [key for r in mixed for key in r["trials"]]
    assert keys
    assert all("imix-84_64x28-570_550x16-1518_1498x4" in key for key in keys)
    assert not {*keys} & {key for r in results if r not in mixed for key in r["trials"]}
    with (out / "results.csv").open() as file:
        sizes = {row["Size"] for row in csv.DictReader(file)}
    assert sizes == {"imix 84/64x28 570/550x16 1518/1498x4", "84"}
    page = (out / "report.md").read_text()
    assert "imix 84/64x28 570/550x16 1518/1498x4" in page
    assert "RFC 6985" in page


def test_run_with_mix_is_resumed_exported_and_compared(rehearsed):
    run, out = rehearsed
    assert resume(out, Listener()).status == "complete"
    assert make_settings_files(run)["run.yaml"]["frame_sizes"] == [IMIX, 84]
    told = v6t("compare", out, out).out
    assert "imix" in told


@pytest.mark.parametrize("benchmark", ["capacity", "teardown"])
def test_connections_are_counted_with_one_size(benchmark):
    with expect_error("invalid-frame-size-mix", path=["procedure"]):
        resolve(plugin="nat44", tester="sim", frame_sizes=("imix",), benchmarks=(benchmark,))


def test_queries_have_one_size():
    with expect_error("invalid-frame-size-mix", path=["frame_sizes", 0]):
        resolve(plugin="dns64", frame_sizes=("imix",))


def test_the_exported_profile_is_the_mix(tmp_path):
    made = json.loads(v6t("compile", "--plugin", "siit", "--direction", "forward", "--frame-size",
                          "imix", "--rate", "12000", "--count", "48", "--format", "stl-json").out)  # fmt: skip
    assert [s["mode"]["total_pkts"] for s in made] == [28, 16, 4]
    assert [s["mode"]["rate"]["value"] for s in made] == [7000, 4000, 1000]


@pytest.mark.lab
@pytest.mark.skipif(not LAB, reason=WHY)
@pytest.mark.parametrize("plugin", ["mape-br", "nat64"])
def test_the_embedded_tester_keeps_proportion_and_totals(plugin):
    """Every frame of every size is the translated one; of the reference device."""
    setup = resolve_setup(
        plugin=plugin,
        tester="embedded",
        frame_sizes=("imix:64x7,570x4,1518x1",),
        params={"n": "2", "m": "1"} if plugin == "mape-br" else {},
    )
    sizes = setup.technology.make_sizes(setup.settings.frame_sizes[0])
    connections = Connections(100, 500.0, wait_s=0.2, alpha=1.0) if plugin == "nat64" else None
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 600.0, 1.0, 0.5, 0.0,
                  connections=connections, mix=sizes.mix)  # fmt: skip
    bench = Bench(setup)
    try:
        bench.load(compile_streams(setup, sizes))
        result = bench.measure(trial)
    finally:
        bench.close()
    for way, counted in result.directions.items():
        share: dict[str, list[int]] = {}
        for name, count in counted.classes.items():
            assert count.received == count.required, (way, name)
            share.setdefault(count.role, []).append(count.required)
        assert len(share) == (2 if plugin == "mape-br" else 1)
        for frames in share.values():
            assert frames == [350 // len(share), 200 // len(share), 50 // len(share)]
        assert counted.checked == counted.matched > 0
