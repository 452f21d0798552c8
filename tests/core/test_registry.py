"""Plugins from entry points: broken ones are listed, duplicates are rejected."""

import json

import pytest
from v6t.core.config import plugins as registry
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.tests.core.support import SIM, v6t, write_distribution
from v6t.tests.expect import expect_error, expect_refusal

GOOD = "v6t.plugins.mape_br:MapEBorderRelay"

BROKEN = {
    "no-module": "nowhere_at_all:Plugin",
    "no-reference": "my-pkg.module:Plugin",
    "no-name": "v6t.plugins.mape_br:Absent",
    "no-class": "v6t.core.cli.calc_command:calc_map",
    "no-technology": "v6t.plugins.base:Link",
    "raises": "foreign_plugin:Plugin",
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Provide a function that installs a distribution with entry points only."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(distribution, **plugins):
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in plugins.items()]
        write_distribution(tmp_path, distribution, plugins="\n".join(lines))

    return make


def test_plugin_names_equal_entry_points():
    for row in registry.list_rows():
        assert row.error == ""
        assert registry.load_technology_type(row.name).name == row.name


def test_unknown_plugin_error_lists_names():
    with expect_error("unknown-name") as caught:
        registry.load_technology_type("zzz")
    assert caught.value.hint == "installed: " + ", ".join(registry.list_names())


@pytest.mark.parametrize("entry_point", BROKEN.values(), ids=BROKEN)
def test_broken_plugin_is_listed_with_its_error(entry_point, install, tmp_path):
    (tmp_path / "foreign_plugin.py").write_text("1 / 0\n")
    install("foreign", broken=entry_point, another=GOOD)
    done = v6t("plugins")
    assert done.status == 0
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert "BROKEN: " in lines["broken"]
    assert "MAP-E border relay" in lines["another"]
    assert lines["another"].endswith("(foreign)")
    assert lines["mape-br"].endswith("[RFC 7597]")
    rows = {row["name"]: row for row in json.loads(v6t("plugins", "--json").out)}
    assert rows["broken"]["error"]
    assert rows["mape-br"]["error"] == rows["another"]["error"] == ""
    for words in (["plugins", "broken"], ["run", "--plugin", "broken", "--dry-run"]):
        expect_refusal(v6t(*words), "extension-broken")
    assert v6t(*SIM, "--dry-run").status == 0


def test_two_plugins_of_one_name_are_rejected(install):
    install("rival", mape_br="nowhere:Plugin")
    done = v6t("plugins")
    assert done.status == 0
    assert done.out.count("'mape-br': from ") == 2
    stderr = expect_refusal(v6t(*SIM, "--dry-run"), "duplicate")
    assert all(text in stderr for text in ("rival", "v6t", "uninstall one"))


def test_duplicate_distribution_is_listed_once(install):
    """An editable install next to its checkout lists the same entry points twice."""
    install("v6t", mape_br=GOOD)
    assert [row.name for row in registry.list_rows()].count("mape-br") == 1
    assert registry.load_technology_type("mape-br") is MapEBorderRelay


def test_names_do_not_import(install):
    install("foreign", broken="nowhere_at_all:Plugin")
    assert "broken" in registry.list_names()


def test_plugin_is_described_as_text():
    done = v6t("plugins", "mape-br")
    assert done.status == 0
    for text in ("RFC 7597", "40 octets longer", "psid_offset=6", "rule_ipv6=2001:db8:ce::/51"):
        assert text in done.out


def test_plugin_is_described_as_json_with_valid_defaults():
    content = json.loads(v6t("plugins", "mape-br", "--json").out)
    assert content["name"] == "mape-br"
    assert content["overhead"] == 40
    assert content["stateful"] is False
    model = MapEBorderRelay.params_model
    defaults = {p["name"]: p["default"] for p in content["parameters"]}
    assert set(defaults) == set(model.model_fields)
    assert defaults["ea_len"] == 13
    assert defaults["br_address"] == "2001:db8:6::1"
    assert defaults["fw_dport"] == {"policy": "random", "min": 1, "max": 49151}
    assert all(p["description"] for p in content["parameters"])
    del defaults["domains"]
    assert model.model_validate(defaults).model_dump() == model().model_dump()
