"""Options of VPP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from v6t.drivers.duts.options import DutOptions

START_HINT = (
    "set dut.options.start: true, and left and right to the kernel's names (eth1) of interfaces that no "
    "other VPP holds"
)
"""What to do where only a VPP of v6t's own will do."""


class VppOptions(DutOptions):
    """Options of VPP; ``left`` and ``right`` are VPP's names of its interfaces."""

    start: bool | None = None
    """Start a VPP of v6t's own on the kernel's interfaces left and right (AF_PACKET); not said:
    in the lab, and never elsewhere."""
    program: str = Field(default="vpp", pattern=r"^[A-Za-z0-9_./-]+$")
    """VPP, where v6t starts it."""
    vppctl: str = Field(default="", pattern=r"^[A-Za-z0-9_./-]*$")
    """Its command line client; empty: the one beside the program."""
    socket: str = Field(default="", pattern=r"^[A-Za-z0-9_./-]*$")
    """CLI socket of the VPP to drive; empty: vppctl's default."""
    workers: str = Field(default="", pattern=r"^[0-9,-]*$")
    """Cores of worker threads of a VPP that v6t starts; empty: the main thread does everything."""
    main_core: int = Field(default=0, ge=0)
    """Core of the main thread of a VPP that v6t starts."""
    plugins: str = Field(default="", pattern=r"^[A-Za-z0-9_./:-]*$")
    """Directory of plugins of a VPP that v6t starts; empty: its default."""
    sessions: int = Field(default=0, ge=0, le=1 << 30)
    """Sessions per worker; 0: what the technology says."""
    timeout_s: int = Field(default=3600, ge=0, le=864_000)
    """Timeout of UDP sessions, longer than any test [s]; 0: what VPP has by itself."""

    nat44: Literal["ed", "ei"] = "ed"
    """Which of its NAT44 plugins: endpoint-dependent or endpoint-independent."""

    known_losses: bool = False
    """Configure also MAP-T prefixes of which VPP is known to lose packets: for audits that show it."""

    @property
    def started(self) -> bool:
        """Whether the VPP is v6t's own."""
        return self.in_lab if self.start is None else self.start

    @property
    def control(self) -> str:
        if self.vppctl or "/" not in self.program:
            return self.vppctl or "vppctl"
        return f"{self.program.rpartition('/')[0]}/vppctl"

    @property
    def statistics(self) -> str:
        """The client of the statistics segment, beside that of the command line."""
        place, slash, _ = self.control.rpartition("/")
        socket = f" socket-name {self.state_dir}/vpp-stats.sock" if self.started else ""
        return f"{place}{slash}vpp_get_stats{socket}"
