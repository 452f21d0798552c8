"""The example files of ``v6t init``: they are valid, and so is every commented line."""

import json
import re
import resource
import shlex
import subprocess

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.config.yaml_file import EXAMPLES_DIR, YamlFile, write_examples
from v6t.drivers.lab.faults import Faults
from v6t.drivers.sim.kind import Sim
from v6t.tests.core.support import COMMAND, tree, v6t
from v6t.tests.expect import expect_refusal

RUN, TESTBED = ((EXAMPLES_DIR / name).read_text() for name in ("run.yaml", "testbed.yaml"))


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t("init")
    assert done.status == 0
    assert sorted(tree(tmp_path)) == ["run.yaml", "testbed.yaml"]
    return tmp_path


def uncommented(text):
    """Return the example with its commented-out settings in force; explanations stay comments."""
    return re.sub(r"^( *)# (?=(?: *)[a-z_]+:( |$))", r"\1", text, flags=re.MULTILINE)


def test_init_prints_next_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = v6t("init", "--dir", "a/b").out.splitlines()
    assert out == [
        "a/b/run.yaml",
        "a/b/testbed.yaml",
        "next: v6t run a/b/run.yaml --testbed a/b/testbed.yaml",
    ]


def test_written_files_can_be_simulated(made):
    done = v6t(
        *("run", "run.yaml", "--testbed", "testbed.yaml", "--tester", "sim", "--json"),
        *("-o", "out"),
    )
    assert done.status == 0
    records = json.loads(done.out)["results"]
    assert [r["direction"] for r in records] == ["bidirectional", "forward", "reverse"]
    assert {r["repetitions"] for r in records} == {2}


def test_written_files_contain_the_defaults(made):
    """A user who deletes a line keeps what it said."""
    from_files = resolve(made / "run.yaml", made / "testbed.yaml")
    default = resolve(plugin="mape-br")
    assert make_setup(from_files).technology.params == make_setup(default).technology.params
    assert make_setup(from_files).technology.links == make_setup(default).technology.links
    same = {"params": {}, "links": None}
    assert from_files.model_copy(update=same) == default.model_copy(update=same)


def test_commented_settings_work(tmp_path):
    run, bed = uncommented(RUN), uncommented(TESTBED)
    assert run.count("#") < RUN.count("#")
    assert bed.count("#") < TESTBED.count("#")
    (tmp_path / "run.yaml").write_text(run)
    (tmp_path / "bed.yaml").write_text(bed)
    files = YamlFile(tmp_path / "run.yaml").data, YamlFile(tmp_path / "bed.yaml").data
    assert {"n", "m", "negative_percent"} <= set(files[0]["params"])
    assert {"trial_duration_s", "loss_tolerance", "confirmations"} <= set(files[0]["procedure"])
    assert {"capacity_fps", "loss_probability"} <= set(files[1]["tester"]["options"])
    assert {"params", "faults"} <= set(files[1]["dut"]["options"])
    found = resolve(tmp_path / "run.yaml", tmp_path / "bed.yaml", tester="sim")
    assert found.procedure.trial_duration_s == 60
    assert found.dut.options["params"] == {"psid_offset": 5}
    assert Sim(found.tester.options).options.loss_probability == 0.01
    assert Faults(**found.dut.options["faults"]) == Faults()


@pytest.mark.parametrize("existing", ["run.yaml", "testbed.yaml"])
def test_existing_files_are_not_overwritten(existing, tmp_path):
    (tmp_path / existing).write_text("mine")
    expect_refusal(v6t("init", "--dir", tmp_path), "file-exists")
    assert tree(tmp_path) == {existing: b"mine"}


def test_dangling_link_is_not_followed(tmp_path):
    (tmp_path / "testbed.yaml").symlink_to(tmp_path / "elsewhere")
    expect_refusal(v6t("init", "--dir", tmp_path), "file-exists")
    assert [p.name for p in tmp_path.iterdir()] == ["testbed.yaml"]


def test_files_that_do_not_fit_the_disk_are_removed(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(RUN) + 100, hard))
    try:
        with pytest.raises(UsageError):
            write_examples(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kib", [0, 4])
def test_init_on_a_full_disk_writes_nothing(kib, tmp_path):
    """The second file does not fit a disk of one page; none of both fits a disk of no inodes."""
    size = f"size={kib}k" if kib else "nr_inodes=1"
    script = f"mount -t tmpfs -o {size} none {tmp_path} && cd {tmp_path} && {{ {shlex.join([*COMMAND, 'init'])}; echo $? *; }}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)  # noqa: PLW1510
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespaces: {done.stderr.strip()}")
    assert done.stdout == "3 *\n"
    assert "[disk-full]" in done.stderr
