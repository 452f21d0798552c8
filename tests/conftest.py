"""What holds for all tests: runs are not reported on unless a test asks for it."""

from __future__ import annotations

import os

os.environ.setdefault("V6T_REPORT", "0")
