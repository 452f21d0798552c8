"""Compare what the embedded tester, TRex and siitperf carry through one kernel router.

    TREX_DIR=... python -m v6t.tests.bench.bench_testers run FILE [--rounds N] [--siitperf PROGRAM]
    python -m v6t.tests.bench.bench_testers table FILE

``run`` appends a line for each search to FILE, so that a long comparison can be had in pieces; ``table``
prints the medians as Markdown. All testers stand in v6t's lab of two veth pairs, before the same kernel
router (plugin ipv6-router, 84 octets), and are asked for the same rates: halving between nothing and
an upper bound, trials of 2 s without loss that may take 2 % longer, up to three tries of a trial that
the tester did not manage. Rates are frames per second in each direction. It needs root, and a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.core.runs.bench import build_lab_device, compile_directions, make_tester
from v6t.drivers.lab.setup import Bed
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

SIZE, DURATION_S, TOLERANCE, TRIES = 84, 2.0, 1.02, 3
UPPER_FPS = {"forward": 1_024_000.0, "bidirectional": 704_000.0}
RESOLUTION_FPS = 12_000.0
TITLES = {"forward": "forward", "bidirectional": "both ways"}


@dataclass(frozen=True)
class Verdict:
    """What one trial said: passed, failed, or nothing about the device."""

    passed: bool
    valid: bool
    why: str


Try = Callable[[str, float], Verdict]


def search(attempt: Try, mode: str) -> tuple[float, list[str]]:
    """Search the highest rate; return it and the verdict on each rate."""
    low, high, said = 0.0, UPPER_FPS[mode], []
    while high - low > RESOLUTION_FPS:
        rate = (low + high) / 2
        for _ in range(TRIES):
            verdict = attempt(mode, rate)
            if verdict.valid:
                break
        sign = "+" if verdict.passed else "-" if verdict.valid else "!"
        said.append(f"{rate / 1e3:.0f}{sign}{verdict.why[:120]}")
        low, high = (rate, high) if verdict.passed else (low, rate)
    return low, said


def _setup(tester: str, options: dict[str, str]) -> RunSetup:
    return make_setup(
        resolve(plugin="ipv6-router", tester=tester, tester_options=options, dut="linux-router")
    )


@contextmanager
def own(tester: str, options: dict[str, str]) -> Iterator[Try]:
    """Open one of v6t's testers and yield a function that tries a rate."""
    setup = _setup(tester, options)
    made: Any = make_tester(setup)
    try:
        made.open()
        sizes = setup.technology.make_frame_pair(SIZE)
        made.load(compile_directions(setup.technology, sizes, setup.settings.seed), setup.oracle)

        def attempt(mode: str, rate: float) -> Verdict:
            trial = Trial(
                "throughput", "t", sizes.ipv6, sizes.ipv4, mode, rate, DURATION_S, 0.5, 0.1
            )
            found = assess_trial(trial, made.measure(trial), sending_time_tolerance=TOLERANCE)
            return Verdict(found.passed, found.valid, "; ".join(found.reasons))

        yield attempt
    finally:
        made.close()


@contextmanager
def siitperf(program: Path, cpus: list[int]) -> Iterator[Try]:
    """Start siitperf in place of v6t's tester, before the same device; these CPUs forward."""
    setup = _setup("embedded", {})
    links = setup.technology.links
    bed = Bed(links, build_lab_device(setup))
    try:
        lab = bed.open()
        if cpus:
            lab.steer(cpus)
        with tempfile.TemporaryDirectory() as name:
            lab.tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])

            def attempt(mode: str, rate: float) -> Verdict:
                both = mode == "bidirectional"
                Path(name, "siitperf.conf").write_text(_settings(links, both=both))
                command = (
                    f"nsenter --target {lab.tester.pid} --net {program.resolve()} {SIZE} {rate:.0f} "
                    f"{DURATION_S:.0f} 500 2 2"
                )
                done = subprocess.run(
                    shlex.split(command), cwd=name, env={**os.environ, "EAL_ARGS": EAL},
                    capture_output=True, text=True, timeout=60, check=False,
                )  # fmt: skip
                return _judged(done.stdout + done.stderr, round(rate * DURATION_S), both=both)

            yield attempt
    finally:
        bed.close()


