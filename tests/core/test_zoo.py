"""`make results`: the campaign of all devices and its page."""

import os
import shutil
from types import SimpleNamespace

import pytest
from v6t.core.runs import bench
from v6t.drivers.duts.registry import list_driver_names
from v6t.tests import standins, zoo
from v6t.tests.expect import expect_error
from v6t.tests.openbsd import vm as openbsd
from v6t.tests.standins import find_shared_machine


class Calls:
    """In place of v6t: a campaign ends with a status, and with a summary if it came to its end."""

    def __init__(self, directory, status=0, *, ends=True):
        self.directory, self.status, self.ends = directory, status, ends
        self.said = []

    def __call__(self, words):
        self.said.append(list(words))
        if words[0] == "publish":
            return 0
        self.directory.mkdir(exist_ok=True)
        (self.directory / zoo.CAMPAIGN).touch()
        if self.ends:
            (self.directory / zoo.SUMMARY).touch()
        return self.status

    @property
    def how(self):
        """Return how each campaign was started, and whether it was published."""
        return [w[3] if w[0] == "campaign" else "page" for w in self.said]


@pytest.mark.parametrize(
    ("status", "ends", "found", "page"),
    [
        (0, True, 0, True),
        (4, True, 0, True),  # runs failed: the page says which
        (2, False, 2, False),  # it could not begin
        (130, False, 130, False),  # interrupted
        (0, False, 1, False),
    ],
)
def test_finished_campaign_is_published(status, ends, found, page, tmp_path):
    calls = Calls(tmp_path / "out", status, ends=ends)
    assert zoo.main([str(tmp_path / "out")], calls, "page") == found
    assert calls.how == ["-o", "page"] if page else ["-o"]


def test_interrupted_campaign_continues_and_finished_one_restarts(tmp_path):
    out = tmp_path / "out"
    assert zoo.main([str(out)], Calls(out, 130, ends=False), "page") == 130
    calls = Calls(out)
    assert zoo.main([str(out)], calls, "page") == 0
    assert calls.how == ["--resume", "page"]
    calls = Calls(out)
    (out / "mine").touch()
    assert zoo.main([str(out), "--resume"], calls, "page") == 0
    assert calls.how == ["--resume", "page"]
    for _ in range(2):
        (out / "mine").touch()
        calls = Calls(out)
        assert zoo.main([str(out)], calls, "page") == 0
        assert calls.how == ["-o", "page"]
        assert (tmp_path / "out.before" / "mine").exists()
        assert not (out / "mine").exists()


def test_programs_of_variables_are_found_by_their_names(tmp_path):
    before = os.environ["PATH"]
    programs = {}
    # one as its driver calls it, which is found where it stands, and one that is not
    for name, called in (("vpp", "vpp"), ("tundra-nat64", "built")):
        programs[name] = tmp_path / called
        programs[name].touch(0o755)
    own = {"V6T_VPP": str(programs["vpp"]), "V6T_TUNDRA": str(programs["tundra-nat64"])}
    with zoo.named_programs(own):
        for name, program in programs.items():
            assert os.path.realpath(shutil.which(name)) == str(program)
            assert os.path.islink(shutil.which(name)) is (program.name != name)
    assert os.environ["PATH"] == before


def test_only_kernel_modules_and_openbsd_use_machines():
    found = {d for d in list_driver_names() if find_shared_machine(d, "siit")}
    assert found == {"jool", "nat46", "ip6-tunnel", "openbsd-pf"}
    assert find_shared_machine("jool", "mapt-br")[0] != find_shared_machine("jool", "siit")[0]


def test_openbsd_machine_needs_variables(monkeypatch):
    name, make = find_shared_machine("openbsd-pf", "nat64")
    assert name == "openbsd-pf"
    for variable in (openbsd.QEMU_VARIABLE, openbsd.KEY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    with expect_error("missing-program") as lacking:
        make()
    assert openbsd.QEMU_VARIABLE in lacking.value.hint
    for variable in (openbsd.QEMU_VARIABLE, openbsd.KEY_VARIABLE):
        monkeypatch.setenv(variable, "given")
    asked = []
    machine = SimpleNamespace(start=lambda: asked.append("start"), run=asked.append)
    monkeypatch.setattr(openbsd.SharedOpenBsdMachine, "_create_machine", lambda self: machine)
    shared = make()
    assert asked == []  # it boots for the first run
    assert shared.start() is shared.start() is machine
    assert asked == ["start", "pfctl -d"]


def test_only_one_machine_runs_at_a_time(monkeypatch):
    ended = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def make_device(self, driver, intent, record_dir):
            return self.name, driver.name, intent.technology

        def stop(self):
            ended.append(self.name)

    def standing(driver, technology):
        return (driver, lambda: Fake(driver)) if driver != "tayga" else None

    def run(driver):
        return SimpleNamespace(
            driver=SimpleNamespace(name=driver), intent=SimpleNamespace(technology="nat64")
        )

    monkeypatch.setattr(standins, "find_shared_machine", standing)
    monkeypatch.setattr(bench, "build_lab_device", lambda *given: "a namespace")
    with zoo._machines(True):
        for driver in ("jool", "openbsd-pf", "openbsd-pf"):
            assert bench.build_lab_device(run(driver)) == (driver, driver, "nat64")
        assert ended == ["jool"]
        assert bench.build_lab_device(run("tayga")) == "a namespace"
        assert ended == ["jool", "openbsd-pf"]
        bench.build_lab_device(run("openbsd-pf"))
    assert ended == ["jool", "openbsd-pf", "openbsd-pf"]
    assert bench.build_lab_device(run("openbsd-pf")) == "a namespace"
