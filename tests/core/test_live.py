"""The live view: pages, access control and robustness."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from v6t.core.campaigns import results
from v6t.core.campaigns.campaign import create_campaign, plan_campaign, run_campaign
from v6t.core.cli.campaign_console import CampaignExecution
from v6t.core.config.run_setup import make_setup
from v6t.core.reporting import live
from v6t.core.reporting.live import PAGE_HTML, LiveView, is_own_host, parse_address
from v6t.core.runs.events import CompositeListener, Listener, RunDataCollector
from v6t.core.runs.runner import execute
from v6t.procedures.trial_runner import Progress
from v6t.tests.core.support import open_page, simulate, start_v6t, v6t, wait_until
from v6t.tests.expect import expect_refusal
from v6t.trials.verdict import Verdict

LOOPBACK = ("127.0.0.1", 0)


def request(url, path="/", method="GET", **headers):
    """Request a path; return status, headers and text of the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()


def read_state(url):
    """Request the live state that the page shows next to the report."""
    return json.loads(request(url, "/now")[2])


@pytest.fixture
def view(tmp_path):
    with LiveView(LOOPBACK, tmp_path / "run") as view:
        yield view


def measure(path, listener, **options):
    procedure = {"repetitions": 3, "resolution_fps": 20_000.0}
    run = simulate(device=options, modes=("forward",), procedure=procedure)
    return execute(make_setup(run), path, listener)


