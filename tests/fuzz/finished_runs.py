"""Strategies: commands that read finished runs, audits and campaigns with a damaged file."""

import json
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from v6t.audit.record import SCHEMA, AuditFinding, AuditFrame, AuditRecord
from v6t.core.audit_output import write_audit
from v6t.tests.core.support import make_run, v6t

from .inputs import FOLDER, PIPE, TEXTS, ZERO, Input, mutated_octets, mutated_values

CAMPAIGN = """\
name: small
run: {plugin: mape-br, modes: [forward], procedure: {repetitions: 1}}
testbeds:
  model: {tester: {kind: sim, options: {capacity_fps: 400000}}}
experiments:
  - {name: customers, matrix: {params.ces: [64, 128]}}
"""
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "RUN": (
        ("resume", "RUN", "--no-report"), ("resume", "RUN", "--no-report", "--json"),
        ("report", "RUN", "--format", "md"), ("report", "RUN", "--format", "json,junit,csv"),
        ("report", "RUN", "--format", "openmetrics"),
        ("trend", "RUN", "OTHER_RUN", "--json"), ("trend", "OTHER_RUN", "RUN", "--by", "label"),
        ("compare", "RUN", "OTHER_RUN"), ("compare", "OTHER_RUN", "RUN", "--json"),
        ("init", "--from-run", "RUN", "--dir", "made"), ("dut", "plan", "RUN"),
    ),
    "AUDIT": (
        ("compare", "AUDIT", "OTHER_AUDIT"), ("compare", "OTHER_AUDIT", "AUDIT", "--json"),
        ("compare", "OTHER_AUDIT", "AUDIT", "-o", "made.html"), ("trend", "AUDIT"), ("report", "AUDIT"),
    ),
    "CAMPAIGN": (
        ("campaign", "--resume", "CAMPAIGN", "--no-report"), ("trend", "CAMPAIGN"),
        ("report", "CAMPAIGN", "--figures", "none", "--format", "md,json,csv"),
    ),
}  # fmt: skip
"""Commands that read the directory named by the key."""
DAMAGED_FILES: dict[str, tuple[str, ...]] = {
    "RUN": (
        "results.json", "results.json", "manifest.json", "manifest.json", "config.json", "config.json",
        "journal.jsonl", "journal.jsonl", "results.csv", "trials.csv", "log.txt", ".lock",
        "tester-capacity.json", "bottleneck.json", "dut-undo.json",
    ),
    "AUDIT": ("audit.json", "audit.json", "audit.json", "audit.xml", "frames.pcap"),
    "CAMPAIGN": (
        "campaign.json", "campaign.json", "campaign.json", "summary.json", "failures/001-customers-64.json",
        "001-customers-64/results.json", "002-customers-128/manifest.json", "001-customers-64/config.json",
        "002-customers-128/journal.jsonl",
    ),
}  # fmt: skip
"""Files to damage, by directory; important files occur several times."""
for _word in ("QUERIES", "MODIFIED"):  # runs of queries, and with modified traffic
    READERS[_word] = tuple(tuple(_word if w == "RUN" else w for w in ws) for ws in READERS["RUN"])
    DAMAGED_FILES[_word] = ("journal.jsonl", *DAMAGED_FILES["RUN"][:9])
MODIFIED = {"times": 2, "right": 1, "slowest_s": 0.1, "what": "a route", "why": "too late"}


@cache
def make_finished_runs() -> dict[str, dict[str, bytes]]:
    """Return the files of finished runs, audits and campaigns by directory and name."""
    with tempfile.TemporaryDirectory(prefix="v6t-fuzz-") as name:
        root = Path(name)
        make_run(root / "RUN", "throughput", procedure={"repetitions": 1})
        write_audit(_make_audit_record(), [b"\1" * 60] * 2, root / "AUDIT")
        sim = ("--tester", "sim", "--reps", "1", "--no-report", "-o")
        runs = (
            ("QUERIES", "dns64", ()),
            ("MODIFIED", "siit", ("--measure", "throughput,latency,pdv", "--modifier", "routing")),
        )
        for word, plugin, more in runs:
            done = v6t("run", "--plugin", plugin, *more, *sim, root / word)
            assert done.status == 0, done
        _add_modifier_result(root / "MODIFIED/journal.jsonl")
        (root / "campaign.yaml").write_text(CAMPAIGN)
        words = ("--no-report", "-o", root / "CAMPAIGN")
        done = v6t("campaign", root / "campaign.yaml", *words)
        assert done.status == 0, done
        return {word: _read_files(root / word) for word in DAMAGED_FILES}


