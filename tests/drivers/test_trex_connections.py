"""RFC 9693 on a real TRex: phase 1 recorded and learned, phase 2 from lists, through the kernel's NAT."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import closing, contextmanager

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point, make_state_device, make_tester
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import connections
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest, Trial

pytestmark = [
    pytest.mark.trex,
    needs_trex,
    needs_lab,
    *(
        pytest.mark.skipif(
            shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None,
            reason=f"needs the Debian package {package}",
        )
        for program, package in (("nft", "nftables"), ("conntrack", "conntrack"))
    ),
]
COUNT = 3000


@contextmanager
def bench(size=84):
    run = resolve(
        flags=Flags(plugin="nat44", tester="trex", tester_options={"lab": "true"}, dut="nftables")
    )
    bound = bind(run)
    sizes = bound.technology.frame_pair(size)
    with closing(make_tester(bound)) as tester:
        tester.open()
        tester.load(compile_point(bound.technology, sizes, run.seed), bound.oracle)
        yield tester, TwoPhaseTester(tester, make_state_device(bound, tester, None)), sizes


def trial(sizes, connections, rate=2000.0, duration=1.0, mode="bidirectional", **changes):
    return Trial(
        "t", "t", sizes.ipv6, sizes.ipv4, mode, rate, duration, 0.4, 0.1,
        connections=connections, **changes,
    )  # fmt: skip


def without_faults(prepared, asked):
    """A busy machine may spoil the first ones."""
    for _ in range(5):
        result = prepared.measure(asked)
        if not result.faults:
            return result
    raise AssertionError(result.faults)


@pytest.mark.parametrize("rows", [700, 32_768], ids=["five blocks", "one block"])
def test_the_full_cycle(rows, monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", rows)
    with bench() as (_, prepared, sizes):
        asked = Connections(COUNT, 2000.0, 0.5, 0.1, alpha=1.0, purpose="establish")
        found = without_faults(prepared, trial(sizes, asked, duration=asked.phase_one_s))
        stands = found.connections
        assert (stands.sent, stands.learned, stands.validated) == (COUNT, COUNT, COUNT)
        assert (stands.sessions_before, stands.sessions, stands.duplicate_tuples) == (0, COUNT, 0)
        for way in found.directions.values():
            assert way.checked == way.matched > 20
        # phase 2: the Initiator goes through its four-tuples more than twice
        asked = Connections(COUNT, 2000.0, 0.5, 0.1, reuse=True)
        for changes in ({}, {"delays": DelayRequest(tags=100)}, {"delays": DelayRequest(tags=0)}):
            result = without_faults(prepared, trial(sizes, asked, 3000.0, 2.5, **changes))
            for way in result.directions.values():
                assert way.count_frames("sent") == way.count_frames("received") == 7500
                assert way.checked == way.matched > 50
                if changes:
                    delays = way.delays["fg"]
                    assert delays.frames == (changes["delays"].tags or 7500)
                    assert delays.lost == 0


def test_parts_of_the_table_and_other_orders():
    with bench() as (_, prepared, sizes):
        for reading, entries in (("linear", 10), ("fixed", None), ("pseudorandom", 100)):
            asked = Connections(500, 2000.0, 0.3, 0.1, entries=entries, reading=reading)
            result = without_faults(prepared, trial(sizes, asked, mode="reverse"))
            way = result.directions["reverse"]
            assert way.count_frames("received") == 2000
            assert way.checked == way.matched > 50


@pytest.mark.parametrize("size", [84, 1518])
def test_more_connections_than_identifiers_reach(size, monkeypatch):
    """Sixty blocks: some are stamped and timed, the others told by marks, all are validated."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    with bench(size) as (_, prepared, sizes):
        asked = Connections(COUNT, 2000.0, 0.5, 0.1, alpha=1.0, purpose="establish")
        found = without_faults(prepared, trial(sizes, asked, duration=asked.phase_one_s))
        stands = found.connections
        assert (stands.sent, stands.learned, stands.validated) == (COUNT, COUNT, COUNT)
        assert found.directions["reverse"].checked == found.directions["reverse"].matched > 100
        asked = Connections(COUNT, 2000.0, 0.5, 0.1, reuse=True)
        for delays in (None, DelayRequest(tags=100), DelayRequest(tags=0)):
            result = without_faults(prepared, trial(sizes, asked, 3000.0, 2.5, delays=delays))
            for way in result.directions.values():
                assert list(way.classes) == ["fg"]
                assert way.count_frames("sent") == way.count_frames("received") == 7500
                assert way.control == 0
                assert way.checked == way.matched > 100
                if delays is not None:
                    timed = way.delays["fg"]
                    stamped = 125 * connections.IDS_PER_DIRECTION
                    assert timed.frames == (delays.tags or stamped)
                    assert timed.lost == 0


def test_a_connection_that_went_is_missing_in_the_validation(monkeypatch):
    """The device forgets some connections between the phases: the validation counts the others."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    with bench() as (tester, _, sizes):
        asked = Connections(1000, 2000.0, 0.3, 0.1, alpha=1.0, purpose="establish")
        whole = trial(sizes, asked, duration=asked.phase_one_s)
        tester.establish(whole, asked)
        pid = tester.namespaces()["device"]
        listed = ["nsenter", "-t", str(pid), "-n", "conntrack"]
        shown = subprocess.run([*listed, "-L"], check=True, capture_output=True, text=True).stdout
        ports = {re.search(r"sport=(\d+)", line)[1] for line in shown.splitlines()}
        gone = 0
        for port in sorted(ports)[:5]:
            done = subprocess.run(
                [*listed, "-D", "-p", "udp", "--orig-port-src", port],
                check=True,
                capture_output=True,
                text=True,
            )
            gone += len(done.stdout.splitlines())
        phase = tester.validate(whole, asked)
        (count,) = phase.result.classes.values()
        assert gone >= 5
        assert (count.sent, count.received, count.surplus) == (1000, 1000 - gone, 0)
