"""A dead man's timer on the device: it undoes everything when nobody has been heard of for long.

A configuration can cut off the very session that makes it. So a process on the device watches for
signs of life of the v6t that holds the lock, counts seconds without any, and then runs ``undo.sh``.
Whoever wants the configuration to stay says so, and the process ends.
"""

from __future__ import annotations

import secrets
import shlex

from v6t.base.errors import DutError
from v6t.drivers.duts.lock import BEAT, LOCK, TIMER
from v6t.drivers.duts.undo_record import SCRIPT
from v6t.drivers.transport.contract import Transport

GUARD = "guard"
RETRIES = 3


def start(transport: Transport, directory: str, limit_s: int) -> None:
    """Start the timer and see it run.

    Args:
        transport: an open connection, whose lock is held.
        directory: of v6t's state on the device; the undo record is there.
        limit_s: undo after so many seconds of silence.

    Raises:
        DutError: it does not run.
    """
    token = secrets.token_hex(8)
    place = shlex.quote(f"{directory}/{GUARD}")
    command = (
        f"umask 077; {_drop(directory)}; mkdir {place} && echo {token} >{place}/token && "
        f"cat >{place}/timer.sh || exit 1; s=$(command -v setsid); "
        f"$s sh {place}/timer.sh </dev/null >/dev/null 2>&1 & "
        f"n=0; while [ $n -lt 50 ]; do p=$(cat {place}/pid 2>/dev/null) && kill -0 $p && exit 0; "
        f"n=$((n+1)); sleep 0.1; done; exit 1"
    )
    done = transport.run(command, script(directory, token, limit_s))
    if done.status:
        raise DutError(
            f"{transport.name}: cannot start the rollback timer: {done.words}",
            "nothing was changed; dut.options.undo_after_s: 0 works without a timer",
            code="rollback-timer-failed",
        )


def stop(transport: Transport, directory: str) -> None:
    """The configuration stays, whatever becomes of this session.

    Raises:
        DutError: the timer could not be stopped.
    """
    done = transport.run(f"{_drop(directory)}; [ ! -e {shlex.quote(directory)}/{GUARD} ]")
    if done.status:
        raise DutError(
            f"{transport.name}: the timer on the device cannot be stopped: {done.words}",
            code="rollback-timer-failed",
        )


def fired(transport: Transport, directory: str) -> str:
    """What the timer did, in its own words; empty if it has done nothing."""
    path = shlex.quote(f"{directory}/{GUARD}/fired")
    return transport.run(f"cat {path} 2>/dev/null; true").out.strip()


def _drop(directory: str) -> str:
    """Shell line that takes the timer away: renamed first, so that it cannot write on."""
    d = shlex.quote(directory)
    return f"[ ! -e {d}/{GUARD} ] || {{ mv {d}/{GUARD} {d}/{GUARD}.$$ && rm -rf {d}/{GUARD}.$$; }}"


def script(directory: str, token: str, limit_s: int) -> str:
    """Text of the timer. It counts its own sleeps: no clock that somebody steps has a say."""
    return f"""\
#!/bin/sh
# runs {SCRIPT} when the v6t that configured this device has been silent for {limit_s} s
trap '' HUP PIPE
umask 077
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL
cd {shlex.quote(directory)} || exit 1
mine() {{ [ "$(cat {GUARD}/token 2>/dev/null)" = {token} ]; }}
mine && echo $$ >{GUARD}/pid
last=; idle=0; tries=0
while sleep 1; do
mine || exit 0
now=$(cat {BEAT} 2>/dev/null)
if [ "$now" != "$last" ]; then last=$now; idle=0; else idle=$((idle + 1)); fi
[ $idle -ge {limit_s} ] || continue
held=$(readlink {LOCK}) && {{
kill ${{held%% *}} 2>/dev/null; sleep 1
[ "$(readlink {LOCK})" != "$held" ] || {{ kill -9 ${{held%% *}} 2>/dev/null; rm -f {LOCK}; }}
}}
ln -s "$$ "{shlex.quote(TIMER)} {LOCK} || {{ idle=0; continue; }}
if mine; then
sh {SCRIPT} >{GUARD}/said 2>&1 && how=everything || how="not everything, see {GUARD}/said"
echo "nobody was heard of for {limit_s} s: undid $how" >{GUARD}/fired
fi
rm -f {LOCK}
tries=$((tries + 1)); idle=0
[ "$how" != everything ] && [ $tries -lt {RETRIES} ] || exit 0
done
"""
