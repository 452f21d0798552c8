"""Programs that a device lacks: one sentence, and where they come from."""

from __future__ import annotations

from v6t.profiles.errors import DutError


def lacking(program: str, source: str, use: str = "", *, named: bool = False) -> DutError:
    """What to say of a program that is not there.

    Args:
        program: its name, or where it should be.
        source: Debian's package of it, or the address of who publishes it where there is none.
        use: what it is for, where its driver does not say that: ``, with which SNMP is spoken``.
        named: ``dut.options.program`` names it.
    """
    hint = f"see {source}" if "://" in source else f"apt-get install {source}"
    if named:
        hint += "; dut.options.program says where it is"
    return DutError(f"the device lacks the program {program}{use}", hint)
