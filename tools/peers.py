"""Comparison of v6t's testers with siitperf and Maptperf on the same devices.

``python -m v6t.tools.peers CASES ROUNDS`` runs one search per tester and round. SIITPERF_DIR holds
``siitperf-tp``, MAPTPERF_DIR ``maptperf-tp``. All testers use the same lab, device configuration and
parameters. With V6T_RECORD, results are added to ``tests/drivers/recorded/peers.json``, which
docs/accuracy.md shows.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from v6t.base.errors import TesterError
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import RunSetup, build_lab_device
from v6t.core.migrate.maptperf import read_maptperf
from v6t.core.migrate.migration import Migration
from v6t.core.migrate.siitperf import read_siitperf
from v6t.core.runs.bench import Bench, compile_directions
from v6t.core.runs.manifest import describe_machine
from v6t.drivers.lab.setup import Bed
from v6t.drivers.lab.workers import Worker
from v6t.plugins.base import Links
from v6t.procedures.search.binary import binary_search
from v6t.procedures.throughput import ThroughputSpec, measure_throughput
from v6t.tools.record_files import load_record, update_record
from v6t.trials.conditions import Conditions
from v6t.trials.order_statistics import percentile
from v6t.trials.verdict import Verdict

RECORD = Path(__file__).parents[1] / "tests" / "drivers" / "recorded" / "peers.json"
TOLERANCE = 1.02
DURATION_S = 1.0
TIMEOUT_S = 0.5
# Retries of a trial in which the tester was too slow.
TRIAL_RETRIES = 1
# Placement of the four threads on two CPUs, a sender and a receiver on each.
CORES = "(0)@1,(1)@0,(2)@1,(3)@0,(4)@1"


LINKS = Links()


@dataclass(frozen=True)
class Peer:
    """Another tester."""

    name: str  # text of the table
    program: str  # its throughput test
    read: Callable[[Path], Migration]  # converts its configuration file to v6t's parameters
    version_names: tuple[str, ...]  # settings of the versions of IP, left and right
    settings: Mapping[str, object]
    """Of its configuration file, from left to right with pseudorandom ports."""

    @property
    def directory(self) -> str:
        """Return the directory of the program, or an empty string."""
        return os.environ.get(f"{self.name.upper()}_DIR", "")


# One pair of addresses.
SIITPERF = Peer("siitperf", "siitperf-tp", read_siitperf, ("IP-L-Vers", "IP-R-Vers"), {
    "IPv4-L-Real": "198.18.0.2", "IPv4-R-Real": "198.19.0.2",
    "IPv6-L-Real": "2001:2::2", "IPv6-R-Real": "2001:2:0:8000::2",
    "IPv4-L-Virt": "198.18.0.2", "IPv6-R-Virt": "2001:2:0:1000::2",
    "MAC-L-Tester": LINKS.left.tester_mac, "MAC-R-Tester": LINKS.right.tester_mac,
    "MAC-L-DUT": LINKS.left.dut_mac, "MAC-R-DUT": LINKS.right.dut_mac,
    "Forward": 1, "Reverse": 0, "Promisc": 0, "Num-L-Nets": 1, "Num-R-Nets": 1,
    "CPU-L-Send": 1, "CPU-R-Recv": 2, "CPU-R-Send": 3, "CPU-L-Recv": 4, "MEM-Channels": 1,
    "Fwd-var-sport": 3, "Fwd-var-dport": 3, "Fwd-sport-min": 1024, "Fwd-sport-max": 65535,
    "Fwd-dport-min": 1, "Fwd-dport-max": 49151, "Rev-var-sport": 3, "Rev-var-dport": 3,
    "IP-L-var": 0, "IP-R-var": 0, "Stateful": 0,
})  # fmt: skip
# A MAP-T border relay with 1,000 customers.
MAPTPERF = Peer("Maptperf", "maptperf-tp", read_maptperf, (), {
    "Tester-L-IPv6": "2001:db8:6::2", "Tester-R-IPv4": "203.0.113.56",
    "Tester-R-IPv6": "2001:db8:7::2",
    "Tester-L-MAC": LINKS.left.tester_mac, "Tester-R-MAC": LINKS.right.tester_mac,
    "DUT-L-MAC": LINKS.left.dut_mac, "DUT-R-MAC": LINKS.right.dut_mac,
    "FW-dport-min": 1, "FW-dport-max": 49151, "RV-sport-min": 1024, "RV-sport-max": 65535,
    "bg-dport-min": 1, "bg-dport-max": 49151, "bg-sport-min": 1024, "bg-sport-max": 65535,
    "FW-var-sport": 3, "FW-var-dport": 3, "RV-var-sport": 3, "RV-var-dport": 3,
    "NUM-OF-CEs": 1000, "BMR-IPv6-Prefix": "2001:db8:ce::", "BMR-IPv6-prefix-length": 48,
    "BMR-IPv4-Prefix": "192.0.2.0", "BMR-IPv4-prefix-length": 24, "BMR-EA-length": 16,
    "DMR-IPv6-Prefix": "64:ff9b::", "DMR-IPv6-prefix-length": 64,
    "CPU-FW-Send": 1, "CPU-FW-Receive": 2, "CPU-RV-Send": 3, "CPU-RV-Receive": 4,
    "Mem-Channels": 1, "FW": 1, "RV": 0, "Promisc": 0,
})  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Device under test."""

    words: str  # text of the table
    driver: str  # of the device
    versions: tuple[int, int]  # of IP, left and right
    octets: int  # frame size as listed by v6t
    upper_fps: float  # of the search
    resolution_fps: float  # of the search
    peer: Peer = SIITPERF  # the other tester

    def format_config(self) -> str:
        """Return the peer's configuration."""
        versions = dict(zip(self.peer.version_names, self.versions, strict=False))
        settings = {**self.peer.settings, **versions}
        return "".join(f"{name} {value}\n" for name, value in settings.items())


