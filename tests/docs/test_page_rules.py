"""Contents that pages of one kind must have, or that other pages must not have."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

import pytest
from v6t.core.config.plugins import list_names
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.tests.core.support import v6t

from .generated_pages import build_pages
from .pages import DOCS, format_path, list_pages, read_blocks, read_commands

if not DOCS.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

TECHNOLOGIES = [DOCS / "plugins" / f"{name}.md" for name in list_names()]
OTHERS = {DOCS / "duts/index.md", DOCS / "duts/bottleneck.md"}
DEVICES = sorted({*(DOCS / "duts").glob("*.md")} - OTHERS)
MAX_WORDS = {DOCS / "trex.md": 1200} | {
    page: 800 if page.stem in {"vpp", "openbsd-pf", "jool"} else 500 for page in DEVICES
}
"""Words outside code blocks."""
MAX_MANUAL_WORDS = 60_000
RESULTS = {"status.md", "matrix.md", "accuracy.md", "audit-results.md", "results/index.md"}
"""Pages with dates of measurements."""
QUOTED_DATES = {"comparison.md", "operations.md"}
"""Pages with dates of publications and in an example of a log."""
DATE = re.compile(
    r"\b20\d\d-\d\d-\d\d\b|\b(?:January|February|March|April|June|July|August|September|October|November"
    r"|December) 20\d\d\b|\bnot (?:yet )?tried\b"
)
IDENTIFIER = re.compile(
    r"\b(?:GEN|TP|FLR|LAT|PDV|IPDV|B2B|ST|MAP|DNS|REC|RST|SELF|BN|SC|MIX|DD|TRX)-\d{2}\b"
)
ADDRESS = re.compile(
    r"(?<![\w:.])((?:[\da-f:]*::[\da-f:]*|(?:[\da-f]+:){7}[\da-f]+|\d+(?:\.\d+){3})(?:/\d+)?)(?![\w:.])"
)
"""An address or prefix, except IPv6 addresses that end in IPv4 notation."""
PLANNED = {"ipv4-router": "linux-router", "ipv6-router": "linux-router", "siit": "tayga"}
"""Drivers whose plans have the addresses of technologies that need no driver."""


def find_drawing(page: Path) -> str:
    """Return the first drawing of a page: a fenced or indented block with the tester's ports."""
    match = re.search(r"(?ms)^```text\n(.*?)^```|^((?: {4}[^\n]*\n)+)", page.read_text())
    assert match, f"{format_path(page)} has no drawing"
    return match[1] or match[2]


def parse_networks(text: str) -> set[IPv4Network | IPv6Network]:
    return {ip_network(found, strict=False) for found in ADDRESS.findall(text)}


def find_unknown(page: Path, printed: str) -> list[str]:
    """Return the addresses of the page's drawing that are not in the output of a command."""
    known = {network for network in parse_networks(printed) if network.prefixlen >= 16}
    return [
        str(shown)
        for shown in parse_networks(find_drawing(page))
        if not any(k.version == shown.version and k.overlaps(shown) for k in known)
    ]


def test_page_of_technology_or_device_has_drawing():
    for page in (*TECHNOLOGIES, *DEVICES):
        text = find_drawing(page)
        assert "tester left" in text and "tester right" in text, format_path(page)
        assert parse_networks(text), format_path(page)


@pytest.mark.parametrize("page", TECHNOLOGIES, ids=format_path)
def test_drawing_of_technology_has_its_addresses(page):
    name = page.stem
    dut = ["--driver", PLANNED[name]] if name in PLANNED else []
    printed = v6t("plugins", name).out + v6t("dut", "plan", "--plugin", name, *dut).out
    assert find_unknown(page, printed) == []


@pytest.mark.parametrize("page", DEVICES, ids=format_path)
def test_drawing_of_device_has_addresses_of_its_plan(page):
    blocks = [block for block in read_blocks(page) if block.language == "console"]
    words = next(c for b in blocks for c in read_commands(b)).words.split()
    technology = words[words.index("--plugin") + 1]
    driver = page.stem if page.stem not in {"command", "network-cli"} else "linux-router"
    printed = v6t("plugins", technology).out
    printed += v6t("dut", "plan", "--plugin", technology, "--driver", driver).out
    assert find_unknown(page, printed) == []


def test_every_driver_has_a_page():
    headings = ("What it configures", "Emptied between trials", "Put back", "Watched", "Traps")
    for name in filter(lambda name: load_driver_type(name).configures_device, list_driver_names()):
        text = (DOCS / "duts" / f"{name}.md").read_text()
        assert f"> Built by `make docs`: options, telemetry and plan of {name}.\n" in text
        assert [h for h in headings if f"## {h}" not in text] == [], name


def test_pages_of_devices_are_short():
    words = {p: len(re.sub(r"(?ms)^```.*?^```", "", p.read_text()).split()) for p in MAX_WORDS}
    assert [format_path(page) for page, count in words.items() if count > MAX_WORDS[page]] == []


def test_manual_is_short():
    assert sum(len(page.read_text().split()) for page in list_pages()) <= MAX_MANUAL_WORDS


def test_page_of_device_has_executed_plan():
    for page in DEVICES:
        shown = [b for b in read_blocks(page) if b.language == "console" and not b.reason]
        words = [c.words for b in shown for c in read_commands(b)]
        assert any(text.startswith("v6t dut plan") for text in words), format_path(page)


def test_measurement_dates_are_on_result_pages_only():
    matches = [
        f"{format_path(page)}: {date}"
        for page in sorted(DOCS.rglob("*.md"))
        if page.relative_to(DOCS).as_posix() not in RESULTS | QUOTED_DATES
        for date in DATE.findall(page.read_text())
    ]
    assert matches == []


def test_requirement_identifiers_are_on_compliance_page_only():
    texts = {format_path(page): page.read_text() for page in DOCS.rglob("*.md")}
    texts |= {uri: text for uri, text in build_pages().items() if uri != "compliance.md"}
    matches = {uri: IDENTIFIER.findall(text) for uri, text in texts.items()}
    assert {uri: names for uri, names in matches.items() if names} == {}
