"""``v6t audit``: the command, its files and exit statuses, and suites of other distributions."""

import json
import pickle
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import Mock

import pytest
from v6t.audit.auditor import AuditProgress, AuditRequest, choose_clauses, run_audit
from v6t.audit.clause import ProbeUnable
from v6t.audit.packet_device.build import build_device
from v6t.audit.self_check import DeviceProbe
from v6t.base.errors import DutError, UsageError
from v6t.core import audit_device, audit_output
from v6t.core.audit_device import ProbedDevice, RunDevice
from v6t.core.cli.run_commands import _audit_device
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.rundir import CONFIG
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.nat44 import Nat44
from v6t.plugins.siit import Siit
from v6t.tests.audit.test_auditor import SilentDevice
from v6t.tests.audit.test_record import make_audit, make_finding
from v6t.tests.core.support import v6t, write_distribution

WRONG_TABLE = (
    '[{"ipv4": "198.18.0.0/24", "ipv6": "2001:2:0:77::/120"}, '
    '{"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"}]'
)
INTERFACES_SCRIPT = """
import subprocess, sys, threading
from multiprocessing import Pipe
from pathlib import Path

for name in ("all", "default"):
    Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
for ours, theirs in (("one", "left"), ("two", "right")):
    subprocess.run(["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs], check=True)
    for name in (ours, theirs):
        subprocess.run(["ip", "link", "set", name, "arp", "off", "up"], check=True)
from v6t.audit.packet_device.build import build_device
from v6t.core.cli import main
from v6t.drivers.lab.packet_model import PacketModelDut
from v6t.drivers.lab.setup import compute_frame_octets
from v6t.plugins.siit import Siit

dut = PacketModelDut("left", "right", compute_frame_octets(Siit().links), build_device(Siit()))
_, control = Pipe()
threading.Thread(target=dut.idle, args=(control,), daemon=True).start()
main.main(["audit", "--plugin", "siit", "--interfaces", "one,two", "--no-variants", *sys.argv[1:]])
"""
SUITE_MODULE = """
from v6t.audit.clause import Clause, Suite

class Mine(Suite):
    name = "mine"

    def list_clauses(self, subject, variant=""):
        return [Clause("RFC 1", "1", "mine", "MAY", "it does", lambda: iter(()))]
"""


def replace_device(monkeypatch, device):
    """Replace the device of a run by a packet-level device."""

    @contextmanager
    def open_device(run_device):
        run_device.on_open("a device")
        yield DeviceProbe(device)

    monkeypatch.setattr(RunDevice, "open", open_device)


def test_suite_of_another_distribution_is_found(tmp_path, monkeypatch):
    (tmp_path / "v6t_mine.py").write_text(SUITE_MODULE)
    write_distribution(tmp_path, "v6t-mine", audits="mine = v6t_mine:Mine")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = v6t("audit", "--plugin", "nat44", "--list", "--suite", "mine")
    assert (done.status, done.out.split()[0]) == (0, "rfc1-1-mine")


@pytest.mark.parametrize(("plugin", "params", "clause"), [
    ("mapt-br", [], "rfc7599-8.3-up-udp"),
    ("nat64", ["initiator_count=1"], "rfc7915-5.1-udp"),
    ("mapt-ce", ["ce_psid=9"], "rfc7599-8.2-foreign-udp"),
    ("nat44", ["pool_ports={min: 1024, max: 2047}", "initiator_ports={min: 1024, max: 1279}"],
     "rfc4787-REQ-1-mapped"),
])  # fmt: skip
def test_list_has_clause_of_technology(plugin, params, clause):
    settings = [word for param in params for word in ("--set", param)]
    done = v6t("audit", "--plugin", plugin, "--list", "--json", *settings)
    assert done.status == 0, done.err
    rows = json.loads(done.out)
    assert set(rows[0]) == {"clause", "section", "level", "title"}
    assert clause in {row["clause"] for row in rows}


def test_list_has_selected_clauses_only():
    words = ["audit", "--plugin", "siit", "--list", "--json", "--clause"]
    rows = json.loads(v6t(*words, "hop-limit-").out)
    assert {row["clause"] for row in rows} == {"rfc7915-5.1-hop-limit-1", "rfc7915-5.1-hop-limit-2"}
    assert v6t(*words, "zzz").code == "unknown-name"