@pytest.mark.parametrize(("text", "address"), [
    ("", ("127.0.0.1", 8219)), ("127.0.0.1:80", ("127.0.0.1", 80)), (":0", ("127.0.0.1", 0)),
    ("192.0.2.1", ("192.0.2.1", 8219)), ("[::1]:99", ("::1", 99)), ("::1", ("::1", 8219)),
])  # fmt: skip
def test_live_address_is_parsed(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(("hosts", "expected"), [
    (("127.0.0.1:80", "localhost", "[::1]:80", "192.0.2.7"), True),
    (("", "localhost:81", "127.0.0.1:81", "x.example:80", "127.0.0.1.evil.example:80"), False),
])  # fmt: skip
def test_host_header_must_be_address_or_localhost(hosts, expected):
    assert [is_own_host(host, 80) for host in hosts] == [expected] * len(hosts)


def test_only_three_paths_are_served(view, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert [request(view.url, path)[0] for path in ("/", "/now", "/report")] == [200] * 3
    for path in ("/config.json", "/../config.json", "/run/", "/now/", "/?x"):
        assert request(view.url, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert request(view.url, method=method)[0] == 501


def test_foreign_host_header_is_rejected(view):
    status, _, text = request(view.url, "/report", Host="rebound.example:8219")
    assert status == 421 and "report" not in text
    port = urlsplit(view.url).port
    assert request(view.url, "/now", Host=f"localhost:{port}")[0] == 200


def test_content_security_policy_forbids_other_hosts(view):
    _, head, page = request(view.url)
    policy = head["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert head["X-Content-Type-Options"] == "nosniff" and head["Cache-Control"] == "no-store"
    assert re.findall(r'(?:src|href)="', page) == []
    assert "Python" not in head["Server"]


def test_only_remote_addresses_give_a_warning(tmp_path):
    messages = []
    with LiveView(LOOPBACK, tmp_path, messages.append):
        pass
    assert [line[:5] for line in messages] == ["live:"]
    with LiveView(("0.0.0.0", 0), tmp_path, messages.append):  # noqa: S104
        pass
    assert "any host that reaches" in messages[1] and "without password" in messages[1]


def test_idle_clients_do_not_block_others(view):
    address = urlsplit(view.url)
    with contextlib.ExitStack() as idle:
        for _ in range(8):
            idle.enter_context(socket.create_connection((address.hostname, address.port)))
        assert request(view.url, "/now")[0] == 200


def test_live_view_ends_with_run(tmp_path):
    with LiveView(LOOPBACK, tmp_path) as view:
        pass
    with pytest.raises(OSError, match="."):
        request(view.url)
    assert not [t for t in threading.enumerate() if t.name == "v6t-live"]


@pytest.mark.slow
def test_report_is_built_only_on_request(tmp_path, monkeypatch):
    listener, build = Mock(Listener), Mock(wraps=live.build_document)
    monkeypatch.setattr(live, "build_document", build)
    with LiveView(LOOPBACK, tmp_path / "alone") as view:
        measure(tmp_path / "alone", CompositeListener(view, listener))
    assert build.call_count == 0
    assert listener.on_step_end.call_count > 5 and listener.on_message.call_count > 2
    with LiveView(LOOPBACK, tmp_path / "seen") as view:
        request(view.url)
        measure(tmp_path / "seen", view)
        state = read_state(view.url)
        _, _, report = request(view.url, "/report")
    assert {call.args[0].name for call in build.call_args_list} == {"seen"}
    assert "MAP-E border relay" in report and "<svg" not in report
    assert state["title"] == "v6t: seen" and state["version"] >= 1
    assert state["trials"][0].startswith("104/forward 3/3")
    # building takes at most a twentieth of the time, so not once for each trial
    assert build.call_count < listener.on_step_end.call_count


def test_failing_report_does_not_stop_run(tmp_path):
    broken = Mock(side_effect=ValueError("a presentation of another distribution"))
    with LiveView(LOOPBACK, tmp_path) as view:
        view.on_run_data(broken)
        request(view.url)
        view.on_message("on and on")
        assert "report appears" in request(view.url, "/report")[2]
        assert read_state(view.url)["now"] == "on and on"


@pytest.mark.slow
def test_browser_follows_run(tmp_path):
    ended = threading.Event()

    def measure_again(view):
        while not ended.is_set():
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            measure(tmp_path / "run", view, trial_delay_s=0.05)

    with LiveView(LOOPBACK, tmp_path / "run") as view:
        request(view.url)  # the page is open from the first trial on
        running = threading.Thread(target=measure_again, args=(view,))
        running.start()
        try:
            # self-tests come first and are not listed
            wait_for_state(view.url, lambda state: state["version"] and state["trials"])
            options = ("--dump-dom", "--virtual-time-budget=8000")
            browser = open_page(view.url, tmp_path / "profile", *options)
        finally:
            ended.set()
            running.join()
    assert "CONSOLE" not in browser.stderr, browser.stderr
    assert "MAP-E border relay" in browser.stdout
    assert re.search(r'<ul id="trials"><li>104/forward \d/3 step', browser.stdout)
    assert re.search(r'<p id="now"[^>]*>[^<]*104', browser.stdout)


def wait_for_state(url, condition):
    """Wait until a condition accepts the state of the page, and return this state."""
    return wait_until(lambda: condition(state := read_state(url)) and state)


CAMPAIGN = """\
name: followed
title: A campaign that is followed
run: {plugin: mape-br, modes: [forward]}
testbeds: {model: {tester: {kind: sim, options: {trial_delay_s: 0.1}}}}
experiments: [{name: customers, matrix: {procedure.repetitions: [1, 30]}}]
"""
TWO_BEDS = """\
name: two
run: {plugin: mape-br, modes: [forward], procedure: {repetitions: 1}}
testbeds:
  one: {tester: {kind: sim, options: {trial_delay_s: 0.2}}}
  two: {tester: {kind: sim, options: {trial_delay_s: 0.05}}}
experiments:
  - {name: first, testbed: one}
  - {name: second, testbed: two}
"""


def wait_for_second_run(url, now):
    """Wait until the page shows a message and one finished run; return its state and report."""
    state = wait_for_state(
        url,
        lambda state: re.fullmatch(now, state["now"]) and "1 of 2" in request(url, "/report")[2],
    )
    return state, request(url, "/report")[2]


@pytest.mark.slow
def test_live_page_follows_campaign(tmp_path):
    """The report, built in a separate process, covers the finished runs."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    out = tmp_path / "out"
    words = ("campaign", tmp_path / "campaign.yaml", "-o", out, "--no-report", "--live=127.0.0.1:0")
    with start_v6t(*words, stderr=subprocess.PIPE) as campaign:
        try:
            line = next((line for line in campaign.stderr if line.startswith("live: ")), None)
            assert line is not None, "no page"
            threading.Thread(target=campaign.stderr.read, daemon=True).start()
            state, report = wait_for_second_run(line.split()[1], r"002-customers-30: .*")
        finally:
            campaign.terminate()
    assert (state["title"], state["version"] >= 1) == ("v6t: out", True)
    assert "A campaign that is followed" in report
    assert "report.html" not in report  # files that are not served are not linked


def make_campaign(tmp_path, text):
    (tmp_path / "campaign.yaml").write_text(text)
    campaign = plan_campaign(tmp_path / "campaign.yaml")
    create_campaign(campaign, tmp_path / "out")
    return campaign, tmp_path / "out"


def measure_campaign(tmp_path, text):
    campaign, directory = make_campaign(tmp_path, re.sub(r"trial_delay_s: [\d.]+", "", text))
    assert run_campaign(directory, campaign.runs, Listener()) == []
    return campaign, directory


def test_live_page_follows_workers_of_campaign(tmp_path):
    """One worker has ended; the other has begun."""
    campaign, directory = measure_campaign(tmp_path, TWO_BEDS)
    manifest = directory / campaign.runs[0].directory / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "status": "running"}))
    execution, ended = CampaignExecution(campaign, directory, report=False), threading.Event()
    worker = SimpleNamespace(poll=lambda: 0 if ended.is_set() else None)
    with execution.serve_page("127.0.0.1:0"):
        following = threading.Thread(target=execution._show_worker_progress, args=([worker],))
        following.start()
        try:
            wait_for_second_run(execution._view.url, r"1 of 2 runs are complete; now 001-first")
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
    _, directory = make_campaign(tmp_path, text)
    for invalid in (page, "--live=host:80"):
        assert v6t("campaign", "--resume", directory, invalid).status == 2
    assert [path.name for path in directory.iterdir()] == ["campaign.json"]


def test_page_is_built_once_per_finished_run(tmp_path):
    render = Mock(return_value="x")
    get_progress = Mock(side_effect=[("a", 0), ("b", 1), ("c", 1), ("d", 2)])
    with LiveView(LOOPBACK, tmp_path, render=render) as view:
        view.show_progress(get_progress)
        assert not get_progress.called  # no page is open
        for pages in (0, 1, 1, 2):
            request(view.url, "/now")
            view.show_progress(get_progress)
            assert render.call_count == pages
        assert read_state(view.url)["now"] == "d"


def test_live_page_shows_messages_of_current_run_only(tmp_path):
    with LiveView(LOOPBACK, tmp_path) as view:
        verdict = Verdict(passed=True, valid=True)
        view.on_run_start("001-first")
        view.on_step_end(Progress("throughput/1/forward", 1, 1, 1, 2, 1.0, 9.0, 5.0, verdict))
        view.on_run_start("002-second")
        view.on_message("run 2 of 2")
        state = read_state(view.url)
        assert state["now"].startswith("002-second: ") and state["trials"] == []
        view.on_run_start("")
        view.on_message("the report")
        assert read_state(view.url)["now"] == "the report"


def test_complete_runs_are_read_once_despite_damaged_run(tmp_path, monkeypatch):
    campaign, directory = measure_campaign(tmp_path, CAMPAIGN)
    (directory / campaign.runs[1].directory / "config.json").write_text("{")
    load = Mock(wraps=results.load_run)
    monkeypatch.setattr(results, "load_run", load)
    data = RunDataCollector()
    for _ in range(3):
        page = results.render_page(directory, campaign, data)
    first, second = (run.directory for run in campaign.runs)
    assert Counter(call.args[0].name for call in load.call_args_list) == {first: 1, second: 3}
    assert second in page and "1 of 2" in page


def test_replaced_sections_are_laid_out_immediately():
    """Sections that are laid out only when visible would make the page jump at each update."""
    assert "#report section, #report figure { content-visibility: visible; }" in PAGE_HTML
