"""``v6t dut``: plans, records of lab devices, and commands on a remote device over SSH."""

import json

import pytest
from v6t.base.files import hold_lock
from v6t.core.runs.dut import LAB_DEVICE_GONE
from v6t.drivers.duts.session.connection import build_lock_script
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_refusal
from v6t.tests.settings import resolve

from . import intents
from .remote_site import STATE, wait_until
from .support import DUMMY, FORWARDING, mark_lab_test, needs_device, run_v6t, write_testbed

ROUTER = ("--plugin", "ipv4-router")


def mark_device_test(test):
    return pytest.mark.lab(needs_device("nftables", over_ssh=True)(test))


def test_dry_runs_show_plan_with_undo_and_check():
    mape = ("--plugin", "mape-br", "--driver", "vpp", "--json")
    plan = json.loads(v6t("dut", "plan", *mape).out)
    assert json.loads(v6t("dut", "commit", *mape, "--dry-run").out) == plan
    assert plan["driver"] == "vpp"
    (step,) = [step for step in plan["steps"] if "map add domain" in step["command"]]
    assert step["undo"] and step["check"]
    printed = v6t("dut", "plan", "--plugin", "siit", "--driver", "tayga").out.strip()
    shown = v6t("run", "--dry-run", "-v", "--plugin", "siit", "--dut", "tayga").out
    assert v6t("run", "--dry-run", "-v", "--plugin", "siit", "--driver", "tayga").out == shown
    assert printed in "\n".join(line.removeprefix("  ") for line in shown.splitlines())


def make_lab_run(place, parts, **flags):
    """Write a run directory with undo records of the parts of a lab device."""
    (place / "config.json").write_text(json.dumps(resolve(**flags).to_json()))
    for part in parts:
        (place / part).mkdir(exist_ok=True)
        (place / part / "dut-undo.json").touch()


ENDED_LABS = {f"parts.{name}.options.ssh.lab": f"no-{name}" for name in ("clat", "plat")}


@pytest.mark.parametrize(("flags", "parts"), [
    ({"plugin": "nat44", "dut": "nftables"}, [""]),
    ({"plugin": "ipv4aas", "params": {"variant": "map-t"}, "dut_params": {"parts.br.driver": "reference"}}, ["napt"]),
    pytest.param({"plugin": "ipv4aas", "dut_params": ENDED_LABS}, ["clat", "plat"], marks=pytest.mark.lab),
])  # fmt: skip
def test_record_of_ended_lab_device_is_removed(flags, parts, tmp_path):
    make_lab_run(tmp_path, parts, **flags)
    result = v6t("dut", "rollback", tmp_path)
    assert (result.status, result.out) == (0, f"{LAB_DEVICE_GONE}\n")
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "config.json"}


def test_status_and_locked_rollback_of_ended_lab_device_are_rejected(tmp_path):
    make_lab_run(tmp_path, [], plugin="nat44", dut="nftables")
    assert LAB_DEVICE_GONE in expect_refusal(v6t("dut", "status", tmp_path), "missing-device")
    with hold_lock(tmp_path):
        codes = {v6t("dut", verb, tmp_path).code for verb in ("rollback", "status")}
    assert codes == {"directory-locked"}


@pytest.fixture(scope="module")
def server(server):
    server.connect_sides(intents.LINKS)
    return server


@pytest.fixture
def make_dut(server, tmp_path):
    """Return a factory of functions that run ``v6t dut`` in the device's network namespace.

    The device is rolled back at the end.
    """
    path = tmp_path / "testbed.yaml"

    def run(verb, *words, status=0):
        words = ("dut", verb, "--testbed", path, *words)
        return run_v6t(*words, network=server.pid, status=status)

    def make(driver, **options):
        write_testbed(path, driver, ssh=server.make_login_options(), **options)
        return run

    yield make
    if server.has_record:
        run("rollback")


@pytest.fixture
def dut(make_dut):
    """Return a function that runs ``v6t dut`` for an nftables device."""
    return make_dut("nftables")


