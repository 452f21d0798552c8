"""The level of log records that a command shows unless it runs with ``-q``."""

from __future__ import annotations

import logging

NOTICE = 25
"""Between ``logging.INFO`` and ``logging.WARNING``."""

logging.addLevelName(NOTICE, "NOTICE")
