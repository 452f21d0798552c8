"""A log level for changes of a device and waits: shown without -v, but not with -q."""

import logging

NOTICE = 25

logging.addLevelName(NOTICE, "NOTICE")
