"""How the reference device misbehaves, to see that the tester notices."""

from __future__ import annotations

from pydantic import Field
from v6t.base.strict_model import StrictModel


class Faults(StrictModel):
    """Faults of the reference device that the tester must find."""

    drop_every: int = Field(default=0, ge=0)
    """One forwarded frame in so many is lost; 0: none."""
    duplicate_every: int = Field(default=0, ge=0)
    """One forwarded frame in so many is sent twice; 0: none."""
    corrupt_octet: int = Field(default=-1, ge=-1)
    """This octet of every forwarded frame is inverted; -1: none."""
    slow_ns: int = Field(default=0, ge=0)
    """Time each frame takes longer [ns]."""
