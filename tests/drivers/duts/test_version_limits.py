"""What a device's programs refuse is refused before anything is changed."""

from __future__ import annotations

import pytest
from v6t.base.errors import UsageError
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.dns64 import Dns64
from v6t.plugins.nat64 import Nat64, Nat64Params


def plan(driver, technology, **options):
    device = make_driver(driver, options)
    intent = technology.dut_intent()
    return device.plan(intent, device.example(intent))


def refusal(*args, **options):
    with pytest.raises(UsageError) as caught:
        plan(*args, **options)
    return caught.value


def test_jool_refuses_a_udp_timeout_below_two_minutes():
    assert refusal("jool", Nat64(Nat64Params(udp_timeout_s=119))).params == {"udp_timeout_s": 120}
    assert refusal("jool", Nat64(), timeout_s=119).dut_params == {"timeout_s": 120}
    plan("jool", Nat64(Nat64Params(udp_timeout_s=120)))


@pytest.mark.parametrize("version", ["4.3.9", "5.2.0", "5.3.1"])
def test_recursor_of_another_configuration_is_refused(version):
    refusal("pdns-recursor", Dns64(), version=version)


@pytest.mark.parametrize("version", ["4.4.0", "4.8", "4.8.8", "5.1.7"])
def test_recursor_with_old_settings_is_planned(version):
    plan("pdns-recursor", Dns64(), version=version)
