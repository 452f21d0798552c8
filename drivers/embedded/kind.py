"""The embedded tester as a kind: it builds its lab itself and has no options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from v6t.drivers.lab import privilege
from v6t.drivers.tester_kind import Finding, TesterKind
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.embedded.tester import EmbeddedTester
    from v6t.drivers.lab.setup import LabDevice

THIS_MACHINE = "this machine"


class Embedded(TesterKind):
    """Frames through packet sockets in network namespaces of this machine."""

    name = "embedded"
    title = "real frames through network namespaces of this machine; builds its lab itself"
    in_lab = True
    shared = THIS_MACHINE
    stamps = (
        "from the moment the tester hands the frame to the kernel, read for each frame, to the "
        "moment the kernel has received all of it, in software; both by the time of day in "
        "nanoseconds, and a trial during which that clock was stepped is invalid"
    )

    def read(self, given: Mapping[str, Any]) -> Any:
        """None."""
        if given:
            raise UsageError(
                f"the embedded tester has no option '{next(iter(given))}'",
                "options are for other testers: --tester sim, --tester trex",
            )
        return super().read(given)

    def prepare(self) -> None:
        """Namespaces."""
        privilege.acquire()

    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> EmbeddedTester:
        """In namespaces of its own."""
        from v6t.drivers.embedded.tester import EmbeddedTester

        return EmbeddedTester(links, None if loopback else device)

    def caveats(self) -> Iterator[str]:
        """Who shares the machine."""
        yield "tester and device share this machine's cores: the numbers describe both"

    def examine(self, *, named: bool) -> Iterator[Finding]:
        """Whether namespaces can be made."""
        can, how = privilege.available()
        if can:
            yield "embedded lab", "ok", f"network namespaces as {how}"
        else:
            yield "embedded lab", "missing", how
