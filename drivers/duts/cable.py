"""No device: the tester's two ports joined, for self-tests and direct connections."""

from __future__ import annotations

from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.reference import Unconfigured


class CableOptions(StrictModel):
    """No device: a cable from one port of the tester to the other.

    In the lab v6t joins them itself. Frames must come back as they were sent, and what is measured is
    the tester.
    """


class Cable(Unconfigured):
    """Nothing between the tester's ports."""

    name = "cable"
    title = "no device: the tester's ports joined, to measure the tester itself"
    executed = "with real frames"
    options_model = CableOptions
    absent = True
