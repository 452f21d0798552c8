"""The embedded tester as a kind: it builds its lab itself and has no options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from v6t.drivers.lab import privilege
from v6t.drivers.tester_kind import THIS_MACHINE, Finding, TesterKind

if TYPE_CHECKING:
    from v6t.drivers.embedded.tester import EmbeddedTester
    from v6t.drivers.lab.setup import LabDevice
    from v6t.trials.trial import Capability

WARNED_CONNECTIONS = 1_000_000  # From this number on a plan warns of the memory
CONNECTION_OCTETS = 120
"""Largest memory per connection, measured with nat44 from 100,000 to 600,000 connections: the table
of 12 octets (36 with IPv6 behind the device) in each process that maps it, and the memory of a
search in it."""


class Embedded(TesterKind):
    """Kind of tester that sends frames through packet sockets in network namespaces."""

    name = "embedded"
    title = "real frames through network namespaces of this machine; builds its lab itself"
    in_lab = True
    exclusive_resource = THIS_MACHINE
    setup_s = 5.0
    load_s = 0.6
    overhead_s = 0.1
    usual_retries = 0.3
    usual_cps = 400_000.0
    stamps = (
        "from the moment the tester hands the frame to the kernel, read for each frame, to the "
        "moment the kernel has received all of it, in software; both by the time of day in "
        "nanoseconds, and a trial during which that clock was stepped, or slewed by more than 0.1 %, is "
        "invalid"
    )
    delay_error = (
        "the tester's own error: median +95 to +123 us, 99.9 % quantile below +9.1 ms at 1,000 fps and "
        "+0.2 ms at 10,000 and 50,000 fps; measured on an idle "
        "two-CPU virtual machine, in network namespaces; not subtracted (docs/accuracy.md)"
    )

    def prepare(self) -> None:
        privilege.acquire()

    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> EmbeddedTester:
        from v6t.drivers.embedded.tester import EmbeddedTester

        return EmbeddedTester(links, None if loopback else device)

    def list_connection_warnings(self, most: int, needs: frozenset[Capability]) -> Iterator[str]:
        memory_octets = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if most >= WARNED_CONNECTIONS:
            yield (
                f"{most:,} connections take up to {most * CONNECTION_OCTETS / 2**30:.1f} GiB of memory, "
                f"this machine has {memory_octets / 2**30:.1f} GiB"
            )

    def examine(self, *, required: bool) -> Iterator[Finding]:
        can, how = privilege.check_availability()
        if can:
            yield "embedded lab", "ok", f"network namespaces as {how}"
        else:
            yield "embedded lab", "missing", how
