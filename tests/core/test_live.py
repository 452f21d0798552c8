"""The live view: pages, access control and robustness."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from v6t.analysis.report import run as run_report
from v6t.core.campaigns import results
from v6t.core.campaigns.campaign import create_campaign, plan_campaign, run_campaign
from v6t.core.cli.campaign_console import CampaignExecution
from v6t.core.config.run_setup import make_setup
from v6t.core.reporting.live import PAGE_HTML, LiveView, is_own_host, parse_address
from v6t.core.runs.events import CompositeListener, Listener, RunDataCollector
from v6t.core.runs.runner import execute
from v6t.procedures.trial_runner import Progress
from v6t.tests.core import warm
from v6t.tests.core.support import simulate, v6t
from v6t.tests.expect import expect_error, expect_refusal
from v6t.trials.verdict import Verdict

from .browser import open_page


class Heard(Listener):
    """Counts what happens."""

    def __init__(self):
        self.messages, self.steps = [], 0

    def on_message(self, text):
        self.messages.append(text)

    def on_step_end(self, progress):
        self.steps += 1


def asked(url, path="/", method="GET", **headers):
    """Request a path; return status, headers and text of the answer."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def view(tmp_path):
    with LiveView(("127.0.0.1", 0), tmp_path / "run") as made:
        yield made


def run_of(path, watch, **options):
    procedure = {"repetitions": 3, "resolution_fps": 20_000.0}
    run = simulate(device=options, modes=("forward",), procedure=procedure)
    return execute(make_setup(run), path, watch)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("127.0.0.1", 8219)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":0", ("127.0.0.1", 0)),
        ("192.0.2.1", ("192.0.2.1", 8219)),
        ("[::1]:99", ("::1", 99)),
        ("::1", ("::1", 8219)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["run.yaml", "host:80", "127.0.0.1:x", "127.0.0.1:70000", "[::1]:x", "[::1"]
)
def test_invalid_live_address_is_rejected_without_files(text, tmp_path):
    with expect_error("wrong-form", mentions="ADDRESS:PORT"):
        parse_address(text)
    done = v6t("run", "--plugin", "mape-br", "--tester", "sim", "-o", tmp_path / "out",
               f"--live={text}")  # fmt: skip
    assert done.status == 2 and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (("127.0.0.1:80", "localhost:80", "[::1]:80", "192.0.2.7:80"), True),
        (("", "localhost", "127.0.0.1:81", "evil.example:80", "127.0.0.1.evil.example:80"), False),
    ],
)
def test_host_header_must_be_address_or_localhost(hosts, expected):
    assert [is_own_host(host, 80) for host in hosts] == [expected] * len(hosts)


