"""Errors that several drivers raise."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.base.errors import DutError, UsageError


def make_missing_program_error(
    program: str, source: str, use: str = "", *, named: bool = False
) -> DutError:
    """Return the error of a program that is not installed.

    Args:
        source: Debian's package of it, or the address of who publishes it where there is none.
        use: what it is for, where its driver does not say that: ``, with which SNMP is spoken``.
        named: ``dut.options.program`` names it.
    """
    hint = f"see {source}" if "://" in source else f"apt-get install {source}"
    if named:
        hint += "; dut.options.program says where it is"
    return DutError(f"the device lacks the program {program}{use}", hint, code="missing-program")


def make_unsupported_error(
    problem: str,
    hint: str = "",
    *,
    params: Mapping[str, object] | None = None,
    dut_params: Mapping[str, object] | None = None,
    code: str = "unsupported-by-device",
) -> UsageError:
    """Return the UsageError for a setting that an implementation does not support."""
    return UsageError(problem, hint, params=params, dut_params=dut_params, code=code)
