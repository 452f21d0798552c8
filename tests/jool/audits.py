"""Jool in its virtual machine between the lab's cables, audited as any other device.

``python -m v6t.tests.jool.audits PLUGIN DIRECTORY`` writes what ``v6t audit`` writes. A further configuration takes more
than a minute there: with a third argument, ``plain``, there are none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from v6t.core.audit.auditing import Wanted, audit, write
from v6t.core.audit.device import Listening
from v6t.core.config.bound import bind
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve
from v6t.drivers.duts.kinds.jool import MAPT, Jool, program_of
from v6t.tests.jool.built import built_mapt
from v6t.tests.jool.image import JOOL
from v6t.tests.jool.vm import MachineDut, Standing

LISTENING = Listening(wait_s=0.6, quiet_s=0.15)
"""Without hardware acceleration a virtual machine takes its time."""


@contextmanager
def one_machine(standing: Standing) -> Iterator[None]:
    """Whatever is audited as Jool stands in one machine."""

    def probed_device(driver: Jool, translation: Any, intent: Any, keep: Any = None) -> MachineDut:
        del translation, keep
        return MachineDut(driver, intent, standing)

    Jool.probed_device = probed_device  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        standing.end()


def audited(plugin: str, place: Path, *, variants: bool) -> None:
    """Ask everything, or all of the plugin's own configuration."""
    bound = bind(resolve(flags=Flags(plugin, dut="jool")))
    image = JOOL.image()
    files = built_mapt().files(image) if program_of(bound.intent) == MAPT else ()
    with one_machine(Standing(image, files)):
        done = audit(bound, Wanted(variants=variants, listening=LISTENING), None)
    write(done.record, done.frames, place)


if __name__ == "__main__":
    audited(sys.argv[1], Path(sys.argv[2]), variants="plain" not in sys.argv[3:])
