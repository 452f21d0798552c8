"""How the reference device misbehaves, to see that the tester notices."""

from pydantic import Field
from v6t.base.strict_model import StrictModel


class Faults(StrictModel):
    """Faults of the reference device that the tester must find."""

    drop_every: int = Field(0, ge=0, description="Drop one of every N forwarded frames; 0: none")
    duplicate_every: int = Field(0, ge=0, description="Duplicate one of every N; 0: none")
    corrupt_octet: int = Field(default=-1, ge=-1)
    """Invert this octet of forwarded frames; -1: none."""
    slow_ns: int = Field(0, ge=0, description="Additional time for each frame [ns]")
