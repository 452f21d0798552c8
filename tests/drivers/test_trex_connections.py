"""RFC 9693 on a real TRex with tables of many lists, through the kernel's NAT."""

import re
import subprocess
from dataclasses import replace

import pytest
from v6t.drivers.trex import connections
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import DelayRequest

from .test_stateful_lab import ESTABLISH, USE, StatefulLab

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]
COUNT = 3000
MANY = replace(ESTABLISH, count=COUNT, rate_cps=2000.0)
# Of sixty blocks, some are stamped and timed, the others marked; all are validated.
BLOCK_ROWS = {"one block": 32_768, "five blocks": 700, "sixty blocks": 50}


@pytest.mark.parametrize(
    ("blocks", "size"),
    [("one block", 84), ("five blocks", 84), ("sixty blocks", 84), ("sixty blocks", 1518)],
)
def test_many_connections_are_established_and_used(blocks, size, monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", BLOCK_ROWS[blocks])
    with StatefulLab("trex", size=size) as lab:
        found = lab.establish(MANY)
        assert (found.sent, found.learned, found.validated) == (COUNT, COUNT, COUNT)
        assert (found.sessions_before, found.sessions, found.duplicate_tuples) == (0, COUNT, 0)
        asked = replace(USE, count=COUNT, rate_cps=2000.0)
        stamped = 125 * connections.IDS_PER_DIRECTION if blocks == "sixty blocks" else 7500
        for delays in (None, DelayRequest(tags=100), DelayRequest(tags=0)):
            # the Initiator uses each four-tuple more than twice
            result = lab.use(asked, rate_fps=3000.0, duration_s=2.5, delays=delays)
            for counted in result.directions.values():
                assert list(counted.classes) == ["fg"]
                assert counted.count_frames("sent") == counted.count_frames("received") == 7500
                assert (counted.control, counted.checked) == (0, counted.matched)
                assert counted.checked > 50
                if delays is not None:
                    timed = counted.delays["fg"]
                    assert (timed.frames, timed.lost) == (delays.tags or stamped, 0)


def test_deleted_connection_is_missing_in_the_validation(monkeypatch):
    """Delete some connections between the phases."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    with StatefulLab("trex") as lab:
        tester, trial = lab.bench.prepare(), lab.trial(ESTABLISH, duration_s=ESTABLISH.phase_one_s)
        tester.establish(trial, ESTABLISH)
        pid = tester.namespaces()["device"]

        def run_conntrack(*words):
            command = ["nsenter", "-t", str(pid), "-n", "conntrack", *words]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        ports = {re.search(r"sport=(\d+)", line)[1] for line in run_conntrack("-L").splitlines()}
        deleted = 0
        for port in sorted(ports)[:5]:
            listed = run_conntrack("-D", "-p", "udp", "--orig-port-src", port)
            deleted += len(listed.splitlines())
        (count,) = tester.validate(trial, ESTABLISH).result.classes.values()
        assert deleted >= 5
        assert (count.sent, count.received, count.surplus) == (1000, 1000 - deleted, 0)
