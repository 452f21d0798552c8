"""VPP's MAP domains: the base of its relays, and the steps and read-backs of domains."""

from __future__ import annotations

from abc import abstractmethod

from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.function import Vppctl, VppFunction
from v6t.drivers.duts.kinds.vpp.outputs import MapDomain
from v6t.drivers.duts.plan import Change, Expectation, Step, expect_lines
from v6t.drivers.duts.steps import create_object

LIVE_DOMAIN_TAG = "v6tbeside"  # tag of the domain that is added and removed under traffic


class MapDomainFunction(VppFunction):
    """Base of relays that VPP configures as a table of MAP domains."""

    plugin = "map"
    notes = ("packets whose ports are not of the CE's PSID are dropped",)
    feature = "ip4-map"  # shown for an interface with MAP
    mode = ""  # suffix of the command that enables the feature

    @abstractmethod
    def make_domain_steps(self) -> list[Step]: ...

    def make_steps(self, version: str) -> list[Step]:
        return [*self.make_domain_steps(), *map(self._make_enable_step, self.ports.values())]

    def _make_enable_step(self, port: str) -> Step:
        features = self.cli(f"show interface features {port}")
        create = self.cli(f"map interface {port}{self.mode}")
        delete = self.cli(f"map interface {port} del{self.mode}")
        why = f"MAP on {port}"
        read = f"{features} | grep -w -e ip4-map -e ip4-map-t || true"
        expected = expect_lines(self.feature)
        return create_object(create, delete, why, read=read, expected=expected, silent=True)

    def make_domain_change(
        self,
        description: str,
        first: MapDomain,
        second: MapDomain,
        words: tuple[str, str],
        rule: str = "true",
    ) -> Change:
        """Return a change from one domain to another, which ``show map domain`` lists by these words."""
        add, change = (
            self.cli(f"map add domain {domain.command_words}") for domain in (first, second)
        )
        remove = make_delete_command(self.cli, LIVE_DOMAIN_TAG)
        return Change(
            description,
            add=f"{add} && {rule}",
            change=f"{remove}; {change} && {rule}",
            remove=remove,
            show_command=f"{self.cli('show map domain')} | grep -F '{{{LIVE_DOMAIN_TAG}}}' || true",
            added_words=words[0],
            changed_words=words[1],
            note="changed: removed and added anew, VPP has no other way",
        )


def make_list_domains_command(cli: Vppctl) -> str:
    """Return the command that lists all domains, including those of others."""
    return f"{cli('show map domain')} | grep -F ']' || true"


def expect_domains(expected_domains: list[MapDomain], description: str) -> Expectation:
    """Expect these domains, and possibly others, in ``show map domain``."""

    def find_problem(output: str) -> str | None:
        domains_by_tag = {domain.tag: domain for domain in outputs.parse_domains(output)}
        for domain in expected_domains:
            if domain.tag not in domains_by_tag:
                return f"VPP has made no domain {domain.tag} (it does not say why)"
            if domains_by_tag[domain.tag] != domain:
                return f"the domain {domain.tag} is {domains_by_tag[domain.tag]}, not {domain}"
        return None

    return Expectation(description, find_problem)


def make_indices_command(cli: Vppctl, tag: str) -> str:
    """Return the shell line that prints the indices of the domains with a tag."""
    return f"{cli('show map domain')} | sed -n 's/^\\[\\([0-9]*\\)\\] tag {{{tag}}} .*/\\1/p'"


def make_delete_command(cli: Vppctl, tag: str) -> str:
    """Return the shell line that deletes the domains with a tag."""
    return f"{make_indices_command(cli, tag)} | while read i; do {cli('map del domain index $i')}; done"


_HOP_LIMIT_REASON = "it routes what it has encapsulated with hop limit 64"
TUNNEL_PROFILE = HeaderProfile(tunnel_hop_limit=63, why=_HOP_LIMIT_REASON)
