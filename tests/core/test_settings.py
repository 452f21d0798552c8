"""Settings in files and flags: units, `all`, sections of benchmarks, and no arguments."""

import json
import os

import pytest
from v6t.base.errors import EnvironmentLacking
from v6t.base.quantities import convert_quantity, is_bit_rate
from v6t.benchmarks import registry
from v6t.core.config.checks import check_capabilities
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.yaml_file import parse_assignments
from v6t.tests.core.support import SIM, make_run, v6t
from v6t.tests.expect import expect_error, expect_refusal

CONVERTED = [
    ("duration_s", "60s", "60"), ("duration_s", "1.5 min", "90"), ("duration_s", "1h", "3600"),
    ("trial_duration_s", "2m", "120"), ("residual_wait_s", "250ms", "0.25"),
    ("deadline_ms", "2s", "2000"), ("deadline_ms", "10us", "0.01"),
    ("rate_fps", "10k", "10000"), ("rate_fps", "1.5Mpps", "1500000"), ("rate_fps", "10 kfps", "10000"),
    ("count", "4M", "4000000"), ("rate_bps", "2.5Gbps", "2500000000"),
    ("rate_bps", "10 Gbit", "10000000000"), ("loss_percent", "0.5%", "0.5"),
    ("loss_tolerance", "0.5%", "0.005"),
]  # fmt: skip
UNCHANGED = [("duration_s", "10k"), ("rate_fps", "60s"), ("count", "10kfps"), ("rate_fps", "fast"),
        ("rate_bps", "1Gfps"), ("rate_bps", "1GB/s"), ("residual_wait_s", "2m"), ("deadline_ms", "2m"),
        ("duration_s", ""), ("duration_s", "5%"), ("rate_fps", "5%"), ("rate_fps", "1e4")]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "value"), [*CONVERTED, *((name, text, text) for name, text in UNCHANGED)]
)
def test_known_units_are_converted_and_others_stay_text(name, text, value):
    assert convert_quantity(name, text) == value


def resolve_run(**flags):
    return resolve_setup(None, None, plugin="mape-br", tester="sim", **flags)


def test_units_of_flags_are_converted_but_not_in_labels():
    flags = {"--rate": "10k", "--duration": "2min"}
    settings = resolve_run(setting_flags=flags, benchmarks=("latency",), label="10k").settings
    assert settings.procedure.latency.rate_fps == 10_000
    assert (settings.procedure.trial_duration_s, settings.label) == (120, "10k")


def test_bit_rate_includes_preamble_and_gap():
    assert is_bit_rate("1Gbps") and not is_bit_rate("1G")
    run = resolve_run(setting_flags={"--rate": "1Gbps"}, benchmarks=("pdv",), frame_sizes=[104])
    s = run.settings.procedure.delay_variation
    assert (s.rate_fps, s.rate_bps) == (None, 1e9)
    assert s.get_rate_fps(104) == pytest.approx(1e9 / 8 / 124)


def test_all_selects_suitable_benchmarks():
    stateless = set(resolve_run(benchmarks=("all",)).settings.benchmarks)
    assert {"throughput", "latency", "system-recovery"} <= stateless
    assert not {"connection-rate", "rss-probe", "throughput-frame-timeout"} & stateless
    nat44 = resolve_setup(None, None, plugin="nat44", tester="sim", benchmarks=("all", "latency"))
    assert {"connection-rate", "capacity", "latency"} <= set(nat44.settings.benchmarks)
    assert not {"throughput-frame-timeout", "resolution"} & set(nat44.settings.benchmarks)


def test_all_skips_benchmarks_without_library(monkeypatch):
    monkeypatch.setattr("v6t.procedures.search.mlr.SUPPORTED_VERSION", "0.9")
    run = resolve_run(benchmarks=("all",))
    assert "mlrsearch" not in run.settings.benchmarks
    check_capabilities(run)
    done = v6t(*SIM, "--measure", "all", "--dry-run")
    assert done.status == 0, done.err
    assert "'all': MLRsearch" in done.out
    for named in (("mlrsearch",), ("all", "mlrsearch")):
        run = resolve_run(benchmarks=named)
        with expect_error("missing-package", kind=EnvironmentLacking):
            check_capabilities(run)


