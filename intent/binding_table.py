"""Rows of a lwAFTR's binding table in a file (RFC 7596, section 6.1)."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

from v6t.base.errors import UsageError
from v6t.base.files import read_text
from v6t.base.strict_model import refuse_zone

_ROW_HINT = (
    "a row is: IPv4 address, PSID, PSID length, PSID offset, lwB4 address, and the lwAFTR's "
    "address if it differs"
)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+", re.ASCII)


class SoftwireRow(NamedTuple):
    """One line of the file; ``br`` is the address of the lwAFTR, if the line has one."""

    ipv4: IPv4Address
    psid: int
    psid_len: int
    psid_offset: int
    b4: IPv6Address
    br: IPv6Address | None = None


def read_softwires(path: Path) -> Iterator[tuple[int, SoftwireRow]]:
    """Read the rows of a binding table, each with its line number.

    Columns are separated by blanks or commas, ``#`` begins a comment. Numbers are decimal, or
    hexadecimal after ``0x``.

    Raises:
        UsageError: the file cannot be read, or a line is not a row.
    """
    lines = read_text(path, subject=f"the binding table {path}").splitlines()
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            if len(words) not in (5, 6):
                plural = "s" * (len(words) != 1)
                raise ValueError(f"{len(words)} column{plural} found, 5 or 6 expected")
            ipv4, (psid, length, offset) = IPv4Address(words[0]), map(_parse_number, words[1:4])
            addresses = (refuse_zone(IPv6Address(word)) for word in words[4:])
            row = SoftwireRow(ipv4, psid, length, offset, *addresses)
        except ValueError as exc:
            problem = f"{path}:{number}: {exc}"
            raise UsageError(problem, _ROW_HINT, code="invalid-table-row") from exc
        yield number, row


def _parse_number(text: str) -> int:
    """Parse a decimal number, or a hexadecimal one after ``0x``."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"'{text:.40}' is not a number")
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text)
