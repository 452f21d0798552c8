"""Programs that a device lacks, or that are others: one sentence for each, and where they come from."""

from __future__ import annotations

import re

from v6t.base.errors import DutError


def lacking(program: str, source: str, use: str = "", *, named: bool = False) -> DutError:
    """Return the error of a program that is not installed.

    Args:
        program: its name, or where it should be.
        source: Debian's package of it, or the address of who publishes it where there is none.
        use: what it is for, where its driver does not say that: ``, with which SNMP is spoken``.
        named: ``dut.options.program`` names it.
    """
    hint = f"see {source}" if "://" in source else f"apt-get install {source}"
    if named:
        hint += "; dut.options.program says where it is"
    return DutError(f"the device lacks the program {program}{use}", hint, code="missing-program")


def version_in(text: str, pattern: str, words: str, command: str) -> str:
    """Parse a program's version."""
    found = re.search(pattern, text)
    if found is None:
        raise DutError(
            f"the device has no {words}: '{command}' does not print its version",
            "set dut.options.program to where it is",
            code="unexpected-answer",
        )
    return found[1]