def test_list_aligns_columns_behind_the_longest_name():
    lines = v6t("audit", "--plugin", "nat64", "--list").out.splitlines()
    assert max(len(line.split()[0]) for line in lines) > 34
    assert len({line.index(" RFC ") for line in lines}) == 1


def test_plan_of_run_has_number_of_clauses():
    words = ["run", "--plugin", "siit", "--dry-run"]
    assert "6 clauses" in v6t(*words, "--audit", "refuse").out
    json.loads(v6t(*words, "--audit", "warn", "--json").out)


@pytest.mark.parametrize(("driver", "plugin", "params", "rejected"), [
    ("jool", "siit", {}, set()), ("vpp", "mape-br", {}, set()),
    ("vpp", "mapt-br", {"rule_ipv6": "2001:db8:ce::/48"}, {"lowest-ipv6-mtu of 1400"}),
    ("vpp", "lwaftr", {"psid_len": "5", "softwires": "64"}, set()), ("jool", "mapt-br", {}, set()),
])  # fmt: skip
def test_variant_without_driver_setting_is_rejected(driver, plugin, params, rejected):
    device = RunDevice(resolve_setup(plugin=plugin, dut=driver, params=params))
    rejected_variants = set()
    for variant, changes in device.technology.list_audit_variants().items():
        try:
            device.with_params(changes)
        except UsageError as exc:
            if exc.code == "setting-untellable":
                rejected_variants.add(variant)
    assert rejected_variants == rejected


def test_audit_of_silent_device_stops_and_prints_the_packet(monkeypatch, tmp_path):
    replace_device(monkeypatch, SilentDevice())
    done = v6t("audit", "--plugin", "siit", "--no-variants", "-o", tmp_path / "out")
    assert done.status == 6
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert len(record["findings"]) == 2 < record["planned"]
    assert "UDP, 66 octets" in done.out


def test_findings_are_printed_if_the_disk_is_full(monkeypatch, tmp_path):
    replace_device(monkeypatch, SilentDevice())
    full = UsageError("no space left", code="file-unwritable")
    monkeypatch.setattr(audit_output, "write_audit", Mock(side_effect=full))
    done = v6t("audit", "--plugin", "siit", "--clause", "5.1-udp", "--no-variants", "-o", tmp_path)
    assert done.status == 2 and "rfc7915-5.1-udp" in done.out


@pytest.mark.parametrize(("timers", "absent"), [("minutes", {"tcp-established"}), ("hours", set())])
def test_too_short_timers_deviate_within_the_time_limit(monkeypatch, tmp_path, timers, absent):
    """The lifetimes are those of the kernel's NAT, except that a connection lives for half an hour."""
    device = build_device(Nat44())
    lifetimes_s = {"udp_timeout_s": 30, "icmp_timeout_s": 30, "tcp_transitory_s": 120}
    device.view = replace(device.view, **lifetimes_s, tcp_established_s=1800)
    replace_device(monkeypatch, device)
    words = ("--clause", "timer-", "--timers", timers, "--no-variants", "-o", tmp_path / "out")
    done = v6t("audit", "--plugin", "nat44", *words)
    assert done.status == 6, done.err
    findings = json.loads((tmp_path / "out" / "audit.json").read_text())["findings"]
    verdicts = {f["clause"].partition("timer-")[2]: (f["verdict"], f["got"]) for f in findings}
    expected = {
        "udp": ("deviates", "nothing after 38 s; after 13 s it arrived"),
        "udp-answered": ("deviates", "nothing after 38 s; after 13 s it arrived"),
        "query": ("deviates", "nothing after 55 s; after 18 s it arrived"),
        "tcp-transitory": ("deviates", "nothing after 235 s; after 78 s it arrived"),
        "tcp-closing": ("conforms", "as expected"),
        "tcp-established": ("deviates", "nothing after 2478 s; after 826 s it arrived"),
    }
    assert verdicts == {name: found for name, found in expected.items() if name not in absent}


def test_device_in_use_is_not_audited(monkeypatch):
    session = Mock(**{"open.side_effect": DutError("in use by ann", code="command-failed")})
    monkeypatch.setattr(audit_device, "make_session", lambda *rest: session)
    device = RunDevice(resolve_setup(plugin="siit"), ("one", "two"))
    with pytest.raises(DutError):
        run_audit(*choose_clauses(device, (), ()), AuditRequest(), AuditProgress())
    session.rollback.assert_not_called()  # another user configured the device


