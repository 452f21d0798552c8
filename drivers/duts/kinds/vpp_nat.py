"""Stateful technologies of VPP: NAT44-ED, NAT64, DS-Lite AFTR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address

from v6t.drivers.duts.kinds import nat, vpp_syntax
from v6t.drivers.duts.model import Check, Intent, Step, Was, contains, judged, matches
from v6t.profiles.errors import UsageError

Cli = Callable[[str], str]
DEFAULT_SESSIONS = 63 * 1024


def steps(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: object
) -> list[Step]:
    """Everything but interfaces, addresses and routes."""
    kinds = {"nat44": _nat44, "nat64": _nat64, "ds-lite": _dslite}
    return kinds[intent.technology](intent, version, cli, ports, options)


def flush(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: object
) -> tuple[Step, ...]:
    """Empty the session table; where no command does, take NAT away and make it again."""
    clear = vpp_syntax.clear_nat44(version)
    if intent.technology == "nat44" and clear:
        lines = [cli(clear)]
    else:
        own = steps(intent, version, cli, ports, options)
        lines = [s.undo for s in reversed(own) if s.undo] + [s.command for s in own]
    check = empty(cli) if intent.technology == "nat44" else _empty64(cli)
    return (Step(" ; ".join(lines), "no session of an earlier trial is left", check=check),)


def empty(cli: Cli) -> Check:
    """NAT44 has no session."""

    def judge(output: str) -> str | None:
        count = vpp_syntax.nat44_sessions(output).get("sessions")
        if count is None:
            return "it does not say how many sessions there are"
        return f"{count:.0f} sessions are left" if count else None

    return judged(cli("show nat44 summary"), judge, "no session")


def _empty64(cli: Cli) -> Check:
    def judge(output: str) -> str | None:
        rows = [line for line in output.splitlines() if " protocol " in line]
        return f"{len(rows)} bindings are left" if rows else None

    return judged(cli("show nat64 bib all"), judge, "no binding")


def _pool(intent: Intent) -> str:
    pool = nat.pool_of(intent)
    first, last = pool.addresses[0], pool.addresses[-1]
    return first if first == last else f"{first} - {last}"


def _nat44(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: object
) -> list[Step]:
    wanted = int(getattr(options, "sessions", 0) or intent.settings.get("sessions") or 0)
    sessions = max(wanted, DEFAULT_SESSIONS)
    timeout = int(getattr(options, "timeout_s", 3600))
    enable = vpp_syntax.enable_nat44(version, sessions)
    found = []
    if enable:
        found.append(
            Step(
                cli(enable),
                f"endpoint-dependent NAT44 with room for {sessions} sessions per worker",
                undo=cli(vpp_syntax.disable_nat44(version)),
                before=cli("show nat44 addresses") + " | grep -e '^[0-9]' || true",
                was=Was.FOREIGN,
                check=contains(cli("show nat44 summary"), "sessions"),
                silent=True,
            )
        )
    left, right = ports["left"], ports["right"]
    return [
        *found,
        *_addresses(intent, cli, "nat44", "nat44 add address", "show nat44 addresses"),
        Step(
            cli(f"set interface nat44 in {left} out {right}"),
            "the clients' side and the public side",
            undo=cli(f"set interface nat44 in {left} out {right} del"),
            check=contains(cli("show nat44 interfaces"), f"{left} in", f"{right} out"),
            silent=True,
        ),
        Step(
            cli(f"set nat timeout udp {timeout}"),
            "sessions live longer than any test: expiry would look like loss",
            check=matches(
                cli("show nat timeouts"), rf"udp timeout: {timeout}\s*sec", f"{timeout} s"
            ),
            silent=True,
        ),
    ]


def _nat64(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: object
) -> list[Step]:
    del options
    prefix = intent.settings["prefix"]
    found = []
    if vpp_syntax.key(version) >= (21, 1):
        found.append(
            Step(
                cli("nat64 plugin enable"),
                "NAT64 with its default table sizes",
                undo=cli("nat64 plugin disable"),
                before=cli("show nat64 pool") + " | grep -e '^ *[0-9]' || true",
                was=Was.FOREIGN,
                silent=True,
            )
        )
    left, right = ports["left"], ports["right"]
    return [
        *found,
        Step(
            cli(f"nat64 add prefix {prefix}"),
            "IPv4 destinations as IPv6 addresses",
            undo=cli(f"nat64 del prefix {prefix}"),
            check=contains(cli("show nat64 prefix"), str(prefix)),
            silent=True,
        ),
        *_addresses(intent, cli, "nat64", "nat64 add pool address", "show nat64 pool"),
        Step(
            cli(f"set interface nat64 in {left} out {right}"),
            "the clients' side and the public side",
            undo=cli(f"set interface nat64 in {left} out {right} del"),
            check=contains(cli("show nat64 interfaces"), f"{left} in", f"{right} out"),
            silent=True,
        ),
    ]


def _dslite(
    intent: Intent, version: str, cli: Cli, ports: Mapping[str, str], options: object
) -> list[Step]:
    del version, ports
    if not getattr(options, "start", False):
        raise UsageError(
            "VPP cannot forget the AFTR's tunnel address: only a VPP that v6t starts itself can be "
            "put back",
            "set dut.options.start: true",
        )
    aftr = intent.settings["aftr"]
    return [
        *_addresses(intent, cli, "DS-Lite", "dslite add pool address", "show dslite pool"),
        Step(
            cli(f"dslite set aftr-tunnel-endpoint-address {aftr}"),
            "where the B4s' tunnels end",
            check=contains(cli("show dslite aftr-tunnel-endpoint-address"), str(aftr)),
            silent=True,
        ),
    ]


def _addresses(intent: Intent, cli: Cli, what: str, add: str, show: str) -> list[Step]:
    pool = _pool(intent)
    first = str(IPv4Address(pool.partition(" ")[0]))
    delete = {
        "nat44": f"nat44 add address {pool} del",
        "nat64": f"nat64 add pool address {pool} del",
        "DS-Lite": f"dslite del pool address {pool}",
    }[what]
    return [
        Step(
            cli(f"{add} {pool}"),
            f"public addresses of {what}",
            undo=cli(delete),
            check=contains(cli(show), first),
            silent=True,
        )
    ]
