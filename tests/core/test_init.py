"""The example files of ``v6t init``: they are valid, and so is every commented line."""

import errno
import json
import re
import resource
import shlex
from pathlib import Path

import pytest
from v6t.core.config.run_setup import make_setup
from v6t.core.config.yaml_file import EXAMPLES_DIR, YamlFile, write_examples
from v6t.drivers.lab.faults import Faults
from v6t.drivers.sim.kind import Sim
from v6t.tests.core.support import read_dir, v6t
from v6t.tests.expect import expect_error, expect_refusal
from v6t.tests.settings import resolve

RUN, TESTBED = ((EXAMPLES_DIR / name).read_text() for name in ("run.yaml", "testbed.yaml"))


@pytest.fixture
def examples(tmp_path):
    done = v6t("init", "--dir", tmp_path / "a/b")
    run, testbed = tmp_path / "a/b/run.yaml", tmp_path / "a/b/testbed.yaml"
    assert done.status == 0
    assert done.out == f"{run}\n{testbed}\nnext: v6t run {run} --testbed {testbed}\n"
    assert sorted(read_dir(tmp_path / "a/b")) == ["run.yaml", "testbed.yaml"]
    return tmp_path / "a/b"


def test_written_files_can_be_simulated(examples):
    files = (examples / "run.yaml", "--testbed", examples / "testbed.yaml")
    done = v6t("run", *files, "--tester", "sim", "--json", "-o", examples / "out")
    assert done.status == 0
    records = json.loads(done.out)["results"]
    assert [r["direction"] for r in records] == ["bidirectional", "forward", "reverse"]
    assert {r["repetitions"] for r in records} == {2}


def test_next_command_quotes_the_directory(tmp_path):
    directory = tmp_path / "two words"
    command = v6t("init", "--dir", directory).out.splitlines()[-1]
    assert shlex.split(command)[3] == str(directory / "run.yaml")


def test_written_files_contain_the_defaults(examples):
    """A user who deletes a line keeps its value."""
    from_files = resolve(examples / "run.yaml", examples / "testbed.yaml")
    default = resolve(plugin="mape-br")
    assert make_setup(from_files).technology.params == make_setup(default).technology.params
    assert make_setup(from_files).technology.links == make_setup(default).technology.links
    same = {"params": {}, "links": None}
    assert from_files.model_copy(update=same) == default.model_copy(update=same)


def test_commented_settings_of_examples_are_valid(tmp_path):
    paths = tmp_path / "run.yaml", tmp_path / "bed.yaml"
    for path, example in zip(paths, (RUN, TESTBED), strict=True):
        path.write_text(re.sub(r"(?m)^( *)# (?=(?: *)[a-z_]+:( |$))", r"\1", example))
        assert path.read_text().count("#") < example.count("#")
    run, bed = (YamlFile(path).data for path in paths)
    assert {"n", "m", "negative_percent"} <= set(run["params"])
    assert {"trial_duration_s", "loss_tolerance", "confirmations"} <= set(run["procedure"])
    assert {"capacity_fps", "loss_probability"} <= set(bed["tester"]["options"])
    assert {"params", "faults"} <= set(bed["dut"]["options"])
    settings = resolve(*paths, tester="sim")
    assert settings.procedure.trial_duration_s == 60
    assert settings.dut.options["params"] == {"psid_offset": 5}
    assert Sim(settings.tester.options).options.loss_probability == 0.01
    assert Faults(**settings.dut.options["faults"]) == Faults()


@pytest.mark.parametrize("existing", ["run.yaml", "testbed.yaml"])
def test_existing_files_are_not_overwritten(existing, tmp_path):
    (tmp_path / existing).write_text("mine")
    expect_refusal(v6t("init", "--dir", tmp_path), "file-exists")
    assert read_dir(tmp_path) == {existing: b"mine"}
    (tmp_path / existing).unlink()
    (tmp_path / existing).symlink_to(tmp_path / "nowhere")
    expect_refusal(v6t("init", "--dir", tmp_path), "file-exists")
    assert [p.name for p in tmp_path.iterdir()] == [existing]


def test_partly_written_files_are_removed(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(RUN) + 100, hard))
    try:
        with expect_error("file-unwritable"):
            write_examples(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["run.yaml", "testbed.yaml"])
def test_init_on_a_full_disk_writes_nothing(name, tmp_path, monkeypatch):
    open_path = Path.open

    def fail_for_one_file(path, *mode, **encoding):
        if path.name == name and "x" in mode:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_path(path, *mode, **encoding)

    monkeypatch.setattr(Path, "open", fail_for_one_file)
    expect_refusal(v6t("init", "--dir", tmp_path), "disk-full", 3)
    assert list(tmp_path.iterdir()) == []
