"""``python -m v6t.tests.drivers.accuracy_page`` writes what was recorded into ``docs/accuracy.md``.

Certificates are files that ``python -m v6t.tools.accuracy`` made, planted faults what ``test_planted.py`` found,
the comparison with other testers what ``peers.py`` measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from v6t.analysis.report.render import to_markdown
from v6t.tools.accuracy.record import Certificate
from v6t.tools.accuracy.report import document

from . import peers, planted

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
RECORDED = Path(__file__).parent / "recorded"
PARTS = ("certificates", "planted faults", "peers")


def certificates() -> Iterator[Certificate]:
    """Of the testers that were certified."""
    for tester in planted.TESTERS:
        path = RECORDED / f"accuracy-{tester}.json"
        if path.exists():
            yield Certificate.model_validate(json.loads(path.read_text(encoding="utf-8")))


def part(name: str) -> str:
    """What stands between the marks of a part."""
    made = {"certificates": _certificates, "planted faults": _planted, "peers": peers.table}
    return "\n".join([_begin(name), "", *made[name](), "", "<!-- end -->"])


def _begin(name: str) -> str:
    return f"<!-- begin {name}: written from what was recorded -->"


def _certificates() -> Iterator[str]:
    for found in certificates():
        # a chapter of this page, not a page of its own
        yield re.sub(r"^#", "###", to_markdown(document(found)), flags=re.MULTILINE).rstrip()
        yield ""


def _planted() -> Iterator[str]:
    ran = planted.recorded()
    yield "| planted | must be said | embedded tester | TRex |"
    yield "|---|---|---|---|"
    for fault in planted.ALL:
        cells = [_found(ran.get(f"{tester} {fault.name}")) for tester in planted.TESTERS]
        yield f"| {fault.words} | {fault.says} | {' | '.join(cells)} |"


def _found(ran: dict[str, str] | None) -> str:
    return f"{ran['found']} of {ran['of']}, {ran['date']}" if ran else "not run"


def generated(text: str) -> str:
    """A page with its parts written anew."""
    for name in PARTS:
        before, _, rest = text.partition(_begin(name))
        text = before + part(name) + rest.partition("<!-- end -->")[2]
    return text


def main() -> None:
    """Write the page."""
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
