"""Jool in its virtual machine between the lab's cables, audited as any other device.

``python -m v6t.tests.jool.audits PLUGIN DIRECTORY`` writes what ``v6t audit`` writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from v6t.core.audit.auditing import Wanted, audit, write
from v6t.core.audit.device import Listening
from v6t.core.config.bound import bind
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve
from v6t.drivers.duts.kinds.jool import Jool
from v6t.tests.jool.image import JOOL
from v6t.tests.jool.vm import MachineDut

LISTENING = Listening(wait_s=0.6, quiet_s=0.15)
"""Without hardware acceleration a virtual machine takes its time."""


def audited(plugin: str, place: Path) -> None:
    """Ask everything in the plugin's own configuration: for each further one a machine would be booted."""
    image = JOOL.image()

    def probed_device(
        driver: Jool, translation: Any, intent: Any, keep: Any = None, say: Any = None
    ) -> MachineDut:
        del translation, keep, say
        return MachineDut(driver, intent, image)

    Jool.probed_device = probed_device  # type: ignore[assignment,method-assign]
    bound = bind(resolve(flags=Flags(plugin, dut="jool")))
    done = audit(bound, Wanted(variants=False, listening=LISTENING), None, print)
    write(done.record, done.frames, place)


if __name__ == "__main__":
    audited(sys.argv[1], Path(sys.argv[2]))
