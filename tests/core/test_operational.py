"""The operational tasks by which IPv6NET scored devices, applied to v6t: a test for each task.

``docs/operations.md`` names these tests. The tasks are those of section 3.2 of the paper.
"""

import json
import re
import shutil

import pytest
from click.shell_completion import ShellComplete
from v6t.core.cli.main import cli
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.warnings import list_setting_warnings
from v6t.tests.core.support import SIM, read_reproducible, v6t, write_report
from v6t.tests.expect import expect_refusal
from v6t.tests.settings import resolve

pytestmark = pytest.mark.slow

SHORT = [*SIM, "--reps", "1", "--mode", "forward"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Provide a short run with a high accepted loss and with control frames."""
    out = tmp_path_factory.mktemp("run") / "out"
    done = v6t(*SHORT, "--loss-tolerance", "0.5", "--set-tester", "control=3", "-o", out)
    assert done.status == 0, done.err
    return out


@pytest.mark.parametrize("name", list_names())
def test_initial_setup_3_technology_name_determines_settings(name):
    """The name of a technology determines addresses, traffic, tester, device and frame sizes."""
    run = resolve(plugin=name)
    assert run.frame_sizes and run.modes
    assert run.tester.kind == "embedded"
    assert load_technology_type(name)().make_dut_intent().left.addresses


@pytest.mark.parametrize(
    ("driver", "name"), [((), "a device that you configure"), (("--dut", "vpp"), "vpp")]
)
def test_plan_names_a_device_without_driver(here, driver, name):
    (here / "bed.yaml").write_text("tester: {kind: trex, options: {interfaces: [a, b]}}")
    planned = v6t("run", "mape-br", "--testbed", "bed.yaml", *driver, "--dry-run")
    assert planned.out.startswith(f"mape-br on {name}, trex tester")


@pytest.mark.parametrize(("bed", "words"), [
    ("links: {left: {dut_mac: '03:00:00:00:00:01'}}", "is a group address"),
    ("links: {left: {dut_mac: '00:00:00:00:00:00'}}", "links.left.dut_mac: 00:00:00:00:00:00"),
    ("links: {left: {dut_mac: '02:00:00:00:00:01', tester_mac: '02:00:00:00:00:01'}}",
     "links.left: tester and device have the same MAC address"),
    ("tester: {kind: trex, options: {interfaces: [a, b]}}", "no driver configures the device"),
])  # fmt: skip
def test_initial_setup_4_implausible_testbed_gives_a_warning(bed, words, here):
    (here / "bed.yaml").write_text(bed)
    setup = resolve_setup(None, here / "bed.yaml", plugin="mape-br")
    assert words in " ".join(list_setting_warnings(setup))
    done = v6t("run", "--plugin", "mape-br", "--testbed", "bed.yaml", "--dry-run")
    assert done.status == 0
    assert f"note: {words.partition(':')[0]}" in done.out or words in done.out


def test_initial_setup_6_settings_and_words_are_explained():
    text = v6t("explain", "tags").out
    assert "procedure.latency.tags" in text and "Tagged frames" in text
    rows = json.loads(v6t("explain", "--all", "--json").out)
    assert {"plugin", "tester.options.cores", "links.left.vlan"} <= {r["name"] for r in rows}
    assert v6t("explain", "procedure.latency").out.count("procedure.latency") == 6
    assert "params.eam" in v6t("explain", "--plugin", "siit", "eam").out
    for words in (["limited", "by", "the", "tester"], ["limited by the tester"]):
        assert "the device may be faster" in " ".join(v6t("explain", *words).out.split())
    assert "took longer than a delay" in v6t("explain", "CCDF").out


@pytest.mark.parametrize(("words", "values"), [
    (["sel"], ["selftest"]), (["run", "--plugin", "mape-br", "--set", "psid_o"], ["psid_offset="]),
    (["run", "--plugin", "siit", "--set", "psid_o"], []),
    (["run", "--set-procedure", "latency.t"], ["latency.tags="]),
    (["run", "--measure", "pdv,ip"], ["pdv,ipdv"]),
    (["run", "--tester", "trex", "--set-tester", "cor"], ["cores=", "core_list="]),
    (["run", "--tester", "s"], ["sim"]), (["run", "--preset", "r"], ["rfc"]),
    (["run", "--mode", "f"], ["forward"]), (["run", "--plugin", "ma"], {"mape-br"}),
    (["run", "--dut", "v"], {"vpp"}), (["explain", "links.left"], {"links.left.vlan"}),
])  # fmt: skip
def test_initial_setup_6_words_are_completed(words, values):
    """A list has all completions, a set some of them."""
    shell = ShellComplete(cli, {}, "v6t", "_V6T_COMPLETE")
    completions = [item.value for item in shell.get_completions(words[:-1], words[-1])]
    if isinstance(values, set):
        completions = values.intersection(completions)
    assert completions == values


def test_reconfiguration_1_run_is_converted_to_files(here):
    arguments = [
        *(*SHORT, "--set", "ces=50", "--set", "fw_dport.min=9", "--label", "1e3"),
        *("--set", "domains=[{rule_ipv6: 2001:db8:d::/51, rule_ipv4: 198.51.100.0/24, share: 3}]"),
        *("--set-tester", "capacity_fps=2e6", "--set-procedure", "latency.tags=5", "--seed", "9"),
    ]
    assert v6t(*arguments, "-o", "out").status == 0
    assert v6t("init", "--from-run", "out", "--dir", "again").status == 0
    before = json.loads((here / "out" / "config.json").read_text())
    again = resolve(here / "again" / "run.yaml", here / "again" / "testbed.yaml").to_json()
    # 7 and '7' are the same parameter
    model = load_technology_type("mape-br").params_model
    assert model(**before.pop("params")) == model(**again.pop("params"))
    assert before == again


def test_reconfiguration_2_backup_and_restore(here):
    """The file config.json is a complete backup: a run with restored files has equal results."""
    bed = "links: {left: {vlan: 7, mtu: 9000}}\nline_rate: 2.5G\ntester: {kind: sim}\n"
    (here / "bed.yaml").write_text(bed)
    assert v6t(*SHORT, "--testbed", "bed.yaml", "--frame-size", "1000", "-o", "one").status == 0
    shutil.copy("one/config.json", "backup.json")
    restore = ("init", "--from-run", "backup.json", "--dir", "r")
    assert v6t(*restore).status == 0
    assert v6t("run", "r/run.yaml", "--testbed", "r/testbed.yaml", "-o", "two").status == 0
    for name in ("config.json", "results.csv", "medians.csv", "trials.csv"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()
    assert read_reproducible(here / "one") == read_reproducible(here / "two")
    assert "r/run.yaml" in expect_refusal(v6t(*restore), "file-exists")
    expect_refusal(v6t("init", "--from-run", "r/run.yaml"), "invalid-json")


def test_rca_1_messages_of_run_are_logged(short_run):
    log = (short_run / "log.txt").read_text()
    for text in ("50.0%", "checking the translation", "1,120,000 fps"):
        assert text in log
    assert all(re.match(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00 ", line) for line in log.splitlines())


def test_rca_1_errors_are_logged(here):
    assert v6t(*SIM, "--set-tester", "crash_at=20", "-o", "out").status == 5
    before = (here / "out" / "log.txt").read_text()
    assert "error: " in before
    expect_refusal(v6t(*SIM, "-o", "out"), "file-exists")
    assert (here / "out" / "log.txt").read_text() == before  # not changed by the rejected run


def test_rca_2_resumed_run_appends_to_its_log(short_run, tmp_path):
    """A resumed run continues the same log."""
    out = shutil.copytree(short_run, tmp_path / "out")
    first = (out / "log.txt").read_text()
    assert first.count("checking the translation") == 1
    (out / "results.json").unlink()
    assert v6t("resume", out).status == 0
    assert (out / "log.txt").read_text().startswith(first)


def test_rca_4_counters_of_every_trial_are_kept(short_run):
    head = (short_run / "trials.csv").read_text().splitlines()[0].split(",")
    assert {"sent", "received", "surplus", "out_of_order", "late", "sending_time_s"} <= set(head)
    assert '"control":3' in (short_run / "journal.jsonl").read_text()
    assert "(ARP, ND, LLDP ...): " in write_report(short_run)
