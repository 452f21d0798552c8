"""Stateless IP/ICMP translation (RFC 7915) by explicit address mappings and by prefix."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.plugins.audit_views import (
    GLOBAL_HOST,
    MAPPED_HOST,
    OVERLAPPING_MAPPINGS,
    PREFIX_BESIDE_MAPPINGS,
    RAISED_MTU,
    UNLIKE_MAPPINGS,
    WELL_KNOWN_PREFIX,
    prefix_variants,
    variant_prefix,
)
from v6t.plugins.base import PluginParams
from v6t.plugins.siit.base import StatelessTranslator
from v6t.plugins.siit.params import TranslatorParams
from v6t.plugins.translation.eam import Mappings, mappings_from_text, read_pairs
from v6t.plugins.translation.rfc6052 import WELL_KNOWN


class EamEntry(PluginParams):
    """One explicit address mapping (RFC 7757)."""

    ipv4: str
    ipv6: str

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        """Accept ``IPV4 = IPV6``, as it is printed."""
        if not isinstance(value, str):
            return value
        four, equals, six = (part.strip() for part in value.partition("="))
        if not equals:
            raise InvalidValue("an IPv4 and an IPv6 prefix are wanted, for example "
                             "198.18.0.0/24 = 2001:2::/120", code="wrong-form")  # fmt: skip
        return {"ipv4": four, "ipv6": six}

    def __str__(self) -> str:
        return f"{self.ipv4} = {self.ipv6}"

    __repr__ = __str__


PAPER = (
    EamEntry(ipv4="198.18.0.0/24", ipv6="2001:2::/120"),
    EamEntry(ipv4="198.19.0.0/24", ipv6="2001:2:0:1000::/120"),
)
"""Test bed of Lencse and Shima (2020), as the README of siitperf has it."""


class SiitParams(TranslatorParams):
    """Everything ``siit`` can be told."""

    orientation: Literal["nat64", "nat46"] = Field(
        "nat64", description="nat64: IPv6 on the left link; nat46: IPv4 on the left link"
    )
    eam: tuple[EamEntry, ...] = Field(PAPER, description="explicit address mappings (RFC 7757)")
    eam_file: Path | None = Field(
        None, description="file with further mappings, an IPv4 and an IPv6 prefix per line"
    )
    prefix: str | None = Field(
        None, description="RFC 6052 prefix for addresses without explicit mapping"
    )

    @cached_property
    def mappings(self) -> Mappings:
        pairs = [(e.ipv4, e.ipv6) for e in self.eam]
        if self.eam_file is not None:
            pairs += read_pairs(self.eam_file)
        return mappings_from_text(pairs, self.prefix)


class Siit(StatelessTranslator):
    """Translates between an IPv6-only and an IPv4-only network; stateless."""

    name = "siit"
    title = "SIIT: stateless IPv4/IPv6 translation by address mappings or prefix, either way round"
    rfcs = ("RFC 7915 sections 4 and 5", "RFC 7757 section 3", "RFC 6052 section 2")
    params_model = SiitParams
    spread: ClassVar[dict[str, Any]] = {
        "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.254"},
        "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.254"},
    }
    params: SiitParams

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """By the orientation."""
        return (6, 4) if self.params.orientation == "nat64" else (4, 6)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        tables = {
            OVERLAPPING_MAPPINGS: (_PLAIN, ("198.18.0.64/26", "2001:2:0:64::/122")),
            UNLIKE_MAPPINGS: (("198.18.0.0/24", "2001:2:0:64::/64"),),
        }
        return {
            RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **prefix_variants("prefix", eam=[], eam_file=None),
            **{
                name: {"eam_file": None, "eam": _table(*rows, _SERVERS), **_HOSTS}
                for name, rows in tables.items()
            },
            PREFIX_BESIDE_MAPPINGS: {
                "eam_file": None,
                "prefix": variant_prefix(96),
                "eam": _table(_PLAIN, _SERVERS),
                **_HOSTS,
            },
            WELL_KNOWN_PREFIX: {
                "prefix": str(WELL_KNOWN),
                **_HOSTS,
                "ipv4_hosts": {"first": GLOBAL_HOST, "last": GLOBAL_HOST},
                "eam": _table(_PLAIN),
                "eam_file": None,
            },
        }


_PLAIN = ("198.18.0.0/24", "2001:2::/120")
_SERVERS = ("198.19.0.0/24", "2001:2:0:1::/120")
_HOSTS = {
    "ipv6_hosts": {
        "first": str(MAPPED_HOST - 1),
        "last": str(MAPPED_HOST),
        "policy": "random",
    },
    "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.2", "policy": "random"},
}
"""Hosts that the tables of audits map, whatever hosts the user chose."""


def _table(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"ipv4": four, "ipv6": six} for four, six in rows]
