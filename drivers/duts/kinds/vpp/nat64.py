"""NAT64 of VPP."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.vpp import nat44
from v6t.drivers.duts.kinds.vpp.function import DEFAULT_UDP_TIMEOUT_S, VppFunction
from v6t.drivers.duts.plan import Check, Existing, Expectation, Step, expect_lines
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.intent.families import Nat64Config

MIN_BUCKETS = 1024  # default of VPP
SESSIONS_PER_BUCKET = 10  # capacity of a bucket (nat64_db.c)


class Nat64(VppFunction):
    """VPP as a stateful NAT64."""

    plugin = "nat64"
    session_counter = "/nat64/total-sessions"
    notes = ("no command sets NAT64's timeout: idle sessions live 300 s",)
    profile = HeaderProfile(
        absent_checksum=True,
        why="VPP computes no UDP checksum of IPv4 packets that were IPv6 or in it",
    )

    @property
    def nat64_config(self) -> Nat64Config:
        return self.intent.configuration_as(Nat64Config)

    def choose_bucket_count(self) -> int:
        """Return the number of hash buckets for the limit or the number of required sessions."""
        if limit := self.nat64_config.session_limit:
            if limit % SESSIONS_PER_BUCKET:
                problem = f"VPP's NAT64 has room for ten sessions in each bucket, not for {limit}"
                hint = "choose a session_limit that ends with 0"
                instead = {
                    "session_limit": SESSIONS_PER_BUCKET * (limit // SESSIONS_PER_BUCKET + 1)
                }
                raise make_unsupported_error(problem, hint, params=instead)
            return limit // SESSIONS_PER_BUCKET
        buckets = MIN_BUCKETS
        while SESSIONS_PER_BUCKET * buckets < (
            self.options.sessions or self.intent.requirements.sessions
        ):
            buckets *= 2
        return buckets

    def make_steps(self, version: str) -> list[Step]:
        cli, prefix, buckets = self.cli, self.nat64_config.prefix, self.choose_bucket_count()
        enable = "nat64 plugin enable"
        if buckets != MIN_BUCKETS:
            memory = max(256 << 20, 2048 * buckets)
            sizes = f"{buckets} bib-memory {memory} st-buckets {buckets} st-memory {memory}"
            enable += f" bib-buckets {sizes}"
        words = nat44.format_pool(self.intent, ("session_limit",))
        return [
            cli.make_step(
                enable,
                f"NAT64 with room for {SESSIONS_PER_BUCKET * buckets} sessions",
                read=nat44.make_foreign_command(
                    cli, "nat64", ("pool", "interfaces", "prefix", "bib all")
                ),
                undo="nat64 plugin disable",
                existing=Existing.REFUSE,
            ),
            cli.make_step(
                f"nat64 add prefix {prefix}",
                "IPv4 destinations as IPv6 addresses",
                read=cli("show nat64 prefix"),
                expected=expect_lines(f"{prefix} tenant-vrf 0"),
                undo=f"nat64 del prefix {prefix}",
            ),
            # an address that is removed by itself leaves its count of ports in use behind, for the next
            # one (nat64_add_del_pool_addr): after 64511 bindings over all trials none would be left
            nat44.make_pool_step(cli, "nat64", words, add="add pool address", keep=True),
            nat44.make_interfaces_step(cli, self.ports, "nat64"),
        ]

    def make_flush_steps(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        """Return the step that removes and recreates the NAT64: VPP has no command to empty it."""

        def find_problem(output: str) -> str | None:
            head, *rows = [line for line in output.splitlines() if line.strip()] or [""]
            if "BIB" not in head.split():
                return "it does not say which bindings there are"
            return f"{len(rows)} bindings are left" if rows else None

        bindings = self.cli("show nat64 bib all")
        seen = f"! {bindings} | grep -vq -e BIB -e '^$'"
        empty = Check(bindings, Expectation("no binding", find_problem))
        return (
            nat44.make_flush_step(
                nat44.make_recreate_commands(self.make_steps(version)), seen, empty
            ),
        )

    def get_capacity(self) -> int:
        return SESSIONS_PER_BUCKET * self.choose_bucket_count()

    def get_timeout_s(self) -> float | None:
        return DEFAULT_UDP_TIMEOUT_S
