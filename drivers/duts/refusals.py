"""Errors that several drivers raise."""

from __future__ import annotations

from functools import partial

from v6t.base.errors import DutError, UsageError

make_unsupported_error = partial(UsageError, code="unsupported-by-device")
"""Make the error of a setting that an implementation does not support."""


def make_missing_program_error(
    program: str, source: str, use: str = "", *, named: bool = False
) -> DutError:
    """Return the error of a program that is not installed.

    Args:
        source: Debian's package, or the address of the publisher.
        use: the purpose of the program: ``, with which SNMP is spoken``.
        named: ``dut.options.program`` names it.
    """
    hint = f"see {source}" if "://" in source else f"apt-get install {source}"
    if named:
        hint += "; dut.options.program says where it is"
    return DutError(f"the device lacks the program {program}{use}", hint, code="missing-program")
