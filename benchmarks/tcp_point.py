"""Where TCP benchmarks are measured: the size of a SYN stands in place of a frame size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from v6t.base.ethernet import FCS_OCTETS, GAP_OCTETS, max_frame_rate_fps
from v6t.profiles.model import FramePair
from v6t.profiles.tcp.http import HEADER_OCTETS, OPENING_OCTETS, in_segments, response
from v6t.trials.connections import Connections
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.benchmarks.context import MeasuredTechnology, RunContext

FRAMES_EACH = 2
"""That a client sends to open a connection: SYN and acknowledgement."""
_ETHERNET_OCTETS, _TAG_OCTETS = 14, 4
_IP_OCTETS = {4: 20, 6: 40}


def syn_sizes(plugin: MeasuredTechnology) -> FramePair:
    """Octets of a SYN on both sides, as the technology makes them of a listed size."""
    least = min(plugin.ip_versions)
    octets = _ETHERNET_OCTETS + _IP_OCTETS[least] + OPENING_OCTETS + FCS_OCTETS
    if plugin.links.left.vlan is not None:
        octets += _TAG_OCTETS
    return plugin.frame_pair(octets + plugin.overhead)


def media_cps(line_rate_bps: float, sizes: FramePair, object_octets: int) -> int:
    """Connections a second for whose opening, and for whose objects, the medium has room."""
    opened = max_frame_rate_fps(line_rate_bps, sizes.longest) // FRAMES_EACH
    each = sizes.longest - OPENING_OCTETS + HEADER_OCTETS + GAP_OCTETS
    octets = sum(each + len(part) for part in in_segments(response(object_octets)))
    return max(1, min(opened, int(line_rate_bps / (8 * octets))))


def syn_medium(bound: RunContext) -> tuple[FramePair, int]:
    """The size of a run's SYNs, and what its medium carries [connections per second]."""
    sizes = syn_sizes(bound.technology)
    settings: Any = bound.settings.procedure
    return sizes, media_cps(bound.settings.line_rate_bps, sizes, settings.tcp.object_octets)


def opening(bound: RunContext, measure: Measure) -> Measure:
    """In loopback, for the tester's own capacity: it opens connections and asks for objects in them."""
    settings: Any = bound.settings.procedure
    tcp = settings.tcp.for_trials

    def measured(trial: Trial) -> TrialResult:
        connections = Connections(
            trial.frames,
            trial.rate_fps,
            wait_s=tcp.max_wait_s,
            alpha=1.0,
            purpose="establish",
            tcp=tcp,
        )
        return _worse(measure(_with(trial, connections)))

    return measured


def opening_key(key: str) -> str:
    """What a trial of the self-test is called in the journal where it opens connections."""
    return f"tcp-{key}"


def _with(trial: Trial, connections: Connections) -> Trial:
    return replace(trial, key=opening_key(trial.key), connections=connections)


def _worse(result: TrialResult) -> TrialResult:
    """Both phases are judged as one direction: the one that lost more, or took longer."""

    def missing(way: str) -> tuple[int, float]:
        direction = result.directions[way]
        return direction.count_frames("required") - direction.count_frames(
            "received"
        ), direction.sending_time_s

    worst = max(result.directions, key=missing)
    return replace(result, directions={"forward": result.directions[worst]})
