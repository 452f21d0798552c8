"""Errors that several drivers raise."""

from __future__ import annotations

from functools import partial

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.facts import Facts

# Makes the UsageError for a setting that an implementation does not support.
make_unsupported_error = partial(UsageError, code="unsupported-by-device")


def make_missing_program_error(
    program: str, source: str, use: str = "", *, from_option: bool = False
) -> DutError:
    """Return the error for a program that is not installed on the device.

    Args:
        source: Debian package, or address of the publisher.
        use: purpose of the program, as the rest of the sentence.
        from_option: the program is the one in ``dut.options.program``.
    """
    hint = f"see {source}" if "://" in source else f"apt-get install {source}"
    if from_option:
        hint += "; dut.options.program says where it is"
    return DutError(f"the device lacks the program {program}{use}", hint, code="missing-program")


def require_program(facts: Facts, program: str, source: str, use: str = "") -> None:
    """Raise DutError if the device lacks a program; see :func:`make_missing_program_error`."""
    if program not in facts.programs:
        raise make_missing_program_error(program, source, use)
