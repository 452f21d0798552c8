"""The binding table of a lwAFTR (RFC 7596, section 6.1) in columns, up to millions of rows.

A row, a *softwire*, binds an IPv4 address and a PSID to the IPv6 address of a lwB4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import numpy as np
from v6t.base.errors import UsageError
from v6t.base.files import explain_read_error
from v6t.intent.binding_table import read_softwires
from v6t.packets.address_layouts import GeneratedSoftwires
from v6t.packets.arrays import I64, U8, U64
from v6t.packets.headers import to_octets
from v6t.plugins.audit_views import Softwire
from v6t.plugins.reference_device import is_forwardable_address
from v6t.plugins.tunnels import address_octets


@dataclass(frozen=True, eq=False)
class BindingTable:
    """Columns ``(n,)`` and addresses ``(n, 16)`` in ascending order of IPv4 address and PSID.

    PSID length and offset are equal for equal addresses.
    """

    ipv4: U64
    psid: U64
    psid_len: U64
    psid_offset: U64
    b4: U8
    br: U8

    def __len__(self) -> int:
        return len(self.ipv4)

    def __post_init__(self) -> None:
        first = np.flatnonzero(np.append(True, self.ipv4[1:] != self.ipv4[:-1]))
        keys = self.ipv4 << np.uint64(16) | self.psid
        object.__setattr__(self, "_index", (first, self.ipv4[first], keys))

    def find(self, ipv4: U64, port: U64) -> I64:
        """Return the row of each address ``(n,)`` and port ``(n,)``, -1 for none."""
        first, addresses, keys = self._index  # type: ignore[attr-defined]
        ipv4, port = ipv4.astype(np.uint64), port.astype(np.uint64)
        place = np.minimum(np.searchsorted(addresses, ipv4), len(addresses) - 1)
        row = first[place]
        length, offset = self.psid_len[row], self.psid_offset[row]
        shared = length > 0
        low = np.where(shared, np.uint64(16) - offset - length, np.uint64(16))
        psid = port >> low & (np.uint64(1) << length) - np.uint64(1)
        excluded = shared & (offset > 0) & (port >> (np.uint64(16) - offset) == 0)
        wanted = ipv4 << np.uint64(16) | psid
        index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (addresses[place] == ipv4) & (keys[index] == wanted) & ~excluded
        return np.where(hit, index, -1).astype(np.int64)

    def find_b4(self, ipv4: IPv4Address, port: int) -> IPv6Address | None:
        row = int(self.find(np.array([int(ipv4)]), np.array([port]))[0])
        return None if row < 0 else self.softwire(row).b4

    def softwire(self, row: int) -> Softwire:
        columns = self.psid, self.psid_len, self.psid_offset
        psid, length, offset = (int(column[row]) for column in columns)
        ends = IPv6Address(self.b4[row].tobytes()), IPv6Address(self.br[row].tobytes())
        return Softwire(IPv4Address(int(self.ipv4[row])), psid, length, offset, *ends)

    def list_softwires(self, ipv4: IPv4Address) -> list[Softwire]:
        return [self.softwire(int(row)) for row in np.flatnonzero(self.ipv4 == int(ipv4))]


def generate_table(
    softwires: GeneratedSoftwires, count: int, psid_offset: int, br: IPv6Address
) -> BindingTable:
    """Generate the rows of the first ``count`` softwires of a lwAFTR with one address and PSID offset."""
    number = np.arange(count, dtype=np.uint64)
    return BindingTable(
        softwires.ipv4_layout.encode_words(softwire=number)[0],
        softwires.psid_layout.encode_words(softwire=number)[0],
        np.full(count, softwires.psid_len, dtype=np.uint64),
        np.full(count, psid_offset, dtype=np.uint64),
        softwires.b4_layout.encode_octets(softwire=number),
        np.broadcast_to(address_octets(br), (count, 16)),
    )


def read_table(path: Path, br: IPv6Address) -> BindingTable:
    """Read a binding table from a file with one softwire per line, or raise UsageError.

    Columns: IPv4 address, PSID, its length and offset, lwB4 and, if it is not ``br``, lwAFTR address.
    """
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as exc:
        raise explain_read_error(f"the binding table {path}", exc) from exc
    return _read(path, stamp, br)


@lru_cache(maxsize=4)
def _read(path: Path, _stamp: int, br: IPv6Address) -> BindingTable:
    rows = list(_read_rows(path, br))
    if not rows:
        raise UsageError(f"the binding table {path} is empty", code="empty-file")
    numbers = np.array([row[:4] for row in rows], dtype=np.uint64)
    order = np.lexsort((numbers[:, 1], numbers[:, 0]))
    ipv4, psid, length, offset = (np.ascontiguousarray(c) for c in numbers[order].T)
    ends = np.frombuffer(b"".join(row[4] + row[5] for row in rows), np.uint8).reshape(-1, 32)
    b4, brs = np.ascontiguousarray(ends[order, :16]), np.ascontiguousarray(ends[order, 16:])
    same = ipv4[1:] == ipv4[:-1]
    mixed = (length[1:] != length[:-1]) | (offset[1:] != offset[:-1])
    problems = [
        (same & (psid[1:] == psid[:-1]), "is bound twice"),
        (same & mixed, "has several PSID lengths or offsets"),
    ]
    for name, addresses in (("IPv4", to_octets(ipv4, 4)), ("lwB4", b4), ("lwAFTR", brs)):
        wrong = ~is_forwardable_address(addresses)
        shown = ip_address(addresses[wrong.argmax()].tobytes())
        problems.append((wrong, f"has the {name} address {shown}, which no device forwards"))
    for wrong, problem in problems:
        if wrong.any():
            row = int(wrong.argmax())
            where = f"{path}: {IPv4Address(int(ipv4[row]))} (PSID {psid[row]})"
            hint = "correct the binding table"
            raise UsageError(f"{where} {problem}", hint, code="invalid-table-row")
    return BindingTable(ipv4, psid, length, offset, b4, brs)


def _read_rows(path: Path, br: IPv6Address) -> Iterator[tuple[int, int, int, int, bytes, bytes]]:
    for number, row in read_softwires(path):
        k, a = row.psid_len, row.psid_offset
        reason = "PSID 0 of 16 bits has port 0 only" if k == 16 and not row.psid else ""
        if row.psid >= 1 << min(k, 64) or a > 16 or (k and a + k > 16):
            reason = "no such PSID"
        if reason:
            problem = f"{path}:{number}: {reason}: {row.psid}, of {k} bits after {a}"
            hint = "PSID offset and length are 16 bits at most, and the PSID has that length"
            raise UsageError(problem, hint, code="invalid-table-row")
        yield int(row.ipv4), row.psid, k, a, row.b4.packed, (row.br or br).packed
