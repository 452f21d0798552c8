"""Mixes of frame sizes (RFC 6985): how they are written, sent, counted, compared and reported."""

import json
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from v6t.base.errors import UsageError
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import Bench, compile_streams
from v6t.core.runs.events import Listener
from v6t.core.runs.rundir import make_settings_files
from v6t.core.runs.runner import resume
from v6t.profiles.compiler.schedule import list_classes
from v6t.profiles.expand import expand_set
from v6t.profiles.mixes import describe_sequence, normalize_mix
from v6t.tests.core.support import measure_run, read_csv, simulate, v6t, write_report
from v6t.tests.needs import needs_lab
from v6t.tests.settings import resolve
from v6t.trials.connections import Connections
from v6t.trials.trial import Trial

IMIX = "imix:64x28,570x16,1518x4"
IMIX_PAIRS = "84/64x28 570/550x16 1518/1498x4"


def compute_imix_mean(smallest):
    return (smallest * 28 + 570 * 16 + 1518 * 4) / 48


@pytest.mark.parametrize(("notation", "normalized"), [
    ("imix", IMIX), ("IMIX:csit", IMIX), ("imix:snabb", "imix:64x5,594x3,1500x1"),
    (" imix: 64x7, 1518x1 ", "imix:64x7,1518x1"),
])  # fmt: skip
def test_mix_notations_are_normalized(notation, normalized):
    assert normalize_mix(notation) == normalized
    run = resolve(plugin="siit", frame_sizes=(notation.strip(), 84))
    assert run.frame_sizes == (normalized, 84)


@pytest.mark.parametrize(
    "notation", ["imix:", "imix:64", "imix:64x0,70x1", "imix:64x1", "imix:84x1,84x2", "imix:5x1,9x1",
                "imix:64x1,9000x1", "imix:nobody", "imix:64x99999,128x1"]
)  # fmt: skip
def test_invalid_mix_is_rejected(notation):
    with pytest.raises(UsageError):
        resolve(plugin="siit", frame_sizes=(notation,))


@pytest.mark.parametrize(("plugin", "label", "ipv6", "ipv4"), [
    ("siit", f"imix {IMIX_PAIRS}", 365.5, 345.5),
    ("mape-br", "imix 104/64x28 570/530x16 1518/1478x4", 377.167, 337.167),
    ("ipv4-router", "imix 64x28 570x16 1518x4", 353.833, 353.833),
    ("nat44", "imix 64x28 570x16 1518x4", 353.833, 353.833),
])  # fmt: skip
def test_sizes_are_pairs_and_the_smallest_is_raised(plugin, label, ipv6, ipv4):
    sizes = resolve_setup(plugin=plugin, frame_sizes=("imix",)).technology.make_sizes("imix")
    assert sizes.label == label
    assert (sizes.ipv6, sizes.ipv4) == pytest.approx((ipv6, ipv4), abs=0.001)
    assert sizes.longest == pytest.approx(max(ipv6, ipv4), abs=0.001)


