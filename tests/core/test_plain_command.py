"""``v6t run --plugin T --dut D`` with nothing else is a run, and a refusal ends with a command that works."""

from __future__ import annotations

import shlex

import pytest
from v6t.core.cli.main import main
from v6t.core.config.files import Flags
from v6t.core.config.plugins import load_plugin
from v6t.core.config.presets import caveats
from v6t.core.config.resolve import resolve_and_bind
from v6t.drivers.duts.registry import driver_type, names

PAIRS = [(t, d) for d in names() for t in driver_type(d).technologies]


def plain(technology, driver, **more):
    return resolve_and_bind(flags=Flags(plugin=technology, dut=driver, **more))


@pytest.mark.parametrize(("technology", "driver"), PAIRS)
def test_every_driver_takes_every_technology_as_it_is(technology, driver):
    bound = plain(technology, driver)
    plan = bound.driver.plan(bound.intent, bound.driver.example(bound.intent))
    assert plan.steps or not bound.driver.configures


@pytest.mark.parametrize(("technology", "driver"), PAIRS)
def test_what_a_driver_sets_is_said_and_is_a_parameter(technology, driver):
    bound = plain(technology, driver)
    suited = bound.driver.suited(technology)
    assert set(bound.settings.suited) == set(suited)
    fields = load_plugin(technology).params_model.model_fields
    for name, own in suited.items():
        assert bound.settings.params[name] == own.value != fields[name].get_default()
        assert any(name in words and own.why in words for words in caveats(bound))


def test_what_the_user_gives_wins_and_is_not_the_devices():
    bound = plain("mapt-br", "vpp", params={"rule_ipv6": "2001:db8::/40"})
    assert bound.settings.params["rule_ipv6"] == "2001:db8::/40"
    assert bound.settings.suited == ("dmr",)


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (("--plugin", "mapt-br", "--dut", "vpp"), ("rule_ipv6=2001:db8:ce::/51",)),
        (
            ("--plugin", "mapt-br", "--dut", "vpp"),
            ("rule_ipv6=2001:db8:ce::/51", "dmr=64:ff9b::/96"),
        ),
        (("--plugin", "mape-br", "--dut", "vpp"), ("rule_ipv6=2001:db8:ce::/56",)),
        (("--plugin", "dslite-aftr", "--dut", "vpp"), ("initiator_count=3",)),
        (("--plugin", "clat", "--dut", "tayga"), ("plat_prefix=64:ff9b::/96",)),
        (("--plugin", "nat64", "--dut", "tayga-nftables"), ("prefix=wkp",)),
        (
            ("--plugin", "siit", "--dut", "tundra"),
            ("eam=[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/120}]",),
        ),
        (("--plugin", "siit", "--dut", "tundra"), ("prefix=2001:db8::/64",)),
        (("--plugin", "siit", "--dut", "map646"), ("prefix=2001:db8::/64",)),
        (("--plugin", "siit", "--dut", "map646"), ("prefix=2001:2::1:0:0/96",)),
        (
            ("--plugin", "clat", "--dut", "tundra"),
            ("clat_ipv4=198.18.0.0/24", "clat_ipv6=2001:2:0:2::/120"),
        ),
        (
            ("--plugin", "clat", "--dut", "clatd"),
            ("clat_ipv4=198.18.0.0/24", "clat_ipv6=2001:2:0:2::/120"),
        ),
        (
            ("--plugin", "nat64", "--dut", "tundra-nftables"),
            (
                "initiator_count=2",
                "responder_count=2",
                "enumerate_ips=3",
                "initiator_ports.max=2023",
            ),
        ),
        (
            ("--plugin", "nat44", "--dut", "vpp", "--set-dut", "nat44=det44"),
            ("initiator_count=1", "responder_count=1", "enumerate_ips=0"),
        ),
        (
            ("--plugin", "nat44", "--dut", "vpp", "--set-dut", "nat44=det44"),
            ("port_block=1000",),
        ),
    ],
)
def test_the_hint_is_a_command_that_works(words, params, capsys):
    asked = ["run", "--dry-run", *words, *(w for p in params for w in ("--set", p))]
    with pytest.raises(SystemExit) as end:
        main(asked)
    assert end.value.code == 2
    hint = capsys.readouterr().err.partition("try: v6t ")[2]
    with pytest.raises(SystemExit) as end:
        main(shlex.split(hint))
    assert end.value.code == 0
