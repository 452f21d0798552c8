"""Published pages: contents, removal of private data, and replacement of an earlier page."""

import contextlib
import csv
import dataclasses
import errno
import io
import json
import pathlib
import re
import shutil
from types import SimpleNamespace
from typing import get_args

import jsonschema
import pytest
from pydantic import BaseModel
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.plots import make_summary_curve
from v6t.analysis.presentation import LOWER_BOUND, Percentiles, Quantity
from v6t.analysis.record import FPS
from v6t.analysis.rundata import strip_number
from v6t.analysis.sheet import Table, format_count
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.campaign import load_campaign, plan_campaign
from v6t.core.config.compatibility import can_configure, list_technologies
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.drivers.trex.options import TrexOptions
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tests.core.support import parse_result, read_dir, read_schema, replace_config, v6t
from v6t.tests.drivers.matrix import NAMED
from v6t.tests.expect import expect_refusal
from v6t.tools.publish.__main__ import main
from v6t.tools.publish.introduction import describe_machines
from v6t.tools.publish.overview import LOOPBACK_NOTE, UNDEFINED_NOTE, present_benchmark
from v6t.tools.publish.page import explain_repetition
from v6t.tools.publish.redaction import list_public_options
from v6t.tools.publish.result_rows import build_rows


def run_publish(directory, page_dir):
    """Run ``python -m v6t.tools.publish DIRECTORY PAGE`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(directory), str(page_dir)])
    return parse_result(status, out.getvalue(), err.getvalue())


pytestmark = pytest.mark.slow

CAMPAIGN = """\
name: pair
title: Two technologies
run:
  modes: [bidirectional]
  procedure: {repetitions: 3}
testbeds:
  model: {tester: {kind: sim, options: {capacity_fps: 400000, capacity_noise: 0.05}}}
experiments:
  - name: map
    note: More customers.
    run: {plugin: mape-br, benchmarks: [throughput, latency]}
    matrix:
      params.ces: [64, 128]
  - name: router
    run: {plugin: ipv6-router}
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Provide a campaign whose last run failed with an error that contains a path."""
    home = tmp_path_factory.mktemp("secret-place")
    (home / "campaign.yaml").write_text(CAMPAIGN)
    done = v6t("campaign", home / "campaign.yaml", "--no-report", "-o", home / "out")
    assert done.status == 0, done.err
    failures = home / "out" / "failures"
    failures.mkdir()
    text = {"message": f"{home}/out/x cannot be read", "hint": "", "exit_code": 2}
    (failures / "003-router.json").write_text(json.dumps(text))
    return home / "out"


@pytest.fixture(scope="module")
def page(campaign, tmp_path_factory):
    """Publish the campaign and provide the page's directory."""
    page_dir = tmp_path_factory.mktemp("page") / "results"
    done = run_publish(campaign, page_dir)
    assert done.status == 0, done.err
    return page_dir


def test_page_contains_all_rates_and_the_conditions(campaign, page):
    text = (page / "index.md").read_text()
    summary = json.loads((campaign / "summary.json").read_text())
    rates = [f for r in summary["runs"] for f in r["results"] if f["benchmark"] == "throughput"]
    assert len(rates) == 3
    contents = [json.loads(path.read_text()) for path in campaign.glob("*/results.json")]
    steps = {content["results"][0]["resolution_fps"] for content in contents}
    for rate in rates:
        line = f"| {rate['median']:,.0f} | {rate['p1']:,.0f} | {rate['p99']:,.0f} | "
        assert any(f"{line}{step:,.0f} |" in text for step in steps)
    assert "| P1 | P99 | resolution | repetitions (trials) |" in text and "RFC 8219" in text
    assert "3 repetitions" in text and "mape-br, 64" in text
    assert "* ipv6-router: reference: x cannot be read" in text and "More customers." in text
    figures = re.findall(r"!\[.+?\]\((figures/\d+\.svg)\)", text)
    assert len(figures) == 1  # delays of two directions are a table
    assert (page / figures[0]).read_text().startswith("<svg ")
    for link in re.findall(r"\]\((\S+?)\)", text):
        assert (page / link).is_file()


def test_published_results_state_shared_conditions_once(page):
    for path in page.glob("*/results.json"):
        content = json.loads(path.read_text())
        assert content["conditions"]["preset"] == "quick"
        assert all("preset" not in record["conditions"] for record in content["results"])


