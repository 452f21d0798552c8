"""``v6t doctor`` reports its findings as text and JSON and ends with a status for scripts."""

import json
import os
import platform
import re
import socket
import sys

import pytest
from v6t.core.runs import doctor
from v6t.drivers.duts.kinds.linux.base import LinuxRouter
from v6t.drivers.lab import privilege
from v6t.drivers.testers import load_kind
from v6t.drivers.trex import channel
from v6t.tests.core.support import v6t
from v6t.tests.drivers.faketrex import make_installation
from v6t.tests.expect import expect_refusal
from v6t.tests.needs import needs_lab


@pytest.fixture
def machine(monkeypatch, tmp_path):
    monkeypatch.setattr(privilege, "check_availability", lambda: (True, "root"))
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setenv("TREX_DIR", str(tmp_path))
    return monkeypatch


def examine(*tester):
    """Return the findings about this machine by their subject."""
    return {f.what: f for f in doctor.examine_machine(*tester)}


def test_doctor_of_complete_machine_reports_no_problem(machine):
    done = v6t("doctor")
    assert (done.status, done.err) == (0, "")
    assert "ok      cores: 3\n" in done.out and "ok      embedded lab: " in done.out
    assert "MISSING" not in done.out


@pytest.mark.parametrize(("module", "name", "result", "subject", "state", "text"), [
    (privilege, "check_availability", (False, "not permitted"), "embedded lab", "missing", "not permitted"),
    (platform, "system", "Darwin", "system", "missing", "--tester sim"),
    (doctor.os, "sched_getaffinity", {0}, "cores", "note", ""),
], ids=["permission", "system", "cores"])  # fmt: skip
def test_problem_of_the_machine_is_reported(module, name, result, subject, state, text, machine):
    machine.setattr(module, name, lambda *_: result)
    status = 3 if state == "missing" else 0
    done = v6t("doctor")
    assert done.status == status and (f"MISSING {subject}: " in done.out) == bool(status)
    done = v6t("doctor", "--json")
    assert done.status == status
    rows = {row["what"]: row for row in json.loads(done.out)}
    assert list(rows) == list(examine())
    assert rows[subject].keys() == {"what", "state", "text"} and rows[subject]["state"] == state
    assert text in rows[subject]["text"]


def test_trex_is_searched_in_trex_dir(machine, tmp_path):
    finding = examine()["TRex"]
    assert finding.state == "note" and "t-rex-64" in finding.text
    (tmp_path / "t-rex-64").touch()
    assert "interactive/trex/stl" in examine()["TRex"].text
    machine.delenv("TREX_DIR")
    machine.setattr(channel, "DEFAULT_LOCATION", tmp_path / "nowhere")
    finding = examine()["TRex"]
    assert (finding.state, "none found" in finding.text) == ("note", True)
    assert v6t("doctor").status == 0
    assert examine(load_kind("trex", {}))["TRex"].state == "missing"  # of the testbed


@pytest.mark.parametrize(("options", "words"), [
    ("{interfaces: ['ff:1f.7', nic9]}", ["no such PCI device", "no such interface"]),
    ("{}", ["name its interfaces"]), ("{start: never}", ["set start: auto"]),
    ("{server: 127.0.0.2}", ["start one there"]), ("{ssh: a@b.invalid}", ["ssh needs trex_dir"]),
    ("{ssh: a@b.invalid, trex_dir: /opt/x}", ["must work without a prompt"]),
])  # fmt: skip
def test_missing_part_of_trex_is_named(options, words, machine, tmp_path):
    make_installation(tmp_path / "v3.08")
    machine.setenv("TREX_DIR", str(tmp_path / "v3.08"))
    (tmp_path / "bed.yaml").write_text(f"tester: {{kind: trex, options: {options}}}\n")
    done = v6t("doctor", "--testbed", tmp_path / "bed.yaml")
    assert done.status == 3
    assert all(text in done.out for text in ("MISSING", *words))


def test_invalid_testbed_is_reported(machine, tmp_path):
    (tmp_path / "bed.yaml").write_text("tester:\n  knid: trex")
    stderr = expect_refusal(v6t("doctor", "--testbed", tmp_path / "bed.yaml"), "unknown-setting")
    assert "bed.yaml:2" in stderr and "kind" in stderr


@pytest.mark.slow
def test_trex_client_and_server_are_examined(machine, tmp_path):
    make_installation(tmp_path / "v3.08")
    machine.setenv("TREX_DIR", str(tmp_path / "v3.08"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = {"python": sys.executable, "rpc_port": listener.getsockname()[1]}
        findings = examine(load_kind("trex", options))
        assert findings["TRex"].text.endswith("version v3.08")
        assert "Python 3." in findings["TRex client"].text
        assert "STL, 1 data" in findings["TRex server"].text
        assert {"port 0", "port 1", "hugepages", "clock"} <= set(findings)
        machine.setenv("FAKE_OWNER", "alice")
        assert "taken by alice" in examine(load_kind("trex", options))["port 1"].text
    finding = examine(load_kind("trex", options))["TRex server"]
    assert finding.state == "missing" and "name its interfaces" in finding.text
    options["interfaces"] = ["--vdev=net_memif0,id=0", "lo"]
    findings = examine(load_kind("trex", options))
    assert "v6t starts one" in findings["TRex server"].text
    assert findings["interface lo"].state == "ok"
    assert findings["interface --vdev=net_memif0,id=0"].text == "made by TRex"


def test_doctor_of_this_machine_agrees_with_the_lab_check(monkeypatch, tmp_path):
    """The findings, which are not replaced here, agree with the exit status."""
    monkeypatch.delenv("TREX_DIR", raising=False)
    monkeypatch.setattr(channel, "DEFAULT_LOCATION", tmp_path)
    is_available, _ = privilege.check_availability()
    done = v6t("doctor", "--json")
    rows = {r["what"]: r for r in json.loads(done.out)}
    assert (rows["embedded lab"]["state"] == "ok") is is_available
    assert done.status == (0 if is_available and platform.system() == "Linux" else 3)


@pytest.mark.parametrize(("bed", "plugin", "finding", "status"), [
    ("tester: {kind: sim}", [], "ok      device: simulated\n", 0),
    ("{}", [], "ok      device: ", 0),
    ("dut: {driver: nftables}", ["--plugin", "siit"], "MISSING device: ", 3),
    ("tester: {kind: trex, options: {trex_dir: /nowhere}}", [], "MISSING TRex: ", 3),
    ("tester: {kind: trex, options: {lab: true}}", [], "MISSING TRex: ", 3),
])  # fmt: skip
def test_testbed_is_examined(bed, plugin, finding, status, machine, tmp_path):
    machine.delenv("TREX_DIR")
    machine.setattr(channel, "DEFAULT_LOCATION", tmp_path)
    (tmp_path / "bed.yaml").write_text(bed)
    done = v6t("doctor", "--testbed", tmp_path / "bed.yaml", *plugin)
    assert finding in done.out
    assert done.status == status


@pytest.mark.lab
@needs_lab
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the lab as root")
def test_programs_of_a_lab_device_are_searched(tmp_path, monkeypatch):
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: linux-router}")
    assert "ok      device: linux-router" in v6t("doctor", "--testbed", bed).out
    monkeypatch.setattr(LinuxRouter, "programs", {"no-such-program": "its-package"})
    done = v6t("doctor", "--testbed", bed)
    assert re.search("MISSING device: .* no-such-program", done.out)
    assert "apt-get install its-package" in done.out and done.status == 3
