"""`make results`: the campaign of all devices and its page, by a command line that is not v6t's."""

from __future__ import annotations

import os
import shutil

import pytest
from v6t.drivers.duts.registry import names
from v6t.tests import zoo
from v6t.tests.standins import standing_of


class Calls:
    """In place of v6t: a campaign ends with a status, and with a summary if it came to its end."""

    def __init__(self, directory, status=0, *, ends=True):
        self.directory, self.status, self.ends = directory, status, ends
        self.said = []

    def __call__(self, words):
        self.said.append(list(words))
        if words[0] == "report":
            return 0
        self.directory.mkdir(exist_ok=True)
        (self.directory / zoo.CAMPAIGN).touch()
        if self.ends:
            (self.directory / zoo.SUMMARY).touch()
        return self.status

    @property
    def how(self):
        """What each campaign was begun with, and whether it was published."""
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
def test_what_came_to_its_end_is_published(status, ends, found, page, tmp_path):
    calls = Calls(tmp_path / "out", status, ends=ends)
    assert zoo.main([str(tmp_path / "out")], calls, "page") == found
    assert calls.how == ["-o", "page"] if page else ["-o"]


def test_what_was_interrupted_is_continued_and_what_ended_is_made_anew(tmp_path):
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


def test_machines_are_of_modules_alone():
    assert {d for d in names() if standing_of(d, "siit")} == {"jool", "nat46", "ip6-tunnel"}
    assert standing_of("jool", "mapt-br")[0] != standing_of("jool", "siit")[0]
