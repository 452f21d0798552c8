"""TRex as a kind of tester: one server or several, attached to, started on real ports, or in the lab."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.drivers.placement import place_threads
from v6t.drivers.tester_kind import THIS_MACHINE, Finding, TesterKind
from v6t.drivers.trex import bursts, connections, counting
from v6t.drivers.trex.counting import CAPTURED_STAMPS_KEY
from v6t.drivers.trex.options import ServersOptions, TrexOptions

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import Bed, LabDevice
    from v6t.drivers.prober import Prober
    from v6t.drivers.tester import StatefulTester
    from v6t.trials.connections import Tcp
    from v6t.trials.trial import Capability, Mode

ACCURACY_VERSION = "v3.08"  # Version of TRex with which the error of delays was measured


class Trex(TesterKind):
    """Cisco TRex: stateless, and on a server that the lab owns stateful for TCP connections."""

    name = "trex"
    title = "Cisco TRex, on real ports or in the lab"
    options_model = ServersOptions
    sending_error_s = counting.COUNTER_READING_S
    setup_s = 10.0
    load_s = 3.0
    overhead_s = 0.5
    stamps = (
        "from the moment TRex's core finishes the frame for its port's queue to the moment a core of "
        "TRex takes it from the receiving port's, in software; both by the processor's time stamp "
        "counter, kept in steps of 1 us below 2 ms and to 3 significant digits above"
    )
    delay_error = (
        "the tester's own error (not subtracted, see docs/accuracy.md), measured with TRex "
        f"{ACCURACY_VERSION}: median +0.11 to +0.61 ms, 99.9 % below +6.9 ms at 1,000 fps and +4.8 ms "
        "at 10,000 and 50,000 fps"
    )
    speed_neutral_options = frozenset(
        {"force", "restart", "sample", "python", "fence", "start_deadline_s"}
    )

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._servers: Mapping[str, TrexOptions] = self.options.selected_servers
        self._first: TrexOptions = next(iter(self._servers.values()))

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self._servers) if len(self._servers) > 1 else ()

    @property
    def in_lab(self) -> bool:
        return self._first.lab

    @property
    def can_loop_back(self) -> bool:
        return self.in_lab

    @property
    def exclusive_resource(self) -> str:
        if self.in_lab:
            return THIS_MACHINE
        return f"trex {json.dumps(self.options.model_dump(mode='json'), sort_keys=True)}"

    def check_links(self, links: Any) -> None:
        for own in self._servers.values():
            for number, name in itertools.product(range(len(own.all_pairs)), ("left", "right")):
                side, link = getattr(own.all_pairs[number], name), links.get_link(name)
                where = f"pairs[{number - 1}]." if number else ""
                if side and side.vlan and (link.vlan is None or link.background is not None):
                    has = "has none" if link.vlan is None else "has another for the background"
                    raise UsageError(
                        f"{where}{name}.vlan: {side.vlan} replaces the VLAN of links.{name}, which {has}",
                        f"set links.{name}.vlan, without a background there, or leave this one out",
                        code="conflict",
                    )

    def prepare(self) -> None:
        from v6t.drivers.lab.privilege import acquire
        from v6t.drivers.trex.channel import find_installation

        for own in self._servers.values():
            if not own.ssh:
                find_installation(own.trex_dir)
        if self.in_lab:
            acquire()

    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> StatefulTester:
        from v6t.drivers.several.tester import SeveralTesters
        from v6t.drivers.trex.tester import TrexTester

        settings = {"loopback": loopback, "delays": delays}
        members: dict[str, StatefulTester] = {
            name: TrexTester(own.orient_ports(links), links, device, **settings)
            for name, own in self._servers.items()
        }
        if len(members) == 1:
            return next(iter(members.values()))
        return SeveralTesters(self.name, members, self.options.max_skew)

    def make_prober(self, links: Any, bed: Bed | None) -> Prober:
        from v6t.drivers.trex.tester import TrexProber

        return TrexProber(self._first.orient_ports(links), links, bed)

    @property
    def negative_traffic_problem(self) -> tuple[str, str] | None:
        by_ports = any(own.counts_by_ports for own in self._servers.values())
        return counting.NEGATIVE_TRAFFIC_PROBLEM if by_ports else None

    def compute_max_rate_fps(self, needs: frozenset[Capability], mode: Mode) -> float:
        stamps_all = needs & bursts.ALL_STAMPED_CAPABILITIES.keys()
        limit_fps = bursts.compute_stamp_limit_fps(mode) if stamps_all else math.inf
        return len(self._servers) * limit_fps

    def describe_counting(self, needs: frozenset[Capability], mode: Mode, most_fps: float) -> str:
        share_fps = most_fps / len(self._servers)
        ways = (_describe_counting(own, needs, mode, share_fps) for own in self._servers.values())
        return " or ".join(dict.fromkeys(ways))

    def list_warnings(self, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        parts = len(self._servers)
        warnings: list[str] = []
        for name, own in self._servers.items():
            shares = [trial.get("servers", {name: trial}).get(name, {}) for trial in figures]
            warnings += _list_warnings(own, shares)
        yield from dict.fromkeys(warnings)
        if parts == 1:
            return
        for name, own in self._servers.items():
            host = own.ssh.host if own.ssh else own.server
            ports = " and ".join(map(str, own.interfaces or own.all_ports))
            yield (
                f"server {name} ({host}:{own.rpc_port}, {ports}) sends 1/{parts} of the frames and of "
                "the flows, and counts the frames that return to its own ports"
            )
        yield (
            f"a trial is invalid if its {parts} servers start more than {self.options.max_skew:.2%} of "
            "its duration apart; connections of TCP use the first server only"
        )

    def check_connections(self, most: int, needs: frozenset[Capability]) -> None:
        connections.check_connections(-(-most // len(self._servers)), needs)

    def list_connection_warnings(self, most: int, needs: frozenset[Capability]) -> Iterator[str]:
        yield from connections.describe_costs(-(-most // len(self._servers)), needs)

    def check_tcp_connections(
        self, technology: object, max_connections: int, tcp: Tcp, alpha: float | None
    ) -> Iterator[str]:
        from v6t.drivers.trex import astf

        if not self._first.is_owned:
            problem = "TCP connections need TRex's ASTF engine: a lab server on Linux interfaces"
            hint = "set lab: true without interfaces, or use --tester embedded"
            raise UsageError(problem, hint, code="unsupported-by-tester")
        astf.check_connections(technology, max_connections, tcp, alpha)
        yield astf.METHOD_WARNING

    def examine(self, *, required: bool) -> Iterator[Finding]:
        from v6t.drivers.trex.doctor import examine

        for name, own in self._servers.items():
            where = f", server {name}" if len(self._servers) > 1 else ""
            for subject, state, text in examine(own, must_start=required):
                yield f"{subject}{where}", state, text


def _describe_counting(
    options: TrexOptions, needs: frozenset[Capability], mode: Mode, most_fps: float
) -> str:
    if options.counts_by_ports:
        return "ports"
    limit_fps = bursts.compute_stamp_limit_fps(mode)
    beyond = most_fps > limit_fps and not needs & bursts.ALL_STAMPED_CAPABILITIES.keys()
    stamps = f"trailer up to {limit_fps:,.0f} fps, by ports beyond" if beyond else "trailer"
    marks = _uses_marks(options, needs, most_fps)
    way = f"marks or {stamps}" if marks is None else "marks" if marks else stamps
    # the cores of a server that v6t attaches to decide how frames are distinguished
    is_open = options.counting == "auto" and not options.must_start
    if is_open and needs <= bursts.SAMPLED_CAPABILITIES:
        return f"{way}, or ports where the server has several cores"
    return way


def _uses_marks(options: TrexOptions, needs: frozenset[Capability], most_fps: float) -> bool | None:
    """Whether frames are marked in trials with these needs; None: in some trials, or unknown."""
    if needs:
        return None if needs & {"connections", "flow-starts"} else False
    if options.marks is not None:
        return options.marks
    if not options.port_driver.uses_kernel or most_fps <= bursts.ALWAYS_STAMPED_FPS:
        return False
    if not (options.core_list and options.must_start):
        return None  # the CPUs of its host decide
    return place_threads(1 + len(options.pairs), (), options.core_list).is_shared


def _list_warnings(options: TrexOptions, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cores = max((trial.get("cores", 1) for trial in figures), default=1)
    if options.counts_by_ports or not all(trial.get("by_trailer", True) for trial in figures):
        some = "some are" if any(CAPTURED_STAMPS_KEY in trial for trial in figures) else "none is"
        text = "TRex counts by port, less control frames: one class; a duplicate hides a lost frame"
        yield text + (f", and {some} compared with the reference translation" if figures else "")
    else:
        yield from _list_trailer_warnings(options, [trial.get("counting", "") for trial in figures])
    if cores > 1:
        yield (
            f"TRex's receiver sees only a part of the frames of its {cores} data path cores: an ARP "
            "request of the device may be counted as a test frame, hide a lost one and remain "
            "unanswered; give the device static neighbors"
        )
        if any(trial.get("timed") == "tagged frames" for trial in figures):
            yield (
                f"one of TRex's {cores} data path cores sent a stamped stream in addition to the "
                "load of all; tables show its share. A latency trial is invalid if TRex's receiver "
                "missed a frame of it, so high rates may have no delays at all"
            )
    versions = dict.fromkeys(trial.get("version") or ACCURACY_VERSION for trial in figures)
    if others := [version for version in versions if version != ACCURACY_VERSION]:
        known = f"errors of its delays were measured with {ACCURACY_VERSION} only"
        yield f"the server is TRex {' and '.join(others)}: {known}"
    stamps = (one for trial in figures for one in trial.get(CAPTURED_STAMPS_KEY, {}).values())
    shares = [one["captured"] / one["received"] for one in stamps if one["received"]]
    if min(shares, default=1.0) < 1:
        some, least = sum(share < 1 for share in shares), math.floor(100 * min(shares))
        yield (
            f"in {some} of {len(shares)} trials and directions TRex's receiver did not see all "
            f"stamped frames that its cores received, in the worst {least}%: frames that "
            "the device sent by itself may have been taken for test frames there, and loss may be "
            f"higher than reported ('{CAPTURED_STAMPS_KEY}' in journal.jsonl)"
        )


def _list_trailer_warnings(options: TrexOptions, ways: Sequence[str]) -> Iterator[str]:
    """Yield warnings about trailers and marks; ``ways``: how trials counted, empty in a plan."""
    is_certain = ways or options.counting == "trailer" or options.must_start
    several = "" if is_certain else " and with several data path cores"
    yield (
        f"TRex counts test frames by a trailer in searches up to {bursts.MAX_STAMPED_FPS:,.0f} fps (both "
        f"directions together); in faster ones{several} it counts all frames of its ports and "
        "compares samples. A duplicate that does not directly follow its frame hides a lost one, and "
        "a frame that is under way for more than 4 s counts as lost"
    )
    if options.cache:
        yield "cache has no effect on frames with a trailer: use rows, or set counting to ports"
    may_mark = options.port_driver.uses_kernel if options.marks is None else options.marks
    if any("marks" in way for way in ways) if ways else may_mark:
        where = "option marks: true"
        if not options.marks:
            where = f"above {bursts.ALWAYS_STAMPED_FPS:,.0f} fps if TRex's threads share CPUs, "
            where += "unless the option marks is false"
        yield (
            "in trials without delays a lost frame and a duplicate of the same class cancel out, "
            f"because TRex counts marked frames ({where})"
        )
