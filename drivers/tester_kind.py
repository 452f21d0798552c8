"""Kinds of testers: options, place, rights, capabilities and warnings, known before a tester is made."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from v6t.base.strict_model import StrictModel
from v6t.drivers.options import parse_options
from v6t.drivers.tester import Tester

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import Bed, LabDevice
    from v6t.drivers.prober import Prober
    from v6t.trials.connections import Tcp
    from v6t.trials.trial import Capability, Mode

THIS_MACHINE = "this machine"  # Exclusive resource of a tester in the lab
State = Literal["ok", "note", "missing"]
Finding = tuple[str, State, str]  # Subject, state, and text with the fix


class NoOptions(StrictModel):
    """Options of a tester that has none."""


class TesterKind(ABC):
    """One kind of tester, with the options of a run. Entry point group ``v6t.testers``."""

    name: ClassVar[str]  # Name in testbed files and on the command line
    title: ClassVar[str]  # Description in one line
    options_model: ClassVar[type[Any]] = NoOptions
    """A pydantic model, whose field docstrings describe the options."""
    simulates: ClassVar[bool] = False
    """Whether the device is a part of the tester, so that no frame is sent and no driver used."""
    sending_error_s: ClassVar[float] = 0.0  # Usual error of the time a stream took to send [s]
    setup_s: ClassVar[float] = 0.0
    """Usual time until the first frame of a run [s]; only plans use this and the next four."""
    load_s: ClassVar[float] = 0.0  # Usual time until the first frame of each further size [s]
    overhead_s: ClassVar[float] = 0.0
    """Usual time of a trial beyond its pause, its stream and its wait [s]."""
    usual_retries: ClassVar[float] = 0.0
    """Usual share of a search's trials that are invalid because of the tester and repeated."""
    usual_cps: ClassVar[float] = math.inf  # Usual connections per second
    stamps: ClassVar[str] = ""
    """Start, end, clock and resolution of measured delays ("from ... to ..."), printed with every
    delay. Empty if unknown, or if the tester measures no delays."""
    delay_error: ClassVar[str] = ""
    """Measured error of its delays, with the conditions of that measurement; printed with every delay.
    Empty if the tester sends no frames."""
    speed_neutral_options: ClassVar[frozenset[str]] = frozenset()
    """Names of options that do not change the tester's speed."""
    options: Any

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "prober"):  # it would be ignored
            raise TypeError("prober is now named make_prober")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options(self.options_model, self.name, "tester", options or {})

    @property
    def in_lab(self) -> bool:
        """Whether tester and device are in network namespaces of this machine."""
        return False

    @property
    def can_loop_back(self) -> bool:
        """Whether a run can measure the tester without the device."""
        return True

    @property
    def timeout_s(self) -> float | None:
        """Lifetime of idle connections in the simulated device [s]; None: unlimited or unknown."""
        return None

    @property
    def exclusive_resource(self) -> str | None:
        """Name of a resource that only one run may use at a time; None if runs share everything."""
        return None

    def check_links(self, links: Any) -> None:  # noqa: B027  (most accept all links)
        """Check the options against MAC addresses and VLANs of the links; raise UsageError."""

    def prepare(self) -> None:  # noqa: B027  (some need nothing)
        """Acquire the needed rights before threads are started, or raise EnvironmentLacking."""

    @abstractmethod
    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> Tester:
        """Make an unopened tester.

        Args:
            links: MAC addresses, VLANs and MTUs of the left and the right link.
            device: lab device between the tester's ports; None: the device is elsewhere.
            loopback: connect the tester's ports to each other, without the device.
            delays: whether trials measure the delays of frames.
            seed: seed of all pseudorandom numbers.

        Raises:
            EnvironmentLacking: the tester is not available on this machine.
        """

    def make_prober(self, links: Any, bed: Bed | None) -> Prober | None:
        """Return a prober for the tester's ports, or None to use the lab's prober."""
        return None

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of several servers that send together, else empty."""
        return ()

    @property
    def negative_traffic_problem(self) -> tuple[str, str] | None:
        """Reason why negative traffic cannot be sent, with a hint; None if it can."""
        return None

    def compute_max_rate_fps(self, needs: frozenset[Capability], mode: Mode) -> float:
        """Return the highest rate of trials per direction [fps]."""
        return math.inf

    def describe_counting(self, needs: frozenset[Capability], mode: Mode, most_fps: float) -> str:
        """Describe how test frames are recognized; empty if the tester has only one method."""
        return ""

    def list_warnings(self, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield warnings for every result; ``figures`` are those of each trial, empty in a plan."""
        yield from ()

    def check_connections(self, most: int, needs: frozenset[Capability]) -> None:  # noqa: B027
        """Raise UsageError if the tester cannot have ``most`` connections with the capabilities."""

    def list_connection_warnings(self, most: int, needs: frozenset[Capability]) -> Iterator[str]:
        """Yield warnings about the memory and disk space of ``most`` connections."""
        yield from ()

    def check_tcp_connections(
        self, technology: object, max_connections: int, tcp: Tcp, alpha: float | None
    ) -> Iterator[str]:
        """Check TCP connections; yield warnings about the method of opening them.

        Args:
            technology: technology of the connections.
            max_connections: largest number of simultaneous connections.
            tcp: settings of the connections.
            alpha: rate of object requests divided by the connection rate; None for no requests.

        Raises:
            UsageError: the tester cannot make these connections.
        """
        yield from ()

    def examine(self, *, required: bool) -> Iterator[Finding]:
        """Yield findings for ``v6t doctor``; a tester that is ``required`` must work here."""
        yield from ()