@pytest.mark.parametrize(("method", "interrupted", "error"), [
    ("flush", True, DutError), ("flush", False, ProbeUnable), ("reset", False, DutError),
])  # fmt: skip
def test_device_that_cannot_be_reset_ends_the_audit(method, interrupted, error):
    failure = DutError("not restored", code="command-failed")
    failure.__cause__ = KeyboardInterrupt() if interrupted else OSError()
    session = Mock(**{"flush.side_effect": failure, "rollback.side_effect": failure})
    probe = ProbedDevice(None, session, "a device")
    with pytest.raises(error):
        getattr(probe, method)()


def test_compare_of_audits_lists_different_verdicts(tmp_path):
    records = {"a": ("siit", "conforms"), "b": ("siit", "deviates"), "c": ("nat44", "conforms")}
    for name, (plugin, verdict) in records.items():
        (tmp_path / name).mkdir()
        record = make_audit(make_finding("a", "MUST", verdict), plugin=plugin)
        (tmp_path / name / "audit.json").write_text(json.dumps(record.to_json()))
    one, two, three = (tmp_path / name for name in records)
    [row] = json.loads(v6t("compare", one, two, "--json").out)["differences"]
    assert (row["clause"], row["verdicts"]) == ("a", ["conforms", "deviates"])
    assert v6t("compare", one, two, "-o", tmp_path / "x.html").status == 0
    assert v6t("compare", one, three).code == "not-comparable"
    assert v6t("compare", one, three, "--anyway").status == 0
    assert v6t("compare", one).status == 2
    assert v6t("compare", one, two, "--published").status == 2


def test_run_and_audit_directories_are_distinguished(tmp_path):
    for name, file in (("run", CONFIG), ("audit", "audit.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    run, record = tmp_path / "run", tmp_path / "audit"
    assert v6t("audit", "--plugin", "siit", "-o", run).code == "file-exists"
    assert v6t("report", record).code == "no-such-run"
    assert v6t("compare", record, run).code == "no-such-run"
    assert v6t("compare", record, record).code == "invalid-audit"


@pytest.mark.lab
def test_correct_packet_level_nat_conforms_in_the_lab(tmp_path):
    words = ["--clause", "REQ-1-mapped,flush-udp,configured-again", "--no-variants"]
    done = v6t("audit", "--plugin", "nat44", "--dut", "reference", *words, "-o", tmp_path / "out")
    assert done.status == 0, done.err
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert [f["verdict"] for f in record["findings"]] == ["conforms"] * 3


@pytest.mark.parametrize(("findings", "shown"), [
    ([make_finding("a", "MUST", "deviates")], "audit: RFC 7915 5.1: it does: TTL <58>"),
    ([], "audit: the device conforms to the core clauses"),
])  # fmt: skip
def test_run_with_audit_prints_result(monkeypatch, caplog, findings, shown):
    caplog.set_level("DEBUG", logger="v6t")
    monkeypatch.setattr(
        "v6t.audit.auditor.audit_core_clauses", lambda *_: make_audit(*findings).findings
    )
    _audit_device(resolve_setup(plugin="siit"), refuse=False)
    assert shown in caplog.text


@pytest.mark.lab
def test_run_with_audit_refuses_wrong_device(tmp_path):
    faulty = ["--set-dut", f"eam={WRONG_TABLE}"]
    done = v6t("run", "--plugin", "siit", "--audit", "refuse", *faulty, "-o", tmp_path / "run")
    assert done.status == 6 and "RFC 7915 5.1" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.lab
def test_device_at_two_interfaces_is_audited(tmp_path):
    words = ["--clause", "5.1-udp,4.1-udp,ttl-1", "-o", str(tmp_path / "audit"), "--json"]
    done = subprocess.run(
        ["unshare", "-r", "-n", sys.executable, "-c", INTERFACES_SCRIPT, *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {f["verdict"] for f in json.loads(done.stdout)["findings"]} == {"conforms"}


@pytest.mark.lab
def test_absent_interfaces_are_rejected(tmp_path):
    done = v6t("audit", "--plugin", "siit", "--interfaces", "nowhere1,nowhere2", "-o", tmp_path)
    assert (done.status, done.code) == (3, "unknown-interface")


@pytest.mark.parametrize("technology", [Siit(), MapEBorderRelay()], ids=lambda t: t.name)
def test_packet_model_is_picklable(technology):
    device = pickle.loads(pickle.dumps(build_device(technology)))  # noqa: S301
    assert device.receive("left", b"", 0.0) == []