CASES = {
    "ipv6": Case("Linux router, IPv6", "linux-router", (6, 6), 84, 480_000.0, 15_000.0),
    "ipv4": Case("Linux router, IPv4", "linux-router", (4, 4), 64, 480_000.0, 15_000.0),
    "tayga": Case("TAYGA, SIIT", "tayga", (6, 4), 84, 160_000.0, 5_000.0),
    "mapt": Case("VPP, MAP-T BR", "vpp", (6, 4), 84, 480_000.0, 15_000.0, MAPTPERF),
}


def resolve_case(case: Case, tester: str, directory: str | Path) -> RunSetup:
    """Resolve a run of v6t with the parameters of the peer's configuration file."""
    path = Path(directory) / f"{case.peer.name.lower()}.conf"
    path.write_text(case.format_config())
    migrated = case.peer.read(path).run
    run = Path(directory) / "run.yaml"
    run.write_text(json.dumps({"plugin": migrated["plugin"], "params": migrated["params"]}))
    options = {"lab": "true", "cpu_limit": "100"} if tester == "trex" else {}
    vpp = os.environ.get("V6T_VPP") if case.driver == "vpp" else None
    return resolve_setup(
        run, None, tester=tester, tester_options=options, dut=case.driver,
        dut_params={"program": vpp} if vpp else {},
    )  # fmt: skip


def search_with_v6t(case: Case, setup: RunSetup) -> float:
    """Search the throughput with one of v6t's testers."""
    sizes = setup.technology.make_frame_pair(case.octets)
    conditions = Conditions(
        sizes.ipv6, sizes.ipv4, "forward", TIMEOUT_S, 0.1,
        sending_time_tolerance=TOLERANCE, invalid_retries=TRIAL_RETRIES,
    )  # fmt: skip
    spec = ThroughputSpec(
        conditions, case.upper_fps, "media", case.resolution_fps, DURATION_S, repetitions=1
    )
    with closing(Bench(setup)) as bench:
        bench.load(compile_directions(setup.technology, sizes, setup.settings.seed))
        return measure_throughput(spec, bench.measure).repetitions[0].rate_fps


def search_with_peer(case: Case, setup: RunSetup, directory: str | Path) -> float:
    """Run the same search in the same lab with the peer's own trials."""
    with closing(Bed(setup.technology.links, build_lab_device(setup))) as bed:
        tester = bed.open().tester

        def measure_rate(rate: float, _step: str) -> Verdict:
            for _ in range(TRIAL_RETRIES + 1):
                sent, received, sending_s = run_peer_trial(case.peer, tester, directory, rate)
                slow = sending_s > DURATION_S * TOLERANCE
                if not slow:
                    break
            return Verdict(passed=not slow and received == sent, valid=not slow)

        bounds = {"upper_fps": case.upper_fps, "resolution_fps": case.resolution_fps}
        return binary_search(measure_rate, **bounds).rate_fps


