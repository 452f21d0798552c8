"""A campaign as a page: everything that was measured, nothing of where; comparisons and trends read it."""

from __future__ import annotations

import csv
import json
import re

import jsonschema
import pytest
from v6t.analysis.report.machine_readable import schema
from v6t.core.campaigns.campaign import Overrides, lay_out
from v6t.core.campaigns.packaged import packaged
from v6t.core.campaigns.publish import name_of
from v6t.drivers.duts.registry import driver_type

from .support import complaint, v6t

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
def made(tmp_path_factory):
    """A campaign whose last run failed, for a reason that names a place."""
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
def page(made, tmp_path_factory):
    """What is published of it."""
    place = tmp_path_factory.mktemp("page") / "results"
    done = v6t("report", made, "--publish", place)
    assert done.status == 0, done.err
    return place


def test_the_page_has_every_figure_and_says_what_they_mean(made, page):
    text = (page / "index.md").read_text()
    summary = json.loads((made / "summary.json").read_text())
    rates = [f for r in summary["runs"] for f in r["results"] if f["benchmark"] == "throughput"]
    assert len(rates) == 3
    for found in rates:
        assert f"| {found['median']:,.0f} | {found['p1']:,.0f} | {found['p99']:,.0f} |" in text
    assert "no results of RFC 8219" in text
    assert "3 repetitions stand where" in text
    assert "mape-br, 64" in text
    assert "* ipv6-router: reference: x cannot be read" in text
    assert "More customers." in text
    figures = re.findall(r"!\[.+?\]\((figures/\d+\.svg)\)", text)
    assert len(figures) == 1  # delays of two directions are a table
    assert (page / figures[0]).read_text().startswith("<svg ")
    for link in re.findall(r"\]\((\S+?)\)", text):
        assert (page / link).is_file()


def test_every_trial_has_its_line(made, page):
    rows = list(csv.DictReader((page / "trials.csv").open()))
    own = {
        name_of(path.parent.name): sum(1 for _ in path.open()) - 1
        for path in made.glob("*/trials.csv")
    }
    assert len(own) == 3
    assert {name: sum(r["run"] == name for r in rows) for name in own} == own


def test_nothing_says_where_it_was_made(made, page):
    files = [path for path in page.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert "secret-place" not in path.read_text(), path
        assert path.stat().st_mode & 0o077 == 0o044  # read by all


def test_a_published_run_keeps_no_way_to_a_device(made, tmp_path):
    config = made / "001-map-64" / "config.json"
    before = config.read_text()
    content = json.loads(before)
    content["dut"]["options"] = {"ssh": {"host": "dut.example.net", "user": "me"}}
    content["tester"]["options"]["trex_dir"] = "/opt/secret/v3.08"
    config.write_text(json.dumps(content))
    try:
        assert v6t("report", made, "--publish", tmp_path / "page").status == 0
    finally:
        config.write_text(before)
    kept = json.loads((tmp_path / "page" / "map-64" / "config.json").read_text())
    assert kept["dut"]["options"] == {}
    assert kept["tester"]["options"]["trex_dir"] == "v3.08"


def test_campaigns_are_compared_run_by_run(made, page):
    told = json.loads(v6t("compare", "--json", page, made).out)
    jsonschema.validate(told, schema("comparison-1"))
    rates = [line for line in told["lines"] if line["what"] == "rate"]
    assert [line["benchmark"] for line in rates] == [
        "map-128: throughput",
        "map-64: throughput",
        "router: throughput",
    ]
    assert all(line["first"] == line["second"] for line in told["lines"])
    assert not any(line["improved"] for line in told["lines"])
    one = v6t("compare", "--json", page / "map-64", made / "001-map-64")
    assert [x["second"] for x in json.loads(one.out)["lines"] if x["what"] == "rate"] == [
        rates[1]["second"]
    ]


def test_the_trend_of_campaigns_is_one_for_each_run(made, page):
    told = json.loads(v6t("trend", "--json", "--by", "given", *[page] * 9, *[made] * 9).out)
    jsonschema.validate(told, schema("trend-1"))
    assert {s["point"].partition(":")[0] for s in told["series"]} == {"map-64", "map-128", "router"}
    assert all(len(s["values"]) == 18 and not s["changes"] for s in told["series"])


def test_a_page_replaces_an_earlier_one_and_nothing_else(made, page, tmp_path):
    place = tmp_path / "page"
    assert v6t("report", made, "--publish", place).status == 0
    (place / "gone").mkdir()
    (place / "gone" / "config.json").write_text("{}")
    assert v6t("report", made, "--publish", place).status == 0
    assert sorted(p.name for p in place.iterdir()) == sorted(p.name for p in page.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    said = complaint(v6t("report", made, "--publish", tmp_path / "mine"))
    assert "holds something else" in said
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_the_zoo_stands_in_the_lab_and_every_driver_takes_its_technology():
    """No testbed is asked for, other than of the papers' campaigns."""
    runs = lay_out(packaged()["zoo"], Overrides()).runs
    pairs = [(r.config["plugin"], r.config["dut"]["driver"]) for r in runs]
    for plugin, driver in pairs:
        assert plugin in driver_type(driver).technologies or driver == "reference"
    lacking = {
        (t, d)
        for d in ("linux-router", "nftables", "iptables", "tayga", "tayga-nftables", "nftables66", "ip6tables-npt", "vpp",
                  "bind9", "knot-resolver", "pdns-recursor", "unbound", "chain")
        for t in driver_type(d).technologies
    } - set(pairs)  # fmt: skip
    assert not lacking
    assert all(r.config["tester"]["kind"] == "embedded" for r in runs)
