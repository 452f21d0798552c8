"""`make results`: the campaign of all devices and its page."""

import os
import shutil
from types import SimpleNamespace

import pytest
from v6t.core.config import run_setup
from v6t.drivers.duts.registry import list_driver_names
from v6t.tests import standins, zoo
from v6t.tests.expect import expect_error
from v6t.tests.openbsd import vm as openbsd
from v6t.tests.standins import find_shared_machine


class Campaign:
    """Fake commands: a campaign that ends with a status, and with a summary if it finishes."""

    def __init__(self, directory, status=0, finishes=True):
        self.directory, self.status, self.finishes = directory, status, finishes
        self.calls = []

    def __call__(self, words):
        if words[0] == "publish":
            self.calls.append("publish")
            return 0
        self.calls.append(words[3])  # starts or resumes
        self.directory.mkdir(exist_ok=True)
        (self.directory / zoo.CAMPAIGN).touch()
        if self.finishes:
            (self.directory / zoo.SUMMARY).touch()
        return self.status


@pytest.mark.parametrize(("status", "finishes", "expected"), [
    (0, True, 0),
    (4, True, 0),  # the page lists the failed runs
    (2, False, 2),  # invalid
    (130, False, 130),  # interrupted
    (0, False, 1),
])  # fmt: skip
def test_finished_campaign_is_published(status, finishes, expected, tmp_path):
    campaign = Campaign(tmp_path / "out", status, finishes)
    assert zoo.main([str(tmp_path / "out")], campaign, "page") == expected
    assert campaign.calls == (["-o", "publish"] if finishes else ["-o"])


def test_interrupted_campaign_continues_and_finished_one_restarts(tmp_path):
    out, previous = tmp_path / "out", tmp_path / "out.before"
    zoo.main([str(out)], Campaign(out, 130, finishes=False), "page")
    for flags, call in (([], "--resume"), (["--resume"], "--resume"), ([], "-o"), ([], "-o")):
        (out / "mine").touch()
        campaign = Campaign(out)
        assert zoo.main([str(out), *flags], campaign, "page") == 0
        assert campaign.calls == [call, "publish"]
        assert (out / "mine").exists() == (call == "--resume")
        assert (previous / "mine").exists() == (call == "-o")


def test_programs_of_variables_are_found_by_their_names(tmp_path):
    before = os.environ["PATH"]
    # VPP's file has the name that its driver uses; Tundra's file needs a link with this name
    vpp, tundra = tmp_path / "vpp", tmp_path / "built"
    for program in (vpp, tundra):
        program.touch(0o755)
    with zoo.add_programs_to_path({"V6T_VPP": str(vpp), "V6T_TUNDRA": str(tundra)}):
        assert shutil.which("vpp") == str(vpp)
        link = shutil.which("tundra-nat64")
        assert os.path.islink(link) and os.path.realpath(link) == str(tundra)
    assert os.environ["PATH"] == before


def test_only_kernel_modules_and_openbsd_use_machines():
    drivers = {d for d in list_driver_names() if find_shared_machine(d, "siit")}
    assert drivers == {"jool", "nat46", "ip6-tunnel", "openbsd-pf"}
    assert find_shared_machine("jool", "mapt-br")[0] != find_shared_machine("jool", "siit")[0]


def test_openbsd_machine_needs_variables(monkeypatch):
    name, make = find_shared_machine("openbsd-pf", "nat64")
    assert name == "openbsd-pf"
    variables = (openbsd.QEMU_VARIABLE, openbsd.KEY_VARIABLE)
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    with expect_error("missing-program") as caught:
        make()
    assert openbsd.QEMU_VARIABLE in caught.value.hint
    for variable in variables:
        monkeypatch.setenv(variable, "path")
    calls = []
    machine = SimpleNamespace(start=lambda: calls.append("start"), run=calls.append)
    monkeypatch.setattr(openbsd.SharedOpenBsdMachine, "_create_machine", lambda self: machine)
    shared = make()
    assert calls == []  # the machine boots for the first run
    assert shared.start() is shared.start() is machine
    assert calls == ["start", "pfctl -d"]


def test_only_one_machine_runs_at_a_time(monkeypatch):
    stopped = []

    def find(name, technology):
        machine = SimpleNamespace(
            make_device=lambda driver, intent, record_dir: (name, driver.name, intent.technology),
            stop=lambda: stopped.append(name),
        )
        return (name, lambda: machine) if name != "tayga" else None

    def build(driver):
        intent = SimpleNamespace(technology="nat64")
        run = SimpleNamespace(driver=SimpleNamespace(name=driver), intent=intent)
        return run_setup.build_lab_device(run)

    monkeypatch.setattr(standins, "find_shared_machine", find)
    monkeypatch.setattr(run_setup, "build_lab_device", lambda *run: "namespace")
    with zoo.use_virtual_machines():
        for name in ("jool", "openbsd-pf", "openbsd-pf"):
            assert build(name) == (name, name, "nat64")
        assert stopped == ["jool"]
        assert build("tayga") == "namespace"
        assert stopped == ["jool", "openbsd-pf"]
        build("openbsd-pf")
    assert stopped == ["jool", "openbsd-pf", "openbsd-pf"]
    assert build("openbsd-pf") == "namespace"
