"""Jool in its virtual machine between the lab's cables, audited as any other device.

``python -m v6t.tests.jool.audits PLUGIN DIRECTORY`` writes what ``v6t audit`` writes. A further configuration takes more
than a minute there: with a third argument, ``plain``, there are none.
"""

from __future__ import annotations

import subprocess
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
from v6t.drivers.transport.namespace import NamespaceTransport
from v6t.tests.jool.image import JOOL, mapt
from v6t.tests.jool.vm import JoolMachine, MachineDut

LISTENING = Listening(wait_s=0.6, quiet_s=0.15)
"""Without hardware acceleration a virtual machine takes its time."""


class Standing:
    """A machine and its namespaces, for one configuration after the other."""

    host: subprocess.Popen[str] | None = None
    pid = 0
    machine: JoolMachine | None = None

    def end(self) -> None:
        """No further configuration."""
        if self.machine is not None:
            self.machine.stop()
        if self.host is not None:
            self.host.kill()
            self.host.communicate()


class Configured(MachineDut):
    """One configuration: cables are new, the machine is the one that stands."""

    def __init__(self, driver: Any, intent: Any, standing: Standing) -> None:
        image = mapt() if program_of(intent) == MAPT else JOOL
        super().__init__(driver, intent, image.image())
        self._standing = standing

    def namespace(self) -> int:
        """See the base class."""
        standing = self._standing
        if standing.host is None:
            standing.pid = super().namespace()
            standing.host = self._host
        self._pid = standing.pid
        self._await_free()
        return self._pid

    def prepare(self) -> None:
        """See the base class."""
        standing = self._standing
        if standing.machine is None:
            super().prepare()
            standing.machine = self.machine
            return
        lines = [
            f"ip link set dev {s} master br-{s} && ip link set dev {s} up"
            for s in ("left", "right")
        ]
        done = NamespaceTransport(self._pid).run(" && ".join(lines))
        assert done.status == 0, done
        self.machine = self._server = standing.machine

    def _transport(self) -> Any:
        assert self._standing.machine is not None
        return self._standing.machine.transport()

    def close(self) -> None:
        """Restored; the machine goes on."""
        self._server = self._host = None
        super().close()


@contextmanager
def one_machine() -> Iterator[None]:
    """Whatever is audited as Jool stands in one machine."""
    standing = Standing()

    def probed_device(
        driver: Jool, translation: Any, intent: Any, keep: Any = None, say: Any = None
    ) -> MachineDut:
        del translation, keep, say
        return Configured(driver, intent, standing)

    Jool.probed_device = probed_device  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        standing.end()


def audited(plugin: str, place: Path, *, variants: bool) -> None:
    """Ask everything, or all of the plugin's own configuration."""
    bound = bind(resolve(flags=Flags(plugin, dut="jool")))
    with one_machine():
        done = audit(bound, Wanted(variants=variants, listening=LISTENING), None, print)
    write(done.record, done.frames, place)


if __name__ == "__main__":
    audited(sys.argv[1], Path(sys.argv[2]), variants="plain" not in sys.argv[3:])