@pytest.fixture
def two_step_dut(make_dut):
    """Return a function that runs ``v6t dut`` for a configuration of two steps."""
    return make_dut("command", base=False, steps=[DUMMY, FORWARDING])


def read_status(dut):
    return json.loads(dut("status", "--json").out)


@mark_device_test
def test_device_is_compared_configured_flushed_and_rolled_back(server, dut):
    nat44 = ("--plugin", "nat44")
    before = server.shell(STATE)
    assert "not configured by v6t" in dut("status", *nat44).out
    assert "to change" in get_step_states(dut("compare", *nat44, "--json", status=7)).values()
    assert server.shell(STATE) == before
    dut("commit", *nat44)
    assert "snat to 198.19.0.1" in server.shell("nft list table ip v6t")
    states = get_step_states(dut("compare", *nat44, "--json"))
    assert set(states.values()) == {"present"}
    server.shell("sysctl -q -w net.netfilter.nf_conntrack_udp_timeout=31")
    text = " ".join(dut("compare", *nat44, status=7).out.split())
    assert "found net.netfilter.nf_conntrack_udp_timeout 31 wanted net." in text
    assert text.endswith(f"{len(states) - 1} of {len(states)} steps as planned")
    status = dut("status", *nat44).out
    words = ("nat44 (nftables)", "sh /run/v6t/undo.sh", "  cpu: cpu0.idle", "  sessions: sessions")
    assert [text for text in words if text not in status] == []
    assert "has no sessions" in dut("flush", *nat44).out
    assert "connections: undone" in dut("rollback").out  # without the technology
    assert "nothing" in dut("rollback").out
    assert server.shell(STATE) == before


def get_step_states(result):
    return {s["number"]: s["state"] for s in json.loads(result.out)["steps"]}


@mark_device_test
def test_unconfirmed_commit_is_rolled_back(server, two_step_dut):
    before = server.shell(STATE)
    two_step_dut("commit", *ROUTER, "--revert-in", "2")
    wait_until(server.get_path("/run/v6t/guard/fired").exists, "the rollback timer")
    assert two_step_dut("confirm", status=4).code == "rollback-timer-failed"
    two_step_dut("rollback")
    assert server.shell(STATE) == before


@mark_device_test
def test_only_complete_commit_is_confirmed(server, two_step_dut):
    assert two_step_dut("confirm", status=4).code == "not-configured"
    two_step_dut("commit", *ROUTER, "--revert-in", "60")
    status = read_status(two_step_dut)
    assert 0 <= status["rollback_in_s"] <= 60
    assert status["lock"] == ""
    two_step_dut("confirm")
    status = read_status(two_step_dut)
    assert status["rollback_in_s"] is None
    assert status["configured"]["steps"] == 2
    server.shell("cp /run/v6t/progress /run/kept; sed -i '2,$d' /run/v6t/progress")
    assert two_step_dut("confirm", status=4).code == "not-configured"
    status = read_status(two_step_dut)["configured"]
    assert (status["begun"], status["verified"], status["finished"]) == (1, False, False)
    server.shell("mv /run/kept /run/v6t/progress; sh /run/v6t/undo.sh")
    assert read_status(two_step_dut)["configured"]["undone"] == 2
    assert "2 of 2 steps are undone" in two_step_dut("status").out
    for words in (("confirm",), ("flush", *ROUTER)):
        assert two_step_dut(*words, status=4).code == "not-configured"


TCP_RULE = ("POSTROUTING -s 198.18.0.2/32 -o right -p tcp -m comment --comment v6t "
            "-j SNAT --to-source 198.19.0.1:1024-65535")  # fmt: skip


