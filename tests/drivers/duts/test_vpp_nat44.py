"""VPP's three plugins of NAT44: what each is told, refuses and says; no VPP is needed."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.registry import make_driver
from v6t.tests.expect import expect_error

from . import intents
from .support import make_plan


def nat44(**values):
    return intents.with_values(intents.nat44(), **values)


def test_what_clears_the_table_is_seen_to_have_cleared_it():
    (flush,) = make_plan("vpp", nat44(), nat44="ei").flush
    assert "del ; " in flush.set
    said = "NAT44 sessions:\n-------- thread 0 vpp_main: {} sessions --------\n"
    assert "3 sessions" in flush.check.checker(said.format(3))
    assert flush.check.checker(said.format(0)) is None
    assert flush.check.checker("")


def test_endpoint_independent_nat_has_room_for_all_clients():
    commands = [s.set for s in make_plan("vpp", nat44(inside4=["198.18.0.0/16"]), nat44="ei").steps]
    assert any("plugin enable sessions 64512 users 65536" in c for c in commands)
    commands = [s.set for s in make_plan("vpp", nat44(session_limit=50), nat44="ei").steps]
    assert any("plugin enable sessions 50 users 1024" in c for c in commands)


@pytest.mark.parametrize(
    ("plugin", "settings"),
    [("ei", {"udp_timeout_s": 30}), ("ei", {"port_block": 16}), ("ed", {"port_block": 16})],
)
def test_what_a_plugin_cannot_be_is_refused(plugin, settings):
    with expect_error("unsupported-by-device", mentions=next(iter(settings))):
        make_plan("vpp", nat44(**settings), nat44=plugin)


def test_its_counts():
    two = (
        "NAT44 sessions:\n-------- thread 0 vpp_main: 0 sessions --------\n"
        "-------- thread 1 vpp_wk_0: 12 sessions --------\n"
        "  198.18.0.2: 12 dynamic translations, 0 static translations\n"
        "-------- thread 2 vpp_wk_1: 30 sessions --------\n"
    )
    assert vpp_outputs.nat44_ei_sessions(two) == {"sessions": 42}
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", {"nat44": "ei"}).telemetry(nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}


def test_only_one_of_them_counts_endpoints():
    kinds = {n: make_driver("vpp", {"nat44": n}).by_endpoint(nat44()) for n in ("ed", "ei")}
    assert kinds == {"ed": False, "ei": True}
    assert not make_driver("vpp", {"nat44": "ei"}).by_endpoint(intents.nat64())
