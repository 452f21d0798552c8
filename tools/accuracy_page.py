"""Tables of ``docs/accuracy.md``: accuracy of the testers, planted faults, comparison with other testers."""

import json
import re
from collections.abc import Iterator

from v6t.analysis.report.render import to_markdown
from v6t.tests.drivers import fault_injection
from v6t.tools import peers
from v6t.tools.accuracy.record import AccuracyRecord
from v6t.tools.accuracy.report import make_document
from v6t.tools.record_files import load_record

RECORDED = fault_injection.RECORD.parent


def load_accuracy_records() -> Iterator[AccuracyRecord]:
    """Load the records of all testers whose accuracy was measured."""
    for tester in fault_injection.TESTERS:
        path = RECORDED / f"accuracy-{tester}.json"
        if path.exists():
            yield AccuracyRecord.model_validate(json.loads(path.read_text(encoding="utf-8")))


def render_accuracy() -> str:
    """Return a chapter for each tester."""
    chapters = [to_markdown(make_document(record)).rstrip() for record in load_accuracy_records()]
    return re.sub(r"^#", "###", "\n\n".join(chapters), flags=re.MULTILINE)


def render_faults() -> str:
    """Return how often each planted fault was found, by tester."""
    recorded = load_record(fault_injection.RECORD)
    lines = ["| planted | must be said | embedded tester | TRex |", "|---|---|---|---|"]
    for fault in fault_injection.ALL:
        keys = [f"{tester} {fault.name}" for tester in fault_injection.TESTERS]
        cells = [format_finding(recorded.get(key)) for key in keys]
        lines.append(f"| {fault.words} | {fault.says} | {' | '.join(cells)} |")
    return "\n".join(lines)


def render_peers() -> str:
    """Return the comparison with other testers."""
    return "\n".join(peers.render_table())


def format_finding(recorded: dict[str, str] | None) -> str:
    """Return how often a fault was found, and when."""
    return f"{recorded['found']} of {recorded['of']}, {recorded['date']}" if recorded else "not run"