def test_every_trial_has_one_row(campaign, page):
    rows = list(csv.DictReader((page / "trials.csv").open()))
    files = list(campaign.glob("*/trials.csv"))
    expected = {strip_number(f.parent.name): len(f.open().readlines()) - 1 for f in files}
    assert len(expected) == 3
    assert {name: sum(r["run"] == name for r in rows) for name in expected} == expected
    actual = {(r["run"], r["key"]): r["counts"] for r in rows}
    for path in campaign.glob("*/results.json"):
        records, name = json.loads(path.read_text())["results"], strip_number(path.parent.name)
        valid = {k for r in records for k in r["trials"]}
        valid -= {t["key"] for r in records for t in r["invalid_trials"]}
        assert {key for (run, key), why in actual.items() if run == name and why == "yes"} == valid


def test_files_contain_no_private_path(campaign, page):
    files = [path for path in page.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert "secret-place" not in path.read_text(), path
        assert path.stat().st_mode & 0o077 == 0o044  # read by all


PRIVATE_SETTINGS = {
    "tester": {"options": {"server": "trex.secret.example", "ssh_config": "/home/me/.ssh/lab",
        "interfaces": ["enp3s0f0", "0000:81:00.1"], "trex_dir": "/opt/secret/v3.08",
        "pairs": [{"ports": [2, 3], "interfaces": ["enp4s0f0", "enp4s0f1"]}], "cores": 4}},
    "dut": {"options": {"ssh": {"host": "gateway", "user": "me"},
        "hooks": {"software-reset": "ssh secret-pdu cycle 4"},
        "steps": [{"command": "secret-tool up", "why": "x", "undo": ""}], "left": "enp9s0",
        "parts": {"ce": {"driver": "vpp", "options": {"socket": "/run/secret", "workers": "1-2"}}},
        "workers": "1-3", "params": {"host": "2001:db8::1"}}},
    "links_left": {"tester_mac": "3c:fd:fe:00:11:22", "dut_mac": "3c:fd:fe:00:11:23", "mtu": 1600,
        "vlan": 7, "background": {"vlan": 8, "device": "2a00:1::1/64", "tester": "2a00:1::2"}},
    "links_right": {"vlan": 9, "background": {"vlan": 8, "device": "2a00:1::3/64", "tester": "2a00:1::4"}},
}  # fmt: skip
"""Private settings, mixed with public ones."""
PRIVATE_TEXTS = (
    "secret", "trex.", "/.ssh", "enp", "81:00", "3c:fd", "2a00:1:", "gateway", "lab.example",
)  # fmt: skip


@pytest.fixture
def campaign_copy(campaign, tmp_path):
    shutil.copytree(campaign, tmp_path / "copy")
    return tmp_path / "copy"


def edit_json(path, change):
    content = json.loads(path.read_text())
    content.pop("sha256", None)  # as if written by hand
    change(content)
    path.write_text(json.dumps(content))


def replace_planned_config(campaign, run, change):
    """Change the configuration of a run, and the plan of its campaign."""
    replace_config(campaign / run, change)

    def change_plan(plan):
        change(next(r["config"] for r in plan["runs"] if r["directory"] == run))

    edit_json(campaign / "campaign.json", change_plan)


def publish_and_read(campaign, page_dir):
    """Publish a campaign and return the text of every file by name."""
    done = run_publish(campaign, page_dir)
    assert done.status == 0, done.err
    return {str(p.relative_to(page_dir)): p.read_text() for p in page_dir.rglob("*") if p.is_file()}


def test_private_settings_are_removed_from_runs(campaign_copy, tmp_path):
    def add_private_settings(config):
        for part, values in PRIVATE_SETTINGS.items():
            config[part] |= values
        config["frame_sizes"] = [128]  # 104 octets are too small with a tag
        config["label"] = "gateway"

    def add_warning(results):
        results["label"] = "gateway"
        results["caveats"].append("links.left: 3c:fd:fe:00:11:23 answers at admin@gateway")

    replace_planned_config(campaign_copy, "001-map-64", add_private_settings)

    def add_version(manifest):
        version = "vpp v26.06-release built by gateway on enp at 2026-11-01T00:00:00"
        manifest["tester"]["device"] = {"kind": "vpp", "version": version, "facts": {"x": "secret"}}

    edit_json(campaign_copy / "001-map-64" / "results.json", add_warning)
    edit_json(campaign_copy / "001-map-64" / "manifest.json", add_version)
    page = publish_and_read(campaign_copy, tmp_path / "page")
    config = json.loads(page["map-64/config.json"])
    assert config["tester"]["options"] == {"cores": 4, "pairs": [{"ports": [2, 3]}]}
    parts = {"ce": {"driver": "vpp", "options": {"workers": "1-2"}}}
    options = {"parts": parts, "workers": "1-3", "params": {"host": "2001:db8::1"}}
    assert config["dut"]["options"] == options
    assert (config["links_left"]["mtu"], config["links_left"]["background"]["vlan"]) == (1600, 8)
    for name, text in page.items():
        assert not [word for word in PRIVATE_TEXTS if word in text], name
    assert "(withheld) answers at (withheld)" in page["index.md"]
    assert "vpp v26.06-release built at 2026-11-01" in page["index.md"]


def test_failures_contain_no_paths_and_hosts(campaign_copy, tmp_path):
    message = (
        "root@lab.example: cannot open (/srv/secret/deep/key) or file:/home/me; gateway says no; "
        "64/104 octets, ipv6-router, 2001:db8::/32"
    )
    failure = {"message": message, "hint": "", "exit_code": 4}
    (campaign_copy / "failures" / "003-router.json").write_text(json.dumps(failure))
    private = PRIVATE_SETTINGS["dut"]
    replace_planned_config(campaign_copy, "003-router", lambda c: c["dut"].update(private))
    page = publish_and_read(campaign_copy, tmp_path / "page")
    for name, text in page.items():
        assert not [word for word in (*PRIVATE_TEXTS, "root@", "/srv", "/me") if word in text], name
    (actual,) = (r["failure"] for r in json.loads(page["summary.json"])["runs"] if r["failure"])
    assert actual.count("(withheld)") == 2
    assert actual.endswith("64/104 octets, ipv6-router, 2001:db8::/32")


def test_private_axes_are_removed(campaign_copy, tmp_path):
    def set_axes(plan):
        for number, run in enumerate(plan["runs"][:2]):
            old = run["directory"]
            run["axes"] = {
                "dut.options.ssh.host": f"gateway{number}.secret", "dut.options.workers": "1-3",
                "links.left.dut_mac": f"3c:fd:fe:00:11:2{number}", "links.left.vlan": 7,
                "tester.options.server": "trex.secret",
            }  # fmt: skip
            run["directory"] = f"00{number + 1}-map-gateway{number}.secret-1-3-7"
            (campaign_copy / old).rename(campaign_copy / run["directory"])

    edit_json(campaign_copy / "campaign.json", set_axes)
    page = publish_and_read(campaign_copy, tmp_path / "page")
    for name, text in page.items():
        assert not [word for word in PRIVATE_TEXTS if word in name + text], name
    runs = json.loads(page["summary.json"])["runs"]
    axes = {"dut.options.workers": "1-3", "links.left.vlan": 7}
    assert [r["axes"] for r in runs[:2]] == [axes] * 2
    names = {name.partition("/")[0] for name in page if name.endswith("config.json")}
    assert names == {"map-1-3-7", "map-1-3-7-2", "router"}
    assert "map-1-3-7-2: mape-br, 7 | reference, workers 1-3 † |" in page["index.md"]


def list_options(model, above=()):
    """Yield every option of a model and of models below it."""
    for name, field in model.model_fields.items():
        yield name
        for inner in list_inner_models(field.annotation):
            if inner not in above and name not in ("params", "faults", "profile"):
                yield from list_options(inner, (*above, inner))


def list_inner_models(kind):
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from list_inner_models(part)


WITHHELD = {
    *("ssh", "host", "port", "user", "identity", "known_hosts", "config", "jump", "become", "lab"),
    "netns",
    *("ask_password", "connect_deadline_s", "command_deadline_s", "hooks", "command", "tries"),
    *("left", "right", "state_dir", "undo_after_s", "control_port", "program", "vppctl", "socket"),
    *("plugins", "start", "base", "steps", "sessions_command", "version_command", "watch", "check"),
    *("why", "undo", "before", "was", "contains", "equals", "matches", "deadline_s", "reboots"),
    *("reboot_deadline_s", "trex_dir", "start_deadline_s", "fence", "server", "rpc_port", "pub_port"),
    *("ssh_config", "interfaces", "restart", "force", "python", "extra_arguments", "tester_mac"),
    *("dut_mac", "absent", "platform", "cli", "prompt", "pager", "errors", "answers", "enable", "open"),
    *("abort", "line_deadline_s", "busy", "pattern", "prepare", "configure", "confirm", "keep", "cancel"),
    *("idle_s", "module", "settle_s", "verify", "restore", "tidy", "compare", "but", "lines", "telemetry", "version_pattern"),
}  # fmt: skip
"""Private options: not part of a measurement, or a path, host or address."""


def test_every_option_is_listed_as_public_or_private():
    kinds = [*(load_driver_type(n).options_model for n in list_driver_names()), TrexOptions]
    names = {name for kind in kinds for name in list_options(kind)}
    assert len(names) > 50
    assert names - list_public_options() - WITHHELD == set()
    # the option `lab` of TRex is public, that of ssh is removed with all options of ssh
    assert list_public_options() & WITHHELD == {"lab"}


def test_rows_with_different_parameters_are_marked_and_listed(campaign_copy, tmp_path):
    def remove_axes(plan):
        for run in plan["runs"][:2]:
            run["axes"] = {}

    def add_device_counters(results):
        results["device"] = [
            {
                "device": "ssh root@lab.example", "benchmark": "throughput", "direction": "bidirectional",
                "frame_sizes": {"ipv6": 128, "ipv4": 108}, "seconds": 1.0,
                "drops": {"tun x.dropped": 1200.0}, "lost_for": {"tun x.dropped": "queue"}, "table": {},
            }
        ]  # fmt: skip

    edit_json(campaign_copy / "campaign.json", remove_axes)
    edit_json(campaign_copy / "002-map-128" / "results.json", add_device_counters)
    text = publish_and_read(campaign_copy, tmp_path / "page")["index.md"]
    assert "| map-128: mape-br | reference † |" in text
    assert "| map-64: mape-br | reference |" in text
    assert "| mape-br | reference | ces | 128 | 64 |" in text and "† the parameters" in text
    unnamed = text.replace("map-128: ", "")
    assert "| mape-br | reference | 1,200 tun x.dropped (queue) | - |" in unnamed
    refused = v6t("compare", tmp_path / "page" / "map-64", tmp_path / "page" / "map-128")
    assert "64 and 128" in refused.out + refused.err


def test_compare_reads_a_page(campaign, page):
    actual = json.loads(v6t("compare", "--json", page, campaign).out)
    jsonschema.validate(actual, read_schema("comparison-1"))
    rates = [line for line in actual["lines"] if line["what"] == "rate"]
    assert [line["benchmark"] for line in rates] == [
        "map-128: throughput", "map-64: throughput", "router: throughput",
    ]  # fmt: skip
    assert all(line["first"] == line["second"] for line in actual["lines"])
    assert not any(line["improved"] for line in actual["lines"])
    one = v6t("compare", "--json", page / "map-64", campaign / "001-map-64")
    (rate,) = (line for line in json.loads(one.out)["lines"] if line["what"] == "rate")
    assert rate["second"] == rates[1]["second"]


def test_trend_has_one_series_for_each_run(campaign, page):
    actual = json.loads(v6t("trend", "--json", "--by", "given", *[page] * 9, *[campaign] * 9).out)
    jsonschema.validate(actual, read_schema("trend-1"))
    assert {s["point"].partition(":")[0] for s in actual["series"]} == {
        "map-64", "map-128", "router",
    }  # fmt: skip
    assert all(len(s["values"]) == 18 and not s["changes"] for s in actual["series"])


def test_page_replaces_an_earlier_page(campaign, page, tmp_path):
    page_dir = tmp_path / "page"
    assert run_publish(campaign, page_dir).status == 0
    edit_json(page_dir / "page.json", lambda marker: marker["files"].append("gone/config.json"))
    (page_dir / "gone").mkdir()
    (page_dir / "gone" / "config.json").write_text("{}")
    assert run_publish(campaign, page_dir).status == 0
    assert sorted(p.name for p in page_dir.iterdir()) == sorted(p.name for p in page.iterdir())
    assert [p.name for p in tmp_path.iterdir()] == ["page"]


@pytest.mark.parametrize("name", ["thesis.tex", "map-64/notes.txt"])
def test_page_with_unknown_files_is_not_replaced(name, campaign, tmp_path):
    page_dir = tmp_path / "page"
    assert run_publish(campaign, page_dir).status == 0
    (page_dir / name).write_bytes(b"\xff\x00")
    (page_dir / name).chmod(0o600)
    before = read_dir(page_dir)
    assert name in expect_refusal(run_publish(campaign, page_dir), "file-exists")
    assert read_dir(page_dir) == before
    assert (page_dir / name).stat().st_mode & 0o777 == 0o600


def test_directory_without_a_page_is_rejected(campaign, tmp_path):
    """A summary does not identify a page, because every campaign has one."""
    (tmp_path / "mine" / "run").mkdir(parents=True)
    for name in ("summary.json", "run/config.json"):
        (tmp_path / "mine" / name).write_text("{}")
    before = read_dir(tmp_path)
    expect_refusal(run_publish(campaign, tmp_path / "mine"), "file-exists")
    assert read_dir(tmp_path) == before


@pytest.mark.parametrize("page_dir", ["copy", "copy/page", ".", "other", "other/page", "link"])
def test_campaign_directory_is_rejected_as_page(page_dir, campaign_copy, tmp_path):
    shutil.copytree(campaign_copy, tmp_path / "other")
    (tmp_path / "link").symlink_to(campaign_copy)
    before = read_dir(tmp_path)
    expect_refusal(run_publish(campaign_copy, tmp_path / page_dir), "file-exists")
    assert read_dir(tmp_path) == before


def test_current_campaign_directory_is_rejected_as_page(campaign_copy, monkeypatch):
    monkeypatch.chdir(campaign_copy)
    before = read_dir(campaign_copy)
    expect_refusal(run_publish(".", "."), "file-exists")
    assert read_dir(campaign_copy) == before


def test_unreadable_campaign_keeps_the_earlier_page(campaign_copy, tmp_path):
    page_dir = tmp_path / "page"
    before = publish_and_read(campaign_copy, page_dir)
    (campaign_copy / "001-map-64" / "trials.csv").unlink()
    message = expect_refusal(run_publish(campaign_copy, page_dir), "file-not-found")
    assert "001-map-64/trials.csv" in message
    assert {str(p.relative_to(page_dir)): p.read_text() for p in page_dir.rglob("*.*")} == before


def test_failed_replacement_restores_the_earlier_page(campaign, tmp_path, monkeypatch):
    page_dir = tmp_path / "page"
    before = publish_and_read(campaign, page_dir)
    rename = pathlib.Path.rename

    def fail_once(path, target):
        if path.name == "new":
            raise OSError(errno.EBUSY, "busy")
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", fail_once)
    expect_refusal(run_publish(campaign, page_dir), "file-unwritable")
    assert {str(p.relative_to(page_dir)): p.read_text() for p in page_dir.rglob("*.*")} == before
    assert [p.name for p in tmp_path.iterdir()] == ["page"]


def test_strip_number_accepts_four_digits():
    assert [strip_number(n) for n in ("001-a-1", "1234-a", "a-001")] == ["a-1", "a", "a-001"]


POINTS = """\
name: points
title: Sizes and directions
run:
  plugin: ipv6-router
  benchmarks: [throughput]
  frame_sizes: [104, 1518]
  procedure: {repetitions: 2, loss_tolerance: 0.01, invalid_retries: 0}
testbeds:
  model: {tester: {kind: sim, options: {capacity_fps: 400000, capacity_noise: 0.2}}}
experiments:
  - name: directions
    matrix:
      modes: [forward, reverse]
      tester.options.cores: [1, 2]
  - name: again
    run: {modes: [forward], seed: 7}
    matrix:
      tester.options.cores: [1]
"""


def test_every_size_and_direction_has_one_row(tmp_path):
    (tmp_path / "points.yaml").write_text(POINTS)
    done = v6t("campaign", tmp_path / "points.yaml", "--no-report", "-o", tmp_path / "out")
    assert done.status == 0, done.err
    page = publish_and_read(tmp_path / "out", tmp_path / "page")
    text = page["index.md"]
    matching = [
        (f["ipv6_frame_size"], f["direction"], *(f"{f[k]:,.0f}" for k in ("median", "p1", "p99")))
        for run in json.loads(page["summary.json"])["runs"]
        for f in run["results"]
    ]
    assert len(matching) == 10
    assert len({values[2:] for values in matching}) > 5
    lines = [x for x in text.splitlines() if x.startswith("|") and "invalid)" in x]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    rows = [tuple(c.removesuffix(" \\*").removesuffix(" *") for c in row) for row in cells]
    assert [(int(row[2].partition("/")[0]), *row[3:7]) for row in rows] == matching
    assert len({row[:4] for row in rows}) == 10  # no two lines have the same name
    (figure,) = re.findall(r"\((figures/\d+\.svg)\)", text)
    drawn = page[figure]
    assert "1518/1518 octets" in drawn and "reverse" in drawn


def test_introduction_depends_on_the_settings(tmp_path):
    (tmp_path / "points.yaml").write_text(POINTS)
    only = ("--experiment", "again", "--no-report")
    for name, changes in {"short": (), "long": ("--preset", "rfc", "--reps", 20)}.items():
        done = v6t("campaign", tmp_path / "points.yaml", *only, *changes, "-o", tmp_path / name)
        assert done.status == 0, done.err
    pages = [publish_and_read(tmp_path / n, tmp_path / f"{n}-page") for n in ("short", "long")]
    short, long = (page["index.md"] for page in pages)
    assert "not RFC 8219 results" in short
    assert "not RFC 8219 results" not in long
    assert "queues can hide" in short
    assert "queues can hide" not in long
    assert "2 repetitions" in short
    assert "20 repetitions" in long and "Trials of 60 s" in long
    for text in (short, long):
        assert "Both directions" not in text and "other direction is idle" in text
        assert "at most 1 %" in text and "invalid and repeated" not in text
        assert "Every run was simulated" in text
    assert "## Repeat" not in short  # the campaign is not packaged


def test_commands_are_shown_for_packaged_campaigns_only(campaign):
    unpackaged = load_campaign(campaign)
    assert explain_repetition(unpackaged, "results") == ""
    assert explain_repetition(dataclasses.replace(unpackaged, name="zoo"), "results") == ""
    zoo = plan_campaign(list_packaged_campaigns()["zoo"], experiments=("siit",))
    text = explain_repetition(zoo, "my results")
    assert "v6t campaign zoo -o again\n" in text and "v6t compare 'my results' again" in text
    assert "make results MACHINES=1" in text
    assert all(f"{variable}=" in text for _, variable in NAMED.values() if variable != "V6T_TAYGA")
    packaged = list_packaged_campaigns()
    simulated = plan_campaign(packaged["zoo"], experiments=("siit",), tester="sim")
    assert "make results" not in explain_repetition(simulated, "page")
    siit = plan_campaign(packaged["siit"], experiments=("acceptance",), tester="sim")
    assert "--tester sim -o again" in explain_repetition(siit, "page")


def make_record(changes, benchmark="tcp-capacity"):
    return SimpleNamespace(**{**RECORD, "benchmark": benchmark, **changes})


RECORD = {
    "title": "T", "sizes": "84/64", "direction": "both", "unit": "connections", "measured": True, "not_measured": None,
    "invalid_trials": (), "trials": ("a",), "repetitions": 1, "limited": False, "convention": None,
    "offered_rates": (), "rate_origin": "", "is_rate_lowered": False,
    "frame_sizes": SimpleNamespace(ipv6=84, ipv4=64), "figures": (), "loopback": {},
}  # fmt: skip


UNMEASURED = {"measured": False, "not_measured": "it rains"}
IN_FPS = {"unit": FPS, "resolution_fps": 20}


def make_quantity(name, *percentiles):
    return Quantity("", "", (), headline=name, summary=Percentiles(*percentiles))


class FakePresentations:
    """Presentations that read the figures of fake records."""

    def find(self, record):
        return SimpleNamespace(
            format_value=format_count,
            list_quantities=lambda r: r.figures,
            list_loopback_values=lambda r: r.loopback,
        )


def test_table_shows_lower_bounds_and_absent_figures():
    records = {
        "bounded": make_record({"figures": (make_quantity(LOWER_BOUND, 9000.0, 9000.0, 9000.0),)}),
        "found": make_record({"figures": (make_quantity("tcp-capacity", 70.0, 70.0, 70.0),)}),
        "invalid": make_record({**UNMEASURED, "invalid_trials": ("a",)}),
        "undefined": make_record({"figures": (make_quantity("tcp-capacity", None, None, None),)}),
    }
    (table,) = make_tables(records, "tcp-capacity")
    assert {row[1]: row[3] for row in table.rows} == {
        "bounded": "at least 9,000", "found": "70", "invalid": "invalid", "undefined": "undefined",
    }  # fmt: skip
    assert [c.name for c in table.columns][3:6] == ["median", "P1", "P99"]
    assert table.notes == (UNDEFINED_NOTE, "not measured: it rains")

    none = {"figures": (make_quantity("throughput", 0.0, 0.0, 30.0),), **IN_FPS}
    (table,) = make_tables({"slow": make_record(none, "throughput")}, "throughput")
    assert table.rows[0][3:7] == ("< 20", "< 20", "30", "20")

    # resolution_cps is the resolution of the connection rate, not of the table's size
    size = {"figures": (make_quantity("capacity", 0.0, 0.0, 0.0),), "resolution_cps": 20}
    (table,) = make_tables({"none": make_record(size, "capacity")}, "capacity")
    assert table.rows[0][3:] == ("0", "0", "0", "1 (1, 0 invalid)")

    figures = {name: (make_quantity(name, 5.0, 5.0, 5.0),) for name in ("one", "two")}
    other = {n: make_record({"figures": f, "invalid_trials": ("a",)}) for n, f in figures.items()}
    (table,) = make_tables(other, "tcp-capacity")
    assert [row[3:5] for row in table.rows] == [("5", "-"), ("-", "5")]


def test_delay_table_contains_the_offered_rate():
    figure = {"figures": (make_quantity("TL forward", 0.1, 0.1, 0.1),)}
    slow = {**figure, "offered_rates": (30_000.0,)}
    fast = {**figure, "offered_rates": (75_000.0,), "is_rate_lowered": True}
    records = {"slow": make_record(slow, "latency"), "fast": make_record(fast, "latency")}
    for record in records.values():
        record.rate_origin = "P1 of the throughput"
    (table,) = make_tables(records, "latency")
    assert [c.name for c in table.columns][3] == "offered\nfps per direction"
    assert {row[1]: row[3] for row in table.rows} == {"slow": "30,000", "fast": "75,000, lowered"}
    source, lowered, comparison = table.notes
    assert source.startswith("offered: P1")
    assert lowered.startswith("lowered: ")
    assert "compare" in comparison


def test_delay_table_contains_percentiles_and_tester_without_device():
    """Percentiles show an outlier that the median of three values hides."""
    delays = [make_quantity(f"TL {name}", 7.0, 6.0, 900.0) for name in ("forward", "reverse")]
    records = {
        "slow": make_record({"unit": "ms", "figures": delays, "repetitions": 3, "loopback": {"TL forward": 2.0, "TL reverse": 1.0}}, "latency"),
        "invalid": make_record({"unit": "ms", "figures": delays, "loopback": {"TL forward": 2.0, "TL reverse": None}}, "latency"),
        "once": make_record({"unit": "ms", "figures": delays}, "latency"),
    }  # fmt: skip
    (table,) = make_tables(records, "latency")
    heads = [c.name.replace("\n", " ") for c in table.columns]
    assert heads[3:6] == [
        "TL forward median (P1-P99)", "TL reverse median (P1-P99)", "TL tester alone",
    ]  # fmt: skip
    assert {row[1]: row[3:6] for row in table.rows} == {
        "slow": ("7 (6-900)", "7 (6-900)", "2"),
        "invalid": ("7", "7", "undefined"),
        "once": ("7", "7", "-"),
    }
    assert table.notes == (UNDEFINED_NOTE, LOOPBACK_NOTE)


@pytest.mark.parametrize("p99", [900.0, None])
def test_undefined_percentile_is_marked_in_the_figure(p99):
    figures = [make_quantity("PDV", 7.0, 6.0, p99)]
    records = {"a": make_record({"unit": "ms", "figures": figures}, "pdv")}
    (drawing,) = (b for b in make_blocks(records, "pdv") if isinstance(b, Drawing))
    assert ("P99 undefined" in drawing.svg) == (p99 is None)


def test_undefined_percentile_is_marked_in_the_legend():
    points = [(1.0, Percentiles(7.0, 6.0, None)), (2.0, Percentiles(7.0, 6.0, 9.0))]
    curve = make_summary_curve(0, "a", points)
    assert "P99 undefined" in curve.label and curve.bars == [[1.0, 1.0], [0.0, 2.0]]
    assert make_summary_curve(0, "a", points[1:]).label == "a"


def test_median_without_percentiles_has_no_bar():
    curve = make_summary_curve(0, "a", [(1.0, Percentiles(7.0, None, None))])
    assert (curve.label, curve.bars) == ("a", [[0.0], [0.0]])


def test_rate_of_zero_is_not_drawn():
    none = {"figures": (make_quantity("throughput", 0.0, 0.0, 0.0),), **IN_FPS}
    some = {"figures": (make_quantity("throughput", 90.0, 80.0, 95.0),), **IN_FPS}
    records = {"none": make_record(none, "throughput"), "some": make_record(some, "throughput")}
    (drawing,) = (b for b in make_blocks(records, "throughput") if isinstance(b, Drawing))
    assert "p: some" in drawing.svg and "p: none" not in drawing.svg
    assert "(linear axis)" in drawing.svg and "not drawn: 1" in drawing.caption
    far = {"figures": (make_quantity("throughput", 9000.0, 9000.0, 9000.0),), "unit": FPS}
    wide = {**records, "far": make_record(far, "throughput")}
    (drawing,) = (b for b in make_blocks(wide, "throughput") if isinstance(b, Drawing))
    assert "(logarithmic axis)" in drawing.svg
    unmeasured = make_blocks({"none": records["none"]}, "throughput")
    assert not [block for block in unmeasured if isinstance(block, Drawing)]


def test_unmeasured_record_is_in_the_table_with_its_reason():
    """A record without values has no unit and would be alone in a table."""
    ms = {"unit": "ms", "figures": (make_quantity("PDV forward", 1.0, 1.0, 1.0),)}
    none = make_record({**UNMEASURED, "unit": None}, "pdv")
    (table,) = make_tables({"none": none, "slow": make_record(ms, "pdv")}, "pdv")
    assert table.title == "pdv, ms"
    assert {row[1]: row[3] for row in table.rows} == {"none": "-", "slow": "1"}
    assert table.notes == ("not measured: it rains",)
    (table,) = make_tables({"none": none}, "pdv")
    assert table.title == "pdv"


def make_tables(records, benchmark):
    """Return the tables of a page whose runs, by device name, have these records."""
    return [b for b in make_blocks(records, benchmark) if isinstance(b, Table)]


def make_blocks(records, benchmark):
    """Return the blocks of a page, including figures."""
    runs = [
        SimpleNamespace(
            directory=f"00{n}-x", experiment="x", axes={}, records=[record],
            data=SimpleNamespace(config={"plugin": "p", "dut": {"driver": name}}),
        )
        for n, (name, record) in enumerate(records.items())
    ]  # fmt: skip
    rows = list(build_rows(benchmark, runs, FakePresentations(), {}))
    return list(present_benchmark(benchmark, rows, "x"))


def test_invalid_trials_and_limited_rates_are_counted(campaign, page):
    text = (page / "index.md").read_text()
    runs = json.loads((campaign / "summary.json").read_text())["runs"]
    figures = [figure for run in runs for figure in run["results"]]
    points = {(r["directory"], f["benchmark"]): f for r in runs for f in r["results"]}
    trials, invalid = (sum(f[k] for f in points.values()) for k in ("trials", "invalid_trials"))
    assert re.search(rf"Of {trials} trials, {invalid} were invalid(: \d+ because [^.]+)?\.", text)
    limited = sum(f["limited"] for f in figures if f["benchmark"] == "throughput")
    assert (f"{limited} of 3 rates are marked" in text) == bool(limited)


def test_devices_with_a_different_kernel_are_listed():
    def run(name, system, **more):
        device = {"kind": name, "system": system, "version": "1", **more}
        return SimpleNamespace(data=SimpleNamespace(
            manifest={"tester": {"kernel": "6.18.44", "device": device}},
            results={"caveats": [SHARED_CORES_WARNING]}, simulated=False,
        ))  # fmt: skip

    machine = "Linux 6.1.0-56-cloud-amd64, in QEMU without hardware acceleration"
    edge, provider = {"kind": "nat46", "system": machine}, {"system": "Linux 6.18.44"}
    parts = {"parts": {"ce": edge, "pe": provider}}
    runs = [run("jool", machine), run("tayga", "Linux 6.18.44"), run("chain", "", **parts)]
    sentences = [b.text for b in describe_machines(runs)]
    assert len(sentences) == 2
    assert machine in sentences[1]


def test_zoo_campaign_covers_drivers_and_technologies_of_lab():
    """Unlike campaigns of papers, it needs no testbed."""
    runs = plan_campaign(list_packaged_campaigns()["zoo"]).runs
    pairs = [(r.config["plugin"], r.config["dut"]["driver"]) for r in runs]
    for plugin, driver in pairs:
        assert can_configure(driver, plugin) or driver == "reference"
    other_drivers = {"network-cli", "command", "cable", "reference"}  # no specific lab device
    lab_drivers = set(list_driver_names()) - other_drivers
    assert not {(t, d) for d in lab_drivers for t in list_technologies(d)} - set(pairs)
    assert all(r.config["tester"]["kind"] == "embedded" for r in runs)
    assert {r.config["procedure"]["trial_duration_s"] for r in runs} == {3}