def run_peer_trial(
    peer: Peer, tester: Worker, directory: str | Path, rate_fps: float
) -> tuple[int, int, float]:
    """Return frames sent and received, and the sending time [s]."""
    program = Path(peer.directory) / peer.program
    ports = " ".join(
        f"--vdev=net_af_packet{number},iface={side},framecnt=8192,blocksz=65536"
        for number, side in enumerate(("left", "right"))
    )
    eal = f"--lcores {CORES} --no-huge --no-pci -m 512 --file-prefix peers --log-level 3 {ports}"
    rate = round(rate_fps)
    # frame size, rate, seconds, timeout in ms, and n, m: no background
    command = f"timeout -k 5 25 {program} 84 {rate} {DURATION_S:.0f} {TIMEOUT_S * 1000:.0f} 2 2"
    text = f"cd {shlex.quote(str(directory))} && EAL_ARGS={shlex.quote(eal)} {command}"
    status, output = tester.ask("run", deadline_s=60.0, command=["sh", "-c", text])
    received = re.search(r"[Ff]orward frames received: *(\d+)", output)
    sending_s = re.search(r"sending took ([0-9.]+)", output)
    if received is None or sending_s is None:
        raise TesterError(f"{peer.name} ended with {status}: {output[-400:]}", code="tester-fault")
    return rate * round(DURATION_S), int(received[1]), float(sending_s[1])


def list_testers(case: Case) -> list[str]:
    """List the testers that are available here."""
    testers = ["embedded", "trex"] if os.environ.get("TREX_DIR") else ["embedded"]
    return [*testers, case.peer.name] if case.peer.directory else testers


def run_round(case: Case) -> dict[str, float]:
    """Run one search with each tester; return the rates."""
    rates = {}
    for tester in list_testers(case):
        with TemporaryDirectory() as directory:
            if tester == case.peer.name:
                setup = resolve_case(case, "embedded", directory)
                rates[tester] = search_with_peer(case, setup, directory)
            else:
                rates[tester] = search_with_v6t(case, resolve_case(case, tester, directory))
    return rates


def add_record(name: str, rates: Mapping[str, float]) -> None:
    """Record a round if V6T_RECORD is set; it replaces rounds of another day or machine."""
    with update_record(RECORD) as record:
        machine = describe_machine()
        place = {k: machine[k] for k in ("processor", "cores", "kernel")}
        conditions = {"date": date.today().isoformat(), "machine": place}
        case = record.setdefault(name, {})
        if not conditions.items() <= case.items():
            case.clear()
            case |= conditions
        for tester, rate in rates.items():
            case.setdefault("rates", {}).setdefault(tester, []).append(round(rate))


TESTER_NAMES = {"embedded": "v6t, embedded", "trex": "v6t, TRex"}


def render_table() -> Iterator[str]:
    """Render medians, P1 and P99 of the rounds."""
    record = load_record(RECORD)
    if not record:
        yield "No round is recorded: rounds want a machine that does nothing else."
        return
    yield "| device | tester | date | processor | rounds | median fps | P1 | P99 | against the peer |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|"
    for name, case in CASES.items():
        rates = record.get(name, {}).get("rates", {})
        peer = rates.get(case.peer.name)
        for tester, values in rates.items():
            against = ""
            if tester != case.peer.name and peer:
                against = f"{median(values) / median(peer) - 1:+.0%}"
            figures = [median(values), percentile(values, 1), percentile(values, 99)]
            numbers = " | ".join(f"{v:,.0f}" for v in figures)
            tester_name = TESTER_NAMES.get(tester, tester)
            processor = record[name]["machine"]["processor"]
            place = f"{case.words} | {tester_name} | {record[name]['date']} | {processor}"
            yield f"| {place} | {len(values)} | {numbers} | {against} |"


def main() -> None:
    """Run several rounds of the cases named on the command line."""
    names, rounds = sys.argv[1].split(","), int(sys.argv[2])
    for number in range(1, rounds + 1):
        for name in names:
            rates = run_round(CASES[name])
            add_record(name, rates)
            print(name, f"{number}/{rounds}", rates, flush=True)


if __name__ == "__main__":
    main()
