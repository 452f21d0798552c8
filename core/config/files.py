"""What may stand in run files, testbed files and flags, before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from v6t.base.strict_model import StrictModel
from v6t.core.config.frame_sizes import FrameSize
from v6t.core.config.settings import Preset


class RunFile(StrictModel):
    """What to measure."""

    plugin: str | None = None
    """Technology: a name of `v6t plugins`."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the technology, see `v6t plugins NAME`."""
    preset: Preset | None = None
    """`quick`, a demonstration, or `rfc`; none: quick."""
    benchmarks: list[str] | None = None
    """What to measure; none: throughput."""
    modes: list[str] | None = None
    """`bidirectional`, `forward`, `reverse`; none: all three."""
    frame_sizes: list[FrameSize] | None = None
    """Sizes of the IPv6 frame, octets with FCS; `imix` or `imix:64x28,570x16,1518x4`: several in that
    proportion; none: the preset's for the technology."""
    procedure: dict[str, Any] = Field(default_factory=dict)
    """Single settings of the procedures, in place of the preset's; see below."""
    modifier: str | None = None
    """What goes on beside the test traffic, with all benchmarks: `broadcast` (RFC 2544 section 11); none:
    nothing."""
    seed: int | None = None
    """Of all pseudorandom numbers; none: 1."""
    label: str | None = None
    """Words for the directory name and the results."""


def _refuse_stacked_tags(value: Any) -> Any:
    if isinstance(value, list):
        raise PydanticCustomError(
            "stacked_tags",
            "must be one identifier; stacked tags (IEEE 802.1ad) are not supported",
        )
    return value


class AsideFile(StrictModel):
    """Where native IPv6 goes instead of through the technology."""

    vlan: int
    """IEEE 802.1Q identifier, another one than the link's own, which must have one."""
    device: str | None = None
    """The device's IPv6 address there, with prefix length; none: one of v6t's own."""
    tester: str | None = None
    """The tester's; none: the second of that network by default."""


class LinkFile(StrictModel):
    """One cable."""

    tester_mac: str | None = None
    """MAC address of the tester's end; none: one of v6t's own for the lab."""
    dut_mac: str | None = None
    """MAC address of the device's end; none: one of v6t's own for the lab."""
    vlan: Annotated[int | None, BeforeValidator(_refuse_stacked_tags)] = None
    """IEEE 802.1Q identifier, 1 to 4094; none: untagged."""
    mtu: int | None = None
    """Octets of IP packet, 1280 to 9216; none: 1500."""
    answers: bool = True
    """The tester answers ARP and neighbour solicitations for its addresses on it (GEN-27)."""
    learning: bool | None = None
    """Before each trial the tester's hosts ask for the device, so that it and bridges on the way learn them
    (RFC 2544 section 23 b); none: where the tester answers."""
    background: AsideFile | None = None
    """A VLAN for the background alone, where the device drops native IPv6 with the technology on (MIX-04);
    none: it goes with everything else."""


class LinksFile(StrictModel):
    """Both cables."""

    left: LinkFile = Field(default_factory=LinkFile)
    """The cable at the tester's left port: with IPv6, or with the private side."""
    right: LinkFile = Field(default_factory=LinkFile)
    """The cable at its right port: with IPv4, or with the public side."""


class TesterFile(StrictModel):
    """Which tester."""

    kind: str = "auto"
    """`embedded`, `trex` or `sim`; `auto`: embedded."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of this tester, see below."""


class DutFile(StrictModel):
    """Which device driver."""

    driver: str | None = None
    """Name of a device driver; none: the plugin's own reference device."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of this driver, see below."""


def _as_text(value: Any) -> Any:
    """Take a plain number of bit/s without quotes."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else value


class TestbedFile(StrictModel):
    """On what to measure."""

    tester: TesterFile = Field(default_factory=TesterFile)
    """What sends and receives."""
    dut: DutFile = Field(default_factory=DutFile)
    """What is measured."""
    links: LinksFile = Field(default_factory=LinksFile)
    """The two cables between them."""
    initiator: Literal["left", "right"] = "left"
    """At which port of the tester the technology's left side is: the Initiator of a stateful one, IPv6 or the
    private side. `right`: the device is wired the other way; forward is from the Initiator all the same."""
    line_rate: Annotated[str | None, BeforeValidator(_as_text)] = None
    """The medium's rate in bit/s, for example 10G, 2.5Gbps, 100M; none: 10G."""


@dataclass(frozen=True)
class Flags:
    """What the command line says; None and empty mean "not given"."""

    plugin: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tester: str | None = None
    tester_options: Mapping[str, str] = field(default_factory=dict)
    dut: str | None = None
    dut_params: Mapping[str, str] = field(default_factory=dict)
    initiator: str | None = None
    preset: str | None = None
    benchmarks: Sequence[str] = ()
    modes: Sequence[str] = ()
    frame_sizes: Sequence[int | str] = ()
    procedure: Mapping[str, Any] = field(default_factory=dict)
    procedure_texts: Mapping[str, str] = field(default_factory=dict)
    of_settings: Mapping[str, str] = field(default_factory=dict)
    modifier: str | None = None
    seed: int | None = None
    label: str | None = None
    single_frames: bool = False
    """No benchmark is measured: the device receives single frames only."""
