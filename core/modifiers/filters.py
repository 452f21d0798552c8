"""The device filters what it forwards: by one condition or by 25 (RFC 2544 section 11.4)."""

from __future__ import annotations

from v6t.core.modifiers.base import Modifier
from v6t.intent.device import DeviceRequirements


class OneFilter(Modifier):
    """The test traffic may pass, and nothing else."""

    name = "filters-1"
    source = "RFC 2544 section 11.4, RFC 5180 section 6.2.2"
    driven = True
    requirements = DeviceRequirements(filters=1)

    @property
    def words(self) -> str:
        return (
            "one filter in each direction and version of IP lets the addresses of the test traffic "
            "pass, all else is denied"
        )


class ManyFilters(OneFilter):
    """The thirteenth of 25 lets the test traffic pass."""

    name = "filters-25"
    requirements = DeviceRequirements(filters=25)

    @property
    def words(self) -> str:
        return (
            "25 filters in each direction: 12 deny other addresses, one of each version of IP lets those of "
            "the test traffic pass, 12 deny others, and all else is denied"
        )
