"""One run at a time per device: a lock on the device, held by a process that ends with its owner.

The lock is a symbolic link, made in one atomic step, whose target says who holds it. The process
that made it waits for the end of its standard input, so that a lost connection gives it back. Its
owner is heard of every few seconds: after a silence the lock is given back, too, since the device
may never notice the end of a connection whose other end has lost its power.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time

from v6t.base.errors import DutError
from v6t.drivers.transport.contract import ON_DEVICE, ConnectionLost, Held, Transport

LOCK, BEAT = "lock", "beat"
HELD_NAMES = (LOCK, BEAT)
"""What a held lock consists of in the directory."""
PART = ", part "
"""Stands in the owner before the name of a chain's part."""
TIMER = "the device's own timer, which undoes what a lost v6t did"
"""Who holds it while nobody else does."""
WAIT_S = 15.0
TRIES = 40
SILENCE_S = 30
BEAT_S = 5.0


class Busy(DutError):
    """Another v6t, or the device's own timer, is at work on the device."""


_ALIVE = '{ [ -e "/proc/$pid/comm" ] || ps -p "$pid" >/dev/null 2>&1; }'
"""BusyBox's ps knows no single process, and OpenBSD has no /proc."""
_OWNED = """\
owned() {
w=$1; while :; do
set -- $(ls -ldn "$w"); case "$1" in d*|l*) ;; *) echo "$w is not a directory"; return;; esac
case "$3" in 0|"$u") ;; *) echo "$w belongs to user $3"; return;; esac
case "$1" in l*) ;; ?????w???[!tT]*|????????w[!tT]*) echo "others may write to $w"; return;; esac
[ "$w" != / ] || return; w=${w%/*}; w=${w:-/}
done; }
"""
"""Whose directory it is, and those above it: the first that somebody else could change."""


def lock_script(directory: str, owner: str) -> str:
    """Shell lines that take the lock, print ``locked`` or why not, and wait.

    ``busy PID OWNER``: somebody holds it; ``foreign WHY``: the directory is not ours alone.
    """
    d, who = shlex.quote(directory), shlex.quote(owner)
    return (
        f"umask 077; d={d}; who={who}; me=$$; u=$(id -u); n=0; last=; idle=0; mkdir -p $d || exit 1\n"
        + _OWNED
        + 'case "$(ls -ldn $d)" in d*) ;; *) echo "foreign $d is not a directory"; exit 0;; esac\n'
        'bad=$(owned "$d"); [ -n "$bad" ] || bad=$(owned "$(cd $d && pwd -P)")\n'
        '[ -z "$bad" ] || { echo "foreign" $bad; exit 0; }\n'
        "chmod 700 $d || exit 1\n"
        'mine() { [ "$(readlink $d/lock)" = "$me $who" ]; }\n'
        'until ln -s "$me $who" $d/lock 2>/dev/null; do '
        f"held=$(readlink $d/lock); pid=${{held%% *}}; n=$((n + 1)); [ $n -gt {TRIES} ] && exit 1; "
        # our own earlier connection, which is about to notice its end
        f'if [ "${{held#* }}" = "$who" ]; then [ $n -lt {TRIES // 2} ] || kill $pid; sleep 0.1; '
        f'elif [ -n "$held" ] && {_ALIVE}; then echo "busy $held"; exit 0; '
        'elif [ -n "$held" ]; then rm -f $d/lock; else sleep 0.1; fi; done\n'
        "echo 0 >$d/beat\n"
        "( while sleep 1; do mine || exit 0; now=$(cat $d/beat); "
        'if [ "$now" != "$last" ]; then last=$now; idle=0; else idle=$((idle + 1)); fi; '
        f"[ $idle -lt {SILENCE_S} ] || {{ kill $me; sleep 1; mine && rm -f $d/beat $d/lock; exit 0; }}; "
        "done ) </dev/null >/dev/null 2>&1 &\n"
        "w=$!; free() { kill $w 2>/dev/null; mine && rm -f $d/beat $d/lock; exit 0; }\n"
        "trap free HUP TERM PIPE\n"  # PIPE: nobody reads any more what is said next
        "echo locked; n=0; while read -r x; do n=$((n + 1)); echo $n >$d/beat; echo $n; done; free"
    )


def held_by(directory: str, owner: str) -> str:
    """Shell line that succeeds while this owner has the lock: whoever slept may no longer have it."""
    held, who = f"$(readlink {shlex.quote(directory + '/' + LOCK)})", shlex.quote(owner)
    return f'case "{held}" in *" "{who}) ;; *) false;; esac'


