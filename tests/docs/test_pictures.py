"""Pictures of the documentation exist, are small and have an alternative text."""

import re
import xml.etree.ElementTree as ET

import pytest

from .pages import CHECKOUT, list_pages

_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
PICTURES = [
    pytest.param(page, words, page.parent / target, id=f"{page.relative_to(CHECKOUT)}:{target}")
    for page in list_pages()
    for words, target in _PICTURE.findall(page.read_text(encoding="utf-8"))
]
MAX_OCTETS = 150_000


def test_first_pages_show_report():
    shown = {(page.values[0].name, page.values[2].name) for page in PICTURES}
    assert {("README.md", "first-report.png"), ("index.md", "first-report.png")} <= shown
    assert ("architecture.md", "architecture.svg") in shown


@pytest.mark.parametrize(("page", "words", "picture"), PICTURES)
def test_picture_exists_is_small_and_has_alternative_text(page, words, picture):
    del page
    assert len(words) > 10
    data = picture.read_bytes()
    assert len(data) < MAX_OCTETS
    if picture.suffix == ".svg":
        assert ET.fromstring(data).tag.endswith("svg")  # noqa: S314  (a file of this checkout)
        assert b"http" not in re.sub(rb'xmlns(:xlink)?="http://www.w3.org/[\w/]*"', b"", data)
    else:
        assert data.startswith(b"\x89PNG")
        assert 800 <= int.from_bytes(data[16:20], "big") <= 1600
