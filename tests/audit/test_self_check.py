import re
import sys

import pytest
from hypothesis import find
from v6t.audit import self_check
from v6t.audit.self_check import check_audit, draw_params
from v6t.base.errors import EnvironmentLacking
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.tests.core.support import v6t
from v6t.tests.needs import sample

SHIPPED = [n for n in list_names() if load_technology_type(n).__module__.startswith("v6t.")]


def test_absent_hypothesis_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(EnvironmentLacking) as raised:
        check_audit(load_technology_type("siit"))
    assert (raised.value.code, raised.value.hint) == ("missing-package", "pip install 'v6t[check]'")


def test_technology_without_view_is_noted():
    findings, note = check_audit(load_technology_type("dns64"))
    assert (findings, note != "") == ([], True)


def test_note_counts_audited_sets_of_parameters(monkeypatch):
    monkeypatch.setattr(self_check, "find_deviations", lambda technology: [])
    findings, note = check_audit(load_technology_type("siit"))
    assert findings == []
    assert 1 < int(re.search(r"with (\d+) sets", note)[1]) <= 1 + self_check.EXAMPLES


def test_drawn_parameters_differ_from_defaults():
    strategy = draw_params(load_technology_type("siit"))
    assert find(strategy, lambda params: params.get("lowest_ipv6_mtu", 1280) > 1280)


def test_plugin_check_with_deviation_fails(monkeypatch):
    monkeypatch.setattr(self_check, "find_deviations", lambda _: ["rfc1-1-wrong: it fails"])
    done = v6t("plugins", "--check", "siit")
    assert done.code == "not-conformant" and "rfc1-1-wrong" in done.out


def test_deviation_for_drawn_parameters_only_is_reported(monkeypatch):
    def accuse(technology):
        return [] if technology.params == type(technology.params)() else ["rfc1-1-wrong: it fails"]

    monkeypatch.setattr(self_check, "find_deviations", accuse)
    findings, _ = check_audit(load_technology_type("siit"))
    assert {text for _, text in findings} == {"rfc1-1-wrong: it fails"}
    assert "=" in findings[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", sample(["mape-ce", "siit"], SHIPPED))
def test_plugin_check_of_shipped_technology_finds_no_deviation(plugin, monkeypatch):
    monkeypatch.setattr(self_check, "EXAMPLES", sample(2, self_check.EXAMPLES))
    assert check_audit(load_technology_type(plugin))[0] == []
