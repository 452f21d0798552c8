"""A technology with its parameters, as the tester sees it and as the device does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from v6t.core.config.flags import expanded
from v6t.core.config.validation import validated, within
from v6t.intent.device import BackgroundVlan
from v6t.plugins.address_plan import check_addresses
from v6t.plugins.base import Link, Links, PluginParams, Technology

if TYPE_CHECKING:
    from v6t.core.config.settings import LinkSettings
    from v6t.core.config.yaml_document import Document

_ON_DEVICE = ("dut", "options", "params")
"""Where a testbed file has parameters that the device alone believes."""


def params_of(
    plugin: type[Technology],
    values: Mapping[str, Any],
    flags: Mapping[str, str] | None = None,
    document: Document | None = None,
    above: tuple[str, ...] = ("params",),
) -> PluginParams:
    """Return the validated parameters.

    Args:
        plugin: whose.
        values: of the run file, or of an earlier run.
        flags: of the command line.
        document: the run file.
        above: where the values stand in their file.

    Raises:
        UsageError: the first that is wrong, with its place.
    """
    flagged = expanded(flags or {})
    with within(None if flagged else document, above):
        checked = validated(plugin.params_model, {**values, **flagged}, document, above, flagged)
    return checked  # type: ignore[no-any-return]


def make_technology(
    kind: type[Technology],
    params: PluginParams,
    links: Links,
    document: Document | None = None,
    above: tuple[str, ...] = ("params",),
) -> Technology:
    """Return a technology whose device can have all its addresses.

    Args:
        kind: of the technology.
        params: of the technology.
        links: both cables.
        document: the file that gives the parameters.
        above: where they stand in it.

    Raises:
        UsageError: an address is impossible, see :func:`v6t.plugins.address_plan.check_addresses`.
    """
    technology = kind(params, links)
    with within(document, above):
        check_addresses(technology.dut_intent(), params)
    return technology


def links_of(
    left: LinkSettings, right: LinkSettings, initiator: Literal["left", "right"] = "left"
) -> Links:
    """Both cables as the technology has them.

    Args:
        left: at the tester's left port.
        right: at its right port.
        initiator: which of them is the technology's left one (ST-01).
    """
    one, other = _link(left), _link(right)
    return Links(one, other) if initiator == "left" else Links(other, one, swapped=True)


def _link(settings: LinkSettings) -> Link:
    values = settings.model_dump(mode="json")
    vlan = values.pop("background")
    return Link(**values, background=BackgroundVlan(**vlan) if vlan else None)


def on_device(
    technology: Technology,
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    document: Document | None = None,
) -> Technology:
    """Return the same technology with the parameters that only the device is given.

    Args:
        technology: as the tester sees it.
        values: its parameters.
        overrides: those that the device alone believes.
        document: the testbed file that gives them.

    Raises:
        UsageError: they cannot be.
    """
    if not overrides:
        return technology
    kind = type(technology)
    own = {**values, **overrides}
    with within(document, _ON_DEVICE):
        params = params_of(kind, own, document=document, above=_ON_DEVICE)
    return make_technology(kind, params, technology.links, document, _ON_DEVICE)
