"""Compare the throughput of a kernel router measured with the embedded tester, TRex and siitperf.

    TREX_DIR=... python -m v6t.tests.bench.bench_testers run FILE [--rounds N] [--siitperf PROGRAM]
    python -m v6t.tests.bench.bench_testers table FILE

``run`` appends a line to FILE for each search, so a comparison can be made in parts; ``table`` prints the
medians as Markdown. All testers use v6t's lab with the same kernel router (plugin ipv6-router, 84 octets).
A binary search uses trials of 2 s; sending may take 2 % longer, and an invalid trial is tried up to three
times. Rates are frames per second in each direction. Run it as root on an idle machine.
"""

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

from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import RunSetup, build_lab_device, make_tester
from v6t.core.runs.bench import compile_directions
from v6t.drivers.lab.setup import Bed
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

SIZE, DURATION_S, TOLERANCE, TRIES = 84, 2.0, 1.02, 3
UPPER_FPS = {"forward": 1_024_000.0, "bidirectional": 704_000.0}
RESOLUTION_FPS = 12_000.0
TITLES = {"forward": "forward", "bidirectional": "both ways"}


@dataclass(frozen=True)
class Verdict:
    """Result of a trial; an invalid trial is no evidence about the device."""

    passed: bool
    valid: bool
    reason: str


MeasureRate = Callable[[str, float], Verdict]


def search(attempt: MeasureRate, mode: str) -> tuple[float, list[str]]:
    """Search the highest lossless rate; return it and a summary of each trial."""
    low, high, summary = 0.0, UPPER_FPS[mode], []
    while high - low > RESOLUTION_FPS:
        rate = (low + high) / 2
        for _ in range(TRIES):
            verdict = attempt(mode, rate)
            if verdict.valid:
                break
        sign = "+" if verdict.passed else "-" if verdict.valid else "!"
        summary.append(f"{rate / 1e3:.0f}{sign}{verdict.reason[:120]}")
        low, high = (rate, high) if verdict.passed else (low, rate)
    return low, summary


def _make_setup(tester: str, options: dict[str, str]) -> RunSetup:
    return resolve_setup(
        plugin="ipv6-router", tester=tester, tester_options=options, dut="linux-router"
    )


@contextmanager
def open_tester(kind: str, options: dict[str, str]) -> Iterator[MeasureRate]:
    """Open a tester of v6t and yield a function that measures a rate."""
    setup = _make_setup(kind, options)
    tester: Any = make_tester(setup)
    try:
        tester.open()
        sizes = setup.technology.make_frame_pair(SIZE)
        tester.load(compile_directions(setup.technology, sizes, setup.settings.seed), setup.oracle)

        def attempt(mode: str, rate: float) -> Verdict:
            pair = sizes.ipv6, sizes.ipv4
            trial = Trial("throughput", "t", *pair, mode, rate, DURATION_S, 0.5, 0.1)
            verdict = assess_trial(trial, tester.measure(trial), sending_time_tolerance=TOLERANCE)
            return Verdict(verdict.passed, verdict.valid, "; ".join(verdict.reasons))

        yield attempt
    finally:
        tester.close()


@contextmanager
def open_siitperf(program: Path, cpus: list[int]) -> Iterator[MeasureRate]:
    """Set up siitperf with the same device; ``cpus`` forward if given."""
    setup = _make_setup("embedded", {})
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
                Path(name, "siitperf.conf").write_text(_render_settings(links, both=both))
                command = (
                    f"nsenter --target {lab.tester.pid} --net {program.resolve()} {SIZE} {rate:.0f} "
                    f"{DURATION_S:.0f} 500 2 2"
                )
                result = subprocess.run(
                    shlex.split(command), cwd=name, env={**os.environ, "EAL_ARGS": EAL},
                    capture_output=True, text=True, timeout=60, check=False,
                )  # fmt: skip
                output = result.stdout + result.stderr
                return _judge_output(output, round(rate * DURATION_S), both=both)

            yield attempt
    finally:
        bed.close()


# Sender and receiver of a direction run on different CPUs of two.
RING_OPTIONS = "framecnt=8192,blocksz=65536"
EAL = (
    "--lcores (0)@1,(1)@0,(2)@1,(3)@0,(4)@1 --no-huge --no-pci -m 512 --file-prefix v6tsiit "
    f"--log-level 3 --vdev=net_af_packet0,iface=left,{RING_OPTIONS} --vdev=net_af_packet1,iface=right,{RING_OPTIONS}"
)


