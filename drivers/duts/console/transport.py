"""The way to a device that has no shell: commands are this machine's, and ``box`` is the device."""

from __future__ import annotations

import logging
import shlex
import shutil
import tempfile
from pathlib import Path

from v6t.drivers.duts.console.box import SOCKET
from v6t.drivers.duts.console.broker import Broker
from v6t.drivers.duts.console.dialogue import Dialogue
from v6t.drivers.duts.console.manners import Manners
from v6t.drivers.transport.contract import ConnectionLost, Output
from v6t.drivers.transport.here import HereTransport
from v6t.drivers.transport.openssh import SshTransport

WHOLE_DEADLINE_S = 1800.0
"""Of commands without a deadline of their own: each line typed in them has one."""


class ConsoleTransport(HereTransport):
    """Shell lines run here, with the function ``box``; one login to the device is open meanwhile.

    A lock, an undo record and a timer lie on this machine, then, and end with it or with the login.
    """

    log_level = logging.DEBUG
    """What the device is sent are the lines of the dialogue, which are logged by themselves."""

    def __init__(self, way: SshTransport, manners: Manners, prelude: str) -> None:
        """Remember; nothing is opened.

        Args:
            way: to the device.
            manners: of its command line.
            prelude: defines ``box``.
        """
        super().__init__(way.name)
        self._function = prelude
        self._way = way
        self._manners = manners
        self._dialogue: Dialogue | None = None
        self._broker: Broker | None = None
        self._place: Path | None = None

    def open(self) -> None:
        """Log in and wait for the prompt."""
        self.close()
        try:
            self._way.open()
            self._dialogue = Dialogue(self.name, self._way.terminal(), self._manners)
            self._dialogue.begin()
            self._place = Path(tempfile.mkdtemp(prefix="v6t-box-"))
            path = self._place / "s"
            self._broker = Broker(self._dialogue, path, self._manners.idle_s)
            self._prelude = f"{SOCKET}={shlex.quote(str(path))}; export {SOCKET}\n{self._function}"
        except BaseException:
            self.close()
            raise

    def run(self, command: str, text: str = "", deadline_s: float | None = None) -> Output:
        """See :class:`v6t.drivers.transport.contract.Transport`; without a login nothing is run."""
        if self._gone():
            raise ConnectionLost(f"{self.name}: not connected", code="connection-lost")
        done = super().run(command, text, deadline_s or WHOLE_DEADLINE_S)
        if self._gone():
            raise ConnectionLost(
                done.words, "the effect of the last line is unknown", code="connection-lost"
            )
        return done

    def close(self) -> None:
        """Hang up. May be called twice."""
        if self._broker is not None:
            self._broker.close()
        if self._dialogue is not None:
            self._dialogue.close()
        self._broker = self._dialogue = None
        self._way.close()
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    def _gone(self) -> bool:
        return self._dialogue is None or not self._dialogue.alive
