"""A technology and a driver of other distributions with a configuration that v6t does not define."""

import sys
from pathlib import Path

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import accepts_any_technology
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.registry import list_driver_names, make_driver
from v6t.tests.expect import expect_error

EXAMPLES = Path(__file__).parents[1]


def load(monkeypatch, example, module):
    monkeypatch.syspath_prepend(str(EXAMPLES / example))
    monkeypatch.delitem(sys.modules, module, raising=False)
    return __import__(module)


@pytest.fixture
def sixrd(monkeypatch):
    return load(monkeypatch, "example_6rd", "v6t_sixrd")


@pytest.fixture
def driver(sixrd):
    class SitRelay(LinuxDriver):
        name = "sit-relay"
        title = "6rd border relay of the kernel"
        supported_configurations = (sixrd.SixrdRelayConfig,)
        test_status = "never"

        def plan_configuration(self, intent, facts):
            relay = intent.get_configuration(sixrd.SixrdRelayConfig)
            tunnel = f"ip tunnel add v6t-6rd mode sit local {relay.br_ipv4}"
            prefix = f"ip tunnel 6rd dev v6t-6rd 6rd-prefix {relay.prefix}"
            steps = [Step(tunnel, "the relay"), Step(prefix, "the 6rd prefix")]
            return self.assemble_plan(intent, facts, steps)

    return SitRelay({})


def list_commands(driver, intent):
    return [step.command for step in driver.plan(intent, driver.make_example_facts(intent)).steps]


def test_foreign_driver_plans_foreign_configuration(sixrd, driver):
    intent = sixrd.SixrdBorderRelay().make_dut_intent()
    assert list_commands(driver, intent)[-2:] == [
        "ip tunnel add v6t-6rd mode sit local 192.88.99.129",
        "ip tunnel 6rd dev v6t-6rd 6rd-prefix 2001:db8::/32",
    ]


@pytest.mark.parametrize("name", [n for n in list_driver_names() if not accepts_any_technology(n)])
def test_built_in_driver_refuses_foreign_configuration(sixrd, name):
    with expect_error("unsupported-technology") as caught:
        make_driver(name, {}).check_intent(sixrd.SixrdBorderRelay().make_dut_intent())
    assert caught.value.technology == "sixrd-br"


@pytest.mark.parametrize("name", ["ip6tables-npt", "vpp"])
def test_built_in_driver_plans_foreign_technology_of_known_family(monkeypatch, name):
    intent = load(monkeypatch, "example_plugin", "v6t_nptv6").Nptv6().make_dut_intent()
    commands = "\n".join(list_commands(make_driver(name, {}), intent))
    assert "fd01:203:405::/48" in commands and "2001:db8:1::/48" in commands


def test_foreign_driver_accepts_known_family(monkeypatch):
    from v6t.tests.drivers.duts.intents import ROUTER4, SIIT

    kind = load(monkeypatch, "example_driver", "v6t_mytayga").MyTayga
    kind.check_supported(SIIT)
    with pytest.raises(UsageError):
        kind.check_supported(ROUTER4)
