"""Parameters of the lwAFTR."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import UsageError
from v6t.packets.address_layouts import GeneratedSoftwires
from v6t.packets.reference import DropReason, list_drop_reasons
from v6t.plugins.common.addresses import address
from v6t.plugins.common.relay_params import TunnelRelayParams
from v6t.plugins.common.text import hosts4, network6
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET
from v6t.plugins.tunnel.ipip import UNMARKABLE
from v6t.profiles.compiler.instructions import MAX_LIST

if TYPE_CHECKING:
    from v6t.plugins.lw4o6.binding_table import BindingTable


class LwAftrDrop(DropReason):
    """Why a lwAFTR drops a frame."""

    NO_SOFTWIRE = "no softwire for the IPv4 address and port"
    WRONG_OUTER = "outer addresses are not those of the softwire"
    TOO_BIG = "too big for the IPv6 link"
    UNMARKED = UNMARKABLE


DROP_REASONS = list_drop_reasons(LwAftrDrop, "neither IPv4 in IPv6 for the lwAFTR nor native IPv6")

_MOST_ROUTES = 256
"""Above that, one prefix that holds all lwB4s stands for theirs."""

GENERATED_TABLE = {"softwires", "ipv4_pool", "b4_prefix", "psid_len", "psid_offset"}
"""Settings of the table that v6t generates where no file is given."""

ALL = 0
"""``simulated`` value for "every row of the table"."""


def _simulated(value: Any) -> Any:
    return ALL if value == "all" else value


class LwAftrParams(TunnelRelayParams):
    """Everything ``lwaftr`` can be told."""

    measured: ClassVar[str] = "lw4o6"

    softwires: int = Field(1000, ge=1, le=1 << 24, description="rows of the generated table")
    ipv4_pool: str = Field("198.18.0.0/15", description="addresses of the generated table")
    b4_prefix: str = Field(
        "2001:db8:b400::/40", description="IPv6 prefix of the lwB4s, a /64 for each"
    )
    psid_len: int = Field(6, ge=0, le=16, description="PSID length of the generated table")
    psid_offset: int = Field(
        DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset of the generated table"
    )
    binding_table: Path | None = Field(
        None, description="file with the rows, instead of a generated table"
    )
    simulated: Annotated[int, BeforeValidator(_simulated)] = Field(
        ALL, ge=0, description="softwires that send and receive, 'all': every row of the table"
    )
    br_address: IPv6Address = address(
        "2001:db8:6::1",
        "the lwAFTR's tunnel address; like a loopback address if it is not on the link",
    )

    @cached_property
    def pool(self) -> IPv4Network:
        """The checked pool."""
        return hosts4(self.ipv4_pool, "ipv4_pool")

    @cached_property
    def b4_network(self) -> IPv6Network:
        """The checked prefix."""
        return network6(self.b4_prefix, "b4_prefix")

    @property
    def index_bits(self) -> int:
        """Bits of a generated row's number."""
        return (self.softwires - 1).bit_length()

    @cached_property
    def generated(self) -> GeneratedSoftwires:
        """The softwires of the generated table."""
        return GeneratedSoftwires(self.pool, self.b4_network, self.psid_len, self.index_bits)

    def table(self) -> BindingTable:
        """Return all rows; from the file, or generated."""
        from v6t.plugins.lw4o6.binding_table import generate_table, read_table

        if self.binding_table is not None:
            return read_table(self.binding_table, self.br_address)
        return generate_table(self.generated, self.softwires, self.psid_offset, self.br_address)

    @property
    def customers(self) -> list[str]:
        """IPv6 prefixes that hold the lwB4s."""
        if self.binding_table is None:
            return [str(self.b4_network)]
        high = sorted({int.from_bytes(b4[:8].tobytes(), "big") for b4 in self.table().b4})
        if len(high) > _MOST_ROUTES:
            length = 64 - (high[0] ^ high[-1]).bit_length()
            return [str(IPv6Network((high[0] >> 64 - length << 128 - length, length)))]
        return [str(IPv6Network((number << 64, 64))) for number in high]

    @property
    def br_addresses(self) -> list[str]:
        """All addresses of the lwAFTR, the parameter's first."""
        own = str(self.br_address)
        if self.binding_table is None:
            return [own]
        others = {str(IPv6Address(br.tobytes())) for br in self.table().br}
        return [own, *sorted(others - {own})]

    @model_validator(mode="after")
    def _possible(self) -> LwAftrParams:
        if self.binding_table is None:
            self._check_generated()
            rows = self.softwires
        else:
            self._refuse_generated_settings()
            rows = len(self.table())
            if (self.simulated or rows) > MAX_LIST:
                raise UsageError(
                    f"the binding table has {rows} rows; of a table from a file at most "
                    f"{MAX_LIST} softwires can send and receive at a time",
                    f"set simulated to at most {MAX_LIST}; the device still holds all rows",
                    code="not-enough-addresses",
                )
        if self.simulated > rows:
            raise UsageError(
                f"{self.simulated} simulated softwires are more than the table's {rows} rows",
                code="not-enough-addresses",
            )
        self._check_server()
        return self

    def _refuse_generated_settings(self) -> None:
        """Refuse settings of a generated table next to a table from a file."""
        unused = sorted(self.model_fields_set & GENERATED_TABLE)
        if unused:
            raise UsageError(
                f"binding_table names a file with all rows, so {' and '.join(unused)} cannot be set",
                f"delete {' and '.join(unused)}, or delete binding_table to generate a table",
                code="setting-without-effect",
            )

    def _check_generated(self) -> None:
        if self.psid_len and self.psid_offset + self.psid_len > 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} plus psid_len {self.psid_len} is more than the "
                "16 bits of a port",
                f"set psid_offset to at most {16 - self.psid_len}",
                code="out-of-range",
            )
        if self.psid_len == 16 and not self.psid_offset:
            raise UsageError(
                "with psid_offset 0 and a PSID of 16 bits a lwB4 of PSID 0 has only port 0",
                "shorten the PSID",
                code="not-enough-addresses",
            )
        needed = (self.softwires - 1 >> self.psid_len) + 1
        if needed > self.pool.num_addresses:
            raise UsageError(
                f"{self.softwires} softwires, {1 << self.psid_len} to an address, need {needed} "
                f"addresses; {self.pool} has {self.pool.num_addresses}",
                "widen ipv4_pool, or lengthen psid_len",
                code="not-enough-addresses",
            )
        if self.b4_network.prefixlen + self.index_bits > 64:
            raise UsageError(
                f"{self.b4_network} has no /64 for each of {self.softwires} lwB4s",
                f"use a prefix of at most /{64 - self.index_bits}",
                code="not-enough-addresses",
            )
        if self.br_address in self.b4_network:
            raise UsageError(
                "br_address lies within b4_prefix", "choose one outside", code="address-conflict"
            )

    def _check_server(self) -> None:
        if self.binding_table is None:
            bound = self.server_ipv4 in self.pool
        else:
            bound = bool((self.table().ipv4 == int(self.server_ipv4)).any())
        if bound:
            raise UsageError(
                "server_ipv4 is an address of the binding table, and hairpinning is off",
                "choose one outside",
                code="address-conflict",
            )
