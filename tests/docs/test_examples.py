"""Every example in the documentation works as shown."""

import re
import shlex

import pytest
from v6t.analysis.report import run as report
from v6t.core.campaigns.campaign import plan_campaign
from v6t.core.config.yaml_file import EXAMPLES_DIR
from v6t.tests.core.support import v6t
from v6t.tests.packaging.support import FOLDERS
from v6t.tests.settings import resolve

from .pages import (
    CHECKOUT,
    DOCS,
    execute,
    format_path,
    list_pages,
    matches_output,
    parse,
    read_blocks,
    read_commands,
)

pytestmark = pytest.mark.slow

EXAMPLES = {p: [b for b in read_blocks(p) if not b.reason] for p in list_pages()}
EXECUTED = [p for p, found in EXAMPLES.items() if {b.language for b in found} & {"console", "yaml"}]
WITH_FILES = [p for p in EXECUTED if any(b.language == "yaml" for b in EXAMPLES[p])]
COMMAND = re.compile(r"^    (v6t (?:.*\\\n)*.*)$", re.MULTILINE)
INDENTED = [page for page in list_pages() if COMMAND.search(page.read_text(encoding="utf-8"))]


def test_blocks_have_a_checked_language():
    for block in (b for page in list_pages() for b in read_blocks(page)):
        assert block.language in {"console", "yaml", "python", "text", "toml"}, block.place
        if block.language == "console":
            assert read_commands(block)
        if block.language == "python":
            tested = block.page.parent.name == "tutorials" or block.page.name == "python.md"
            assert block.reason or tested, f"{block.place}: not executed"


@pytest.mark.parametrize("page", EXECUTED, ids=format_path)
def test_example_commands_print_the_shown_output(page, tmp_path, monkeypatch):
    """Execute the commands in order in one directory, since some read the files of earlier ones."""
    monkeypatch.chdir(tmp_path)
    if page.name == "campaigns.md":
        monkeypatch.setenv("V6T_REPORT", "1")  # its directory is listed with the campaign's report
        monkeypatch.setattr(report, "MAX_FIGURES", 0)  # no figures in reports of runs
    for block in EXAMPLES[page]:
        if block.language == "yaml":
            file, text = parse_file(block)
            (tmp_path / file).write_text(text, encoding="utf-8")
        for command in read_commands(block) if block.language == "console" else ():
            status, printed = execute(command)
            where = f"{block.place}: {command.words}"
            if not any(line.startswith(("v6t: ", "MISSING")) for line in command.output):
                assert status in (0, 7), f"{where}\n{printed}"  # 7: a result is worse
            if command.output:
                assert matches_output(command.output, printed), f"{where}\n{printed}"


def parse_file(block):
    """Return name and text of a file, whose first line is its name."""
    match = re.match(r"# (\S+\.yaml)\b", block.text)
    assert match, f"{block.place}: missing file name"
    return match[1], block.text


