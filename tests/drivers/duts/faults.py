"""Expected outcome of every fault in every phase; shown in the documentation of devices."""

PHASES = ("connect", "commit", "verify", "flush", "rollback")

UNTOUCHED, RESTORED, REPORTED, IGNORED = "untouched", "restored", "reported", "ignored"

# Outcomes if no new connection is possible.
PERSISTENT_FAULT = {**dict.fromkeys(PHASES, REPORTED), "connect": UNTOUCHED}
# Outcomes if the fault occurs once and a new connection is possible.
SINGLE_FAULT = {**PERSISTENT_FAULT, "commit": RESTORED, "rollback": RESTORED}

OUTCOMES: dict[str, dict[str, str]] = {
    **dict.fromkeys(("refused", "authentication failure", "changed host key"), PERSISTENT_FAULT),
    **dict.fromkeys(("hang", "drop in the middle", "partial output"), SINGLE_FAULT),
    "wrong exit status": {**SINGLE_FAULT, "verify": IGNORED, "rollback": REPORTED},
    "no UTF-8": {**SINGLE_FAULT, "commit": IGNORED, "flush": IGNORED},
    "no permission": {**SINGLE_FAULT, "rollback": REPORTED},
    "reboot": {**SINGLE_FAULT, "verify": RESTORED, "flush": RESTORED},
}
