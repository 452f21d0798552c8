"""``v6t calc``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import CommandGroup, F, json_option
from v6t.core.cli.terminal import CommandResult, make_result
from v6t.core.log import print_notice

MAX_SHOWN_RANGES = 8  # port ranges of a CE


ipv4_option = click.option(
    "--ipv4", metavar="ADDRESS", help="IPv4 address: that of the CE, or one to translate."
)
ipv6_option = click.option(
    "--ipv6", metavar="ADDRESS", help="IPv6 address: any of the CE, or one to translate."
)


def prefix_option(*, required: bool) -> Callable[[F], F]:
    """Return a decorator that adds the option for the translation prefix."""
    text = "Translation prefix (RFC 6052)."
    return click.option("--prefix", required=required, metavar="PREFIX", help=text)


@click.group(cls=CommandGroup, no_args_is_help=False)
def calc_command() -> None:
    """Calculate addresses, ports and frame rates."""


@calc_command.command("map")
@click.option("--rule-ipv6", required=True, metavar="PREFIX", help="Rule IPv6 prefix.")
@click.option("--rule-ipv4", required=True, metavar="PREFIX", help="Rule IPv4 prefix.")
@click.option("--ea-len", required=True, type=int, help="Length of the EA bits.")
@click.option("--psid-offset", default=6, show_default=True, type=int, help="PSID offset a.")
@click.option("--psid-len", type=int, help="PSID length, for rules without EA bits.")
@click.option("--psid", type=int, help="PSID of the CE.")
@ipv4_option
@ipv6_option
@click.option("--port", type=int, help="A port of the CE.")
@click.option("--iid-format", type=click.Choice(["rfc7597", "draft"]),
              default="rfc7597", show_default=True, help="Format of interface identifiers.")  # fmt: skip
@json_option
def map_command(**arguments: Any) -> CommandResult:
    """Print addresses and ports of a CE (RFC 7597)."""
    from v6t.core.cli.map_calculator import calc_map, iter_map_warnings

    return _make_values_result(calc_map(**arguments), iter_map_warnings(arguments))


@calc_command.command("rfc6052")
@prefix_option(required=True)
@ipv4_option
@ipv6_option
@json_option
def rfc6052_command(prefix: str, ipv4: str | None, ipv6: str | None) -> CommandResult:
    """Embed or extract an IPv4 address (RFC 6052)."""
    from v6t.core.cli.map_calculator import calc_rfc6052, list_rfc6052_warnings

    values = calc_rfc6052(prefix, ipv4, ipv6)
    return _make_values_result(values, list_rfc6052_warnings(**values))


@calc_command.command("eam")
@click.option("--map", "pairs", multiple=True, metavar="IPV4=IPV6", help="An explicit mapping.")
@prefix_option(required=False)
@ipv4_option
@ipv6_option
@json_option
def eam_command(pairs: tuple[str, ...], **arguments: Any) -> CommandResult:
    """Translate by explicit address mappings (RFC 7757).

    Addresses without a mapping are translated with --prefix.
    """
    from v6t.core.cli.map_calculator import calc_eam

    if any(pair.count("=") != 1 for pair in pairs):
        raise UsageError(
            "a mapping is an IPv4 and an IPv6 prefix",
            "write --map 198.18.0.0/24=2001:2::/120",
            code="not-name-and-value",
        )
    mappings = [[part.strip() for part in pair.split("=")] for pair in pairs]
    return _make_values_result(calc_eam(mappings, **arguments))


@calc_command.command("rate")
@click.option("--line-rate", required=True, metavar="RATE", help="For example 10G.")
@click.option("--frame-size", required=True, type=int, help="Octets with FCS.")
@click.option("--overhead", default=0, show_default=True, type=int, help="Octets added on the way.")
@json_option
def rate_command(line_rate: str, frame_size: int, overhead: int) -> CommandResult:
    """Print a link's maximum frame rate (RFC 8219)."""
    from v6t.core.cli.map_calculator import calc_rate

    return _make_values_result(calc_rate(line_rate, frame_size, overhead))


def _make_values_result(values: dict[str, Any], warnings: Iterable[str] = ()) -> CommandResult:
    """Print warnings, and return the computed values with a line for each."""
    for warning in warnings:
        print_notice(f"v6t: note: {warning}")
    width = max(map(len, values))
    lines = (
        f"{name.replace('_', ' '):<{width}}  {_format_value(name, value)}"
        for name, value in values.items()
    )
    return make_result(values, lines, indent=width + 2)


def _format_value(name: str, value: Any) -> str:
    """Return a computed value as text."""
    if value is None:
        return "none (not shared)" if name == "psid" else "none"
    if name != "port_ranges":
        return str(value)
    ranges = [f"{first}-{last}" for first, last in value]
    text = ", ".join(ranges[:MAX_SHOWN_RANGES])
    if len(ranges) > MAX_SHOWN_RANGES:
        text += f", ... {ranges[-1]} ({len(ranges)} ranges)"
    return text
