"""Plans of ``v6t run --plugin T --dut D`` without further options, for every pair."""

import pytest
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.warnings import list_result_warnings
from v6t.drivers.duts.registry import list_driver_names

PAIRS = [(t, d) for d in list_driver_names() for t in list_technologies(d)]


def plain(technology, driver, **more):
    return resolve_setup(plugin=technology, dut=driver, **more)


@pytest.mark.parametrize(("technology", "driver"), PAIRS)
def test_every_driver_lists_replaced_defaults(technology, driver):
    setup = plain(technology, driver)
    plan = setup.driver.plan(setup.intent, setup.driver.make_example_facts(setup.intent))
    assert plan.steps or not setup.driver.configures_device
    suited = setup.driver.get_parameter_overrides(technology)
    assert set(setup.settings.driver_defaults) == set(suited)
    fields = load_technology_type(technology).params_model.model_fields
    for name, own in suited.items():
        assert setup.settings.params[name] == own.value != fields[name].get_default()
        assert any(name in words and own.reason in words for words in list_result_warnings(setup))


def test_user_values_override_driver_defaults():
    setup = plain("mapt-br", "vpp", params={"rule_ipv6": "2001:db9::/40"})
    assert setup.settings.params["rule_ipv6"] == "2001:db9::/40"
    assert setup.settings.driver_defaults == ("dmr",)
