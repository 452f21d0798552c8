"""Fault matrix: expected state of the device by fault and phase."""

from __future__ import annotations

PHASES = ("connect", "commit", "verify", "flush", "rollback")

UNTOUCHED = "untouched"
RESTORED = "restored"
REPORTED = "reported"
IGNORED = "ignored"

# Outcomes if the connection breaks and cannot be restored.
LATER = {**dict.fromkeys(PHASES, REPORTED), "connect": UNTOUCHED}
# Outcomes if the fault happens once and a new connection works.
ONCE = {**LATER, "commit": RESTORED, "rollback": RESTORED}

OUTCOMES: dict[str, dict[str, str]] = {
    "refused": LATER,
    "authentication failure": LATER,
    "changed host key": LATER,
    "hang": ONCE,
    "drop in the middle": ONCE,
    "partial output": ONCE,
    "wrong exit status": {**ONCE, "verify": IGNORED, "rollback": REPORTED},
    "no UTF-8": {**ONCE, "commit": IGNORED, "flush": IGNORED},
    "no permission": {**ONCE, "rollback": REPORTED},
    "reboot": {**ONCE, "verify": RESTORED, "flush": RESTORED},
}
