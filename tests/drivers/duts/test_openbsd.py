"""OpenBSD: outputs of its programs, and PF's rules and states.

Outputs under ``captured`` are from systems built from sources of December 2024 and February 2025 (7.6 to 7.7).
Comments name the functions that print the other texts.
"""

import re

import pytest
from v6t.drivers.duts.kinds import openbsd_pf
from v6t.drivers.duts.os import openbsd
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import LinkIntent

from . import intents
from .support import make_plan, read_captured, run_shell


@pytest.mark.parametrize(("address", "captured", "line"), [
    ("198.20.1.1", "", "client 198.20.1.1 matched 198.20.0.0/15 dev em1"),
    # a default route is printed without a prefix length
    ("10.9.9.2", "-default", "client 10.9.9.2 matched 0.0.0.0/0 dev vio0"),
    ("2001:db8::9", "-default6", "client 2001:db8::9 matched ::/0 dev vio1"),
    ("2001:db8::9", "-none", ""),
])  # fmt: skip
def test_printed_route_is_converted(address, captured, line):
    assert openbsd.convert_route(address, read_captured(f"openbsd-route-get{captured}.txt")) == line


@pytest.mark.parametrize(("net", "line"), [
    ("198.18.0.0/24", "198.18.0/24"), ("198.18.0.0/15", "198.18/15"), ("10.0.0.0/8", "10/8"),
    ("0.0.0.0/1", "0/1"), ("198.18.0.64/26", "198.18.0.64/26"), ("198.18.0.9/32", "198.18.0.9"),
    ("2001:2::/64", "2001:2::/64"), ("2001:2::9/128", "2001:2::9"),
])  # fmt: skip
def test_network_is_formatted_like_route_output(net, line):
    """netname4 (sbin/route/show.c) omits trailing octets outside the prefix."""
    assert openbsd.format_listed_network(net) == line


@pytest.mark.parametrize(("line", "is_listed", "is_accepted"), [
    ("inet6 2001:2::1 prefixlen 64", True, True),
    ("inet6 2001:2::1 prefixlen 64 tentative", True, True),
    ("inet6 2001:2::1 prefixlen 64 duplicated", True, False),
    ("inet6 2001:2::1:5 prefixlen 64", False, False),
    ("inet6 2001:2::1 prefixlen 128", False, False),
    ("inet6 2001:2::1 prefixlen 6", False, False),
    ("inet6 a:2001:2::1 prefixlen 64", False, False),
])  # fmt: skip
def test_address_is_matched_with_prefix_length(line, is_listed, is_accepted):
    steps = openbsd.make_side_steps(LinkIntent(["2001:2::1/64"]), "em0")
    (step,) = [s for s in steps if "address on" in s.why]
    text = f"em0: flags=8843<UP>\n\t{line}\n"
    output = run_shell(f"ifconfig() {{ cat; }}; {step.record_command}", text).stdout
    assert bool(output) == is_listed
    assert (step.check.find_problem(text) is None) == is_accepted


def test_mtu_is_read_back_and_restored():
    steps = make_plan("openbsd-pf", intents.make_nat44(), left="vio0", right="vether1").steps
    (step,) = [s for s in steps if s.command == "ifconfig vether1 mtu 1500"]
    printed = re.search(r"^vether1: (?:.|\n\t)*", read_captured("openbsd-ifconfig-A.txt"), re.M)[0]
    assert run_shell(f"ifconfig() {{ cat; }}; {step.read}", printed).stdout == "1600\n"
    assert step.check.find_problem("1600") is not None
    assert step.check.find_problem("1500") is None
    assert step.undo == "ifconfig vether1 mtu {words}"


def get_flush_step(intent):
    (step,) = make_plan("openbsd-pf", intent, flush="purge").flush
    return step


def test_foreign_states_are_not_counted():
    printed = read_captured("openbsd-pfctl-vsr.txt")
    reading = make_driver("openbsd-pf", {}).get_session_reading(intents.make_nat64())
    checker = get_flush_step(intents.make_nat64()).check.find_problem
    assert reading.parse(printed) == {"sessions": 20.0}
    assert "20 states" in checker(printed)
    (rule,) = [line for line in printed.splitlines() if " af-to " in line]
    few = re.sub(r"( af-to .*\n.*States: )20 ", r"\g<1>3 ", printed)
    others = re.sub(r"(pass all .*\n.*States: )\d+ ", r"\g<1>5000 ", few)
    assert reading.parse(others) == {"sessions": 3.0}
    assert checker(others) is None
    assert checker(printed.replace(rule, "pass all flags S/SA"))


@pytest.mark.parametrize(("remaining", "waited_s"), [
    ("0", 0),
    # a few remaining states are foreign; many are not
    ("$((t < 3 ? 20 : 4))", 33),
    ("$((t < 3 ? 20 : 11))", 239),
    # the purge is slow
    ("$((20 - t / 2))", 40),
])  # fmt: skip
def test_flush_waits_for_purge_of_states(remaining, waited_s, tmp_path):
    """A fake pfctl purges the states after some seconds."""
    printed = read_captured("openbsd-pfctl-vsr.txt")
    (tmp_path / "printed").write_text(re.sub(r"( af-to .*\n.*States: )20 ", r"\g<1>LEFT ", printed))
    shell = ("t=0; sleep() { t=$((t+1)); }; pfctl() { case $1 in -q) ;; "
             f'-vsr) sed "s/LEFT/{remaining}/" {tmp_path}/printed;; esac; }}; '
             f"{get_flush_step(intents.make_nat64()).command}; echo $t")  # fmt: skip
    result = run_shell(shell)
    assert int(result.stdout) == waited_s, result


@pytest.mark.parametrize(("refusals", "status"), [(3, 0), (100, 1)])
def test_rule_reload_is_retried_while_states_exceed_limit(refusals, status):
    """DIOCSETLIMIT (sys/net/pf_ioctl.c) fails with EBUSY until the purge has freed states."""
    plan = make_plan("openbsd-pf", intents.make_nat44())
    (load,) = [s for s in plan.steps if "-q -f /etc/pf.conf" in s.undo]
    shell = ("t=0; sleep() { :; }; pfctl() { [ $2 = -k ] || "
             f"{{ echo try; t=$((t+1)); [ $t -gt {refusals} ]; }}; }}; {load.undo}")  # fmt: skip
    result = run_shell(shell, check=False)
    assert result.returncode == status
    assert result.stdout.count("try") == min(refusals + 1, openbsd_pf.RELOAD_TRIES)