@pytest.mark.lab
@needs_device("iptables", over_ssh=True)
def test_rule_deleted_or_added_by_operator_is_kept(server, make_dut):
    iptables = make_dut("iptables")
    iptables("commit", "--plugin", "nat44")
    server.shell(f"iptables -w -t nat -D {TCP_RULE}")
    iptables("rollback")
    assert "--comment v6t" not in server.shell("iptables -t nat -S POSTROUTING")
    server.shell(f"iptables -w -t nat -A {TCP_RULE}")
    result = iptables("commit", "--plugin", "nat44", status=4)
    assert result.code == "foreign-configuration"
    assert "TCP connections" in result.err
    server.shell(f"iptables -w -t nat -D {TCP_RULE}")  # fails if v6t has deleted it


@mark_device_test
def test_foreign_configuration_is_replaced_only_on_request(server, two_step_dut):
    edit = "sed -i '{}' /run/v6t/record.json".format
    change_owner = edit('s/"owner": "[^ ]*/"owner": "alice@elsewhere/')
    assert two_step_dut("flush", *ROUTER, status=4).code == "not-configured"
    two_step_dut("commit", *ROUTER)
    server.shell(change_owner)
    assert two_step_dut("commit", *ROUTER, status=4).code == "changed-by-another-owner"
    assert "rolling back the changes" in two_step_dut("commit", *ROUTER, "--replace").err
    server.shell(f"{change_owner}; sh /run/v6t/undo.sh")
    assert "rolling back the changes" in two_step_dut("commit", *ROUTER).err
    server.shell(edit('s/"technology": "ipv4-router"/"technology": "siit"/'))
    assert two_step_dut("flush", *ROUTER, status=4).code == "not-configured"


@mark_device_test
def test_compare_and_status_work_without_lock(server, dut):
    held = server.console.hold(build_lock_script("/run/v6t", "alice@elsewhere process 1"))
    assert held.read_line(10) == "locked"
    dut("compare", "--plugin", "nat44", status=7)
    before = server.shell(STATE)
    assert "alice@elsewhere" in dut("commit", "--plugin", "nat44", status=4).err
    assert server.shell(STATE) == before
    assert read_status(dut)["lock"] == "alice@elsewhere process 1"
    held.release()
    wait_until(lambda: "lock" not in server.shell("ls /run/v6t"), "its end")


@mark_device_test
@pytest.mark.parametrize(("ruleset", "code"), [
    ("table ip v6t { chain theirs { }; }", "foreign-configuration"),
    ("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }", "firewall-blocks"),
])  # fmt: skip
def test_foreign_table_is_not_changed(ruleset, code, server, dut):
    server.shell(f"nft '{ruleset}'")
    before = server.shell(STATE)
    if code == "foreign-configuration":
        result = dut("compare", "--plugin", "nat44", "--json", status=7)
        assert "belongs to another owner" in get_step_states(result).values()
    assert dut("commit", "--plugin", "nat44", status=4).code == code
    assert server.shell(STATE) == before
    server.shell("nft flush ruleset")


@mark_lab_test(needs_device("tayga-nftables"))
def test_verify_reads_back_and_sends_frames_in_both_directions():
    result = v6t("dut", "verify", "--plugin", "nat64", "--driver", "tayga-nftables")
    assert result.status == 0, result.err
    assert "both ways" in result.out
    lines = result.err.splitlines()
    assert "configured as nat64" in lines[0]
    assert "read-backs agree" in lines[1]
    assert "rolled back" in lines[-1]


@mark_lab_test(needs_device("linux-router"))
def test_verify_detects_device_that_forwards_nothing(tmp_path):
    read = "sysctl -n net.ipv4.conf.left.forwarding"
    step = {
        "command": "sysctl -q -w net.ipv4.conf.$LEFT.forwarding=0", "why": "a fault",
        "undo": "sysctl -q -w net.ipv4.conf.left.forwarding={words}", "before": read,
        "check": {"command": read, "equals": "0"},
    }  # fmt: skip
    path = write_testbed(tmp_path / "testbed.yaml", "command", steps=[step])
    result = v6t("dut", "verify", "--plugin", "ipv4-router", "--testbed", path)
    assert (result.status, result.code) == (6, "translation-incorrect")
    assert "rolled back" in result.err
