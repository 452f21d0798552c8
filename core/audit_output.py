"""The directory of an audit: record, reports and capture."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from v6t.analysis.report.render import to_html, to_markdown
from v6t.audit.auditor import AuditProgress
from v6t.audit.record import SCHEMA, AuditRecord, make_audit_document, to_junit
from v6t.base.errors import UsageError
from v6t.base.files import report_write_errors, write_atomically
from v6t.core.config.run_setup import RunSetup
from v6t.core.runs.manifest import find_commit, format_utc_now
from v6t.core.runs.rundir import AUDIT, describe_content
from v6t.profiles.exports import write_pcap

# File name of each format of an audit report.
AUDIT_FILES = {"json": AUDIT, "html": "audit.html", "md": "audit.md", "junit": "audit.xml"}
CAPTURE_NAME = "frames.pcap"
_CAPTURE_FPS = 1000.0  # for time stamps in captures; no clause depends on them


@contextmanager
def reserve_directory(out: Path) -> Iterator[None]:
    """Create the output directory, and remove it at the end of the context if it is empty.

    Raises:
        UsageError: the directory cannot be created, or holds a run, a campaign or an audit.
    """
    if content := describe_content(out):
        hint = "give the audit its own directory: -o DIRECTORY"
        raise UsageError(f"{out} holds {content}", hint, code="file-exists")
    with report_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            out.rmdir()


def make_record(
    setup: RunSetup, device: str, suites: Sequence[str], duration_s: float, progress: AuditProgress
) -> AuditRecord:
    """Return the audit record of the clauses tested so far; ``device``: the device's name and version."""
    return AuditRecord(
        schema=SCHEMA,
        version=version("v6t"),
        source_commit=find_commit(),
        made=format_utc_now(),
        plugin=setup.settings.plugin,
        params=json.loads(setup.technology.params.model_dump_json()),
        driver=setup.driver.name,
        device=device,
        suites=list(suites),
        seconds=duration_s,
        planned=progress.planned,
        stopped=progress.stopped,
        findings=progress.findings,
    )


def write_record(record: AuditRecord, out: Path) -> None:
    """Write the audit record, without captures and report.

    Raises:
        OSError: the file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / AUDIT, json.dumps(record.to_json(), indent=1) + "\n")


def write_audit(record: AuditRecord, frames: Sequence[bytes], out: Path) -> None:
    """Write the record, the captures and the report of an audit.

    Raises:
        UsageError: a file cannot be written.
    """
    report = make_audit_document(record)
    texts = {"html": to_html(report), "md": to_markdown(report), "junit": to_junit(record)}
    with report_write_errors(out):
        write_record(record, out)
        for kind, text in texts.items():
            write_atomically(out / AUDIT_FILES[kind], text)
        write_pcap(out / CAPTURE_NAME, frames, _CAPTURE_FPS, overwrite=True)
