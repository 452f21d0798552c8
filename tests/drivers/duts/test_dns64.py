"""DNS64 servers in namespaces: configuration, answers, flush, rollback and wrong answers."""

import os
import signal
import threading
from contextlib import closing, contextmanager

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import Bench
from v6t.trials.trial import Queries, Trial

from .intents import make_intent
from .support import in_lab, needs_device

pytestmark = in_lab
SERVERS = ("bind9", "knot-resolver", "pdns-recursor", "unbound")
QPS, SECONDS = 400.0, 0.25
COUNT = round(QPS * SECONDS)


@contextmanager
def open_bench(server, threads=1, **params):
    """Yield the bench of a DNS64 server, or of the tester without a device, and a function that sends queries."""
    options = {"threads": str(threads)} if threads > 1 else {}
    setup = resolve_setup(plugin="dns64", dut=server, params=params, dut_params=options)

    def ask(timeout_s=2.0, answered=COUNT, **queries):
        sent = Queries(timeout_s=timeout_s, **queries)
        sizes = (114, 94)
        trial = Trial("resolution", "k", *sizes, "forward", QPS, SECONDS, pause_s=0.0, queries=sent)
        result = bench.measure(trial)
        assert not result.faults, result.faults
        counted = result.directions["forward"]
        assert sent.is_selftest or counted.count_frames("received") == answered, counted.answers
        return counted

    with closing(Bench(setup, loopback=server is None)) as bench:
        bench.load({})
        yield bench, ask


@pytest.mark.parametrize("server", [pytest.param(name, marks=needs_device(name)) for name in SERVERS])  # fmt: skip
def test_queries_are_answered_correctly_with_and_without_cache(server):
    with open_bench(server) as (_, ask):
        plain = ask()
        assert (plain.matched, plain.mismatch) == (COUNT, None)
        assert plain.answers.aaaa_queries >= COUNT
        assert plain.answers.a_queries >= COUNT
        native = ask(native_aaaa_share=1.0)
        assert native.answers.a_queries <= COUNT * 0.05
        half = ask(cached_share=0.5, cached_names=5)
        assert half.answers.cached_names == 5
        assert half.answers.repeated_queries <= COUNT * 0.05
        assert half.answers.aaaa_queries <= COUNT * 0.6
        # the cache was flushed between the trials
        cached = ask(cached_share=1.0, cached_names=5)
        assert cached.answers.aaaa_queries <= COUNT * 0.05


@needs_device("unbound")
def test_authoritative_server_is_reached_over_ipv6():
    with open_bench("unbound", upstream="ipv6", prefix="2001:db8:64::/64") as (_, ask):
        ask()


@needs_device("knot-resolver")
def test_all_knot_resolver_processes_answer_and_end():
    """Knot Resolver forks processes instead of starting threads."""
    with open_bench("knot-resolver", threads=2) as (bench, ask):
        ask()
        transport = bench.session.transport
        directory = f"{bench.session.driver.options.state_dir}/dns"
        group = transport.run(f"cat {directory}/knot-resolver.pid").out.strip()
        count = f"ps -o stat= -g {group} | grep -v Z | grep -c . || true"
        assert transport.run(count).out.strip() == "2"
        bench.session.rollback()
        assert transport.run(count).out.strip() == "0"


@needs_device("unbound")
def test_wrong_prefix_of_device_is_reported():
    with open_bench("unbound") as (bench, ask):
        wrong = make_intent("dns64", prefix="2001:db8:65::/96")
        bench._setup.__dict__["intent"] = wrong  # the value passed to the driver
        result = ask(answered=0)
        assert result.answers.reasons == {"wrong AAAA record": COUNT}
        assert result.mismatch["why"] == "wrong AAAA record"
        assert result.mismatch["expected"] != result.mismatch["received"]


@pytest.mark.parametrize("upstream", ["ipv4", "ipv6"])
def test_selftest_answers_all_queries(upstream):
    with open_bench(None, upstream=upstream) as (_, ask):
        result = ask(timeout_s=0.25, is_selftest=True)
    assert result.count_frames("received") + result.count_frames("late") == COUNT
    assert (result.answers.aaaa_queries, result.answers.a_queries) == (COUNT, 0)


@pytest.mark.alone  # the server is stopped for longer than the timeout
def test_delayed_authoritative_server_makes_trial_invalid():
    with open_bench(None) as (bench, ask):
        ask(is_selftest=True)
        server = bench.open()._dns._server
        for after_s, number in ((0.1, signal.SIGSTOP), (0.7, signal.SIGCONT)):
            threading.Timer(after_s, os.kill, (server.pid, number)).start()
        with pytest.raises(AssertionError, match="waited .* s for the server"):
            ask(timeout_s=0.25, is_selftest=True)
        ask(is_selftest=True)
