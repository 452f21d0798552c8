"""What a machine may lack for a test, and the sentence by which the test is skipped."""

from __future__ import annotations

import os

import pytest
from v6t.drivers.lab.privilege import available

LAB, _WHY = available()
needs_lab = pytest.mark.skipif(not LAB, reason=f"needs a lab: {_WHY}")

TREX_DIR = os.environ.get("TREX_DIR", "")
NO_TREX = (
    "" if TREX_DIR else "needs a TRex installation: set TREX_DIR to the directory with t-rex-64"
)
needs_trex = pytest.mark.skipif(bool(NO_TREX), reason=NO_TREX)
