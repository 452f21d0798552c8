"""Audit Jool in a virtual machine.

``python -m v6t.tests.jool.audits PLUGIN DIRECTORY [plain]`` writes the files of ``v6t audit``. With ``plain``, it
audits the default configuration only; each further one takes more than a minute.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from v6t.audit.auditor import AuditProgress, AuditRequest, choose_clauses, run_audit
from v6t.core.audit_device import RunDevice
from v6t.core.audit_output import make_record, write_audit
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.duts.kinds.jool import MAPT, Jool, choose_program
from v6t.tests.jool.builds import find_mapt_build
from v6t.tests.jool.image import JOOL
from v6t.tests.jool.vm import MachineDut, SharedLinuxMachine

# longer than the defaults: an emulated machine is slow
LISTENING_S = {"wait_s": 0.6, "quiet_s": 0.15}


@contextmanager
def use_machine(shared: SharedLinuxMachine) -> Iterator[None]:
    """Audit Jool in one shared machine, and stop the machine on exit."""

    def audited_device(driver: Jool, technology: Any, intent: Any, build: Any) -> MachineDut:
        del technology, build
        return MachineDut(driver, intent, shared)

    Jool.audited_device = audited_device  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        shared.stop()


def audit_jool(plugin: str, directory: Path, *, variants: bool) -> None:
    """Audit all configurations, or the default one, and write the results."""
    setup = resolve_setup(plugin=plugin, dut="jool")
    image = JOOL.get_image()
    files = find_mapt_build().list_files(image) if choose_program(setup.intent) == MAPT else ()
    device, selection = choose_clauses(RunDevice(setup), (), setup.settings.params)
    progress, started = AuditProgress(), time.monotonic()
    with use_machine(SharedLinuxMachine(image, files)):
        run_audit(device, selection, AuditRequest(variants=variants, **LISTENING_S), progress)
    suites = [suite.name for suite in selection.suites]
    seconds = time.monotonic() - started
    write_audit(make_record(setup, "jool", suites, seconds, progress), progress.frames, directory)


if __name__ == "__main__":
    audit_jool(sys.argv[1], Path(sys.argv[2]), variants="plain" not in sys.argv[3:])
