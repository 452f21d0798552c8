"""NPTv6 of VPP (RFC 6296)."""

from __future__ import annotations

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import VppFunction
from v6t.drivers.duts.plan import Step, expect_matching_line
from v6t.drivers.duts.steps import create_object
from v6t.intent.families import NptConfig

FIRST_READABLE_VERSION = (24, 2)  # with ``show npt66 bindings``; the plugin came with 23.10


class Npt66(VppFunction):
    """VPP as NPTv6, with a single binding on the interface of the right side."""

    plugin = "npt66"

    def check_supported(self, version: str) -> None:
        if outputs.parse_version(version) < FIRST_READABLE_VERSION:
            first = ".".join(f"{number:02}" for number in FIRST_READABLE_VERSION)
            raise UsageError(
                f"VPP {version} has no NPTv6 that could be checked: the plugin npt66 came with 23.10, its "
                f"command `show npt66 bindings` with {first}",
                f"install VPP {first} or newer",
                code="unsupported-by-version",
            )

    def make_steps(self, version: str) -> list[Step]:
        npt = self.intent.configuration_as(NptConfig)
        pair = f"internal {npt.internal} external {npt.external}"
        binding = f"set npt66 binding interface {self.ports['right']} {pair}"
        listed = f"internal: {npt.internal} external: {npt.external}"
        return [
            create_object(
                self.cli(binding),
                self.cli(f"{binding} del"),
                f"translate {npt.internal} to {npt.external} and back",
                read=f"{self.cli('show npt66 bindings')} | grep -F 'internal: ' || true",
                expected=expect_matching_line(rf"\[\d+\] {listed}", f"'{listed}'"),
                silent=True,
            )
        ]
