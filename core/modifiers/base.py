"""What a modifier is: it goes on beside the test traffic, with any benchmark (RFC 2544 section 11)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from v6t.intent.device import DeviceRequirements, Links
from v6t.profiles.model import Traffic

if TYPE_CHECKING:
    from v6t.core.modifiers.repeated import Repeated
    from v6t.drivers.device import DeviceSession
    from v6t.drivers.duts.plan import Plan
    from v6t.trials.trial import Trial


class Modifier(ABC):
    """One condition; a run has one of them at most, because they are measured separately."""

    name: ClassVar[str]
    """On the command line, for example ``broadcast``."""
    source: ClassVar[str]
    """The section that asks for it."""
    driven: ClassVar[bool] = False
    """It needs a driver, which does it to the device."""
    requirements: ClassVar[DeviceRequirements] = DeviceRequirements()
    """What the device must do beyond its technology."""

    in_streams: ClassVar[bool] = False
    """It is done while a stream is sent: see :meth:`during`."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What goes on, as it stands beside every number."""

    def traffic(self, traffic: Traffic, links: Links) -> Traffic:
        """Return the traffic of one direction with what the modifier sends.

        Args:
            traffic: of the technology, or a benchmark's variant of it.
            links: both cables.
        """
        del links
        return traffic

    def suits(self, plan: Plan) -> None:  # noqa: B027  (most need nothing else)
        """Refuse a device whose plan lacks what the modifier needs.

        Raises:
            UsageError: saying what.
        """

    def during(self, trial: Trial, session: DeviceSession) -> Repeated | None:
        """Return what is done to the device while a trial's frames are sent; None: nothing.

        Args:
            trial: as the tester is called for its stream, which follows after its pause.
            session: with the device, which is configured.
        """
        del trial, session
        return None

    def summary(self, done: Sequence[Mapping[str, Any]]) -> list[str]:
        """Summarize its effect in these trials, for every number."""
        times = sum(each["times"] for each in done)
        if not times:
            return []
        right = sum(each["right"] for each in done)
        slowest_s = max(each["slowest_s"] for each in done)
        why = next((each["why"] for each in done if each["why"]), "")
        return [
            f"{self.name}: {right:,} of {times:,} right, the slowest took {1000 * slowest_s:.0f} ms"
            + (f"; first trouble: {why}" if why else "")
        ]
