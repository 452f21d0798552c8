"""The pages of the plugins say what the plugins say."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from v6t.base.strict_model import describe_fields
from v6t.core.config.plugins import load_plugin

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "plugins"
OWN = sorted(
    e.name for e in entry_points(group="v6t.plugins") if e.value.startswith("v6t.plugins.")
)


@pytest.mark.parametrize("name", OWN)
def test_page(name):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    plugin = load_plugin(name)
    assert page.startswith(f"# {name}: ")
    assert all(rfc in page for rfc in plugin.rfcs)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    fields = plugin.params_model.model_fields
    words = describe_fields(plugin.params_model)
    assert set(rows) == set(fields)
    for key, field in fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, (bool, int)):
            assert rows[key] == str(default).lower()
        elif isinstance(default, str):
            assert rows[key] == default
        assert words[key]
        assert words[key] in page
    assert f"v6t run --plugin {name}" in page


def test_no_page_without_a_plugin():
    pages = {p.stem for p in DOCS.glob("*.md")}
    assert pages == set(OWN)
