"""Pages of the technologies."""

from pathlib import Path

import pytest
from v6t.base.strict_model import describe_fields
from v6t.core.config.plugins import load_technology_type
from v6t.tests.plugins.support import BUILT_IN

DOCS = Path(__file__).parents[2] / "docs" / "plugins"


@pytest.mark.parametrize("name", BUILT_IN)
def test_page_of_technology_names_rfcs_command_and_parameters(name):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    kind = load_technology_type(name)
    assert page.startswith(f"# {name}: ")
    assert all(rfc in page for rfc in kind.rfcs)
    assert f"> Built by `make docs`: parameters of {name}.\n" in page
    assert all(describe_fields(kind.params_model).values())
    assert f"\n    v6t run --plugin {name}" in page
