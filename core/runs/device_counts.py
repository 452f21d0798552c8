"""What a driven device counted over each benchmark: read before its first trial and after its last.

Nothing is read while frames are sent, and one reading serves as the end of one and the beginning of the next,
unless the device was given frames of neither in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from v6t.base.errors import V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.shape import shaped

KEY = "device"
"""Of ``results.json``."""
WHERE = ("device", "benchmark", "frame_sizes", "direction")


class DeviceCounts:
    """Collects them; a device that cannot be read has none."""

    def __init__(self, held: Iterable[Mapping[str, Any]]) -> None:
        """Begin.

        Args:
            held: entries of the run so far: what is measured again replaces its own.
        """
        self._entries = {_key(entry): dict(entry) for entry in held}
        self._before: Mapping[str, Any] | None = None
        self._begun = False

    @property
    def entries(self) -> list[dict[str, Any]]:
        """One for each device and benchmark at a point."""
        return list(self._entries.values())

    def begin(self, session: DeviceSession | None) -> None:
        """Read the devices, unless that was done after the benchmark before; at its first trial.

        Args:
            session: with the devices, configured; None: nobody drives them.
        """
        self._begun = True
        if self._before is None:
            self._before = _read(session)

    def other_frames(self) -> None:
        """Forget the first counts: the devices are given frames of no benchmark."""
        if not self._begun:
            self._before = None

    def end(self, session: DeviceSession | None, where: Mapping[str, Any]) -> None:
        """Read them again, if any trial was made.

        Args:
            session: with the devices.
            where: benchmark, frame sizes and direction.
        """
        if not self._begun or self._before is None:
            return
        after = _read(session)
        for name in self._before.keys() & after.keys():
            entry = {"device": name, **where, **_counted(self._before[name], after[name])}
            self._entries[_key(entry)] = entry
        self._before, self._begun = after, False


def _key(entry: Mapping[str, Any]) -> str:
    return repr([entry[name] for name in WHERE])


def _read(session: DeviceSession | None) -> dict[str, Any]:
    found = {}
    for name, device in session.devices() if session is not None else ():
        with contextlib.suppress(V6tError, OSError):
            found[name] = device.read()
    return found


def _counted(before: Any, after: Any) -> dict[str, Any]:
    """Losses in between, and the table at both ends."""
    told = shaped([before, after])
    tables = {"before": shaped([before]).table, "after": shaped([after]).table}
    return {
        "seconds": told.seconds,
        "drops": told.drops,
        "lost_for": {name: why.value for name, why in told.lost_for.items()},
        "table": {when: table for when, table in tables.items() if table},
    }
