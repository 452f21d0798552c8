"""The fault matrix: what goes wrong, when, and how the device is found afterwards."""

from __future__ import annotations

PHASES = ("connect", "commit", "verify", "flush", "rollback")

UNTOUCHED = "untouched"
RESTORED = "restored"
TOLD = "told"
NOTED = "noted"

MEANING = {
    UNTOUCHED: "nothing was changed",
    RESTORED: "v6t has put everything back, over a new connection if need be",
    TOLD: "the device is still configured; the message says so and names the command that undoes "
    "it, and that command does",
    NOTED: "v6t reads on: what was said does not matter here",
}

LATER = {"connect": UNTOUCHED, "commit": TOLD, "verify": TOLD, "flush": TOLD, "rollback": TOLD}
"""The connection breaks in the phase, and no new one can be made."""
ONCE = {
    "connect": UNTOUCHED,
    "commit": RESTORED,
    "verify": TOLD,
    "flush": TOLD,
    "rollback": RESTORED,
}
"""It happens once; a new connection works."""

OUTCOMES: dict[str, dict[str, str]] = {
    "refused": LATER,
    "authentication failure": LATER,
    "changed host key": LATER,
    "hang": ONCE,
    "drop in the middle": ONCE,
    "partial output": ONCE,
    "wrong exit status": {**ONCE, "verify": NOTED, "rollback": TOLD},
    "no UTF-8": {**ONCE, "commit": NOTED, "flush": NOTED},
    "no permission": {**ONCE, "rollback": TOLD},
    "reboot": {**ONCE, "verify": RESTORED, "flush": RESTORED},
}


def table() -> str:
    """The matrix in Markdown, for the documentation."""
    lines = [
        "# Fault matrix",
        "",
        "What is found on the device after a fault, by the phase in which it happens. Every cell",
        "is a test against a real sshd (`tests/drivers/duts/test_faults.py`); this page is generated",
        "from the outcomes the tests demand.",
        "",
        "| fault | " + " | ".join(PHASES) + " |",
        "|---|" + "---|" * len(PHASES),
    ]
    for fault, outcomes in OUTCOMES.items():
        lines.append(f"| {fault} | " + " | ".join(outcomes[p] for p in PHASES) + " |")
    lines += ["", *(f"- **{word}**: {text}" for word, text in MEANING.items()), ""]
    lines += [
        "*Refused*, *authentication failure* and *changed host key* in a phase after the first mean",
        "that the connection breaks there and the new one fails in this way.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(), end="")