def test_only_three_paths_are_served(view, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert asked(view.url)[0] == asked(view.url, "/now")[0] == asked(view.url, "/report")[0] == 200
    for path in ("/config.json", "/../config.json", "/run/", "/now/", "/?x"):
        assert asked(view.url, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert asked(view.url, method=method)[0] == 501


def test_foreign_host_header_is_rejected(view):
    status, _, text = asked(view.url, "/report", Host="rebound.example:8219")
    assert status == 421 and "report" not in text
    port = urlsplit(view.url).port
    assert asked(view.url, "/now", Host=f"localhost:{port}")[0] == 200


def test_content_security_policy_forbids_other_hosts(view):
    _, head, page = asked(view.url)
    policy = head["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert head["X-Content-Type-Options"] == "nosniff" and head["Cache-Control"] == "no-store"
    assert re.findall(r'(?:src|href)="', page) == []
    assert "Python" not in head["Server"]


def test_only_remote_addresses_give_a_warning(tmp_path):
    heard = Heard()
    with LiveView(("127.0.0.1", 0), tmp_path, heard.on_message):
        pass
    assert [line[:5] for line in heard.messages] == ["live:"]
    heard = Heard()
    with LiveView(("0.0.0.0", 0), tmp_path, heard.on_message):  # noqa: S104
        pass
    assert "everybody who reaches" in heard.messages[0] and "without password" in heard.messages[0]


def test_occupied_port_is_rejected(view, tmp_path):
    port = urlsplit(view.url).port
    with expect_error("socket-failed"):
        LiveView(("127.0.0.1", port), tmp_path)


def test_idle_clients_do_not_block_others(view):
    where = urlsplit(view.url)
    idle = [socket.create_connection((where.hostname, where.port)) for _ in range(8)]
    try:
        assert asked(view.url, "/now")[0] == 200
    finally:
        for one in idle:
            one.close()


def test_live_view_ends_with_run(tmp_path):
    with LiveView(("127.0.0.1", 0), tmp_path) as view:
        url = view.url
    with pytest.raises(OSError, match="."):
        asked(url)
    assert not [t for t in threading.enumerate() if t.name == "v6t-live"]


@pytest.mark.slow
def test_report_is_built_only_on_request(tmp_path, monkeypatch):
    made = []
    build = run_report.build_document

    def count(data, *args, **options):
        made.append(data.name)
        return build(data, *args, **options)

    monkeypatch.setattr(run_report, "build_document", count)
    heard = Heard()
    with LiveView(("127.0.0.1", 0), tmp_path / "alone") as view:
        run_of(tmp_path / "alone", CompositeListener(view, heard))
    assert made == [] and heard.steps > 5 and len(heard.messages) > 2
    with LiveView(("127.0.0.1", 0), tmp_path / "seen") as view:
        asked(view.url)
        run_of(tmp_path / "seen", view)
        state = json.loads(asked(view.url, "/now")[2])
        _, _, report = asked(view.url, "/report")
    assert made and set(made) == {"seen"}
    assert "MAP-E border relay" in report and "<svg" not in report
    assert state["title"] == "v6t: seen" and state["version"] >= 1
    assert state["trials"][0].startswith("104/forward 3/3")
    # making it takes a twentieth of the time at most: not once for each trial
    assert len(made) < heard.steps


def test_failing_report_does_not_stop_run(tmp_path):
    def broken():
        raise ValueError("a presentation of somebody else")

    with LiveView(("127.0.0.1", 0), tmp_path) as view:
        view.on_run_data(broken)
        asked(view.url)
        view.on_message("on and on")
        assert "report appears" in asked(view.url, "/report")[2]
        assert json.loads(asked(view.url, "/now")[2])["now"] == "on and on"


@pytest.mark.slow
def test_a_browser_follows_the_run(tmp_path):
    ended = threading.Event()

    def measure(view):
        while not ended.is_set():
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            run_of(tmp_path / "run", view, trial_delay_s=0.05)

    with LiveView(("127.0.0.1", 0), tmp_path / "run") as view:
        asked(view.url)  # somebody looks, from the first trial on
        running = threading.Thread(target=measure, args=(view,))
        running.start()
        try:
            for _ in range(600):
                state = json.loads(asked(view.url, "/now")[2])
                # self-tests come before and are not listed
                if state["version"] and state["trials"]:
                    break
                time.sleep(0.1)
            else:
                pytest.fail("no trial of the run was listed")
            options = ("--dump-dom", "--virtual-time-budget=8000")
            done = open_page(view.url, tmp_path / "profile", *options)
            page = done.stdout
        finally:
            ended.set()
            running.join()
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "MAP-E border relay" in page
    assert re.search(r'<ul id="trials"><li>104/forward \d/3 step', page)
    assert re.search(r'<p id="now"[^>]*>[^<]*104', page)


LIVE = re.compile(r"live: (\S+)")
CAMPAIGN = """\
name: followed
title: A campaign that is followed
run: {plugin: mape-br, modes: [forward]}
testbeds:
  model:
    tester: {kind: sim, options: {trial_delay_s: 0.1}}
experiments:
  - name: customers
    matrix: {procedure.repetitions: [1, 30]}
"""
TWO_BEDS = """\
name: two
title: Two at a time
run: {plugin: mape-br, modes: [forward], procedure: {repetitions: 1}}
testbeds:
  one: {tester: {kind: sim, options: {trial_delay_s: 0.2}}}
  two: {tester: {kind: sim, options: {trial_delay_s: 0.05}}}
experiments:
  - {name: first, testbed: one}
  - {name: second, testbed: two}
"""


def poll_page(url, now):
    """Wait until the page shows a message and one finished run; return its state and report."""
    for _ in range(600):
        state = json.loads(asked(url, "/now")[2])
        report = asked(url, "/report")[2]
        if re.fullmatch(now, state["now"]) and "1 of 2" in report:
            return state, report
        time.sleep(0.05)
    pytest.fail("the second run was never shown")


@pytest.mark.slow
def test_a_campaign_is_followed(tmp_path):
    """The report, built in a separate process, covers the finished runs."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    out = tmp_path / "out"
    words = ["campaign", str(tmp_path / "campaign.yaml"), "-o", str(out), "--no-report"]
    with warm.Process([*words, "--live=127.0.0.1:0"], stderr=subprocess.PIPE) as campaign:
        try:
            lines = (found[1] for line in campaign.stderr if (found := LIVE.match(line)))
            url = next(lines, None)
            assert url is not None, "no page"
            threading.Thread(target=campaign.stderr.read, daemon=True).start()
            state, report = poll_page(url, r"002-customers-30: .*")
        finally:
            campaign.terminate()
    assert (state["title"], state["version"] >= 1) == ("v6t: out", True)
    assert "A campaign that is followed" in report
    assert "report.html" not in report  # what is not served is not linked


def campaign_in(tmp_path, text=CAMPAIGN):
    (tmp_path / "campaign.yaml").write_text(text)
    campaign = plan_campaign(tmp_path / "campaign.yaml")
    create_campaign(campaign, tmp_path / "out")
    return campaign, tmp_path / "out"


def test_workers_of_a_campaign_are_followed(tmp_path):
    """One worker has ended; the other has begun."""
    campaign, directory = campaign_in(tmp_path, TWO_BEDS.replace("0.2", "0.0").replace("0.05", "0"))
    assert run_campaign(directory, campaign.runs, Listener()) == []
    manifest = directory / campaign.runs[0].directory / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "status": "running"}))
    execution, ended = CampaignExecution(campaign, directory, report=False), threading.Event()
    worker = SimpleNamespace(poll=lambda: 0 if ended.is_set() else None)
    with execution.serve_page("127.0.0.1:0"):
        following = threading.Thread(target=execution._show_worker_progress, args=([worker],))
        following.start()
        try:
            poll_page(execution._view.url, r"1 of 2 runs are complete; now 001-first")
        finally:
            ended.set()
            following.join()


@pytest.mark.parametrize("text", [CAMPAIGN, TWO_BEDS], ids=["one testbed", "two testbeds"])
def test_occupied_port_is_rejected_before_campaign(view, tmp_path, text):
    page = "--live=" + urlsplit(view.url).netloc
    (tmp_path / "campaign.yaml").write_text(text)
    done = v6t("campaign", tmp_path / "campaign.yaml", "-o", tmp_path / "out", page)
    expect_refusal(done, "socket-failed")
    assert not (tmp_path / "out").exists()
    _, directory = campaign_in(tmp_path, text)
    for wrong in (page, "--live=host:80"):
        assert v6t("campaign", "--resume", directory, wrong).status == 2
    assert [path.name for path in directory.iterdir()] == ["campaign.json"]


def test_page_is_built_once_per_finished_run(tmp_path):
    made = []
    seen = iter([("a", 0), ("b", 1), ("c", 1), ("d", 2)])
    with LiveView(("127.0.0.1", 0), tmp_path, render=lambda: made.append(1) or "x") as view:
        view.show_progress(lambda: pytest.fail("nobody looks"))
        for pages in (0, 1, 1, 2):
            asked(view.url, "/now")
            view.show_progress(lambda: next(seen))
            assert len(made) == pages
        assert json.loads(asked(view.url, "/now")[2])["now"] == "d"


def test_messages_of_runs_are_kept_apart(tmp_path):
    with LiveView(("127.0.0.1", 0), tmp_path) as view:
        over = Verdict(passed=True, valid=True)
        view.on_run_start("001-first")
        view.on_step_end(Progress("throughput/1/forward", 1, 1, 1, 2, 1.0, 9.0, 5.0, over))
        view.on_run_start("002-second")
        view.on_message("run 2 of 2")
        state = json.loads(asked(view.url, "/now")[2])
        assert state["now"].startswith("002-second: ")
        assert state["trials"] == []
        view.on_run_start("")
        view.on_message("the report")
        assert json.loads(asked(view.url, "/now")[2])["now"] == "the report"


def test_complete_runs_are_read_once_despite_damaged_run(tmp_path, monkeypatch):
    campaign, directory = campaign_in(tmp_path, CAMPAIGN.replace("0.1", "0.0"))
    assert run_campaign(directory, campaign.runs, Listener()) == []
    (directory / campaign.runs[1].directory / "config.json").write_text("{")
    read, load = [], results.load_run
    monkeypatch.setattr(results, "load_run", lambda path: read.append(path.name) or load(path))
    kept = RunDataCollector()
    for _ in range(3):
        page = results.render_page(directory, campaign, kept)
    first, second = (run.directory for run in campaign.runs)
    assert read.count(first) == 1 and read.count(second) == 3
    assert f"{second}" in page
    assert "1 of 2" in page


def test_replaced_sections_are_laid_out_immediately():
    """A page whose parts had to be seen to be laid out would jump at each update."""
    assert "#report section, #report figure { content-visibility: visible; }" in PAGE_HTML
