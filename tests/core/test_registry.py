"""Plugins from entry points: broken ones are listed, duplicates are rejected."""

import json

import pytest
from v6t.core.config import plugins as registry
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.tests.core.support import SIM, v6t, write_distribution
from v6t.tests.expect import expect_error, expect_refusal

GOOD = "v6t.plugins.mape_br:MapEBorderRelay"

BROKEN = {
    "no-module": ("nowhere_at_all:Plugin", "extension-broken"),
    "no-reference": ("my-pkg.module:Plugin", "extension-broken"),
    "no-name": ("v6t.plugins.mape_br:Absent", "extension-broken"),
    "no-class": ("v6t.core.cli.calc_command:calc_map", "extension-broken"),
    "no-technology": ("v6t.plugins.base:Link", "extension-broken"),
    "raises": ("foreign_plugin:Plugin", "extension-broken"),
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
        registry.load_technology_type("mape-bt")
    with expect_error("unknown-name") as caught:
        registry.load_technology_type("zzz")
    assert caught.value.hint == "installed: " + ", ".join(registry.list_names())


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_plugin_is_listed_with_its_error(kind, install, tmp_path):
    value, code = BROKEN[kind]
    (tmp_path / "foreign_plugin.py").write_text("1 / 0\n")
    install("foreign", broken=value, another=GOOD)
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
    expect_refusal(v6t("plugins", "broken"), code)
    expect_refusal(v6t("run", "--plugin", "broken", "--dry-run"), code)
    assert v6t(*SIM, "--dry-run").status == 0


def test_two_plugins_of_one_name_are_refused_by_name(install):
    install("rival", mape_br="nowhere:Plugin")
    done = v6t("plugins")
    assert done.status == 0
    assert done.out.count("'mape-br': from ") == 2
    said = expect_refusal(v6t(*SIM, "--dry-run"), "duplicate")
    assert "rival" in said
    assert "v6t" in said
    assert "uninstall one" in said


def test_duplicate_distribution_is_listed_once(install):
    """An editable install next to its checkout lists the same entry points twice."""
    install("v6t", mape_br=GOOD)
    assert [row.name for row in registry.list_rows()].count("mape-br") == 1
    assert registry.load_technology_type("mape-br") is MapEBorderRelay


def test_names_do_not_import(install):
    install("foreign", broken="nowhere_at_all:Plugin")
    assert "broken" in registry.list_names()


def test_the_parameters_of_a_plugin():
    done = v6t("plugins", "mape-br")
    assert done.status == 0
    for text in ("RFC 7597", "40 octets longer", "psid_offset=6", "rule_ipv6=2001:db8:ce::/51"):
        assert text in done.out


def test_the_parameters_of_a_plugin_as_json():
    content = json.loads(v6t("plugins", "mape-br", "--json").out)
    assert content["name"] == "mape-br"
    assert content["overhead"] == 40
    assert content["stateful"] is False
    parameters = {p["name"]: p for p in content["parameters"]}
    assert set(parameters) == set(MapEBorderRelay.params_model.model_fields)
    assert parameters["ea_len"]["default"] == 13
    assert parameters["br_address"]["default"] == "2001:db8:6::1"
    assert parameters["fw_dport"]["default"] == {"policy": "random", "min": 1, "max": 49151}
    for name, parameter in parameters.items():
        assert parameter["description"], name


def test_the_defaults_shown_are_accepted():
    """What `v6t plugins mape-br --json` prints can be given back."""
    content = json.loads(v6t("plugins", "mape-br", "--json").out)
    given = {p["name"]: p["default"] for p in content["parameters"]}
    del given["domains"]
    model = MapEBorderRelay.params_model
    assert model.model_validate(given).model_dump() == model().model_dump()
