"""Expected outcome of every fault in every phase; shown in the documentation of devices."""

from __future__ import annotations

PHASES = ("connect", "commit", "verify", "flush", "rollback")

UNTOUCHED = "untouched"
RESTORED = "restored"
REPORTED = "reported"
IGNORED = "ignored"

# Outcomes if no new connection is possible.
PERSISTENT_FAULT = {**dict.fromkeys(PHASES, REPORTED), "connect": UNTOUCHED}
# Outcomes if the fault occurs once and a new connection is possible.
SINGLE_FAULT = {**PERSISTENT_FAULT, "commit": RESTORED, "rollback": RESTORED}

OUTCOMES: dict[str, dict[str, str]] = {
    "refused": PERSISTENT_FAULT,
    "authentication failure": PERSISTENT_FAULT,
    "changed host key": PERSISTENT_FAULT,
    "hang": SINGLE_FAULT,
    "drop in the middle": SINGLE_FAULT,
    "partial output": SINGLE_FAULT,
    "wrong exit status": {**SINGLE_FAULT, "verify": IGNORED, "rollback": REPORTED},
    "no UTF-8": {**SINGLE_FAULT, "commit": IGNORED, "flush": IGNORED},
    "no permission": {**SINGLE_FAULT, "rollback": REPORTED},
    "reboot": {**SINGLE_FAULT, "verify": RESTORED, "flush": RESTORED},
}
