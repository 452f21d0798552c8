"""Requirements for every driver: rollback is complete, and foreign objects are not touched."""

import re
from contextlib import nullcontext
from dataclasses import replace

import pytest
from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.management_path import ManagementPath
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.tests.expect import expect_error

from .cases import CASE_BY_NAME

# A lab does not unload modules.
MODULE = re.compile(r"\b(?:modprobe|insmod) ")


def list_steps(name, ssh):
    """List the steps of a recorded case for a device that is reached by these options."""
    case = CASE_BY_NAME[name]
    driver = make_driver(case.driver, {**case.options, "ssh": ssh})
    facts = replace(driver.make_example_facts(case.intent), management_path=ManagementPath())
    return driver.plan(case.intent, facts).steps


@pytest.mark.parametrize("name", ["jool-siit", "nat46-siit", "nat46-clat", "ip6-tunnel-b4"])
@pytest.mark.parametrize(
    ("ssh", "stays"), [(None, True), ({"lab": "one"}, True), ({"host": "device"}, False)]
)
def test_kernel_module_is_unloaded_outside_lab_only(name, ssh, stays):
    (step,) = [step for step in list_steps(name, ssh) if MODULE.search(step.command)]
    assert ("it stays" in step.why) is stays
    made = make_undo_entry(1, step, "")
    assert (made.command == "") is stays
    if not stays:
        assert re.search("modprobe -r|rmmod", made.command)
    assert make_undo_entry(1, step, "/sys/module/there").command == ""


@pytest.mark.parametrize(
    ("ssh", "counted"), [(None, False), ({"lab": "one"}, False), ({"host": "device"}, True)]
)
def test_huge_pages_are_restored_outside_lab_only(ssh, counted):
    steps = [step for step in list_steps("snabb-lwaftr", ssh) if "hugepages" in step.record_command]
    undone = [make_undo_entry(1, step, "vm.nr_hugepages = 7\n").text for step in steps]
    assert undone == ["vm.nr_hugepages = 7\n"] * counted


@pytest.mark.parametrize("address", ["0000:03:00.1", "03:00.1"])
def test_snabb_management_pci_device_is_rejected(address):
    driver = make_driver("snabb-lwaftr", {"left": "03:00.0", "right": address})
    intent = CASE_BY_NAME["snabb-lwaftr"].intent
    facts = replace(
        driver.make_example_facts(intent),
        management_interfaces=frozenset({"eno1"}),
        sections={"pci": "eno1 0000:03:00.1\neno2 0000:03:00.0\nlo \n"},
    )
    with expect_error("interface-protected"):
        driver.plan(intent, facts)
    driver.plan(intent, replace(facts, management_interfaces=frozenset({"lo"})))


@pytest.mark.parametrize(
    ("up", "addresses"), [(True, ""), (False, " 192.0.2.1/24 2001:db8::1/64"), (False, "")]
)
def test_snabb_pci_device_used_by_kernel_is_rejected(up, addresses):
    driver = make_driver("snabb-lwaftr", {"left": "03:00.0", "right": "03:00.1"})
    intent = CASE_BY_NAME["snabb-lwaftr"].intent
    facts = replace(
        driver.make_example_facts(intent),
        interfaces={"eno2": Interface("02:00:00:00:00:01", is_up=up)},
        sections={"pci": f"eno2 0000:03:00.0{addresses}\neno3 0000:04:00.0 192.0.2.9/24\n"},
    )
    with expect_error("interface-protected") if up or addresses else nullcontext() as wrong:
        driver.plan(intent, facts)
    if wrong:
        assert "ip addr flush dev eno2; ip link set dev eno2 down" in wrong.value.hint
