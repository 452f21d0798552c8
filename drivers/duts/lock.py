"""One run at a time per device: a lock on the device, held by a process that ends with its owner.

The lock is a symbolic link, made in one atomic step, whose target says who holds it. The process
that made it waits for the end of its standard input, so that a lost connection gives it back.
"""

from __future__ import annotations

import shlex

from v6t.drivers.transport.contract import ConnectionLost, Held, Transport
from v6t.profiles.errors import DutError

LOCK = "lock"
WAIT_S = 15.0
TRIES = 40


def lock_script(directory: str, owner: str) -> str:
    """Shell lines that take the lock, print ``locked`` or ``busy PID OWNER``, and wait."""
    place, who = shlex.quote(f"{directory}/{LOCK}"), shlex.quote(owner)
    return (
        f"umask 077; mkdir -p {shlex.quote(directory)} || exit 1; me=$$; n=0; "
        f'until ln -s "$me "{who} {place} 2>/dev/null; do '
        f"held=$(readlink {place}); pid=${{held%% *}}; n=$((n + 1)); [ $n -gt {TRIES} ] && exit 1; "
        # our own earlier connection, which is about to notice its end
        f'if [ "${{held#* }}" = {who} ]; then [ $n -lt {TRIES // 2} ] || kill $pid; sleep 0.1; '
        'elif [ -n "$held" ] && ps -p "$pid" >/dev/null 2>&1; then echo "busy $held"; exit 0; '
        f'elif [ -n "$held" ]; then rm -f {place}; else sleep 0.1; fi; done; '
        f"trap 'rm -f {place}; exit 0' HUP TERM; "
        f"echo locked; cat >/dev/null; rm -f {place}"
    )


class Lock:
    """The lock while it is held."""

    def __init__(self, transport: Transport, directory: str, owner: str) -> None:
        """Take it.

        Args:
            transport: an open connection.
            directory: of v6t's state on the device.
            owner: who takes it, one line.

        Raises:
            DutError: another v6t has it, or the directory cannot be made.
        """
        self._held: Held = transport.hold(lock_script(directory, owner))
        try:
            answer = self._held.line(WAIT_S)
        except ConnectionLost as exc:
            self._held.release()
            raise DutError(
                f"{transport.name}: {directory} cannot be made or locked on the device",
                "log in as root, or set ssh.become to 'sudo -n' or 'doas -n'",
            ) from exc
        except DutError:
            self._held.release()
            raise
        if answer != "locked":
            self._held.release()
            _, _, held = answer.partition(" ")
            pid, _, who = held.partition(" ")
            raise DutError(
                f"{transport.name} is in use by {who or 'another v6t'}",
                f"wait for its end; if it hangs, `kill {pid}` on the device frees the lock",
            )

    def release(self) -> None:
        """Give it back. May be called twice."""
        self._held.release()
