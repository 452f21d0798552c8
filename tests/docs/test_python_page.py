"""Execute the code of the page on results in Python."""

import re
import shutil
import subprocess

import pytest
import v6t
from v6t.analysis.report.latex import escape_latex
from v6t.base.errors import UsageError
from v6t.core.campaigns.campaign import create_campaign, plan_campaign
from v6t.tests.expect import expect_error
from v6t.tests.packaging.support import CHECKOUT

PAGE = CHECKOUT / "docs" / "python.md"
CAMPAIGN = """\
name: two
title: Two
run: {plugin: siit, modes: [forward], procedure: {repetitions: 1}}
testbeds: {one: {tester: {kind: sim}}}
experiments: [{name: a, matrix: {frame_sizes: [[84], [512]]}}]
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


def read_code():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def printed():
    """Return the text that the code of the page prints, in order."""
    return []


@pytest.fixture(scope="module")
def names(directory, printed):
    """Return the variables after the code of the page has run."""
    namespace = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        for code in read_code():
            exec(compile(code, PAGE, "exec"), namespace)  # noqa: S102
        namespace["run"].data  # noqa: B018  (read before the directory is left)
        return namespace


def test_page_code_measures_and_reads_results(names):
    run = names["run"]
    assert run.status == "complete" and run.throughput_summary
    rows = run.table("throughput")
    expected = [(octets, "forward", "fps") for octets in (104, 1518)]
    assert [(r["ipv6_octets"], r["direction"], r["unit"]) for r in rows] == expected
    assert rows[0]["p1"] <= rows[0]["median"] <= rows[0]["p99"]
    assert {r["figure"] for r in run.table("latency")} == {"TL forward", "WCL forward"}
    assert len(names["rows"]) == len(run.table("trials"))


def test_comments_of_page_code_state_printed_values(names, printed):
    stated = re.findall(r"^print\(.*\)  +# (\w+)$", "\n".join(read_code()), re.M)
    assert len(stated) == 3
    assert [text for text in printed if text in stated] == stated


def test_unknown_table_names_those_that_exist(names):
    with expect_error("unknown-name") as caught:
        names["run"].table("pdv")
    assert "throughput" in str(caught.value.hint)


def test_latex_tables_have_as_many_cells_as_columns(names, directory):
    text = (directory / "my-run" / "tables.tex").read_text()
    for columns, body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", text, re.S):
        rows = [line for line in body.splitlines() if "&" in line]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1 for row in rows)
    assert "SIMULATED" in text and r"\toprule" in text


def test_paper_with_the_tables_and_figures_compiles(names, directory):
    figures = (directory / "my-run" / "figures.tex").read_text()
    included = re.findall(r"\\includegraphics\[[^]]*\]{(figures/[\w-]+\.pdf)}", figures)
    assert included and len(included) == figures.count(r"\caption{")
    assert all((directory / "my-run" / name).read_bytes()[:5] == b"%PDF-" for name in included)
    assert r"\usepackage{graphicx}" in figures and "SIMULATED" in figures
    if not shutil.which("pdflatex"):
        pytest.skip("needs the package texlive-latex-recommended")
    document = (
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
        r"\input{tables}\input{figures}\end{document}"
    )
    (directory / "my-run" / "paper.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=directory / "my-run", check=False, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_latex_special_characters_are_escaped():
    assert escape_latex("50 % of a_b & #1 {x} \\y") == (
        r"50 \% of a\_b \& \#1 \{x\} \textbackslash{}y"
    )


def test_campaign_adds_the_run_to_its_rows(tmp_path):
    (tmp_path / "c.yaml").write_text(CAMPAIGN)
    create_campaign(plan_campaign(tmp_path / "c.yaml"), tmp_path / "out")
    campaign = v6t.load(tmp_path / "out")
    assert campaign.runs == {} and campaign.table("throughput") == []
    first = "001-a-84"
    v6t.run("siit", tester="sim", modes=["forward"], procedure={"repetitions": 1},
            output=tmp_path / "out" / first)  # fmt: skip
    campaign = v6t.load(tmp_path / "out")
    assert [row["run"] for row in campaign.table("throughput")] == [first]


@pytest.mark.parametrize(("kind", "options"), [("nonsense", {}), ("tex", {"figures": "png"})])
def test_report_with_unknown_format_or_figures_is_refused(kind, options, names, directory):
    with expect_error("unknown-name"):
        v6t.load(directory / "my-run").report(kind, **options)


def test_single_values_need_no_list(tmp_path):
    run = v6t.run("map-e", tester="sim", frame_sizes=104, modes="forward", measure="throughput",
                  procedure={"repetitions": 1}, output=tmp_path / "out")  # fmt: skip
    (record,) = run.records
    assert (record.benchmark, record.sizes, record.direction) == ("throughput", "104/64", "forward")


@pytest.mark.parametrize(("argument", "code"), [
    ({"params": ["psid_offset=4"]}, "not-a-section"), ({"params": {5: 1}}, "unknown-setting"),
    ({"measure": None}, "invalid-value"), ({"measure": b"throughput"}, "invalid-value"),
    ({"modes": [b"forward"]}, "invalid-value"), ({"frame_sizes": [None]}, "invalid-value"),
    ({"frame_sizes": b"hh"}, "invalid-value"), ({"preset": b"quick"}, "not-text"),
    ({"dut": {}}, "not-text"), ({"dut_options": [5]}, "not-a-section"),
    ({"procedure": []}, "not-a-section"), ({"testbed": 5}, "not-text"),
])  # fmt: skip
def test_argument_of_wrong_type_is_refused(argument, code, tmp_path):
    with expect_error(code, mentions=next(iter(argument)) if code != "unknown-setting" else ""):
        v6t.run("map-e", tester="sim", output=tmp_path / "out", **argument)


def test_bad_arguments_have_the_codes_of_the_command(tmp_path):
    with pytest.raises(UsageError) as caught:
        v6t.run("map-e", tester="sim", params={"ea_len": 99}, output=tmp_path / "x")
    assert caught.value.code and not (tmp_path / "x").exists()
    with expect_error("no-such-run"):
        v6t.load(tmp_path)
    with expect_error("not-text"):
        v6t.load(None)