def _render_settings(links: Any, *, both: bool) -> str:
    sides = {"L": links.left, "R": links.right}
    lines = ["IP-L-Vers 6", "IP-R-Vers 6", "IPv4-L-Real 198.18.0.2", "IPv4-R-Real 198.19.0.2",
             "IPv6-L-Real 2001:2::2", "IPv6-R-Real 2001:2:0:8000::2"]  # fmt: skip
    for side, link in sides.items():
        lines += [f"MAC-{side}-Tester {link.tester_mac}", f"MAC-{side}-DUT {link.dut_mac}"]
    lines += ["Forward 1", f"Reverse {int(both)}", "Promisc 0", "Num-L-Nets 1", "Num-R-Nets 1",
              "CPU-L-Send 1", "CPU-R-Recv 2", "CPU-R-Send 3", "CPU-L-Recv 4", "MEM-Channels 1",
              "IP-L-var 0", "IP-R-var 0", "Stateful 0"]  # fmt: skip
    for direction in ("Fwd", "Rev"):
        lines += [f"{direction}-var-sport 3", f"{direction}-var-dport 3", f"{direction}-sport-min 1024",
                  f"{direction}-sport-max 65535", f"{direction}-dport-min 1", f"{direction}-dport-max 49151"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _judge_output(output: str, frames: int, *, both: bool) -> Verdict:
    received = {
        direction: int(match[1])
        if (match := re.search(rf"{direction} frames received:\s*(\d+)", output))
        else 0
        for direction in ("Forward", "Reverse")[: 1 + both]
    }
    times = [float(t) for t in re.findall(r"sending took\s+([0-9.]+)", output)]
    in_time = len(times) == 1 + both and max(times) <= DURATION_S * TOLERANCE
    complete = all(count == frames for count in received.values())
    reason = f"received {received}, sending took {times}" if not (complete and in_time) else ""
    return Verdict(complete and in_time, in_time, reason)


def run(
    file: Path, rounds: int, program: Path | None, options: list[dict[str, Any]], only: list[str]
) -> None:
    """Run each tester once per round in both modes, TRex once per set of options."""
    testers: dict[str, Callable[[], Any]] = {"embedded": lambda: open_tester("embedded", {})}
    for arguments in options or [{}]:
        name = " ".join(["trex", *(f"{k}={json.dumps(v)}" for k, v in arguments.items())])
        option_texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in arguments.items()}
        testers[name] = partial(open_tester, "trex", {"lab": "true", **option_texts})
    if program is not None:
        for cpus in ([], [0]):
            name = "siitperf" + f" rps_cpus={cpus}" * bool(cpus)
            testers[name] = partial(open_siitperf, program, cpus)
    for _ in range(rounds):
        for name, open_attempt in testers.items():
            if only and name not in only:
                continue
            with open_attempt() as attempt:
                for mode in UPPER_FPS:
                    rate, summary = search(attempt, mode)
                    line = {"tester": name, "mode": mode, "fps": rate, "said": summary}
                    with file.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(line) + "\n")
                    print(f"{name} {mode} {rate:,.0f} | {' '.join(summary)}", flush=True)


def render_table(file: Path) -> str:
    """Render medians as Markdown, with minimum and maximum in parentheses."""
    rates_by_key: dict[tuple[str, str], list[float]] = {}
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        rates_by_key.setdefault((line["tester"], line["mode"]), []).append(line["fps"])
    out = ["| tester | " + " | ".join(TITLES.values()) + " | searches |", "|---|---|---|---|"]
    for name in dict.fromkeys(tester for tester, _ in rates_by_key):
        rates = [sorted(rates_by_key.get((name, mode), [0.0])) for mode in TITLES]
        cells = [f"{statistics.median(r):,.0f} ({r[0]:,.0f} to {r[-1]:,.0f})" for r in rates]
        out.append(f"| {name} | {' | '.join(cells)} | {min(map(len, rates))} |")
    return "\n".join(out)


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--siitperf", type=Path, help="siitperf-tp")
    parser.add_argument("--options", type=json.loads, action="append", help="TRex options as JSON")
    parser.add_argument("--only", action="append", help="name of a tester to run")
    arguments = parser.parse_args()
    if arguments.what == "table":
        print(render_table(arguments.file))
    else:
        options, only = arguments.options or [], arguments.only or []
        run(arguments.file, arguments.rounds, arguments.siitperf, options, only)


if __name__ == "__main__":
    main()
