"""``v6t doctor`` reports its findings as text and JSON and ends with a status for scripts."""

import json
import os
import platform
import re
import socket
import sys

import pytest
from v6t.core.runs import doctor
from v6t.drivers.duts.kinds.linux_router import LinuxRouter
from v6t.drivers.lab import privilege
from v6t.drivers.testers import load_kind
from v6t.drivers.trex import channel
from v6t.tests.core.support import v6t
from v6t.tests.drivers.faketrex import make_installation
from v6t.tests.expect import expect_refusal


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Provide a machine without any problem."""
    monkeypatch.setattr(privilege, "check_availability", lambda: (True, "root"))
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setenv("TREX_DIR", str(tmp_path))
    return monkeypatch


def findings():
    return {f.what: f for f in doctor.examine_machine()}


def test_complete_machine_passes(machine):
    done = v6t("doctor")
    assert (done.status, done.err) == (0, "")
    assert "ok      cores: 3\n" in done.out
    assert "ok      embedded lab: " in done.out
    assert "MISSING" not in done.out


def test_missing_lab_permission_exits_with_status_3(machine):
    machine.setattr(privilege, "check_availability", lambda: (False, "not permitted"))
    done = v6t("doctor")
    assert done.status == 3
    assert "MISSING embedded lab: " in done.out
    done = v6t("doctor", "--json")
    assert done.status == 3
    rows = json.loads(done.out)
    assert {"what": "embedded lab", "state": "missing", "text": "not permitted"} in rows
    assert [r["what"] for r in rows] == [f.what for f in doctor.examine_machine()]


def test_another_system_cannot_have_the_lab(machine):
    machine.setattr(platform, "system", lambda: "Darwin")
    assert findings()["system"].state == "missing"
    assert "--tester sim" in findings()["system"].text


def test_single_core_gives_a_note(machine):
    machine.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0})
    assert findings()["cores"].state == "note"
    assert v6t("doctor").status == 0


def test_trex_is_searched_in_trex_dir(machine, tmp_path):
    assert "t-rex-64" in findings()["TRex"].text
    assert findings()["TRex"].state == "note"
    (tmp_path / "t-rex-64").touch()
    assert "Python client" in findings()["TRex"].text


@pytest.mark.parametrize("options", ["trex_dir: /nowhere", "lab: true"])
def test_missing_trex_of_testbed_is_reported(options, machine, tmp_path):
    machine.delenv("TREX_DIR")
    machine.setattr(channel, "DEFAULT_LOCATION", tmp_path)
    bed = tmp_path / "bed.yaml"
    bed.write_text(f"tester: {{kind: trex, options: {{{options}}}}}\n")
    done = v6t("doctor", "--testbed", str(bed))
    assert done.status == 3
    assert "MISSING TRex: " in done.out


def test_invalid_testbed_is_reported(machine, tmp_path):
    bed = tmp_path / "bed.yaml"
    bed.write_text("tester:\n  knid: trex")
    said = expect_refusal(v6t("doctor", "--testbed", bed), "unknown-setting")
    assert "bed.yaml:2" in said
    assert "kind" in said
    bed.write_text("tester:\n  kind: trex\n  options: {corse: 1}")
    assert "corse" in expect_refusal(v6t("doctor", "--testbed", bed), "unknown-setting")


def test_missing_trex_is_only_a_note(machine, tmp_path):
    machine.delenv("TREX_DIR")
    machine.setattr(channel, "DEFAULT_LOCATION", tmp_path)
    assert findings()["TRex"].state == "note"
    assert "none found" in findings()["TRex"].text
    assert v6t("doctor").status == 0


@pytest.mark.slow
def test_client_and_server_are_examined(machine, tmp_path):
    def examined():
        return {f.what: f for f in doctor.examine_machine(load_kind("trex", options))}

    make_installation(tmp_path / "v3.08")
    machine.setenv("TREX_DIR", str(tmp_path / "v3.08"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = {"python": sys.executable, "rpc_port": listener.getsockname()[1]}
        found = examined()
        assert found["TRex"].text.endswith("version v3.08")
        assert "Python 3." in found["TRex client"].text
        assert "STL, 1 data" in found["TRex server"].text
        assert {"port 0", "port 1", "hugepages", "clock"} <= set(found)
        machine.setenv("FAKE_OWNER", "alice")
        assert "taken by alice" in examined()["port 1"].text
    found = examined()
    assert found["TRex server"].state == "missing"
    assert "name its interfaces" in found["TRex server"].text
    options["interfaces"] = ["--vdev=net_memif0,id=0", "lo"]
    found = examined()
    assert "v6t starts one" in found["TRex server"].text
    assert found["interface lo"].state == "ok"


def test_this_machine_is_judged_like_its_lab(monkeypatch, tmp_path):
    """No simulation: the real probe and the status agree."""
    monkeypatch.delenv("TREX_DIR", raising=False)
    monkeypatch.setattr(channel, "DEFAULT_LOCATION", tmp_path)
    can, _how = privilege.check_availability()
    done = v6t("doctor", "--json")
    rows = {r["what"]: r for r in json.loads(done.out)}
    assert (rows["embedded lab"]["state"] == "ok") is can
    assert done.status == (0 if can and platform.system() == "Linux" else 3)


@pytest.mark.parametrize(
    ("bed", "plugin", "finding", "status"),
    [
        ("tester: {kind: sim}", [], "ok      device: simulated\n", 0),
        ("{}", [], "ok      device: ", 0),
        ("dut: {driver: nftables}", ["--plugin", "siit"], "MISSING device: ", 3),
    ],
)
def test_a_testbeds_device_is_looked_at(bed, plugin, finding, status, machine, tmp_path):
    (tmp_path / "bed.yaml").write_text(bed)
    done = v6t("doctor", "--testbed", tmp_path / "bed.yaml", *plugin)
    assert finding in done.out
    assert done.status == status


def test_a_technology_needs_a_testbed(machine):
    expect_refusal(v6t("doctor", "--plugin", "nat44"), "conflicting-options")


@pytest.mark.lab
def test_a_lab_devices_programs_are_looked_for(tmp_path, monkeypatch):
    can, why = privilege.check_availability()
    if not can or os.geteuid():
        pytest.skip(f"needs the lab as root: {why}")
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: linux-router}")
    assert "ok      device: linux-router" in v6t("doctor", "--testbed", bed).out
    monkeypatch.setattr(LinuxRouter, "programs", {"no-such-program": "its-package"})
    done = v6t("doctor", "--testbed", bed)
    assert re.search("MISSING device: .* no-such-program", done.out)
    assert "apt-get install its-package" in done.out
    assert done.status == 3
