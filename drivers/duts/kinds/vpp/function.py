"""Base of VPP's functions, and the steps of its commands."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import DeviceChange, IfExists, Intent, Step
from v6t.drivers.duts.readings import Reading
from v6t.intent.device import LinkIntent

# hint for functions that only a VPP started by v6t supports
START_HINT = "set dut.options.start: true, and left and right to unused interfaces of the kernel"


class VppOptions(DutOptions):
    """Options of VPP; ``left`` and ``right`` are VPP's interfaces, or the kernel's if v6t starts VPP."""

    neighbours: Literal["static", "resolved"] = "static"
    """How the device resolves the tester's addresses: static entries, or neighbor discovery and ARP."""
    start: bool | None = None
    """Start a separate VPP on the kernel's interfaces (AF_PACKET); default: only in the lab."""
    program: str = Field(default="vpp", pattern=r"^[A-Za-z0-9_./-]+$")
    """Program ``vpp`` of a VPP that v6t starts."""
    vppctl: str = Field(default="", pattern=r"^[A-Za-z0-9_./-]*$")
    """Command line client; empty: the one in the directory of ``program``."""
    socket: str = Field(default="", pattern=r"^[A-Za-z0-9_./-]*$")
    """CLI socket of the VPP; empty: vppctl's default."""
    workers: str = Field(default="", pattern=r"^[0-9,-]*$")  # list of cores, such as 2-3,6
    """Cores of worker threads of a VPP that v6t starts; empty: only the main thread works."""
    main_core: int = Field(default=0, ge=0)  #: Core of the main thread of a VPP that v6t starts.
    plugins: str = Field(default="", pattern=r"^[A-Za-z0-9_./:-]*$")
    """Plugin directory of a VPP that v6t starts; empty: VPP's default."""
    sessions: int = Field(default=0, ge=0, le=1 << 30)
    """Sessions per worker; 0: the technology's requirement."""
    timeout_s: int = Field(default=3600, ge=0, le=864_000)
    """UDP timeout, longer than any test [s]; 0: VPP's default."""

    nat44: Literal["ed", "ei"] = "ed"  #: NAT44 plugin: endpoint-dependent or endpoint-independent.

    known_losses: bool = False
    """Also configure MAP-T prefixes for which VPP is known to lose packets, so that audits can show it."""

    @property
    def starts_vpp(self) -> bool:
        """Whether v6t starts VPP: the option ``start``, which is true in the lab by default."""
        return self.in_lab if self.start is None else self.start

    @property
    def vppctl_path(self) -> str:
        """Path of vppctl, from the option ``vppctl`` or else in the directory of ``program``."""
        if self.vppctl or "/" not in self.program:
            return self.vppctl or "vppctl"
        return f"{self.program.rpartition('/')[0]}/vppctl"

    @property
    def stats_command(self) -> str:
        """Command of ``vpp_get_stats``, the statistics client in vppctl's directory."""
        place, slash, _ = self.vppctl_path.rpartition("/")
        socket = f" socket-name {self.state_dir}/vpp-stats.sock" if self.starts_vpp else ""
        return f"{place}{slash}vpp_get_stats{socket}"


DEFAULT_UDP_TIMEOUT_S = 300.0  # VPP's default; for NAT64, no command changes it


class Vppctl:
    """Builder of shell lines for VPP commands, which report errors by output, not by exit status."""

    def __init__(self, options: VppOptions) -> None:
        own = f"{options.state_dir}/vpp-cli.sock" if options.starts_vpp else ""
        socket = options.socket or own
        self._client = options.vppctl_path + (f" -s {socket}" if socket else "")

    def __call__(self, command: str) -> str:
        return f"{self._client} {command}"

    def make_step(self, command: str, why: str, *, undo: str = "", **fields: Any) -> Step:
        """Return the step that runs a VPP command, by default one that creates a new object."""
        fields = {"existing": IfExists.NONE, "silent": True, **fields}
        return Step(self(command), why, undo=self(undo) if undo else "", **fields)


class VppFunction:
    """VPP as a plain router, and base of the other functions of VPP."""

    plugin: ClassVar[str] = ""  # plugin that the function needs; empty: none
    newer_plugin: ClassVar[str] = ""  # plugin that only newer versions need
    notes: ClassVar[tuple[str, ...]] = ()  # notes for the plan
    profile: ClassVar[HeaderProfile] = HeaderProfile()  # of frames that VPP sends
    session_counter: ClassVar[str] = ""  # in VPP's statistics segment; empty: none
    has_endpoint_independent_mapping: ClassVar[bool] = False  # a session covers all peers

    def __init__(
        self, intent: Intent, options: VppOptions, cli: Vppctl, ports: Mapping[str, str]
    ) -> None:
        self.intent, self.options, self.cli, self.ports = intent, options, cli, ports

    def check_supported(self, version: str) -> None:
        """Raise UsageError for settings that VPP does not support or handles wrongly; suggest others."""

    def get_link_setup(self, side: str) -> tuple[LinkIntent, Sequence[Step]]:
        """Return the link intent of a side, and extra steps between its addresses and neighbors."""
        given: LinkIntent = getattr(self.intent, side)
        return given, ()

    def make_steps(self, version: str) -> list[Step]:
        """Return the steps that configure the function after interfaces and routes."""
        return []

    def make_flush_steps(self, version: str, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return the steps that empty the session table before a trial."""
        return ()

    def get_session_reading(self) -> Reading | None:
        """Return the reading of the number of sessions, or None if VPP reports none."""
        return None

    def get_capacity(self) -> int:
        """Return the number of sessions that the table can hold."""
        return 0

    def get_occupancy_reading(self) -> Reading | None:
        """Return the reading of ``used`` and ``limit`` of the session table of the fullest worker."""
        if not self.session_counter:
            return None
        room = float(self.get_capacity())

        # of each thread ``[0 @ 1]: 20 packets NAME``
        def parse_occupancy(text: str) -> Mapping[str, float]:
            line = rf"^\[0 @ \d+\]: (\d+) packets {re.escape(self.session_counter)}$"
            workers = [float(value) for value in re.findall(line, text, re.MULTILINE)]
            return {"used": max(workers), "limit": room} if workers else {}

        command = f"{self.options.stats_command} dump {self.session_counter} 2>/dev/null; true"
        means = "sessions and the table's limit, of the worker that has most"
        return Reading(command, parse_occupancy, means)

    def get_timeout_s(self) -> float | None:
        """Return the lifetime of idle UDP sessions [s], or None if it is unlimited."""
        return float(self.get_configured_timeout_s() or DEFAULT_UDP_TIMEOUT_S)

    def get_configured_timeout_s(self) -> int:
        """Return the UDP session timeout to configure [s]; 0 keeps VPP's default."""
        return getattr(self.intent.configuration, "udp_timeout_s", 0) or self.options.timeout_s

    def make_live_change(self) -> DeviceChange | None:
        """Return the configuration change to make under traffic, or None."""
        return None
