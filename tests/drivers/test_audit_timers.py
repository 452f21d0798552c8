"""``v6t audit --timers hours`` of the kernel NAT44 with a simulated clock."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from v6t.core.audit_device import ProbedDevice
from v6t.tests.core.support import v6t
from v6t.tests.needs import needs_lab

pytestmark = [
    pytest.mark.lab,
    needs_lab,
]
# Shorter pauses are not simulated: the kernel marks an entry as assured after 2 s.
LONG_S = 3.0
_ENTRY = re.compile(
    r"^(\w+)\s+\d+\s+(\d+)\s.*?src=(\S+) dst=(\S+) "
    r"(?:sport=(\d+) dport=(\d+)|type=(\d+) code=(\d+) id=(\d+))"
)


def list_pause_commands(table: str, pause_s: float) -> Iterator[str]:
    """Yield commands that age the entries of a ``conntrack -L`` table by a pause [s]."""
    for line in table.splitlines():
        match = _ENTRY.match(line)
        if match is None:
            continue
        protocol, left, source, destination, *more = match.groups()
        ports = (
            f"--sport {more[0]} --dport {more[1]}"
            if more[0]
            else f"--icmp-type {more[2]} --icmp-code {more[3]} --icmp-id {more[4]}"
        )
        entry = f"-p {protocol} -s {source} -d {destination} {ports}"
        rest = int(left) - round(pause_s)
        yield f"conntrack -D {entry}" if rest <= 0 else f"conntrack -U {entry} -t {rest}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Simulate pauses in the device's table, whose connections live for half an hour."""
    passed: list[float] = []
    since = [time.monotonic()]

    def pause(self: ProbedDevice, seconds: float) -> None:
        session = self.session
        assert session is not None
        run = session.transport.run  # type: ignore[attr-defined]
        if not passed:
            run("sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_established=1800")
            passed.append(0.0)
        if seconds < LONG_S:
            time.sleep(seconds)
            return
        passed.append(seconds)
        # subtract the time since the last pause
        rest = max(0.0, seconds - (time.monotonic() - since[0]))
        result = run(
            "; ".join([*list_pause_commands(run("conntrack -L 2>/dev/null").out, rest), "true"])
        )
        assert result.status == 0, result
        since[0] = time.monotonic()

    monkeypatch.setattr(ProbedDevice, "pause", pause)
    return passed


def test_too_short_timers_are_found(tmp_path: Path, clock: list[float]) -> None:
    """The kernel's defaults are 30 s, 120 s and 1 minute."""
    result = v6t(
        *("audit", "--plugin", "nat44", "--dut", "nftables", "--set-dut", "timeout_s=0"),
        *("--clause", "timer-", "--timers", "hours", "--no-variants"),
        *("-o", tmp_path / "audit"),
    )
    assert result.status == 6, result.err
    findings = json.loads((tmp_path / "audit" / "audit.json").read_text())["findings"]
    verdicts = {f["clause"].partition("timer-")[2]: (f["verdict"], f["got"]) for f in findings}
    gone = "nothing after {} s; after {} s it arrived"
    assert verdicts == {
        "udp": ("deviates", gone.format(38, 13)),
        "udp-answered": ("conforms", "as expected"),
        "query": ("deviates", gone.format(55, 18)),
        "tcp-transitory": ("deviates", gone.format(235, 78)),
        "tcp-closing": ("deviates", gone.format(78, 26)),
        "tcp-established": ("deviates", gone.format(2478, 826)),
    }
    assert sum(clock) > 2478
