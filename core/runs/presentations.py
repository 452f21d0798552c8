"""The presentations of all benchmarks, for whoever shows or reads records."""

from __future__ import annotations

from typing import Any

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
from v6t.analysis.records import results


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


def results_schema() -> dict[str, Any]:
    """The JSON schema of ``results.json``, with the records of all benchmarks."""
    return results.results_schema({name: p.record for name, p in presentations().known.items()})