RING = "framecnt=8192,blocksz=65536"
EAL = (
    "--lcores (0)@1,(1)@0,(2)@1,(3)@0,(4)@1 --no-huge --no-pci -m 512 --file-prefix v6tsiit "
    f"--log-level 3 --vdev=net_af_packet0,iface=left,{RING} --vdev=net_af_packet1,iface=right,{RING}"
)
"""A sender and a receiver of a direction on different CPUs, of two."""


def _settings(links: Any, *, both: bool) -> str:
    sides = {"L": links.left, "R": links.right}
    lines = ["IP-L-Vers 6", "IP-R-Vers 6", "IPv4-L-Real 198.18.0.2", "IPv4-R-Real 198.19.0.2",
             "IPv6-L-Real 2001:2::2", "IPv6-R-Real 2001:2:0:8000::2"]  # fmt: skip
    for side, link in sides.items():
        lines += [f"MAC-{side}-Tester {link.tester_mac}", f"MAC-{side}-DUT {link.dut_mac}"]
    lines += ["Forward 1", f"Reverse {int(both)}", "Promisc 0", "Num-L-Nets 1", "Num-R-Nets 1",
              "CPU-L-Send 1", "CPU-R-Recv 2", "CPU-R-Send 3", "CPU-L-Recv 4", "MEM-Channels 1",
              "IP-L-var 0", "IP-R-var 0", "Stateful 0"]  # fmt: skip
    for way in ("Fwd", "Rev"):
        lines += [f"{way}-var-sport 3", f"{way}-var-dport 3", f"{way}-sport-min 1024",
                  f"{way}-sport-max 65535", f"{way}-dport-min 1", f"{way}-dport-max 49151"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _judged(said: str, frames: int, *, both: bool) -> Verdict:
    received = {
        way: int(found[1]) if (found := re.search(rf"{way} frames received:\s*(\d+)", said)) else 0
        for way in ("Forward", "Reverse")[: 1 + both]
    }
    times = [float(t) for t in re.findall(r"sending took\s+([0-9.]+)", said)]
    in_time = len(times) == 1 + both and max(times) <= DURATION_S * TOLERANCE
    whole = all(count == frames for count in received.values())
    why = f"received {received}, sending took {times}" if not (whole and in_time) else ""
    return Verdict(whole and in_time, in_time, why)


def run(
    file: Path, rounds: int, program: Path | None, options: list[dict[str, Any]], only: list[str]
) -> None:
    """Run each tester once per round in both modes; TRex with several sets of options."""
    testers: dict[str, Callable[[], Any]] = {"embedded": lambda: own("embedded", {})}
    for given in options or [{}]:
        name = " ".join(["trex", *(f"{k}={json.dumps(v)}" for k, v in given.items())])
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}
        testers[name] = partial(own, "trex", {"lab": "true", **texts})
    if program is not None:
        for cpus in ([], [0]):
            name = "siitperf" + f" rps_cpus={cpus}" * bool(cpus)
            testers[name] = partial(siitperf, program, cpus)
    for _ in range(rounds):
        for name, opened in testers.items():
            if only and name not in only:
                continue
            with opened() as attempt:
                for mode in UPPER_FPS:
                    rate, said = search(attempt, mode)
                    line = {"tester": name, "mode": mode, "fps": rate, "said": said}
                    with file.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(line) + "\n")
                    print(f"{name} {mode} {rate:,.0f} | {' '.join(said)}", flush=True)


def table(file: Path) -> str:
    """Render medians as Markdown, with minimum and maximum in brackets."""
    found: dict[tuple[str, str], list[float]] = {}
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        found.setdefault((line["tester"], line["mode"]), []).append(line["fps"])
    out = ["| tester | " + " | ".join(TITLES.values()) + " | searches |", "|---|---|---|---|"]
    for name in dict.fromkeys(tester for tester, _ in found):
        rates = [sorted(found.get((name, mode), [0.0])) for mode in TITLES]
        cells = [f"{statistics.median(r):,.0f} ({r[0]:,.0f} to {r[-1]:,.0f})" for r in rates]
        out.append(f"| {name} | {' | '.join(cells)} | {min(map(len, rates))} |")
    return "\n".join(out)


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--siitperf", type=Path, help="siitperf-tp")
    parser.add_argument(
        "--options", type=json.loads, action="append", help="of TRex, as JSON; repeatable"
    )
    parser.add_argument("--only", action="append", help="this tester; repeatable")
    given = parser.parse_args()
    if given.what == "table":
        print(table(given.file))
    else:
        run(given.file, given.rounds, given.siitperf, given.options or [], given.only or [])


if __name__ == "__main__":
    main()
