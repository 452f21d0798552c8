"""Several TRex servers as options of a testbed."""

import pytest
from v6t.drivers.several.tester import SeveralTesters
from v6t.drivers.testers import load_kind
from v6t.drivers.trex.tester import TrexTester
from v6t.intent.device import Links
from v6t.tests.expect import expect_error

SIDE = {"tester_mac": "02:00:00:00:03:02", "dut_mac": "02:00:00:00:03:01"}
SERVERS = [
    {"server": "192.0.2.1"},
    {"name": "second", "server": "192.0.2.2", "left": SIDE, "right": SIDE, "ports": [2, 3]},
]


def make_kind(**options):
    return load_kind("trex", {"start": "never", "servers": SERVERS, **options})


def make_tester(kind):
    return kind.make(Links(), None, loopback=False, delays=False, seed=1)


def test_options_outside_of_servers_apply_to_all():
    chosen = make_kind(rpc_port=5501).options.chosen
    assert list(chosen) == ["1", "second"]
    assert {one.rpc_port for one in chosen.values()} == {5501}
    assert [one.ports for one in chosen.values()] == [(0, 1), (2, 3)]


def test_several_servers_make_one_tester():
    assert isinstance(make_tester(make_kind()), SeveralTesters)


@pytest.mark.parametrize("options", [{"only": "second"}, {"servers": []}])
def test_one_server_needs_no_composite(options):
    assert isinstance(make_tester(make_kind(**options)), TrexTester)


def test_server_sends_with_its_own_addresses():
    (own,) = make_kind(only="second").options.chosen.values()
    assert own.list_macs(Links()) == [(SIDE["tester_mac"], SIDE["dut_mac"])] * 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"servers": [SERVERS[0], {**SERVERS[1], "name": "1"}]}, "duplicate"),
        ({"servers": [SERVERS[0], {**SERVERS[1], "server": "192.0.2.1"}]}, "duplicate"),
        ({"servers": [SERVERS[0], {"server": "192.0.2.2"}]}, "missing-setting"),
        ({"only": "third"}, "unknown-name"),
        ({"max_skew": 0}, "out-of-range"),
        ({"servers": [{**SERVERS[0], "port": 1}, SERVERS[1]]}, "unknown-setting"),
        ({"servers": [{**SERVERS[0], "ports": [1, 1]}, SERVERS[1]]}, "duplicate"),
    ],
)
def test_wrong_servers_are_rejected(changes, code):
    with expect_error(code):
        make_kind(**changes)


def test_lab_has_one_server():
    with expect_error("conflict"):
        load_kind("trex", {"lab": True, "servers": [{}, SERVERS[1]]})


def test_stamped_rates_of_servers_add_up():
    needs = frozenset({"frame-timeout"})
    both, one = make_kind(), make_kind(only="second")
    assert both.compute_max_rate_fps(needs, "forward") == 2 * one.compute_max_rate_fps(
        needs, "forward"
    )


def test_doctor_examines_each_server():
    subjects = [what for what, _, _ in make_kind(trex_dir="/nonexistent").examine(named=True)]
    assert any("server 1" in what for what in subjects)
    assert any("server second" in what for what in subjects)


def test_warnings_tell_the_share_and_the_limit_of_the_skew():
    texts = " ".join(make_kind(max_skew=0.03).list_warnings())
    assert "192.0.2.2:4501" in texts
    assert "1/2" in texts
    assert "3.00%" in texts
