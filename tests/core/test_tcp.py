"""The TCP benchmarks (RFC 8219 section 8) in simulated runs with known results."""

import json
from unittest.mock import Mock

import pytest
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.benchmarks import connections
from v6t.benchmarks.tcp import TcpCapacity, TcpCapacityRecord, find_media_cps, find_syn_sizes
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.plan import plan
from v6t.procedures.stateful.phases import judge_connections
from v6t.tests.core.support import measure_records, v6t, write_report
from v6t.trials.connections import Connections, PhaseOneResult, Tcp, TcpCounts
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

DEVICE = {"insertion_cps": 34_567, "table_entries": 23_457, "tcp_aging_s": 10}
SETTINGS = {
    "connections.count": 20_000, "connections.resolution_cps": 100, "tcp_capacity.error": 1,
    "tcp_capacity.most": 60_000,
}  # fmt: skip


ENDS = ("established", "half_open", "reset_refused", "icmp_refused", "timed_out")


def measure(out, device=(), settings=(), **options):
    """Measure a run with TCP and return its records by benchmark."""
    return measure_records(
        out, "tcp-rate", "tcp-capacity", plugin="nat44", device={**DEVICE, **dict(device)},
        procedure={**SETTINGS, **dict(settings)}, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Provide the records of both benchmarks, and the directory of their run."""
    out = tmp_path_factory.mktemp("run") / "out"
    records = measure(out)
    return records["tcp-rate"], records["tcp-capacity"], out


def test_known_connection_rate_is_measured_within_resolution(measured):
    rate, _, _ = measured
    assert all(34_567 - 100 <= r <= 34_567 for r in rate["rates"])
    assert rate["resolution_cps"] == 100
    assert [trial["rate_cps"] for trial in rate["decisive"]] == rate["rates"]


def test_connection_times_without_device_are_reported(measured):
    """The times are those of the fastest self-test trial without loss."""
    rate, _, out = measured
    alone = rate["alone"]
    assert alone["rate_cps"] > rate["median"]
    assert 0 < alone["fastest_s"] <= alone["mean_s"] <= alone["slowest_s"]
    assert alone["mean_s"] < rate["decisive"][0]["mean_s"]
    assert "Without a device" in " ".join(v6t("show", out, "--warnings").out.split())


def test_known_tcp_capacity_is_measured_exactly(measured):
    rate, capacity, _ = measured
    assert (capacity["capacity"], capacity["first_failed"]) == (23_457, 23_458)
    assert not capacity["at_least"] and capacity["decisive"]["answered"] == 23_457
    assert capacity["attempt_rate_cps"] == pytest.approx(rate["p1"] / 2)


@pytest.mark.parametrize(("first_failed", "reason"), [(1, "1 connection"), (None, "tester")])
def test_zero_tcp_capacity_states_what_failed(first_failed, reason, monkeypatch):
    monkeypatch.setattr(connections, "describe_setup", Mock())
    search = Mock(capacity=0, first_failed=first_failed, steps=[], attempts=())
    kind = Mock()
    connections.make_capacity_record(kind, search, Mock())
    assert reason in kind.from_result.call_args.kwargs["not_measured"]


def test_capacity_lower_bound_has_its_own_label(measured):
    record = TcpCapacityRecord.model_validate(measured[1])
    (ended,) = TcpCapacity().list_quantities(record)
    (open_,) = TcpCapacity().list_quantities(record.model_copy(update={"at_least": True}))
    assert (ended.headline, open_.headline) == ("tcp-capacity", "at least")
    assert ended.summary.median == open_.summary.median == 23_457


def test_behaviour_of_full_table_is_reported(measured):
    _, capacity, _ = measured
    over = capacity["overfull"]
    assert over["attempted"] == 23_457 + 2346
    assert (over["established"], over["timed_out"]) == (23_457, 2346)
    assert capacity["still_answered"] == 23_457
    assert [(e["closing"], e["aged_s"]) for e in capacity["endings"]] == [("rst", 10), ("fin", 10)]


def test_every_connection_of_every_trial_is_accounted_for(measured):
    *records, out = measured
    for record in records:
        for trial in record["iterations"]:
            assert sum(trial[part] for part in ENDS) == trial["attempted"]
    rows = (out / "tcp-capacity.csv").read_text().splitlines()
    assert rows[0].startswith("No,Size,Dir,trial,rate_cps,attempted,established")


def test_rfc_3511_tables_are_reported_and_printed(measured):
    *_, out = measured
    report = write_report(out)
    for words in (
        *("Maximum TCP connection establishment rate", "Concurrent TCP connection capacity"),
        *("HTTP/1.1", "Ends of connections", "RFC 3511 section 5.2.3", "RFC 3511 section 5.3.3"),
    ):
        assert words in report
    assert "23,457" in v6t("show", out).out


@pytest.mark.parametrize(("device", "counts"), [
    ({"tcp_refuses": "rst"}, {"established": 23_457, "reset_refused": 2346}),
    ({"tcp_refuses": "icmp"}, {"established": 23_457, "icmp_refused": 2346}),
    ({"table_replaces": "true"}, {"established": 23_457 + 2346}),
])  # fmt: skip
def test_behaviour_of_other_full_tables_is_distinguished(tmp_path, device, counts):
    settings = {"tcp.rate_cps": 5000}
    record = measure(tmp_path / "out", device=device, settings=settings)["tcp-capacity"]
    overfull = {name: record["overfull"][name] for name in ENDS}
    assert overfull == {**dict.fromkeys(ENDS, 0), **counts}
    assert record["capacity"] == record["still_answered"] == 23_457


def test_offered_rate_never_exceeds_tester_capacity(tmp_path):
    rate = measure(tmp_path / "out", device={"insertion_cps": 0, "tester_fps": 5000})["tcp-rate"]
    assert rate["tester_limited"]
    assert rate["upper_bound_reason"] == "tester" and rate["median"] <= rate["tester_ceiling"]


@pytest.mark.parametrize(("plugin", "octets"), [
    ("nat44", (74, 74)), ("nat64", (94, 74)), ("dslite-aftr", (114, 74)), ("nat66", (94, 94)),
])  # fmt: skip
def test_tcp_point_has_size_of_a_syn(plugin, octets):
    setup = resolve_setup(plugin=plugin, tester="sim", benchmarks=("tcp-rate",))
    sizes = find_syn_sizes(setup.technology)
    assert (sizes.ipv6, sizes.ipv4) == octets
    assert find_media_cps(1e9, sizes, 1) == compute_max_frame_rate_fps(1e9, octets[0]) // 2
    # an object of three segments has their headers three times
    large = 1e9 / find_media_cps(1e9, sizes, 3000) / 8
    assert 3000 + 3 * octets[0] < large < 3200 + 3 * (octets[0] + 20)
    (point,) = plan(setup).points
    assert (point.frame_sizes["ipv6"], point.mode) == (octets[0], "connections")


def test_frame_sizes_do_not_affect_tcp_benchmarks():
    names = ("tcp-rate", "connection-rate")
    setup = resolve_setup(plugin="nat44", tester="sim", benchmarks=names, frame_sizes=(64, 128))
    benchmarks = [point.benchmark for point in plan(setup).points]
    assert [benchmarks.count(name) for name in names] == [1, 2]


def test_tcp_settings_are_recorded(tmp_path):
    """Object size, time-out, retransmissions and closing are stored in each record."""
    records = measure(
        tmp_path / "out", setting_flags={"--object-size": "5000"},
        settings={"tcp.timeout_s": 2, "tcp.retransmissions": 1, "tcp.closing": "fin"},
    )  # fmt: skip
    for record in records.values():
        assert record["exchange"] == {
            **{"http": "HTTP/1.1", "object_octets": 5000, "timeout_s": 2},
            **{"retransmissions": 1, "closing": "fin"},
        }
    assert Tcp(timeout_s=2, retransmissions=2).max_wait_s == 2 + 4 + 8
    warnings = json.loads((tmp_path / "out" / "results.json").read_text())["caveats"]
    assert any("SYN" in text and "1 times" in text for text in warnings)


@pytest.mark.parametrize(("counts", "words"), [
    (TcpCounts(10, 8, reset_refused=1, timed_out=1), "1 timed out, 1 refused by a reset"),
    (TcpCounts(10, 10, wrong=3), "3 segments differ from those of a correct device"),
])  # fmt: skip
def test_tcp_failures_are_described(counts, words):
    connections = Connections(10, 10.0, alpha=1.0, purpose="establish", tcp=Tcp())
    trial = Trial("tcp-rate", "k", 74, 74, "forward", 10.0, 1.0, connections=connections)
    established = counts.established
    phase_one = PhaseOneResult(
        10, 10, established, validation_sent=established, validated=established, tcp=counts
    )
    verdict = judge_connections(trial, TrialResult({}, connections=phase_one))
    assert verdict.valid and not verdict.passed
    assert words in verdict.reasons[0]