class Lock:
    """The lock while it is held."""

    def __init__(
        self, transport: Transport, directory: str, owner: str, beat_s: float = BEAT_S
    ) -> None:
        """Take it.

        Args:
            transport: an open connection.
            directory: of v6t's state on the device.
            owner: who takes it, one line.
            beat_s: how often the device hears of us [s].

        Raises:
            DutError: another v6t has it, or the directory cannot be made or is not ours alone.
        """
        self._held: Held = transport.hold(lock_script(directory, owner))
        try:
            answer = self._held.line(WAIT_S)
        except ConnectionLost as exc:
            self._held.release()
            raise DutError(
                f"{transport.name}: {directory} cannot be made or locked {transport.where}",
                "log in as root, or set ssh.become to 'sudo -n' or 'doas -n'"
                if transport.where == ON_DEVICE
                else "name a directory of your own with dut.options.state_dir",
                code="missing-permission",
            ) from exc
        except DutError:
            self._held.release()
            raise
        if answer != "locked":
            self._held.release()
            _refused(transport, directory, answer, owner)
        self._beats = Beats(self._held, beat_s)

    @property
    def silent_s(self) -> float:
        """For how long the device has not heard of us [s]; infinite when the lock is lost."""
        return self._beats.silent_s

    def await_sign(self, patience_s: float) -> bool:
        """Ask the device for a sign of life; whether it gave one, however long it was silent before."""
        return self._beats.await_sign(patience_s)

    def release(self) -> None:
        """Give it back. May be called twice."""
        self._beats.stop()
        self._held.release()


def _refused(transport: Transport, directory: str, answer: str, owner: str) -> None:
    name = transport.name
    what, _, text = answer.partition(" ")
    if what == "foreign":
        raise DutError(
            f"{name}: {directory} is not for v6t alone: {text}",
            "v6t would run its content as root; name another one with dut.options.state_dir",
            code="device-busy",
        )
    pid, _, who = text.partition(" ")
    run, _, part = who.partition(PART)
    if part and run == owner.partition(PART)[0]:
        raise DutError(
            f"{name}: the part {part} of the same run is on this machine already, by another name",
            "write both ways to it alike, or give one a directory of its own with its option state_dir",
            code="device-busy",
        )
    ends = (
        "seconds"
        if who == TIMER
        else f"its end; if it hangs, `kill {pid}` {transport.where} frees the lock"
    )
    raise Busy(
        f"{name} is in use by {who or 'another v6t'}", f"wait for {ends}", code="device-busy"
    )


class Beats:
    """A line to the lock's process every few seconds, and its answer, in a thread of its own."""

    def __init__(self, held: Held, period_s: float) -> None:
        """Begin.

        Args:
            held: the lock's process.
            period_s: between two lines [s].
        """
        self._held = held
        self._period_s = period_s
        self._end = threading.Event()
        self._wake = threading.Event()
        self._news = threading.Condition()
        self._sent: dict[str, float] = {}
        self._last = _now()
        self._longest = 0.0
        self._thread = threading.Thread(target=self._beat, name="v6t-beat", daemon=True)
        self._thread.start()

    @property
    def silent_s(self) -> float:
        """The longest time the device may not have heard of us so far [s].

        It counts what was answered: a connection without its other end takes lines for long. And
        this machine may have slept.
        """
        if self._held.ended:
            return float("inf")
        return max(self._longest, _now() - self._last)

    def await_sign(self, patience_s: float) -> bool:
        """Have a line sent at once, and wait for the answer to what was sent since; whether it came."""
        began = _now()
        self._wake.set()
        with self._news:
            self._news.wait_for(lambda: self._last >= began or self._held.ended, patience_s)
        return self._last >= began

    def stop(self) -> None:
        """No line is sent any more when this returns."""
        self._end.set()
        self._wake.set()
        self._thread.join()

    def _beat(self) -> None:
        number = 0
        while True:
            self._wake.wait(self._period_s)
            self._wake.clear()
            if self._end.is_set():
                return
            number += 1
            self._sent[str(number)] = _now()
            with contextlib.suppress(DutError):  # who asks is told
                self._held.send("beat\n")
                while not self._end.is_set():
                    sent = self._sent.pop(self._held.line(self._period_s), None)
                    if sent is not None:
                        self._longest = max(self._longest, _now() - self._last)
                        self._last = sent
                    if not self._sent:
                        break
            with self._news:
                self._news.notify_all()


def _now() -> float:
    """Seconds, those included in which this machine slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
