"""Parameters outside of the device configuration change no frame, and timeouts equal the configured ones.

tests/intent/test_fields_used.py checks that drivers use or reject all other parameters.
"""

import re
from datetime import timedelta

import pytest
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.nat44 import Nat66

from . import intents, parameter_values
from .support import make_plan

TRANSLATING_BASES = [base for base in parameter_values.BASES if base.plugin != "dns64"]


@pytest.mark.parametrize("plugin", list_names())
def test_every_parameter_has_another_valid_value(plugin):
    names = set(load_technology_type(plugin).params_model.model_fields)
    names -= parameter_values.SKIPPED | parameter_values.FIXED.get(plugin, set())
    bases = [base for base in parameter_values.BASES if base.plugin == plugin]
    constant = [n for n in names if not any(parameter_values.list_accepted(b, n) for b in bases)]
    assert constant == []


@pytest.mark.parametrize("base", TRANSLATING_BASES, ids=lambda base: base.name)
def test_parameter_outside_the_configuration_changes_no_frame(base):
    technology = base.make_technology()
    configured = technology.make_dut_intent()
    frames_of_base = parameter_values.make_frames(base, {})
    emitted = parameter_values.compute_output(technology, frames_of_base)
    changed = []
    fields = load_technology_type(base.plugin).params_model.model_fields
    for name in fields.keys() - parameter_values.SKIPPED:
        for values, other in parameter_values.list_accepted(base, name):
            if repr(other.make_dut_intent()) != repr(configured):
                continue
            frames = parameter_values.make_frames(base, values, [128], [True])
            expected = emitted + parameter_values.compute_output(technology, frames)
            if parameter_values.compute_output(other, frames_of_base + frames) != expected:
                changed.append(values)
    assert changed == []


RFC = {"rfc_timers": True}
NAT44, NAT64 = "nftables", "tayga-nftables"


@pytest.mark.parametrize(("driver", "intent", "udp_timeout_s", "options", "seconds"), [
    (NAT44, intents.make_nat44(), 0, {}, 3600),
    (NAT44, intents.make_nat44(), 0, {"timeout_s": 900}, 900),
    (NAT44, intents.make_nat44(), 0, {"timeout_s": 900, "rfc_timers": False}, 900),
    (NAT44, intents.make_nat44(), 0, RFC, 330),
    (NAT44, intents.make_nat44(), 4, {}, 4),
    (NAT44, intents.make_nat44(), 4, RFC, 4),
    ("iptables", intents.make_nat44(), 400, RFC, 400),
    (NAT64, intents.make_nat64(), 0, RFC, 330),
    (NAT64, intents.make_nat64(), 0, {"timeout_s": 900, "rfc_timers": False}, 900),
    (NAT64, intents.make_nat64(), 4, RFC, 4),
    (NAT64, intents.make_nat64(), 4, {}, 4),
    ("nftables66", Nat66().make_dut_intent(), 0, RFC, 330),
    ("jool", intents.make_nat64(), 0, {}, 3600),
    ("jool", intents.make_nat64(), 150, {}, 150),
    ("vpp", intents.make_nat44(), 0, {"timeout_s": 900}, 900),
    ("vpp", intents.make_nat44(), 4, {}, 4),
])  # fmt: skip
def test_timeout_equals_configured_value(driver, intent, udp_timeout_s, options, seconds):
    if udp_timeout_s:
        intent = intents.with_values(intent, udp_timeout_s=udp_timeout_s)
    assert make_driver(driver, options).get_timeout_s(intent) == seconds
    commands = "\n".join(s.command + s.text for s in make_plan(driver, intent, **options).steps)
    udp = re.findall(r"(?:udp_timeout=|udp_timeout_stream=|timeout udp )(\d+)", commands)
    if driver == "jool":
        assert f'"udp-timeout": "{timedelta(seconds=seconds)}"' in commands
    else:
        assert set(udp) == {str(seconds)}


@pytest.mark.parametrize(("driver", "intent", "options", "seconds"), [
    (NAT44, intents.make_nat44(), {"timeout_s": 0}, 30),
    ("vpp", intents.make_nat44(), {}, 3600),
    ("vpp", intents.make_nat64(), {}, 300),
    ("vpp", intents.make_dslite(), {}, None),
])  # fmt: skip
def test_unset_timeout_is_implementation_default(driver, intent, options, seconds):
    assert make_driver(driver, options).get_timeout_s(intent) == seconds
