"""DNS resolution performance (RFC 8219 section 9.2): the search for a rate of queries, and its self-test."""

from dataclasses import dataclass

from v6t.procedures.throughput import ThroughputSpec
from v6t.trials.trial import MAX_QUERIES_PER_NAME

BENCHMARK = "resolution"
SELFTEST_TIMEOUT_SHARE = 0.25  # timeout of the self-test over that of the device (section 9.2.1)


@dataclass(frozen=True)
class ResolutionSpec(ThroughputSpec):
    """Specification of the search for the highest rate of DNS queries."""

    benchmark, unit = BENCHMARK, "queries/s"


def compute_covered_qps(capacity_qps: float, delta: float) -> float:
    """Return the highest rate that a self-test covers.

    Section 9.2.1 requires ``2 (r + delta)`` with a delta of at least 0.1, which is taken as a share of r.

    Args:
        capacity_qps: rate that the tester answers itself, within a quarter of the timeout.
    """
    return capacity_qps / (MAX_QUERIES_PER_NAME * (1 + delta))