@pytest.mark.parametrize(("plugin", "params"), [
    ("siit", {}), ("siit", {"n": "10", "m": "9"}), ("mape-br", {"negative_percent": "5"}),
    ("nat64", {"n": "2", "m": "1"}), ("ipv4aas", {}),
])  # fmt: skip
def test_frame_sizes_of_mix_are_spread_evenly(plugin, params):
    """In any sequence, the count of each size deviates by at most the number of classes."""
    setup = resolve_setup(plugin=plugin, params=params, frame_sizes=("imix",))
    sizes = setup.technology.make_sizes("imix")
    alone = compile_streams(setup, sizes.pair_counts[0][0])
    for direction, compiled in compile_streams(setup, sizes).items():
        weights = [s.weight for s in compiled.streams]
        lengths = np.array([len(s.packet) + 4 for s in compiled.streams])
        assert len(weights) == 3 * len(alone[direction].streams)
        assert len({s.name for s in compiled.streams}) == len(weights)
        period, shares = sum(weights), Counter()
        for length, weight in zip(lengths, weights, strict=True):
            shares[length] += weight
        if params == {}:  # classes of one size only
            assert sorted(shares.values()) == [period // 12, period // 3, period * 7 // 12]
        for start in (0, 17, period - 3):
            counts = Counter(lengths[list_classes(weights, start, 600)].tolist())
            for length, weight in shares.items():
                assert abs(counts[length] - 600 * weight / period) <= len(weights)
        expected = lengths[list_classes(weights, 0, 24)].tolist()
        assert [len(frame) + 4 for frame in expand_set(compiled, 0, 24)] == expected


@pytest.mark.parametrize(("mix", "genome"), [
    ("84/64x28,570/550x16,1518/1498x4", "CUSTOM IMIX - ABAABACBAABA (A = 84/64, B = 570/550, "),
    ("64x3,1280x1,1518x1", "CUSTOM IMIX - AABCA (A = 64, B = 1280, C = 1518 octets; "),
    ("64x1000,128x1", "A = 64, B = 128 octets; the k-th of n frames"),
])  # fmt: skip
def test_order_of_mix_is_described(mix, genome):
    """RFC 6985 sections 5 and 6.3."""
    assert describe_sequence(mix).startswith(genome)


@pytest.mark.parametrize("plugin", ["nat44", "nat64"])
def test_frames_of_all_sizes_belong_to_the_same_connections(plugin):
    setup = resolve_setup(plugin=plugin, frame_sizes=("imix",))
    streams = compile_streams(setup, setup.technology.make_sizes("imix"))["forward"].streams
    vms = [s.trex["vm"]["instructions"] for s in streams]
    programs = [[i for i in instructions if i["type"] == "flow_var"] for instructions in vms]
    assert programs[0] == programs[1] == programs[2]
    assert len({s.trex["random_seed"] for s in streams}) == 1


@pytest.mark.parametrize(("plugin", "smallest"), [("siit", 84), ("mape-br", 104)])
def test_media_rate_follows_from_the_mean_frame_size(plugin, smallest):
    """The mean size of the side with larger frames, plus preamble and gap, determines the rate."""
    run = ("run", plugin, "--tester", "sim", "--frame-size", "imix", "--dry-run", "--json")
    media = {p["media_fps"] for p in json.loads(v6t(*run).out)["points"]}
    assert media == {int(10e9 / (8 * (compute_imix_mean(smallest) + 20)))}


def test_bit_rate_is_converted_with_the_mean_frame_size(tmp_path):
    run = simulate("latency", plugin="siit", frame_sizes=("imix",), modes=("forward",),
                   setting_flags={"--rate": "1Gbps"})  # fmt: skip
    (record,) = measure_run(run, tmp_path / "out").records
    assert record.rate == pytest.approx(1e9 / (8 * (compute_imix_mean(84) + 20)))


def test_every_benchmark_is_measured_with_a_mix(tmp_path):
    """Measure all benchmarks that accept a mix, with a mix and with a single size."""
    run, out = simulate(
        *("throughput", "frame-loss", "latency", "pdv", "ipdv", "back-to-back"),
        *("system-recovery", "flows"),
        plugin="siit", frame_sizes=("imix", 84), modes=("bidirectional",),
    ), tmp_path / "out"  # fmt: skip
    measure_run(run, out)
    results = json.loads((out / "results.json").read_text())["results"]
    assert not [r["benchmark"] for r in results if r.get("not_measured")]
    mixed = [r for r in results if "mix" in r["frame_sizes"]]
    assert {r["benchmark"] for r in mixed} == set(run.benchmarks)
    assert {r["frame_sizes"]["mix"] for r in mixed} == {IMIX_PAIRS.replace(" ", ",")}
    keys = {key for r in mixed for key in r["trials"]}
    assert keys
    assert all("imix-84_64x28-570_550x16-1518_1498x4" in key for key in keys)
    assert not keys & {key for r in results if r not in mixed for key in r["trials"]}
    assert {row["Size"] for row in read_csv(out / "results.csv")} == {f"imix {IMIX_PAIRS}", "84"}
    report = write_report(out)
    assert f"imix {IMIX_PAIRS}" in report and "RFC 6985" in report
    assert resume(out, Listener()).status == "complete"
    assert make_settings_files(run)["run.yaml"]["frame_sizes"] == [IMIX, 84]
    assert "imix" in v6t("compare", out, out).out


def test_exported_profile_has_streams_of_the_mix():
    done = v6t("compile", "--plugin", "siit", "--direction", "forward", "--frame-size", "imix",
               "--rate", "12000", "--count", "48", "--format", "stl-json")  # fmt: skip
    modes = [stream["mode"] for stream in json.loads(done.out)]
    assert [mode["total_pkts"] for mode in modes] == [28, 16, 4]
    assert [mode["rate"]["value"] for mode in modes] == [7000, 4000, 1000]


@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize(("plugin", "params", "connections", "roles"), [
    ("mape-br", {"n": "2", "m": "1"}, None, 2),
    ("nat64", {}, Connections(100, 500.0, wait_s=0.2, alpha=1.0), 1),
])  # fmt: skip
def test_embedded_tester_sends_sizes_of_mix_in_proportion(plugin, params, connections, roles):
    """The reference device forwards every frame of each size correctly translated."""
    sizes_of_mix = ("imix:64x7,570x4,1518x1",)
    setup = resolve_setup(plugin=plugin, tester="embedded", frame_sizes=sizes_of_mix, params=params)
    sizes = setup.technology.make_sizes(setup.settings.frame_sizes[0])
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 480.0, 0.5, 0.5, 0.0,
                  connections=connections, mix=sizes.mix)  # fmt: skip
    with closing(Bench(setup)) as bench:
        bench.load(compile_streams(setup, sizes))
        result = bench.measure(trial)
    for direction, counted in result.directions.items():
        required = {}
        for name, count in counted.classes.items():
            assert count.received == count.required, (direction, name)
            required.setdefault(count.role, []).append(count.required)
        assert list(required.values()) == [[140 // roles, 80 // roles, 20 // roles]] * roles
        assert counted.checked == counted.matched > 0