def test_nested_flag_options_keep_other_options(tmp_path):
    testbed = tmp_path / "bed.yaml"
    testbed.write_text(
        "tester: {kind: trex, options: {ssh: {host: one, port: 2222}}}\n"
        "dut: {driver: vpp, options: {ssh: {host: two, port: 2223}}}\n"
    )
    flags = {"tester_options": {"ssh.host": "three"}, "dut_params": {"ssh.host": "four"}}
    settings = resolve_setup(None, testbed, plugin="mape-br", **flags).settings
    assert settings.tester.options["ssh"] == {"host": "three", "port": 2222}
    assert settings.dut.options["ssh"] == {"host": "four", "port": 2223}


def test_no_arguments_print_help():
    shown = v6t()
    assert shown.status == 0 and "Commands:" in shown.out
    assert v6t("run", "--dry-run").out.startswith("mape-br ")


def test_latest_run_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(("b", "a")):
        make_run(tmp_path / "runs" / name, "throughput", procedure={"repetitions": 1})
        for file in (tmp_path / "runs" / name).iterdir():
            os.utime(file, (1e9 + age, 1e9 + age))
    assert v6t("report", "--format", "md,md").out.strip() == "runs/a/report.md"
    assert v6t("report", "latest", "--format", "md").out.strip() == "runs/a/report.md"
    assert v6t("resume", "--no-report").status == 0
    compared = v6t("compare", "runs/b", "--json").out
    assert json.loads(compared)
    assert compared == v6t("compare", "runs/b", "runs/a", "--json").out
    assert compared == v6t("compare", "--json").out  # the latest two
    expect_refusal(v6t("compare", "latest"), "no-such-run")


@pytest.mark.parametrize("value", ["10000000000", "1e10", "10G", "'10 gbit'"])
def test_line_rate_needs_no_quotes(tmp_path, value):
    (tmp_path / "bed.yaml").write_text(f"line_rate: {value}\n")
    setup = resolve_setup(None, tmp_path / "bed.yaml", plugin="mape-br")
    assert setup.settings.line_rate_bps == 10e9


@pytest.mark.parametrize("name", list_names())
def test_printed_list_is_accepted_by_set(name):
    model = load_technology_type(name).params_model
    for row in json.loads(v6t("plugins", name, "--json").out)["parameters"]:
        if str(row["default"]).startswith("["):
            assert model.model_validate(parse_assignments({row["name"]: row["default"]})) == model()


def test_assigned_section_and_its_parts_are_merged_in_any_order():
    assert parse_assignments({"a.b": "1", "a": "{b: 0, c: 2}"}) == {"a": {"b": "1", "c": 2}}
    for words in (["--set", "a.b=1", "--set", "a=2"], ["--set", "a=2", "--set", "a.b=1"]):
        expect_refusal(v6t(*SIM, *words), "duplicate")


def test_all_skips_and_lists_unsupported_benchmarks(monkeypatch):
    monkeypatch.setattr("v6t.drivers.sim.tester.SimTester.capabilities", {"connections"})
    run = ("run", "nat44", "--tester", "sim", "--dry-run", "--measure")
    done = v6t(*run, "all")
    assert done.status == 0, done.err
    assert "left out of 'all': system-recovery: " in " ".join(done.out.split())
    assert v6t(*run, "all,system-recovery").code == "unsupported-by-tester"


def test_flags_are_those_of_the_settings_models():
    assert registry.list_flags()["--rate"] == ["latency.rate_fps", "delay_variation.rate_fps"]
    text = v6t("run", "--help").out
    for flag in ("--reps", "--duration", "--search", "--tags", "--rate", "--frame-timeout"):
        assert flag in text
    assert "Tagged frames" in text
    done = v6t(*SIM, "--reps", "3", "--set-procedure", "repetitions=4", "--dry-run", "--json")
    assert done.status == 0, done.err
