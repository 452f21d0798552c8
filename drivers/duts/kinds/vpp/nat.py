"""NAT64 and NPTv6 of VPP."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.nat44 import (
    Cli,
    counted,
    in_use,
    pool_words,
    public,
    sides,
    taken_and_made,
    until_empty,
)
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import Check, Intent, Step, Was, checked, has_lines, matches
from v6t.drivers.duts.readings import Reading
from v6t.intent.families import Nat64Config, NptConfig

NPT66 = (24, 2)
"""First version whose bindings can be read back; the plugin itself came with 23.10."""


def prefixes(intent: Intent, cli: Cli, ports: Mapping[str, str]) -> list[Step]:
    """NPTv6: a binding of the interface on the right, which VPP has one of at most."""
    npt, shown = intent.configuration_as(NptConfig), cli("show npt66 bindings")
    pair = f"internal {npt.internal} external {npt.external}"
    binding = f"set npt66 binding interface {ports['right']} {pair}"
    return [
        Step(
            cli(binding),
            f"translate {npt.internal} to {npt.external} and back",
            undo=cli(f"{binding} del"),
            before=f"{shown} | grep -F 'internal: ' || true",
            was=Was.FOREIGN,
            silent=True,
            check=matches(
                shown,
                rf"^\[\d+\] internal: {npt.internal} external: {npt.external}\s*$",
                f"'internal: {npt.internal} external: {npt.external}'",
            ),
        )
    ]


def refuse_prefixes(version: str) -> None:
    """NPTv6 where there is none.

    Raises:
        UsageError: the version has no plugin npt66, or one that does not show what it does.
    """
    if syntax.key(version) < NPT66:
        first = ".".join(f"{number:02}" for number in NPT66)
        raise UsageError(
            f"VPP {version} has no NPTv6 that could be checked: the plugin npt66 came with 23.10, its "
            f"command `show npt66 bindings` with {first}",
            f"install VPP {first} or newer",
            code="unsupported-by-version",
        )


def nat64(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: VppOptions
) -> list[Step]:
    """NAT64: everything but interfaces, addresses and routes."""
    configuration = intent.configuration_as(Nat64Config)
    prefix = configuration.prefix
    sessions = options.sessions or intent.requirements.sessions
    enable, room = syntax.enable_nat64(sessions, configuration.session_limit)
    words = pool_words(intent, ("session_limit",))
    # an address that is removed by itself leaves its count of ports in use behind, for the next one
    # (nat64_add_del_pool_addr): after 64511 bindings over all trials none would be left
    pool = public(cli, "nat64", words, add="add pool address", gone=True)
    return [
        Step(
            cli(enable),
            f"NAT64 with room for {room} sessions",
            undo=cli("nat64 plugin disable"),
            before=in_use(cli, "nat64", ("pool", "interfaces", "prefix", "bib all")),
            was=Was.FOREIGN,
            silent=True,
        ),
        Step(
            cli(f"nat64 add prefix {prefix}"),
            "IPv4 destinations as IPv6 addresses",
            undo=cli(f"nat64 del prefix {prefix}"),
            check=has_lines(cli("show nat64 prefix"), f"{prefix} tenant-vrf 0"),
            silent=True,
        ),
        pool,
        sides(cli, ports, "nat64"),
    ]


def occupancy64(intent: Intent, options: VppOptions) -> Reading:
    """How full NAT64's table of sessions is, out of the statistics."""
    limit = intent.configuration_as(Nat64Config).session_limit
    _, room = syntax.enable_nat64(options.sessions or intent.requirements.sessions, limit)
    return counted(options, "/nat64/total-sessions", room)


def flush64(steps: list[Step], cli: Cli) -> tuple[Step, ...]:
    """Empty NAT64's table: no command does, so it is taken away and made again.

    Args:
        steps: of :func:`nat64`.
        cli: a command of VPP as a shell line.
    """
    seen = f"! {cli('show nat64 bib all')} | grep -vq -e BIB -e '^$'"
    return (until_empty(taken_and_made(steps), seen, _empty64(cli)),)


def _empty64(cli: Cli) -> Check:
    def checker(output: str) -> str | None:
        head, *rows = [line for line in output.splitlines() if line.strip()] or [""]
        if "BIB" not in head:
            return "it does not say which bindings there are"
        return f"{len(rows)} bindings are left" if rows else None

    return checked(cli("show nat64 bib all"), checker, "no binding")