@pytest.mark.parametrize("page", WITH_FILES, ids=format_path)
def test_example_files_are_accepted(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in (b for b in EXAMPLES[page] if b.language == "yaml"):
        name, text = parse_file(block)
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        if "campaign" in name:
            assert plan_campaign(path).runs
        elif "experiments:" in text or "plugin:" in text:
            resolve(path, None)
        else:
            plugin = re.search(r"^# \S+ for (\S+)", text)
            resolve(None, path, plugin=plugin[1] if plugin else "mape-br")


@pytest.mark.parametrize("page", INDENTED, ids=format_path)
def test_indented_commands_succeed(page, tmp_path, monkeypatch):
    """Runs are only planned, and self-tests have short trials; other commands are executed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "testbed.yaml").write_text("line_rate: 10G\n")
    options = {"run": ["--dry-run"], "selftest": ["--duration", "0.1"]}
    rows = (f"198.18.{n // 256}.{n % 256} 0 0 0 2001:db8:b400:{n:x}::1\n" for n in range(1000))
    (tmp_path / "table.txt").write_text("".join(rows))
    for example in COMMAND.findall(page.read_text(encoding="utf-8")):
        _, *words = shlex.split(example.replace("\\\n", " "))
        done = v6t(*words, *options.get(words[0], []))
        assert done.status == 0, f"{example}\n{done.err}"


def test_commands_that_are_not_executed_are_valid():
    """The reason of the block names the test or target that runs the command."""
    for block in (b for page in list_pages() for b in read_blocks(page)):
        if not block.reason or block.language != "console":
            continue
        files = re.findall(r"\b(?:tests|tools)/[\w/]+\.py\b", block.reason)
        assert files or re.search(r"\bmake [\w-]+", block.reason), block.place
        assert all((CHECKOUT / file).is_file() for file in files), block.place
        for command in read_commands(block):
            program, *arguments = shlex.split(command.words, comments=True)
            if program == "v6t":
                parse(arguments)


SHOWN = {
    CHECKOUT / "README.md": (
        *("run", "--plugin", "mape-br", "--tester", "sim", "--no-report", "-o", "out"),
        *("--set-tester", "tester_fps=90000", "--set-tester", "capacity_fps=2000000"),
    ),
    DOCS / "trex.md": ("selftest", "--plugin", "mape-br", "--tester", "sim", "--mode", "forward"),
}
"""Simulated commands whose output resembles that of a page's first command that is not executed."""


def mask_numbers(text: str) -> set[str]:
    """Return the lines without numbers and spaces."""
    lines = (re.sub(r"[\d.,]+%?|(?<= )-(?= )|(?<= )-$", "N", line) for line in text.splitlines())
    return {" ".join(line.split()) for line in lines}


@pytest.mark.parametrize("page", SHOWN, ids=format_path)
def test_shown_output_has_the_structure_of_a_simulated_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t(*SHOWN[page])
    printed = mask_numbers(f"{done.out}\n{done.err}")
    invalid = mask_numbers(
        "1 trials, 1 of them invalid (fault of the tester, not of the device), not counting checks and self-tests"
    )
    outputs = [
        "\n".join(line for command in read_commands(b) for line in command.output)
        for b in read_blocks(page)
        if b.language == "console" and b.reason
    ]
    texts = [b.text for b in read_blocks(page) if b.language == "text"]
    outputs += [text for text in texts if "median fps" in text]
    shown = set().union(*map(mask_numbers, outputs))
    assert shown
    assert shown - printed - invalid == set()


def test_init_writes_example_run_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert v6t("init").status == 0
    assert (tmp_path / "run.yaml").read_text() == (EXAMPLES_DIR / "run.yaml").read_text()
    assert v6t("run", "run.yaml", "--testbed", "testbed.yaml", "--dry-run").status == 0


def test_pages_have_no_private_paths_and_claim_no_compliance():
    words = re.compile(r"/(?:home|work|srv|root|tmp)/\w|RFC-compliant|compliant with RFC 8219")
    matches = {format_path(p): words.findall(p.read_text(encoding="utf-8")) for p in list_pages()}
    assert {page: texts for page, texts in matches.items() if texts} == {}


def test_messages_quoted_by_troubleshooting_are_in_code():
    """The text between the quoted pieces may vary."""
    files = [f for room in FOLDERS for f in sorted((CHECKOUT / room).rglob("*.py"))]
    source = "\n".join(f.read_text(encoding="utf-8") for f in [*files, CHECKOUT / "Makefile"])
    source = re.sub(r'"\s*\n\s*(?:\+ )?f?"', "", source)  # sentences over several lines
    page, quoted = (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), []
    for row in re.findall(r"^\| (?!you see|reason|---)(.+?) \|", page, re.MULTILINE):
        quoted += re.findall(r"`([^`]+)`", row)
    assert len(quoted) > 20
    for message in quoted:
        for piece in message.split("..."):
            assert piece.strip() in source, f"'{message}': {piece!r} is not in the code"
