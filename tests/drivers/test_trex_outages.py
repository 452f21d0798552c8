"""Recovery, reset and flows that begin in turn on a real TRex, through the kernel's router."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from functools import partial

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point, make_tester
from v6t.drivers.lab.privilege import available
from v6t.procedures.trial import Event, Segment, Starts, Trial
from v6t.profiles.transform import entropy

pytestmark = [
    pytest.mark.trex,
    pytest.mark.skipif(
        not os.environ.get("TREX_DIR"),
        reason="needs a TRex installation: set TREX_DIR to the directory with t-rex-64",
    ),
    pytest.mark.skipif(not available()[0], reason=f"needs a lab: {available()[1]}"),
]


@pytest.fixture(scope="module")
def router():
    run = resolve(
        flags=Flags(
            plugin="ipv4-router",
            tester="trex",
            tester_options={"lab": "true"},
            dut="linux-router",
        )
    )
    tester = make_tester(bind(run))
    tester.open()
    plugin = bind(run).technology
    sizes = plugin.frame_pair(84)

    def load(vary=lambda traffic: traffic):
        tester.load(compile_point(plugin, sizes, run.seed, vary), bind(run).oracle)
        return tester, sizes

    yield load
    tester.close()


def without_faults(tester, asked, meanwhile=None):
    """A busy machine may spoil the first ones."""
    for _ in range(5):
        helper = threading.Thread(target=meanwhile) if meanwhile else None
        if helper:
            helper.start()
        result = tester.measure(asked)
        if helper:
            helper.join()
        if not result.faults:
            return result
    raise AssertionError(result.faults)


def asked(sizes, rate, duration, **more):
    return Trial(
        "t", "t", sizes.ipv6, sizes.ipv4, "bidirectional", rate, duration, 0.5, 0.2, **more
    )


def test_the_second_rate_follows_the_first_without_a_gap(router):
    tester, sizes = router()
    result = without_faults(tester, asked(sizes, 4000.0, 1.5, then=Segment(2000.0, 2.0)))
    for way, found in result.directions.items():
        assert found.total("sent") == found.total("received") == 10_000
        assert found.checked == found.matched > 50
        assert (found.first_lost_s, found.last_lost_s) == (None, None)
        # a gap between the rates would stand out from 2 s of traffic
        assert found.sending_time_s == pytest.approx(3.5, rel=0.1)
        assert result.tester[f"second rate late, {way} [s]"] == pytest.approx(0, abs=0.2)


def test_an_outage_is_seen_in_lost_frames_and_in_silence(router):
    tester, sizes = router()
    pid = tester.namespaces()["device"]

    def forwarding(on):
        command = ["nsenter", "-t", str(pid), "-n", "sysctl", "-qw", f"net.ipv4.ip_forward={on}"]
        subprocess.run(command, check=True)

    def outage():
        time.sleep(2.5)
        forwarding(0)
        time.sleep(0.8)
        forwarding(1)

    trial = asked(sizes, 2000.0, 6.0, event=Event("software-reset", 2.0))
    result = without_faults(tester, trial, outage)
    for found in result.directions.values():
        lost = found.total("sent") - found.total("received")
        assert lost > 0
        assert 0 < found.first_lost_s < found.last_lost_s < 6
        # both methods of RFC 6201 see the same outage, which was one stretch of the stream
        assert found.longest_gap_s == pytest.approx(lost / 2000, rel=0.2)
        assert found.last_lost_s - found.first_lost_s == pytest.approx(lost / 2000, rel=0.05)


def test_flows_begin_one_after_the_other(router):
    tester, sizes = router(partial(entropy.flows, count=40))
    trial = asked(sizes, 4000.0, 2.0, starts=Starts(40, 0.025))
    result = without_faults(tester, trial)
    for found in result.directions.values():
        # half of the first second's turns are those of flows that have not begun
        assert found.total("required") == pytest.approx(8000 - 1950, abs=41)
        assert found.total("sent") == found.total("received") == found.total("required")
        assert found.checked == found.matched > 50
