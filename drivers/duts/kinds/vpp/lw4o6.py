"""The lwAFTR of VPP (RFC 7596), and softwires as domains."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.softwires import Softwire, generate_softwires
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.domains import (
    LIVE_DOMAIN_TAG,
    TUNNEL_PROFILE,
    MapDomainFunction,
    expect_domains,
    make_delete_command,
    make_indices_command,
    make_list_domains_command,
)
from v6t.drivers.duts.kinds.vpp.function import Vppctl
from v6t.drivers.duts.kinds.vpp.outputs import MapDomain
from v6t.drivers.duts.plan import Change, Existing, Expectation, Step
from v6t.drivers.duts.refusals import make_unsupported_error
from v6t.drivers.duts.steps import create_object


class Lw4o6(MapDomainFunction):
    """VPP as an lwAFTR (RFC 7596)."""

    profile = TUNNEL_PROFILE

    def check_supported(self, version: str) -> None:
        refuse_mixed_softwires(list(generate_softwires(self.intent)))

    def make_domain_steps(self) -> list[Step]:
        rows = list(generate_softwires(self.intent))
        return make_softwire_steps(rows, self.cli, self.options.state_dir)

    def make_live_change(self) -> Change:
        row = next(generate_softwires(self.intent))
        b4 = find_spare_network(self.intent, 6).network_address + 1
        host = IPv4Address(int(find_spare_network(self.intent, 4).network_address) + 7)
        first, second = (
            _make_shared_domain(LIVE_DOMAIN_TAG, replace(row, ipv4=h)) for h in (host, host + 1)
        )
        add = self.cli(f"map add rule index $i psid 0 ip6-dst {b4}")
        rule = f"i=$({make_indices_command(self.cli, LIVE_DOMAIN_TAG)}); {add}"
        words = (first.ipv4, second.ipv4)
        return self.make_domain_change("a lwB4 with its address", first, second, words, rule)


def refuse_mixed_softwires(rows: list[Softwire]) -> None:
    """Refuse softwires that share an IPv4 address, but not the lwAFTR address and PSID layout."""
    first: dict[IPv4Address, Softwire] = {}
    for row in rows:
        first_row = first.setdefault(row.ipv4, row)
        names = {
            "br_address": "lwAFTR address",
            "psid_len": "PSID length",
            "psid_offset": "PSID offset",
        }
        for name, value in names.items():
            if getattr(first_row, name) != getattr(row, name):
                raise make_unsupported_error(
                    f"a VPP domain has one {value}, and {row.ipv4} has {getattr(first_row, name)} "
                    f"(PSID {first_row.psid}) and {getattr(row, name)} (PSID {row.psid})",
                    "the driver snabb-lwaftr has one for each softwire of lw4o6",
                )


def _make_shared_domain(tag: str, row: Softwire) -> MapDomain:
    """Return the domain of all softwires that share an IPv4 address."""
    prefixes = (f"{row.ipv4}/32", "::/0", f"{row.br_address}/128")
    return MapDomain(tag, *prefixes, 0, row.psid_offset, row.psid_len)


def make_softwire_steps(
    rows: list[Softwire], cli: Vppctl, directory: str, first_tag: int = 0
) -> list[Step]:
    """Return the steps that add a domain for each IPv4 address, and a rule for each softwire."""
    files = f"{directory}/vpp-domains.cli", f"{directory}/vpp-rules.cli"
    first: dict[IPv4Address, Softwire] = {}
    for row in rows:
        first.setdefault(row.ipv4, row)
    tags = {ipv4: f"v6t{number}" for number, ipv4 in enumerate(first, first_tag)}
    domains = [_make_shared_domain(tags[ipv4], row) for ipv4, row in first.items()]
    rules = "".join(f"{tags[row.ipv4]} {row.psid} {row.b4_address}\n" for row in rows)
    show = cli("show map domain")
    number = (
        f"{show} | sed 's/^\\[\\([0-9]*\\)\\] tag {{\\([^}}]*\\)}} .*/\\1 \\2/' >{directory}/indices; "
        "awk 'NR == FNR {index_of[$2] = $1; next} "
        '{print "map add rule index " index_of[$1] " psid " $2 " ip6-dst " $3}\' '
        f"{directory}/indices - >{files[1]} && rm {directory}/indices"
    )

    def find_problem(output: str) -> str | None:
        found = outputs.parse_domain_rules(output)
        for row in rows:
            b4 = found.get((tags[row.ipv4], row.psid))
            if b4 != row.b4_address:
                return f"PSID {row.psid} of {row.ipv4} is {b4}, not {row.b4_address}"
        return None

    return [
        create_object(
            f"umask 077; cat >{files[0]} && {cli('exec ' + files[0])}",
            f"{make_delete_command(cli, 'v6t[0-9]*')}; rm -f {files[0]}",
            f"{len(tags)} addresses shared by lwB4s",
            text="".join(f"map add domain {domain.command_words}\n" for domain in domains),
            read=make_list_domains_command(cli),
            expected=expect_domains(domains, f"{len(tags)} domains with these values"),
            silent=True,
        ),
        Step(
            f"umask 077; {number} && {cli('exec ' + files[1])}",
            f"{len(rows)} softwires",
            text=rules,
            read=show,
            expected=Expectation(f"{len(rows)} rules with these addresses", find_problem),
            undo=f"rm -f {files[1]}",
            existing=Existing.NONE,
            silent=True,
        ),
    ]
