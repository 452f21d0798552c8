"""What stateless technologies share: a reference device that answers each frame by itself."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from v6t.plugins.base import Technology

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.direction import Direction
    from v6t.packets.reference import Expected
    from v6t.plugins.common.reference_device import ReferenceDevice


class StatelessTechnology(Technology):
    """Keeps no connections."""

    @abstractmethod
    def reference_device(self) -> ReferenceDevice:
        """The device with these parameters; asked for once, when the first frame is answered."""

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """What the reference device emits; see the base class."""
        return self._device.expect(direction, frames)

    @cached_property
    def _device(self) -> ReferenceDevice:
        return self.reference_device()
