"""DS-Lite AFTR of VPP, which cannot be removed from a running VPP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from typing import ClassVar

from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.vpp import links, process
from v6t.drivers.duts.kinds.vpp.function import START_HINT
from v6t.drivers.duts.kinds.vpp.nat import VppNat, format_addresses
from v6t.drivers.duts.plan import Check, Expectation, IfExists, Step, expect_lines, expect_text
from v6t.drivers.duts.readings import ParameterOverride
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.intent.device import LinkIntent
from v6t.intent.families import DsLiteAftrConfig

MAX_SESSIONS_PER_B4 = 1000  # a further one silently replaces the oldest (dslite_in2out.c)
_SESSION_LIMIT_REASON = (
    f"VPP keeps {MAX_SESSIONS_PER_B4} sessions of a B4, and drops the oldest of more without a word"
)
# public addresses to suggest to the user; two, since the device may already have one of them
_SUGGESTED_PUBLIC_ADDRESSES = ("198.19.0.1", "192.0.2.1")


class DsLite(VppNat):
    """VPP as a DS-Lite AFTR (RFC 6333)."""

    plugin = "dslite"
    session_counter = "/dslite/total-sessions"
    notes = ("only a restart of VPP clears the session table, which adds seconds to each trial",)
    parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {
        # enough ports for the default number of connections
        "initiator_count": ParameterOverride(100, _SESSION_LIMIT_REASON),
        "initiator_ports": ParameterOverride(
            {"min": 4096, "max": 4607}, "so many B4s share the public ports"
        ),
    }
    profile = HeaderProfile(
        absent_checksum=True,
        tunnel_hop_limit=63,
        tunnel_keeps_ttl=True,
        why="VPP computes no UDP checksum of IPv4 packets that were IPv6 or in it; it routes what it has "
        "encapsulated with hop limit 64, whose TTL it leaves as it was",
    )

    @property
    def aftr_config(self) -> DsLiteAftrConfig:
        return self.intent.configuration_as(DsLiteAftrConfig)

    def check_supported(self, version: str) -> None:
        if not self.options.starts_vpp:
            problem = "VPP cannot forget the AFTR's tunnel address unless v6t starts it"
            raise make_unsupported_error(problem, START_HINT, dut_params={"start": True})
        own_ips = [interface.ip for interface in self.intent.right.addresses]
        for address in self.aftr_config.pool4:
            if address in own_ips:
                suggested = map(IPv4Address, _SUGGESTED_PUBLIC_ADDRESSES)
                raise make_unsupported_error(
                    f"VPP's AFTR cannot translate to {address}, which is the device's own address: it "
                    "keeps what comes back",
                    "choose other public addresses (pool_first)",
                    params={"pool_first": str(next(a for a in suggested if a not in own_ips))},
                )
        b4s, required = self.aftr_config.b4_count, self.intent.requirements.sessions
        if required > MAX_SESSIONS_PER_B4 * b4s:
            raise make_unsupported_error(
                f"VPP's AFTR keeps {MAX_SESSIONS_PER_B4} sessions of a B4 and drops the oldest silently: "
                f"{required} connections need more than {b4s} B4s",
                f"measure more B4s, or at most {MAX_SESSIONS_PER_B4 * b4s} connections",
                params={"initiator_count": -(-required // MAX_SESSIONS_PER_B4)},
            )

    def get_link_setup(self, side: str) -> tuple[LinkIntent, Sequence[Step]]:
        """Return the link without the AFTR's address, and steps that attach its network instead."""
        link, steps = super().get_link_setup(side)
        if side != "left":
            return link, steps
        aftr, port, cli = self.aftr_config.aftr, self.ports["left"], self.cli
        local = tuple(a for a in link.addresses if a.ip != aftr)
        nets = [str(a.network) for a in link.addresses if a.ip == aftr]
        why = "IPv6 without an address: the AFTR's must be no interface's own"
        enable = cli.make_step(f"enable ip6 interface {port}", why, existing=IfExists.RESTORE)
        attach = [
            cli.make_step(
                f"ip route add {net} via {port}",
                f"{net} is on {port}",
                **links.make_route_read_back(cli, net, port),
                undo=f"ip route del {net} via {port}",
            )
            for net in nets
        ]
        return replace(link, addresses=local), [enable, *attach] if nets else ()

    def make_steps(self, version: str) -> list[Step]:
        aftr = self.aftr_config.aftr
        return [
            self.cli.make_step(
                f"dslite add pool address {format_addresses(self.pool)}",
                "public addresses of DS-Lite",
                read=self.cli("show dslite pool"),
                expected=expect_lines(*self.pool.addresses),
                existing=IfExists.RESTORE,
            ),
            self.cli.make_step(
                f"dslite set aftr-tunnel-endpoint-address {aftr}",
                "where the B4s' tunnels end",
                read=self.cli("show dslite aftr-tunnel-endpoint-address"),
                expected=expect_text(aftr),
                existing=IfExists.RESTORE,
            ),
        ]

    def make_flush_steps(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        return (process.make_restart_step(plan, self.make_flush_check()),)

    def make_flush_check(self) -> Check:
        """Return the check that no session is left."""

        def describe_remaining_sessions(output: str) -> str | None:
            rows = [line for line in output.splitlines() if line.startswith("B4")]
            if rows:
                return f"sessions of {len(rows)} B4s are left"
            # without B4s it prints nothing
            return "VPP does not answer" if output.strip() else None

        expected = Expectation("no session", describe_remaining_sessions)
        return Check(f"{self.cli('show dslite sessions')} 2>&1", expected)

    def get_capacity(self) -> int:  # each B4 has its own
        return MAX_SESSIONS_PER_B4 * self.aftr_config.b4_count

    def get_timeout_s(self) -> float | None:
        return None
