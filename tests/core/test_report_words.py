"""Wording of reports: no IPv6 where it is not used, commands as typed."""

import json
import re

import pytest
from v6t.analysis.blocks import CodeListing, Collapsible
from v6t.analysis.report.setup import fold_configuration, split_command
from v6t.analysis.sheet import make_text_table
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.plugins import TECHNOLOGIES
from v6t.core.config.resolve import resolve_setup
from v6t.core.reporting import write
from v6t.core.runs.manifest import describe_setup
from v6t.core.runs.results import load_run
from v6t.tests.core.reportruns import make_run
from v6t.tests.core.support import make_all_tables


def without_ipv6():
    """List technologies whose frames are IPv4 on every link, also between two devices."""
    found = []
    for name in TECHNOLOGIES.names():
        technology = resolve_setup(plugin=name, tester="sim").technology
        told = describe_setup(technology, [technology.default_frame_sizes[0]])
        links = {*told["ip_versions"]} | (
            {told["middle_version"]} if len(told["devices"]) > 1 else set()
        )
        found += [name] * (links == {4})
    return found


@pytest.mark.slow
def test_reports_without_ipv6_never_mention_it(tmp_path):
    names = without_ipv6()
    assert {"nat44", "ipv4-router"} <= set(names)
    for name in names:
        path = make_run(tmp_path / name, plugin=name, procedure={"repetitions": 2})
        write.write_run_report(path, formats=["md", "html"], figures="none")
        text = (path / "report.md").read_text()
        # free text: parameters and the files of the run are shown unchanged
        own = text[: text.index("**Parameters of the technology**")]
        own += text[text.index("\n## Throughput") : text.index("\n## Configuration and manifest")]
        assert [line for line in own.splitlines() if "IPv6" in line] == [], name
        page = (path / "report.html").read_text()
        assert "IPv6/IPv4" not in page, name
        for table in make_all_tables(load_presentations(), load_run(path).records):
            assert not any("IPv6" in column.name for column in table.columns), name


def test_equal_frame_sizes_share_one_column():
    both = make_text_table("t", ["IPv6/IPv4\noctets", "fps"], [["104/64", "1"], ["64/64", "1"]])
    assert (both.columns[0].name, both.rows[0][0]) == ("IPv6/IPv4\noctets", "104/64")
    one = make_text_table("t", ["IPv6/IPv4\noctets", "fps"], [["64/64", "1"], ["128/128", "1"]])
    assert (one.columns[0].name, [r[0] for r in one.rows]) == ("frame\noctets", ["64", "128"])
    syn = make_text_table("Rates", ["IPv6/IPv4\nSYN's octets"], [["74/74"]])
    assert (syn.columns[0].name, syn.rows) == ("SYN's octets", (("74",),))


def test_here_strings_are_split_into_lines():
    fed = "nft -f - <<< 'table ip v6t {\\n  chain post {\\n  }\\n}\\n'"
    assert split_command(fed) == ["nft -f - <<'END'", "table ip v6t {", "  chain post {", "  }", "}", "END"]  # fmt: skip
    assert split_command("ip link set dev left up") == ["ip link set dev left up"]
    for odd in ("cat <<< here", "cat <<< 12", "cat <<< 'half"):
        assert split_command(odd) == [odd]


def test_configuration_is_collapsed_and_readable():
    device = {
        "commands": ["ip link set dev left up", "ip -batch - <<< 'route add a\\nroute add b\\n'"],
        "facts": {"links": json.dumps([{"ifname": "lo"}, {"ifname": "left"}]), "empty": " "},
    }
    applied, said = fold_configuration(device, "Device under test")
    assert isinstance(applied, Collapsible) and applied.brief
    assert "2 commands" in applied.summary
    (listing,) = applied.blocks
    assert isinstance(listing, CodeListing)
    assert listing.text.splitlines()[1:4] == ["ip -batch - <<'END'", "route add a", "route add b"]
    (facts,) = said.blocks
    assert '  {"ifname": "lo"}\n  {"ifname": "left"}' in facts.text
    assert "empty" not in facts.text
    assert list(fold_configuration({"kind": "reference"}, "x")) == []


@pytest.mark.slow
def test_units_and_percentiles_are_explained(tmp_path):
    path = make_run(tmp_path / "run", "latency", procedure={"repetitions": 2})
    (page,) = write.write_run_report(path, formats=["html"])
    section = page.read_text().split('<section id="latency">')[1].split("</section>")[0]
    table, _, rest = section.partition("</table>")
    assert "TL ms" in table
    meaning = rest[: rest.index("<svg")]
    assert re.search(r"<details[^>]* open><summary>What the words mean", meaning)
    for word in ("TL", "WCL", "P1", "P99"):
        assert f'<th scope="row">{word}</th>' in meaning