def _add_modifier_result(path: Path) -> None:
    """Insert the result of a modifier, which the simulated device does not produce."""
    lines = []
    for line in path.read_bytes().splitlines():
        entry = json.loads(line.split(b" ", 1)[1])
        entry["result"]["modifier"] = MODIFIED
        lines.append(_format_journal_line(entry))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _format_journal_line(entry: Any) -> bytes:
    """Format a line of a journal with its checksum."""
    body = json.dumps(entry).encode(errors="surrogatepass")
    return f"{zlib.crc32(body):08x} ".encode() + body


def _read_files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def _make_audit_record() -> AuditRecord:
    def finding(name: str, verdict: Any) -> AuditFinding:
        frames = [AuditFrame(side="left", sent=n == 1, octets="01" * 60, number=n) for n in (1, 2)]
        return AuditFinding(
            clause=name, rfc="RFC 7915", section="4.1", level="MUST", title="does it", variant="",
            verdict=verdict, sent="a frame", expected="one", got="none", tries=1, frames=frames,
        )  # fmt: skip

    return AuditRecord(
        schema=SCHEMA, version="0.1.0", source_commit=None, made="2026-11-22T12:00:00Z", plugin="siit",
        params={"prefix": "64:ff9b::/96"}, driver="tayga", device="tayga 0.9.2", suites=["translation"],
        seconds=1.0, planned=2, stopped="", findings=[finding("a", "conforms"), finding("b", "deviates")],
    )  # fmt: skip


@st.composite
def damaged_directories(draw: Any, word: str) -> Input:
    """Draw commands that read a directory in which one file is damaged."""
    name = draw(st.sampled_from(DAMAGED_FILES[word]))
    text = make_finished_runs()[word].get(name, b"")
    return Input(draw(st.sampled_from(READERS[word])), {}, {name: draw(edited_files(name, text))})


SIMULATED_RUN = (
    *("run", "--plugin", "mape-br", "--tester", "sim", "--reps", "1", "--mode", "forward"),
    *("--set-procedure", "resolution_fps=50000"),
)
PLACES = st.sampled_from((".", "/dev/null", "/proc", "/proc/self/x", "made", "a/b/c"))
OUTPUTS = st.one_of(TEXTS, PLACES)
LIVE = st.one_of(TEXTS, st.sampled_from(
    ("127.0.0.1:0", "[::1]:0", "[::1", "127.0.0.1:-1", "127.0.0.1:99999", "192.0.2.1:0", "1e3", "::")
))  # fmt: skip


@st.composite
def simulated_runs(draw: Any) -> Input:
    """Draw runs with the simulated tester, and audits, with unusual flags."""
    kind = draw(st.integers(0, 7))
    if kind < 4:
        words = [*SIMULATED_RUN, "-o", draw(OUTPUTS)]
        if kind == 1:
            words += ["--live", draw(LIVE)]
        elif kind == 2:
            words += ["--audit", draw(st.one_of(st.sampled_from(("warn", "refuse")), TEXTS))]
        elif kind == 3:
            words += ["--label", draw(TEXTS), "--json"]
        return Input((*words, "--no-report"))
    if kind == 4:
        return Input(("selftest", "--tester", "sim"))
    plugin = draw(st.sampled_from(("siit", "nat44", "mape-br", "ipv4-router")))
    words = ["audit", "--plugin", plugin]
    if kind == 5:  # no such interface: nothing is sent
        ports = f"v6tnone0,v6tnone{draw(st.text(max_size=3))}"
        words += ["--interfaces", ports, "-o", draw(OUTPUTS)]
        return Input((*words, "--wait", str(draw(TEXTS))))
    if draw(st.booleans()):
        suites = st.sampled_from(("translation", "nat", "relay"))
        words += ["--suite", draw(st.one_of(suites, TEXTS))]
    if draw(st.booleans()):
        words += ["--clause", draw(TEXTS)]
    return Input((*words, "--list", *(("--json",) if kind == 7 else ())))


@st.composite
def edited_files(draw: Any, name: str, text: bytes) -> bytes | str:
    """Draw an edited file of a run; a journal's lines keep their checksums."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from((PIPE, ZERO, FOLDER)))
    if kind < 3 or not name.endswith((".json", ".jsonl")):
        return draw(mutated_octets(text))
    if name.endswith(".jsonl"):
        return draw(edited_journals(text))
    value = draw(mutated_values((json.loads(text or b"{}"),), 2))
    return json.dumps(value).encode(errors="surrogatepass")


@st.composite
def edited_journals(draw: Any, text: bytes) -> bytes:
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        entry = json.loads(lines[at].split(b" ", 1)[1])
        lines[at] = _format_journal_line(draw(mutated_values((entry,), 2)))
    return b"\n".join(lines) + b"\n"
