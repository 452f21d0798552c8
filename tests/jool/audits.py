"""Jool in its virtual machine between the lab's cables, audited as any other device.

``python -m v6t.tests.jool.audits PLUGIN DIRECTORY`` writes what ``v6t audit`` writes. A further configuration takes more
than a minute there: with a third argument, ``plain``, there are none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from v6t.audit.auditor import AuditProgress, AuditRequest, choose_clauses, run_audit
from v6t.core.audit_device import RunDevice
from v6t.core.audit_output import make_record, write_audit
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.drivers.duts.kinds.jool import MAPT, Jool, choose_program
from v6t.tests.jool.built import built_mapt
from v6t.tests.jool.image import JOOL
from v6t.tests.jool.vm import MachineDut, Standing

LISTENING_S = {"wait_s": 0.6, "quiet_s": 0.15}
"""Without hardware acceleration a virtual machine takes its time."""


@contextmanager
def one_machine(standing: Standing) -> Iterator[None]:
    """Replace the device of every audit by Jool in one machine."""

    def audited_device(driver: Jool, technology: Any, intent: Any, build: Any) -> MachineDut:
        del technology, build
        return MachineDut(driver, intent, standing)

    Jool.audited_device = audited_device  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        standing.end()


def audited(plugin: str, place: Path, *, variants: bool) -> None:
    """Audit all configurations, or the plugin's own one."""
    setup = make_setup(resolve(plugin=plugin, dut="jool"))
    image = JOOL.image()
    files = built_mapt().files(image) if choose_program(setup.intent) == MAPT else ()
    device, selection = choose_clauses(RunDevice(setup), (), setup.settings.params)
    progress, started = AuditProgress(), time.monotonic()
    with one_machine(Standing(image, files)):
        run_audit(device, selection, AuditRequest(variants=variants, **LISTENING_S), progress)
    suites = [suite.name for suite in selection.suites]
    seconds = time.monotonic() - started
    write_audit(make_record(setup, "jool", suites, seconds, progress), progress.frames, place)


if __name__ == "__main__":
    audited(sys.argv[1], Path(sys.argv[2]), variants="plain" not in sys.argv[3:])
