"""Fault matrix: expected state of the device by fault and phase."""

from __future__ import annotations

PHASES = ("connect", "commit", "verify", "flush", "rollback")

UNTOUCHED = "untouched"
RESTORED = "restored"
REPORTED = "reported"
IGNORED = "ignored"

MEANING = {
    UNTOUCHED: "nothing was changed",
    RESTORED: "v6t undid all changes, over a new connection if necessary",
    REPORTED: "the device is still configured; the message names the command that undoes it, and "
    "that command works",
    IGNORED: "v6t continues, because the output does not matter here",
}

# Outcomes if the connection breaks and cannot be restored.
LATER = {
    "connect": UNTOUCHED,
    "commit": REPORTED,
    "verify": REPORTED,
    "flush": REPORTED,
    "rollback": REPORTED,
}
# Outcomes if the fault happens once and a new connection works.
ONCE = {
    "connect": UNTOUCHED,
    "commit": RESTORED,
    "verify": REPORTED,
    "flush": REPORTED,
    "rollback": RESTORED,
}

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


def render_table() -> str:
    """Render the matrix as a Markdown page for the documentation."""
    lines = [
        "# Fault matrix",
        "",
        "The state of the device after a fault, by the phase of the fault. Tests against a real sshd",
        "(`tests/drivers/duts/test_faults.py`, `test_logins.py`) try all cells of *connect* and *commit*, and half",
        "of the others. This page is generated from the expected outcomes.",
        "",
        "| fault | " + " | ".join(PHASES) + " |",
        "|---|" + "---|" * len(PHASES),
    ]
    for fault, outcomes in OUTCOMES.items():
        lines.append(f"| {fault} | " + " | ".join(outcomes[p] for p in PHASES) + " |")
    lines += ["", *(f"- **{word}**: {text}" for word, text in MEANING.items()), ""]
    lines += [
        "In later phases, *refused*, *authentication failure* and *changed host key* mean that the",
        "connection breaks there and the next one fails in this way.",
        "",
    ]
    return "\n".join(lines)
