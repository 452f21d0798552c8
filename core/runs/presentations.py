"""The presentations of all benchmarks, for whoever shows or reads records."""

from __future__ import annotations

from v6t.analysis.presentation import Presentations
from v6t.analysis.presentations.bursts import (
    BurstPresentation,
    RecoveryPresentation,
    ResetPresentation,
)
from v6t.analysis.presentations.connections import (
    CapacityPresentation,
    ConnectionRatePresentation,
    TeardownPresentation,
)
from v6t.analysis.presentations.delays import (
    IpdvPresentation,
    LatencyPresentation,
    PdvPresentation,
)
from v6t.analysis.presentations.loss import FrameLossPresentation, LossTimeoutPresentation
from v6t.analysis.presentations.throughput import (
    FrameTimeoutPresentation,
    ThroughputPresentation,
)
from v6t.analysis.presentations.variants import FlowsPresentation, ProbePresentation


def presentations() -> Presentations:
    """Of every benchmark, in the order in which they are measured."""
    return Presentations(
        [
            ConnectionRatePresentation(),
            ThroughputPresentation(),
            FrameTimeoutPresentation(),
            FrameLossPresentation(),
            LossTimeoutPresentation(),
            BurstPresentation(),
            LatencyPresentation(),
            PdvPresentation(),
            IpdvPresentation(),
            RecoveryPresentation(),
            ResetPresentation(),
            TeardownPresentation(),
            CapacityPresentation(),
            FlowsPresentation(),
            ProbePresentation(),
        ]
    )
